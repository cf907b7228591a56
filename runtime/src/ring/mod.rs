//! The ring file: the recorder's memory, which outlives the process.
//!
//! One long reservation of addresses holds the mapping of the file. A part of the file gets its space when it is first
//! needed. Before that the part can't be read or written. A part with space never raises SIGBUS, unless another program
//! cuts the file short (see `lost`). Everything but `append_functions` is async-signal-safe. The mapping must never be
//! unmapped, because other threads may be recording.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `layout` | where each part is; `fdr_formats::ring::layout` has the parts byte for byte |
//! | `record`, `chunk` | records and chunks in a region |
//! | `slots`, `space`, `lost` | slots claimed and used again, space for their chunks, a file that was cut short |
//! | `counts`, `totals`, `open_calls` | what a slot counts |
//! | `arguments` | notes that wait for their call |
//! | `functions`, `moments`, `schedule` | names, named moments, states of threads |
//! | `fork_ring` | the ring of a child |
#![allow(unsafe_code)]

pub(crate) mod arguments;
pub(crate) mod chunk;
pub(crate) mod counts;
pub(crate) mod fork_ring;
pub(crate) mod functions;
pub(crate) mod layout;
mod lost;
#[cfg(all(loom, test))]
pub(crate) mod model;
pub(crate) mod moments;
pub(crate) mod open_calls;
pub(crate) mod record;
pub(crate) mod schedule;
mod slots;
mod space;
pub(crate) mod totals;

use core::ffi::CStr;

use fdr_formats::model::Missing;
use fdr_formats::text;

use crate::clock::Kind;
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys::{self, file::Descriptor};
use chunk::at_address;
use layout::{
    CHUNK, CONTROL_AT, Control, Header, IDENTITY_AT, IdentityTexts, Layout, MAGIC, MOMENTS_AT,
    Moments, OpenCalls, Slot, state,
};
pub(crate) use space::{Shortage, read_ahead};

/// How many slots have space at once. Most processes have few threads.
const FIRST_SLOTS: usize = 4;

/// Bytes of a program's name in the head.
const PROGRAM_BYTES: usize = 64;

/// The options of a new ring.
pub(crate) struct Options {
    /// Bytes per thread, and of all threads together.
    pub(crate) buffer: u64,
    pub(crate) memory: u64,
    /// Keep the oldest records and stop, instead of the newest.
    pub(crate) full: bool,
    /// Whether calls may be summarised: the slots have open calls.
    pub(crate) keeps: bool,
    /// Whether there is a place for the states of threads.
    pub(crate) states: bool,
    pub(crate) clock: Kind,
    /// The template for the paths of children's rings.
    pub(crate) template: fork_ring::Template,
}

#[cfg(test)]
impl Options {
    /// A ring of tests with regions of this many chunks, and this many chunks of all regions together.
    pub(in crate::ring) fn of_chunks(buffer: u64, memory: u64) -> Options {
        Options {
            buffer: buffer * CHUNK as u64,
            memory: memory * CHUNK as u64,
            full: false,
            keeps: false,
            states: false,
            clock: Kind::Monotonic,
            template: &[],
        }
    }
}

/// A ring and its mapping.
pub(crate) struct Ring {
    base: *mut u8,
    layout: Layout,
    full: bool,
    clock: Kind,
    /// `None` for anonymous memory, which does not outlive the process.
    file: Option<Descriptor>,
    path: Option<&'static CStr>,
    template: fork_ring::Template,
    /// Whom the recording is of. A child has left the file when it needs this.
    identity: &'static [u8],
    /// Copies of the function table's entries, for children.
    table_parts: functions::TableParts,
    /// Why something has no space on the disk, see [`space`]. The dumper says so once. 0 = everything has
    /// space.
    shortage: AtomicU32,
    /// Slots of ended threads that other threads take.
    reuses: slots::Changes,
    /// Threads that get a slot, or end.
    owner_changes: slots::Changes,
    /// The CPU time of ended threads, less that of all threads before they got a slot, ns.
    ended_cpu_ns: AtomicU64,
    /// The earliest time of the next reaping, ns of CLOCK_MONOTONIC_RAW. All ones while a thread reaps.
    next_reaping: AtomicU64,
    /// Offset of the region that a child of a fork kept when it left the ring. [`fork_ring::NOT_LEFT`] if it
    /// did not leave.
    child_region: AtomicU64,
    /// How many slots a thread could get: those that are FREE or ENDED.
    available: AtomicU32,
    /// How many slots are FREE. The count is never too low.
    spares: AtomicU32,
    /// How many should be FREE at least.
    least_spares: AtomicU32,
    /// The index at which the search for a free slot begins: the one behind the last that was taken.
    next_spare: AtomicU32,
    /// Length of the file in bytes. If the file is shorter, another program has cut it.
    whole: u64,
    /// How many slots have space. The top bit is set while a thread gives space to more of them.
    with_space: AtomicU32,
    /// How many slots have a region that can be written. It is kept here, because the file's own count may be
    /// lost.
    begun: AtomicU32,
    /// How many slots have the address of their region in the file.
    based: AtomicU32,
    /// Whether the head of the file is lost: one of the states in [`lost`].
    loss: AtomicU32,
    /// 1 = the totals of ended threads have space.
    has_ended_totals: AtomicU32,
}

