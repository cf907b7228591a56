//! Copies one thread's records out of the ring while the thread goes on recording.
//!
//! The reader's half of the protocol at the head of `recorder::writer`. Chunks are copied from the
//! newest to the oldest; the first one that was overwritten meanwhile ends the copy, so what is
//! kept is always the unbroken run of records up to the moment the copy began. A chunk of zeros ends it too.
//!
//! Async-signal-safe in a buffer that [`Snapshot::new`] made: it never grows.

use crate::primitive::{AtomicU64, Ordering, fence};
use crate::recorder::record::{PAIR, PREAMBLE, SINGLE};
use crate::ring::chunk::{self, Place};
use crate::ring::layout::{CHUNK, Slot, state};
use crate::sys::thread::NAME_BYTES;

/// How often a count is tried beside a thread that is recording.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 1000 };

/// How often a copy is tried while the slot goes from thread to thread.
const TRIES: u32 = if cfg!(loom) { 1 } else { 4 };

/// One thread at one moment. `recorded = readable + overwritten + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) recorded: u64,
    pub(crate) readable: u64,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
}

/// Whose records they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) tid: u32,
    name: [u8; NAME_BYTES],
    pub(crate) ended: bool,
}

impl Owner {
    fn of(slot: &Slot, ended: bool) -> Owner {
        Owner {
            tid: slot.tid.load(Ordering::Relaxed),
            name: name_bytes(slot),
            ended,
        }
    }

    /// The thread's name, as the kernel keeps it.
    pub(crate) fn name(&self) -> &[u8] {
        let name = self.name.split(|&byte| byte == 0).next();
        name.unwrap_or_default()
    }

    /// The same as text. Allocates.
    pub(crate) fn name_text(&self) -> String {
        String::from_utf8_lossy(self.name()).into_owned()
    }
}

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

/// Bytes of a chunk that hold records: up to the cursor where that is in it, else up to its end.
pub(super) fn used(slot: &Slot, place: Place<'_>) -> Option<usize> {
    // Acquire: pairs with the Release in `commit`.
    let cursor = slot.cursor.load(Ordering::Acquire);
    let within = cursor.wrapping_sub(place.start);
    let used = if (PREAMBLE..=CHUNK as u64).contains(&within) {
        within
    } else {
        place.mark.end.load(Ordering::Acquire)
    };
    (PREAMBLE..=CHUNK as u64)
        .contains(&used)
        .then_some(used as usize)
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

/// Function records that the slot's owner has made so far, by walking its chunk: what the owner keeps for
/// itself about it changes at other moments than the cursor, and the owner may be stopped in between.
/// `None` where chunks change so fast that no consistent count is to be had.
pub(crate) fn committed(slot: &Slot) -> Option<u64> {
    (0..PATIENCE).find_map(|_| {
        // Acquire: pairs with the Release in `open_chunk`.
        let head = slot.chunk.load(Ordering::Acquire);
        if head == 0 {
            return Some(0);
        }
        let place = chunk::place(slot, head);
        let mark = place.mark;
        // Acquire: as above.
        if mark.number.load(Ordering::Acquire) != head {
            return None;
        }
        let first = mark.first.load(Ordering::Relaxed);
        let used = used(slot, place)?;
        let count = chunk::count_records(place, used);
        // Acquire: pairs with the Release fence in `open_chunk`.
        fence(Ordering::Acquire);
        (mark.number.load(Ordering::Relaxed) == head).then(|| first + count)
    })
}

/// Function records that the slot's owner asked for so far: `recorded` of [`count`], without its memory.
/// Async-signal-safe.
pub(crate) fn recorded(slot: &Slot) -> Option<u64> {
    let generation = slot.generation.load(Ordering::Acquire);
    let dropped = slot.dropped.load(Ordering::Relaxed);
    let recorded = committed(slot)?.saturating_add(dropped);
    fence(Ordering::Acquire);
    (slot.generation.load(Ordering::Relaxed) == generation).then_some(recorded)
}

/// Whose the slot is, and counts without a copy. `None` where nobody owns it, or its owner writes so
/// fast that no consistent count is to be had.
pub(crate) fn count(slot: &Slot) -> Option<(Owner, Counts)> {
    let generation = slot.generation.load(Ordering::Acquire);
    let state = slot.state.load(Ordering::Acquire);
    if state != state::LIVE && state != state::ENDED {
        return None;
    }
    let owner = Owner::of(slot, state == state::ENDED);
    let overwritten = (0..PATIENCE).find_map(|_| first_kept(slot))?;
    let dropped = slot.dropped.load(Ordering::Relaxed);
    let committed = committed(slot)?.max(overwritten);
    let counts = Counts {
        recorded: committed.saturating_add(dropped),
        readable: committed - overwritten,
        overwritten,
        dropped,
    };
    fence(Ordering::Acquire);
    let same = slot.generation.load(Ordering::Relaxed) == generation;
    same.then_some((owner, counts))
}

/// How many function records come before the oldest chunk that is there.
fn first_kept(slot: &Slot) -> Option<u64> {
    let head = slot.chunk.load(Ordering::Acquire);
    let chunks = slot.chunks.load(Ordering::Relaxed);
    if head <= chunks {
        return Some(0);
    }
    let number = head - chunks + 1;
    let oldest = chunk::place(slot, number).mark;
    let before = oldest.number.load(Ordering::Acquire);
    let first = oldest.first.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    (before == number && oldest.number.load(Ordering::Relaxed) == number).then_some(first)
}

/// The name that the slot keeps, without its padding.
pub(crate) fn name_of(slot: &Slot) -> String {
    Owner::of(slot, false).name_text()
}

fn name_bytes(slot: &Slot) -> [u8; NAME_BYTES] {
    let [low, high] = &slot.name;
    let word = |word: &AtomicU64| u128::from(word.load(Ordering::Relaxed));
    (word(low) | word(high) << 64).to_le_bytes()
}
