//! The writer's state of a thread, and its fast path for ordinary calls: it encodes them as they come. The
//! fast path must never take a call that the writer would encode otherwise.

use std::io::{self, Read, Seek, Write};

use super::balance::Stack;
use super::frame::Frame;
use super::payload;
use super::record::{self, Action, FUNCTION_LIMIT, FUNCTION_SIZE, Layout};
use crate::bytes::ByteOrder;
use crate::model::{Call, Edge, FunctionId, Thread, Ticks, TraceInfo};

// Versions 1 and 3 have the same records in the spool.
pub(super) const LAYOUT: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

/// One thread.
#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) thread: Thread,
    pub(super) strand: usize,
    pub(super) wall: Option<(u64, u32)>,
    /// Time and CPU of the first event: the block's second `NewCPUId`.
    pub(super) first: Option<(u64, u16)>,
    /// Records that are missing before the first event.
    pub(super) lost: u64,
    pub(super) base: u64,
    /// The latest base from which the clock went back.
    pub(super) base_before: u64,
    pub(super) earliest: u64,
    pub(super) latest: u64,
    pub(super) stack: Stack,
    pub(super) records: u64,
    pub(super) middle_entries: u64,
    pub(super) middle_exits: u64,
    /// Arguments may follow.
    pub(super) arguments: bool,
    /// Records are missing between the last one and the next.
    pub(super) gap: bool,
}

impl ThreadState {
    pub(super) fn new(thread: Thread, strand: usize) -> ThreadState {
        ThreadState {
            thread,
            strand,
            wall: None,
            first: None,
            lost: 0,
            base: 0,
            base_before: 0,
            earliest: u64::MAX,
            latest: 0,
            stack: Stack::default(),
            records: 0,
            middle_entries: 0,
            middle_exits: 0,
            arguments: false,
            gap: false,
        }
    }

    /// An event at `time`. The thread's records begin at its first event.
    pub(super) fn reach(&mut self, time: u64) {
        if self.first.is_none() {
            (self.first, self.base) = (Some((time, 0)), time);
        }
        self.earliest = self.earliest.min(time);
        self.latest = self.latest.max(time);
    }

    /// The running base is that time from here on.
    pub(super) fn rebase(&mut self, time: u64) {
        self.base_before = self.base_before.max(self.base);
        self.base = time;
    }

    /// The moment until which open calls last: `end`, the moment of the dump, or the latest entry or exit if it is
    /// later. If the clock went back, the latest one is not the last one.
    pub(super) fn until(&mut self, end: Option<Ticks>) -> u64 {
        if self.stack.open().len() == 0 {
            return self.base;
        }
        let latest = self.base_before.max(self.base);
        let end = end.map_or(latest, |end| end.0.max(latest));
        self.reach(end);
        end
    }

    /// Makes records of calls as long as they are ordinary. An ordinary call is measured and needs no
    /// record in front. Its function keeps its number (0 and `zero` do not). It comes a small step after
    /// the previous call.
    pub(super) fn plain(
        &mut self,
        calls: &[Call],
        zero: u32,
        records: &mut Vec<[u8; FUNCTION_SIZE]>,
    ) {
        if self.first.is_none() {
            return;
        }
        let (before, mut base) = (records.len(), self.base);
        for call in calls {
            let id = call.function.0;
            let delta = call.time.0.checked_sub(base);
            let Some(delta) = delta.and_then(|delta| u32::try_from(delta).ok()) else {
                break;
            };
            let keeps = id != 0 && id != zero && id < FUNCTION_LIMIT;
            if call.synthetic || !keeps || !self.stack.follow(id, call.edge == Edge::Entry) {
                break;
            }
            base = call.time.0;
            let bytes = record::encode_function(id, action(call), delta, LAYOUT.order);
            records.push(bytes);
        }
        let count = records.len() - before;
        if count > 0 {
            // The time `base` was written before, and none of these calls is earlier.
            self.base = base;
            self.latest = self.latest.max(base);
            self.records += count as u64;
            (self.gap, self.arguments) = (false, true);
        }
    }
}

/// The highest number of no named function, because functions without a name usually have low numbers.
pub(super) fn highest_free(info: &TraceInfo) -> u32 {
    let mut numbers = (1..FUNCTION_LIMIT).rev();
    let free = numbers.find(|&id| info.function(FunctionId(id)).is_none());
    free.unwrap_or(FUNCTION_LIMIT - 1)
}

/// The action of a call's record.
pub(super) fn action(call: &Call) -> Action {
    match (call.edge, call.has_arguments) {
        (Edge::Entry, false) => Action::Entry,
        (Edge::Entry, true) => Action::EntryArgs,
        (Edge::Exit, _) => Action::Exit,
        (Edge::TailExit, _) => Action::TailExit,
    }
}

/// Writes synthetic entries or exits, all at one time.
pub(super) fn write_synthetic<W: Read + Write + Seek>(
    frame: &mut Frame<W>,
    time: u64,
    ids: impl ExactSizeIterator<Item = u32>,
    entry: bool,
) -> io::Result<()> {
    if ids.len() == 0 {
        return Ok(());
    }
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    frame.custom(time, &payload::encode_synthetic(count))?;
    for id in ids {
        frame.function(id, entry)?;
    }
    Ok(())
}