// SAFETY: the mapping is shared memory made of atomics. Everything else is an atomic or never changes.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// Stores text, padded with NULs. It must fit.
#[inline(never)]
fn store(to: &[AtomicU64], text: &[u8]) {
    let words = text.chunks(8).chain(core::iter::repeat(&[][..]));
    for (field, bytes) in to.iter().zip(words) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        field.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
}

impl Ring {
    /// Makes a ring in a new file at `path`. If the file can't be made, the ring is in anonymous memory, and
    /// the second value is the errno. Without a path the ring is in memory. `None` if no addresses are free.
    pub(crate) fn create(
        path: Option<&'static CStr>,
        options: &Options,
    ) -> Option<(Ring, Option<i32>)> {
        let layout = Layout::new(
            options.buffer,
            options.memory,
            options.keeps,
            options.states,
        );
        let settings = (options.full, options.clock);
        Ring::with_layout(path, layout, settings, options.template)
    }

    /// The same with a layout.
    fn with_layout(
        path: Option<&'static CStr>,
        layout: Layout,
        (full, clock): (bool, Kind),
        template: fork_ring::Template,
    ) -> Option<(Ring, Option<i32>)> {
        let base = sys::memory::reserve(layout.length, CHUNK)?;
        let mut trouble = None;
        let slots = FIRST_SLOTS.min(layout.capacity);
        let (file, whole) = match path.map(|path| Ring::map_file(path, base, &layout, slots)) {
            Some(Ok((file, whole))) => (Some(file), whole),
            none => {
                // The reservation becomes memory when access is allowed.
                trouble = none.and_then(Result::err);
                (None, 0)
            }
        };
        sys::memory::leave_out_of_cores(base, layout.length);
        let ring = Ring {
            base,
            layout,
            full,
            clock,
            path: path.filter(|_| file.is_some()),
            file,
            template,
            identity: &[],
            table_parts: AtomicPtr::new(core::ptr::null_mut()),
            shortage: AtomicU32::new(0),
            reuses: slots::Changes::new(),
            owner_changes: slots::Changes::new(),
            ended_cpu_ns: AtomicU64::new(0),
            next_reaping: AtomicU64::new(0),
            child_region: AtomicU64::new(fork_ring::NOT_LEFT),
            available: AtomicU32::new(0),
            spares: AtomicU32::new(0),
            least_spares: AtomicU32::new(space::MIN_SPARES as u32),
            next_spare: AtomicU32::new(0),
            whole,
            with_space: AtomicU32::new(match file {
                Some(_) => slots as u32,
                None => layout.capacity as u32,
            }),
            begun: AtomicU32::new(0),
            based: AtomicU32::new(0),
            loss: AtomicU32::new(lost::WHOLE),
            has_ended_totals: AtomicU32::new(0),
        };
        base.expose_provenance();
        if ring.make_accessible(0, layout.first_part()).is_err() {
            if let Some(file) = ring.file {
                file.close();
            }
            if let Some(path) = ring.path {
                sys::file::unlink(path);
            }
            // SAFETY: the reservation is ours, and no other thread knows it.
            unsafe { sys::memory::unmap(base, layout.length) };
            return None;
        }
        // A reader that sees the header's magic sees this, too.
        let moments = (MOMENTS_AT - CONTROL_AT) as u32;
        ring.control().moments.store(moments, Ordering::Relaxed);
        ring.write_header(ring.header());
        let ended = ring.give_totals(ring.layout.capacity);
        ring.has_ended_totals
            .store(u32::from(ended.is_some()), Ordering::Relaxed);
        Some((ring, trouble))
    }

