//! CTF folders, read by babeltrace2 and its Python library. They read a real program's trace without a complaint. They
//! find the calls that the program counted, nested, and the losses that the recorder counted. The folders of the golden
//! files are read by both.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fdr_formats::model::Counts;
use fdr_formats::registry;
use fdr_formats::source::drive;
use fdr_formats::writer::Output as Target;
use fdr_formats::{
    Call, Clock, CpuId, Edge, Function, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo,
};
use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{self, fdr, json, number};
use fdr_tests::support::trace::Trace;
use serde_json::Value;

type Calls = BTreeMap<String, u64>;

/// Python of the distribution: its packages hold `bt2`.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/babeltrace.py");

pub(crate) fn babeltrace() -> Option<PathBuf> {
    fdr_tests::reader(
        "babeltrace2",
        "babeltrace2 reads the CTF folder of a real program (Debian package babeltrace2)",
    )
}

/// Whether the Python library is there; where it is not, the test is skipped aloud.
fn has_library() -> bool {
    let import = Command::new(PYTHON).args(["-c", "import bt2"]).output();
    let found = import.is_ok_and(|output| output.status.success());
    if !found {
        fdr_tests::skip(
            "nesting and losses of CTF folders by babeltrace2's Python library: \
             python3-bt2 is not installed",
        );
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    output
}

/// The events in words, one a line. The only thing that babeltrace2 may say beside is what was lost.
pub(crate) fn words(tool: &Path, folder: &Path) -> Vec<String> {
    // Seconds: as dates, times before 1970 are warned of.
    let output = run(Command::new(tool).arg("--clock-seconds").arg(folder));
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        assert!(line.starts_with("WARNING: Tracer discarded"), "{line}");
    }
    let words = String::from_utf8(output.stdout).expect("UTF-8");
    words.lines().map(str::to_owned).collect()
}

