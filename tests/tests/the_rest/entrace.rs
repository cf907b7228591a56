//! ENTRACE's own crate, in both versions of the format. We read what it writes through `tracing`, with the right
//! counts. Its readers get each entry that we write, from files and over TCP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_formats::entrace::record::decode_entry;
use fdr_formats::entrace::record::{Container, HEAD_SIZE, Version, decode_head};
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind};
use fdr_formats::registry::{open_path, target};
use fdr_formats::source::drive;
use fdr_formats::writer::{Output, Writer};
use fdr_formats::{
    Call, CpuId, Diagnostic, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks,
    TraceInfo,
};
use fdr_tests::skip;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{calls, json};

const TARGETS: [&str; 6] = ["et", "iet", "iet-prefix", "et2", "iet2", "iet-prefix2"];

/// A program of `tests/foreign/entrace`; where it can't be built, the check is skipped aloud.
fn foreign(program: &str, check: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the path of the running test");
    let target = test.ancestors().nth(3).expect("a target folder");
    let target = target.join("foreign").join("entrace");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/entrace/Cargo.toml");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--bins", "--manifest-path"]);
    let output = build
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .output();
    let output = output.expect("cargo runs");
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        skip(&format!("{check}: {build:?} fails: {}", last.join(" / ")));
        return None;
    }
    Some(target.join("debug").join(program))
}

/// Entries by the name of their function, and the sum of all arguments.
#[derive(Default)]
struct EntryCounts {
    entries: BTreeMap<FunctionId, u64>,
    exits: u64,
    sum: u64,
    diagnostics: Vec<Diagnostic>,
}

