//! The ring file: the recorder's memory, which outlives the process.
//!
//! One long reservation of addresses holds the file's mapping; parts of it get their space (on the
//! disk, so that touching them is SIGBUS only where somebody else cuts the file short, see `lost`) when they
//! are first needed, and can't be read or written before that. Everything but `append_functions` is
//! async-signal-safe. It must never be unmapped: other threads may be recording.

pub(crate) mod chunk;
pub(crate) mod functions;
pub(crate) mod heir;
pub(crate) mod layout;
mod lost;
#[cfg(all(loom, test))]
pub(crate) mod model;
mod slots;
mod space;

use core::ffi::CStr;

use fdr_formats::model::Missing;
use fdr_formats::text;

use crate::clock::Kind;
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys::{self, file::Descriptor};
use layout::{CHUNK, Header, Layout, MAGIC, Slot, state};
pub(crate) use space::{Shortage, read_ahead};

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
    /// What the paths of children's rings are made of.
    pub(crate) template: heir::Template,
}

/// A ring and its mapping.
pub(crate) struct Ring {
    base: *mut u8,
    layout: Layout,
    full: bool,
    clock: Kind,
    /// `None`: anonymous memory, which does not outlive the process.
    file: Option<Descriptor>,
    path: Option<&'static CStr>,
    template: heir::Template,
    /// The function table as children need it.
    pieces: functions::Pieces,
    /// What has no space on the disk, see [`space`]: to be said by the dumper, once. 0 = nothing.
    shortage: AtomicU32,
    /// How often somebody began to take a slot from an ended thread, and has done with it.
    reusing: AtomicU64,
    reused: AtomicU64,
    /// When slots may be reaped again, ns of CLOCK_MONOTONIC_RAW; all ones while it is done.
    next_reaping: AtomicU64,
    /// Where the region is that a child of a fork kept when it let go; [`heir::NOT_LEFT`] = it did not.
    kept: AtomicU64,
    /// How many slots could be given to a thread that asks: FREE or ENDED.
    available: AtomicU32,
    /// How many of those are FREE; never less.
    spares: AtomicU32,
    /// Where the next one is likely to be found: the index behind the last that was.
    next_spare: AtomicU32,
    /// How long the file is, bytes: shorter = somebody has cut it.
    whole: u64,
    /// How many slots have a region that can be written, should the file's own count be lost.
    begun: AtomicU32,
    /// The same, of slots that say where their regions are.
    based: AtomicU32,
    /// Whether the file's head is lost: one of [`lost`]'s states.
    loss: AtomicU32,
}

// SAFETY: the mapping is shared memory made of atomics; the rest never changes or is an atomic.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Makes a ring in a new file at `path`, or, where that can't be, in anonymous memory; the
    /// second value says why, as an errno. Without a path it is in memory. `None` where not even addresses
    /// are to be had.
    pub(crate) fn create(
        path: Option<&'static CStr>,
        options: &Options,
    ) -> Option<(Ring, Option<i32>)> {
        let layout = Layout::new(options.buffer, options.memory);
        Ring::with_layout(path, layout, options.full, options.clock, options.template)
    }

    fn with_layout(
        path: Option<&'static CStr>,
        layout: Layout,
        full: bool,
        clock: Kind,
        template: heir::Template,
    ) -> Option<(Ring, Option<i32>)> {
        let base = sys::memory::reserve(layout.length, CHUNK)?;
        let mut trouble = None;
        let (file, whole) = match path.map(|path| Ring::map_file(path, base, &layout)) {
            Some(Ok((file, whole))) => (Some(file), whole),
            none => {
                // The reservation is memory, once it is allowed to be.
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
            pieces: AtomicPtr::new(core::ptr::null_mut()),
            shortage: AtomicU32::new(0),
            reusing: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            next_reaping: AtomicU64::new(0),
            kept: AtomicU64::new(heir::NOT_LEFT),
            available: AtomicU32::new(0),
            spares: AtomicU32::new(0),
            next_spare: AtomicU32::new(0),
            whole,
            begun: AtomicU32::new(0),
            based: AtomicU32::new(0),
            loss: AtomicU32::new(lost::WHOLE),
        };
        base.expose_provenance();
        if ring.make_accessible(0, layout.first_part()).is_err() {
            if let Some(file) = ring.file {
                file.close();
            }
            if let Some(path) = ring.path {
                sys::file::unlink(path);
            }
            // SAFETY: the reservation is ours, and nobody knows it.
            unsafe { sys::memory::unmap(base, layout.length) };
            return None;
        }
        ring.write_header(ring.header());
        Some((ring, trouble))
    }

    /// The file, and how long it is.
    fn map_file(path: &CStr, base: *mut u8, layout: &Layout) -> Result<(Descriptor, u64), i32> {
        let file = sys::file::create(path)?;
        file.lock();
        let mapped = file.lengthen(layout.length as u64).and_then(|whole| {
            file.allocate(0, layout.first_part() as u64, whole)?;
            // SAFETY: the reservation is ours, and nobody knows it yet.
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
        let end = text::cut(name, PROGRAM_BYTES).len();
        let mut bytes = [0; PROGRAM_BYTES];
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        for (field, bytes) in self.header().program.iter().zip(bytes.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            field.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// The file's head.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header that has its space, lives as long as the
        // process, is aligned to CHUNK, and consists of atomics; zeros are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The ring file's path; `None` for anonymous memory.
    pub(crate) fn path(&self) -> Option<&'static CStr> {
        self.path
    }

    /// Bytes of a region.
    pub(crate) fn region_size(&self) -> usize {
        self.layout.region_size
    }

    /// Whether this process made it; not so in a child that was made behind the back of `fork`, which may
    /// have its parent's number, in a namespace of its own.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.header().pid.load(Ordering::Relaxed) == sys::process::pid()
            && !sys::process::is_unnoticed_child()
    }

    /// Records of threads that a dump can't have.
    pub(crate) fn missing(&self) -> Missing {
        let header = self.header();
        Missing {
            threads: header.missing_threads.load(Ordering::Relaxed),
            overwritten: header.missing_overwritten.load(Ordering::Relaxed),
            dropped: self.dropped_without_slot(),
        }
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

    /// Whether the slot is one of this ring's.
    pub(crate) fn has(&self, slot: &Slot) -> bool {
        let at = core::ptr::from_ref(slot).addr();
        at.wrapping_sub(self.base.addr()) < self.layout.functions
    }

    /// Where records that have no place are counted on that CPU.
    fn counter(&self, cpu: u32) -> &AtomicU64 {
        // SAFETY: the place is inside the mapping's head, which has its space since `create`, is aligned, and
        // is an atomic; zeros are valid.
        unsafe { &*self.base.add(Layout::counter(cpu)).cast::<AtomicU64>() }
    }

    /// The slot of that index, whatever its state; `None` beyond the last.
    fn slot(&self, index: usize) -> Option<&'static Slot> {
        // SAFETY: the place is inside the mapping, aligned, has its space since `create`, is never
        // unmapped, and consists of atomics; zeros are valid.
        (index < self.layout.capacity)
            .then(|| unsafe { &*self.base.add(self.layout.slot(index)).cast::<Slot>() })
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
