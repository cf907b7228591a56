//! The tool from end to end. `fdr record` runs real programs. What the other commands say of the traces is compared
//! with the programs' own counts, and with llvm-xray.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{calls, name, rows};
use fdr_tests::{example, reader, tool};
use serde_json::Value;

/// A folder of the test's own, and the tool in it.
struct Place(Folder);

impl Place {
    fn new(test: &str) -> Place {
        Place(Folder::new(test))
    }

    /// A program in the folder, without the recorder's variables of the test's own environment.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Program::new(program, &self.0).into_command()
    }

    /// Runs the tool.
    fn fdr(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(tool());
        let output = command.args(arguments).output().expect("fdr runs");
        assert!(output.status.success(), "fdr {arguments:?}: {output:?}");
        output
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.fdr(arguments).stdout).expect("JSON")
    }

    /// Records an example. Returns its output, the messages of fdr, and the one trace.
    fn record(&self, options: &[&str], program: &str, arguments: &[&str]) -> Recording {
        let program = example(program);
        let program = ["--", program.to_str().expect("UTF-8")];
        let output = self.fdr(&[&["record"], options, &program, arguments].concat());
        let messages = String::from_utf8(output.stderr).expect("UTF-8");
        // The recorder says where the trace is, the tool what to do with it.
        let next = messages.lines().last().unwrap_or_default();
        let trace = next.strip_prefix("fdr: next: fdr report ");
        let trace = trace
            .unwrap_or_else(|| panic!("not one trace: {messages}"))
            .to_owned();
        assert_eq!(messages.matches("fdr: wrote ").count(), 1, "{messages}");
        self.fdr(&["verify", &trace]);
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        Recording { trace, stdout }
    }
}

struct Recording {
    trace: String,
    stdout: String,
}

/// The same by thread.
fn calls_by_thread(threads: &Value) -> BTreeMap<String, BTreeMap<String, u64>> {
    let threads = rows(threads).iter();
    threads
        .map(|thread| (name(thread), calls(&thread["functions"])))
        .collect()
}

/// Calls by name as `llvm-xray account` counts them: the columns count and function, the last.
fn accounted(account: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let count = line.split(',').nth(1).expect("a count");
        let name = line.rsplit("\",\"").next().expect("a name");
        let name = name.trim_end_matches('"').to_owned();
        (name, count.parse().expect("a number"))
    };
    account.lines().skip(1).map(row).collect()
}

#[test]
fn the_program_report_and_llvm_xray_count_alike() {
    let folder = Place::new("cli-counts");
    // The ring holds all of it.
    let recording = folder.record(
        &["--buffer", "64M"],
        "index_builder",
        &[
            "--documents",
            "300",
            "--passes",
            "1",
            "--counts",
            "counts.json",
        ],
    );
    let counts = fs::read(folder.0.join("counts.json")).expect("the program's own counts");
    let counts: Value = serde_json::from_slice(&counts).expect("JSON");
    let expected = calls(&counts["functions"]);
    assert!(expected.len() > 10, "{expected:?}");

    let report = folder.json(&["report", "--json", "--per-thread", &recording.trace]);
    assert_eq!(calls(&report["functions"]), expected);
    assert_eq!(
        calls_by_thread(&report["threads"]),
        calls_by_thread(&counts["threads"])
    );

    folder.fdr(&["convert", "--to", "map", &recording.trace, "-o", "map.elf"]);
    for program in ["llvm-xray-14", "llvm-xray-19"] {
        let Some(llvm) = reader(program, "llvm-xray account counts as fdr report does") else {
            continue;
        };
        let output = Command::new(llvm)
            .args(["account", "-f", "csv", "-m", "map.elf", &recording.trace])
            .current_dir(folder.0.path())
            .output()
            .expect("it runs");
        let account = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(accounted(&account), expected, "{program}");
    }
}

#[test]
fn what_is_looked_through_is_what_was_recorded() {
    let folder = Place::new("cli-looking");
    // The ring holds all of it.
    let options = ["--buffer", "64M"];
    let arguments = ["--documents", "20", "--passes", "1"];
    let recording = folder.record(&options, "index_builder", &arguments);
    let trace = recording.trace.as_str();
    let report = folder.json(&["report", "--json", trace]);
    let expected = calls(&report["functions"]);
    let hist = folder.json(&["report", "--hist", "--json", trace, "*"]);
    assert_eq!(calls(&hist["functions"]), expected);
    let replay = folder.json(&["replay", "--json", "-n", "1000000", trace]);
    let mut replayed: BTreeMap<String, u64> = BTreeMap::new();
    for call in replay["calls"].as_array().expect("calls") {
        let name = call["function"].as_str().expect("a name").to_owned();
        *replayed.entry(name).or_default() += 1;
    }
    assert_eq!(replayed, expected);
    folder.fdr(&["flame", "-o", "x.svg", trace]);
    let picture = fs::read_to_string(folder.0.join("x.svg")).expect("a picture");
    assert!(picture.contains(">index_builder::"), "{picture}");
}

