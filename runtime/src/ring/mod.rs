//! The ring file: the recorder's memory, which outlives the process.
//!
//! One long reservation of addresses holds the file's mapping; parts of it get their space (on the
//! disk, so that touching them can never be SIGBUS) when they are first needed. Everything but
//! `create` is async-signal-safe. It must never be unmapped: other threads may be recording.

pub(crate) mod chunk;
pub(crate) mod functions;
pub(crate) mod layout;

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use std::ffi::CString;
use std::sync::OnceLock;

use fdr_formats::model::Missing;

use crate::clock::{self, Kind};
use crate::recorder::writer;
use crate::sys::{self, file::Descriptor};
use layout::{CHUNK, Header, Layout, MAGIC, Slot, state};

const TO_BE_SAID: u32 = 1;
const SAID: u32 = 2;

/// How much of a spare region is brought in beforehand, in bytes. Not all of it: many threads make
/// few records, and memory that is never touched costs nothing.
const PREFAULT: usize = 4 * CHUNK;

/// Bytes of a program's name in the head.
const PROGRAM_BYTES: usize = 64;

/// What a ring is made of.
pub(crate) struct Options {
    /// Bytes per thread, and of all threads together.
    pub(crate) buffer: u64,
    pub(crate) memory: u64,
    /// Keep the oldest records and stop, instead of the newest.
    pub(crate) full: bool,
    pub(crate) clock: Kind,
}

/// A ring and its mapping.
pub(crate) struct Ring {
    base: *mut u8,
    layout: Layout,
    full: bool,
    clock: Kind,
    /// `None`: anonymous memory, which does not outlive the process.
    file: Option<Descriptor>,
    path: OnceLock<CString>,
    /// Whether a region had to be anonymous: [`TO_BE_SAID`] by the dumper, once.
    out_of_space: AtomicU32,
    /// How many slots could be given to a thread that asks: FREE or ENDED.
    available: AtomicU32,
}

