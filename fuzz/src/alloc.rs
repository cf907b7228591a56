//! An allocator that counts how much memory a thread holds, and the maximum. So a reader that trusts a length of a
//! hostile file is found before the system runs out of memory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with counts per thread. Install it by `#[global_allocator]`.
pub(crate) struct Counting;

thread_local! {
    /// Bytes that the thread holds, and the maximum since [`Counting::restart`]. The first number is negative if the
    /// thread frees memory of other threads.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// A thread that holds more than this ends the process; 0: no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    /// From here on, the process aborts if a thread holds more than this many bytes.
    #[allow(
        dead_code,
        reason = "the fuzzer and the tests of the formats each use a part"
    )]
    pub(crate) fn limit(bytes: usize) {
        LIMIT.store(bytes, Ordering::Relaxed);
    }

    /// Starts to count again from zero: the bytes that this thread holds now count as nothing.
    #[allow(
        dead_code,
        reason = "the fuzzer and the tests of the formats each use a part"
    )]
    pub(crate) fn restart() {
        HELD.set((0, 0));
    }

    /// The largest number of bytes that this thread held at once since [`Counting::restart`].
    #[allow(
        dead_code,
        reason = "the fuzzer and the tests of the formats each use a part"
    )]
    pub(crate) fn peak() -> usize {
        usize::try_from(HELD.get().1).unwrap_or(0)
    }

    fn took(bytes: usize) {
        // The thread's storage is gone while it ends: what it allocates then is not counted.
        let _ = HELD.try_with(|cell| {
            let (held, peak) = cell.get();
            let held = held.saturating_add_unsigned(bytes);
            cell.set((held, peak.max(held)));
            let limit = LIMIT.load(Ordering::Relaxed);
            if limit != 0 && usize::try_from(held).is_ok_and(|held| held > limit) {
                // No message: that would allocate. The backtrace says where.
                std::process::abort();
            }
        });
    }

    fn gave(bytes: usize) {
        let _ = HELD.try_with(|cell| {
            let (held, peak) = cell.get();
            cell.set((held.saturating_sub_unsigned(bytes), peak));
        });
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator. The only other effect is on two numbers in
// thread storage that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::took(layout.size());
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Counting::gave(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while it is copied.
        Counting::took(size);
        Counting::gave(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
