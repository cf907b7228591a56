//! Tests of calls in which a thread waits for work, and of CPU time in no traced call. 1 tick = 1 ns.

use fdr_formats::model::{Cause, CpuId, Sample, State};
use fdr_formats::{FunctionId, ThreadId, Ticks};

use super::states_tests::{RUNNING, switches};
use super::tests::{ALL, COMPACT, HANDLE, LOCK, SERVE, Script, found, trace};
use super::*;
use crate::calls::findings::Findings;
use crate::testing::MemoryTrace;

const MS: u64 = 1_000_000;
const WAITING: Option<State> = Some(State::Waiting);

/// A worker has 40 jobs. Before each tenth, it waits for 30 ms in [`LOCK`], which has that name. Returns the trace, and
/// the times of the waits.
fn worker(name: &str, is_inside: bool) -> (MemoryTrace, Vec<u64>) {
    let mut worker = Script::default();
    let mut waits = Vec::new();
    worker.call(SERVE, |worker| {
        for nth in 0..40 {
            let mut next = |worker: &mut Script| {
                worker.pass(10);
                worker.call(LOCK, |worker| {
                    worker.pass(1000);
                    if nth % 10 == 9 {
                        waits.push(worker.now);
                        worker.pass(30 * MS);
                    }
                });
            };
            match is_inside {
                // Usually as long, so that the call is not slow itself.
                true => worker.call(COMPACT, |worker| {
                    next(worker);
                    worker.pass(20 * MS);
                }),
                false => next(worker),
            }
            worker.call(HANDLE, |worker| worker.pass(MS));
        }
    });
    let mut trace = trace(&[(7, &worker.calls)]);
    for function in &mut trace.info.functions {
        if function.id == FunctionId(LOCK) {
            function.name = name.to_owned();
        }
    }
    (trace, waits)
}

fn of_causes(trace: &MemoryTrace) -> Findings {
    found(trace, &Query::of_causes(5, true))
}

/// The functions that are shown, and those that wait for work.
fn functions(found: &Findings) -> (Vec<u32>, Vec<u32>) {
    let shown = found.list.iter().map(|finding| finding.call.function.0);
    let idle = found.idle.iter().map(|idle| idle.function.0);
    (shown.collect(), idle.collect())
}

fn text(trace: &MemoryTrace) -> String {
    let mut out = Vec::new();
    show::write(&mut out, &trace.info, &of_causes(trace)).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn waits_for_work_are_set_aside() {
    let (trace, _) = worker("app::Queue::pop", false);
    assert_eq!(functions(&of_causes(&trace)), (vec![], vec![LOCK]));
    let text = text(&trace);
    let wanted = "\n1 function waits for work, so its slow calls are left out: app::Queue::pop (4 calls, 120.0 ms); \
                  fdr slow --calls shows them\n";
    assert!(
        text.starts_with("nothing stands out") && text.contains(wanted),
        "{text}"
    );
    // Each call by itself, and the calls that the user chose.
    let each = functions(&found(&trace, &ALL));
    assert_eq!(each, (vec![LOCK, LOCK], vec![]));
    let over = Query {
        over: Some(MS * 2),
        ..ALL
    };
    assert!(functions(&found(&trace, &over)).0.contains(&LOCK));
}

#[test]
fn waits_inside_other_work_are_shown() {
    let (trace, _) = worker("app::Queue::pop", true);
    let found = of_causes(&trace);
    assert_eq!(functions(&found), (vec![LOCK], vec![]));
    assert_eq!(found.list[0].slow_calls, Some(4));
}

#[test]
fn states_decide_where_they_are_known() {
    let known_for = |known: u64, name: &str, state: Option<State>| {
        let (mut trace, waits) = worker(name, false);
        let mut list = vec![(0, 7, 1, RUNNING)];
        for wait in waits {
            list.extend([(wait, 7, 1, state), (wait + known, 0, 1, None)]);
            list.push((wait + 30 * MS, 7, 1, RUNNING));
        }
        trace.info.schedule = switches(&list);
        functions(&of_causes(&trace))
    };
    let with = |name, state| known_for(30 * MS, name, state);
    let (shown, aside) = ((vec![LOCK], vec![]), (vec![], vec![LOCK]));
    assert_eq!(with("app::Pool::next_job", WAITING), aside);
    assert_eq!(with("app::Pool::next_job", RUNNING), shown);
    assert_eq!(with("app::Queue::pop", RUNNING), shown);
    assert_eq!(with("app::Queue::load", WAITING), shown);
    assert_eq!(known_for(10 * MS, "app::Pool::next_job", WAITING), shown);
    assert_eq!(known_for(10 * MS, "app::Queue::pop", RUNNING), aside);
    // Without states, a vague name is not enough.
    let (trace, _) = worker("app::Pool::next_job", false);
    assert_eq!(functions(&of_causes(&trace)), shown);
}

/// A thread handles requests for 10 ms and computes outside of them for 30 ms. Another one makes no traced call.
fn half_traced() -> MemoryTrace {
    let mut worker = Script::default();
    for _ in 0..10 {
        worker.call(HANDLE, |worker| worker.pass(MS));
        worker.pass(3 * MS);
    }
    let mut trace = trace(&[(7, &worker.calls)]);
    trace.info.end = Some(Ticks(worker.now));
    trace.info.schedule = switches(&[
        (0, 7, 1, RUNNING),
        (0, 9, 2, RUNNING),
        (5 * MS, 9, 2, WAITING),
    ]);
    trace
}

#[test]
fn unexplained_cpu_time_is_told() {
    let mut trace = half_traced();
    let sample = |time| Sample {
        time: Ticks(time),
        thread: ThreadId(7),
        cpu: CpuId(1),
        cause: Cause::Time,
        address: 16,
    };
    trace.info.schedule.samples = [MS / 2, 2 * MS, 6 * MS].map(sample).to_vec();
    let text = text(&trace);
    let wanted = "\nof 45.00 ms of CPU time, 10.00 ms are in traced calls; 35.00 ms in none, most of them in thread 7; \
                  2 samples there: 100 % in 0x10\n";
    assert!(text.contains(wanted), "{text}");
    let time = of_causes(&trace).cpu_time.expect("states");
    let threads = time.threads.iter();
    let threads: Vec<_> = threads
        .map(|of| (of.thread.0, of.running, of.in_calls))
        .collect();
    assert_eq!(threads, [(7, 40 * MS, 10 * MS), (9, 5 * MS, 0)]);
}

#[test]
fn explained_or_unknown_time_is_not_told() {
    let is_told = |trace: &MemoryTrace| text(trace).contains("CPU time");
    assert!(is_told(&half_traced()));
    // Only a part of the trace is read.
    let part = found(&half_traced(), &Query::of_causes(5, false));
    assert!(part.cpu_time.is_none());
    let mut no_states = half_traced();
    no_states.info.schedule = fdr_formats::model::Schedule::default();
    assert!(!is_told(&no_states));
    let mut in_calls = half_traced();
    // It waits outside of its calls.
    let list: Vec<_> = (0..10)
        .flat_map(|nth| {
            [
                (4 * nth * MS, 7, 1, RUNNING),
                ((4 * nth + 1) * MS, 7, 1, WAITING),
            ]
        })
        .collect();
    in_calls.info.schedule = switches(&list);
    assert!(!is_told(&in_calls));
    let mut dropped = half_traced();
    dropped.info.threads[0].counts = Some(fdr_formats::model::Counts {
        dropped: 7,
        ..Default::default()
    });
    dropped.info.missing.threads = 1;
    assert!(of_causes(&dropped).cpu_time.is_none());
}
