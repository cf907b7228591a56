//! Copies one thread's records out of the ring while the thread goes on recording.
//!
//! The reader's half of the protocol at the head of `recorder::writer`. Chunks are copied from the
//! newest to the oldest; the first one that was overwritten meanwhile ends the copy, so what is
//! kept is always the unbroken run of records up to the moment the copy began. A chunk of zeros ends it too.
//!
//! Async-signal-safe in a buffer that [`Snapshot::new`] made: it never grows.

use crate::primitive::{Ordering, fence};
use crate::ring::chunk;
use crate::ring::counts::{Counts, Owner, used};
use crate::ring::layout::{CHUNK, Slot, state};
use crate::ring::record::{PAIR, PREAMBLE, SINGLE};

/// How often a copy is tried while the slot goes from thread to thread.
const TRIES: u32 = if cfg!(loom) { 1 } else { 4 };

/// A buffer for copies, used again for each thread.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// Copied chunks, newest first, each CHUNK bytes long; behind them what earlier copies left.
    bytes: Vec<u8>,
    /// Used bytes of each of them.
    used: Vec<usize>,
    pub(crate) counts: Counts,
    pub(crate) owner: Owner,
    /// A chunk had zeros in the place of records: somebody cut the file short, and it was made longer again.
    pub(crate) has_zeros: bool,
}

/// Why a chunk is not in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotCopied {
    /// It was overwritten meanwhile.
    Overwritten,
    /// Zeros are in the place of its records; so many come before the next chunk, where none of its were metadata.
    Zeros { behind: u64 },
}

impl Snapshot {
    /// A buffer with room for a region of so many bytes. `None` where there is no memory for it: it is
    /// asked for, so that a program short of memory lives on.
    pub(crate) fn new(region_size: usize) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.bytes.try_reserve_exact(region_size).ok()?;
        let chunks = region_size / CHUNK;
        snapshot.used.try_reserve_exact(chunks).ok()?;
        Some(snapshot)
    }

    /// Copies the slot's records. False where nobody owns it, or owners change too fast.
    pub(crate) fn take(&mut self, slot: &Slot) -> bool {
        self.take_while(slot, &|| true)
    }

    /// The same; older chunks are left out, and counted as overwritten, once `on` says false.
    pub(crate) fn take_while(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> bool {
        (0..TRIES).any(|_| self.try_take(slot, on))
    }

    fn try_take(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> bool {
        self.used.clear();
        self.counts = Counts::default();
        self.has_zeros = false;
        let generation = slot.generation.load(Ordering::Acquire);
        let state = slot.state.load(Ordering::Acquire);
        if state != state::LIVE && state != state::ENDED {
            return false;
        }
        self.owner = Owner::of(slot, state == state::ENDED);
        let dropped = slot.dropped.load(Ordering::Relaxed);
        let Some((committed, oldest)) = self.copy_chunks(slot, on) else {
            return false;
        };
        self.counts = Counts {
            recorded: committed.saturating_add(dropped),
            readable: committed.saturating_sub(oldest),
            overwritten: oldest,
            dropped,
        };
        fence(Ordering::Acquire);
        slot.generation.load(Ordering::Relaxed) == generation
    }

    /// The copied chunks, oldest first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let chunks = self.bytes.chunks_exact(CHUNK).zip(&self.used);
        chunks
            .rev()
            .map(|(chunk, &used)| chunk.get(..used).unwrap_or(chunk))
    }

    /// Returns how many function records the thread had made, and how many of those come before the
    /// oldest chunk that was copied. `None` where even the newest was overwritten while it was copied.
    fn copy_chunks(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> Option<(u64, u64)> {
        // Acquire: pairs with the Release in `open_chunk`.
        let head = slot.chunk.load(Ordering::Acquire);
        let chunks = slot.chunks.load(Ordering::Relaxed);
        let (mut committed, mut oldest) = (0, 0);
        for number in (head.saturating_sub(chunks)..head)
            .rev()
            .map(|before| before + 1)
        {
            if !self.used.is_empty() && !on() {
                break;
            }
            let (first, used) = match self.copy_chunk(slot, number) {
                Ok(copied) => copied,
                Err(NotCopied::Overwritten) => break,
                // Without an unbroken run behind them, older records are as good as overwritten.
                Err(NotCopied::Zeros { behind }) => {
                    self.has_zeros = true;
                    if self.used.is_empty() {
                        return Some((behind, behind));
                    }
                    break;
                }
            };
            if self.used.is_empty() {
                committed = first + count_records(self.bytes.get(..used).unwrap_or(&[]));
            }
            oldest = first;
            self.used.push(used);
        }
        (head == 0 || !self.used.is_empty()).then_some((committed, oldest))
    }

    /// Copies one chunk behind the others: the place of its first record, and how many bytes it has.
    fn copy_chunk(&mut self, slot: &Slot, number: u64) -> Result<(u64, usize), NotCopied> {
        let place = chunk::place(slot, number);
        let mark = place.mark;
        // Acquire: pairs with the Release in `open_chunk`.
        if mark.number.load(Ordering::Acquire) != number {
            return Err(NotCopied::Overwritten);
        }
        let first = mark.first.load(Ordering::Relaxed);
        let used = used(slot, place).ok_or(NotCopied::Overwritten)?;
        let at = self.used.len() * CHUNK;
        if self.bytes.len() < at + CHUNK {
            self.bytes.resize(at + CHUNK, 0);
        }
        let target = self.bytes.get_mut(at..at + used);
        let target = target.ok_or(NotCopied::Overwritten)?;
        chunk::copy(place, 0, target);
        let is_zeros = begins_or_ends_with_zeros(target);
        // Acquire: pairs with the Release fence in `open_chunk`.
        fence(Ordering::Acquire);
        if mark.number.load(Ordering::Relaxed) != number {
            return Err(NotCopied::Overwritten);
        }
        if is_zeros {
            let records = (used as u64 - PREAMBLE) / SINGLE;
            return Err(NotCopied::Zeros {
                behind: first + records,
            });
        }
        Ok((first, used))
    }
}

/// Whether a chunk's preamble, or its last record, is zeros, which no record is.
fn begins_or_ends_with_zeros(chunk: &[u8]) -> bool {
    let is_zeros = |bytes: Option<&[u8; PAIR as usize]>| {
        bytes.is_some_and(|bytes| *bytes == [0; PAIR as usize])
    };
    is_zeros(chunk.first_chunk()) || is_zeros(chunk.last_chunk())
}

/// Function records in a chunk, by walking it.
fn count_records(chunk: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(&first) = chunk.get(at) {
        if first & 1 == 0 {
            count += 1;
            at += SINGLE as usize;
        } else {
            at += PAIR as usize;
        }
    }
    count
}
