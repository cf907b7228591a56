//! All threads' items, each thread's in order, merged by time: the order of the file. Holds, for each
//! thread, its open calls and what its cursors hold.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

use super::item::{self, Item, has};
use super::shape::At;
use super::store::{Cursor, Store};

/// A thread's strands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strands {
    pub(super) thread: u64,
    pub(super) items: usize,
    /// Arguments and payloads, one after the other.
    pub(super) extra: usize,
}

struct Run {
    thread: u64,
    items: Cursor,
    extra: Cursor,
    /// Entries' places in the file of the calls that the next item may be in.
    open: Vec<u32>,
    next: Item,
    /// The thread's time so far: where its clock goes back, the order stays.
    time: u64,
}

impl Run {
    /// Reads the next item; returns its time. `None`: there is none.
    #[inline]
    fn advance(&mut self, store: &Store) -> io::Result<Option<u64>> {
        let bytes = self.items.take(store, item::SIZE)?;
        let Some(bytes) = bytes.first_chunk() else {
            return Ok(None);
        };
        self.next = Item::decode(bytes);
        if self.next.has(has::TIME) {
            self.time = self.time.max(self.next.time);
        }
        Ok(Some(self.time))
    }
}

/// Gives every item to `take`, with its own place in the file, from `first` on, and its parent's.
pub(super) fn merge(
    store: &Store,
    strands: &[Strands],
    first: u32,
    mut take: impl FnMut(u32, &Item, At, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut runs: Vec<Run> = Vec::new();
    let mut heap = BinaryHeap::new();
    for strands in strands {
        let mut run = Run {
            thread: strands.thread,
            items: Cursor::new(strands.items),
            extra: Cursor::new(strands.extra),
            open: Vec::new(),
            next: Item::default(),
            time: 0,
        };
        if let Some(time) = run.advance(store)? {
            heap.push(Reverse((time, runs.len())));
            runs.push(run);
        }
    }
    let (mut own, mut extra) = (first, Vec::new());
    while let Some(mut earliest) = heap.peek_mut() {
        let Reverse((_, place)) = *earliest;
        let run = &mut runs[place];
        let item = run.next;
        extra.clear();
        while extra.len() < item.extra as usize {
            let more = run.extra.take(store, item.extra as usize - extra.len())?;
            if more.is_empty() {
                break;
            }
            extra.extend_from_slice(more);
        }
        run.open.truncate(item.depth as usize);
        let at = At {
            parent: run.open.last().copied().unwrap_or(0),
            thread: run.thread,
        };
        take(own, &item, at, &extra)?;
        if item.holds_others() {
            run.open.push(own);
        }
        own += 1;
        match run.advance(store)? {
            Some(time) => *earliest = Reverse((time, place)),
            None => {
                PeekMut::pop(earliest);
            }
        }
    }
    Ok(())
}
