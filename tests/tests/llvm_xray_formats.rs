//! Unmodified `llvm-xray` reads the files of `fdr-formats`, without `-k`, and both read the same calls from the same
//! files. Each installed version of the tool is tested. A missing version is printed as skipped, and is a failure in
//! CI.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use fdr_formats::model::{Counts, NoteKind};
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::registry;
use fdr_formats::source::drive;
use fdr_formats::xray::{DumpWriter, Version, XrayWriter};
use fdr_formats::{
    Call, Clock, Diagnostic, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks,
    TraceInfo,
};

const VERSIONS: [Version; 2] = [Version::V1, Version::V3];
const READERS: [(&str, &str); 2] = [
    (
        "llvm-xray-14",
        "llvm-xray 14 reads traces (Debian package llvm-14)",
    ),
    (
        "llvm-xray-19",
        "llvm-xray 19 reads traces (Debian package llvm-19)",
    ),
];

/// The installed tools. A missing tool is printed once.
pub(crate) fn tools() -> &'static [PathBuf] {
    static TOOLS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let find = |(program, check): &(&str, &str)| fdr_tests::reader(program, check);
    TOOLS.get_or_init(|| READERS.iter().filter_map(find).collect())
}

/// Runs a tool on a file, which must succeed without a word of complaint.
pub(crate) fn run(tool: &Path, arguments: &str, file: &Path) -> String {
    let command = format!("{} {arguments} {}", tool.display(), file.display());
    let output = Command::new(tool)
        .args(arguments.split(' '))
        .arg(file)
        .output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{command}: {}\n{errors}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file that is removed at the end of its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("llvm-xray-{}-{number}.fdr", std::process::id());
        Scratch(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn create(&self) -> fs::File {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&self.0);
        file.unwrap_or_else(|error| panic!("{}: {error}", self.0.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// One edge as both sides tell it, in an order that does not depend on sorting by time.
type Line = (u64, u64, u32, &'static str);

/// What our reader finds: edges, and per function the finished calls and their ticks.
#[derive(Default)]
struct ReaderResult {
    thread: u64,
    lines: Vec<Line>,
    open: Vec<Call>,
    account: BTreeMap<u32, (u64, u64)>,
    diagnostics: Vec<Diagnostic>,
}

impl Sink for ReaderResult {
    fn thread(&mut self, thread: &Thread) {
        self.thread = thread.id.0;
    }

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            let kind = match call.edge {
                Edge::Entry if call.has_arguments => "function-enter-arg",
                Edge::Entry => "function-enter",
                Edge::Exit => "function-exit",
                Edge::TailExit => "function-tail-exit",
            };
            self.lines
                .push((self.thread, call.time.0, call.function.0, kind));
            if call.edge == Edge::Entry {
                self.open.push(*call);
            } else if let Some(entry) = self.open.pop() {
                let (count, ticks) = self.account.entry(call.function.0).or_default();
                *count += 1;
                *ticks += call.time.since(entry.time).0;
            }
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

fn ours(file: &Path) -> ReaderResult {
    let source = registry::open_path(file).unwrap_or_else(|error| panic!("{error}"));
    let mut ours = ReaderResult::default();
    drive(&*source, &mut ours, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(source.diagnostics(), []);
    assert_eq!(ours.diagnostics, []);
    ours.lines.sort_unstable();
    ours
}

/// The value behind `key: ` in a line of llvm-xray's YAML.
fn value<'a>(line: &'a str, key: &str) -> &'a str {
    let (_, rest) = line
        .split_once(&format!("{key}: "))
        .unwrap_or_else(|| panic!("{key} in {line}"));
    rest.split([',', ' ']).next().unwrap_or_default()
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn theirs(yaml: &str) -> Vec<Line> {
    let kinds = [
        "function-enter-arg",
        "function-enter",
        "function-exit",
        "function-tail-exit",
    ];
    let records = yaml.lines().filter(|line| line.contains("func-id: "));
    let mut lines: Vec<Line> = records
        .filter_map(|line| {
            let kind = kinds
                .into_iter()
                .find(|kind| *kind == value(line, "kind"))?;
            let (thread, tsc) = (number(value(line, "thread")), number(value(line, "tsc")));
            Some((thread, tsc, number(value(line, "func-id")), kind))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Per function: calls and seconds, of `account -f csv`.
pub(crate) fn account(csv: &str) -> BTreeMap<u32, (u64, f64)> {
    let rows = csv
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect::<Vec<&str>>());
    rows.map(|row| (number(row[0]), (number(row[1]), number(row[7]))))
        .collect()
}

/// Not `--aggregate-threads`: llvm-xray then uses a list that it has just moved, and crashes on files
/// of its own runtime.
const STACKS: &str =
    "stack --all-stacks --stack-format=flame --per-thread-stacks --aggregation-type=count";

/// Per function: calls, of `stack`'s lines `thread_7;#1;#2; 5`.
fn stacks(flames: &str) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for line in flames.lines() {
        let (stack, count) = line
            .rsplit_once("; ")
            .unwrap_or_else(|| panic!("{line} is no stack"));
        let (_, function) = stack
            .rsplit_once('#')
            .unwrap_or_else(|| panic!("no function in {line}"));
        *counts.entry(number(function)).or_default() += number::<u64>(count.trim());
    }
    counts
}

/// Everything that llvm-xray can do with a trace of balanced threads.
pub(crate) fn check(file: &Path, frequency: f64) {
    let ours = ours(file);
    for tool in tools() {
        run(tool, "fdr-dump --verify", file);
        let yaml = run(tool, "convert -f yaml", file);
        assert_eq!(theirs(&yaml), ours.lines, "{} convert", tool.display());

        let json = run(tool, "convert -f trace_event", file);
        let json: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        let events = json["traceEvents"]
            .as_array()
            .expect("a list of events")
            .len();
        assert_eq!(events, ours.lines.len());

        let accounts = account(&run(tool, "account -f csv", file));
        let counts = |(id, (count, _)): (&u32, &(u64, f64))| (*id, *count);
        let wanted: BTreeMap<u32, u64> = ours
            .account
            .iter()
            .map(|(id, (count, _))| (*id, *count))
            .collect();
        assert_eq!(
            accounts.iter().map(counts).collect::<BTreeMap<_, _>>(),
            wanted
        );
        for (id, (_, ticks)) in &ours.account {
            let (wanted, found) = (*ticks as f64 / frequency, accounts[id].1);
            assert!(
                (found - wanted).abs() <= wanted * 1e-5 + 1e-9,
                "#{id}: {found} s, not {wanted} s"
            );
        }

        assert_eq!(stacks(&run(tool, STACKS, file)), wanted);
        assert!(run(tool, "graph -e sum", file).contains("digraph"));
    }
}

fn info() -> TraceInfo {
    let names = [
        "demo::main",
        "<demo::Type<T> as \"Trait\">::gö\\",
        "demo::leaf",
    ];
    let function = |(id, name): (u32, &str)| {
        let (id, name, file) = (FunctionId(id), name.to_owned(), "src/main.rs".to_owned());
        Function {
            id,
            name,
            file,
            line: 3,
            untimed: false,
            kind: Default::default(),
        }
    };
    TraceInfo {
        clock: Clock {
            frequency: 2_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(3.0),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(5000), 1_700_000_000_123_456_789)),
            ..Clock::default()
        },
        functions: (1..).zip(names).map(function).collect(),
        program: "demo".into(),
        process: Some(4242),
        reason: "signal".into(),
        dump: Some(1),
        start: Some(Ticks(5000)),
        ..TraceInfo::default()
    }
}

/// A ring chunk: `NewBuffer`, `WallTime`, `NewCPUId`, then `(function, action, delta)`.
fn chunk(thread: u32, wall: u64, tsc: u64, calls: &[(u32, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0x01];
    bytes.extend(thread.to_le_bytes());
    bytes.resize(16, 0);
    bytes.push(0x09);
    bytes.extend(wall.to_le_bytes());
    bytes.resize(32, 0);
    bytes.extend([0x05, thread as u8, 0]);
    bytes.extend(tsc.to_le_bytes());
    bytes.resize(48, 0);
    for (function, action, delta) in calls {
        bytes.extend((function << 4 | action << 1).to_le_bytes());
        bytes.extend(delta.to_le_bytes());
    }
    bytes
}

fn dump(version: Version, threads: u32, chunks: impl Fn(u32) -> Vec<Vec<u8>>) -> Scratch {
    let (file, info) = (Scratch::new(), info());
    let mut writer = DumpWriter::new(file.create(), version, &info).expect("writable");
    for id in 1..=threads {
        let counts = Counts {
            recorded: 99,
            overwritten: 80,
            ..Counts::default()
        };
        let name = format!("worker {id}");
        let id_number = ThreadId(u64::from(id) + 70_000);
        let thread = Thread {
            id: id_number,
            name,
            process: None,
            counts: Some(counts),
            totals: Vec::new(),
            early_calls: Vec::new(),
        };
        let chunks = chunks(id);
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        writer.thread(&thread, &chunks).expect("writable");
    }
    writer.finish().expect("writable");
    file
}

#[test]
fn dumps_of_rings() {
    for version in VERSIONS {
        // 60 threads; later ones begin earlier. Each has frames cut at both ends, a lost exit and a lost entry, in two
        // chunks that belong together.
        let file = dump(version, 60, |id| {
            let start = 9000 - u64::from(id) * 50;
            let first = [
                (3, 1, 0),
                (2, 1, 40),
                (1, 0, 50),
                (2, 0, 10),
                (3, 0, 10),
                (1, 1, 70),
            ];
            let second = [
                (1, 0, 0),
                (3, 1, 5),
                (2, 0, 1),
                (2, 1, 1),
                (1, 1, 5),
                (3, 0, 6),
            ];
            // Wall-clock times that do not grow: the tools must not need them.
            vec![
                chunk(id, 7, start, &first),
                chunk(id, 7, start + 20_000_000_000, &second),
            ]
        });
        check(&file.0, 2e9);
    }
}

#[test]
fn dumps_with_empty_and_long_threads() {
    for version in VERSIONS {
        let file = dump(version, 3, |id| match id {
            1 => vec![],
            2 => vec![chunk(2, 1, 6000, &[])],
            _ => {
                let calls: Vec<_> = (0..20_000)
                    .map(|nth| (1 + nth / 2 % 3, nth % 2, 3))
                    .collect();
                vec![chunk(3, 1, 6000, &calls)]
            }
        });
        check(&file.0, 2e9);
    }
}

#[test]
fn a_dump_of_one_call() {
    for version in VERSIONS {
        let file = dump(version, 1, |_| {
            vec![chunk(1, 1, 6000, &[(1, 0, 0), (1, 1, 9)])]
        });
        check(&file.0, 2e9);
    }
}

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/xray");
    folder.join(name).with_extension("fdr")
}

#[test]
fn conversions_of_golden_files() {
    for name in [
        "llvm19-demo-v5",
        "v1-open",
        "v1-strayexit",
        "v3-mt",
        "v5-mt",
        "v4-std",
    ] {
        for version in VERSIONS {
            let source = registry::open_path(&golden(name)).expect("a golden file");
            let file = Scratch::new();
            let writer = XrayWriter::new(file.create(), version, source.info());
            let mut writer = writer.expect("writable");
            drive(&*source, &mut writer, &|_| {}).expect("readable");
            writer.finish().expect("writable");
            check(&file.0, 1e9);
        }
    }
}

#[test]
fn numbers_among_arguments_are_arguments() {
    let place = |(place, value)| Field {
        name: 9,
        place,
        value,
    };
    // XRay has no record for texts and floats.
    let text = FieldValue::Text(b"text", 4);
    let (float, signed) = (FieldValue::Float(0.5), FieldValue::Signed(-2));
    let fields = [
        (0, FieldValue::Unsigned(4711)),
        (1, text),
        (2, float),
        (3, signed),
    ];
    let (function, fields) = (1, fields.map(place).to_vec());
    let note = Note::Arguments { function, fields }.encode();
    let (kind, body) = (
        NoteKind::Arguments,
        &note.expect("a note within bounds")[..],
    );
    for version in VERSIONS {
        let (file, info) = (Scratch::new(), info());
        let mut writer = XrayWriter::new(file.create(), version, &info).expect("writable");
        let (id, thread) = (ThreadId(7), Thread::default());
        writer.thread(&Thread { id, ..thread });
        for time in (6000..106_000).step_by(100).map(Ticks) {
            writer.calls(&[Call::entry(time, FunctionId(1))]);
            writer.mark(&Mark::Note { time, kind, body });
            writer.calls(&[Call::exit(Ticks(time.0 + 50), FunctionId(1))]);
        }
        writer.finish().expect("writable");
        check(&file.0, 2e9);
        for tool in tools() {
            let yaml = run(tool, "convert -f yaml", &file.0);
            let count = yaml.matches("args: [ 4711, 18446744073709551614 ]").count();
            assert_eq!(count, 1000, "{}", tool.display());
        }
    }
}

#[test]
fn golden_files_agree_with_llvm_xray() {
    let names = [
        "v1-std",
        "v2-std",
        "v3-std",
        "v4-std",
        "v5-std",
        "v1-mt",
        "v3-mt",
        "v5-mt",
        "v3-mt-epoch",
        "v1-min",
        "v1-tid32",
        "v1-open",
        "v1-strayexit",
        "llvm19-demo-v5",
    ];
    for name in names {
        let file = golden(name);
        let ours = ours(&file);
        for tool in tools() {
            let yaml = run(tool, "convert -f yaml", &file);
            assert_eq!(theirs(&yaml), ours.lines, "{name}");
        }
    }
}

#[test]
fn version_1_goes_through_yaml_and_back() {
    let calls = [(1, 0, 0), (2, 0, 10), (2, 1, 20), (1, 1, 30)];
    let file = dump(Version::V1, 20, |id| {
        vec![chunk(id, 1, 6000 + u64::from(id), &calls)]
    });
    for tool in tools() {
        let yaml = Scratch::new();
        fs::write(&yaml.0, run(tool, "convert -f yaml", &file.0)).expect("writable");
        let (direct, through) = (
            run(tool, "account -f csv", &file.0),
            run(tool, "account -f csv", &yaml.0),
        );
        assert_eq!(account(&direct), account(&through), "{}", tool.display());
    }
}
