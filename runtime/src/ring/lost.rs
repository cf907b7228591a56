//! A ring whose file another program cut short, or that can't be read any more. A thread that touches such a file gets
//! SIGBUS. This file puts memory in its place, so every thread continues, also in the midst of a record. What these
//! threads write later is never read. This file must never bring lost records back, nor let a thread write outside its
//! region. Async-signal-safe: it makes system calls only.
//!
//! The head is replaced in one step, by memory in which every slot has stopped. A recording thread reads
//! several words of its slot, one after the other. It may read some of them before the step and others after
//! it. Every mixture is safe:
//!
//! | word | new value | effect |
//! | --- | --- | --- |
//! | `cpu` | no CPU | the next record is uncommon |
//! | `last_high` | a value of no clock | a record that has passed the test of the CPU is uncommon too |
//! | `chunks`, `full` | 0, stopped | the uncommon record is dropped |
//! | `cursor`, `base` | the region's first chunk | a record that has passed all tests is written there |
//! | `chunks_with_space` | 1 | a record that is about to open a chunk opens the first one |
//! | `totals` of the open calls | the same address | a call is counted there |
//!
//! In the regions, the totals and the function table, only the chunk that a thread touched is replaced.

use super::Ring;
use super::layout::{CHUNK, Header, NO_CPU, NO_HIGH, OpenCalls, STOPPED, Slot};
use super::record::PREAMBLE;
use crate::primitive::Ordering;
use crate::sys::{self, raw};

/// The states of [`Ring::loss`].
pub(super) const WHOLE: u32 = 0;
/// A thread is replacing the head.
const LOSING: u32 = 1;
const LOST: u32 = 2;
/// The head is lost, and a thread is about to say so.
const REPORTING: u32 = 3;
/// The head is lost, and a line has reported it.
const REPORTED: u32 = 4;

/// How many threads may be making their slots while the head is replaced.
const BEGINNING: usize = 1024;

/// How long other threads wait for the thread that replaces the head or reports the loss, and how long they sleep
/// between two looks. In ns. The wait has an end, because the child of a fork does not have that thread.
const PATIENCE_NS: u64 = 1_000_000_000;
const LOOK_NS: u32 = 20_000;

