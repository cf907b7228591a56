//! Notes in HTDUMP, typed by hand: the announcement of a klass and its records, in both byte orders; names that change
//! their numbers where another stream begins; and klasses that are nearly ones of notes.

use crate::common::htdump::Stream;
use crate::common::{Event, Random, enter, exit, hex, intact, list, read};
use crate::notes_formats::{around, encoded, event, few, table, troubles, write, written_bytes};
use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::FieldValue;

/// Announces `app::accepted` with a number and a text, which names 3 and 4 say.
fn announced(stream: &mut Stream, klass: u32, word: &str) {
    stream.klass(klass, "app::accepted", 5);
    stream.field(klass, 1, 24, "HT_Event", "base");
    stream.field(klass, 99, 4, "HT_ThreadId", "thread_id");
    stream.field(klass, 99, 1, word, "inside");
    stream.field(klass, 99, 8, "uint64_t", "bytes");
    stream.field(klass, 2, 8, "const char*", "path");
}

/// `FDR_FunctionEvent`, as far as names need it.
fn names(stream: &mut Stream) {
    stream.klass(11, "FDR_FunctionEvent", 5);
    stream.field(11, 1, 24, "HT_Event", "base");
    stream.field(11, 99, 8, "uint64_t", "identifier");
    stream.field(11, 99, 4, "uint32_t", "function");
    stream.field(11, 99, 4, "uint32_t", "known");
    stream.field(11, 2, 8, "const char*", "function_name");
}

fn name(stream: &mut Stream, id: u32, known: u32, name: &str) {
    stream.header(11, 0).u64(id.into()).u32(id).u32(known);
    stream.text(name.as_bytes());
}

/// Of kind 12, level 3, name 2, with an unsigned field 3 and a text 4.
const WORD: &str = "FDR_Note:20003000c.3.400000004";

#[test]
fn a_stream_typed_by_hand_has_the_note() {
    for big in [false, true] {
        let mut stream = Stream::new(big);
        stream.core().hawktracer();
        names(&mut stream);
        name(&mut stream, 2, 7, "app::accepted");
        name(&mut stream, 3, 11, "bytes");
        name(&mut stream, 4, 11, "path");
        announced(&mut stream, 2000, WORD);
        stream.header(2000, 25).u32(7).u8(1).u64(512).text(b"/a%22");
        stream.mapping(1, "run").call(20, 10, 7, 1);
        let read = intact(&stream.bytes);
        let note = event(
            2,
            0,
            3,
            &[
                (3, FieldValue::Unsigned(512)),
                (4, FieldValue::Text(b"/a\"", 3)),
            ],
        );
        let functions = &read.info.functions;
        let named: Vec<(u32, &str, FunctionKind)> = functions
            .iter()
            .map(|function| (function.id.0, function.name.as_str(), function.kind))
            .collect();
        let run = functions.iter().find(|function| function.name == "run");
        let run = run.expect("a function").id.0;
        assert!(
            named.contains(&(2, "app::accepted", FunctionKind::Event)),
            "{named:?}"
        );
        assert!(
            named.contains(&(4, "path", FunctionKind::Name)),
            "{named:?}"
        );
        let wanted = [
            Event::Call(enter(20, run)),
            encoded(25, &note),
            Event::Call(exit(30, run)),
        ];
        assert_eq!(read.log.events(7), wanted);
    }
}

