//! Makes the calls of a block nest: each exit gets an entry, each entry an exit, because llvm-xray's
//! `account`, `stack` and `graph` refuse anything else. Decides only; the writers write. A record
//! that was measured is never changed or left out.
//!
//! The rule, for an exit of `f`:
//! - `f` is the innermost open call: they match.
//! - `f` is open further out (an exit was lost, or `longjmp` left several frames): the calls inside
//!   it get synthetic exits in front of this one, at the time of the record before.
//! - nothing is open: `f` was entered before the block. It gets a synthetic entry at the block's
//!   start, outside of those that were given before.
//! - other calls are open, not `f` (its entry was lost, or a second stack runs on this thread), or
//!   records are missing before this exit: it gets a synthetic entry in front of this exit, at the
//!   time of the record before (right behind a gap: of the exit). The open calls are left as they
//!   are, so that the damage stays in one place.
//!
//! What is open at the end gets synthetic exits, innermost first, at the time of the last record.

use super::jump::Jump;
use super::record::{FUNCTION_SIZE, METADATA_SIZE};
use crate::reach::Reach;

/// What must be put in front of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Nothing.
    Matched,
    /// Exits of so many calls: they were added to the list that the caller gave.
    Unwound(usize),
    /// Nothing here; an entry at the block's start.
    Before,
    /// An entry of the same function.
    Lone,
}

/// A list of functions: one that grows, or one with a fixed room.
pub(super) trait List {
    fn ids(&self) -> &[u32];
    fn push(&mut self, id: u32);
    fn truncate(&mut self, length: usize);
}

impl List for Vec<u32> {
    fn ids(&self) -> &[u32] {
        self
    }

    fn push(&mut self, id: u32) {
        Vec::push(self, id);
    }

    fn truncate(&mut self, length: usize) {
        Vec::truncate(self, length);
    }
}

/// The open calls of one thread.
#[derive(Debug, Default)]
pub(super) struct Stack<L = Vec<u32>> {
    open: L,
    before: L,
    /// Records are missing in the middle.
    gap: bool,
    reach: Reach,
}

impl<L: List> Stack<L> {
    pub(super) fn enter(&mut self, id: u32) {
        self.open.push(id);
        self.reach.enter();
    }

    /// Records are missing here: a call that was entered among them did not begin before the block.
    pub(super) fn gap(&mut self) {
        self.gap = true;
    }

    /// An exit of `id`. Calls that it leaves open inside go to the end of `closed`.
    #[inline]
    pub(super) fn exit(&mut self, id: u32, closed: &mut L) -> Exit {
        match self.open.ids().split_last() {
            Some((&top, below)) if top == id => {
                let depth = below.len();
                self.open.truncate(depth);
                Exit::Matched
            }
            Some(_) => self.mismatch(id, closed),
            None if self.gap => Exit::Lone,
            None => {
                self.before.push(id);
                Exit::Before
            }
        }
    }

