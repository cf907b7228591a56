//! `fdr scrub`: in every format, the output has no text and no number that shows whose trace it is. Calls and times are
//! those of the trace. Data that the options keep stays.

use std::fs;

use fdr_formats::identity::Part;
use fdr_formats::model::{FunctionKind, Moment};
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::registry::targets;
use fdr_formats::writer::Kind;
use fdr_formats::{Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo};
use serde_json::Value;

use crate::common::{
    self, Folder, Item, answer, assert_contains, assert_lacks, event, fdr, json, messages,
};

/// In each text of the trace.
const SECRET: &str = "secret";
const THREAD: u64 = 77_777;
const PROCESS: u64 = 66_666;

/// A trace in which each text has [`SECRET`] in it.
fn trace(folder: &Folder) -> String {
    let path = folder.file("secret.fdr");
    let function = |(id, name, kind): (u32, &str, FunctionKind)| Function {
        id: FunctionId(id),
        name: format!("{SECRET}::{name}"),
        file: format!("{SECRET}/{name}.rs"),
        line: 4242,
        untimed: false,
        kind,
    };
    let functions = [
        (1, "run", FunctionKind::Calls),
        (2, "step", FunctionKind::Calls),
        (3, "accepted", FunctionKind::Event),
        (4, "field", FunctionKind::Name),
        (5, "lock", FunctionKind::Name),
    ];
    let mut info = TraceInfo {
        functions: functions.map(function).to_vec(),
        program: SECRET.to_owned(),
        process: Some(PROCESS),
        reason: format!("panic in thread {THREAD}: {SECRET}"),
        moments: vec![Moment {
            number: 1,
            time: Ticks(2500),
            name: SECRET.to_owned(),
        }],
        ..TraceInfo::default()
    };
    for part in [Part::Host, Part::Build, Part::Version] {
        info.identity.set(part, SECRET);
    }
    info.identity.set(Part::Tags, "secret=secret");
    let thread = |id| Thread {
        id: ThreadId(id),
        process: Some(PROCESS),
        name: format!("{SECRET} {id}"),
        ..Thread::default()
    };
    let text = || FieldValue::Text(b"secret text", 11);
    let fields = vec![Field {
        name: 4,
        place: 0,
        value: text(),
    }];
    let state = |state| Note::ThreadState {
        object: 0xdead_beef_cafe,
        holder: THREAD,
        name: 5,
        state,
        reason: 1,
        function: 2,
        waited: 0,
    };
    let main = vec![
        Item::Call(1000, 1),
        Item::Note(
            1000,
            Note::Arguments {
                function: 1,
                fields,
            },
        ),
        Item::Call(2000, 2),
        Item::Note(2500, event(3, 0, 3, &[(4, text())])),
        Item::Call(3000, -2),
        Item::Note(4000, state(2)),
        Item::Note(5000, state(0)),
        Item::Call(9000, -1),
    ];
    let other = vec![Item::Call(3000, 2), Item::Call(7000, -2)];
    let threads = [(thread(THREAD), main), (thread(THREAD + 1), other)];
    common::write_noted(&path, &info, &threads);
    path
}

/// Calls, total and self time of each function, by the numbers of their names' order.
fn figures(report: &Value) -> Vec<[u64; 3]> {
    let rows = report["functions"].as_array().expect("functions").iter();
    let number = |row: &Value, field: &str| row[field].as_u64().expect("a number");
    rows.map(|row| ["calls", "total_ns", "self_ns"].map(|field| number(row, field)))
        .collect()
}

/// All bytes of a file, or of the files in a folder.
fn bytes(path: &str) -> Vec<u8> {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::read(path).expect("a file");
    };
    let files = entries.map(|entry| entry.expect("readable").path());
    files
        .flat_map(|file| fs::read(file).expect("a file"))
        .collect()
}

