//! A signal on every instruction of a record, whose handler makes records: nothing is corrupted, and
//! everything is recorded or counted.
#![cfg(target_arch = "x86_64")]

use fdr_formats::notes::{Note, task_state};
use fdr_formats::source::{Source, drive};
use fdr_formats::{Call, CpuId, Diagnostic, Mark, Sink, Thread, TraceInfo, registry};
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::trace::Trace;

#[test]
fn handlers_record_at_every_instruction() {
    handlers_that_record(1);
}

mod the_rest {
    #[test]
    fn handlers_record_events_in_all_modes() {
        super::handlers_that_record_events(&[
            "FDR_KEEP=0 FDR_CLOCK=rdtsc",
            "FDR_CLOCK=monotonic",
            "FDR_MODE=full FDR_KEEP=0",
        ]);
    }

    #[test]
    fn handlers_that_record_other_calls_on_every_instruction() {
        super::handlers_that_record(2);
    }

    #[test]
    fn handlers_record_on_another_cpu() {
        (4..7).for_each(super::handlers_on_another_cpu);
    }
}

fn handlers_that_record(seed: u64) {
    for variables in [
        "FDR_BUFFER=128K",
        "FDR_BUFFER=128K FDR_KEEP=0",
        "FDR_BUFFER=128K FDR_KEEP=0 FDR_CLOCK=rdtsc",
        "FDR_BUFFER=128K FDR_CLOCK=rdtsc",
        "FDR_BUFFER=128K FDR_CLOCK=monotonic",
        "FDR_BUFFER=128K FDR_MODE=full",
        "FDR_BUFFER=128K FDR_MEMORY=128K FDR_CLOCK=rdtsc",
        "FDR_BUFFER=4M",
    ] {
        let folder = Folder::new("record-stepped");
        let program = Program::named("stepped", &folder);
        let outcome = program
            .set("FDR=1")
            .set(variables)
            .args(&[seed.to_string(), "7".to_owned()])
            .run()
            .ok();
        let fact = |key| facts::number::<u64>(&facts::only_line(&outcome.stdout, key)[0]);
        assert!(fact("traps") > 5_000, "{}", outcome.stdout);
        let statistics = facts::statistics(&outcome.stdout);
        assert_eq!(
            facts::total(&statistics),
            2 * (fact("stepped") + fact("handled")),
            "{variables}, seed {seed}: {statistics:?}"
        );
        let trace = Trace::verified(&folder.only_trace());
        let readable: u64 = trace
            .threads
            .iter()
            .map(|lane| lane.checked_counts().readable)
            .sum();
        let threads = statistics.threads.iter();
        assert_eq!(readable, threads.map(|thread| thread.readable).sum::<u64>());
    }
}

/// Events on every instruction of an event and of a record. Each event is in the trace, or counts as dropped.
#[test]
fn handlers_record_events_at_every_instruction() {
    handlers_that_record_events(&["", "FDR_KEEP=0"]);
}

fn handlers_that_record_events(cases: &[&str]) {
    for variables in cases {
        let folder = Folder::new("record-stepped-events");
        let program = Program::named("stepped", &folder);
        let outcome = program
            .set("FDR=1 FDR_BUFFER=16M")
            .set(variables)
            .args(&["1", "1", "events"])
            .run()
            .ok();
        has_each_event(&outcome.stdout, &folder, 0);
    }
}

/// Checks the only trace of a program that did `steps` with events. `others` is the number of its other records. Each
/// event is in the trace, or counts as dropped.
pub(crate) fn has_each_event(stdout: &str, folder: &Folder, others: u64) {
    let fact = |key| facts::number::<u64>(&facts::only_line(stdout, key)[0]);
    assert!(fact("traps") > 5_000, "{stdout}");
    let trace = Trace::verified(&folder.only_trace());
    let of_lane = |lane| trace.events(lane);
    let events: Vec<String> = trace.threads.iter().flat_map(of_lane).collect();
    for lane in &trace.threads {
        assert!(lane.notes.iter().map(|note| note.1).is_sorted());
    }
    let (wanted, edges) = (
        fact("events"),
        2 * (fact("stepped") + fact("handled")) + others,
    );
    let dropped = wanted - events.len() as u64;
    assert!(
        events.len() > 1000 && dropped > 0,
        "{wanted} {}",
        events.len()
    );
    assert_eq!(trace.asked_for(), edges + dropped, "{stdout}");
    // None is there twice, and none is mixed with another one.
    let mut numbers = std::collections::BTreeSet::new();
    for event in &events {
        let rest = event.split_once("stepped::event 0 0 number=");
        let rest = rest.and_then(|(_, rest)| rest.split_once(" text=\""));
        let (number, text) = rest.expect(event);
        let text = text.strip_suffix('"').expect(event);
        assert!("a text of at most fifty bytes, the rest being left out".starts_with(text));
        assert!(numbers.insert(number.to_owned()), "{event}");
    }
}

