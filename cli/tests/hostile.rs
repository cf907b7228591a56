//! Hostile names in traces, through every command and every output of the tool. No terminal, spreadsheet or page runs
//! what is in a name. No name ends a line. No file is named, opened or made after a name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, Folder, Item, command, contents, event, task_note};
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::registry;
use fdr_formats::text::is_unsafe;
use fdr_formats::writer::Kind;
use fdr_formats::{Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo};
use serde_json::Value;

/// What names can do, each in its own way.
const HOSTILE: [&str; 24] = [
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred",
    "\u{9b}31m\u{90}q\u{9d}0;owned\u{9c}",
    "two\nlines\r\nand\u{b}more\u{c}\u{85}\u{2028}\u{2029}",
    "tab\tback\u{8}\u{8}\u{8}del\u{7f}nul\0end",
    "\u{202e}txt.exe\u{202c}\u{2066}in\u{2069}",
    "zero\u{200b}width\u{200d}\u{feff}\u{ad}\u{e0041}",
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1+1)",
    "\t=1+1",
    "\r=1+1",
    "＝1+1",
    "\",=1+1,\"",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>&amp;",
    "../../../../etc/passwd",
    "/etc/passwd",
    "..",
    "main;x 5\nmain;y 6",
    "$(touch owned)`touch owned`'; touch owned; '",
    "%s%n%p{}{0}\\x1b\\n\\u{1b}",
    "",
];

/// The first ids of events, and of the names of fields.
const EVENTS: u32 = 1001;
const FIELDS: u32 = 2001;

/// The length of a name that is long as well, and of one that is longer than any table of names holds.
const LONG: usize = 8 << 10;
const TOO_LONG: usize = 1 << 20;

/// Everything in the trace that can be named is named so; the files too.
fn trace(path: &str, file: &str, long: usize) {
    let mut names: Vec<String> = HOSTILE.iter().map(|&name| name.to_owned()).collect();
    names.push(format!("long{}", "\u{1b}[1mx".repeat(long / 5)));
    let mut info = TraceInfo {
        functions: hostile_functions(&names, file),
        program: HOSTILE.concat(),
        process: Some(7),
        reason: HOSTILE.concat(),
        ..TraceInfo::default()
    };
    info.clock.name = HOSTILE.concat();
    info.clock.anchor = Some((Ticks(1), 1_700_000_000_000_000_000));
    let threads = (0..)
        .zip(&names)
        .map(|(nth, name)| hostile_thread(nth, name));
    common::write_noted(path, &info, &threads.collect::<Vec<_>>());
}

/// Functions, events, and names of fields. The first function is in the file.
fn hostile_functions(names: &[String], file: &str) -> Vec<Function> {
    let function = |(nth, name): (usize, &String)| Function {
        id: FunctionId(nth as u32 + 1),
        name: name.clone(),
        file: if nth == 0 { file.into() } else { name.clone() },
        line: 7,
        untimed: false,
        kind: FunctionKind::Calls,
    };
    // Events and fields have these names, too.
    let same_names = |(nth, name): (usize, &String)| {
        [(EVENTS, FunctionKind::Event), (FIELDS, FunctionKind::Name)].map(|(first, kind)| {
            Function {
                id: FunctionId(first + nth as u32),
                kind,
                ..function((nth, name))
            }
        })
    };
    let mut functions: Vec<Function> = names.iter().enumerate().map(function).collect();
    functions.extend(names.iter().enumerate().flat_map(same_names));
    functions.sort_by_key(|function| function.id);
    functions
}

