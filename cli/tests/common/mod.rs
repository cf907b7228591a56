//! What the end-to-end tests share: running the tool, a folder of one's own, traces made to order.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::model::{Counts, FunctionKind, Missing};
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::registry::{self, Format};
use fdr_formats::writer::Target;
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{
    Call, CpuId, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};
use serde_json::{Value, json};

/// The tool, without the recorder's variables of the environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdr"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FDR") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the tool to its end.
pub(crate) fn fdr(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("fdr runs")
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Runs the tool, which must succeed, and gives its output.
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = fdr(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    stdout(&output).to_owned()
}

/// What the tool prints on stderr. The tool must succeed.
#[track_caller]
pub(crate) fn messages(arguments: &[&str]) -> String {
    let output = fdr(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    stderr(&output).to_owned()
}

/// The tool's output goes to a full disk, which is an error.
#[track_caller]
pub(crate) fn assert_full_disk_is_an_error(arguments: &[&str]) {
    let full = OpenOptions::new().write(true).open("/dev/full");
    let full = full.expect("a full disk");
    let output = command().args(arguments).stdout(full).output();
    let output = output.expect("fdr runs");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    let messages = stderr(&output);
    assert!(messages.starts_with("fdr: standard output: "), "{messages}");
}

/// The tool's output goes to a pipe whose reader is gone, which is no error.
#[track_caller]
pub(crate) fn assert_gone_reader_is_no_error(arguments: &[&str]) -> String {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = command().args(arguments).stdout(writer).output();
    let output = output.expect("fdr runs");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    assert_lacks(stderr(&output), "Broken pipe");
    stderr(&output).to_owned()
}

/// The text has that part.
#[track_caller]
pub(crate) fn assert_contains(text: impl AsRef<str>, part: &str) {
    let text = text.as_ref();
    assert!(text.contains(part), "{part:?} is not in {text}");
}

/// The text lacks that part.
#[track_caller]
pub(crate) fn assert_lacks(text: impl AsRef<str>, part: &str) {
    let text = text.as_ref();
    assert!(!text.contains(part), "{part:?} is in {text}");
}

/// The tool refuses these arguments: exit code 2, and a message with that part.
#[track_caller]
pub(crate) fn assert_refused(arguments: &[&str], part: &str) {
    let output = fdr(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert_contains(stderr(&output), part);
}

/// Each field of a JSON object is in the documentation.
#[track_caller]
pub(crate) fn assert_documented(object: &Value) {
    let documented = include_str!("../../../docs/json.md");
    for field in object.as_object().expect("an object").keys() {
        assert_contains(documented, &format!("`{field}`"));
    }
}

/// Runs the tool and reads its output as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).expect("JSON")
}

/// What must be the same in every format: all but the names of the file, the format and the clock,
/// and the numbers of functions.
pub(crate) fn figures(trace: &str) -> Value {
    let mut report = self::json(&["report", "--json", "--per-thread", "--sort", "name", trace]);
    for field in ["file", "format", "clock"] {
        report[field].take();
    }
    forget_ids(&mut report);
    report
}

fn forget_ids(report: &mut Value) {
    let forget = |functions: &mut Value| {
        let functions = functions.as_array_mut().expect("functions");
        functions
            .iter_mut()
            .for_each(|function| function["id"] = json!(0));
    };
    forget(&mut report["functions"]);
    let threads = report["threads"].as_array_mut().expect("threads");
    threads
        .iter_mut()
        .for_each(|thread| forget(&mut thread["functions"]));
}

/// Converts a trace, and returns the messages.
pub(crate) fn convert(from: &str, target: &Target, to: &str) -> String {
    messages(&["convert", from, "--to", target.name, "-o", to])
}

/// A trace that another program made, or a person to the byte.
pub(crate) fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray");
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    path.to_str().expect("UTF-8").to_owned()
}

/// Every trace among the golden files of all formats, with its format's name.
pub(crate) fn goldens() -> Vec<(&'static str, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let files = |format: &'static Format| {
        let entries = fs::read_dir(folder.join(format.name)).into_iter().flatten();
        let paths = entries.map(|entry| entry.expect("a readable folder").path());
        let mut traces: Vec<PathBuf> = paths
            .filter(|path| registry::open_path(path).is_ok())
            .collect();
        traces.sort();
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        traces
            .into_iter()
            .map(move |path| (format.name, text(path)))
    };
    registry::FORMATS.iter().flat_map(files).collect()
}

/// Whatever is in a folder, hidden files too, in order.
pub(crate) fn contents(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let name = |entry: Result<fs::DirEntry, _>| entry.expect("readable").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_str().expect("UTF-8").to_owned())
        .collect();
    names.sort();
    names
}

