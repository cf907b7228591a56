//! Triggers that wait for calls (`FDR_TRIGGER`): a slow call makes one trace, which says why, points to the call and
//! holds it. `triggers_others` has the other triggers.

use std::path::Path;

use fdr_formats::Ticks;
use fdr_formats::notes::Note;
use fdr_formats::trigger::{CallEnd, SlowCall};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::tool::{fdr, json};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;
use serde_json::Value;

use super::triggers_others::{self, tell};

/// Every way in which edges are recorded.
const WAYS: [&str; 6] = [
    "FDR_KEEP=10s",
    "FDR_KEEP=0",
    "FDR_CLOCK=rdtsc",
    "FDR_CLOCK=rdtsc FDR_KEEP=0",
    "FDR_CLOCK=monotonic",
    "FDR_MODE=full",
];

fn start(folder: &Folder, variables: &str, trigger: &str) -> Running {
    let variables = format!("FDR_DIR=rings/ FDR_OUT=out/ {variables}");
    triggers_others::start(folder, &variables, trigger)
}

/// The traces of an ended program, whose ring is gone.
fn traces(folder: &Folder) -> Vec<Trace> {
    assert_eq!(folder.files("rings").len(), 0, "a ring is left");
    traces_so_far(folder)
}

fn traces_so_far(folder: &Folder) -> Vec<Trace> {
    let mut files = folder.files("out");
    files.retain(|path| path.extension().is_some_and(|end| end == "fdr"));
    files.iter().map(|path| Trace::verified(path)).collect()
}

fn only_trace(folder: &Folder) -> Trace {
    let mut traces = traces(folder);
    assert_eq!(traces.len(), 1, "{:?}", folder.names());
    traces.remove(0)
}

fn slow_call(trace: &Trace) -> SlowCall<'_> {
    let reason = trace.info.trigger().expect("a trigger made it");
    reason.call().expect("it waited for a call")
}

/// Entry and exit of each call of the function on that thread, in the order of the exits.
fn calls_of(trace: &Trace, thread: u64, function: &str) -> Vec<(u64, u64)> {
    let lane = trace.threads.iter().find(|lane| lane.thread.id.0 == thread);
    let lane = lane.expect("the thread");
    let id = trace
        .info
        .functions
        .iter()
        .find(|known| known.name == function);
    let id = id.expect("the function").id.0;
    let (mut open, mut calls) = (Vec::new(), Vec::new());
    for (&edge, &time) in lane.edges.iter().zip(&lane.times) {
        if edge == id << 1 {
            open.push(time);
        } else if edge == id << 1 | 1 {
            calls.push((open.pop().expect("its entry"), time));
        }
    }
    calls
}

/// The tick of a named moment.
fn mark(trace: &Trace, name: &str) -> u64 {
    let moment = trace.info.moments.iter().find(|moment| moment.name == name);
    let moment = moment.unwrap_or_else(|| panic!("{name}: {:?}", trace.info.moments));
    moment.time.0
}

#[test]
fn tasks_are_measured_and_not_their_polls() {
    let function = "programs::triggered::request";
    let lines = [
        ("task 150", CallEnd::Returned),
        ("dropped 150", CallEnd::Dropped),
        ("pending 2200", CallEnd::Open),
    ];
    for way in ["FDR_KEEP=10s", "FDR_KEEP=0"] {
        let folder = Folder::new("triggered-tasks");
        let mut program = start(&folder, way, &format!("{function}>100ms /0"));
        for _ in 0..20 {
            program.tell("task 1");
        }
        for (line, _) in lines {
            program.tell(line);
            let message = program.wait_for_line("wrote");
            assert!(message.contains(function), "{message}");
        }
        let _ = program.end().ok();
        let traces = traces(&folder);
        assert_eq!(traces.len(), lines.len(), "{way}");
        for (trace, (line, end)) in traces.iter().zip(lines) {
            let call = slow_call(trace);
            assert_eq!((call.function, call.end), (function, end), "{way}");
            let ms: u64 = line
                .rsplit(' ')
                .next()
                .expect("a number")
                .parse()
                .expect("one");
            assert!(call.took_ns >= ms * 1_000_000, "{way} {line}: {call:?}");
            let begin = mark(trace, &format!("begin of {function}"));
            // The task that the reason names has a note with its time.
            let notes = trace.threads.iter().flat_map(|lane| &lane.notes);
            let tasks = notes.filter_map(|(_, _, kind, body)| match Note::decode(*kind, body)? {
                Note::Task { task, elapsed, .. } if Some(task) == call.task => Some(elapsed),
                _ => None,
            });
            let longest = tasks.max().expect("a note of the task");
            let took_ns = trace.info.clock.nanos(Ticks(longest)).0;
            assert!(took_ns.abs_diff(call.took_ns) < 1_000_000, "{way} {line}");
            let text = fdr("info", &[&folder.files("out")[0]]);
            assert!(text.contains(": task ") && begin > 0, "{text}");
        }
    }
}