/// Each function calls every other one once, or is open at the end.
fn hostile_thread(nth: u64, name: &str) -> (Thread, Vec<Item<'_>>) {
    let id = nth as i64 + 1;
    let thread = Thread {
        id: ThreadId(100 + nth),
        process: Some(7),
        name: name.to_owned(),
        ..Thread::default()
    };
    let begin = 1000 * (nth + 1);
    let (event_id, field) = (EVENTS + nth as u32, FIELDS + nth as u32);
    let text = name.get(..1024).unwrap_or(name).as_bytes();
    let values = [
        (field, FieldValue::Text(text, 1 << 40)),
        (0, FieldValue::Text(b"\xff\xc2\x9b31m\x1b[2J\0", 8)),
        (field, FieldValue::Bytes(text, 7)),
        (field, FieldValue::Other(200, 7, b"\x1b[2J")),
    ];
    let argument = Field {
        name: field,
        place: 0,
        value: FieldValue::Text(text, 7),
    };
    let task = task_note(7, 0, event_id, 1);
    let state = Note::ThreadState {
        object: 1,
        holder: 2,
        name: field,
        state: 2,
        reason: 1,
        function: 2,
        waited: 3,
    };
    (
        thread,
        vec![
            Item::Call(begin, id),
            Item::Note(
                begin,
                Note::Arguments {
                    function: id as u32,
                    fields: vec![argument],
                },
            ),
            Item::Note(begin + 5, event(event_id, 0, 200, &values)),
            Item::Call(begin + 10, 1),
            Item::Call(begin + 20, -1),
            Item::Note(begin + 21, event(event_id, 3, 0, &values)),
            Item::Note(begin + 22, task),
            Item::Note(begin + 23, state),
            Item::Call(begin + 30, -id),
        ],
    )
}

/// Text for people or machines in which nothing acts on a terminal.
fn harmless<'a>(bytes: &'a [u8], case: &str) -> &'a str {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
    let bad = text
        .char_indices()
        .find(|&(_, c)| c != '\n' && is_unsafe(c));
    if let Some((at, bad)) = bad {
        let from = text.floor_char_boundary(at.saturating_sub(60));
        panic!(
            "{case}: {bad:?} in {:?}",
            &text[from..text.ceil_char_boundary(at + 20)]
        );
    }
    text
}

/// Runs the tool, where any shell, page or terminal would be hurt.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let output = command()
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("fdr runs");
    harmless(&output.stderr, &format!("{arguments:?}, stderr"));
    assert!(
        output.status.code().is_some_and(|code| code < 3),
        "{arguments:?}: {output:?}"
    );
    output
}

/// Every trace that the tool can make of the hostile one, and the commands for each.
fn traces(folder: &Folder, long: usize) -> Vec<String> {
    let first = folder.file("first.fdr");
    trace(&first, "src/main.rs", long);
    let mut all = vec![first.clone()];
    for target in registry::targets() {
        let to = folder.file(&format!("of-{}.{}", target.name, target.extension));
        let output = run(
            folder.path(),
            &["convert", &first, "--to", target.name, "-o", &to],
        );
        assert!(output.status.success(), "{}: {output:?}", target.name);
        all.push(to);
    }
    all
}

/// Every output of the tool that is text: the command, with the trace at its end.
const TEXTS: [&[&str]; 17] = [
    &["info"],
    &["info", "--functions"],
    &["report"],
    &["report", "--files", "--per-thread"],
    &["report", "--sort", "name", "--limit", "3"],
    &["report", "--csv"],
    &["report", "--csv", "--per-thread"],
    &["replay", "--records"],
    &["replay", "--records", "--thread", "\u{1b}[31mnone"],
    &["verify"],
    &["state"],
    &["state", "--thread", "100"],
    &["overview"],
    &["slow"],
    &["flame"],
    &["graph"],
    &["replay"],
];

/// Each of these is run with a long name, and in the rest with one that is too long.
macro_rules! with_long_names {
    ($($test:ident)+) => {$(
        mod $test {
            #[test]
            fn long() {
                super::$test(super::LONG);
            }

            mod the_rest {
                #[test]
                fn too_long() {
                    super::super::$test(super::super::TOO_LONG);
                }
            }
        }
    )+};
}

with_long_names! {
    no_output_acts_on_a_terminal
    json_is_exact_and_harmless
    no_cell_is_a_formula
    names_make_no_files
}