/// An empty folder, removed at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Each call makes another one, because tests of the same name run at the same time.
    pub(crate) fn new(name: &str) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// A folder of one's own with a trace of that name, and the trace's path.
pub(crate) fn in_folder(folder: &str, name: &str, write: impl FnOnce(&str)) -> (Folder, String) {
    let folder = Folder::new(folder);
    let path = folder.file(name);
    write(&path);
    (folder, path)
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Functions of the given names, with ids from 1.
pub(crate) fn functions(names: &[&str]) -> Vec<Function> {
    let function = |(at, name): (usize, &&str)| Function {
        id: FunctionId(at as u32 + 1),
        name: (*name).to_owned(),
        file: format!("src/{}.rs", at + 1),
        line: 10 * (at as u32 + 1),
        untimed: false,
        kind: Default::default(),
    };
    names.iter().enumerate().map(function).collect()
}

/// What a trace says of itself: functions with these names.
pub(crate) fn info(names: &[&str]) -> TraceInfo {
    TraceInfo {
        functions: functions(names),
        ..TraceInfo::default()
    }
}

pub(crate) fn thread(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.to_owned(),
        ..Thread::default()
    }
}

/// Entries (positive) and exits (negative) of function ids, at these times.
pub(crate) fn calls(edges: &[(u64, i64)]) -> Vec<Call> {
    let call = |&(time, id): &(u64, i64)| Call {
        time: Ticks(time),
        function: FunctionId(id.unsigned_abs() as u32),
        edge: if id > 0 { Edge::Entry } else { Edge::Exit },
        synthetic: false,
        has_arguments: false,
    };
    edges.iter().map(call).collect()
}

pub(crate) fn writer(path: &str, info: &TraceInfo) -> XrayWriter<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    XrayWriter::new(file.expect("a file"), Version::V3, info).expect("a header")
}

/// Writes a trace of one tick per nanosecond.
pub(crate) fn write(path: &str, info: &TraceInfo, threads: &[(Thread, Vec<Call>)]) {
    let mut writer = writer(path, info);
    for (thread, calls) in threads {
        writer.thread(thread);
        writer.calls(calls);
    }
    writer.finish().expect("a trace");
}

/// Writes a trace of one thread without a name, thread 7.
pub(crate) fn write_thread(path: &str, info: &TraceInfo, edges: &[(u64, i64)]) {
    write(path, info, &[(thread(7, ""), calls(edges))]);
}

/// What stands in a thread.
#[derive(Clone)]
pub(crate) enum Item<'a> {
    Call(u64, i64),
    Note(u64, Note<'a>),
}

