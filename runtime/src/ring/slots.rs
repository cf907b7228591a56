//! Slots and their owners: claiming, giving back and reusing a slot, and the counts of owners whose slots were
//! reused. Async-signal-safe, except that `prepare_spares` waits for the disk. This file must never give a slot
//! to two threads.

use super::layout::{COUNTERS, NO_CPU, Slot, state};
use super::space::MAX_SPARES;
use super::{Ring, chunk, counts, open_calls, set_name};
use crate::clock;
use crate::primitive::{AtomicU64, Ordering, fence};
use crate::sys;

/// The shortest time between a reaping that found nothing and the next one, ns.
const REAPING_NS: u64 = 50_000_000;

/// A thread without a slot asks for one whenever its CPU has counted this many more records. It asks even if
/// there seems to be no free slot, because a dead thread that did not give its slot back never notifies us. A
/// power of two.
const ASK_EVERY: u64 = 128;

/// How often a sum over all slots is tried while threads come and go.
const CONSISTENT_TRIES: u32 = 100;

/// Set in the number of slots with space while a thread gives space to more.
const EXTENDING: u32 = 1 << 31;

/// Changes that threads make in several steps. A reader sees none of them half made. Async-signal-safe.
pub(super) struct Changes {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Changes {
    pub(super) fn new() -> Changes {
        Changes {
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    fn make<T>(&self, change: impl FnOnce() -> T) -> T {
        // AcqRel, both: pair with `read`.
        self.begun.fetch_add(1, Ordering::AcqRel);
        let result = change();
        self.done.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// Calls `read` until no change was under way meanwhile, [`CONSISTENT_TRIES`] times and once more at most.
    #[inline(never)]
    fn read(&self, read: &mut dyn FnMut()) {
        for _ in 0..CONSISTENT_TRIES {
            let before = self.done.load(Ordering::Acquire);
            if self.begun.load(Ordering::Acquire) == before {
                read();
                fence(Ordering::Acquire);
                if self.begun.load(Ordering::Relaxed) == before {
                    return;
                }
            }
            sys::thread::give_way();
        }
        read();
    }
}

impl Ring {
    /// A slot for the calling thread: a prepared one, a new one, or the slot of the thread that ended first.
    /// Async-signal-safe.
    pub(crate) fn claim(&self) -> Option<&'static Slot> {
        let slot = self
            .take_spare()
            .or_else(|| self.make(state::CLAIMED))
            .or_else(|| self.take_oldest_ended());
        if let Some(slot) = slot {
            self.begin(slot);
        }
        // The dumper is woken to prepare or to reap slots for the next threads. It is not woken for each
        // thread, because waking takes longer than all of the claim.
        if self.has_fewer_spares(self.target_spares() / 2) || !self.has_room() {
            sys::thread::wake_dumper();
        }
        slot
    }

    /// Takes a prepared slot. Slots are prepared and taken in the order of their indices.
    fn take_spare(&self) -> Option<&'static Slot> {
        // A slot is counted before it is free and until it is taken. So 0 means that no slot is free.
        if self.spares.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let made = self.made();
        let likely = self.next_spare.load(Ordering::Relaxed).min(made);
        let spare = |&index: &u32| {
            // The state is read first, because even a failed swap takes the cache line from its owner.
            let is_free = |slot: &Slot| slot.state.load(Ordering::Relaxed) == state::FREE;
            let slot = self.slot(index as usize).filter(|slot| is_free(slot));
            // No handler may interrupt this, because a handler that left by a jump would leave the counts too
            // high for ever.
            let take = |slot| sys::signal::undisturbed(|| self.try_take(slot, state::FREE));
            slot.is_some_and(take)
        };
        let index = (likely..made).chain(0..likely).find(spare)?;
        self.next_spare.store(index + 1, Ordering::Relaxed);
        self.slot(index as usize)
    }

    /// Takes a slot that is in the state `from`, by one compare-and-swap.
    fn try_take(&self, slot: &Slot, from: u32) -> bool {
        // Acquire: pairs with the Release that stored `from`. The swap itself publishes nothing.
        let swap =
            slot.state
                .compare_exchange(from, state::CLAIMED, Ordering::Acquire, Ordering::Relaxed);
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
            // No handler may interrupt this. A handler that left by a jump would leave the slot without an
            // owner and every sum inconsistent.
            if sys::signal::undisturbed(|| self.reuse(oldest)) {
                return Some(oldest);
            }
        }
    }