#[test]
fn slow_calls_make_one_trace_each() {
    let folders = WAYS.map(|_| Folder::new("triggered"));
    let trigger = "programs::triggered::handle>300ms +1s";
    let programs: Vec<Running> = WAYS
        .into_iter()
        .zip(&folders)
        .map(|(way, folder)| {
            let mut program = start(folder, way, trigger);
            for line in ["quick 100", "slow 400", "quick 10"] {
                program.tell(line);
            }
            program
        })
        .collect();
    for (program, (way, folder)) in programs.into_iter().zip(WAYS.into_iter().zip(&folders)) {
        let message = program.wait_for_line("wrote");
        assert!(
            message.contains(
                "dropped; programs::triggered::handle>300ms +1s: programs::triggered::handle took "
            ),
            "{message}"
        );
        let _ = program.end().ok();
        let trace = only_trace(folder);
        let call = slow_call(&trace);
        assert_eq!(call.function, "programs::triggered::handle", "{way}");
        assert!(
            call.end == CallEnd::Returned && call.took_ns > 300_000_000,
            "{way}: {call:?}"
        );
        assert_eq!(call.thread_name, "programs", "{way}");
        let all = calls_of(&trace, call.thread, "programs::triggered::handle");
        assert_eq!(all.len(), 111, "{way}");
        let (begin, end) = (
            mark(&trace, "begin of programs::triggered::handle"),
            mark(&trace, "end of programs::triggered::handle"),
        );
        assert_eq!(all[100], (begin, end), "{way}");
        assert!(trace.info.end.is_some_and(|dump| dump.0 > end), "{way}");
        let took_ns = trace.info.clock.nanos(Ticks(end - begin)).0;
        assert!(
            took_ns.abs_diff(call.took_ns) < 1_000_000,
            "{way}: {took_ns}, {call:?}"
        );
        let begun = trace.info.clock.unix_nanos(fdr_formats::Ticks(begin));
        let begun = begun.expect("the clock is anchored");
        assert!(
            begun.abs_diff(call.begin_unix_ns) < 1_000_000,
            "{way}: {begun}, {call:?}"
        );
    }
}