/// What `sink.utils.counter` counts, by its words: `Event message`.
fn counter(tool: &Path, folder: &Path) -> Calls {
    let output = run(Command::new(tool)
        .arg(folder)
        .args(["--component", "sink.utils.counter"]));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let row = |line: &str| {
        let (count, what) = line.trim().split_once(' ')?;
        // "1 Event message", "2 Event messages".
        Some((what.trim_end_matches('s').to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn library(folder: &Path) -> Value {
    let output = run(Command::new(PYTHON).arg(SCRIPT).arg(folder));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Records the index builder: its trace, and its own counts.
fn record(folder: &Folder, variables: &str) -> (PathBuf, Calls) {
    let arguments = "--documents 10 --passes 1 --threads 3 --counts counts.json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let _ = Program::new(example("index_builder"), folder)
        .set("FDR=1 FDR_BUFFER=32M FDR_OUT=index.fdr FDR_FORMAT=xray")
        .set(variables)
        .args(&arguments)
        .run()
        .ok();
    let counts = fs::read(folder.join("counts.json")).expect("the counts");
    let counts: Value = serde_json::from_slice(&counts).expect("JSON");
    let rows = counts["functions"].as_array().expect("a list").iter();
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["calls"].as_u64().expect("a number"))
    };
    (folder.join("index.fdr"), rows.map(row).collect())
}

fn convert(trace: &Path, folder: &Folder) -> PathBuf {
    let source = registry::open_path(trace).expect("a trace");
    let target = registry::target("ctf").expect("the target");
    let path = folder.join("index.ctf");
    fs::create_dir(&path).expect("a folder");
    let mut writer = (target.create)(Target::Folder(path.clone()), source.info()).expect("space");
    drive(&*source, &mut *writer, &|_| {}).expect("a readable trace");
    let losses = writer.finish().expect("space");
    // One of the program's functions is untimed, and short calls have no records. The format can say neither.
    let is_known = |what: &str| what.contains("untimed") || what.contains("short calls");
    let others = losses.iter().filter(|(what, _)| !is_known(what));
    assert_eq!(others.count(), 0, "{losses}");
    path
}

fn table(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().expect("an object").iter()
}

/// Calls per function by name, over all threads, as babeltrace2's library found them.
fn calls(found: &Value) -> Calls {
    let mut sums = Calls::new();
    for (_, thread) in table(&found["threads"]) {
        for (id, count) in table(&thread["calls"]) {
            let name = found["functions"][id][0].as_str().expect("a name");
            *sums.entry(name.to_owned()).or_default() += number(count);
        }
    }
    sums
}

/// The same report of a folder as of the trace that it was made of.
fn same_report(trace: &Path, folder: &Path) {
    let report = |path: &Path| -> Value { json("report --window", &[path]) };
    let (of_trace, of_folder) = (report(trace), report(folder));
    let names = |report: &Value| tool::calls(&report["functions"]);
    assert!(!names(&of_trace).is_empty());
    assert_eq!(names(&of_trace), names(&of_folder));
}

#[test]
fn a_whole_program() {
    let folder = Folder::new("ctf");
    let (trace, counts) = record(&folder, "");
    let sum = counts.values().sum::<u64>();
    assert!(sum > 5_000, "a program that does something: {counts:?}");
    let made = convert(&trace, &folder);
    same_report(&trace, &made);
    if let Some(tool) = babeltrace() {
        let words = words(&tool, &made);
        let count = |name: &str| words.iter().filter(|line| line.contains(name)).count() as u64;
        assert_eq!(count(" lttng_ust_cyg_profile:func_entry: "), sum);
        assert_eq!(count(" lttng_ust_cyg_profile:func_exit: "), sum);
        assert_eq!(
            count("name = \"index_builder::tokens::stem\""),
            1,
            "names are in it"
        );
        let counted = counter(&tool, &made);
        assert_eq!(counted["Event message"], words.len() as u64);
        assert_eq!(counted["Discarded event message"], 0);
    }
    if has_library() {
        let found = library(&made);
        assert_eq!(calls(&found), counts);
        for (id, thread) in table(&found["threads"]) {
            assert_eq!(number(&thread["unmatched"]), 0, "thread {id}");
            assert_eq!(
                thread["open"].as_array().map(Vec::len),
                Some(0),
                "thread {id}"
            );
            assert_eq!(
                thread["callers"], thread["entries"],
                "each names its caller: thread {id}"
            );
            assert_eq!(number(&thread["discarded"]), 0, "thread {id}");
        }
    }
}

#[test]
fn a_snapshot_of_full_rings() {
    // Rings that were overwritten many times: calls are open at both ends of what is left.
    let folder = Folder::new("ctf-snapshot");
    let (trace, _) = record(&folder, "FDR_BUFFER=128K");
    let ours = Trace::read(&trace);
    let made = convert(&trace, &folder);
    same_report(&trace, &made);
    let lost: u64 = ours
        .threads
        .iter()
        .map(|lane| {
            let counts = lane.checked_counts();
            counts.overwritten + counts.dropped
        })
        .sum();
    assert!(lost > 0, "something was overwritten");
    if let Some(tool) = babeltrace() {
        let edges: usize = ours.threads.iter().map(|lane| lane.edges.len()).sum();
        let words = words(&tool, &made);
        let measured = words
            .iter()
            .filter(|line| line.contains(" lttng_ust_cyg_profile:") && line.contains("flags = 0"));
        assert_eq!(measured.count(), edges);
    }
    if !has_library() {
        return;
    }
    let found = library(&made);
    assert_eq!(calls(&found), ours.calls());
    for lane in &ours.threads {
        let (name, counts) = (&lane.thread.name, lane.checked_counts());
        let id = lane.thread.id.to_string();
        let thread = &found["threads"][&id];
        assert_eq!(number(&thread["unmatched"]), 0, "{name}");
        assert_eq!(thread["open"].as_array().map(Vec::len), Some(0), "{name}");
        assert_eq!(
            number(&thread["synthetic"]),
            lane.synthetic.iter().sum::<u64>(),
            "{name}"
        );
        let edges = number(&thread["entries"]) + number(&thread["exits"]);
        assert_eq!(
            edges,
            counts.readable + lane.synthetic.iter().sum::<u64>(),
            "{name}"
        );
        assert_eq!(
            number(&thread["discarded"]),
            counts.overwritten + counts.dropped,
            "{name}"
        );
        let fact = &found["facts"][&id];
        assert_eq!(fact["name"].as_str(), Some(&**name));
        assert_eq!(number(&fact["overwritten"]), counts.overwritten, "{name}");
        assert_eq!(number(&fact["recorded"]), counts.recorded, "{name}");
    }
}

#[test]
fn golden_folders_hold_what_babeltrace2_finds() {
    let Some(tool) = babeltrace() else { return };
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/ctf");
    for (name, discarded) in [("compact", 1), ("big", 0), ("ours", 3), ("babeltrace2", 3)] {
        let folder = Path::new(golden).join(name);
        let source = registry::open_path(&folder).expect("a trace");
        let mut events: Vec<String> = Vec::new();
        let visit = &mut |record: &fdr_formats::source::Record<'_>| {
            if !matches!(
                record.kind,
                "Metadata" | "MetadataPacket" | "Packet" | "Padding"
            ) {
                events.push(record.kind.to_owned());
            }
            ControlFlow::Continue(())
        };
        source.records(visit).expect("readable files");
        let words = words(&tool, &folder);
        assert_eq!(words.len(), events.len(), "{name}");
        for event in &events {
            let count =
                |all: &[String], what: &str| all.iter().filter(|line| line.contains(what)).count();
            let theirs = count(&words, &format!(" {event}: "));
            assert_eq!(theirs, count(&events, event), "{name}: {event}");
        }
        let counted = counter(&tool, &folder);
        assert_eq!(counted["Event message"], events.len() as u64, "{name}");
        assert_eq!(counted["Discarded event message"], discarded, "{name}");
    }
}

/// Changes of CPU and losses at a stream's end: packets whose head is their news have an event.
#[test]
fn heads_that_no_other_event_follows_are_read() {
    let Some(tool) = babeltrace() else { return };
    let folder = Folder::new("ctf-heads");
    let path = folder.join("heads.ctf");
    fs::create_dir(&path).expect("a folder");
    let target = registry::target("ctf").expect("the target");
    let output = Target::Folder(path.clone());
    let mut writer = (target.create)(output, &TraceInfo::default()).expect("space");
    let thread = |overwritten| Thread {
        id: ThreadId(7),
        counts: Some(Counts {
            overwritten,
            ..Counts::default()
        }),
        ..Thread::default()
    };
    let call = |time, edge| Call {
        time: Ticks(time),
        function: FunctionId(1),
        edge,
        synthetic: false,
        has_arguments: false,
    };
    writer.thread(&thread(0));
    writer.calls(&[call(1, Edge::Entry), call(2, Edge::Exit)]);
    for (time, cpu) in [(3, 0), (3, 1), (4, 0)] {
        let (time, cpu) = (Ticks(time), CpuId(cpu));
        writer.mark(&Mark::Cpu { time, cpu });
    }
    writer.thread(&thread(5));
    writer.finish().expect("space");
    let words = words(&tool, &path);
    let count = |name: &str| words.iter().filter(|line| line.contains(name)).count();
    assert_eq!(count(" lttng_ust_cyg_profile:func_"), 2, "{words:?}");
    assert_eq!(count(" fdr:head: "), 3, "{words:?}");
    assert_eq!(counter(&tool, &path)["Discarded event message"], 1);
    if has_library() {
        let found = library(&path);
        assert_eq!(number(&found["threads"]["7"]["discarded"]), 5);
        assert_eq!(number(&found["others"]["fdr:head"]), 3);
    }
}

/// Everything at which a reader may give up: times at both ends, odd names, nothing at all.
#[test]
fn extremes_are_read_without_a_complaint() {
    let Some(tool) = babeltrace() else { return };
    let clock = |frequency, anchor| Clock {
        frequency,
        anchor,
        ..Clock::default()
    };
    let most = i64::MAX as u64;
    let clocks = [
        clock(1_000_000_000, None),
        clock(1, None),
        clock(
            2_794_748_123,
            Some((Ticks(1 << 62), 1_700_000_000_000_000_000)),
        ),
        clock(1_000_000_000, Some((Ticks(0), most - 2_000_000_000))),
        clock(1_000_000_000, Some((Ticks(most - 2_000_000_000), 0))),
        clock(1_000_000_000, Some((Ticks(5_000_000_000), 1))),
        clock(1_000_000_000, Some((Ticks(0), u64::MAX))),
    ];
    for (nth, clock) in clocks.into_iter().enumerate() {
        let folder = Folder::new("ctf-extremes");
        let name = "\"\\ */ \u{1} {} ; \0 <é>".to_owned() + &"🦀".repeat(20_000);
        let info = TraceInfo {
            clock,
            program: name.clone(),
            reason: name.clone(),
            functions: vec![Function {
                id: FunctionId(1),
                name: name.clone(),
                ..Function::default()
            }],
            ..TraceInfo::default()
        };
        let target = registry::target("ctf").expect("the target");
        let path = folder.join("extreme.ctf");
        fs::create_dir(&path).expect("a folder");
        let mut writer = (target.create)(Target::Folder(path.clone()), &info).expect("space");
        let calls = [0, 1, 1 << 33, 1 << 50, 1 << 63, u64::MAX].map(|time| Call {
            time: Ticks(time),
            function: FunctionId(1),
            edge: Edge::Entry,
            synthetic: false,
            has_arguments: false,
        });
        for id in [0, 1, u64::MAX - 1] {
            writer.thread(&Thread {
                id: ThreadId(id),
                name: name.clone(),
                ..Thread::default()
            });
            // One thread has no event.
            writer.calls(if id == 1 { &[] } else { &calls[..] });
            writer.mark(&Mark::Custom {
                time: Ticks(3),
                cpu: None,
                data: &vec![0; if id == 1 { 0 } else { 100_000 }],
            });
        }
        writer.finish().expect("space");
        let found = counter(&tool, &path);
        // 12 calls, 3 events with payload; trace, function, 3 threads.
        assert_eq!(found["Event message"], 12 + 3 + 5, "clock {nth}");
        let words = words(&tool, &path);
        assert_eq!(words.len(), 20, "clock {nth}");
    }
    let folder = Folder::new("ctf-empty");
    let target = registry::target("ctf").expect("the target");
    let path = folder.join("empty.ctf");
    fs::create_dir(&path).expect("a folder");
    let writer = (target.create)(Target::Folder(path.clone()), &TraceInfo::default());
    writer.expect("space").finish().expect("space");
    assert_eq!(words(&tool, &path).len(), 1, "the trace's own facts");
}

#[test]
fn events_have_names_and_values() {
    let folder = Folder::new("ctf-events");
    let _ = Program::named("events", &folder)
        .set("FDR=*,-programs::events::*left?out* FDR_OUT=index.fdr FDR_FORMAT=xray")
        .args(&["2"])
        .run()
        .ok();
    let made = convert(&folder.join("index.fdr"), &folder);
    let Some(tool) = babeltrace() else { return };
    let words = words(&tool, &made);
    let has = |wanted: &[&str]| {
        let found = |line: &&String| wanted.iter().all(|word| line.contains(word));
        assert!(
            words.iter().any(|line| found(&line)),
            "{wanted:?}: {words:#?}"
        );
    };
    has(&[
        " programs::events::forms: ",
        "{ id = 7, signed = -1, float = 0.5, truth = 1, id_2 = \"7\", path = \"\\\"/a\\\"\", type = \"raw\" }",
    ]);
    has(&[
        " programs::events::round: ",
        "{ number = 1, even = 0, name = \"a round\" }",
    ]);
    has(&[" programs::events::rounds: ", "{ value = 1 }"]);
    has(&[
        " programs::events::long: ",
        "text_bytes = 65536",
        "after = 7 }",
    ]);
    has(&[" programs::events::no fields: ", "{ }"]);
    // The fields of a span stand behind its entry.
    let inside = words
        .iter()
        .position(|line| line.contains(" programs::events::inside: "));
    let before = inside.and_then(|at| words.get(at - 1));
    assert!(
        before.is_some_and(|line| line.contains(":func_entry: ")),
        "{before:?}"
    );
    // A text with a zero is bytes.
    assert!(
        !words
            .iter()
            .any(|line| line.contains(['\u{1b}', '\u{202e}', '\0']))
    );
    // There and back, all is as it was.
    let back = folder.join("back.fdr");
    let _ = fdr("convert --to xray -o", &[&back, &made]);
    let events = |path: &Path| {
        let trace = Trace::read(path);
        trace.events(trace.thread("programs"))
    };
    assert_eq!(events(&back), events(&folder.join("index.fdr")));
}
