//! Noise: delays that the system causes in any call now and then, so they are no finding. A thread is preempted, gets a
//! CPU late after a wait, or is interrupted.

use fdr_formats::model::State;
use fdr_formats::states::States;
use fdr_formats::{Clock, FunctionId, Ticks};
use foldhash::{HashMap, HashSet};

use super::slow_call::SlowCall;
use super::usual::Usual;
use crate::report::function_rows::Row;

/// If the thread was preempted, or waited in a function that usually waits, an excess is a finding from this time on.
/// It is some time slices of the scheduler.
const SCHEDULER_NS: u64 = 20_000_000;
/// Any other excess is a finding from this time on, also where the state is not known. Interrupts and page faults take
/// less.
const MACHINE_NS: u64 = 1_000_000;
/// A state explains the excess if it has at least this part of it.
const MIN_PART: f64 = 0.5;

/// The data by which noise is recognized.
pub(crate) struct Noise<'a> {
    states: &'a States,
    clock: &'a Clock,
    usual: &'a HashMap<FunctionId, Usual>,
    /// Functions whose usual calls wait for most of their time.
    waits: HashSet<FunctionId>,
}

impl<'a> Noise<'a> {
    /// `rows`: of the calls that have records.
    pub(crate) fn new(
        states: &'a States,
        clock: &'a Clock,
        usual: &'a HashMap<FunctionId, Usual>,
        rows: &[Row],
    ) -> Noise<'a> {
        let waits = |row: &&Row| {
            row.states.is_some_and(|states| {
                let of_usual = row.p50_ns.unwrap_or(0).saturating_mul(row.calls);
                states.total.waiting_ns > 0 && states.total.running_ns < of_usual / 2
            })
        };
        Noise {
            states,
            clock,
            usual,
            waits: rows
                .iter()
                .filter(waits)
                .map(|row| FunctionId(row.id))
                .collect(),
        }
    }

    /// Whether a slow call is more than that.
    pub(crate) fn is_exceeded_by(&self, call: &SlowCall) -> bool {
        let p50 = self.usual.get(&call.function).map_or(0, |usual| usual.p50);
        let excess = self.clock.nanos(Ticks(call.total)).0.saturating_sub(p50);
        let known = self.states.in_stretch(call.thread, call.start, call.end);
        let has_most = |state| {
            let ns = self.clock.nanos(known.spent.in_state(state)).0;
            ns as f64 >= MIN_PART * excess as f64
        };
        let least = if has_most(State::Preempted)
            || has_most(State::Waiting) && self.waits.contains(&call.function)
        {
            SCHEDULER_NS
        } else {
            MACHINE_NS
        };
        excess >= least
    }
}

#[cfg(test)]
mod tests {
    use fdr_formats::ThreadId;
    use fdr_formats::model::{CpuId, Schedule, Switch};

    use super::*;

    const CALL: u64 = 30_000_000;

    /// The thread of a call of 30 ms is in a state, or in none that is known, for the last part of the call. Returns
    /// whether a call of `ns` stands out beside it.
    fn stands_out(state: impl Into<Option<State>>, waits: bool, ns: u64) -> bool {
        let switch = |time, to: Option<State>| Switch {
            time: Ticks(time),
            thread: ThreadId(7),
            cpu: CpuId(0),
            to,
        };
        let schedule = Schedule {
            switches: vec![
                switch(0, Some(State::Running)),
                switch(1, state.into()),
                switch(2 * CALL, Some(State::Running)),
            ],
            ..Schedule::default()
        };
        let (states, usual) = (States::new(&schedule), HashMap::default());
        let clock = Clock::default();
        let mut noise = Noise::new(&states, &clock, &usual, &[]);
        if waits {
            noise.waits.insert(FunctionId(1));
        }
        noise.is_exceeded_by(&SlowCall::of_test(1, 7, 0, ns))
    }

    #[test]
    fn system_noise_is_no_finding() {
        use State::{Preempted, Running, Waiting};
        let ms = 1_000_000;
        for (state, waits, least) in [
            (Running, false, ms),
            (Waiting, false, ms),
            (Preempted, false, 20 * ms),
            (Waiting, true, 20 * ms),
            (Running, true, ms),
        ] {
            assert!(stands_out(state, waits, least), "{state:?} {waits}");
            assert!(!stands_out(state, waits, least - 1), "{state:?} {waits}");
        }
        assert!(stands_out(None, false, ms) && !stands_out(None, false, ms - 1));
    }
}