    /// Takes the slot of an ended thread. False if another thread has taken it.
    fn reuse(&self, slot: &Slot) -> bool {
        // During the change the records are neither in the slot nor among the missing ones.
        self.reuses.make(|| {
            let taken = self.try_take(slot, state::ENDED);
            if !taken {
                return false;
            }
            let (records, without) = counts::made(slot).unwrap_or_default();
            let dropped = slot.dropped.load(Ordering::Relaxed);
            let header = self.header();
            header
                .missing_overwritten
                .fetch_add(records + dropped + without.records(), Ordering::Relaxed);
            header.missing_threads.fetch_add(1, Ordering::Relaxed);
            // This comes last, because it takes longest. If the process is killed before, the records are counted.
            self.end_totals(slot);
            true
        })
    }

    /// Returns `sum()` of a moment at which no slot changed from an ended thread to another one. During such a
    /// change the ended thread's records are counted nowhere for some microseconds. If no such moment comes,
    /// returns the last sum. Async-signal-safe.
    pub(crate) fn sum_consistently<T: Default>(&self, mut sum: impl FnMut() -> T) -> T {
        let mut result = T::default();
        self.reuses.read(&mut || result = sum());
        result
    }

    /// The CPU time that threads took between their first record and their last one, ns. Only differences have a
    /// meaning. Async-signal-safe.
    pub(crate) fn threads_cpu_ns(&self) -> u64 {
        let mut result = 0;
        self.owner_changes.read(&mut || {
            result = self.ended_cpu_ns.load(Ordering::Relaxed);
            for slot in self.slots() {
                if slot.state.load(Ordering::Acquire) == state::LIVE {
                    let tid = slot.tid.load(Ordering::Relaxed);
                    result = result.wrapping_add(clock::cpu_ns_of(tid));
                }
            }
        });
        result
    }

    /// Gives a slot in the state CLAIMED to the calling thread.
    fn begin(&self, slot: &Slot) {
        // Release: pairs with the Acquire of readers. A reader that sees the new generation knows that
        // `try_take` has ended the former owner.
        slot.generation.fetch_add(1, Ordering::Release);
        // Release: pairs with the Acquire fences of the readers. A reader that sees any store below sees the
        // new generation.
        fence(Ordering::Release);
        // Chunks that got no space for the former owner may get space now.
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
            &slot.open_calls,
        ] {
            field.store(0, Ordering::Relaxed);
        }
        if let Some(calls) = self.open_calls_of(slot) {
            open_calls::begin(slot, calls);
        }
        slot.cursor.store(base, Ordering::Relaxed);
        slot.cpu.store(NO_CPU, Ordering::Relaxed);
        slot.full.store(u32::from(self.full), Ordering::Relaxed);
        slot.tid.store(sys::thread::tid(), Ordering::Relaxed);
        set_name(slot, sys::thread::name());
        self.owner_changes.make(|| {
            let before = clock::thread_cpu_ns();
            self.ended_cpu_ns.fetch_sub(before, Ordering::Relaxed);
            // Release: pairs with the Acquire of `slots`. A reader that sees LIVE sees the stores above.
            slot.state.store(state::LIVE, Ordering::Release);
        });
    }

    /// Called when the calling thread ends. Its records are kept until the space is needed. Async-signal-safe.
    pub(crate) fn end(&self, slot: &Slot) {
        self.owner_changes.make(|| {
            self.ended_cpu_ns
                .fetch_add(clock::thread_cpu_ns(), Ordering::Relaxed);
            self.end_owner(slot);
        });
    }