fn no_output_acts_on_a_terminal(long: usize) {
    let folder = Folder::new(&format!("hostile-texts-{long}"));
    for trace in traces(&folder, long) {
        for arguments in TEXTS {
            let arguments = [arguments, &[trace.as_str()]].concat();
            let output = run(folder.path(), &arguments);
            let text = harmless(&output.stdout, &format!("{arguments:?}"));
            // The names must be in the output. Otherwise the test would check nothing.
            if arguments.contains(&"--functions") && output.status.success() {
                assert!(text.contains("alert(1)"), "{arguments:?}: {text}");
            }
        }
    }
    assert!(!folder.path().join("owned").exists());
}

fn json_is_exact_and_harmless(long: usize) {
    let folder = Folder::new(&format!("hostile-json-{long}"));
    for trace in traces(&folder, long) {
        for arguments in [
            &["report", "--json", "--per-thread"][..],
            &["info", "--json"],
            &["state", "--json"],
            &["rings", "--json", "."],
        ] {
            let mut arguments = arguments.to_vec();
            if arguments[0] != "rings" {
                arguments.push(&trace);
            }
            let output = run(folder.path(), &arguments);
            let text = harmless(&output.stdout, &format!("{arguments:?}"));
            // In a page, a text can't end the script that it is in.
            assert!(!text.contains("</"), "{arguments:?}");
            let parsed: Value =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
            if arguments[0] == "report" && trace.ends_with("first.fdr") {
                let all = parsed["functions"].as_array().expect("functions");
                let names: BTreeSet<&str> =
                    all.iter().filter_map(|row| row["name"].as_str()).collect();
                for name in HOSTILE.iter().filter(|name| !name.is_empty()) {
                    assert!(names.contains(name), "{name:?} is not exact");
                }
                // The table of a trace has names of up to 64 KiB. The nameless one is `#1024`.
                for list in ["events", "counters"] {
                    let rows = parsed[list].as_array().expect("rows").iter();
                    let found: BTreeSet<&str> =
                        rows.filter_map(|row| row["name"].as_str()).collect();
                    assert_eq!(found.len(), names.len(), "{list}");
                    assert!(
                        HOSTILE
                            .iter()
                            .all(|name| name.is_empty() || found.contains(name))
                    );
                }
            }
        }
    }
}

fn no_cell_is_a_formula(long: usize) {
    let folder = Folder::new(&format!("hostile-csv-{long}"));
    for trace in traces(&folder, long) {
        for arguments in [
            &["report", "--csv"][..],
            &["report", "--csv", "--per-thread"],
        ] {
            let arguments = [arguments, &[trace.as_str()]].concat();
            let output = run(folder.path(), &arguments);
            let mut reader = csv::Reader::from_reader(&output.stdout[..]);
            let mut cells = 0;
            for row in reader.records() {
                for cell in &row.expect("a row") {
                    let bare = cell.trim_start();
                    let formula = bare.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
                    // A number of nanoseconds is never negative.
                    assert!(!formula, "{arguments:?}: {cell:?}");
                    cells += 1;
                }
            }
            assert!(cells > 100, "{arguments:?}: {cells} cells");
        }
    }
}

fn names_make_no_files(long: usize) {
    let folder = Folder::new(&format!("hostile-files-{long}"));
    let made = Folder::new(&format!("hostile-files-made-{long}"));
    let all = traces(&folder, long);
    for (nth, trace) in all.iter().enumerate() {
        for target in registry::targets() {
            let name = format!("{nth}-{}", target.name);
            let place = made.path().join(&name);
            let to = place.join("out").to_str().expect("UTF-8").to_owned();
            fs::create_dir(&place).expect("a folder");
            let output = run(&place, &["convert", trace, "--to", target.name, "-o", &to]);
            if !output.status.success() {
                continue;
            }
            assert_eq!(contents(&place), ["out"], "{trace} to {}", target.name);
            if target.kind == Kind::Folder {
                for name in contents(Path::new(&to)) {
                    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                    assert!(
                        name.chars().all(plain),
                        "{trace} to {}: {name:?}",
                        target.name
                    );
                }
            }
        }
        let place = made.path().join(format!("{nth}-others"));
        fs::create_dir(&place).expect("a folder");
        let _ = run(&place, &["convert", "--to", "map", trace, "-o", "m.elf"]);
        let _ = run(&place, &["state", trace, "--snapshot", "s.snapshot.json"]);
        let known: BTreeSet<String> = contents(&place).into_iter().collect();
        let wanted = BTreeSet::from(["m.elf".to_owned(), "s.snapshot.json".to_owned()]);
        assert!(known.is_subset(&wanted), "{known:?}");
        if let Ok(text) = fs::read(place.join("s.snapshot.json")) {
            let text = harmless(&text, trace);
            let _: Value = serde_json::from_str(text).expect("JSON");
        }
    }
}

