//! `fdr view -o`: the file has what its help says, and no value that the program recorded, wherever a trace keeps values.

use std::fs::{self, File};
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fdr_formats::identity::Part;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{ERROR, Field, FieldValue, Note, RESULT};
use fdr_formats::xray::XrayWriter;
use fdr_formats::{CpuId, Mark, Sink, Ticks, TraceInfo};
use serde_json::Value;

use crate::common::{self, Folder, answer, assert_contains, calls, event, named, thread};

/// Part of each value of the trace.
const VALUE: &str = "canary";
const NUMBER: u64 = 987_654_321_987;

/// A trace with values in every place that can have some: arguments, results, errors, events, spans, tasks, payloads of
/// other programs, the reason, and the identity. One of 40 calls is slow.
fn full_of_values(path: &str, reason: &str) {
    let info = info_with_values(reason);
    let mut writer = common::writer(path, &info);
    writer.thread(&thread(7, "main"));
    writer.calls(&calls(&[(1000, 1)]));
    for nth in 0..40_u64 {
        let (begin, long) = (10_000 + nth * 10_000, nth == 39);
        let end = begin + if long { 5_000_000 } else { 1000 };
        write_call(&mut writer, begin, end);
    }
    writer.calls(&calls(&[(6_000_000, -1)]));
    writer.finish().expect("a trace");
}

fn info_with_values(reason: &str) -> TraceInfo {
    let functions = [
        (1, "app::run", FunctionKind::Calls),
        (2, "app::login", FunctionKind::Calls),
        (3, "accepted", FunctionKind::Event),
        (4, "password", FunctionKind::Name),
        (5, "app::span", FunctionKind::Calls),
    ];
    let mut info = TraceInfo {
        functions: named(&functions),
        program: "app".to_owned(),
        reason: reason.to_owned(),
        ..TraceInfo::default()
    };
    for part in [Part::Host, Part::Build, Part::Version] {
        info.identity.set(part, VALUE);
    }
    info.identity.set(Part::Tags, "key=canary");
    info
}

const TEXT: FieldValue<'_> = FieldValue::Text(b"canary text", 11);

/// Arguments, the result, and the error of a call.
fn arguments(function: u32) -> Note<'static> {
    let field = |place, value| Field {
        name: 4,
        place,
        value,
    };
    let fields = vec![
        field(0, TEXT),
        field(1, FieldValue::Unsigned(NUMBER)),
        field(2, FieldValue::Bytes(b"canary", 6)),
        field(ERROR, TEXT),
        field(RESULT, TEXT),
    ];
    Note::Arguments { function, fields }
}

fn write_note(writer: &mut XrayWriter<File>, time: u64, note: &Note<'_>) {
    writer.mark(&Mark::Note {
        time: Ticks(time),
        kind: note.kind(),
        body: &note.encode().expect("a note within bounds"),
    });
}

/// A call with a span inside, which has an event and payloads.
fn write_call(writer: &mut XrayWriter<File>, begin: u64, end: u64) {
    writer.calls(&calls(&[(begin, 2)]));
    write_note(writer, begin, &arguments(2));
    writer.calls(&calls(&[(begin + 100, 5)]));
    write_note(writer, begin + 100, &arguments(5));
    let fields = [(4, TEXT), (4, FieldValue::Unsigned(NUMBER))];
    write_note(writer, begin + 200, &event(3, 0, 5, &fields));
    let time = Ticks(begin + 300);
    let cpu = Some(CpuId(0));
    writer.mark(&Mark::Custom {
        time,
        cpu,
        data: b"canary payload",
    });
    writer.mark(&Mark::Typed {
        time,
        kind: 9000,
        data: b"canary payload",
    });
    writer.calls(&calls(&[(end - 100, -5)]));
    write_note(writer, end, &arguments(2));
    writer.calls(&calls(&[(end, -2)]));
}

/// The data inside of a page.
fn data(page: &str) -> Vec<u8> {
    let page = fs::read_to_string(page).expect("a page");
    let (_, data) = page.split_once("id=\"data\">").expect("a place of data");
    let (data, _) = data.split_once("</script>").expect("its end");
    let packed = STANDARD.decode(data).expect("base64");
    let mut bytes = Vec::new();
    let mut unpacked = flate2::read::ZlibDecoder::new(&packed[..]);
    unpacked.read_to_end(&mut bytes).expect("zlib");
    bytes
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_file_to_send_has_no_value() {
    let folder = Folder::new("view-values");
    let (trace, page) = (folder.file("app.fdr"), folder.file("page.html"));
    for reason in [
        "panic in thread 7 (main) at src/main.rs:1:1: canary",
        "trigger app::login>1ms, canary",
        "canary",
    ] {
        full_of_values(&trace, reason);
        // The commands show them.
        assert_contains(answer(&["slow", "--json", &trace]), "canary text");
        assert_contains(answer(&["report", "--json", &trace]), VALUE);
        let output = common::fdr(&["view", "--force", "-o", &page, &trace]);
        assert!(output.status.success(), "{output:?}");
        let data = data(&page);
        assert!(!has(&data, VALUE.as_bytes()), "{reason}");
        assert!(!has(&data, NUMBER.to_string().as_bytes()), "{reason}");
        assert!(!has(&data, &NUMBER.to_le_bytes()), "{reason}");
        let path = folder.path().to_string_lossy();
        assert!(!has(&data, path.as_bytes()), "the folder of the sender");
        let length = u32::from_le_bytes(data[..4].try_into().expect("4 bytes")) as usize;
        let head: Value = serde_json::from_slice(&data[4..4 + length]).expect("JSON");
        let slow = &head["slow"][0]["calls"][0];
        assert_eq!(slow["function"], "app::login");
        let sentence = slow["sentence"].as_str().expect("a sentence");
        assert_contains(sentence, "app::span");
        assert_eq!(head["reports"][0]["functions"][0]["name"], "app::span");
        fs::remove_file(&trace).expect("it is there");
    }
}
