//! The states of threads in a ring (`fdr_formats::ring::schedule`): how they get in, and how the process reads them.
//! Reading and writing are async-signal-safe. This file must never be used by a thread that records.

use fdr_formats::ring::schedule::{
    Anchor, ENTRY_SIZE, Entry, HEAD_SIZE, MODULES_BYTES, Words, place, places,
};

use super::Ring;
use crate::primitive::{AtomicU64, Ordering, fence};

/// Bytes of the part: 131,070 entries.
pub(crate) const BYTES: usize = 4 << 20;
/// How many entries there are.
pub(crate) const PLACES: usize = places(BYTES);

/// The log of context switches, samples and accounts.
#[repr(C, align(64))]
pub(crate) struct SwitchLog {
    /// Number of the newest entry.
    newest: AtomicU64,
    unused: [AtomicU64; 7],
    entries: [[AtomicU64; 4]; PLACES],
}

const _: () = assert!(core::mem::offset_of!(SwitchLog, entries) == HEAD_SIZE);
const _: () = assert!(size_of::<[AtomicU64; 4]>() == ENTRY_SIZE && size_of::<SwitchLog>() <= BYTES);

impl SwitchLog {
    /// Adds an entry. The oldest one gives way. No other call may run meanwhile. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn add(&self, entry: Words) {
        let number = self.newest.load(Ordering::Relaxed).wrapping_add(1);
        let Some([own, words @ ..]) = self.entries.get(place(number, PLACES)) else {
            return;
        };
        own.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `read`. A reader that sees a new word also sees that the number has
        // changed.
        fence(Ordering::Release);
        for (to, word) in words.iter().zip(entry) {
            to.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire loads in `read` and `all`. A reader that sees the numbers also sees the
        // entry's words.
        own.store(number, Ordering::Release);
        self.newest.store(number, Ordering::Release);
    }

    /// How many entries were added.
    pub(crate) fn count(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// The entries, the oldest first. Async-signal-safe.
    pub(crate) fn all(&self, anchor: Anchor) -> Entries<'_> {
        let newest = self.newest.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(PLACES as u64) + 1;
        Entries {
            log: self,
            anchor,
            next: oldest,
            newest,
        }
    }

    /// `None`: the place has another entry, or is being written.
    fn read(&self, number: u64, anchor: &Anchor) -> Option<Entry> {
        let [own, words @ ..] = self.entries.get(place(number, PLACES))?;
        if own.load(Ordering::Acquire) != number {
            return None;
        }
        let [time, what, value] = words;
        let words = [time, what, value].map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_same = own.load(Ordering::Relaxed) == number;
        is_same.then(|| Entry::decode(words, anchor))?
    }
}

/// The entries of a log, the oldest first.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    log: &'a SwitchLog,
    anchor: Anchor,
    /// The number of the next entry, and that of the last one.
    next: u64,
    newest: u64,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline(never)]
    fn next(&mut self) -> Option<Entry> {
        while self.next <= self.newest {
            let entry = self.log.read(self.next, &self.anchor);
            self.next += 1;
            if entry.is_some() {
                return entry;
            }
        }
        None
    }
}

impl Ring {
    /// Whether there is a place for the states of threads. Async-signal-safe.
    pub(crate) fn has_place_for_states(&self) -> bool {
        self.layout.schedule > 0
    }

    /// Gives space to the states of threads. `is_spare`: the disk must have the space, and nothing is reported if it has
    /// none. `None`: the ring has no place for them, or there is no space.
    pub(crate) fn give_schedule(&self, is_spare: bool) -> Option<&'static SwitchLog> {
        let at = self.layout.schedule;
        let is_given = || match is_spare {
            true => self.give_spare_space(at, BYTES),
            false => self.give_space(at, BYTES),
        };
        if at == 0 || !is_given() {
            return None;
        }
        let header = self.header();
        header.schedule_size.store(BYTES as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `schedule`.
        header.schedule.store(at as u64, Ordering::Release);
        self.schedule()
    }

    /// Stores the list of files that are loaded into the program, at most [`MODULES_BYTES`]. They are stored once,
    /// before anything reads them. Without a place or space the list is left out.
    pub(crate) fn give_modules(&self, bytes: &[u8]) {
        let at = self.layout.modules;
        if at == 0 || bytes.len() > MODULES_BYTES || !self.give_spare_space(at, MODULES_BYTES) {
            return;
        }
        // SAFETY: the part is inside the mapping and has its space. No other code writes or reads it before the stores
        // below.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
        let header = self.header();
        header
            .modules_size
            .store(bytes.len() as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `modules`.
        header.modules.store(at as u64, Ordering::Release);
    }

    /// The files that are loaded into the program, as [`give_modules`](Ring::give_modules) got them.
    /// Async-signal-safe.
    pub(crate) fn modules(&self) -> &'static [u8] {
        let header = self.header();
        if self.layout.modules == 0 || header.modules.load(Ordering::Acquire) == 0 || self.is_lost()
        {
            return &[];
        }
        let length = header.modules_size.load(Ordering::Relaxed) as usize;
        // SAFETY: the part is inside the mapping, has its space since `give_modules`, and does not change any more. A
        // ring is never freed.
        unsafe {
            core::slice::from_raw_parts(
                self.base.add(self.layout.modules),
                length.min(MODULES_BYTES),
            )
        }
    }

    /// The start of the recording by both clocks. Async-signal-safe.
    pub(crate) fn anchor(&self) -> Anchor {
        let header = self.header();
        Anchor {
            ticks: header.start_ticks.load(Ordering::Relaxed),
            ns: header.start_monotonic.load(Ordering::Relaxed),
            frequency: header.frequency.load(Ordering::Relaxed),
        }
    }

    /// The states of threads, if the ring has them. Async-signal-safe.
    pub(crate) fn schedule(&self) -> Option<&'static SwitchLog> {
        let has = self.layout.schedule > 0 && self.header().schedule.load(Ordering::Acquire) > 0;
        // SAFETY: the part is inside the mapping and has its space since `give_schedule`. It is aligned, is never
        // unmapped, and consists of atomics. Zeros are valid.
        has.then(|| unsafe { &*self.base.add(self.layout.schedule).cast::<SwitchLog>() })
    }
}

#[cfg(test)]
mod tests {
    use fdr_formats::Ticks;
    use fdr_formats::ring::schedule::watermark;

    use super::*;

    const ANCHOR: Anchor = Anchor {
        ticks: 0,
        ns: 0,
        frequency: 1_000_000_000,
    };

    #[test]
    fn the_newest_entries_are_kept() {
        let layout = std::alloc::Layout::new::<SwitchLog>();
        // SAFETY: the log has bytes and consists of atomics, and zeros are valid. The box has the allocator's layout.
        let log = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<SwitchLog>()) };
        assert_eq!(log.all(ANCHOR).count(), 0);
        for number in 1..=PLACES as u64 + 10 {
            log.add(watermark(number));
        }
        let all: Vec<Entry> = log.all(ANCHOR).collect();
        assert_eq!(all.len(), PLACES);
        assert_eq!(all[0], Entry::Watermark(Ticks(11)));
        log.entries[5][0].store(0, Ordering::Relaxed);
        assert_eq!(log.all(ANCHOR).count(), PLACES - 1);
    }
}
