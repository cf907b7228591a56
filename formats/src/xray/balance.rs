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

use super::record::{FUNCTION_SIZE, METADATA_SIZE};

/// How far down `f` is looked for; what is deeper counts as not open.
const SEARCH_DEPTH: usize = 4096;

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

/// The open calls of one thread.
#[derive(Debug, Default)]
pub(super) struct Stack {
    open: Vec<u32>,
    before: Vec<u32>,
    /// Records are missing in the middle.
    gap: bool,
}

impl Stack {
    pub(super) fn enter(&mut self, id: u32) {
        self.open.push(id);
    }

    /// Records are missing here: a call that was entered among them did not begin before the block.
    pub(super) fn gap(&mut self) {
        self.gap = true;
    }

    /// An exit of `id`. Calls that it leaves open inside go to the end of `closed`.
    #[inline]
    pub(super) fn exit(&mut self, id: u32, closed: &mut Vec<u32>) -> Exit {
        match self.open.last() {
            Some(&top) if top == id => {
                self.open.pop();
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

    #[cold]
    fn mismatch(&mut self, id: u32, closed: &mut Vec<u32>) -> Exit {
        let near = self.open.iter().rev().take(SEARCH_DEPTH);
        let Some(count) = near.into_iter().position(|&open| open == id) else {
            return Exit::Lone;
        };
        closed.extend(self.open.drain(self.open.len() - count..).rev());
        self.open.pop();
        Exit::Unwound(count)
    }

    /// What was open before the block, outermost first.
    pub(super) fn before(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.before.iter().rev().copied()
    }

    /// What is still open, innermost first.
    pub(super) fn open(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.open.iter().rev().copied()
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
}

/// What one look at a thread's ring chunks gives. A chunk is a little-endian block as the recorder
/// leaves it: `NewBuffer`, `WallTime`, `NewCPUId`, then function records, `NewCPUId` and `TSCWrap`.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) stack: Stack,
    pub(super) repairs: Vec<Repair>,
    pub(super) repaired: Vec<u32>,
    /// Per chunk: where its valid bytes end; 0 for a chunk without a valid head.
    pub(super) ends: Vec<usize>,
    /// Function records.
    pub(super) records: u64,
    /// Time of the last record.
    pub(super) last: u64,
    /// Bytes that are no record of a ring chunk.
    pub(super) discarded: u64,
}

/// First bytes of little-endian metadata records.
pub(super) const NEW_BUFFER: u8 = 0x01;
pub(super) const WALL_TIME: u8 = 0x09;
pub(super) const NEW_CPU: u8 = 0x05;
const TSC_WRAP: u8 = 0x07;

/// Bytes of `NewBuffer` and `WallTime`: what is in front of a chunk's `NewCPUId`.
pub(super) const PREAMBLE: usize = 2 * METADATA_SIZE;
/// Bytes up to a chunk's first record.
pub(super) const CHUNK_HEAD: usize = 3 * METADATA_SIZE;

impl Scan {
    pub(super) fn new(chunks: &[&[u8]]) -> Scan {
        let mut scan = Scan::default();
        for (at, chunk) in chunks.iter().enumerate() {
            let end = match chunk.first_chunk::<CHUNK_HEAD>() {
                Some(head) if is_chunk_head(head) => scan.chunk(at, chunk),
                _ => 0,
            };
            scan.ends.push(end);
            scan.discarded += (chunk.len() - end) as u64;
        }
        scan
    }

    /// Goes through one chunk; returns where its valid bytes end.
    fn chunk(&mut self, at: usize, chunk: &[u8]) -> usize {
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
                    self.stack.enter(id);
                } else {
                    let first = self.repaired.len();
                    let exit = self.stack.exit(id, &mut self.repaired);
                    if matches!(exit, Exit::Unwound(_) | Exit::Lone) {
                        self.repair(exit, id, first, (at, place * FUNCTION_SIZE, time));
                    }
                }
                time = time.wrapping_add(word >> 32);
                self.records += 1;
                place += 1;
            } else {
                let Some(next) = words.get(place + 1) else {
                    break;
                };
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
        place * FUNCTION_SIZE
    }

    #[cold]
    fn repair(&mut self, exit: Exit, id: u32, first: usize, place: (usize, usize, u64)) {
        let (chunk, offset, time) = place;
        let entry = exit == Exit::Lone;
        if entry {
            self.repaired.push(id);
        }
        let count = self.repaired.len() - first;
        self.repairs.push(Repair {
            chunk,
            offset,
            time,
            entry,
            first,
            count,
        });
    }
}

fn is_chunk_head(head: &[u8; CHUNK_HEAD]) -> bool {
    head[0] == NEW_BUFFER && head[METADATA_SIZE] == WALL_TIME && head[PREAMBLE] == NEW_CPU
}
