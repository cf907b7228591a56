//! The first pass over a trace: when it begins and ends, and for each thread the calls that were entered before its
//! first record. So an export can write these calls where they begin.

use std::collections::HashMap;
use std::io;

use fdr_formats::calls::{CallHandler, CallStack, EndedCall, Exit, OpenCall};
use fdr_formats::{
    Call, Edge, Error, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks, source,
};

use crate::memory;

/// What is known of the threads.
#[derive(Default)]
pub(super) struct Survey {
    threads: HashMap<ThreadId, SurveyedThread>,
    current: ThreadId,
    times: Option<(Ticks, Ticks)>,
    refused: Option<io::Error>,
}

#[derive(Default)]
struct SurveyedThread {
    stack: CallStack,
    earlier: EarlierCalls,
}

/// Calls that were entered before the first record, innermost first.
#[derive(Default)]
struct EarlierCalls(Vec<FunctionId>);

impl CallHandler<()> for EarlierCalls {
    fn missing(&mut self, function: FunctionId, exit: Exit, _: Option<&()>) {
        if exit == Exit::Before {
            self.0.push(function);
        }
    }

    fn ended(&mut self, _: EndedCall<()>, _: &mut [OpenCall<()>]) {}
}

impl Survey {
    /// Reads a trace.
    ///
    /// # Errors
    /// Where it can't be read, or takes too much memory.
    pub(super) fn read(source: &dyn Source) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        source::drive(source, &mut survey, &|_| {})?;
        if let Some(error) = survey.refused {
            return Err(error.into());
        }
        for seen in survey.threads.values_mut() {
            seen.stack = CallStack::new();
        }
        let moments = source.info().moments.iter().map(|moment| moment.time);
        moments.for_each(|time| survey.reach(time));
        Ok(survey)
    }

    /// The first moment and the last one.
    pub(super) fn times(&self) -> Option<(Ticks, Ticks)> {
        self.times
    }

    /// The calls of a thread that were entered before its first record, innermost first.
    pub(super) fn take_earlier(&mut self, thread: ThreadId) -> Vec<FunctionId> {
        let seen = self.threads.get_mut(&thread);
        seen.map_or(Vec::new(), |seen| std::mem::take(&mut seen.earlier.0))
    }

    fn reach(&mut self, time: Ticks) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}

impl Sink for Survey {
    fn thread(&mut self, thread: &Thread) {
        self.current = thread.id;
    }

    fn calls(&mut self, calls: &[Call]) {
        let seen = self.threads.entry(self.current).or_default();
        for call in calls {
            match call.edge {
                Edge::Entry => seen.stack.enter(call, ()),
                Edge::Exit | Edge::TailExit => drop(seen.stack.exit(call, &mut seen.earlier)),
            }
        }
        // Between them the clock may have gone back.
        let times = calls.iter().map(|call| call.time);
        let (first, last) = (times.clone().min(), times.max());
        first
            .into_iter()
            .chain(last)
            .for_each(|time| self.reach(time));
        if self.refused.is_none() {
            self.refused = memory::check().err();
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let seen = self.threads.entry(self.current).or_default();
        match mark {
            Mark::Lost { .. } => seen.stack.lose(),
            Mark::Break { .. } => seen.stack.doubt(),
            _ => {}
        }
        match *mark {
            Mark::Cpu { time, .. }
            | Mark::Break { time }
            | Mark::Note { time, .. }
            | Mark::Custom { time, .. }
            | Mark::Typed { time, .. } => self.reach(time),
            Mark::Wall { .. }
            | Mark::Argument { .. }
            | Mark::Lost { .. }
            | Mark::ShortCalls { .. }
            | Mark::Threshold { .. } => {}
        }
    }
}
