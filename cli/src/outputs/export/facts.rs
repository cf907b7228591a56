//! What every export knows of a trace before its first call: names, clock, states, and the stretch of time. Times are
//! whole nanoseconds since the trace's first record, so that readers which count in floating point keep them.

use std::sync::Arc;

use fdr_formats::states::States;
use fdr_formats::{FunctionId, Source, ThreadId, Ticks, TraceInfo};

use super::survey::Survey;
use crate::off_cpu;
use crate::report::names::name_of;

/// The largest number that readers with 32 bits and a sign take.
const MAX_NUMBER: u64 = i32::MAX as u64;
/// Threads with larger numbers get numbers from here on.
const OTHERS: u64 = 0x4000_0000;

/// The facts.
pub(super) struct Facts {
    pub(super) info: TraceInfo,
    pub(super) states: Option<Arc<States>>,
    /// First and last moment.
    pub(super) start: Ticks,
    pub(super) end: Ticks,
    start_ns: u64,
}

/// A thread of the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// Which one, from 0.
    pub(super) at: usize,
    pub(super) id: ThreadId,
    /// Its number, for readers that have 31 bits.
    pub(super) number: u64,
    pub(super) process: u64,
    pub(super) name: String,
}

impl Facts {
    pub(super) fn new(source: &dyn Source, survey: &Survey) -> Facts {
        let info = source.info().clone();
        let (start, end) = survey.times().unwrap_or_default();
        let end = info.end.unwrap_or_default().max(end);
        Facts {
            states: off_cpu::states_of(&info),
            start_ns: info.clock.nanos(start).0,
            info,
            start,
            end,
        }
    }

    /// A moment, in ns since the start.
    pub(super) fn ns(&self, time: Ticks) -> u64 {
        self.info.clock.nanos(time).0.saturating_sub(self.start_ns)
    }

    /// The start, in ns of the trace's own clock.
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The start, in ns since 1970.
    pub(super) fn start_unix_ns(&self) -> Option<u64> {
        self.info.clock.unix_nanos(self.start)
    }

    /// A duration in ns.
    pub(super) fn length(&self, ticks: u64) -> u64 {
        self.info.clock.nanos(Ticks(ticks)).0
    }

    /// The name of a function.
    pub(super) fn name(&self, id: FunctionId) -> String {
        name_of(&self.info, id)
    }

    /// Its file and line, if they are known.
    pub(super) fn place(&self, id: FunctionId) -> Option<(&str, u32)> {
        let function = self.info.function(id)?;
        (!function.file.is_empty()).then_some((&function.file, function.line))
    }

    /// The process, or 1 where the trace does not say.
    pub(super) fn process(&self) -> u64 {
        self.info
            .process
            .filter(|&id| id <= MAX_NUMBER)
            .unwrap_or(1)
    }

    /// What the trace is called in viewers.
    pub(super) fn title(&self) -> String {
        match self.info.program.as_str() {
            "" => "trace".to_owned(),
            program => program.to_owned(),
        }
    }

    /// A thread.
    pub(super) fn lane(&self, at: usize, thread: &fdr_formats::Thread) -> Lane {
        let number = match thread.id.0 {
            id if id <= MAX_NUMBER => id,
            _ => OTHERS + at as u64,
        };
        let process = thread.process.filter(|&id| id <= MAX_NUMBER);
        Lane {
            at,
            id: thread.id,
            number,
            process: process.unwrap_or(self.process()),
            name: thread.name.clone(),
        }
    }
}

impl Lane {
    /// Its name and number, for viewers that have one text.
    pub(super) fn title(&self) -> String {
        format!("{} (thread {})", self.name, self.id)
            .trim_start()
            .to_owned()
    }
}