    /// Unmaps a ring without a file, which was not published.
    pub(crate) fn discard(self) {
        // SAFETY: the mapping is ours, and no other thread knows it.
        unsafe { sys::memory::unmap(self.base, self.layout.length) };
    }

    /// Makes and maps the file. Returns the file and its length.
    fn map_file(
        path: &CStr,
        base: *mut u8,
        layout: &Layout,
        slots: usize,
    ) -> Result<(Descriptor, u64), i32> {
        let file = sys::file::create(path)?;
        file.lock();
        let mapped = file.lengthen(layout.length as u64).and_then(|whole| {
            let (end, functions) = (layout.end_of_slots(slots), layout.functions);
            file.fill(0, end as u64, whole)?;
            let step = layout.first_part() - functions;
            file.fill(functions as u64, step as u64, whole)?;
            // SAFETY: the reservation is ours, and no other thread knows it yet.
            unsafe { sys::memory::map_file(base, layout.length, file.raw()) }?;
            Ok(whole)
        });
        if mapped.is_err() {
            file.close();
            sys::file::unlink(path);
        }
        mapped.map(|whole| (file, whole))
    }

    fn write_header(&self, header: &Header) {
        header.pid.store(sys::process::pid(), Ordering::Relaxed);
        header.clock.store(self.clock as u32, Ordering::Relaxed);
        for (field, value) in [
            (&header.base, self.base.addr()),
            (&header.slots, self.layout.slots),
            (&header.slot_stride, self.layout.slot_stride),
            (&header.functions, self.layout.functions),
            (&header.regions, self.layout.regions),
            (&header.region_size, self.layout.region_size),
            (&header.open_calls, self.layout.open_calls),
            (&header.totals, self.layout.totals),
            (&header.totals_size, self.layout.totals_size),
            (&header.control, CONTROL_AT),
        ] {
            field.store(value as u64, Ordering::Relaxed);
        }
        header
            .capacity
            .store(self.layout.capacity as u32, Ordering::Relaxed);
        // Release: pairs with the Acquire of a reader. A reader that sees the magic sees the other fields.
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Keeps the program's name, for people who find the file.
    pub(crate) fn set_program(&self, name: &str) {
        let name = text::cut(name, PROGRAM_BYTES);
        store(&self.header().program, name.as_bytes());
    }

    /// Keeps whom the recording is of, in the page of the header. Async-signal-safe.
    pub(crate) fn set_identity(&mut self, identity: &'static [u8]) {
        self.identity = identity;
        // SAFETY: as in `header`. The layout keeps this part of the page for the texts.
        let texts: &IdentityTexts = unsafe { &*self.base.add(IDENTITY_AT).cast() };
        store(texts, identity);
        // Relaxed: a reader that comes this early finds no texts, and that is no error.
        let place = &self.header().identity;
        place.store(IDENTITY_AT as u64, Ordering::Relaxed);
    }

    /// The file's head.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header that has its space. It lives as long as the process, is
        // aligned to CHUNK, and consists of atomics. Zeros are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The block in which `fdr ctl` and the dumper write to each other.
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the place is inside the head of the mapping, which has its space since `create`. It is
        // aligned, is never unmapped, and consists of atomics. Zeros are valid.
        unsafe { &*self.base.add(CONTROL_AT).cast::<Control>() }
    }

    /// The named moments.
    pub(crate) fn moments(&self) -> &Moments {
        // SAFETY: as in `control`.
        unsafe { &*self.base.add(MOMENTS_AT).cast::<Moments>() }
    }

