//! A source that wraps the source of a trace, and gives only the names that the rule allows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::source::Record;
use fdr_formats::{Call, Diagnostic, Error, Mark, Sink, Source, Thread, TraceInfo};

use super::rule::Rule;
use crate::ui;

/// The trace.
pub(super) struct Scrubbed {
    source: Box<dyn Source>,
    info: TraceInfo,
    rule: Rule,
}

impl Scrubbed {
    pub(super) fn new(source: Box<dyn Source>, mut rule: Rule) -> Scrubbed {
        let info = rule.info(source.info());
        Scrubbed { source, info, rule }
    }

    /// New and old names.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.rule.replaced.iter();
        names.map(|(new, old)| (new.as_str(), old.as_str()))
    }

    /// What was done, when it is done.
    pub(super) fn words(&self) -> String {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let kept = match read(&self.rule.kept_names) {
            0 => String::new(),
            kept => format!(" ({} kept)", ui::count(kept)),
        };
        format!(
            "{} replaced{kept}, {} and {} left out",
            ui::things(self.rule.replaced.len() as u64, "name"),
            ui::things(read(&self.rule.events), "event"),
            ui::count_of(read(&self.rule.arguments), "notes of arguments"),
        )
    }
}

impl Source for Scrubbed {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        self.source.diagnostics()
    }

    fn lanes(&self) -> usize {
        self.source.lanes()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        self.source.lane_bytes(lane)
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let rule = &self.rule;
        let mut sink = Scrub { sink, rule };
        self.source.decode(lane, &mut sink, progress)
    }

    /// Records are listed in the words of their file.
    fn records(&self, _: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}

struct Scrub<'a> {
    sink: &'a mut dyn Sink,
    rule: &'a Rule,
}

impl Sink for Scrub<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.sink.thread(&self.rule.thread(thread));
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.rule.keep.arguments || !calls.iter().any(|call| call.has_arguments) {
            return self.sink.calls(calls);
        }
        let bare: Vec<Call> = calls
            .iter()
            .map(|call| Call {
                has_arguments: false,
                ..*call
            })
            .collect();
        self.sink.calls(&bare);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Scrub { sink, rule } = self;
        rule.mark(mark, &mut |mark| sink.mark(mark));
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.sink.diagnostic(diagnostic);
    }
}