impl Sink for EntryCounts {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            match call.edge {
                Edge::Entry => *self.entries.entry(call.function).or_default() += 1,
                Edge::Exit | Edge::TailExit => self.exits += 1,
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Argument { value } = mark {
            self.sum += value;
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// What the reader counts of a file, in the words of the program that wrote it.
fn counted(path: &Path) -> String {
    let source = open_path(path).expect("a trace");
    assert_eq!(source.diagnostics(), []);
    let mut counted = EntryCounts::default();
    drive(&*source, &mut counted, &|_| {}).expect("a file that can be read");
    assert_eq!(counted.diagnostics, []);
    assert_eq!(counted.entries.values().sum::<u64>(), counted.exits);
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, count) in counted.entries {
        let function = source.info().function(id).expect("a name");
        *names.entry(&function.name).or_default() += count;
    }
    let mut text = format!("sum {}\n", counted.sum);
    for (name, count) in names {
        let _ = writeln!(text, "{count} {name}");
    }
    text
}

/// The same of the tool's report, without the sum.
fn reported(path: &Path) -> BTreeMap<String, u64> {
    calls(&json("report", &[path])["functions"])
}

#[test]
fn crate_files_agree_with_their_programs() {
    let Some(write) = foreign("write", "ENTRACE files of the crate entrace_core are read") else {
        return;
    };
    let folder = Folder::new("entrace-write");
    for version in ["1", "2"] {
        for container in ["et", "iet", "prefix"] {
            let name = format!("{version}.{container}");
            let program = Program::new(&write, &folder).args(&[version, container, &name]);
            let printed = program.run().ok().stdout;
            let path = folder.join(&name);
            assert_eq!(counted(&path), printed, "{name}");
            let mut lines: BTreeMap<String, u64> = BTreeMap::new();
            for line in printed.lines().skip(1) {
                let (count, name) = line.split_once(' ').expect("a count and a name");
                lines.insert(name.to_owned(), count.parse().expect("a count"));
            }
            assert_eq!(reported(&path), lines, "{name}");
        }
    }
}

fn call(time: u64, function: u32, edge: Edge) -> Call {
    Call {
        time: Ticks(time),
        function: FunctionId(function),
        edge,
        synthetic: false,
        has_arguments: false,
    }
}

fn info() -> TraceInfo {
    let function = |id, name: &str, file: &str, line| Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: file.to_owned(),
        line,
        untimed: false,
        kind: Default::default(),
    };
    TraceInfo {
        functions: vec![
            function(1, "shop::order::total", "src/order.rs", 10),
            function(2, "<shop::Cart as shop::Sum<u64>>::sum", "", 0),
            function(3, "odd \"name\" \\ \0 \u{1F980}", "päth.rs", u32::MAX),
            function(4, "twin", "", 0),
            function(5, "twin", "", 0),
        ],
        program: "shop".into(),
        process: Some(4242),
        reason: "exit".into(),
        ..TraceInfo::default()
    }
}

/// An event with a value of each type.
fn note(round: u64) -> (NoteKind, Vec<u8>) {
    let values = [
        FieldValue::Unsigned(round),
        FieldValue::Signed(-2),
        FieldValue::Float(0.5),
        FieldValue::Truth(round.is_multiple_of(2)),
        FieldValue::Text("ä\n\"".as_bytes(), 400),
        FieldValue::Bytes(&[0, 255], 2),
        FieldValue::Address(0x7f00),
    ];
    let field = |value| Field {
        name: 3,
        place: 0,
        value,
    };
    let note = Note::Event {
        name: 1,
        form: 0,
        level: 4,
        span: 9,
        fields: values.into_iter().map(field).collect(),
    };
    (note.kind(), note.encode().expect("a note within bounds"))
}

/// Everything that a trace can hold, on several threads.
fn everything(writer: &mut dyn Writer, rounds: u64) {
    for id in [70_000_u64, 3] {
        writer.thread(&Thread {
            id: ThreadId(id),
            name: format!("thread {id}"),
            ..Thread::default()
        });
        writer.mark(&Mark::Wall {
            seconds: 1_700_000_000,
            micros: 5,
        });
        for round in 0..rounds {
            write_round(writer, id + round * 1_000_000, round);
        }
        writer.calls(&[call(1 << 50, 1, Edge::Entry)]);
    }
}

/// One event of each kind, inside of a call with arguments.
fn write_round(writer: &mut dyn Writer, time: u64, round: u64) {
    writer.mark(&Mark::Cpu {
        time: Ticks(time),
        cpu: CpuId(round as u32 % 3),
    });
    let first = Call {
        has_arguments: true,
        ..call(time, 1, Edge::Entry)
    };
    writer.calls(&[first]);
    for value in 0..12 {
        writer.mark(&Mark::Argument {
            value: value * round,
        });
    }
    writer.calls(&[
        call(time + 10, 2, Edge::Entry),
        call(time + 300, 3, Edge::Entry),
    ]);
    let data = [b"payload ".as_slice(), &[round as u8]].concat();
    writer.mark(&Mark::Custom {
        time: Ticks(time + 301),
        cpu: None,
        data: &data,
    });
    writer.mark(&Mark::Typed {
        time: Ticks(time + 302),
        kind: 9,
        data: b"typed",
    });
    let (kind, body) = note(round);
    writer.mark(&Mark::Note {
        time: Ticks(time + 303),
        kind,
        body: &body,
    });
    writer.mark(&Mark::Lost { records: round });
    writer.calls(&[
        call(time + 400, 3, Edge::TailExit),
        call(time + 500, 2, Edge::Exit),
        call(time + 600, 5, Edge::Entry),
        call(time + 600, 4, Edge::Entry),
        call(time + 600, 4, Edge::Exit),
        call(time + 70_000, 5, Edge::Exit),
        call(time + 80_000, 99, Edge::Exit),
        call(time + 900_000, 1, Edge::Exit),
    ]);
}

/// What ENTRACE's readers print of an entry.
#[derive(Debug)]
#[allow(dead_code, reason = "read by Debug")]
struct Line {
    parent: u32,
    children: Vec<u32>,
    message: Option<String>,
    name: String,
    target: String,
    level: String,
    module: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    attributes: Vec<(String, String)>,
}

/// The entries of a file, as the layout of this library has them.
fn lines(bytes: &[u8]) -> Vec<String> {
    let kind = decode_head(bytes).expect("a head");
    let prefix = if kind.container == Container::IetPrefix {
        8
    } else {
        0
    };
    let mut at = HEAD_SIZE;
    if kind.container == Container::Et {
        // What the tables say is for ENTRACE's reader to follow.
        let root: &[u8] = match kind.version {
            Version::V1 => b"\0\0\x04root\0\0\0\0\0\0",
            Version::V2 => b"\0\0\x04root\0\0\0\0\0\0\0",
        };
        let found = bytes.windows(root.len()).position(|bytes| bytes == root);
        at = found.expect("a root");
    }
    let mut lines: Vec<Line> = Vec::new();
    while at < bytes.len() {
        let decoded = decode_entry(&bytes[at + prefix..], kind.version).expect("an entry");
        let (entry, index) = (&decoded.entry, lines.len());
        if index > 0 {
            lines[entry.parent as usize].children.push(index as u32);
        }
        let own = |text: Option<&str>| text.map(str::to_owned);
        let attributes = entry.attributes.iter();
        lines.push(Line {
            parent: entry.parent,
            children: Vec::new(),
            message: own(entry.message),
            name: entry.metadata.name.to_owned(),
            target: entry.metadata.target.to_owned(),
            level: format!("{:?}", entry.metadata.level),
            module: own(entry.metadata.module_path),
            file: own(entry.metadata.file),
            line: entry.metadata.line,
            attributes: attributes
                .map(|(name, value)| ((*name).to_owned(), format!("{value:?}")))
                .collect(),
        });
        at += prefix + decoded.size;
    }
    lines.iter().map(|line| format!("{line:?}")).collect()
}

fn same(printed: &str, wanted: &[String], name: &str) {
    let printed: Vec<&str> = printed.lines().collect();
    for (printed, wanted) in printed.iter().zip(wanted) {
        assert_eq!(printed, wanted, "{name}");
    }
    assert_eq!(printed.len(), wanted.len(), "{name}");
}

#[test]
fn what_we_write_is_what_the_crate_reads() {
    let Some(read) = foreign("read", "ENTRACE files are read by the crate entrace_core") else {
        return;
    };
    let folder = Folder::new("entrace-read");
    for name in TARGETS {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let output = Output::File(file.expect("a file"));
        let mut writer =
            (target(name).expect("a target").create)(output, &info()).expect("a writer");
        everything(&mut *writer, 300);
        writer.finish().expect("a file");
        let bytes = fs::read(&path).expect("a file");
        let wanted = lines(&bytes);
        // Of a round: calls, a lone exit, three marks, a note; then a call, a time, a thread each, and the rest.
        assert_eq!(wanted.len(), 2 * (300 * (6 + 4) + 3) + 2 + 5);
        let count = wanted.len().to_string();
        let program = Program::new(&read, &folder).args(&["load", name, &count]);
        let printed = program.run().ok().stdout;
        same(&printed, &wanted, name);
        let is_note = |line: &&str| {
            line.contains(r#"message: Some("shop::order::total"), name: "shop::order::total""#)
        };
        let notes: Vec<&str> = printed.lines().filter(is_note).collect();
        assert_eq!(notes.len(), 2 * 300, "{name}");
        for value in [
            r#"level: "Warn""#,
            "U64(9)",
            "I64(-2)",
            "Float(0.5)",
            "Bool(true)",
            "Bytes([0, 255])",
        ] {
            assert!(notes[0].contains(value), "{name}: {value} in {}", notes[0]);
        }
        // One by hand: the first call.
        let first = r#"name: "shop::order::total", target: "shop::order", level: "Info", module: Some("shop::order"), file: Some("src/order.rs"), line: Some(10), attributes: [("arg0", "U64(0)"), ("arg1", "U64(0)"), ("arg10", "U64(0)"), ("arg11", "U64(0)"), "#;
        let rest = r#"("cpu", "U64(0)"), ("duration_ns", "U64(900000)"), ("start_ns", "U64(3)"), ("tid", "U64(3)")] }"#;
        let line = printed
            .lines()
            .find(|line| line.contains("duration_ns"))
            .expect("a call");
        assert!(line.contains(first) && line.ends_with(rest), "{line}");
        assert!(line.starts_with("Line { parent: 0, children: ["), "{line}");
    }
}

#[test]
fn the_viewers_side_takes_our_stream() {
    let Some(read) = foreign(
        "read",
        "ENTRACE streams are received by the crate entrace_core",
    ) else {
        return;
    };
    let folder = Folder::new("entrace-listen");
    for (version, name) in [("1", "iet-prefix"), ("2", "iet-prefix2")] {
        let path = folder.join(name);
        let mut options = fs::File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let output = Output::File(file.expect("a file"));
        let create = target(name).expect("a target").create;
        let mut writer = create(output, &info()).expect("a writer");
        // Small enough for the socket's buffer: the crate loses its place where it must wait.
        everything(&mut *writer, 10);
        writer.finish().expect("a file");
        let bytes = fs::read(&path).expect("a file");
        let wanted = lines(&bytes);

        let count = wanted.len().to_string();
        let mut listener = Program::new(&read, &folder)
            .args(&["listen", version, &count])
            .start();
        let address = listener.line();
        let mut socket = TcpStream::connect(&address).expect("a listener");
        socket.write_all(&bytes).expect("a listener");
        drop(socket);
        let printed = listener.end().ok().stdout;
        let printed = printed
            .strip_prefix(&address)
            .expect("its address")
            .trim_start();
        same(printed, &wanted, name);
    }
}