/// Writes a trace of one tick per nanosecond, with notes.
pub(crate) fn write_noted(path: &str, info: &TraceInfo, threads: &[(Thread, Vec<Item<'_>>)]) {
    let mut writer = writer(path, info);
    for (thread, items) in threads {
        writer.thread(thread);
        for item in items {
            match item {
                Item::Call(time, id) => writer.calls(&calls(&[(*time, *id)])),
                Item::Note(time, note) => writer.mark(&Mark::Note {
                    time: Ticks(*time),
                    kind: note.kind(),
                    body: &note.encode().expect("a note within bounds"),
                }),
            }
        }
    }
    writer.finish().expect("a trace");
}

/// An event of the name with that id, and its fields by the ids of their names.
pub(crate) fn event<'a>(
    name: u32,
    form: u8,
    level: u8,
    fields: &[(u32, FieldValue<'a>)],
) -> Note<'a> {
    let field = |&(name, value): &(u32, FieldValue<'a>)| Field {
        name,
        place: 0,
        value,
    };
    Note::Event {
        name,
        form,
        level,
        span: 0,
        fields: fields.iter().map(field).collect(),
    }
}

/// A task that was polled three times: for 5 of 7 ticks.
pub(crate) fn task_note(task: u64, parent: u64, name: u32, state: u8) -> Note<'static> {
    Note::Task {
        task,
        parent,
        by: 0,
        name,
        state,
        counted: 0,
        elapsed: 7,
        busy: 5,
        polls: 3,
    }
}

/// Functions, events and names of fields, with a place in a source.
pub(crate) fn named(list: &[(u32, &str, FunctionKind)]) -> Vec<Function> {
    let function = |&(id, name, kind): &(u32, &str, FunctionKind)| Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: "src/a.rs".to_owned(),
        line: 10 * id,
        untimed: false,
        kind,
    };
    list.iter().map(function).collect()
}

/// A small trace: thread 7 `main` runs `app::run` { `app::step` `app::step` }, thread 8 `worker` runs `app::step`.
pub(crate) fn small(path: &str) {
    small_named(path, &["app::run", "app::step"]);
}

/// The same with other names of its functions.
pub(crate) fn small_named(path: &str, names: &[&str]) {
    let info = TraceInfo {
        program: "small".into(),
        process: Some(7),
        ..info(names)
    };
    let main = calls(&[
        (1000, 1),
        (1100, 2),
        (1300, -2),
        (1400, 2),
        (1700, -2),
        (2000, -1),
    ]);
    let worker = calls(&[(1500, 2), (1600, -2)]);
    write(
        path,
        &info,
        &[(thread(7, "main"), main), (thread(8, "worker"), worker)],
    );
}

/// A trace of one call, written by signal at a known time, of a process with threads that are not in
/// it.
pub(crate) fn lossy(path: &str) {
    let counts = Counts {
        recorded: 9,
        readable: 2,
        overwritten: 7,
        ..Counts::default()
    };
    let mut info = TraceInfo {
        functions: functions(&["app::run"]),
        program: "lossy".into(),
        reason: "signal".into(),
        dump: Some(3),
        missing: Missing {
            threads: 12,
            overwritten: 5000,
            dropped: 16_000,
        },
        ..TraceInfo::default()
    };
    info.clock.anchor = Some((Ticks(0), 1_700_000_000_000_000_000));
    let thread = Thread {
        id: ThreadId(7),
        counts: Some(counts),
        ..Thread::default()
    };
    write(path, &info, &[(thread, calls(&[(5000, 1), (6000, -1)]))]);
}

/// A snapshot with everything that a recorder's trace has: three threads with names and counts, calls
/// that were open at the beginning and at the end, tail exits, CPUs, arguments, custom events, gaps.
pub(crate) fn rich(path: &str) {
    rich_at(path, 1_000_000_000);
}

/// The same with that many ticks per second.
pub(crate) fn rich_at(path: &str, frequency: u64) {
    let mut info = TraceInfo {
        functions: functions(&["app::main", "app::step<Größe>", "lib::leaf", "lib::last"]),
        program: "rich".into(),
        process: Some(4242),
        reason: "signal".into(),
        dump: Some(2),
        missing: Missing {
            threads: 1,
            overwritten: 500,
            dropped: 16,
        },
        ..TraceInfo::default()
    };
    info.clock.frequency = frequency;
    info.clock.name = "rdtscp".into();
    info.clock.error_ppm = Some(1.5);
    info.clock.constant = true;
    info.clock.anchor = Some((Ticks(1_000_000), 1_700_000_000_000_000_000));
    let mut writer = writer(path, &info);
    for (nth, name) in ["main", "worker-1", ""].into_iter().enumerate() {
        one_rich_thread(&mut writer, nth as u64, name);
    }
    writer.finish().expect("a trace");
}