    /// The path of the ring file. `None` for anonymous memory.
    pub(crate) fn path(&self) -> Option<&'static CStr> {
        self.path
    }

    /// Bytes of all regions.
    pub(crate) fn memory(&self) -> u64 {
        self.layout.region_size as u64 * self.layout.capacity as u64
    }

    /// Bytes of a region.
    pub(crate) fn region_size(&self) -> usize {
        self.layout.region_size
    }

    /// Whether this process made the ring. A child that was made without the C library did not make it. Such a
    /// child may have its parent's pid, in a pid namespace of its own.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.header().pid.load(Ordering::Relaxed) == sys::process::pid()
            && !sys::process::is_unnoticed_child()
    }

    /// Records of threads that no dump can have.
    pub(crate) fn missing(&self) -> Missing {
        let header = self.header();
        Missing {
            threads: header.missing_threads.load(Ordering::Relaxed),
            overwritten: header.missing_overwritten.load(Ordering::Relaxed),
            dropped: self.dropped_without_slot(),
        }
    }

    /// Every slot that a thread owns or owned last.
    pub(crate) fn owned_slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        self.slots().filter(|slot| {
            let state = slot.state.load(Ordering::Acquire);
            state == state::LIVE || state == state::ENDED
        })
    }

    /// Every slot that was made, in the order of making.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        // Acquire: no reader needs it, because a slot is published by its state. It pairs with nothing.
        let made = self.header().made.load(Ordering::Acquire) as usize;
        (0..made.min(self.layout.capacity)).filter_map(|index| {
            let slot = self.slot(index)?;
            (slot.state.load(Ordering::Acquire) > state::RAW).then_some(slot)
        })
    }

    /// Whether the slot is one of this ring's.
    pub(crate) fn has(&self, slot: &Slot) -> bool {
        let at = core::ptr::from_ref(slot).addr();
        at.wrapping_sub(self.base.addr()) < self.layout.functions
    }

    /// How many slots there can be.
    pub(crate) fn capacity(&self) -> usize {
        self.layout.capacity
    }

    /// The index of a slot, below [`capacity`](Ring::capacity). `None` if it is not one of this ring's.
    pub(crate) fn index_of(&self, slot: &Slot) -> Option<usize> {
        let at = core::ptr::from_ref(slot).addr();
        let behind = at.wrapping_sub(self.base.addr() + self.layout.slots);
        self.has(slot).then_some(behind / self.layout.slot_stride)
    }

    /// The slot at a place that [`place_of`] gave. `None` if it is not one of this ring's.
    pub(crate) fn slot_at(&self, place: u32) -> Option<&'static Slot> {
        let first = (self.base.addr() + self.layout.slots) / PLACES;
        let behind = place.wrapping_sub(first as u32) as usize * PLACES;
        let index = behind / self.layout.slot_stride;
        let is_one = place != 0 && behind % self.layout.slot_stride == 0;
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        is_one.then_some(index).filter(|&index| index < made)?;
        self.slot(index)
    }

    /// The counter for records of threads without a slot on that CPU.
    fn counter(&self, cpu: u32) -> &AtomicU64 {
        // SAFETY: the place is inside the head of the mapping, which has its space since `create`. It is
        // aligned and an atomic. Zeros are valid.
        unsafe { &*self.base.add(Layout::counter(cpu)).cast::<AtomicU64>() }
    }

    /// The open calls of a slot of this ring. `None` if its slots have none.
    pub(crate) fn open_calls_of(&self, slot: &Slot) -> Option<&'static OpenCalls> {
        let at = self.layout.open_calls;
        (at > 0).then(|| {
            let address = core::ptr::from_ref(slot).addr() + at;
            // SAFETY: the place is behind the slot's marks, inside the same stride. It is aligned, has its
            // space since `create`, is never unmapped, and consists of atomics. Zeros are valid.
            unsafe { &*at_address::<OpenCalls>(address as u64) }
        })
    }

    /// The slot of that index in any state. `None` behind the last one.
    fn slot(&self, index: usize) -> Option<&'static Slot> {
        // SAFETY: the place is inside the mapping and aligned. It has its space since `create`, is never
        // unmapped, and consists of atomics. Zeros are valid.
        (index < self.layout.capacity)
            .then(|| unsafe { &*self.base.add(self.layout.slot(index)).cast::<Slot>() })
    }
}

/// Bytes from place to place: slots are aligned to them.
const PLACES: usize = layout::SLOT_ALIGN;

/// The place of a slot as a number: with the ring, it gives the slot again. Async-signal-safe.
#[inline]
pub(crate) fn place_of(slot: &Slot) -> u32 {
    (core::ptr::from_ref(slot).addr() / PLACES) as u32
}

/// Keeps a name in a slot.
pub(crate) fn set_name(slot: &Slot, name: [u8; sys::thread::NAME_BYTES]) {
    let (low, high) = name.split_at(8);
    for (field, bytes) in slot.name.iter().zip([low, high]) {
        let word = bytes.try_into().map_or(0, u64::from_le_bytes);
        field.store(word, Ordering::Relaxed);
    }
}