#[test]
fn scrubbed_traces_hold_no_names() {
    let folder = Folder::new("scrub");
    let trace = trace(&folder);
    let has = |bytes: &[u8], text: &[u8]| {
        bytes
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text))
    };
    assert!(has(&bytes(&trace), SECRET.as_bytes()));
    assert!(has(&bytes(&trace), &(THREAD as u32).to_le_bytes()));
    for target in targets() {
        let out = folder.file(&format!("share.{}", target.name));
        let messages = messages(&["scrub", &trace, "-o", &out, "--to", target.name]);
        let words = "scrubbed: 7 names replaced, 1 event and 1 note of arguments left out";
        assert_contains(messages, words);
        let bytes = bytes(&out);
        assert!(!has(&bytes, SECRET.as_bytes()), "{}", target.name);
        for number in [THREAD, THREAD + 1, PROCESS] {
            assert!(
                !has(&bytes, &(number as u32).to_le_bytes()),
                "{}",
                target.name
            );
            assert!(
                !has(&bytes, &(number as u32).to_be_bytes()),
                "{}",
                target.name
            );
            assert!(
                !has(&bytes, number.to_string().as_bytes()),
                "{}",
                target.name
            );
        }
        for order in [
            0xdead_beef_cafe_u64.to_le_bytes(),
            0xdead_beef_cafe_u64.to_be_bytes(),
        ] {
            assert!(!has(&bytes, &order), "{}", target.name);
        }
        let shown = answer(&["info", &out]) + &answer(&["report", "--per-thread", &out]);
        assert_lacks(&shown, SECRET);
        assert_lacks(&shown, "4242");
        if target.kind != Kind::Folder {
            let output = fdr(&["scrub", &trace, "-o", "-", "--to", target.name]);
            assert!(output.status.success(), "{output:?}");
            assert!(!has(&output.stdout, SECRET.as_bytes()), "{}", target.name);
        }
    }
}

#[test]
fn scrubbed_traces_keep_calls_times_and_waits() {
    let folder = Folder::new("scrub-times");
    let trace = trace(&folder);
    let (out, names) = (folder.file("share.fdr"), folder.file("names.tsv"));
    let _ = answer(&["scrub", &trace, "-o", &out, "--names", &names]);
    let report = |trace: &str| json(&["report", "--json", "--sort", "name", "--reverse", trace]);
    let (wanted, found) = (report(&trace), report(&out));
    // f0002, f0001 are secret::step, secret::run.
    assert_eq!(figures(&found), figures(&wanted));
    assert_eq!(found["functions"][0]["name"], "f0002");
    assert_eq!(
        found["waits"][0]["total_ns"],
        wanted["waits"][0]["total_ns"]
    );
    assert_eq!(found["waits"][0]["name"], "n0005");
    assert_eq!(found["waits"][0]["holders"][0]["function"], "f0002");
    assert_eq!(found["threads"][0]["name"], "t1");
    assert_eq!(found["reason"], "panic");
    assert_eq!(found["marks"][0]["name"], "m1");
    assert_eq!(found["marks"][0]["time_ns"], wanted["marks"][0]["time_ns"]);
    let _ = answer(&["verify", &out]);
    let list = fs::read_to_string(&names).expect("the names");
    let line = format!("f0001\t{SECRET}::run\n");
    assert_contains(&list, &line);
    assert_contains(&list, "t1\tsecret 77777\n");
}

#[test]
fn what_is_asked_to_stay_stays() {
    let folder = Folder::new("scrub-keep");
    let trace = trace(&folder);
    let out = folder.file("share.fdr");
    let scrub = |options: &[&str]| {
        let _ = answer(&[&["scrub", &trace, "-o", &out, "--force", "-q"], options].concat());
        let report = json(&["report", "--json", "--sort", "name", &out]);
        let name = |list: &str, at: usize| report[list][at]["name"].as_str().map(str::to_owned);
        (
            name("functions", 1),
            name("events", 0),
            answer(&["replay", "--records", &out]),
        )
    };
    let some = |text: &str| Some(text.to_owned());
    let (function, event, records) = scrub(&["--keep", "*::run,*::accepted"]);
    assert_eq!((function, event), (some("secret::run"), None));
    assert_lacks(&records, "secret text");
    let (function, event, records) = scrub(&["--keep-events"]);
    assert_eq!((function, event), (some("f0002"), some("e0003")));
    assert_eq!(records.matches("secret text").count(), 1, "{records}");
    let (_, event, records) = scrub(&["--keep-arguments", "--keep-threads"]);
    assert_eq!(event, None);
    assert_eq!(records.matches("secret text").count(), 1, "{records}");
    let info = answer(&["info", &out]);
    assert_contains(&info, "secret 77777");
}

#[test]
fn scrub_replaces_nothing_and_leaves_no_halves() {
    let folder = Folder::new("scrub-force");
    let trace = trace(&folder);
    let out = folder.file("share.fdr");
    fs::write(&out, "mine").expect("a file");
    for arguments in [
        vec!["scrub", &trace, "-o", &out],
        vec!["scrub", &trace, "-o", &trace, "--force"],
        vec!["scrub", &trace, "-o", &folder.file("x"), "--names", &out],
        vec!["scrub", &folder.file("none"), "-o", &folder.file("x")],
    ] {
        let output = fdr(&arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&out).expect("mine"), "mine");
    assert_eq!(common::contents(folder.path()), ["secret.fdr", "share.fdr"]);
}