#[test]
fn a_ring_that_wrapped_says_what_it_lost() {
    let folder = Place::new("cli-wrapped");
    let recording = folder.record(
        &["--buffer", "128K"],
        "index_builder",
        &["--documents", "300", "--passes", "1"],
    );
    let report = folder.json(&["report", "--json", &recording.trace]);
    let mut overwritten = 0;
    for thread in report["threads"].as_array().expect("threads") {
        let count = |key: &str| thread[key].as_u64().expect("a count");
        assert_eq!(
            count("recorded"),
            count("readable") + count("overwritten") + count("dropped") + count("summarised")
        );
        assert_eq!(count("readable"), count("records"));
        overwritten += count("overwritten");
    }
    assert!(overwritten > 0);
    let table = folder.fdr(&["report", &recording.trace]).stdout;
    let table = String::from_utf8(table).expect("UTF-8");
    assert!(table.contains(" overwritten by newer ones, "), "{table}");
}

#[test]
fn options_choose_what_is_recorded_and_where() {
    let folder = Place::new("cli-options");
    let options = [
        "--filter",
        "*::collatz",
        "--output",
        "traces/%e-%n.trace",
        "--format",
        "xray1",
    ];
    fs::create_dir(folder.0.join("traces")).expect("a folder");
    let recording = folder.record(&options, "quickstart", &[]);
    assert_eq!(recording.stdout, "17673 takes 278 steps\n");
    assert_eq!(recording.trace, "traces/quickstart-1.trace");
    let report = folder.json(&["report", "--json", &recording.trace]);
    let expected = BTreeMap::from([("quickstart::collatz".to_owned(), 19_999)]);
    assert_eq!(calls(&report["functions"]), expected);
    assert!(
        report["format"]
            .as_str()
            .expect("text")
            .contains("version 1")
    );
}

#[test]
fn ten_milliseconds_are_ten_milliseconds_by_every_clock() {
    for clock in ["rdtscp", "rdtsc", "monotonic"] {
        if clock != "monotonic" && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let folder = Place::new(&format!("cli-clock-{clock}"));
        let recording = folder.record(&["--clock", clock], "sleeper", &[]);
        let report = folder.json(&["report", "--json", &recording.trace]);
        let functions = report["functions"].as_array().expect("functions");
        let sleep = functions
            .iter()
            .find(|function| function["name"] == "sleeper::sleep_10_ms")
            .expect("its row");
        assert_eq!(sleep["calls"], 100, "{clock}");
        // A busy machine makes sleeps longer and none shorter: the shortest tells the clock.
        let shortest = sleep["min_ns"].as_u64().expect("a time");
        assert!(
            (9_990_000..10_200_000).contains(&shortest),
            "{clock}: {shortest} ns"
        );
    }
}

#[test]
fn rings_tell_whether_the_process_runs() {
    let folder = Place::new("cli-ring");
    let mut program = folder.command(example("index_builder"));
    let program = program.args(["--seconds", "600"]).env("FDR", "1");
    let mut running = program.stdout(Stdio::null()).spawn().expect("it runs");
    let recover = || {
        let ring = folder.0.ending(".fdr-ring").pop()?;
        let mut command = folder.command(tool());
        let output = command.arg("dump").arg(ring).output();
        let output = output.expect("fdr runs");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        Some((output.status.code(), text))
    };
    let refused = format!("process {0} is running: fdr dump {0} makes", running.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match recover() {
            Some((Some(2), text)) if text.contains(&refused) => break,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        std::thread::yield_now();
    }

    running.kill().expect("it runs");
    // Not waited for: a process that has ended, and whose number is still taken.
    let text = loop {
        match recover() {
            Some((Some(0), text)) => break text,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    };
    let whose = format!("process {}, which ended without a dump: ", running.id());
    assert!(text.contains(&whose), "{text}");
    running.wait().expect("it has ended");
}

#[test]
fn rings_of_killed_commands_are_named() {
    let folder = Place::new("cli-left");
    let program = example("index_builder");
    // The shell kills the program as soon as there is a ring.
    let script = "\"$0\" --seconds 600 >/dev/null & \
                  until head -c 7 *.fdr-ring 2>/dev/null | grep -q FDRRING; do :; done; \
                  kill -KILL $!; wait";
    let program = program.to_str().expect("UTF-8");
    let output = folder.fdr(&["record", "--", "sh", "-c", script, program]);
    let messages = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        messages.contains("fdr: no trace was written: "),
        "{messages}"
    );
    assert!(messages.contains("fdr: the ring of process "), "{messages}");
    assert!(
        messages.contains(" was left; next: fdr dump "),
        "{messages}"
    );
    assert!(!messages.contains("not built"), "{messages}");
}