    /// The same of an entry, or of an exit in front of which nothing must be put; else nothing is done.
    #[inline]
    pub(super) fn follow(&mut self, id: u32, entry: bool) -> bool {
        if entry {
            self.enter(id);
            return true;
        }
        match self.open.ids().split_last() {
            Some((&top, below)) if top == id => {
                let depth = below.len();
                self.open.truncate(depth);
                true
            }
            None if !self.gap => {
                self.before.push(id);
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn mismatch(&mut self, id: u32, closed: &mut L) -> Exit {
        let found = self.reach.find(self.open.ids(), |&open| open == id);
        let Some(count) = found else {
            return Exit::Lone;
        };
        self.open
            .ids()
            .iter()
            .rev()
            .take(count)
            .for_each(|&inner| closed.push(inner));
        let depth = self.open.ids().len() - count;
        self.open.truncate(depth - 1);
        Exit::Unwound(count)
    }

    /// What was open before the block, outermost first.
    pub(super) fn before(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.before.ids().iter().rev().copied()
    }

    /// What is still open, innermost first.
    pub(super) fn open(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.open.ids().iter().rev().copied()
    }
}

/// Synthetic records that go into the middle of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repair {
    /// Which chunk.
    pub(super) chunk: usize,
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entry or exit.
    pub(super) entry: bool,
    /// Where its functions begin in [`Scan::repaired`].
    pub(super) first: usize,
    /// How many records.
    pub(super) count: usize,
    /// Instead of records: by how many ticks the clock jumps ahead here.
    pub(super) jump: u64,
}

/// What one look at a thread's ring chunks gives.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) walk: Walk,
    pub(super) repairs: Vec<Repair>,
    pub(super) repaired: Vec<u32>,
    /// Per chunk: where its valid bytes end; 0 for a chunk without a valid head.
    pub(super) ends: Vec<usize>,
    /// Bytes that are no record of a ring chunk.
    pub(super) discarded: u64,
}

impl Scan {
    /// `gaps`: how many records are missing before each chunk but the first.
    pub(super) fn new(chunks: &[&[u8]], gaps: &[u64]) -> Scan {
        let mut scan = Scan::default();
        for (at, chunk) in chunks.iter().enumerate() {
            if at > 0 && gaps.get(at).is_some_and(|&lost| lost > 0) {
                scan.walk.stack.gap();
            }
            let end = scan.walk.chunk(chunk, &mut |place, ids| {
                scan.repairs.push(Repair {
                    chunk: at,
                    offset: place.offset,
                    time: place.time,
                    entry: place.entry,
                    first: scan.repaired.len(),
                    count: ids.len(),
                    jump: 0,
                });
                scan.repaired.extend_from_slice(ids);
                true
            });
            let end = end.unwrap_or(0);
            scan.ends.push(end);
            scan.discarded += (chunk.len() - end) as u64;
        }
        scan
    }

    /// Adds the places where the clock jumped.
    pub(super) fn jumps(&mut self, jumps: &[Jump]) {
        self.repairs.extend(jumps.iter().map(|jump| Repair {
            chunk: jump.chunk,
            offset: jump.offset,
            time: jump.time,
            entry: false,
            first: 0,
            count: 0,
            jump: jump.ticks,
        }));
        if !jumps.is_empty() {
            self.repairs
                .sort_by_key(|repair| (repair.chunk, repair.offset));
        }
    }
}

/// Where records are missing in a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entries are missing, or exits.
    pub(super) entry: bool,
}

/// A walk through a thread's chunks, one after the other. A chunk is a little-endian block as the
/// recorder leaves it: `NewBuffer`, `WallTime`, `NewCPUId`, then function records, `NewCPUId` and
/// `TSCWrap`.
#[derive(Debug, Default)]
pub(super) struct Walk<L = Vec<u32>> {
    pub(super) stack: Stack<L>,
    /// What an exit leaves open inside; empty but for a moment.
    pub(super) closed: L,
    /// Function records.
    pub(super) records: u64,
    /// Time of the last record.
    pub(super) last: u64,
    /// The latest time of a record: the last one, where the clock did not go back.
    pub(super) latest: u64,
}

/// First bytes of little-endian metadata records.
pub(super) const NEW_BUFFER: u8 = 0x01;
pub(super) const WALL_TIME: u8 = 0x09;
pub(super) const NEW_CPU: u8 = 0x05;
pub(super) const TSC_WRAP: u8 = 0x07;

/// Bytes of `NewBuffer` and `WallTime`: what is in front of a chunk's `NewCPUId`.
pub(super) const PREAMBLE: usize = 2 * METADATA_SIZE;
/// Bytes up to a chunk's first record.
pub(super) const CHUNK_HEAD: usize = 3 * METADATA_SIZE;

