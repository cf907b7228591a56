//! Tests of the sentences about the states of a slow call's thread. 1 tick = 1 ns.

use fdr_formats::model::{self, CpuId, Sample, Schedule, State, Switch};
use fdr_formats::{ThreadId, Ticks};

use super::tests::{ALL, COMPACT, SERVE, Script, found, sentences, trace};
use super::*;
use crate::testing::MemoryTrace;

pub(super) const RUNNING: Option<State> = Some(State::Running);

/// Thread 7 makes usual requests and a slow one, which takes a millisecond in `app::lock`. Thread 8 compacts meanwhile.
/// Returns the moment at which the wait begins.
fn slow_request(schedule: impl FnOnce(u64) -> Schedule) -> MemoryTrace {
    let mut worker = Script::default();
    worker.usual(50);
    let slow = worker.now + 300;
    worker.request(1_000_000, 2);
    worker.usual(50);
    let mut other = Script::default();
    other.call(SERVE, |other| {
        other.pass(slow - 1300);
        other.call(COMPACT, |other| other.pass(1_000_000));
        other.pass(worker.now);
    });
    let mut trace = trace(&[(7, &worker.calls), (8, &other.calls)]);
    trace.info.schedule = schedule(slow);
    trace
}

/// A millisecond is no finding where states are known, unless it is asked for.
const LONG: Query<'_> = Query {
    over: Some(900_000),
    most: 1,
    of_each: 1,
    causes: None,
    ..ALL
};

pub(super) fn switches(list: &[(u64, u64, u32, Option<State>)]) -> Schedule {
    let switch = |&(time, thread, cpu, to): &(u64, u64, u32, Option<State>)| Switch {
        time: Ticks(time),
        thread: ThreadId(thread),
        cpu: CpuId(cpu),
        to,
    };
    Schedule {
        switches: list.iter().map(switch).collect(),
        ..Schedule::default()
    }
}

/// From that moment on, the thread is in a state for that time.
fn away(slow: u64, state: State, other_cpu: u32) -> Schedule {
    switches(&[
        (0, 7, 1, RUNNING),
        (slow, 7, 1, Some(state)),
        (slow + 990_000, 7, 1, RUNNING),
        (slow, 8, other_cpu, RUNNING),
        (slow + 700_000, 8, other_cpu, Some(State::Waiting)),
    ])
}

fn text(trace: &MemoryTrace) -> String {
    let mut out = Vec::new();
    show::write(&mut out, &trace.info, &found(trace, &LONG)).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn waits_name_the_other_threads_time() {
    let trace = slow_request(|slow| away(slow, State::Waiting, 1));
    let wanted = "100.0 % of the excess is in app::lock itself: the thread waited, while 8 was in app::compact.";
    assert_eq!(sentences(&trace, &LONG), [wanted]);
    let text = text(&trace);
    assert!(text.contains("<- 100.0 % of the excess, waiting"), "{text}");
    let line = "running 10.90 µs · preempted 0 ns · waiting 990.0 µs";
    assert!(text.contains(line), "{text}");
    let meanwhile = "in app::compact for 999.0 µs (running 700.0 µs); during";
    assert!(text.contains(meanwhile), "{text}");
}

#[test]
fn preempted_calls_name_the_preemptor() {
    let by = |cpu| {
        sentences(
            &slow_request(|slow| away(slow, State::Preempted, cpu)),
            &LONG,
        )
    };
    let wanted = "100.0 % of the excess is in app::lock itself: the thread was preempted by";
    assert_eq!(by(1), [format!("{wanted} 8 in app::compact.")]);
    assert_eq!(by(2), [format!("{wanted} another process.")]);
    let usual = slow_request(|slow| away(slow, State::Preempted, 1));
    assert!(sentences(&usual, &ALL).is_empty());
}

#[test]
fn several_preemptors_are_named() {
    let trace = slow_request(|slow| {
        let mut list = vec![(0, 7, 1, RUNNING), (slow, 7, 1, Some(State::Preempted))];
        for (nth, thread) in [8, 9, 8, 10].into_iter().enumerate() {
            let from = slow + 200_000 * nth as u64;
            let waits = Some(State::Waiting);
            list.extend([
                (from, thread, 1, RUNNING),
                (from + 150_000, thread, 1, waits),
            ]);
        }
        list.push((slow + 990_000, 7, 1, RUNNING));
        switches(&list)
    });
    let sentence = &sentences(&trace, &LONG)[0];
    let wanted = ": the thread was preempted by several threads of the program.";
    assert!(sentence.ends_with(wanted), "{sentence}");
}

#[test]
fn computing_calls_show_page_faults() {
    let running = |faults: u64, cause| {
        slow_request(|slow| {
            let sample = |nth| Sample {
                time: Ticks(slow + nth),
                thread: ThreadId(7),
                cpu: CpuId(1),
                cause,
                address: 0,
            };
            Schedule {
                samples: (0..faults).map(sample).collect(),
                ..switches(&[(0, 7, 1, RUNNING)])
            }
        })
    };
    let computed = "100.0 % of the excess is in app::lock itself: the thread computed";
    let both = slow_request(|slow| {
        switches(&[
            (0, 7, 1, RUNNING),
            (slow, 7, 1, Some(State::Preempted)),
            (slow + 600_000, 7, 1, RUNNING),
        ])
    });
    let both = sentences(&both, &LONG);
    let wanted = format!(
        "{computed} for 400.9 \u{b5}s, and was preempted for 600.0 \u{b5}s by another process."
    );
    assert_eq!(both, [wanted]);
    let fault = model::Cause::PageFault;
    assert_eq!(
        sentences(&running(0, fault), &LONG),
        [format!("{computed}.")]
    );
    let faulty = sentences(&running(40, fault), &LONG);
    assert_eq!(
        faulty,
        [format!("{computed}, with about 2,560 page faults.")]
    );
    let timed = sentences(&running(40, model::Cause::Time), &LONG);
    assert_eq!(timed, [format!("{computed}.")]);
}

#[test]
fn mostly_unknown_calls_name_no_state() {
    let trace = slow_request(|slow| {
        switches(&[
            (0, 7, 1, RUNNING),
            (slow + 300_000, 7, 1, Some(State::Waiting)),
            (slow + 500_000, 0, 1, None),
        ])
    });
    let wanted = "100.0 % of the excess is in app::lock itself, while 8 was in app::compact.";
    assert_eq!(sentences(&trace, &LONG), [wanted]);
    let text = text(&trace);
    let line = "running 300.3 µs · preempted 0 ns · waiting 200.0 µs · not known 500.6 µs";
    assert!(text.contains(line), "{text}");
}

/// The thread waits always.
pub(super) fn waits(thread: u64) -> Schedule {
    switches(&[
        (0, thread, 1, Some(State::Waiting)),
        (u64::MAX / 2, thread, 1, RUNNING),
    ])
}
