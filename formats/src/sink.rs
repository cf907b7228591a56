//! The receiving side: writers are sinks, reports are sinks.
//!
//! A sink never sees a file offset and never fails in the middle: a writer keeps its first error
//! and returns it at its end.

use std::fmt;

use crate::error::Diagnostic;
use crate::model::Schedule;
use crate::model::{Call, Function, Mark, Moment, Thread};
use crate::packed::Packed;

/// Receives the events of a trace, in order per thread.
///
/// Calls come in batches, because there may be a hundred million of them. Any other event comes alone,
/// at its place between two batches. A sink leaves out the methods that it has no use for.
pub trait Sink {
    /// The events up to the next such call belong to this thread. A thread may come more than once; its
    /// events are still in order.
    fn thread(&mut self, thread: &Thread) {
        let _ = thread;
    }

    /// Some calls, in order.
    fn calls(&mut self, calls: &[Call]);

    /// Some calls, in the packed form that some sources have. None of them is synthetic, and no time goes back. By
    /// default they are unpacked and given to [`Sink::calls`].
    fn packed(&mut self, packed: &Packed<'_>) {
        packed.unpack(|calls| self.calls(calls));
    }

    /// One event that is no call.
    fn mark(&mut self, mark: &Mark<'_>) {
        let _ = mark;
    }

    /// The trace has a fault at this place. Reading goes on.
    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        let _ = diagnostic;
    }
}

/// The losses of a writer: what its target could not hold, with counts. Empty: nothing was lost.
///
/// Notes stand apart from losses. A note says that the target holds everything, but another program's
/// reader has trouble with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    list: Vec<(&'static str, u64)>,
    notes: Vec<(&'static str, u64)>,
}

impl Losses {
    /// Counts `count` more losses of the kind `what`: `typed events: written as custom events`.
    pub fn add(&mut self, what: &'static str, count: u64) {
        count_more(&mut self.list, what, count);
    }

    /// Counts `count` more notes on trouble of another program's reader.
    pub fn note(&mut self, what: &'static str, count: u64) {
        count_more(&mut self.notes, what, count);
    }

    /// Counts the short calls and notes that the target leaves out.
    pub(crate) fn add_left_out(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::ShortCalls { calls, .. } => {
                let what = "short calls without records: left out, so their time is self time of their callers";
                self.add(what, *calls);
            }
            Mark::Note { .. } => {
                self.add(
                    "notes (events, tasks, arguments, thread states): left out",
                    1,
                );
            }
            _ => {}
        }
    }

    /// Counts the named moments, which only XRay files can hold.
    pub fn add_moments(&mut self, moments: &[Moment]) {
        self.add("named moments: left out", moments.len() as u64);
    }

    /// Counts the states of threads that the target can't hold.
    pub fn add_schedule(&mut self, schedule: &Schedule) {
        let all = [
            schedule.switches.len(),
            schedule.samples.len(),
            schedule.accounts.len(),
        ];
        self.add(
            "context switches, samples and accounts of threads: left out",
            all.iter().sum::<usize>() as u64,
        );
    }

    /// Counts all that a schedule has beside context switches.
    pub(crate) fn add_all_but_switches(&mut self, schedule: &Schedule) {
        let what = "samples of where threads were: left out";
        self.add(what, schedule.samples.len() as u64);
        let what = "accounts (the system's sums of a thread's times): left out";
        self.add(what, schedule.accounts.len() as u64);
        let what = "files that samples point into: left out";
        self.add(what, schedule.modules.len() as u64);
    }

    /// Counts the untimed functions that the target can't mark as untimed.
    pub(crate) fn add_untimed(&mut self, functions: &[Function]) {
        let untimed = functions.iter().filter(|function| function.untimed);
        let what = "functions that are untimed: calls look as if they had times of their own";
        self.add(what, untimed.count() as u64);
    }

    /// Each kind of trouble for other readers with its count, in the order of the first meeting.
    pub fn notes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.notes.iter().copied()
    }

    /// Whether the target held everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Each kind of loss with its count, in the order of the first meeting.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.list.iter().copied()
    }
}

#[inline(never)]
fn count_more(list: &mut Vec<(&'static str, u64)>, what: &'static str, count: u64) {
    if count == 0 {
        return;
    }
    match list.iter_mut().find(|(known, _)| *known == what) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => list.push((what, count)),
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (what, count)) in self.list.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{count} {what}")?;
        }
        Ok(())
    }
}