fn one_rich_thread(writer: &mut dyn Sink, nth: u64, name: &str) {
    let begin = 2_000_000 + nth * 1000;
    let rounds = 50;
    let readable = 5 + 4 * rounds;
    writer.thread(&Thread {
        id: ThreadId(4242 + nth),
        process: Some(4242),
        name: name.into(),
        counts: Some(Counts {
            recorded: readable + 300,
            readable,
            overwritten: 293,
            dropped: 7,
            // One call was open before, two stay open.
            synthetic_entries: 1,
            synthetic_exits: 2,
            summarised: 0,
        }),
        totals: Vec::new(),
        early_calls: Vec::new(),
    });
    let cpu = |writer: &mut dyn Sink, time, cpu| {
        writer.mark(&Mark::Cpu {
            time: Ticks(time),
            cpu: CpuId(cpu),
        });
    };
    cpu(writer, begin, nth as u32);
    // Function 3 was entered before the snapshot begins.
    writer.calls(&calls(&[
        (begin, -3),
        (begin + 50, 1),
        (begin + 60, 3),
        (begin + 75, -3),
    ]));
    let mut time = begin + 100;
    for round in 0..rounds {
        let mut entry = calls(&[(time, 2)]);
        entry[0].has_arguments = true;
        writer.calls(&entry);
        writer.mark(&Mark::Argument { value: round });
        writer.calls(&calls(&[(time + 10, 3)]));
        if round % 10 == 3 {
            cpu(writer, time + 15, (round % 7) as u32);
        }
        let mut exits = calls(&[(time + 20 + round, -3), (time + 90, -2)]);
        exits[1].edge = Edge::TailExit;
        writer.calls(&exits);
        if round == 20 {
            writer.mark(&Mark::Custom {
                time: Ticks(time + 95),
                cpu: None,
                data: b"half of it",
            });
            writer.mark(&Mark::Lost { records: 40 });
        }
        time += 1000;
    }
    writer.calls(&calls(&[(time, 4)]));
}

/// Thread 7 runs `app::run` { `app::step` }, with short calls in both: 5, and 7 of 21 ns. There were 50 in the whole run.
pub(crate) fn with_short_calls(path: &str) {
    let info = info(&["app::run", "app::step", "app::none"]);
    let mut writer = writer(path, &info);
    writer.thread(&Thread {
        id: ThreadId(7),
        counts: Some(Counts {
            recorded: 104,
            readable: 4,
            summarised: 100,
            ..Counts::default()
        }),
        ..Thread::default()
    });
    writer.calls(&calls(&[(1000, 1)]));
    writer.mark(&Mark::Threshold { ticks: 40 });
    let short = |time, calls| Mark::ShortCalls {
        time: Ticks(time),
        calls,
        ticks: 3 * calls,
    };
    writer.mark(&short(1100, 5));
    writer.calls(&calls(&[(1200, 2)]));
    writer.mark(&short(1300, 7));
    writer.calls(&calls(&[(1400, -2), (1500, -1)]));
    writer.finish().expect("a trace");
}

/// That a packed trace which is damaged at its beginning is refused by every kind of reader.
pub(crate) fn assert_damaged_from_the_beginning(packed: &str) {
    let error =
        format!("fdr: {packed}: the compressed data are damaged in what begins at byte 0: ");
    for subcommand in ["report", "verify", "unpack"] {
        let output = fdr(&[subcommand, packed]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).starts_with(&error), "{output:?}");
    }
}

/// That a packed trace which is damaged in what begins there is read up to there, and that `verify` says so.
pub(crate) fn assert_read_to_the_damage(packed: &str, begin: &str, commands: &[&[&str]]) {
    let place = format!("{packed}: the compressed data are damaged in what begins at byte {begin}");
    for words in commands {
        let output = command().args(*words).arg(packed).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(stderr(&output).contains(&place), "{output:?}");
    }
    let verdict = fdr(&["verify", "--limit", "9999", packed]);
    assert_eq!(verdict.status.code(), Some(1), "{verdict:?}");
    assert!(
        stdout(&verdict).contains("nothing after it is read"),
        "{verdict:?}"
    );
}
