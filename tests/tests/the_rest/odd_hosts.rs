//! Programs that do what few do: with the recorder, each prints, ends and takes as long as without it. Every way is run
//! once without the recorder and once in each setting. Where they differ on purpose, the table says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::trace::Trace;

const HOST: &str = env!("CARGO_BIN_EXE_odd_host");

/// What all settings have: traces are apart from the program's own files, and the dump signal is one that does nothing
/// without the recorder.
const COMMON: &str = "FDR=1 FDR_OUT=traces/ FDR_SIGNAL=WINCH FDR_MEMORY=256M";

/// Ways to record.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    On,
    States,
    Stream,
    Triggers,
}

use Setting::{On, States, Stream, Triggers};

const ALL: [Setting; 4] = [On, States, Stream, Triggers];

impl Setting {
    fn set(self, program: Program) -> Program {
        let program = program.set(COMMON);
        match self {
            On => program,
            States => program.set("FDR_SCHED=1"),
            // It has all records; nothing is dumped beside it.
            Stream => program
                .set("FDR_MODE=stream FDR_FORMAT=htdump FDR_OUT=traces/stream.fdr")
                .set("FDR_SIGNAL=none"),
            Triggers => {
                let triggers = "every 100ms, signal, panic, exit, int, term, odd_host::work>1us";
                program.env("FDR_TRIGGER", triggers)
            }
        }
    }
}

