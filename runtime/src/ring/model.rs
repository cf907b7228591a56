//! A ring for models, in memory of its own: the smallest possible one, without a file. Each execution makes a
//! new one. It must never be used if threads outlive it.

use std::alloc::{Layout as Memory, alloc_zeroed, dealloc, handle_alloc_error};

use super::layout::{CHUNK, Layout};
use super::{AtomicPtr, AtomicU32, AtomicU64, Kind, Ring};

/// A ring of a few slots with two chunks each, and its memory.
pub(crate) struct SmallRing {
    pub(crate) ring: &'static Ring,
    base: *mut u8,
    memory: Memory,
}

impl SmallRing {
    pub(crate) fn new(capacity: usize) -> SmallRing {
        SmallRing::with_layout(Layout::new(
            2 * CHUNK as u64,
            (2 * capacity * CHUNK) as u64,
            false,
            false,
        ))
    }

    /// A ring whose slots have open calls. It has no totals, because totals are larger than the whole ring.
    pub(crate) fn keeping(capacity: usize) -> SmallRing {
        let mut layout = Layout::new(2 * CHUNK as u64, (4 * capacity * CHUNK) as u64, true, false);
        layout.length = layout.totals;
        (layout.totals, layout.totals_size) = (0, 0);
        assert_eq!(layout.capacity, capacity);
        SmallRing::with_layout(layout)
    }

    fn with_layout(mut layout: Layout) -> SmallRing {
        // No functions are registered, because room for their table would be most of the memory.
        let regions = layout.functions.next_multiple_of(CHUNK);
        layout.length -= layout.regions - regions;
        layout.regions = regions;
        let memory = Memory::from_size_align(layout.length, 4096).expect("a small layout");
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(memory) };
        if base.is_null() {
            handle_alloc_error(memory);
        }
        base.expose_provenance();
        let ring = Box::leak(Box::new(Ring {
            base,
            layout,
            full: false,
            clock: Kind::Monotonic,
            file: None,
            path: None,
            template: &[],
            table_parts: AtomicPtr::new(core::ptr::null_mut()),
            shortage: AtomicU32::new(0),
            reuses: super::slots::Changes::new(),
            owner_changes: super::slots::Changes::new(),
            ended_cpu_ns: AtomicU64::new(0),
            next_reaping: AtomicU64::new(0),
            available: AtomicU32::new(0),
            spares: AtomicU32::new(0),
            least_spares: AtomicU32::new(super::space::MIN_SPARES as u32),
            next_spare: AtomicU32::new(0),
            child_region: AtomicU64::new(super::fork_ring::NOT_LEFT),
            whole: 0,
            with_space: AtomicU32::new(layout.capacity as u32),
            begun: AtomicU32::new(0),
            based: AtomicU32::new(0),
            loss: AtomicU32::new(super::lost::WHOLE),
            has_ended_totals: AtomicU32::new(0),
            identity: &[],
        }));
        ring.write_header(ring.header());
        SmallRing { ring, base, memory }
    }

    /// Has loom watch the words that claiming needs, also the states of the slots.
    pub(crate) fn watch(&self) {
        let header = self.ring.header();
        header.made.watch();
        header.missing_overwritten.watch();
        header.missing_threads.watch();
        self.ring.available.watch();
        self.ring.counter(0).watch();
        for index in 0..self.ring.layout.capacity {
            if let Some(slot) = self.ring.slot(index) {
                slot.state.watch();
            }
        }
    }

    /// Has loom watch the words that say where free slots and the slots' regions are.
    pub(crate) fn watch_spares(&self) {
        self.ring.spares.watch();
        self.ring.next_spare.watch();
        for index in 0..self.ring.layout.capacity {
            if let Some(slot) = self.ring.slot(index) {
                slot.base.watch();
            }
        }
    }
}

impl Drop for SmallRing {
    fn drop(&mut self) {
        // SAFETY: both were made in `new`. The model's threads have ended.
        unsafe {
            drop(Box::from_raw(core::ptr::from_ref(self.ring).cast_mut()));
            dealloc(self.base, self.memory);
        }
    }
}
