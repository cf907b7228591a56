//! `FDR_SCHED`: compares when threads ran, were preempted and waited with the system's own figures. If this machine
//! reports no switches, the tests check the message about that instead.

use std::path::Path;
use std::time::Duration;

use fdr_formats::model::{State, Switch};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{fdr, json, row, verify};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::{until, within};
use serde_json::Value;

const VARIABLES: &str = "FDR_SCHED=1 FDR_OUT=out/";
const BY_DEFAULT: &str = "FDR_SCHED=auto FDR_LOG=info";
const NONE: &str = "no states of threads are recorded";
const ENDED: &str = "the states of threads end here";
pub(super) const REFUSED: &str = "FDR_SCHED: the kernel tells no context switches";

fn states(folder: &Folder, arguments: &[&str], variables: &str) -> Outcome {
    let program = Program::named("states", folder).set(VARIABLES);
    program.set(variables).args(arguments).run()
}

fn report(trace: &Path, option: &str) -> Value {
    json(&format!("report --limit 1000 {option}"), &[trace])
}

/// Times by state, ns: running, preempted, waiting, unknown.
fn times(states: &Value) -> [u64; 4] {
    ["running_ns", "preempted_ns", "waiting_ns", "unknown_ns"]
        .map(|key| states[key].as_u64().unwrap_or(0))
}

/// For each CPU, the system reports the time that the host took in whole ticks. So up to a tick may be unreported.
const UNTOLD_BY_THE_HOST: u64 = 2 * TICK_NS;
const TICK_NS: u64 = 10_000_000;

/// What the host of a virtual machine took of all its CPUs since it began, ns: the column `steal` of proc_stat(5).
fn taken_by_the_host() -> u64 {
    let all = std::fs::read_to_string("/proc/stat").expect("readable");
    let steal = all.split_whitespace().nth(8).expect("ten columns");
    steal.parse::<u64>().expect("ticks") * TICK_NS
}

fn only(folder: &Folder, end: &str) -> std::path::PathBuf {
    folder.only_file("out", end)
}

/// How many changes of states the trace has.
fn switches(trace: &Path) -> u64 {
    let info = json("info", &[trace]);
    info["states"]["switches"].as_u64().unwrap_or(0)
}

/// Whether the trace has states. If the machine reports none, a line must say so.
fn has_states(trace: &Path, stderr: &str) -> bool {
    verify(trace);
    let has = switches(trace) > 0;
    let says_why = [REFUSED, NONE].iter().any(|words| stderr.contains(words));
    assert_eq!(has, !says_why, "{stderr}");
    has
}

#[test]
fn states_agree_with_what_the_system_counts() {
    let folder = Folder::new("states");
    let before = taken_by_the_host();
    let outcome = states(&folder, &[], "FDR=1").ok();
    let stolen = taken_by_the_host() - before + UNTOLD_BY_THE_HOST;
    let trace = only(&folder, ".fdr");
    if !has_states(&trace, &outcome.stderr) {
        return;
    }
    let found = report(&trace, "--per-thread");
    let threads = found["threads"].as_array().expect("threads");
    let Trace {
        info,
        threads: lanes,
        ..
    } = Trace::read(&trace);
    let switches = &info.schedule.switches;
    let mut count = 0;
    for line in outcome.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let id: u64 = words[1].parse().expect("a thread");
        let cpu: u64 = words[2].parse().expect("ns");
        let thread = threads.iter().find(|thread| thread["id"] == id);
        let thread = thread.expect("the thread");
        let states = &thread["states"];
        let [running, preempted, waiting, unknown] = times(states);
        let all = running + preempted + waiting;
        // A thread's window begins and ends with its records, a little inside of what the program measured.
        let slack = all / 100 + 300_000;
        assert!(unknown <= slack, "{line}: {unknown} ns of {all} ns unknown");
        let elapsed = thread["duration_ns"].as_u64().expect("ns");
        assert!(
            all.abs_diff(elapsed) <= elapsed / 100,
            "{line}: {all} ns of {elapsed} ns"
        );
        // The thread asked the system after its last record.
        let lane = lanes.iter().find(|lane| lane.thread.id.0 == id);
        let last = *lane.and_then(|lane| lane.times.last()).expect("records");
        for (state, word) in [(State::Waiting, 4), (State::Preempted, 5)] {
            let counted: usize = words[word].parse().expect("a count");
            let of_it = |switch: &&Switch| switch.thread.0 == id && switch.to == Some(state);
            let all = switches.iter().filter(of_it);
            let before = all.clone().filter(|switch| switch.time.0 < last).count();
            let all = all.count();
            assert!(
                before <= counted && counted <= all,
                "{line}: {before} switches to {state:?} before its last record, {all} in all"
            );
        }
        // In a virtual machine the system leaves out of a thread's CPU time what its host took meanwhile. The trace can't.
        assert!(
            running + slack >= cpu && running <= cpu + slack + stolen,
            "{line}: ran {running} ns by the trace, {cpu} ns by the system; its host took {stolen} ns"
        );
        count += 1;
    }
    assert_eq!(count, 8);
    let functions = report(&trace, "--window");
    let functions = functions["functions"].as_array().expect("functions");
    let shares = |name: &str| {
        let full = format!("programs::states::{name}");
        let row = functions.iter().find(|row| row["name"] == *full);
        times(&row.expect("the function")["states"]["self"])
    };
    let [running, preempted, waiting, _] = shares("spin");
    assert!(running > 0 && waiting <= (running + preempted) / 10);
    let [running, _, waiting, _] = shares("sleep");
    assert!(waiting > 4 * running, "{waiting} {running}");
}