#[test]
fn files_with_hostile_names_are_named_harmlessly() {
    let folder = Folder::new("hostile-paths");
    let raw: [&[u8]; 5] = [
        b"\x1b]0;owned\x07\x1b[2J.fdr",
        b"two\nlines.fdr",
        b"\xff\xfe\xc2\x9b31m.fdr",
        "\u{202e}rdf.\u{2066}".as_bytes(),
        b"$(touch owned)'`touch owned`.fdr",
    ];
    let good = folder.file("good.fdr");
    trace(&good, "x", LONG);
    for name in raw {
        let path = folder.path().join(OsStr::from_bytes(name));
        let out = folder
            .path()
            .join(OsStr::from_bytes(&[name, b".out"].concat()));
        let ring = folder
            .path()
            .join(OsStr::from_bytes(&[name, b".fdr-ring"].concat()));
        fs::write(&ring, b"FDRRING\x01\xff\xff\xff\x7f and more").expect("a ring");
        for content in [
            None,
            Some(&b"no trace, but long enough to be looked at"[..]),
            fs::read(&good).ok().as_deref(),
        ] {
            let _ = fs::remove_file(&path);
            if let Some(content) = content {
                fs::write(&path, content).expect("a file");
            }
            let with_path = |arguments: &[&str]| {
                let mut command = command();
                command
                    .current_dir(folder.path())
                    .args(arguments)
                    .arg(&path);
                command.stdin(Stdio::null());
                command
            };
            for arguments in TEXTS.into_iter().chain([
                &["report", "--json"][..],
                &["dump"],
                &["rings"],
                &["rings", "--json"],
                &["info", "--no-such-option"],
                &["dump"],
                &["nonsense"],
                &["listen"],
            ]) {
                check(with_path(arguments));
            }
            for arguments in [
                &["convert", "--to", "heph"][..],
                &["convert", "--to", "ctf", "--force"],
                &["convert", "--to", "map"],
            ] {
                let mut command = with_path(arguments);
                command.arg("-o").arg(&out);
                check(command);
            }
        }
        let mut recover = command();
        recover.arg("dump").arg(&ring).arg("-o").arg(&out);
        check(recover);
        let mut record = command();
        record
            .current_dir(folder.path())
            .args(["record", "--"])
            .arg(&path);
        check(record);
        let mut list = command();
        list.arg("rings").arg(folder.path());
        check(list);
    }
    assert!(!folder.path().join("owned").exists());
}

fn check(mut command: Command) {
    let output = command.output().expect("fdr runs");
    let case = format!("{command:?}");
    harmless(&output.stdout, &case);
    harmless(&output.stderr, &case);
}

/// Files that a trace names are never opened: a pipe without a writer would stop the reader for good.
#[test]
fn no_path_of_a_trace_is_followed() {
    let folder = Folder::new("hostile-followed");
    let pipe = folder.file("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let first = folder.file("first.fdr");
    trace(&first, &pipe, LONG);
    for arguments in TEXTS.into_iter().chain([
        &["report", "--json"][..],
        &["state", "--json"],
        &["convert", "--to", "map", "-o", "-"],
        &["convert", "--to", "heph", "-o", "-"],
    ]) {
        let mut command = command();
        command
            .current_dir(folder.path())
            .args(arguments)
            .arg(&first);
        let spawned = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = spawned.expect("fdr runs");
        let begun = Instant::now();
        while child.try_wait().expect("its state").is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                let _ = child.kill();
                panic!("{arguments:?} waits for a file that the trace names");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
