//! What a trace has from a moment on: a source in front of a source. Calls that are open at that moment are
//! entered then, by synthetic entries, so that every sink shows them clipped. Must never change what comes
//! later, nor give a thread's counts: they are of all of its records.

use std::collections::HashMap;
use std::ops::ControlFlow;

use fdr_formats::packed::Packed;
use fdr_formats::source::Record;
use fdr_formats::{
    Call, Diagnostic, Edge, Error, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo,
};

/// Open calls that are looked at for the entry of an exit: a hostile file is not to cost more.
const NEAR: usize = 4096;

/// A source from that moment on.
pub(crate) struct Since<'a> {
    source: &'a dyn Source,
    begin: Ticks,
}

impl<'a> Since<'a> {
    pub(crate) fn new(source: &'a dyn Source, begin: Ticks) -> Since<'a> {
        Since { source, begin }
    }
}

impl Source for Since<'_> {
    fn info(&self) -> &TraceInfo {
        self.source.info()
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
        let mut later = Later {
            sink,
            begin: self.begin,
            threads: HashMap::new(),
            now: ThreadId(0),
            early: false,
        };
        self.source.decode(lane, &mut later, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.source.records(visit)
    }
}

/// The sink in between.
struct Later<'a> {
    sink: &'a mut dyn Sink,
    begin: Ticks,
    /// The open calls of threads that have not come to the moment; `None` for those that have.
    threads: HashMap<ThreadId, Option<Vec<FunctionId>>>,
    /// The thread at hand, and whether it has not come to the moment.
    now: ThreadId,
    early: bool,
}

impl Later<'_> {
    /// Follows the calls that are before the moment; returns how many those are.
    fn follow(&mut self, calls: &[Call]) -> usize {
        let Some(Some(open)) = self.threads.get_mut(&self.now) else {
            return 0;
        };
        let before = calls.iter().take_while(|call| call.time < self.begin);
        let mut count = 0;
        for call in before {
            count += 1;
            if call.edge == Edge::Entry {
                open.push(call.function);
                continue;
            }
            let mut near = open.iter().rev().take(NEAR);
            if let Some(inner) = near.position(|function| *function == call.function) {
                open.truncate(open.len() - inner - 1);
            }
        }
        count
    }

    /// The thread at hand comes to the moment.
    fn arrive(&mut self) {
        self.early = false;
        let open = self.threads.insert(self.now, None).flatten();
        let entry = |function| Call {
            time: self.begin,
            function,
            edge: Edge::Entry,
            synthetic: true,
            has_arguments: false,
        };
        let entries: Vec<Call> = open.into_iter().flatten().map(entry).collect();
        if !entries.is_empty() {
            self.sink.calls(&entries);
        }
    }
}

impl Sink for Later<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id;
        let known = self.threads.entry(thread.id);
        self.early = known.or_insert_with(|| Some(Vec::new())).is_some();
        self.sink.thread(&Thread {
            counts: None,
            ..thread.clone()
        });
    }

    fn calls(&mut self, calls: &[Call]) {
        let mut rest = calls;
        if self.early {
            rest = calls.get(self.follow(calls)..).unwrap_or(&[]);
            if rest.is_empty() {
                return;
            }
            self.arrive();
        }
        self.sink.calls(rest);
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        match self.early {
            true => packed.unpack(|calls| self.calls(calls)),
            false => self.sink.packed(packed),
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if !self.early {
            self.sink.mark(mark);
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.sink.diagnostic(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryTrace, entry, exit, synthetic};

    #[derive(Default)]
    struct Keep(Vec<(u64, Call)>, u64);

    impl Sink for Keep {
        fn thread(&mut self, thread: &Thread) {
            self.1 = thread.id.0;
        }
        fn calls(&mut self, calls: &[Call]) {
            self.0.extend(calls.iter().map(|call| (self.1, *call)));
        }
        fn mark(&mut self, _: &Mark<'_>) {}
        fn diagnostic(&mut self, _: Diagnostic) {}
    }

    #[test]
    fn what_is_open_at_the_moment_is_entered_then() {
        let one = [
            entry(1, 1),
            entry(2, 2),
            exit(3, 2),
            entry(4, 3),
            exit(11, 3),
            exit(12, 1),
        ];
        let two = [entry(3, 4), exit(5, 4)];
        let three = [entry(10, 5), synthetic(exit(20, 5))];
        let trace = MemoryTrace::new(&[(7, &one), (8, &two), (9, &three), (7, &[exit(13, 6)])]);
        let mut keep = Keep::default();
        let since = Since::new(&trace, Ticks(10));
        fdr_formats::source::drive(&since, &mut keep, &|_| {}).unwrap();
        let wanted = [
            (7, synthetic(entry(10, 1))),
            (7, synthetic(entry(10, 3))),
            (7, exit(11, 3)),
            (7, exit(12, 1)),
            (9, entry(10, 5)),
            (9, synthetic(exit(20, 5))),
            (7, exit(13, 6)),
        ];
        assert_eq!(keep.0, wanted);
    }
}
