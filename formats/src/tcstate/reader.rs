//! The `Source` of state histories: the second pass over the intervals, and the listing. The threads of a folder are
//! mixed, so the folder is one lane.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::index::{self, Index};
use super::list;
use super::order::{self, Change, Orderer};
use super::record::Header;
use super::scan::Scanner;
use super::state::{self, State};
use crate::bytes::FileBytes;
use crate::error::Error;
use crate::model::{Call, CpuId, Edge, FunctionId, Mark, Ticks};
use crate::sink::Sink;
use crate::source::one_lane;

/// A state history, opened and indexed.
pub struct TcstateSource {
    folder: PathBuf,
    bytes: FileBytes,
    header: Header,
    index: Index,
}

impl TcstateSource {
    /// Reads the whole folder once: checks it, and puts it in order.
    ///
    /// # Errors
    /// If history.bin can't be read, or its header is not that of a history.
    pub fn open(folder: &Path) -> Result<TcstateSource, Error> {
        let (bytes, header) = index::open_history(folder)?;
        let index = index::index(folder, &bytes, &header)?;
        Ok(TcstateSource {
            folder: folder.to_owned(),
            bytes,
            header,
            index,
        })
    }

    /// First and last time of the history, in ns.
    #[must_use]
    pub fn range(&self) -> (i64, i64) {
        (self.index.bounds.start, self.index.bounds.end)
    }

    /// First and last entry or exit, in ns, as meta.json states them. A history with the states of threads goes on beyond
    /// these.
    #[must_use]
    pub fn calls(&self) -> Option<(i64, i64)> {
        let spans = self.index.threads.iter().filter_map(|known| known.span);
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// The values of all attributes at a time in ns, in the order of their keys.
    ///
    /// # Errors
    /// Where history.bin can't be read.
    pub fn state(&self, time: i64) -> Result<State, Error> {
        state::of_history(&self.bytes, &self.index, self.scanner(), time)
    }

    /// All intervals.
    fn scanner(&self) -> Scanner<'_> {
        Scanner::new(&self.bytes, &self.index.tree.kinds, self.index.bounds)
    }

    /// Pushes all events into the sink.
    fn events(&self, sink: &mut dyn Sink, progress: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        let index = &self.index;
        let mut decoder = Decoder {
            index,
            sink,
            stacks: index.threads.iter().map(|_| Stack::default()).collect(),
            calls: Vec::new(),
        };
        let mut orderer = Orderer::new(&index.plan, index.threads.len(), index.bounds.end);
        let mut scanner = self.scanner();
        let mut reported = scanner.offset();
        while let Some(piece) = scanner.next()? {
            let Some(item) = piece.interval.and_then(|interval| index.item(&interval)) else {
                continue;
            };
            orderer.add(&item, &mut |thread, edges| {
                decoder.edges(thread, edges);
                progress(piece.offset - reported);
                reported = piece.offset;
            });
        }
        orderer.finish(&mut |thread, edges| decoder.edges(thread, edges));
        decoder.finish();
        progress(scanner.offset() - reported);
        Ok(())
    }
}

one_lane! {
    TcstateSource, this:
    size: this.index.bounds.to - this.index.bounds.from,
    decode(sink, progress): this.events(sink, progress),
    records(visit): list::records(&this.folder, &this.bytes, &this.header, &this.index, visit),
}

/// One thread, while it is decoded.
#[derive(Debug, Default)]
struct Stack {
    /// Level and function of each open frame.
    open: Vec<(u32, FunctionId)>,
    cpu: Option<u32>,
    begun: bool,
    /// The number of frames from before the first record that have been given.
    before: u32,
}

struct Decoder<'a> {
    index: &'a Index,
    sink: &'a mut dyn Sink,
    stacks: Vec<Stack>,
    calls: Vec<Call>,
}

impl Decoder<'_> {
    /// What a thread did in a run.
    fn edges(&mut self, thread: usize, edges: &[order::Edge]) {
        self.thread(thread);
        for edge in edges {
            self.edge(thread, edge);
        }
        self.hand_over();
    }

    fn thread(&mut self, thread: usize) {
        let Some(known) = self.index.threads.get(thread) else {
            return;
        };
        self.sink.thread(&known.thread);
        let begun = std::mem::replace(&mut self.stacks[thread].begun, true);
        if let Some((seconds, micros)) = known.wall.filter(|_| !begun) {
            self.sink.mark(&Mark::Wall { seconds, micros });
        }
    }

    fn edge(&mut self, thread: usize, edge: &order::Edge) {
        let Some(known) = self.index.threads.get(thread) else {
            return;
        };
        let stack = &mut self.stacks[thread];
        let mut time = edge.time;
        match edge.change {
            Change::Cpu(cpu) => {
                if stack.cpu.replace(cpu) != Some(cpu) {
                    self.hand_over();
                    let (time, cpu) = (ticks(time), CpuId(cpu));
                    self.sink.mark(&Mark::Cpu { time, cpu });
                }
            }
            Change::Leave(Reverse(level)) => leave(stack, level, time, &mut self.calls),
            Change::Enter { level, string } => {
                leave(stack, level, time, &mut self.calls);
                let before = stack.before < known.before
                    && known
                        .span
                        .is_some_and(|(first, _)| first.checked_sub(1) == Some(time));
                if before {
                    stack.before += 1;
                    time += 1;
                }
                let function = self
                    .index
                    .function_of
                    .get(string as usize)
                    .copied()
                    .flatten();
                let function = function.unwrap_or_default();
                stack.open.push((level, function));
                self.calls.push(call(time, function, Edge::Entry, before));
            }
        }
    }

    fn hand_over(&mut self) {
        if !self.calls.is_empty() {
            self.sink.calls(&self.calls);
            self.calls.clear();
        }
    }

    /// The frames that a writer closed at the end; the others stay open. Also names threads without
    /// events.
    fn finish(&mut self) {
        for (thread, known) in self.index.threads.iter().enumerate() {
            let stack = &mut self.stacks[thread];
            let last = known.span.map_or(0, |(_, last)| last);
            let count = (known.after as usize).min(stack.open.len());
            let closed = stack.open.drain(stack.open.len() - count..).rev();
            self.calls
                .extend(closed.map(|(_, function)| call(last, function, Edge::Exit, true)));
            if !self.calls.is_empty() || !self.stacks[thread].begun {
                self.thread(thread);
                self.hand_over();
            }
        }
    }
}

/// Leaves this level and all levels inside it.
#[inline]
fn leave(stack: &mut Stack, level: u32, time: i64, calls: &mut Vec<Call>) {
    while stack.open.last().is_some_and(|(open, _)| *open >= level) {
        let Some((_, function)) = stack.open.pop() else {
            break;
        };
        calls.push(call(time, function, Edge::Exit, false));
    }
}

fn call(time: i64, function: FunctionId, edge: Edge, synthetic: bool) -> Call {
    Call {
        time: ticks(time),
        function,
        edge,
        synthetic,
        has_arguments: false,
    }
}

fn ticks(time: i64) -> Ticks {
    Ticks(u64::try_from(time).unwrap_or(0))
}
