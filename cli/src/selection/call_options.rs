//! Which calls a command lists: the options `--over` and `--state`. The options decide on each call separately,
//! whatever they decide on the calls around it and inside it.

use std::sync::Arc;
use std::time::Duration;

use fdr_formats::model::State;
use fdr_formats::states::States;
use fdr_formats::{ThreadId, Ticks, TraceInfo};

use super::first_tick;
use super::moment::seconds;
use crate::off_cpu;

/// A state of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StateName {
    Running,
    Preempted,
    Waiting,
}

impl StateName {
    pub(crate) fn state(self) -> State {
        match self {
            StateName::Running => State::Running,
            StateName::Preempted => State::Preempted,
            StateName::Waiting => State::Waiting,
        }
    }
}

/// The calls that are listed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct CallOptions {
    /// Only calls that took at least TIME, as 50ms
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = super::HEADING)]
    over: Option<Duration>,
    /// Only calls whose thread was in that state for at least half of the time of which the state is known
    #[arg(long, value_name = "STATE", value_enum, help_heading = super::HEADING)]
    state: Option<StateName>,
}

/// The same for one trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenCalls {
    /// Ticks.
    over: u64,
    state: Option<(State, Arc<States>)>,
}

impl CallOptions {
    /// The least ns that a call must have taken, if that was asked for.
    pub(crate) fn over_ns(&self) -> Option<u64> {
        let over = self.over?;
        Some(u64::try_from(over.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calls of a trace that the options choose.
    ///
    /// # Errors
    /// If a state is asked for, and the trace knows none.
    pub(crate) fn for_trace(&self, info: &TraceInfo) -> anyhow::Result<ChosenCalls> {
        let state = match self.state {
            None => None,
            Some(name) => {
                let states = off_cpu::states_of(info);
                let states = states.ok_or_else(|| {
                    anyhow::anyhow!("--state: the trace knows no states of its threads")
                })?;
                Some((name.state(), states))
            }
        };
        let over = self.over_ns().unwrap_or(0);
        Ok(ChosenCalls {
            over: first_tick(i128::from(over), &info.clock).0,
            state,
        })
    }
}

impl ChosenCalls {
    /// Whether it leaves no call out.
    pub(crate) fn has_all(&self) -> bool {
        self.over == 0 && self.state.is_none()
    }

    /// Calls of at least `over` ticks.
    #[cfg(test)]
    pub(crate) fn over(over: u64) -> ChosenCalls {
        ChosenCalls { over, state: None }
    }

    /// Whether a call is listed.
    #[inline]
    pub(crate) fn has(&self, thread: ThreadId, start: Ticks, end: Ticks, total: u64) -> bool {
        total >= self.over && self.is_in_state(thread, start, end)
    }

    fn is_in_state(&self, thread: ThreadId, start: Ticks, end: Ticks) -> bool {
        let Some((state, states)) = &self.state else {
            return true;
        };
        let spent = states.in_stretch(thread, start, end).spent;
        let all = spent.total().0;
        all > 0 && spent.in_state(*state).0.saturating_mul(2) >= all
    }
}