#[test]
fn they_are_in_other_formats() {
    let folder = Folder::new("states-format");
    let outcome = states(&folder, &[], "FDR=1").ok();
    let recorded = only(&folder, ".fdr");
    for format in ["ctf", "tcstate"] {
        let trace = folder.join(format);
        let _ = fdr(
            &format!("convert -q --to {format} -o"),
            &[&trace, &recorded],
        );
        if !has_states(&trace, &outcome.stderr) {
            return;
        }
        let report = report(&trace, "--window");
        let sleep = row(&report["functions"], "programs::states::sleep");
        let [running, _, waiting, _] = times(&sleep.expect("the function")["states"]["self"]);
        assert!(waiting > 4 * running, "{format}: {waiting} {running}");
    }
}

#[test]
fn states_survive_kill_crash_and_snapshot() {
    let folder = Folder::new("states-abort");
    let outcome = states(&folder, &["abort"], "FDR=1");
    let _ = has_states(&only(&folder, ".fdr"), &outcome.stderr);
    let folder = Folder::new("states-kill");
    let outcome = states(&folder, &["kill"], "FDR=1");
    let ring = only(&folder, ".fdr-ring");
    let recovered = folder.join("recovered.fdr");
    let _ = fdr("dump -o", &[&recovered, &ring]);
    let _ = has_states(&recovered, &outcome.stderr);
    let folder = Folder::new("states-outside");
    let program = Program::named("states", &folder).set(VARIABLES);
    let mut running = program.set("FDR=1").args(&["wait"]).start_until("half");
    let snapshot = folder.join("snapshot.fdr");
    let words = format!("dump -q --force {} -o", running.id());
    // The recorder's thread reads the kernel's buffers every 50 ms, if a busy machine lets it run.
    let _ = within(Duration::from_secs(5), || {
        let _ = fdr(&words, &[&snapshot]);
        (switches(&snapshot) > 0).then_some(())
    });
    running.tell("go on");
    let outcome = running.end().ok();
    let _ = has_states(&snapshot, &outcome.stderr);
}