impl<L: List> Walk<L> {
    pub(super) fn new(open: L, before: L, closed: L) -> Walk<L> {
        let stack = Stack {
            open,
            before,
            gap: false,
            reach: Reach::default(),
        };
        Walk {
            stack,
            closed,
            records: 0,
            last: 0,
            latest: 0,
        }
    }

    /// Begins anew, at the first chunk.
    pub(super) fn restart(&mut self) {
        self.stack.reach = Reach::default();
        self.stack.open.truncate(0);
        self.stack.before.truncate(0);
        self.last = 0;
    }

    /// Goes through one chunk; returns where its valid bytes end, which is 0 for one without a valid
    /// head. `repair` is told what is missing, in order; where it says false, `None` is returned at once.
    pub(super) fn chunk(
        &mut self,
        chunk: &[u8],
        repair: &mut impl FnMut(Place, &[u32]) -> bool,
    ) -> Option<usize> {
        if !has_head(chunk) {
            return Some(0);
        }
        let words = chunk.as_chunks::<FUNCTION_SIZE>().0;
        let (mut place, mut time) = (PREAMBLE / FUNCTION_SIZE, self.last);
        while let Some(bytes) = words.get(place) {
            let word = u64::from_le_bytes(*bytes);
            if word & 1 == 0 {
                let (id, action) = (word as u32 >> 4, (word >> 1) & 7);
                // Id 0 is no function: this place was never written.
                if id == 0 || action > 2 {
                    break;
                }
                if action == 0 {
                    let next = words.get(place + 1).map(|next| u64::from_le_bytes(*next));
                    // A call that makes no other: the stack is the same after it.
                    if let Some(next) = next.filter(|&next| is_exit_of(next, word)) {
                        self.stack.reach.enter();
                        time = time.wrapping_add(word >> 32).wrapping_add(next >> 32);
                        self.records += 2;
                        place += 2;
                        continue;
                    }
                    self.stack.enter(id);
                } else {
                    let exit = self.stack.exit(id, &mut self.closed);
                    if matches!(exit, Exit::Unwound(_) | Exit::Lone)
                        && !self.missing(exit, id, (place * FUNCTION_SIZE, time), repair)
                    {
                        return None;
                    }
                }
                time = time.wrapping_add(word >> 32);
                self.records += 1;
                place += 1;
            } else {
                let Some(next) = words.get(place + 1) else {
                    break;
                };
                self.latest = self.latest.max(time);
                let both = u128::from(u64::from_le_bytes(*next)) << 64 | u128::from(word);
                time = match bytes[0] {
                    NEW_CPU => (both >> 24) as u64,
                    TSC_WRAP => (both >> 8) as u64,
                    _ => break,
                };
                place += 2;
            }
        }
        self.last = time;
        self.latest = self.latest.max(time);
        Some(place * FUNCTION_SIZE)
    }

    #[cold]
    fn missing(
        &mut self,
        exit: Exit,
        id: u32,
        (offset, time): (usize, u64),
        repair: &mut impl FnMut(Place, &[u32]) -> bool,
    ) -> bool {
        let entry = exit == Exit::Lone;
        if entry {
            self.closed.push(id);
        }
        let place = Place {
            offset,
            time,
            entry,
        };
        let went_on = repair(place, self.closed.ids());
        self.closed.truncate(0);
        went_on
    }
}

/// Whether a word is an exit, ordinary or tail, from the function that the other one enters.
#[inline]
fn is_exit_of(word: u64, entry: u64) -> bool {
    matches!(word as u32 ^ entry as u32, 0b010 | 0b100)
}

/// Whether a chunk begins as one does.
pub(super) fn has_head(chunk: &[u8]) -> bool {
    let head = chunk.first_chunk::<CHUNK_HEAD>();
    head.is_some_and(|head| {
        head[0] == NEW_BUFFER && head[METADATA_SIZE] == WALL_TIME && head[PREAMBLE] == NEW_CPU
    })
}