#[test]
fn tools_point_to_the_slow_call() {
    let folder = Folder::new("triggered-tools");
    let mut program = start(&folder, "", "programs::triggered::h*>300ms, panic");
    tell(&mut program, "slow 400");
    let _ = program.wait_for_line("wrote");
    let _ = program.end().ok();
    let trace = only_trace(&folder);
    let path = std::fs::read_dir(folder.join("out")).expect("it").next();
    let path = path.expect("a trace").expect("it").path();
    let call = slow_call(&trace);
    for command in ["info", "report"] {
        let document = json(command, &[&path]);
        let trigger = &document["trigger"];
        assert_eq!(trigger["text"], "programs::triggered::h*>300ms");
        assert_eq!(trigger["function"], "programs::triggered::handle");
        assert_eq!(trigger["thread"], call.thread);
        assert_eq!(trigger["thread_name"], "programs");
        assert_eq!(trigger["took_ns"], call.took_ns);
        assert_eq!(trigger["threshold_ns"], 300_000_000);
        assert_eq!(trigger["begin_unix_ns"], call.begin_unix_ns);
        assert_eq!(trigger["returned"], true);
        assert_eq!(
            document["marks"][0]["name"],
            "begin of programs::triggered::handle"
        );
        assert_eq!(document["failed_thread"], Value::Null);
        let text = fdr(command, &[&path]);
        let wanted = "trigger programs::triggered::h*>300ms: programs::triggered::handle took 4";
        let text = text.replace("\n           ", " ");
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn ten_thousand_slow_calls_respect_the_limit() {
    let folder = Folder::new("triggered-many");
    let mut program = start(
        &folder,
        "FDR_OUT_MOST=3 FDR_LOG=info",
        "programs::triggered::handle>10us /20ms",
    );
    for _ in 0..2 {
        tell(&mut program, "many 8 1250");
    }
    until("more dumps than files", || {
        tell(&mut program, "many 8 125");
        program.said_already("removed")
    });
    let outcome = program.end().ok();
    let written = outcome
        .recorder_lines()
        .iter()
        .filter(|line| line.starts_with("wrote"))
        .count();
    assert!(written > 3, "{outcome:?}");
    assert_eq!(traces(&folder).len(), 3);
}

#[test]
fn a_call_that_never_returns_fires_once() {
    let started = ["FDR_KEEP=10s", "FDR_KEEP=0", "FDR_MODE=full"].map(|way| {
        let folder = Folder::new("triggered-hangs");
        let mut program = start(&folder, way, "programs::triggered::hang>50ms /0");
        tell(&mut program, "hang");
        (way, folder, program)
    });
    for (way, folder, mut program) in started {
        let _ = program.wait_for_line("wrote");
        let trace = traces_so_far(&folder).remove(0);
        let call = slow_call(&trace);
        assert_eq!(call.function, "programs::triggered::hang", "{way}");
        assert!(
            call.end == CallEnd::Open && call.took_ns > 50_000_000,
            "{way}: {call:?}"
        );
        assert_eq!(call.thread_name, "hanging", "{way}");
        let lane = trace.thread("hanging");
        assert_eq!(
            (lane.edges.len(), lane.times[0]),
            (1, mark(&trace, "begin of programs::triggered::hang")),
            "{way}"
        );
        assert_eq!(trace.info.thread_of_reason(), Some(lane.thread.id), "{way}");
        assert_eq!(
            trace.threads[0].thread.id, lane.thread.id,
            "{way}: it comes first"
        );
        tell(&mut program, "release");
        let _ = program.end().ok();
        assert_eq!(traces(&folder).len(), 1, "{way}: its return fires again");
    }
}

#[test]
fn due_dumps_are_made_at_the_end() {
    for way in ["", "FDR_KEEP=0"] {
        let folder = Folder::new("triggered-due");
        let mut program = start(
            &folder,
            way,
            "programs::triggered::handle>50ms +9m, programs::triggered::outer>1m",
        );
        for line in ["nested 100", "slow 100"] {
            tell(&mut program, line);
        }
        let _ = program.end().ok();
        let trace = only_trace(&folder);
        let call = slow_call(&trace);
        let all = calls_of(&trace, call.thread, "programs::triggered::handle");
        assert_eq!(all.len(), 4, "{way}");
        assert_eq!(
            all[1].0,
            mark(&trace, "begin of programs::triggered::handle"),
            "{way}: the first slow one"
        );
    }
}

#[test]
fn deep_and_handler_calls_are_watched() {
    let reasons = |trigger: &str, lines: &[&str]| {
        let folder = Folder::new("triggered-deep");
        let mut program = start(&folder, "", trigger);
        lines.iter().for_each(|line| tell(&mut program, line));
        let _ = program.end().ok();
        let traces = traces(&folder);
        let names = traces
            .iter()
            .map(|trace| slow_call(trace).function.to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(
        reasons("programs::triggered::handle>50ms", &["deep 500"]),
        ["programs::triggered::handle"]
    );
    // The outermost calls of `deep` have room, whatever is inside.
    assert_eq!(
        reasons("programs::triggered::deep>50ms", &["deep 500"]),
        ["programs::triggered::deep"]
    );
    // `handle` is too deep inside.
    assert_eq!(
        reasons("programs::triggered::*e*>50ms /9m", &["deep 10"]),
        ["programs::triggered::handle"]
    );
    assert_eq!(
        reasons("programs::triggered::handle>50ms", &["handled"]),
        ["programs::triggered::handle"]
    );
    // Two triggers, and each makes its trace.
    let both = reasons(
        "programs::triggered::handle>50ms, programs::triggered::outer>50ms",
        &["nested 100"],
    );
    assert_eq!(
        both,
        ["programs::triggered::handle", "programs::triggered::outer"]
    );
    assert!(reasons("programs::triggered::handle>1m", &["quick 1000", "slow 10"]).is_empty());
}

#[test]
fn watched_functions_are_never_only_counted() {
    let folder = Folder::new("triggered-counted");
    let variables = "FDR_BUDGET=0.0001% FDR_BUFFER=128K";
    let mut program = start(&folder, variables, "programs::triggered::handle>300ms");
    until("functions that are only counted", || {
        tell(&mut program, "quick 200000");
        let status = json(&format!("ctl {} status", program.id()), &[]);
        let levels = ["counted_functions", "looked_at_functions"];
        let functions = levels.iter().filter_map(|level| status[*level].as_u64());
        (functions.sum::<u64>() == 1).then_some(())
    });
    tell(&mut program, "slow 400");
    let _ = program.end().ok();
    assert_eq!(
        slow_call(&only_trace(&folder)).function,
        "programs::triggered::handle"
    );
}

#[test]
fn forked_children_dump_for_their_calls() {
    for way in ["", "FDR_KEEP=0"] {
        let folder = Folder::new("triggered-fork");
        let mut program = start(&folder, way, "programs::triggered::handle>50ms");
        program.tell("fork 100");
        let child: u64 = program.line().parse().expect("a number");
        assert_eq!(program.line(), "done");
        program.tell("fork 0");
        let _ = program.line();
        assert_eq!(program.line(), "done");
        let _ = program.end().ok();
        let trace = only_trace(&folder);
        assert_eq!(trace.info.process, Some(child), "{way}");
        assert_eq!(
            slow_call(&trace).function,
            "programs::triggered::handle",
            "{way}"
        );
    }
    // A call that the parent has not answered for yet is the parent's alone.
    let folder = Folder::new("triggered-fork-due");
    let mut program = start(&folder, "", "programs::triggered::handle>50ms +9m");
    tell(&mut program, "slow 100");
    program.tell("fork 0");
    let _ = program.line();
    assert_eq!(program.line(), "done");
    let parent = u64::from(program.id());
    let _ = program.end().ok();
    assert_eq!(only_trace(&folder).info.process, Some(parent));
}

#[test]
fn functions_of_plug_ins_fire() {
    for way in WAYS {
        let folder = Folder::new("triggered-plugin");
        let open = format!("open:{}", fdr_tests::plugin().display());
        let program = Program::new(env!("CARGO_BIN_EXE_traced_host"), &folder);
        let program = program.set("FDR=1 FDR_DIR=rings/ FDR_OUT=out/").set(way);
        let program = program.env("FDR_TRIGGER", "recorded_plugin::plugin_work>0 +9m");
        let _ = program.args(&[open.as_str(), "work", "work"]).run().ok();
        let trace = only_trace(&folder);
        let call = slow_call(&trace);
        assert_eq!(call.function, "recorded_plugin::plugin_work", "{way}");
        let all = calls_of(&trace, call.thread, call.function);
        assert_eq!(all.len(), 2, "{way}");
        assert_eq!(all[0].1 - all[0].0 > 0, call.took_ns > 0, "{way}");
    }
}

#[test]
fn triggers_change_while_the_program_runs() {
    let folder = Folder::new("triggered-ctl");
    let mut program = start(&folder, "FDR_KEEP=0", "off");
    let process = program.id();
    let set = |trigger: &str| {
        let answer = fdr(&format!("ctl {process} trigger"), &[Path::new(trigger)]);
        answer.trim_end().to_owned()
    };
    tell(&mut program, "slow 100");
    let triggers = "programs::triggered::handle>50ms, every 9m";
    assert_eq!(set(triggers), format!("triggers: {triggers}"));
    let status = json(&format!("ctl {process} status"), &[]);
    assert_eq!(status["triggers"], triggers);
    tell(&mut program, "slow 100");
    let _ = program.wait_for_line("wrote");
    assert_eq!(set("off"), "triggers: off");
    tell(&mut program, "slow 100");
    let unknown = set("programs::triggered::handel>50ms");
    assert!(
        unknown.contains("no function") && unknown.contains("programs::triggered::handle"),
        "{unknown}"
    );
    let _ = program.end().ok();
    assert_eq!(
        slow_call(&only_trace(&folder)).function,
        "programs::triggered::handle"
    );
}
