//! Slots and their owners: which thread gets which, when it is given back, and what is known of those
//! whose slot another one has. Async-signal-safe but for `prepare_spares`' wait for the disk. It must
//! never give a slot to two threads.

use super::layout::{Slot, state};
use super::space::SPARES;
use super::{Ring, chunk, set_name};
use crate::clock;
use crate::primitive::{Ordering, fence};
use crate::recorder::writer;
use crate::sys;

/// How long after a reaping that was of no use the next one may be, ns.
const REAPING_NS: u64 = 50_000_000;

/// How often a sum over all slots is tried while threads come and go.
const UNDIVIDED_TRIES: u32 = 100;

impl Ring {
    /// A slot for the calling thread: a prepared one, a new one, or that of the thread that ended
    /// longest ago. Async-signal-safe.
    pub(crate) fn claim(&self) -> Option<&'static Slot> {
        let slot = self
            .take(state::FREE)
            .or_else(|| self.make(state::TAKEN))
            .or_else(|| self.take_oldest_ended());
        if let Some(slot) = slot {
            self.begin(slot);
        }
        // The next new threads shall find prepared ones again, or one that nobody gave back. To wake the
        // dumper takes longer than all the rest: not for each of them.
        if self.has_fewer_spares(SPARES / 2) || !self.has_room() {
            sys::thread::tell_news();
        }
        slot
    }

    /// Takes some slot out of `from`, by one compare-and-swap per try.
    fn take(&self, from: u32) -> Option<&'static Slot> {
        self.slots().find(|slot| self.try_take(slot, from))
    }

    fn try_take(&self, slot: &Slot, from: u32) -> bool {
        // Acquire: pairs with the Release that put it into `from`. Nothing is published here.
        let swap =
            slot.state
                .compare_exchange(from, state::TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if swap.is_ok() {
            self.available.fetch_sub(1, Ordering::Relaxed);
            if from == state::FREE {
                self.spares.fetch_sub(1, Ordering::Relaxed);
            }
        }
        swap.is_ok()
    }

    fn take_oldest_ended(&self) -> Option<&'static Slot> {
        if self.full {
            return None;
        }
        loop {
            let ended = |slot: &&Slot| slot.state.load(Ordering::Acquire) == state::ENDED;
            let age = |slot: &&Slot| slot.ended.load(Ordering::Relaxed);
            let oldest = self.slots().filter(ended).min_by_key(age)?;
            // A handler that left by a jump would leave the slot nobody's, and every sum divided.
            if sys::signal::undisturbed(|| self.retire(oldest)) {
                return Some(oldest);
            }
        }
    }

    /// Takes the slot of a thread that ended; false where another thread has it by now.
    fn retire(&self, slot: &Slot) -> bool {
        // AcqRel, both: pair with `undivided`, for which the records are in one place or the other.
        self.retiring.fetch_add(1, Ordering::AcqRel);
        let taken = self.try_take(slot, state::ENDED);
        if taken {
            let records = crate::dump::snapshot::committed(slot).unwrap_or(0);
            let dropped = slot.dropped.load(Ordering::Relaxed);
            let header = self.header();
            header
                .retired_records
                .fetch_add(records + dropped, Ordering::Relaxed);
            header.retired_threads.fetch_add(1, Ordering::Relaxed);
        }
        self.retired.fetch_add(1, Ordering::AcqRel);
        taken
    }

    /// What `sum` gives at a moment when no ended thread's slot was about to become another's: such a
    /// thread's records are neither in the slot nor among the retired ones for some microseconds. Where
    /// there is no such moment, what it gives at last. Async-signal-safe.
    pub(crate) fn undivided<T>(&self, mut sum: impl FnMut() -> T) -> T {
        for _ in 0..UNDIVIDED_TRIES {
            let before = self.retired.load(Ordering::Acquire);
            if self.retiring.load(Ordering::Acquire) == before {
                let result = sum();
                fence(Ordering::Acquire);
                if self.retiring.load(Ordering::Relaxed) == before {
                    return result;
                }
            }
            sys::thread::give_way();
        }
        sum()
    }

    /// Gives a slot that was taken to the calling thread.
    fn begin(&self, slot: &Slot) {
        // Release: pairs with the Acquire of readers: who sees it does not take the slot for the former
        // owner's, which `try_take` ended.
        slot.generation.fetch_add(1, Ordering::Release);
        // Release: pairs with the Acquire fence of `dump::snapshot`: a reader that sees anything of
        // what follows sees the new generation.
        fence(Ordering::Release);
        // There may be space again that the former owner did not find.
        let chunks = self.layout.chunks() as u64;
        slot.chunks.store(chunks, Ordering::Relaxed);
        for number in 1..=chunks {
            let mark = chunk::place(slot, number).mark;
            mark.number.store(0, Ordering::Relaxed);
        }
        let base = slot.base.load(Ordering::Relaxed);
        for field in [&slot.last_low, &slot.last_high, &slot.high] {
            field.store(0, Ordering::Relaxed);
        }
        for field in [
            &slot.chunk,
            &slot.metadata,
            &slot.dropped,
            &slot.clock_steps,
        ] {
            field.store(0, Ordering::Relaxed);
        }
        slot.cursor.store(base, Ordering::Relaxed);
        slot.cpu.store(writer::NO_CPU, Ordering::Relaxed);
        slot.full.store(u32::from(self.full), Ordering::Relaxed);
        slot.tid.store(sys::thread::tid(), Ordering::Relaxed);
        set_name(slot, sys::thread::name());
        // Release: pairs with the Acquire of `slots`; a reader that sees LIVE sees the rest.
        slot.state.store(state::LIVE, Ordering::Release);
    }

    /// The calling thread ends; its records are kept until the space is needed. Async-signal-safe.
    pub(crate) fn end(&self, slot: &Slot) {
        slot.ended.store(clock::realtime_ns(), Ordering::Relaxed);
        // Release: pairs with the Acquire of whoever takes it next.
        slot.state.store(state::ENDED, Ordering::Release);
        if !self.full {
            self.available.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes back a slot that was just given and not used, if it is one of this ring's. Async-signal-safe.
    pub(crate) fn give_back(&self, slot: &Slot) {
        if self.has(slot) {
            self.spares.fetch_add(1, Ordering::Relaxed);
            // Release: pairs with the Acquire of whoever takes it next.
            slot.state.store(state::FREE, Ordering::Release);
            self.available.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a thread that asks for a slot may get one. Async-signal-safe.
    pub(crate) fn has_room(&self) -> bool {
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        made < self.layout.capacity || self.available.load(Ordering::Relaxed) > 0
    }

    /// Counts records of threads that have no slot. Async-signal-safe.
    pub(crate) fn count_homeless(&self, records: u64) {
        self.header()
            .homeless_records
            .fetch_add(records, Ordering::Relaxed);
    }

    /// Takes back slots whose threads are gone without having given them back: their first records were
    /// made in the last of their destructors, or there is no key for thread ends. Only where there is no
    /// other room, and not again at once where that was of no use. Async-signal-safe; may change errno.
    pub(crate) fn reap(&self) {
        let now = clock::monotonic_raw_ns();
        let next = self.next_reaping.load(Ordering::Relaxed);
        if now >= next && !self.has_room() {
            // A handler that left by a jump would leave it the one reaping for good.
            sys::signal::undisturbed(|| self.reap_since(now, next));
        }
    }

    fn reap_since(&self, now: u64, next: u64) {
        // One at a time: a slot must not be taken for that of its former owner. Acquire: pairs with the
        // Release below.
        let mine = self.next_reaping.compare_exchange(
            next,
            u64::MAX,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if mine.is_err() {
            return;
        }
        for slot in self.slots() {
            let generation = slot.generation.load(Ordering::Acquire);
            let live = slot.state.load(Ordering::Acquire) == state::LIVE;
            let gone = live && !sys::thread::exists(slot.tid.load(Ordering::Relaxed));
            // A thread that is gone can't end its slot any more: what has not changed by now never will.
            let same = slot.generation.load(Ordering::Acquire) == generation
                && slot.state.load(Ordering::Acquire) == state::LIVE;
            if gone && same {
                self.end(slot);
            }
        }
        let next = if self.has_room() { 0 } else { now + REAPING_NS };
        self.next_reaping.store(next, Ordering::Release);
    }

    /// Makes up to so many slots ready beforehand, so that the next new threads find them. False where one
    /// can't be made.
    pub(crate) fn prepare_spares(&self, most: usize) -> bool {
        for _ in 0..most {
            if !self.wants_spares() {
                break;
            }
            self.available.fetch_add(1, Ordering::Relaxed);
            self.spares.fetch_add(1, Ordering::Relaxed);
            if self.make(state::FREE).is_none() {
                self.available.fetch_sub(1, Ordering::Relaxed);
                self.spares.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    /// Whether more slots can be made ready.
    pub(crate) fn wants_spares(&self) -> bool {
        self.has_fewer_spares(SPARES)
    }

    /// Whether fewer slots than these are ready, and more can be. Not near the end of the budget: a slot in
    /// the making is nobody's, and a thread that finds no other would go without.
    fn has_fewer_spares(&self, these: usize) -> bool {
        let ready = self.spares.load(Ordering::Relaxed) as usize;
        // Where space is short a spare may be in memory only: one of those is enough.
        let these = if self.is_short() { these.min(1) } else { these };
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        ready < these && made + 2 < self.layout.capacity
    }

    /// Gives the next unused slot's region its first space. Async-signal-safe.
    fn make(&self, becomes: u32) -> Option<&'static Slot> {
        let made = &self.header().made;
        let capacity = self.layout.capacity as u32;
        let index = made
            // Relaxed: the index is ours alone; what is made is published by its state.
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
                (made < capacity).then(|| made + 1)
            })
            .ok()? as usize;
        let layout = &self.layout;
        let slot = self.slot(index)?;
        let Some(given) = self.give_first(index) else {
            // For a later try, unless another one has been made since.
            let index = index as u32;
            let _ = made.compare_exchange(index + 1, index, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        };
        let region = self.base.wrapping_add(layout.region(index));
        slot.base.store(region.addr() as u64, Ordering::Relaxed);
        slot.given.store(given, Ordering::Relaxed);
        slot.chunks.store(layout.chunks() as u64, Ordering::Relaxed);
        slot.full.store(u32::from(self.full), Ordering::Relaxed);
        slot.state.store(becomes, Ordering::Release);
        Some(slot)
    }
}
