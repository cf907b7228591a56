//! What threads waited for at a moment: their last state before it. Beside the calls, which another sink takes.

use fdr_formats::notes::NoteKind;
use fdr_formats::tcstate::state::{State, StateAtTime};
use fdr_formats::{Call, Clock, Diagnostic, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo, tasks};

use crate::report::waits::{OpenWait, Waits};

/// The calls and the waits of a trace up to a moment.
pub(super) struct CallsAndWaits {
    calls: StateAtTime,
    waits: Waits,
    /// Whether the trace has notes of tasks.
    has_tasks: bool,
    clock: Clock,
    /// In ns of the trace's clock.
    time: i64,
    thread: ThreadId,
}

impl CallsAndWaits {
    pub(super) fn new(time: i64, info: &TraceInfo) -> CallsAndWaits {
        CallsAndWaits {
            calls: StateAtTime::new(time, info),
            waits: Waits::default(),
            has_tasks: false,
            clock: info.clock.clone(),
            time,
            thread: ThreadId::default(),
        }
    }

    /// Whether the trace may have tasks.
    pub(super) fn has_tasks(&self, info: &TraceInfo) -> bool {
        let mut names = info.functions.iter().map(|function| &function.name);
        self.has_tasks || names.any(|name| tasks::of_name(name).is_some())
    }

    /// The state, and the threads that waited.
    pub(super) fn finish(self, info: &TraceInfo) -> (State, Vec<OpenWait>) {
        let since = |begin| {
            let ns = self.time.saturating_sub(nanos(&self.clock, begin));
            u64::try_from(ns).unwrap_or(0)
        };
        let waiting = self.waits.open(info, info.threads.iter(), since);
        (self.calls.finish(info), waiting)
    }
}

impl Sink for CallsAndWaits {
    fn thread(&mut self, thread: &Thread) {
        self.thread = thread.id;
        self.calls.thread(thread);
    }

    fn calls(&mut self, calls: &[Call]) {
        self.calls.calls(calls);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.has_tasks |= matches!(
            mark,
            Mark::Note {
                kind: NoteKind::Task,
                ..
            }
        );
        if let Mark::Note { time, kind, body } = mark
            && nanos(&self.clock, *time) <= self.time
        {
            self.waits.see(self.thread, *time, *kind, body);
        }
        self.calls.mark(mark);
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.calls.diagnostic(diagnostic);
    }
}

fn nanos(clock: &Clock, ticks: Ticks) -> i64 {
    i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX)
}
