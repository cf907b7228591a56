//! What an export is given: calls that begin and end, and what happened between.

use std::io;

use fdr_formats::calls::EdgeStatus;
use fdr_formats::model::State;
use fdr_formats::{CpuId, FunctionId, Losses};

use super::facts::Lane;
use super::value::Values;

/// What takes the calls. Times are ns since the trace's start.
pub(super) trait Receiver: Send {
    /// A thread that was not there before.
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        let _ = lane;
        Ok(())
    }

    /// A call begins.
    fn entered(&mut self, lane: &Lane, function: FunctionId, at: u64) -> io::Result<()> {
        let _ = (lane, function, at);
        Ok(())
    }

    /// The innermost call ends.
    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()>;

    /// Calls that left no records.
    fn short(&mut self, lane: &Lane, short: &UnrecordedCalls) -> io::Result<()> {
        let _ = (lane, short);
        Ok(())
    }

    /// Something else.
    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let _ = (lane, what);
        Ok(())
    }

    /// A thread was in a state.
    fn stayed(&mut self, lane: &Lane, stay: &StayNs) -> io::Result<()> {
        let _ = (lane, stay);
        Ok(())
    }

    /// What could not be written although the format has a place for its kind.
    fn losses(&self, losses: &mut Losses) {
        let _ = losses;
    }

    /// All is given.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A call that has ended.
pub(super) struct ReceivedCall<'a> {
    pub(super) function: FunctionId,
    /// The measured times.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The end, and not before anything else of the thread.
    pub(super) at: u64,
    /// As in a report.
    pub(super) total: u64,
    pub(super) own: u64,
    /// Open calls around it.
    pub(super) depth: usize,
    pub(super) clipped: bool,
    pub(super) entry: EdgeStatus,
    pub(super) exit: EdgeStatus,
    pub(super) untimed: bool,
    /// At its entry.
    pub(super) cpu: Option<CpuId>,
    pub(super) arguments: &'a Values,
}

/// Calls that left no records, somewhere within a stretch of time that is as long as they were together.
pub(super) struct UnrecordedCalls {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) calls: u64,
}

/// The state of a thread, and where it ran.
pub(super) struct StayNs {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) state: State,
    pub(super) cpu: Option<CpuId>,
}

/// What a happening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HappeningKind {
    Event,
    Counter,
    /// Fields of a span.
    Span,
    /// A task is in another state: its number, and whether it has ended.
    Task {
        id: u64,
        ended: bool,
    },
    ThreadState,
    /// Another program's payload.
    Payload,
    Moment,
    Cpu,
    /// Records are missing here.
    Lost,
    Break,
    /// What the recorder counted of the thread's records.
    Counts,
}

impl HappeningKind {
    /// The thread's number, of what happened on one thread.
    pub(super) fn thread(self, lane: &Lane) -> Option<u64> {
        (self != HappeningKind::Moment).then_some(lane.id.0)
    }

    /// The word for it, in texts.
    pub(super) fn word(self) -> &'static str {
        match self {
            HappeningKind::Event => "event",
            HappeningKind::Counter => "counter",
            HappeningKind::Span => "span",
            HappeningKind::Task { .. } => "task",
            HappeningKind::ThreadState => "thread_state",
            HappeningKind::Payload => "payload",
            HappeningKind::Moment => "moment",
            HappeningKind::Cpu => "cpu",
            HappeningKind::Lost => "lost",
            HappeningKind::Break => "clock_break",
            HappeningKind::Counts => "counts",
        }
    }
}

/// Something that is no call.
pub(super) struct Happening<'a> {
    pub(super) at: u64,
    pub(super) what: HappeningKind,
    pub(super) name: &'a str,
    pub(super) values: &'a Values,
}