impl Ring {
    /// Whether the head of the file is lost. Then nothing can be recorded or dumped any more. It is true
    /// already while the head is replaced, because words read before may be old or new. Async-signal-safe.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        // Acquire: pairs with the Release in `lose`.
        self.loss.load(Ordering::Acquire) != WHOLE
    }

    /// Whether the caller is to say that the ring is lost. True for the first caller only. That caller then
    /// calls [`Ring::loss_is_reported`]. Async-signal-safe.
    pub(crate) fn claim_loss_report(&self) -> bool {
        let claimed =
            self.loss
                .compare_exchange(LOST, REPORTING, Ordering::AcqRel, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// Stores that the loss was reported. Async-signal-safe.
    pub(crate) fn loss_is_reported(&self) {
        // Release: pairs with the Acquire in `wait_while`.
        self.loss.store(REPORTED, Ordering::Release);
    }

    /// Waits while another thread replaces the head. Async-signal-safe.
    pub(crate) fn wait_for_replacing(&self) {
        self.wait_while(LOSING);
    }

    /// Waits while another thread is about to say that the ring is lost, because the end of the process would
    /// cut the line off. Async-signal-safe.
    pub(crate) fn wait_for_loss_report(&self) {
        self.wait_while(REPORTING);
    }

    /// Waits while the state is `state`, at most one second.
    #[inline(never)]
    fn wait_while(&self, state: u32) {
        let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
        // Acquire: pairs with the Release in `settle` and `loss_is_reported`.
        while self.loss.load(Ordering::Acquire) == state && raw::monotonic_ns() < end {
            raw::sleep_ns(LOOK_NS);
        }
    }

    /// Puts memory at an address where a thread got SIGBUS, if the address is in this ring's file. True if the
    /// thread may go on.
    pub(crate) fn mend(&self, address: usize) -> bool {
        let at = address.wrapping_sub(self.base.addr());
        if at >= self.layout.length || self.file.is_none() || !self.lose() {
            return false;
        }
        if at < self.head_length() {
            return true;
        }
        let place = self.base.wrapping_add(at / CHUNK * CHUNK);
        // SAFETY: the chunk is inside our mapping. Its contents are lost, so zeros are as good.
        unsafe { sys::memory::map_anonymous(place, CHUNK) }.is_ok()
    }

    /// Gives up the file. False if there is no memory for its head.
    pub(super) fn lose(&self) -> bool {
        // AcqRel: one thread replaces the head. A thread that comes later sees the new head.
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        let begin = || self.loss.compare_exchange(WHOLE, LOSING, done, failed);
        let begun = begin().or_else(|state| {
            if state != LOSING {
                return Err(state);
            }
            self.wait_for_replacing();
            begin()
        });
        // If the state is still LOSING, the thread that set it is gone.
        if let Err(LOST..) = begun {
            return true;
        }
        let replaced = self.replace_head();
        self.settle(replaced);
        if replaced {
            sys::thread::wake_dumper();
        }
        replaced
    }

    /// Ends the replacement of the head. Several threads may come here if one took longer than the others waited.
    /// If the loss was already reported, that state stays.
    fn settle(&self, replaced: bool) {
        let state = if replaced { LOST } else { WHOLE };
        let _ = self
            .loss
            .compare_exchange(LOSING, state, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether the head still holds the slots in use. If a file was cut and lengthened again, the rest of it is
    /// zeros.
    pub(super) fn has_its_slots(&self) -> bool {
        // Acquire: pairs with the Release in `make`.
        let based = self.based.load(Ordering::Acquire) as usize;
        let last = based.checked_sub(1).and_then(|last| self.slot(last));
        last.is_none_or(|slot| slot.base.load(Ordering::Relaxed) != 0)
    }

    /// Whether the file is shorter than its own head. No tool can read such a file.
    pub(crate) fn is_file_headless(&self) -> bool {
        let length = self.file_length();
        length.is_some_and(|length| length < self.layout.slots as u64)
    }

    /// Bytes from the start that are replaced together: everything before the function table, in whole pages of
    /// any size.
    fn head_length(&self) -> usize {
        self.layout.functions.next_multiple_of(CHUNK)
    }

    fn replace_head(&self) -> bool {
        let length = self.head_length();
        let Some(new) = sys::memory::reserve(length, CHUNK) else {
            return false;
        };
        // SAFETY: this is memory of our own that no other thread knows. When it is moved, its contents are
        // valid for every user of the ring, see the head of this file.
        let replaced = unsafe {
            sys::memory::allow(new, length).is_ok() && {
                self.write_stopped_head(new);
                sys::memory::move_over(new, length, self.base)
            }
        };
        if !replaced {
            // SAFETY: this is the memory reserved above, and it was not moved.
            unsafe { sys::memory::unmap(new, length) };
        }
        replaced
    }

    /// # Safety
    /// `new` is as long as the head, aligned to a page, all zeros, and known to no other thread.
    unsafe fn write_stopped_head(&self, new: *mut u8) {
        // SAFETY: the caller promises such memory. Zeros are a valid header.
        let header = unsafe { &*new.cast::<Header>() };
        self.write_header(header);
        let begun = self.begun.load(Ordering::Relaxed);
        header.made.store(begun, Ordering::Relaxed);
        // The table is full, so that no more functions are appended.
        let full = self.layout.functions_room() as u64;
        header.functions_length.store(full, Ordering::Relaxed);
        // Threads that checked the state before the loss began may be making their slots now.
        let slots = begun as usize + BEGINNING;
        for index in 0..slots.min(self.layout.capacity) {
            // SAFETY: as above. The slot's place is inside the head and aligned.
            let slot = unsafe { &*new.add(self.layout.slot(index)).cast::<Slot>() };
            let region = self.base.addr() + self.layout.region(index);
            slot.base.store(region as u64, Ordering::Relaxed);
            slot.cursor
                .store(region as u64 + PREAMBLE, Ordering::Relaxed);
            slot.last_high.store(NO_HIGH, Ordering::Relaxed);
            slot.cpu.store(NO_CPU, Ordering::Relaxed);
            slot.full.store(STOPPED, Ordering::Relaxed);
            slot.chunks_with_space.store(1, Ordering::Relaxed);
            if self.layout.open_calls > 0 {
                let calls = self.layout.slot(index) + self.layout.open_calls;
                // SAFETY: as above, behind the slot's marks.
                let calls = unsafe { &*new.add(calls).cast::<OpenCalls>() };
                let totals = self.base.addr() + self.layout.totals(index);
                calls.totals.store(totals as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::recorder::writer;
    use crate::ring::layout::state;
    use crate::ring::space::tests::ring;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    /// A ring with a slot that has records, whose file is cut then; where the slot's cursor was.
    fn cut(name: &str, length: i64) -> (Ring, &'static Slot, u64) {
        let ring = ring(name, 8);
        let slot = ring.claim().expect("a slot");
        for ticks in 1..10 {
            let ticks = ticks + (1 << 40);
            writer::write(slot, 1 << 4, Stamp { ticks, cpu: 0 });
        }
        let cursor = slot.cursor.load(Ordering::Relaxed);
        let file = ring.file.expect("a file");
        // SAFETY: a file of the test's own, whose mapping is touched again after `mend` alone.
        assert_eq!(unsafe { libc::ftruncate(file.raw(), length) }, 0);
        (ring, slot, cursor)
    }

    #[test]
    fn slots_of_a_lost_ring_take_nothing() {
        let (ring, slot, _) = cut("lost", 0);
        assert!(!ring.is_lost());
        assert!(ring.mend(core::ptr::from_ref(slot).addr()));
        assert!(ring.is_lost() && ring.is_file_headless());
        let region = ring.base.addr() + ring.layout.region(0);
        assert!(ring.mend(region));
        let cursor = slot.cursor.load(Ordering::Relaxed);
        for ticks in 1..1000 {
            let stamp = Stamp { ticks, cpu: 0 };
            writer::write(slot, 1 << 4, stamp);
            assert!(!writer::write_untimed(slot, 1 << 4));
        }
        // Nor did it write anywhere.
        assert_eq!(slot.cursor.load(Ordering::Relaxed), cursor);
        assert_eq!(slot.dropped.load(Ordering::Relaxed), 999);
        assert_eq!(ring.owned_slots().count(), 0);
        assert!(!ring.has_room() && ring.claim().is_none());
        assert!(!ring.extend(slot, 1) && !ring.prepare_spares(1));
        assert!(ring.claim_loss_report() && !ring.claim_loss_report());
    }

    #[test]
    fn a_loss_is_reported_once() {
        let (ring, _, _) = cut("slow", 0);
        // One thread has begun to replace the head, and two others no longer wait for it.
        ring.loss.store(LOSING, Ordering::Relaxed);
        assert!(ring.replace_head());
        ring.settle(true);
        assert!(ring.claim_loss_report());
        assert!(ring.replace_head());
        ring.settle(true);
        ring.settle(false);
        assert!(ring.is_lost() && !ring.claim_loss_report());
    }

    /// Whether `wait` returns only after `done` was called, from another state.
    fn waits(wait: impl Fn() + Sync, done: impl Fn()) -> bool {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                wait();
                is_done.load(SeqCst)
            });
            std::thread::sleep(Duration::from_millis(50));
            is_done.store(true, SeqCst);
            done();
            waiting.join().expect("no panic")
        })
    }

    #[test]
    fn the_exit_waits_for_users_of_the_ring() {
        let (ring, _, _) = cut("telling", 0);
        // No thread replaces the head or reports the loss.
        ring.wait_for_replacing();
        ring.wait_for_loss_report();
        assert!(!ring.is_lost());
        ring.loss.store(LOSING, Ordering::Relaxed);
        // Its head may be replaced by now: a dump that has read it is not whole.
        assert!(ring.is_lost() && !ring.claim_loss_report());
        assert!(ring.replace_head());
        assert!(waits(|| ring.wait_for_replacing(), || ring.settle(true)));
        assert!(ring.is_lost() && ring.claim_loss_report());
        assert!(waits(
            || ring.wait_for_loss_report(),
            || ring.loss_is_reported()
        ));
        assert!(ring.is_lost() && !ring.claim_loss_report());
    }

    /// Threads that began to make their slots before the loss find a region in the new head.
    #[test]
    fn slots_in_the_making_have_their_regions() {
        let (ring, _, _) = cut("making", 0);
        assert!(ring.lose());
        for index in 0..8 {
            let slot = ring.slot(index).expect("a slot");
            let region = ring.base.addr() + ring.layout.region(index);
            assert_eq!(slot.base.load(Ordering::Relaxed), region as u64);
        }
    }

    /// Whatever of the words a thread in the midst of a record saw before.
    #[test]
    fn records_end_in_the_region_they_began_in() {
        for seen in 0..1_u32 << 6 {
            let (ring, slot, cursor) = cut("midst", 0);
            assert!(ring.mend(core::ptr::from_ref(slot).addr()));
            let region = ring.base.addr() + ring.layout.region(0);
            assert!(ring.mend(region));
            let saw = |bit: u32| seen >> bit & 1 != 0;
            // The thread stores these words, or uses them, after the head was replaced.
            if saw(0) {
                slot.cpu.store(0, Ordering::Relaxed);
            }
            if saw(1) {
                slot.last_high.store(1 << 8, Ordering::Relaxed);
            }
            if saw(2) {
                slot.chunks.store(8, Ordering::Relaxed);
            }
            if saw(3) {
                slot.full.store(0, Ordering::Relaxed);
            }
            if saw(4) {
                slot.cursor.store(cursor, Ordering::Relaxed);
            }
            if saw(5) {
                slot.state.store(state::LIVE, Ordering::Relaxed);
            }
            for ticks in 0..40_000 {
                let ticks = ticks + (1 << 40);
                writer::write(slot, 1 << 4, Stamp { ticks, cpu: 0 });
                writer::write_untimed(slot, 1 << 4);
                let within = slot.cursor.load(Ordering::Relaxed) - region as u64;
                assert!(within <= CHUNK as u64, "{seen:#b}: {within}");
                if within == CHUNK as u64 {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_cut_file_is_noticed_before_it_grows() {
        let (ring, slot, _) = cut("noticed", 1 << 16);
        assert!(!ring.extend(slot, 1));
        assert!(ring.is_lost() && !ring.is_file_headless());
        assert_eq!(ring.file.and_then(|file| file.length()), Some(1 << 16));
        let elsewhere = ring.base.addr() + ring.layout.length;
        assert!(!ring.mend(elsewhere) && !ring.mend(0x10));
    }
}