    fn end_owner(&self, slot: &Slot) {
        slot.ended.store(clock::realtime_ns(), Ordering::Relaxed);
        // Release: pairs with the Acquire of the thread that takes the slot next.
        slot.state.store(state::ENDED, Ordering::Release);
        if !self.full {
            self.available.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes back a slot that was claimed and not used, if it belongs to this ring. Async-signal-safe.
    pub(crate) fn give_back(&self, slot: &Slot) {
        if self.has(slot) {
            self.spares.fetch_add(1, Ordering::Relaxed);
            // Release: pairs with the Acquire of the thread that takes the slot next.
            slot.state.store(state::FREE, Ordering::Release);
            self.available.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a thread that asks for a slot may get one. Async-signal-safe.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_lost() && self.has_room_still()
    }

    fn has_room_still(&self) -> bool {
        (self.made() as usize) < self.layout.capacity || self.available.load(Ordering::Relaxed) > 0
    }

    /// How many slots have been made.
    fn made(&self) -> u32 {
        let made = self.header().made.load(Ordering::Relaxed);
        made.min(self.layout.capacity as u32)
    }

    /// Whether a thread without a slot should ask for one now. It takes few instructions, because each of the
    /// thread's records asks. Async-signal-safe.
    #[inline]
    pub(crate) fn is_worth_asking(&self, cpu: u32) -> bool {
        self.available.load(Ordering::Relaxed) > 0
            || self.counter(cpu).load(Ordering::Relaxed) % ASK_EVERY == ASK_EVERY - 1
    }

    /// Counts a record that a thread without a slot made on that CPU. Async-signal-safe.
    #[inline]
    pub(crate) fn count_dropped_on(&self, cpu: u32) {
        self.counter(cpu).fetch_add(1, Ordering::Relaxed);
    }

    /// Records of threads that have no slot. Async-signal-safe.
    pub(crate) fn dropped_without_slot(&self) -> u64 {
        let on = |cpu| self.counter(cpu).load(Ordering::Relaxed);
        let here = self.header().missing_dropped.load(Ordering::Relaxed);
        here + (0..COUNTERS as u32).map(on).sum::<u64>()
    }

    /// Counts records of threads without a slot, made on any CPU. Async-signal-safe.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.header()
            .missing_dropped
            .fetch_add(records, Ordering::Relaxed);
    }

    /// Takes back the slots of dead threads that did not give them back. Such a thread made its first record in the
    /// last round of destructors, or there is no key for thread ends. Slots are taken back only if there is no other
    /// room. If none is found, the next try comes after a pause. Async-signal-safe. May change errno.
    pub(crate) fn reap(&self) {
        if self.is_lost() {
            return;
        }
        let now = clock::monotonic_raw_ns();
        let next = self.next_reaping.load(Ordering::Relaxed);
        if now >= next && !self.has_room() {
            // No handler may interrupt this. If a handler left by a jump, this thread would count as the reaper
            // for ever.
            sys::signal::undisturbed(|| self.reap_since(now, next));
        }
    }

    fn reap_since(&self, now: u64, next: u64) {
        // Only one thread reaps, because a reaper must not mistake a slot's new owner for the former one.
        // Acquire: pairs with the Release below.
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
            // A dead thread can't end its slot any more. So a slot that has not changed until now never will.
            let same = slot.generation.load(Ordering::Acquire) == generation
                && slot.state.load(Ordering::Acquire) == state::LIVE;
            if gone && same {
                self.end_owner(slot);
            }
        }
        let next = if self.has_room() { 0 } else { now + REAPING_NS };
        self.next_reaping.store(next, Ordering::Release);
    }

    /// Prepares up to `most` slots for the next new threads. False if a slot can't be made.
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

    /// How many slots should be prepared.
    fn target_spares(&self) -> usize {
        let used = self.made() as usize;
        let used = used.saturating_sub(self.spares.load(Ordering::Relaxed) as usize);
        let least = self.least_spares.load(Ordering::Relaxed) as usize;
        used.max(least).min(MAX_SPARES)
    }

    /// From now on the most slots are kept prepared: the process is no short one.
    pub(crate) fn want_most_spares(&self) {
        self.least_spares
            .store(MAX_SPARES as u32, Ordering::Relaxed);
    }

    /// Whether the dumper should prepare more slots.
    pub(crate) fn wants_spares(&self) -> bool {
        self.has_fewer_spares(self.target_spares())
    }

    /// Whether fewer than `these` slots are prepared and more can be made. Near the end of the budget no slot
    /// is prepared. A slot in preparation has no owner. A thread that found no other free slot would get none.
    fn has_fewer_spares(&self, these: usize) -> bool {
        let ready = self.spares.load(Ordering::Relaxed) as usize;
        // If the disk is full, a prepared slot may be in memory only. One of those is enough.
        let these = if self.is_short() { these.min(1) } else { these };
        ready < these && self.made() as usize + 2 < self.layout.capacity
    }

    /// Doubles the number of slots with space, or waits for a thread that does so. Returns false if there is no
    /// space.
    #[cold]
    fn extend_slots(&self) -> bool {
        // No handler may interrupt this. A handler that needed a slot, too, would wait for ever.
        sys::signal::undisturbed(|| {
            let has = self.with_space.load(Ordering::Relaxed);
            let next = (2 * (has & !EXTENDING)).min(self.layout.capacity as u32);
            let begin = |has| {
                let (relaxed, begun) = (Ordering::Relaxed, has | EXTENDING);
                let mine = self
                    .with_space
                    .compare_exchange(has, begun, relaxed, relaxed);
                mine.is_ok()
            };
            if has & EXTENDING != 0 || !begin(has) {
                sys::thread::give_way();
                return true;
            }
            let end = |slots: u32| self.layout.end_of_slots(slots as usize);
            let length = end(next) - end(has);
            let given = length == 0 || self.give_space(end(has), length);
            // Release: pairs with the Acquire in `make`. A thread that sees the number may touch the slots.
            let has = if given { next } else { has };
            self.with_space.store(has, Ordering::Release);
            given
        })
    }

    /// Makes the next unused slot, with space for its first chunk. Async-signal-safe.
    fn make(&self, becomes: u32) -> Option<&'static Slot> {
        if self.is_lost() {
            return None;
        }
        let made = &self.header().made;
        let capacity = self.layout.capacity as u32;
        let index = loop {
            let most = self.with_space.load(Ordering::Acquire) & !EXTENDING;
            // Relaxed: no other thread gets this index, and the slot is published by its state.
            let next = made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
                (made < most).then(|| made + 1)
            });
            match next {
                Ok(index) => break index as usize,
                Err(made) if made >= capacity => return None,
                Err(_) if self.extend_slots() => {}
                Err(_) => return None,
            }
        };
        let layout = &self.layout;
        let slot = self.slot(index)?;
        let Some(given) = self.give_first(index) else {
            // Gives the index back for a later try, unless another slot has been made since.
            let index = index as u32;
            let _ = made.compare_exchange(index + 1, index, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        };
        self.begun.fetch_max(index as u32 + 1, Ordering::Relaxed);
        let region = self.base.wrapping_add(layout.region(index));
        slot.base.store(region.addr() as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `has_its_slots`.
        self.based.fetch_max(index as u32 + 1, Ordering::Release);
        if let Some(calls) = self.open_calls_of(slot) {
            let totals = self.give_totals(index).unwrap_or(0);
            calls.totals.store(totals, Ordering::Relaxed);
        }
        slot.chunks_with_space.store(given, Ordering::Relaxed);
        slot.chunks.store(layout.chunks() as u64, Ordering::Relaxed);
        slot.full.store(u32::from(self.full), Ordering::Relaxed);
        slot.state.store(becomes, Ordering::Release);
        Some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[cfg(not(interpreted))]
    use std::sync::Barrier;

    use super::*;
    use crate::clock::Stamp;
    use crate::primitive::AtomicU32;
    use crate::recorder::writer;
    use crate::ring::space::MIN_SPARES;
    use crate::ring::space::tests::ring;

    fn place(slot: Option<&'static Slot>) -> *const Slot {
        core::ptr::from_ref(slot.expect("a slot"))
    }

    #[test]
    fn spares_are_taken_in_turn() {
        let ring = ring("turn", 8);
        assert!(ring.prepare_spares(usize::MAX));
        let all: Vec<*const Slot> = ring.slots().map(core::ptr::from_ref).collect();
        assert_eq!(all.len(), 6);
        let first = ring.claim();
        assert_eq!(place(first), all[0]);
        assert_eq!(place(ring.claim()), all[1]);
        ring.give_back(first.expect("a slot"));
        let rest: Vec<*const Slot> = (0..5).map(|_| place(ring.claim())).collect();
        assert_eq!(rest[..4], all[2..]);
        assert_eq!(rest[4], all[0], "behind all others");
        assert_eq!(ring.spares.load(Ordering::Relaxed), 0);
        // New ones.
        assert!((0..2).all(|_| !all.contains(&place(ring.claim()))));
        assert!(ring.claim().is_none() && !ring.has_room());
    }

    #[test]
    fn spares_grow_with_threads_and_age() {
        let ring = ring("age", 100);
        let spares = || ring.spares.load(Ordering::Relaxed) as usize;
        assert!(ring.prepare_spares(usize::MAX));
        assert_eq!(spares(), MIN_SPARES);
        for _ in 0..20 {
            assert!(ring.claim().is_some());
        }
        assert!(ring.prepare_spares(usize::MAX));
        assert_eq!(spares(), 20);
        ring.want_most_spares();
        assert!(ring.prepare_spares(usize::MAX));
        assert_eq!(spares(), MAX_SPARES);
    }

    #[test]
    fn a_slot_has_one_owner_at_a_time() {
        let rounds = if cfg!(interpreted) { 20 } else { 5_000 };
        let ring = ring("owners", 2);
        let owners = [const { AtomicU32::new(0) }; 2];
        let owns = || {
            for _ in 0..rounds {
                let Some(slot) = ring.claim() else {
                    std::thread::yield_now();
                    continue;
                };
                let owners = &owners[ring.index_of(slot).expect("one of the ring's")];
                assert_eq!(owners.fetch_add(1, Ordering::Relaxed), 0);
                let stamp = Stamp { ticks: 1, cpu: 0 };
                writer::write(slot, 1 << 4, stamp);
                owners.fetch_sub(1, Ordering::Relaxed);
                ring.end(slot);
            }
        };
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(owns));
            // Joins that sanitizers see; the scope's own end is inside std.
            for thread in threads {
                thread.join().expect("the thread's end");
            }
        });
        assert_eq!(ring.slots().count(), 2);
    }

    #[cfg(not(interpreted))]
    #[test]
    fn threads_have_cpu_time_from_claim_to_end() {
        const NS: u64 = 3_000_000;
        let burn = |ns| {
            let before = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() < before + ns {}
        };
        let ring = ring("cpu", 4);
        let since = |before| ring.threads_cpu_ns().wrapping_sub(before);
        let begin = ring.threads_cpu_ns();
        let (claimed, burnt) = (Barrier::new(2), Barrier::new(2));
        let mut seen = [0; 2];
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                burn(20 * NS);
                let slot = ring.claim().expect("a slot");
                claimed.wait();
                claimed.wait();
                burn(NS);
                burnt.wait();
                burnt.wait();
                ring.end(slot);
                burn(20 * NS);
            });
            claimed.wait();
            seen[0] = since(begin);
            claimed.wait();
            burnt.wait();
            seen[1] = since(begin);
            burnt.wait();
            thread.join().expect("the thread's end");
        });
        let [first, lives] = seen;
        assert!(
            first < NS,
            "{first} ns, most of them before its first record"
        );
        assert!((NS..10 * NS).contains(&lives), "{lives} ns");
        let ended = since(begin);
        assert!((NS..10 * NS).contains(&ended), "{ended} ns");
    }

    #[test]
    fn new_room_is_announced() {
        let ring = ring("room", 2);
        let slots = [ring.claim(), ring.claim()];
        assert!(!ring.is_worth_asking(0));
        ring.end(slots[1].expect("a slot"));
        assert!(ring.is_worth_asking(0));
        assert_eq!(place(ring.claim()), place(slots[1]));
        assert!(!ring.is_worth_asking(0));
    }

    #[test]
    fn every_cpu_counts_and_asks_now_and_then() {
        let ring = ring("count", 2);
        assert!(ring.claim().is_some() && ring.claim().is_some());
        let asks = |cpu: u32| {
            let worth = ring.is_worth_asking(cpu);
            ring.count_dropped_on(cpu);
            worth
        };
        let times = (0..10 * ASK_EVERY).filter(|_| asks(5)).count();
        assert_eq!(times, 10);
        assert!(!ring.is_worth_asking(6));
        // Of another node, not known, beyond the last counter.
        for cpu in [1 << 12 | 5, 0xFFF, 127, 128, u32::MAX] {
            ring.count_dropped_on(cpu);
        }
        ring.count_dropped(1000);
        assert_eq!(ring.missing().dropped, 10 * ASK_EVERY + 5 + 1000);
    }
}