// SAFETY: the mapping is shared memory made of atomics; the rest never changes or is an atomic.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Makes a ring in a new file at `path`, or, where that can't be, in anonymous memory; the
    /// second value says why, as an errno. `None` where not even addresses are to be had.
    pub(crate) fn create(path: &CStr, options: &Options) -> Option<(Ring, Option<i32>)> {
        let layout = Layout::new(options.buffer, options.memory);
        let base = sys::memory::reserve(layout.length, CHUNK)?;
        let mut trouble = None;
        let file = match Ring::map_file(path, base, &layout) {
            Ok(file) => Some(file),
            Err(error) => {
                trouble = Some(error);
                // SAFETY: the reservation is ours, and nobody knows it yet.
                let mapped = unsafe { sys::memory::map_anonymous(base, layout.length) };
                if mapped.is_err() {
                    // SAFETY: as above; nobody ever will.
                    unsafe { sys::memory::unmap(base, layout.length) };
                    return None;
                }
                None
            }
        };
        let ring = Ring {
            base,
            layout,
            full: options.full,
            clock: options.clock,
            path: OnceLock::new(),
            out_of_space: AtomicU32::new(0),
            available: AtomicU32::new(0),
            file,
        };
        if ring.file.is_some() {
            let _ = ring.path.set(path.to_owned());
        }
        base.expose_provenance();
        ring.write_header();
        Some((ring, trouble))
    }

    fn map_file(path: &CStr, base: *mut u8, layout: &Layout) -> Result<Descriptor, i32> {
        let file = sys::file::create(path)?;
        let head = layout.functions + layout::FUNCTIONS_STEP;
        let mapped = file
            .allocate(0, head as u64)
            // SAFETY: the reservation is ours, and nobody knows it yet.
            .and_then(|()| unsafe { sys::memory::map_file(base, layout.length, file.raw()) });
        if mapped.is_err() {
            file.close();
            sys::file::unlink(path);
        }
        mapped.map(|()| file)
    }

    fn write_header(&self) {
        let header = self.header();
        header.pid.store(sys::process::pid(), Ordering::Relaxed);
        header.clock.store(self.clock as u32, Ordering::Relaxed);
        for (field, value) in [
            (&header.base, self.base.addr()),
            (&header.slots, self.layout.slots),
            (&header.slot_stride, self.layout.slot_stride),
            (&header.functions, self.layout.functions),
            (&header.regions, self.layout.regions),
            (&header.region_size, self.layout.region_size),
        ] {
            field.store(value as u64, Ordering::Relaxed);
        }
        header
            .capacity
            .store(self.layout.capacity as u32, Ordering::Relaxed);
        // Release: pairs with a reader's Acquire; whoever sees the magic sees the rest.
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Keeps the program's name, for whoever finds the file.
    pub(crate) fn set_program(&self, name: &str) {
        let end = name.floor_char_boundary(PROGRAM_BYTES);
        let mut bytes = [0; PROGRAM_BYTES];
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        let words = bytes.as_chunks::<8>().0;
        for (field, word) in self.header().program.iter().zip(words) {
            field.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }

    /// The file's head.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header that has its space, lives as long as the
        // process, is aligned to CHUNK, and consists of atomics; zeros are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The ring file's path; `None` for anonymous memory.
    pub(crate) fn path(&self) -> Option<&CStr> {
        self.path.get().map(CString::as_c_str)
    }

    /// Bytes of a region.
    pub(crate) fn region_size(&self) -> usize {
        self.layout.region_size
    }

    /// Whether this process made it; not so in a child that was made behind the back of `fork`.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.header().pid.load(Ordering::Relaxed) == sys::process::pid()
    }

    /// Records of threads that a dump can't have.
    pub(crate) fn missing(&self) -> Missing {
        let header = self.header();
        Missing {
            retired_threads: header.retired_threads.load(Ordering::Relaxed),
            retired_records: header.retired_records.load(Ordering::Relaxed),
            unplaced_records: header.homeless_records.load(Ordering::Relaxed),
        }
    }

    /// Whether a region had to be anonymous, and it was not said yet.
    pub(crate) fn says_out_of_space(&self) -> bool {
        let swap = self.out_of_space.compare_exchange(
            TO_BE_SAID,
            SAID,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        swap.is_ok()
    }

    /// Every slot that a thread owns, or owned last.
    pub(crate) fn owned_slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        self.slots().filter(|slot| {
            let state = slot.state.load(Ordering::Acquire);
            state == state::LIVE || state == state::ENDED
        })
    }

    /// Every slot that was made, in the order of making.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        // Acquire: for symmetry; what a slot holds is published by its state.
        let made = self.header().made.load(Ordering::Acquire) as usize;
        (0..made.min(self.layout.capacity)).filter_map(|index| {
            let slot = self.slot(index)?;
            (slot.state.load(Ordering::Acquire) > state::RAW).then_some(slot)
        })
    }

    /// The slot of that index, whatever its state; `None` beyond the last.
    fn slot(&self, index: usize) -> Option<&'static Slot> {
        // SAFETY: the place is inside the mapping, aligned, has its space since `create`, is never
        // unmapped, and consists of atomics; zeros are valid.
        (index < self.layout.capacity)
            .then(|| unsafe { &*self.base.add(self.layout.slot(index)).cast::<Slot>() })
    }

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
        // The next new thread shall find a prepared one again, or one that nobody gave back.
        sys::thread::tell_news();
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
            if self.try_take(oldest, state::ENDED) {
                let records = crate::dump::snapshot::committed(oldest).unwrap_or(0);
                let dropped = oldest.dropped.load(Ordering::Relaxed);
                let header = self.header();
                header
                    .retired_records
                    .fetch_add(records + dropped, Ordering::Relaxed);
                header.retired_threads.fetch_add(1, Ordering::Relaxed);
                return Some(oldest);
            }
        }
    }

    /// Gives a slot that was taken to the calling thread.
    fn begin(&self, slot: &Slot) {
        // Release: pairs with the Acquire of readers: who sees it does not take the slot for the former
        // owner's, which `try_take` ended.
        slot.generation.fetch_add(1, Ordering::Release);
        // Release: pairs with the Acquire fence of `dump::snapshot`: a reader that sees anything of
        // what follows sees the new generation.
        fence(Ordering::Release);
        for number in 1..=slot.chunks.load(Ordering::Relaxed) {
            chunk::mark(slot, number).number.store(0, Ordering::Relaxed);
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

    /// Whether a thread that asks for a slot may get one. Async-signal-safe.
    pub(crate) fn has_room(&self) -> bool {
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        made < self.layout.capacity || self.available.load(Ordering::Relaxed) > 0
    }

    /// Counts a record of a thread that has no slot. Async-signal-safe.
    pub(crate) fn count_homeless(&self) {
        self.header()
            .homeless_records
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back slots whose threads are gone without having given them back: their first records were
    /// made in the last of their destructors. Only where there is no other room.
    pub(crate) fn reap(&self) {
        if self.has_room() {
            return;
        }
        for slot in self.slots() {
            let live = slot.state.load(Ordering::Acquire) == state::LIVE;
            if live && !sys::thread::exists(slot.tid.load(Ordering::Relaxed)) {
                self.end(slot);
            }
        }
    }

    /// Makes one slot ready beforehand, so that the next new thread finds it. Returns whether it
    /// did; not where one is ready, and not near the end of the budget: a slot in the making is
    /// nobody's, and a thread that finds no other would go without.
    pub(crate) fn prepare_spare(&self) -> bool {
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        let free = |slot: &Slot| slot.state.load(Ordering::Relaxed) == state::FREE;
        if made + 2 >= self.layout.capacity || self.slots().any(free) {
            return false;
        }
        self.available.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.make(state::FREE) else {
            self.available.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        // Whoever takes it meanwhile need not wait for this.
        let base = slot.base.load(Ordering::Relaxed) as usize;
        let length = self.layout.region_size.min(PREFAULT);
        sys::memory::prefault(core::ptr::with_exposed_provenance_mut(base), length);
        true
    }

    /// Gives the next unused slot and region their space. Async-signal-safe.
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
        if !self.give_space(layout.region(index), layout.region_size) {
            return None;
        }
        let region = self.base.wrapping_add(layout.region(index));
        // Its first use is between two clock readings: it shall not be a page fault.
        sys::memory::prefault(region, CHUNK);
        slot.base.store(region.addr() as u64, Ordering::Relaxed);
        slot.chunks.store(layout.chunks() as u64, Ordering::Relaxed);
        slot.full.store(u32::from(self.full), Ordering::Relaxed);
        slot.state.store(becomes, Ordering::Release);
        Some(slot)
    }
}

impl Ring {
    /// Space on the disk for a part of the file, or else anonymous memory in its place, which does
    /// not outlive the process. False where neither is to be had. Async-signal-safe.
    pub(crate) fn give_space(&self, offset: usize, length: usize) -> bool {
        let Some(file) = self.file else { return true };
        if file.allocate(offset as u64, length as u64).is_ok() {
            return true;
        }
        let _ =
            self.out_of_space
                .compare_exchange(0, TO_BE_SAID, Ordering::Relaxed, Ordering::Relaxed);
        // SAFETY: the part is inside our mapping and was never used: it had no space.
        unsafe { sys::memory::map_anonymous(self.base.add(offset), length) }.is_ok()
    }
}

/// Keeps a name in a slot.
pub(crate) fn set_name(slot: &Slot, name: [u8; sys::thread::NAME_BYTES]) {
    let (low, high) = name.split_at(8);
    for (field, bytes) in slot.name.iter().zip([low, high]) {
        let word = bytes.try_into().map_or(0, u64::from_le_bytes);
        field.store(word, Ordering::Relaxed);
    }
}
