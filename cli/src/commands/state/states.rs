//! The state of every thread at a moment, if the trace knows its context switches.

use std::collections::HashSet;

use fdr_formats::states::States;
use fdr_formats::{Clock, ThreadId, Ticks, TraceInfo};
use serde::Serialize;

use crate::ui;

/// The state of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ThreadState {
    pub(super) thread: u64,
    /// `None`: not known at that time.
    pub(super) state: Option<&'static str>,
    /// Where it runs, or ran last.
    cpu: Option<u32>,
    since_ns: Option<i64>,
    /// It may have been in that state before.
    at_least: bool,
}

/// The states of all threads for which the trace has a state at any time, in the order of their ids.
pub(super) fn thread_states(info: &TraceInfo, time: i64) -> Vec<ThreadState> {
    let states = States::new(&info.schedule);
    let switches = || info.schedule.switches.iter();
    let of_all = switches().filter(|switch| switch.thread == ThreadId(0));
    let mut begins: HashSet<Ticks> = of_all.map(|switch| switch.time).collect();
    // A complete list has no switch of all threads where it begins.
    let first = switches().map(|switch| switch.time).min();
    begins.extend(first.filter(|_| info.schedule.is_complete));
    let threads = states.threads().into_iter();
    let one = |thread| of_thread(&states, thread, &begins, &info.clock, time);
    threads.map(one).collect()
}

fn of_thread(
    states: &States,
    thread: ThreadId,
    begins: &HashSet<Ticks>,
    clock: &Clock,
    time: i64,
) -> ThreadState {
    let in_ns = |ticks: Ticks| i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX);
    let mut now = ThreadState {
        thread: thread.0,
        state: None,
        cpu: None,
        since_ns: None,
        at_least: false,
    };
    let stays = states.stays(thread).filter(|stay| stay.from < stay.until);
    for stay in stays.take_while(|stay| in_ns(stay.from) <= time) {
        let (state, cpu) = (
            stay.state.map(|state| state.name()),
            stay.cpu.map(|cpu| cpu.0),
        );
        if (now.state, now.cpu) != (state, cpu) {
            now.since_ns = state.map(|_| in_ns(stay.from));
            now.at_least = state.is_some() && begins.contains(&stay.from);
            (now.state, now.cpu) = (state, cpu);
        }
    }
    now
}

impl ThreadState {
    /// `running on CPU 1 for 5.000 ms`.
    pub(super) fn in_words(&self, time: i64) -> String {
        let (Some(state), Some(since)) = (self.state, self.since_ns) else {
            return "state not known".to_owned();
        };
        let least = if self.at_least { "at least " } else { "" };
        let duration = ui::duration(time.abs_diff(since));
        match self.cpu {
            None => format!("{state} for {least}{duration}"),
            Some(cpu) if state == "running" => {
                format!("{state} on CPU {cpu} for {least}{duration}")
            }
            Some(cpu) => format!("{state} for {least}{duration}, last on CPU {cpu}"),
        }
    }
}
