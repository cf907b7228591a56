//! The selected part of a trace as a source. A window, or the inside of functions, needs the open calls.

use std::collections::HashMap;
use std::ops::ControlFlow;

use fdr_formats::model::FunctionKind;
use fdr_formats::packed::Packed;
use fdr_formats::source::Record;
use fdr_formats::states::States;
use fdr_formats::{
    Call, Diagnostic, Error, Mark, Sink, Source, Thread, ThreadId, Ticks, TraceInfo,
};

use super::calls::{Calls, Open};
use super::{FunctionMatcher, ResolvedSelection};
use crate::report::names::name_of;
use crate::ui;

/// A trace, and what is chosen of it.
pub(super) struct Selected {
    source: Box<dyn Source>,
    info: TraceInfo,
    chosen: ResolvedSelection,
}

impl Selected {
    pub(super) fn new(source: Box<dyn Source>, chosen: ResolvedSelection) -> Selected {
        let mut info = source.info().clone();
        info.threads.retain(|thread| chosen.has_thread(thread.id));
        (info.missing, info.missing_totals) = Default::default();
        info.moments.retain(|moment| {
            let (from, to) = (chosen.from, chosen.to);
            from.is_none_or(|from| moment.time >= from) && to.is_none_or(|to| moment.time <= to)
        });
        if (chosen.from, chosen.to) != (None, None) && !info.schedule.is_empty() {
            let from = chosen.from.or(info.start).unwrap_or_default();
            let to = chosen.to.unwrap_or(Ticks(u64::MAX));
            info.schedule = States::new(&info.schedule).cut(&info.schedule, from, to);
        }
        if !chosen.is_threads() {
            for thread in &mut info.threads {
                (thread.counts, thread.totals) = (None, Vec::new());
            }
        }
        if let Some(filter) = &chosen.filter {
            let all = source.info();
            info.functions.retain(|function| {
                // Names of fields stay what they are.
                let is_name = function.kind == FunctionKind::Name;
                is_name || filter.matches(&name_of(all, function.id))
            });
        }
        if let (Some(start), Some(from)) = (&mut info.start, chosen.from) {
            *start = from.max(*start);
        }
        Selected {
            source,
            info,
            chosen,
        }
    }
}

impl Source for Selected {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        if self.chosen.is_threads() {
            let mut sink = Threads::new(sink, &self.chosen);
            return self.source.decode(lane, &mut sink, progress);
        }
        let mut calls = Calls::new(sink, self.source.info(), &self.chosen);
        self.source.decode(lane, &mut calls, progress)?;
        calls.finish();
        Ok(())
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        let filters = self.chosen.filter.as_slice();
        let info = self.source.info();
        let (mut filter, mut within) = (
            FunctionMatcher::new(info, filters),
            FunctionMatcher::new(info, &self.chosen.within),
        );
        // A record without a time has that of the record before it in its thread.
        let mut inside: HashMap<ThreadId, bool> = HashMap::new();
        let mut open: HashMap<ThreadId, Open> = HashMap::new();
        let mut times: HashMap<ThreadId, Ticks> = HashMap::new();
        let (from, to) = (self.chosen.from, self.chosen.to);
        let by_function = !filters.is_empty() || !self.chosen.within.is_empty();
        let (mut calls, mut functions) = (false, false);
        self.source.records(&mut |record| {
            calls |= record.time.is_some();
            functions |= record.function.is_some();
            let Some(thread) = record.thread.filter(|&id| self.chosen.has_thread(id)) else {
                return ControlFlow::Continue(());
            };
            let inside = inside.entry(thread).or_insert(from.is_none());
            if let Some(time) = record.time {
                *inside = from.is_none_or(|from| time >= from) && to.is_none_or(|to| time <= to);
            }
            let is_function = |wanted: &mut FunctionMatcher<'_>| {
                wanted.filters.is_empty() || record.function.is_some_and(|id| wanted.is(id))
            };
            let is_polled = self.chosen.polls.as_ref().is_none_or(|polls| {
                let time = record.time.or(times.get(&thread).copied());
                time.is_some_and(|time| polls.is_inside(thread, time))
            });
            if let Some(time) = record.time {
                times.insert(thread, time);
            }
            let is_chosen = is_function(&mut within);
            let is_within = self.chosen.within.is_empty()
                || open.entry(thread).or_default().follow(record, is_chosen);
            match *inside && is_polled && is_function(&mut filter) && is_within {
                true => visit(record),
                false => ControlFlow::Continue(()),
            }
        })?;
        if by_function && calls && !functions {
            let format = ui::clean(&info.format);
            ui::complain(&format!(
                "--function and --filter show none: the records of {format} are not listed with their \
                 functions; fdr convert --to xray makes a trace of which they are"
            ));
        }
        Ok(())
    }
}

/// Gives on what is of the chosen threads.
struct Threads<'a> {
    sink: &'a mut dyn Sink,
    chosen: &'a ResolvedSelection,
    on: bool,
}

impl<'a> Threads<'a> {
    fn new(sink: &'a mut dyn Sink, chosen: &'a ResolvedSelection) -> Threads<'a> {
        let on = chosen.has_thread(ThreadId::default());
        Threads { sink, chosen, on }
    }
}

impl Sink for Threads<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.on = self.chosen.has_thread(thread.id);
        if self.on {
            self.sink.thread(thread);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.on {
            self.sink.calls(calls);
        }
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        if self.on {
            self.sink.packed(packed);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.on {
            self.sink.mark(mark);
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.sink.diagnostic(diagnostic);
    }
}