#[test]
fn forked_children_have_no_states() {
    let folder = Folder::new("states-fork");
    let outcome = states(&folder, &["fork"], "FDR=1").ok();
    let traces = folder.files("out").into_iter();
    let mut counts: Vec<bool> = traces
        .map(|trace| {
            verify(&trace);
            switches(&trace) > 0
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [false, !outcome.stderr.contains(REFUSED)]);
}

#[test]
fn where_the_system_refuses_there_are_its_sums() {
    for (arguments, script) in [
        (&["refused"][..], ""),
        // Nothing is open while the program runs, so few descriptors are enough.
        (&[], "ulimit -n 12; "),
    ] {
        let folder = Folder::new("states-refused");
        let script = format!("{script}exec \"$0\" \"$@\"");
        let program = Program::named_in_shell(&script, "states", &folder);
        let on = if arguments.is_empty() { "FDR=1" } else { "" };
        let outcome = program.set(VARIABLES).set(on).args(arguments).run().ok();
        let trace = only(&folder, ".fdr");
        let has = has_states(&trace, &outcome.stderr);
        if !arguments.is_empty() {
            assert!(
                !has && outcome.stderr.contains("only its sums"),
                "{outcome:?}"
            );
            assert!(!fdr("report", &[&trace]).contains("preempted"));
        }
    }
}

/// Where the states of a trace begin and end, and where its records do, in seconds since the first record. `None`: the
/// trace has no states.
fn extents(trace: &Path) -> Option<[f64; 3]> {
    let info = json("info", &[trace]);
    let seconds = |value: &Value| value.as_f64().expect("ns") / 1e9;
    let states = &info["states"];
    let from = seconds(states.get("from_ns")?);
    let end = from + seconds(&states["over_ns"]);
    (states["switches"] != 0).then_some([from, end, seconds(&info["duration_ns"])])
}

#[test]
fn states_begin_by_default() {
    let folder = Folder::new("states-default");
    let program = Program::named("states", &folder).set(VARIABLES);
    let mut running = program
        .set("FDR=1")
        .set(BY_DEFAULT)
        .args(&["endless"])
        .start_until("ready");
    let snapshot = folder.join("snapshot.fdr");
    let words = format!("dump -q --force {} -o", running.id());
    // On a busy machine they may begin later.
    let found = within(Duration::from_secs(20), || {
        let _ = fdr(&words, &[&snapshot]);
        extents(&snapshot).filter(|[from, end, _]| end - from > 0.3)
    });
    running.tell("end");
    let outcome = running.end().ok();
    if !has_states(&snapshot, &outcome.stderr) {
        return;
    }
    let [from, end, _] = found.expect("states of 0.3 s");
    assert!(from > 0.045, "{from}");
    let report = report(&snapshot, "--per-thread");
    let threads = report["threads"].as_array().expect("threads");
    for name in ["spinner", "sleeper"] {
        let thread = threads.iter().find(|thread| thread["name"] == name);
        let states = &thread.expect("the thread")["states"];
        let [running, preempted, waiting, unknown] = times(states);
        let known = (running + preempted + waiting) as f64 / 1e9;
        // Of a thread that was ready to run when its states began, nothing is known up to its next switch.
        assert!(
            known > (end - from) / 2.0 && unknown > 0,
            "{name}: {states}"
        );
        let most = if name == "sleeper" {
            waiting
        } else {
            running + preempted
        };
        assert!(most as f64 / 1e9 > known * 0.8, "{name}: {states}");
    }
}

/// A program that goes on until it is told to end. It has printed a line that begins like this.
fn until_line(program: Program, beginning: &str) -> Outcome {
    let mut running = program.set(VARIABLES).set("FDR=1").set(BY_DEFAULT).start();
    let _ = running.wait_for_line(beginning);
    running.tell("end");
    running.end().ok()
}

#[test]
fn costly_states_end_by_default() {
    let folder = Folder::new("states-costly");
    let mut running = Program::named("states", &folder)
        .set(VARIABLES)
        .set("FDR=1")
        .set(BY_DEFAULT)
        .args(&["swap"])
        .start();
    let decided = until("states that ended, or none", || {
        [ENDED, NONE]
            .into_iter()
            .find_map(|line| running.said_already(line))
    });
    running.tell("end");
    let outcome = running.end().ok();
    let trace = only(&folder, ".fdr");
    if has_states(&trace, &outcome.stderr) {
        let [from, end, last] = extents(&trace).expect("states");
        assert!(from > 0.045 && end < last, "{from} {end} {last} {decided}");
    }
}

#[test]
fn programs_are_not_ended_for_states() {
    for mode in ["forbidden", "refused"] {
        let folder = Folder::new("states-forbidden");
        let program = Program::named("states", &folder);
        let outcome = until_line(program.args(&[mode, "endless"]), NONE);
        assert!(
            outcome.stderr.contains("filter of system calls"),
            "{outcome:?}"
        );
        assert!(!has_states(&only(&folder, ".fdr"), &outcome.stderr));
    }
}

#[test]
fn limits_of_a_process_are_kept() {
    // Three threads on two CPUs.
    for limit in ["-n 11", "-l 16"] {
        let folder = Folder::new("states-limits");
        let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        let program = Program::named_in_shell(&script, "states", &folder);
        let outcome = until_line(program.args(&["endless"]), NONE);
        assert!(!has_states(&only(&folder, ".fdr"), &outcome.stderr));
    }
}

#[test]
fn states_begin_while_threads_and_children_come_and_go() {
    for _ in 0..3 {
        let folder = Folder::new("states-churn");
        let outcome = states(&folder, &["churn"], &format!("FDR=1 {BY_DEFAULT}")).ok();
        let words: Vec<u64> = outcome
            .stdout
            .split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let [threads, children, programs] = words[..] else {
            panic!("{outcome:?}")
        };
        assert!(threads > 0 && children > 0 && programs > 0, "{outcome:?}");
        verify(&only(&folder, ".1.fdr"));
    }
}
