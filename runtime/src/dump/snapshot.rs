//! Copies one thread's records out of the ring while the thread goes on recording.
//!
//! The copy follows the reader's part of the protocol at the head of `recorder::writer`. It copies the chunks
//! from the newest to the oldest. It stops at the first chunk that was overwritten meanwhile, or that holds
//! zeros. So the copy must always be an unbroken run of records that ends when the copy began.
//!
//! Async-signal-safe in a buffer that [`Snapshot::new`] made, because that buffer never grows.

use crate::primitive::{Ordering, fence};
use crate::ring::chunk;
use crate::ring::counts::{Counts, Owner, used};
use crate::ring::layout::{CHUNK, Slot, state};
use crate::ring::record::{PAIR, PREAMBLE, SINGLE};

/// How often a copy is tried while the slot changes its owner.
const TRIES: u32 = if cfg!(loom) { 1 } else { 4 };

/// A buffer for copies. It is used again for each thread.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// Copied chunks, newest first, CHUNK bytes each. Behind them are the bytes of earlier copies.
    bytes: Vec<u8>,
    /// Used bytes of each copied chunk.
    used: Vec<usize>,
    pub(crate) counts: Counts,
    pub(crate) owner: Owner,
    /// Whether a chunk had zeros in the place of records. Somebody cut the file short, and it was made longer
    /// again.
    pub(crate) has_zeros: bool,
}

/// Why a chunk is not in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotCopied {
    /// The chunk was overwritten meanwhile.
    Overwritten,
    /// Zeros are in the place of the chunk's records. `behind` function records come before the next chunk, if
    /// the zeros were function records only.
    Zeros { behind: u64 },
}

impl Snapshot {
    /// A buffer for a region of `region_size` bytes. `None` if there is no memory. The allocation may fail
    /// without ending the program.
    pub(crate) fn new(region_size: usize) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.bytes.try_reserve_exact(region_size).ok()?;
        let chunks = region_size / CHUNK;
        snapshot.used.try_reserve_exact(chunks).ok()?;
        Some(snapshot)
    }

    /// Copies the slot's records. False if the slot has no owner or changes its owner too often.
    pub(crate) fn take(&mut self, slot: &Slot) -> bool {
        self.take_while(slot, &|| true)
    }

    /// Copies the slot's records. Once `on` returns false, older chunks are left out and count as overwritten.
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

    /// Returns how many function records the thread has made, and how many of them come before the oldest
    /// copied chunk. `None` if even the newest chunk was overwritten while it was copied.
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
                // Records before the zeros count as overwritten, because the run of records is broken.
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

    /// Copies one chunk behind the chunks copied before. Returns how many function records come before the
    /// chunk, and its bytes.
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

/// Whether a chunk's preamble or its last record is zeros. No record is zeros.
fn begins_or_ends_with_zeros(chunk: &[u8]) -> bool {
    let is_zeros = |bytes: Option<&[u8; PAIR as usize]>| {
        bytes.is_some_and(|bytes| *bytes == [0; PAIR as usize])
    };
    is_zeros(chunk.first_chunk()) || is_zeros(chunk.last_chunk())
}

/// Function records in a copied chunk, counted by walking it.
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