/// Polls of tasks on every instruction of a poll and of the end of a task. Each task is counted once, or something of it
/// counts as dropped. No two have the same id.
#[test]
fn handlers_poll_tasks_at_every_instruction() {
    for variables in ["", "FDR_KEEP=0"] {
        let folder = Folder::new("record-stepped-tasks");
        let program = Program::named("stepped", &folder);
        let outcome = program
            .set("FDR=1 FDR_BUFFER=64M")
            .set(variables)
            .args(&["1", "2", "tasks"])
            .run()
            .ok();
        has_each_task(&outcome.stdout, &folder, 0, variables.is_empty());
    }
}

/// Checks the only trace of a program that did `steps` with tasks. `others` is the number of its other records.
pub(crate) fn has_each_task(stdout: &str, folder: &Folder, others: u64, has_totals: bool) {
    let fact = |key| facts::number::<u64>(&facts::only_line(stdout, key)[0]);
    assert!(fact("traps") > 5_000, "{stdout}");
    let trace = Trace::verified(&folder.only_trace());
    let mut ended = std::collections::BTreeMap::new();
    for (_, _, kind, body) in trace.threads.iter().flat_map(|lane| &lane.notes) {
        let note = Note::decode(*kind, body).expect("a note");
        let Note::Task {
            task, name, state, ..
        } = note
        else {
            panic!("{note:?}");
        };
        // A future that is ready at its first poll ends with its only note.
        assert_ne!(state, task_state::WAITING, "{note:?}");
        assert!(ended.insert(task, name).is_none(), "{note:?}");
    }
    let around = ended.values().filter(|name| {
        let name = trace.name_of(**name << 1);
        name.ends_with("::stepped::around")
    });
    let (around, wanted) = (around.count() as u64, fact("tasks"));
    let lanes = trace.threads.iter();
    let dropped: u64 = lanes.map(|lane| lane.checked_counts().dropped).sum();
    // With totals, a future that was never polled has no note.
    let least = if has_totals {
        wanted - wanted / 8 - 1
    } else {
        wanted
    };
    assert!(around > 1_000 && dropped > 0, "{around} {dropped} {stdout}");
    assert!(
        around <= wanted && around + dropped >= least,
        "{around} {dropped} {stdout}"
    );
    // Two edges of each poll. Its records may be dropped, and so may notes.
    let polled = wanted - wanted.div_ceil(8);
    let edges = others + 2 * (fact("stepped") + fact("handled") + 2 * polled);
    assert!(trace.asked_for() >= edges, "{stdout}");
    assert!(trace.asked_for() - edges <= dropped, "{stdout}");
}

/// On which CPU each timed call was made.
struct Places {
    info: TraceInfo,
    now: Option<CpuId>,
    /// Of the program's calls, and of the handler's.
    cpus: [Vec<CpuId>; 2],
}

impl Sink for Places {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        let now = self.now.expect("a CPU comes first");
        for call in calls {
            let name = &self.info.function(call.function).expect("a name").name;
            let whose = match name.as_str() {
                "programs::stepped::step" => 0,
                "programs::stepped::handle" => 1,
                _ => continue,
            };
            // What a writer added has no CPU.
            if !call.synthetic && !self.cpus[whose].contains(&now) {
                self.cpus[whose].push(now);
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Cpu { cpu, .. } = mark {
            self.now = Some(*cpu);
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

/// A handler records on another CPU, on every instruction of a record that does not read the clock. A later record of
/// the thread must not seem to be made on that CPU.
#[test]
fn handlers_on_another_cpu_leave_records_on_theirs() {
    handlers_on_another_cpu(3);
}

fn handlers_on_another_cpu(seed: u32) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return fdr_tests::skip("a handler that records on another CPU: there is one CPU");
    }
    for variables in ["FDR_CLOCK=rdtsc", "FDR_CLOCK=rdtscp"] {
        let folder = Folder::new("record-apart");
        let _ = Program::named("stepped", &folder)
            // By default each record reads the clock.
            .set("FDR=1 FDR_KEEP=0 FDR_BUFFER=4M")
            .set(variables)
            .args(&[&seed.to_string(), "25", "apart"])
            .run()
            .ok();
        let path = folder.only_trace();
        let source: Box<dyn Source> = registry::open_path(&path).expect("a trace");
        let mut places = Places {
            info: source.info().clone(),
            now: None,
            cpus: [Vec::new(), Vec::new()],
        };
        drive(&*source, &mut places, &|_| {}).expect("its calls");
        let [ours, handlers] = &places.cpus;
        assert_eq!([ours.len(), handlers.len()], [1, 1], "{:?}", places.cpus);
        assert_ne!(ours, handlers, "{variables}");
    }
}