#[test]
fn what_is_written_is_typed_by_hand() {
    let info = table(&[
        (1, "app::run", FunctionKind::Calls),
        (2, "app::accepted", FunctionKind::Event),
        (3, "bytes", FunctionKind::Name),
        (4, "path", FunctionKind::Name),
    ]);
    let note = event(
        2,
        0,
        3,
        &[
            (3, FieldValue::Unsigned(512)),
            (4, FieldValue::Text(b"/a\"", 3)),
        ],
    );
    let written = write("htdump", &info, &around(&[note]));
    assert_eq!(written.losses.to_string() + &troubles(&written), "");
    let bytes = written.bytes();
    let holds = |wanted: &str| {
        let wanted = hex(wanted);
        let count = bytes.windows(wanted.len()).filter(|at| *at == wanted);
        assert_eq!(count.count(), 1, "{wanted:02x?}");
    };
    // The klass: its number, `app::accepted`, five fields.
    holds("00040000 6170703a3a616363657074656400 05");
    // `inside`: its type has the class; one byte, unsigned.
    holds(
        "00040000 4644525f4e6f74653a3230303033303030632e332e34303030303030303400 696e7369646500 \
         0100000000000000 63",
    );
    // `bytes`: uint64_t of 8 bytes. `path`: const char*, a text.
    holds("00040000 75696e7436345f7400 627974657300 0800000000000000 63");
    holds("00040000 636f6e737420636861722a00 7061746800 0800000000000000 02");
    // The record behind its number: thread 7, behind no entry of the same time, 512, `/a%22`.
    holds("07000000 00 0002000000000000 2f6125323200");
    // Its header: klass 1024 at 2000 ns.
    holds("00040000 d007000000000000");
}

#[test]
fn streams_keep_their_name_numbers_apart() {
    let (info, events) = few();
    let first = written_bytes("htdump", &info, &events);
    let mut other = table(&[
        (1, "other::run", FunctionKind::Calls),
        (2, "other::accepted", FunctionKind::Event),
        (3, "key", FunctionKind::Name),
    ]);
    other.functions.sort_by_key(|function| function.id);
    let notes = [event(2, 0, 0, &[(3, FieldValue::Unsigned(1))])];
    let second = written_bytes("htdump", &other, &around(&notes));
    let both = [first, second].concat();
    let read = read(&both).expect("two streams");
    let lines = list(&both);
    let words: Vec<&str> = lines
        .iter()
        .map(|line| line.3.as_str())
        .filter(|detail| detail.starts_with("fdr event: "))
        .collect();
    assert_eq!(words.len(), 3, "{words:?}");
    assert!(words[0].starts_with("fdr event: app::accepted (info)  id=7 path=\"/tmp/a\""));
    assert_eq!(words[2], "fdr event: other::accepted  key=1");
    let id_of = |name: &str| {
        let functions = &read.info.functions;
        let found = functions.iter().find(|function| function.name == name);
        found.expect("a name").id.0
    };
    let wanted = event(
        id_of("other::accepted"),
        0,
        0,
        &[(id_of("key"), FieldValue::Unsigned(1))],
    );
    let Event::Note(_, kind, body) = encoded(2000, &wanted) else {
        panic!("a note");
    };
    let mut all = read.log.threads.iter().flat_map(|(_, events)| events);
    let found = all.any(
        |event| matches!(event, Event::Note(_, other, found) if *other == kind && *found == body),
    );
    assert!(found, "{:?}", read.log.threads);
}

#[test]
fn klasses_nearly_like_notes_are_no_notes() {
    for word in [
        "FDR_Note:",
        "FDR_Note:zz",
        // Three values, or one, or of other types.
        "FDR_Note:20003000c.3.400000004.5",
        "FDR_Note:20003000c.3",
        "FDR_Note:20003000c.400000004.3",
        "uint8_t",
    ] {
        let mut stream = Stream::new(false);
        stream.core().hawktracer();
        announced(&mut stream, 2000, word);
        stream.header(2000, 25).u32(7).u8(1).u64(512).text(b"/a");
        let read = intact(&stream.bytes);
        let text = b"app::accepted thread_id=7 inside=1 bytes=512 path=\"/a\"".to_vec();
        assert_eq!(
            read.log.events(7),
            [Event::Custom(25, None, text)],
            "{word}"
        );
    }
}

#[test]
fn more_classes_than_a_file_describes_are_bytes() {
    let mut random = Random(5);
    let numbers: Vec<u32> = (0..5000).map(|_| random.next() as u32 | 1).collect();
    let notes: Vec<_> = numbers.iter().map(|&name| event(name, 0, 0, &[])).collect();
    let events = around(&notes);
    let written = write("htdump", &TraceInfo::default(), &events);
    assert_eq!(written.losses.to_string(), "");
    let others = troubles(&written);
    assert!(
        others.contains("notes of more kinds than a file describes"),
        "{others}"
    );
    assert_eq!(written.whole().log.events(7), events);
}
