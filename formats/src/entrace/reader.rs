//! The `Source` of ENTRACE files. It connects the index with the decoders and the listing. The threads of a file are
//! mixed, so the file is one lane.
//!
//! Entries of other people's programs have no times. For them this file walks through the tree, depth
//! first, children in ascending order. Each step is a tick. All entries are calls of one thread, and they
//! nest. Memory is then 16 bytes an entry during the decoding.

use std::io;

use super::decode::{self, ThreadBatches};
use super::index::{self, Index};
use super::list;
use super::names;
use super::record::{Entry, Kind, MAX_ENTRY, Value, decode_entry};
use super::scan::{self, Flow, Frame};
use crate::bytes::{ReadAt, Window};
use crate::error::Error;
use crate::model::{Call, Edge, FunctionId, Mark, Ticks};
use crate::sink::Sink;
use crate::source::one_lane;

/// An ENTRACE file, opened and indexed.
pub struct EntraceSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl EntraceSource {
    /// Reads the file once, for its threads, functions and clock.
    ///
    /// # Errors
    /// If the file can't be read, or its head is no ENTRACE head.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<EntraceSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(EntraceSource { bytes, index })
    }

    /// Version and container of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.index.layout.kind
    }
}

one_lane! {
    EntraceSource, this:
    size: this.index.layout.size,
    decode(sink, progress): match this.index.timed {
        true => decode::decode(&*this.bytes, &this.index, sink, progress),
        false => decode_by_tree(&*this.bytes, &this.index, sink, progress),
    },
    records(visit): list::records(&*this.bytes, &this.index, visit),
}

const WINDOW: usize = 64 * 1024;
/// No entry: a tree has at most this many.
const NONE: u32 = u32::MAX;

/// Decodes a file without times.
pub(super) fn decode_by_tree(
    bytes: &dyn ReadAt,
    index: &Index,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let tree = tree(bytes, index)?;
    let mut walk = Walk {
        bytes,
        index,
        tree: &tree,
        window: Window::new(bytes, WINDOW),
        events: Events {
            batches: ThreadBatches::new(&index.info.threads, sink),
            step: 0,
        },
        open: Vec::new(),
        last: 0,
        done: 0,
    };
    walk.walk(progress)?;
    walk.events.batches.finish();
    progress(index.layout.size - walk.done);
    Ok(())
}

/// The place of each entry, and its children as a chain of siblings.
#[derive(Debug, Default)]
struct Tree {
    /// Place in the file; 0: damaged.
    places: Vec<u64>,
    first: Vec<u32>,
    next: Vec<u32>,
}

fn tree(bytes: &dyn ReadAt, index: &Index) -> io::Result<Tree> {
    let mut tree = Tree::default();
    scan::each(bytes, &index.layout, &mut |frame: &Frame<'_>| {
        let own = u32::try_from(frame.index).unwrap_or(NONE);
        if own == NONE {
            return Flow::Enough;
        }
        let (mut place, mut parent) = (0, 0);
        if let Some(content) = &frame.content {
            (place, parent) = (frame.offset + frame.prefix, content.entry.parent);
        }
        tree.places.push(place);
        tree.first.push(NONE);
        tree.next.push(NONE);
        if own > 0 {
            let parent = if parent < own { parent as usize } else { 0 };
            // The chain is built in descending order, and reversed afterwards.
            tree.next[own as usize] = std::mem::replace(&mut tree.first[parent], own);
        }
        Flow::On
    })?;
    for parent in 0..tree.first.len() {
        let (mut at, mut turned) = (tree.first[parent], NONE);
        while at != NONE {
            let next = std::mem::replace(&mut tree.next[at as usize], turned);
            (turned, at) = (at, next);
        }
        tree.first[parent] = turned;
    }
    Ok(tree)
}

struct Walk<'a> {
    bytes: &'a dyn ReadAt,
    index: &'a Index,
    tree: &'a Tree,
    window: Window<'a>,
    events: Events<'a>,
    /// Open entries and their functions; `None`: damaged.
    open: Vec<(u32, Option<FunctionId>)>,
    /// End of the last entry that was read.
    last: u64,
    done: u64,
}

impl Walk<'_> {
    fn walk(&mut self, progress: &(dyn Fn(u64) + Sync)) -> io::Result<()> {
        let tree = self.tree;
        let mut at = tree.first.first().copied().unwrap_or(NONE);
        let mut walked = 0u64;
        loop {
            while at != NONE {
                self.enter(at as usize)?;
                at = tree.first[at as usize];
                walked += 1;
                if walked % (1 << 14) == 0 {
                    // Bytes are read in any order, so the share of entries replaces them.
                    let share = u128::from(self.index.layout.size) * u128::from(walked);
                    let share = (share / tree.first.len().max(1) as u128) as u64;
                    progress(share - self.done);
                    self.done = share;
                }
            }
            let Some((last, function)) = self.open.pop() else {
                return Ok(());
            };
            if let Some(function) = function {
                self.events.call(function, Edge::Exit, false);
            }
            at = tree.next[last as usize];
        }
    }

    fn enter(&mut self, own: usize) -> io::Result<()> {
        let mut function = None;
        let place = self.tree.places[own];
        if place > 0 {
            let mut later = self.tree.places[own + 1..].iter().copied();
            let size = self.index.layout.size;
            let end = later.find(|&place| place > 0).unwrap_or(size);
            let most = usize::try_from(end - place).unwrap_or(MAX_ENTRY);
            let most = most.min(MAX_ENTRY);
            let mut long = Vec::new();
            let view = if most <= WINDOW {
                // In the order of the file, more entries probably follow. Elsewhere only this entry is
                // read.
                let ahead = if place == self.last { size } else { end };
                self.window.at(place, most, ahead)?
            } else {
                long.resize(most, 0);
                let count = self.bytes.read_at(place, &mut long)?;
                long.get(..count).unwrap_or(&[])
            };
            self.last = end;
            if let Ok(decoded) = decode_entry(view, self.index.layout.kind.version) {
                let id = self.index.names.function(&decoded);
                self.events.enter(id, &decoded.entry);
                function = Some(id);
            }
        }
        self.open.push((own as u32, function));
        Ok(())
    }
}

/// The only thread's events.
struct Events<'a> {
    batches: ThreadBatches<'a>,
    step: u64,
}

impl Events<'_> {
    fn call(&mut self, function: FunctionId, edge: Edge, has_arguments: bool) {
        let call = Call {
            time: Ticks(self.step),
            function,
            edge,
            synthetic: false,
            has_arguments,
        };
        self.step += 1;
        self.batches.call(0, call);
    }

    fn enter(&mut self, function: FunctionId, entry: &Entry<'_>) {
        let time = Ticks(self.step);
        let numbers = || {
            entry
                .attributes
                .iter()
                .filter_map(|(_, value)| match value {
                    Value::U64(value) => Some(*value),
                    _ => None,
                })
        };
        self.call(function, Edge::Entry, numbers().next().is_some());
        for value in numbers() {
            self.batches.mark(0, &Mark::Argument { value });
        }
        let text = names::describe(entry, |_| false);
        let (cpu, data) = (None, text.as_bytes());
        if !data.is_empty() {
            self.batches.mark(0, &Mark::Custom { time, cpu, data });
        }
    }
}