/// What differs on purpose.
#[derive(Clone, Copy)]
enum AllowedDifference {
    /// The recorder prints a line with this text, in addition to the lines with the paths of traces.
    Says(&'static str),
    /// The recorder prints a line with this text, or none.
    MaySay(&'static str),
    /// What the program prints, or how it ends, is not compared.
    Differs,
}

use AllowedDifference::{Differs, MaySay, Says};

/// A way, in which settings, what differs, and why.
type Row = (
    &'static str,
    &'static [Setting],
    AllowedDifference,
    &'static str,
);

const DIFFERENT: &[Row] = &[
    ("abort", &ALL, Says("SIGABRT in thread "), CRASH),
    ("panic-in-a-panic", &ALL, Says("SIGABRT in thread "), CRASH),
    ("fault", &ALL, Says("SIGSEGV at 0x10 in thread "), CRASH),
    ("stack-overflow", &ALL, Says("SIGSEGV at 0x"), CRASH),
    (
        "exit-during-dumps",
        &ALL,
        MaySay("the process ends, and its last trace is written"),
        LAST,
    ),
    (
        "other-root",
        &ALL,
        MaySay(NO_TRACE),
        "the folder of traces is outside of the new root",
    ),
    (
        "terminate-of-children",
        &ALL,
        Says("SIGTERM: the last "),
        "a child of a fork has no dumper, and writes as a crash does",
    ),
    ("limit-of-file-sizes", &ALL, MaySay("File too large"), FILES),
    (
        "limit-of-file-sizes-0",
        &ALL,
        MaySay("File too large"),
        FILES,
    ),
    (
        "calls-refused-to-all",
        &ALL,
        MaySay("Operation not permitted"),
        REFUSED,
    ),
    (
        "calls-refused-to-the-only-thread",
        &ALL,
        MaySay("Operation not permitted"),
        REFUSED,
    ),
    ("ends-kill-the-only-thread", &ALL, MaySay(NO_TRACE), REFUSED),
    (
        "ends-kill-the-only-process",
        &ALL,
        MaySay(NO_TRACE),
        REFUSED,
    ),
    ("calls-kill-the-only-thread", &ALL, Differs, GROWS),
    ("calls-kill-the-only-process", &ALL, Differs, GROWS),
    ("limit-of-processes", &ALL, Differs, THREAD),
    (
        "limit-of-threads",
        &ALL,
        Differs,
        "the recorder's thread is one of those that the user may have",
    ),
    (
        "limit-of-threads",
        &ALL,
        MaySay("nothing was recorded"),
        "a child that may not make its threads calls nothing",
    ),
    (
        "limit-of-addresses",
        &ALL,
        Says(" of addresses leaves "),
        RINGS,
    ),
    ("limit-of-addresses", &ALL, Differs, RINGS),
    (
        "limit-of-addresses-later",
        &ALL,
        Differs,
        "the program comes to its limit by itself, sooner or later",
    ),
    (
        "limit-of-addresses-later",
        &ALL,
        MaySay(NO_TRACE),
        "a trace needs addresses, and the program has taken all but a few",
    ),
    ("namespace-of-users", &ALL, Differs, THREAD),
    ("memory-of-its-own", &ALL, Differs, THREAD),
    ("threads-of-its-own", &ALL, Differs, THREAD),
    ("count-of-threads", &ALL, Differs, THREAD),
    ("count-of-threads-later", &ALL, Differs, THREAD),
    (
        "no-time-stamps",
        &ALL,
        Differs,
        "the program forbids the instruction that reads the clock",
    ),
    (
        "alignment-checked",
        &ALL,
        Differs,
        "the compiler and the C library put words anywhere",
    ),
];

const NO_TRACE: &str = "no trace was written: ";
const CRASH: &str = "a crash is told, with its trace";
const LAST: &str = "a dump is asked for while the last one is written";
const FILES: &str = "the limit is one for the recorder's files, too";
const REFUSED: &str = "the recorder may do no more than the program";
const GROWS: &str = "a program of one thread asks for its ring's space itself";
const RINGS: &str = "rings take up to a quarter of the addresses, and a line says so";
const THREAD: &str = "the recorder has a thread of its own";
/// The frame of the recorder's hook in the backtrace of a panic in a panic.
const HOOK: &str = " fdr::shell::panics::";

/// Beside ten times what the program takes by itself: for a machine that does much else.
const MORE: Duration = Duration::from_secs(20);

/// What a program did.
#[derive(Debug)]
struct Run {
    /// How it ended, what it printed, and what is in its files: all that is compared.
    facts: BTreeMap<String, String>,
    /// The recorder's lines.
    lines: Vec<String>,
    took: Duration,
    traces: Vec<PathBuf>,
    folder: Folder,
}

/// A line without numbers, which differ from run to run; of a frame of a backtrace, only the name.
fn steady(line: &str) -> String {
    let frame = line
        .split_once(" - ")
        .filter(|(number, _)| number.contains(": "));
    let text = frame.map_or(line, |(_, name)| name);
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn run(way: &str, setting: Option<Setting>) -> Run {
    let folder = Folder::new("odd-host");
    fs::create_dir(folder.join("traces")).expect("a folder");
    // For a user who has given all rights away.
    for path in [folder.path().to_owned(), folder.join("traces")] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("the folder");
    }
    let program = Program::new(HOST, &folder).args(&[way]);
    let program = program.env("RUST_BACKTRACE", "0");
    let begun = Instant::now();
    let outcome = match setting {
        Some(setting) => setting.set(program).run(),
        None => program.run(),
    };
    let took = begun.elapsed();
    let (own, others): (Vec<&str>, Vec<&str>) = outcome
        .stderr
        .lines()
        .filter(|line| !line.contains(HOOK))
        .partition(|line| line.starts_with("fdr: "));
    let lines = own.iter().map(|line| line["fdr: ".len()..].to_owned());
    let mut facts = BTreeMap::new();
    facts.insert("its end".into(), format!("{:?}", outcome.status));
    facts.insert("its output".into(), outcome.stdout);
    let steady: Vec<String> = others.iter().map(|line| steady(line)).collect();
    facts.insert("its errors".into(), steady.join("\n"));
    for name in folder.names().iter().filter(|name| *name != "traces") {
        let text = fs::read(folder.join(name)).unwrap_or_default();
        facts.insert(name.clone(), text.escape_ascii().to_string());
    }
    let traces = fs::read_dir(folder.join("traces")).expect("the folder");
    let traces = traces.map(|entry| entry.expect("an entry").path());
    Run {
        facts,
        lines: lines.collect(),
        took,
        traces: traces.collect(),
        folder,
    }
}

/// Whether a line only says where a trace is.
fn is_ordinary(line: &str) -> bool {
    let begins = ["wrote ", "replaced ", "streamed "];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// What differs from the run without the recorder, and is in no row.
fn differences(way: &str, setting: Setting, off: &Run) -> Vec<String> {
    let rows = || {
        let mine = |row: &&Row| row.0 == way && row.1.contains(&setting);
        DIFFERENT.iter().filter(mine).map(|row| row.2)
    };
    let on = run(way, Some(setting));
    let mut found = Vec::new();
    let is_compared = !rows().any(|but| matches!(but, Differs));
    if is_compared && on.facts != off.facts {
        for (what, text) in &off.facts {
            let other = on.facts.get(what).map_or("nothing", String::as_str);
            if other != text {
                found.push(format!("{what} is {other:?}, not {text:?}"));
            }
        }
        let more = on
            .facts
            .keys()
            .filter(|what| !off.facts.contains_key(*what));
        found.extend(more.map(|what| format!("there is {what}")));
    }
    let known = |line: &&String| {
        is_ordinary(line)
            || rows().any(|but| match but {
                Says(words) | MaySay(words) => line.contains(words),
                Differs => false,
            })
    };
    let unknown: BTreeSet<&String> = on.lines.iter().filter(|line| !known(line)).collect();
    found.extend(unknown.iter().map(|line| format!("it says {line:?}")));
    for but in rows() {
        match but {
            Says(words) if !on.lines.iter().any(|line| line.contains(words)) => {
                found.push(format!("it does not say {words:?}"));
            }
            _ => {}
        }
    }
    if on.took > 10 * off.took + MORE {
        found.push(format!("it takes {:?}, not {:?}", on.took, off.took));
    }
    let is_trace = |path: &&PathBuf| path.extension().is_some_and(|end| end == "fdr");
    let traces = on.traces.iter().filter(is_trace);
    found.extend(traces.filter_map(|trace| damage(setting, trace)));
    drop(on.folder);
    let place = format!("{way}, {setting:?}");
    found
        .iter()
        .map(|what| format!("{place}: {what}"))
        .collect()
}

/// What is wrong with a trace.
fn damage(setting: Setting, trace: &Path) -> Option<String> {
    if setting == Stream {
        // It may have lost records, which is no damage.
        let read = panic::catch_unwind(|| drop(Trace::read(trace)));
        return read.err().map(|_| "the stream does not read".to_owned());
    }
    let mut tool = Command::new(fdr_tests::tool());
    let output = tool.arg("verify").arg(trace).output().expect("fdr runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    // The first line tells what is wrong first.
    let first = text.lines().next().unwrap_or_default();
    (!output.status.success()).then(|| format!("a trace: {first}"))
}

/// All ways, by the file that they are in.
fn ways() -> Vec<(String, String)> {
    let folder = Folder::new("odd-host-list");
    let program = Program::new(HOST, &folder).args(&["list"]);
    let list = program.run().ok().stdout;
    let words = list.lines().filter_map(|line| line.split_once(' '));
    words.map(|(file, way)| (file.into(), way.into())).collect()
}

/// Every way of a file, in each setting.
fn check(file: &str) {
    let (mut found, mut count) = (Vec::new(), 0);
    for (_, way) in ways().iter().filter(|(other, _)| other == file) {
        let off = run(way, None);
        count += 1;
        for setting in ALL {
            found.extend(differences(way, setting, &off));
        }
    }
    assert!(count > 0, "no way of {file}");
    assert!(found.is_empty(), "{count} ways:\n{}", found.join("\n"));
}

macro_rules! files {
    ($($test:ident $file:literal)*) => {$(
        #[test]
        fn $test() {
            check($file);
        }
    )*};
}

files! {
    odd_end_signals_are_as_without_the_recorder "end-signals"
    odd_ends_are_as_without_the_recorder "ends"
    odd_files_are_as_without_the_recorder "files"
    odd_kin_is_as_without_the_recorder "kin"
    odd_limits_are_as_without_the_recorder "limits"
    odd_rights_are_as_without_the_recorder "rights"
    odd_signals_are_as_without_the_recorder "signals"
    odd_threads_are_as_without_the_recorder "threads"
    odd_values_are_as_without_the_recorder "values"
}

#[test]
fn the_table_names_ways_that_there_are() {
    let ways = ways();
    assert!(ways.len() >= 60, "{}", ways.len());
    for (way, settings, _, why) in DIFFERENT {
        assert!(ways.iter().any(|(_, known)| known == way), "{way}");
        assert!(!settings.is_empty() && !why.is_empty(), "{way}");
    }
}
