//! Space for the parts of the ring. A region gets space for its first chunk when its slot is made. It gets
//! space for a later chunk when the owner reaches that chunk, or earlier if the owner is active. A part with
//! space can be read and written. It keeps its space when the slot changes its owner. A part without space is
//! inaccessible, so tools that read a process's mappings see how much is in use. A byte without space must
//! never be touched, because that raises SIGBUS on a full disk.
//!
//! The kernel touches the pages of the mapping (`madvise`). A failure is an error and no signal. A file that was
//! cut is not lengthened. No descriptor is needed, because the program could have closed it. A kernel before Linux 5.14
//! can't do so. There a thread allocates by a descriptor. It opens the descriptor for a moment in a table of its own,
//! unless it made the file and still has it open.
//!
//! After that, many file systems have reserved the space, but have not chosen its place on the disk. They choose it
//! when they write the pages back, seconds later. The file of a short process no longer exists then, and its removal
//! costs nothing. Where freed space is discarded at once, a file with places on the disk costs milliseconds for each of
//! them. Slots of a process with many threads get their places at once (`fallocate`), because their chunks need not be
//! in memory.
//!
//! The owner and the dumper may give space to the same chunk at the same time, which does no harm. Only the
//! owner reports that there is none, or takes memory in its place.

use super::layout::{CHUNK, Slot, state};
use super::{Ring, chunk};
use crate::primitive::Ordering;
use crate::sys;
use crate::sys::file::Descriptor;

/// How many slots are kept prepared. The first chunks of the most slots together take as much as one region of the default
/// size. A process that began a moment ago has the fewest, or as many as threads had one until now, because a short process
/// should not pay for more.
#[cfg(not(all(loom, test)))]
pub(super) const MIN_SPARES: usize = 8;
#[cfg(not(all(loom, test)))]
pub(super) const MAX_SPARES: usize = 64;
#[cfg(all(loom, test))]
pub(super) const MIN_SPARES: usize = 1;
#[cfg(all(loom, test))]
pub(super) const MAX_SPARES: usize = 1;

/// How many prepared slots have their whole first chunk in memory. The other chunks cost no memory until they
/// are touched.
const WARM: u32 = 4;

/// For this many slots, the first chunk gets its space in memory first. These are the slots that are prepared for a
/// program of few threads, and the slots that its threads own.
const IN_MEMORY_FIRST: usize = MAX_SPARES + 8;

/// How many bytes of a first chunk are brought into memory when the slot is made. Many threads need no more.
const FIRST: usize = 4096;

/// How many chunks one region gets before the next region's turn.
const STEP: u64 = 4;

/// The fewest chunks that an owner goes round in. While one is overwritten, the other one stays readable.
const MIN_CHUNKS: u64 = 2;

/// From this index on, a region becomes accessible as a whole. If each chunk became accessible alone, each
/// region would need two mappings. The kernel allows a process 65,530 mappings. Whole regions that lie side by
/// side need one.
const SEPARATE: usize = 2048;

/// The whole memory of a model is accessible, so it is given no space.
const IS_WHOLE: bool = cfg!(all(loom, test));

/// A way to give a part of a file space: offset, length, and length of the file.
type Allocate = fn(&Descriptor, u64, u64, u64) -> Result<(), i32>;

/// Why a part of the ring has no space on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// The errno.
    pub(crate) error: i32,
    /// True: a thread goes on with a part of its region. False: a part of the ring is in memory only.
    pub(crate) is_partial: bool,
}

/// Flags beside the errno in [`Ring::shortage`].
const REPORTED: u32 = 1 << 31;
const PARTIAL: u32 = 1 << 30;

impl Ring {
    /// Gives a part of the file space on the disk. If the disk is full, puts anonymous memory in its place, which does
    /// not outlive the process. False: there is no memory either. Async-signal-safe.
    #[inline(never)]
    pub(super) fn give_space(&self, offset: usize, length: usize) -> bool {
        let Err(error) = self.allocate(offset, length) else {
            return true;
        };
        if self.is_lost() {
            return false;
        }
        self.misses_space(error);
        self.take_memory_instead(offset, length)
    }

    /// Gives a part of the file space on the disk, or leaves it as it is. For what a ring can go without: nothing is
    /// reported. Async-signal-safe.
    pub(super) fn give_spare_space(&self, offset: usize, length: usize) -> bool {
        let is_given = self.allocate(offset, length).is_ok();
        if !is_given && !self.is_lost() {
            sys::memory::give_space_back(self.base.wrapping_add(offset), length);
        }
        is_given
    }

    /// Puts anonymous memory in the place of a part of the file that got not all of its space. The file gives back what
    /// it got. Async-signal-safe.
    fn take_memory_instead(&self, offset: usize, length: usize) -> bool {
        sys::memory::give_space_back(self.base.wrapping_add(offset), length);
        self.take_memory(offset, length)
    }

    /// Whether the index of these totals may be a mapping of its own.
    pub(super) fn has_separate_index(&self, index: usize) -> bool {
        index < SEPARATE || index == self.layout.capacity
    }

    /// Puts anonymous memory in the place of a part of the file. Async-signal-safe.
    pub(super) fn take_memory(&self, offset: usize, length: usize) -> bool {
        let at = self.base.wrapping_add(offset);
        // SAFETY: the part is inside our mapping. It was never used, because it had no space.
        let taken = unsafe { sys::memory::map_anonymous(at, length) }.is_ok();
        sys::memory::leave_out_of_cores(at, length);
        taken
    }

    /// Gives a part of the file space and makes it accessible. No thread may write to the part meanwhile.
    /// Async-signal-safe.
    fn allocate(&self, offset: usize, length: usize) -> Result<(), i32> {
        self.touch(offset, length, Descriptor::allocate)
    }

    /// As [`allocate`](Ring::allocate), but threads may write to the part meanwhile.
    pub(super) fn allocate_untouched(&self, offset: usize, length: usize) -> Result<(), i32> {
        self.touch(offset, length, Descriptor::allocate_untouched)
    }

    /// As [`allocate`](Ring::allocate), with a place on the disk at once if the calling thread has the file open. The
    /// part need not be in memory.
    fn allocate_on_disk(&self, offset: usize, length: usize) -> Result<(), i32> {
        match self.file.filter(Descriptor::is_mine) {
            None => self.allocate(offset, length),
            Some(file) => {
                self.noted(file.allocate(offset as u64, length as u64, self.whole))?;
                self.make_accessible(offset, length)
            }
        }
    }

    /// Has the kernel touch all pages of a part of the file. That needs no descriptor. `otherwise` is for kernels that
    /// can't do so.
    #[inline(never)]
    fn touch(&self, offset: usize, length: usize, otherwise: Allocate) -> Result<(), i32> {
        self.make_accessible(offset, length)?;
        if self.file.is_none() {
            return Ok(());
        }
        if (offset + length) as u64 > self.whole {
            return Err(libc::EFBIG);
        }
        // The bytes before the part in its chunk are in use, or get space together with the part.
        let from = offset / CHUNK * CHUNK;
        let at = self.base.wrapping_add(from);
        // Without space the part stays accessible, because another thread may give it space at this moment.
        self.noted(match sys::memory::populate(at, offset + length - from) {
            Err(libc::EINVAL) => self.allocate_apart(offset, length, otherwise),
            Err(libc::EFAULT) if self.is_cut() => Err(libc::ESTALE),
            Err(libc::EFAULT) => Err(libc::ENOSPC),
            other => other,
        })
    }

    #[cold]
    fn allocate_apart(&self, offset: usize, length: usize, allocate: Allocate) -> Result<(), i32> {
        let (Some(file), Some(path)) = (self.file, self.path) else {
            return Err(libc::EBADF);
        };
        let (offset, length) = (offset as u64, length as u64);
        if file.is_mine() {
            return allocate(&file, offset, length, self.whole);
        }
        sys::own_table::with_own_table(|| {
            let file = file.again(path)?;
            allocate(&file, offset, length, self.whole)
        })?
    }

    /// Whether another program cut the file short.
    fn is_cut(&self) -> bool {
        self.file_length().is_some_and(|length| length < self.whole)
    }

    /// The length of the file. `None` if it can't be found.
    pub(super) fn file_length(&self) -> Option<u64> {
        match self.file? {
            file if file.is_mine() => file.length(),
            file => file.length_at(self.path?),
        }
    }

    /// Records whether the result of an allocation shows that the file was cut.
    fn noted(&self, given: Result<(), i32>) -> Result<(), i32> {
        if given == Err(libc::ESTALE) {
            self.lose();
        }
        given?;
        // Giving space by writing lengthens a file that was cut. Then its slots are zeros and must not be used.
        if self.file.is_some() && !self.has_its_slots() {
            self.lose();
            return Err(libc::ESTALE);
        }
        Ok(())
    }

    /// Makes a part that has space accessible. If the kernel allows no more mappings, everything before the
    /// part becomes accessible too, because that needs fewer mappings. Async-signal-safe.
    pub(super) fn make_accessible(&self, offset: usize, length: usize) -> Result<(), i32> {
        // Whole chunks, because a page may be as large as a chunk.
        let from = offset / CHUNK * CHUNK;
        let end = (offset + length).next_multiple_of(CHUNK);
        // SAFETY: both are parts of our mapping, whose length is a multiple of CHUNK.
        let allow = |from| unsafe { sys::memory::allow(self.base.add(from), end - from) };
        allow(from).or_else(|_| allow(0))
    }

    /// Gives space to the first chunk of a region that no thread uses yet. If there is none, puts memory in the
    /// place of the whole region. Returns how many chunks have space. `None` if neither exists.
    /// Async-signal-safe.
    pub(super) fn give_first(&self, index: usize) -> Option<u32> {
        let (offset, all) = (self.layout.region(index), self.layout.chunks() as u32);
        if IS_WHOLE {
            return Some(all);
        }
        let mut given = match index < IN_MEMORY_FIRST {
            true => self.allocate(offset, CHUNK),
            false => self.allocate_on_disk(offset, CHUNK),
        };
        if given.is_ok() && index >= SEPARATE {
            given = self.make_accessible(offset, self.layout.region_size);
        }
        let given = match given {
            Ok(()) => 1,
            Err(_) if self.is_lost() => return None,
            Err(error) => {
                self.misses_space(error);
                self.take_memory_instead(offset, self.layout.region_size)
                    .then_some(all)?
            }
        };
        // The first use is between two clock readings, so it should not be a page fault.
        let _ = sys::memory::populate(self.base.wrapping_add(offset), FIRST);
        Some(given)
    }

    /// Gives space to the chunk behind `opened` chunks, which the slot's owner is about to open. None of the
    /// opened chunks has been overwritten. False if there is no space. Async-signal-safe. May change errno.
    pub(crate) fn extend(&self, slot: &Slot, opened: u64) -> bool {
        if self.is_lost() {
            return false;
        }
        let offset = self.offset_of(slot, opened);
        let more = match self.allocate(offset, CHUNK) {
            Ok(()) => 1,
            Err(_) if self.is_lost() => 0,
            Err(error) => {
                let memory = MIN_CHUNKS.saturating_sub(opened);
                self.misses(error, memory == 0);
                let length = memory as usize * CHUNK;
                if memory > 0 && self.take_memory(offset, length) {
                    memory
                } else {
                    0
                }
            }
        };
        if more > 0 {
            bring_in(slot, opened, CHUNK);
            self.gave(slot, opened + more);
        }
        more > 0
    }

    /// Gives space to the chunks that threads will need soon, and brings them into memory. `brought` holds how
    /// many chunks of each region were brought in. The caller keeps it for the next call. `and_spares`: also
    /// for some prepared slots. It returns before its end if `is_awaited` says so. Not async-signal-safe.
    pub(crate) fn look_ahead(
        &self,
        brought: &mut Vec<u32>,
        and_spares: bool,
        is_awaited: fn() -> bool,
    ) {
        if self.is_lost() {
            return;
        }
        let made = self.header().made.load(Ordering::Relaxed) as usize;
        brought.resize(made.max(brought.len()), 0);
        // The regions take turns, so no thread waits until another one has all its chunks.
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            let mut warm = if and_spares { WARM } else { 0 };
            for (index, brought) in brought.iter_mut().enumerate() {
                if is_awaited() {
                    return;
                }
                if let Some(slot) = self.slot(index) {
                    goes_on |= self.look_ahead_of(slot, brought, &mut warm);
                }
            }
        }
    }

    /// One slot's turn. Returns whether there was something to do.
    fn look_ahead_of(&self, slot: &Slot, brought: &mut u32, warm: &mut u32) -> bool {
        let number = slot.chunk.load(Ordering::Relaxed);
        let wanted = match slot.state.load(Ordering::Acquire) {
            state::LIVE if number <= 1 && is_idle(slot) => 0,
            state::LIVE => chunk::target(number),
            state::FREE if *warm > 0 => {
                *warm -= 1;
                1
            }
            _ => 0,
        };
        let wanted = wanted.min(slot.chunks.load(Ordering::Relaxed));
        let from = u64::from(*brought);
        for number in from..wanted.min(from + STEP) {
            if !self.has_space(slot, number) {
                break;
            }
            bring_in(slot, number, CHUNK);
            *brought += 1;
        }
        u64::from(*brought) > from
    }

    /// Whether the chunk behind `number` others has space, after a try to give it some.
    fn has_space(&self, slot: &Slot, number: u64) -> bool {
        if number < u64::from(slot.chunks_with_space.load(Ordering::Acquire)) {
            return true;
        }
        let offset = self.offset_of(slot, number);
        let given = self.allocate_untouched(offset, CHUNK).is_ok();
        if given {
            self.gave(slot, number + 1);
        }
        given
    }

    /// Stores that the first `chunks` chunks of the slot's region have space. Release: pairs with the Acquire where
    /// `chunks_with_space` is loaded, because a thread on any CPU touches the space after that load.
    fn gave(&self, slot: &Slot, chunks: u64) {
        let chunks = chunks as u32;
        let more = |given| (given < chunks).then_some(chunks);
        let given = &slot.chunks_with_space;
        let _ = given.fetch_update(Ordering::Release, Ordering::Relaxed, more);
    }

    /// Offset in the file of the chunk behind `chunks` others.
    fn offset_of(&self, slot: &Slot, chunks: u64) -> usize {
        let region = slot.base.load(Ordering::Relaxed) as usize;
        region.wrapping_sub(self.base.addr()) + chunks as usize * CHUNK
    }

    /// Keeps the errno because of which a part of the ring is in memory only. The dumper says so once.
    pub(super) fn misses_space(&self, error: i32) {
        self.misses(error, false);
    }

    fn misses(&self, error: i32, is_partial: bool) {
        let partial = if is_partial { PARTIAL } else { 0 };
        let known = error.unsigned_abs() | partial;
        let shortage = &self.shortage;
        let _ = shortage.compare_exchange(0, known, Ordering::Relaxed, Ordering::Relaxed);
        sys::thread::wake_dumper();
    }

    /// Whether a part had no space on the disk.
    pub(super) fn is_short(&self) -> bool {
        self.shortage.load(Ordering::Relaxed) != 0
    }

    /// The part without space and the reason, if no line has reported it yet.
    pub(crate) fn take_shortage(&self) -> Option<Shortage> {
        let known = self.shortage.load(Ordering::Relaxed);
        if known == 0 || known & REPORTED != 0 {
            return None;
        }
        let before = self.shortage.fetch_or(REPORTED, Ordering::Relaxed);
        (before & REPORTED == 0).then_some(Shortage {
            error: (known & !PARTIAL) as i32,
            is_partial: known & PARTIAL != 0,
        })
    }
}

/// Has the kernel read the slot's records that are no longer in memory. The kernel reads nothing of this
/// mapping ahead.
pub(crate) fn read_ahead(slot: &Slot) {
    let opened = slot.chunk.load(Ordering::Relaxed);
    let chunks = opened.min(slot.chunks.load(Ordering::Relaxed)) as usize;
    let base = slot.base.load(Ordering::Relaxed);
    sys::memory::read_ahead(chunk::at_address(base), chunks * CHUNK);
}

/// Whether a slot's owner is in its first chunk and has not used more than the bytes brought in at the start.
fn is_idle(slot: &Slot) -> bool {
    let base = slot.base.load(Ordering::Relaxed);
    slot.cursor.load(Ordering::Relaxed).wrapping_sub(base) < FIRST as u64
}

/// Brings the first bytes of the chunk behind `chunks` others into memory. The chunk has space.
fn bring_in(slot: &Slot, chunks: u64, length: usize) {
    let at = slot.base.load(Ordering::Relaxed) + chunks * CHUNK as u64;
    let _ = sys::memory::populate(chunk::at_address(at), length);
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use crate::ring::Options;
    #[cfg(not(miri))]
    use crate::ring::layout::FUNCTIONS_STEP;
    use std::ffi::CString;

    /// A ring in a file, with `regions` regions of eight chunks.
    pub(in crate::ring) fn ring(name: &str, regions: u64) -> Ring {
        let path = std::env::temp_dir().join(format!("fdr-space-{name}-{}", std::process::id()));
        let path = CString::new(path.to_string_lossy().into_owned()).expect("no NUL");
        // Miri maps no files.
        let path = cfg!(not(interpreted)).then(|| &*Box::leak(path.into_boxed_c_str()));
        let options = Options::of_chunks(8, 8 * regions);
        let (ring, trouble) = Ring::create(path, &options).expect("addresses");
        assert_eq!(trouble, None);
        // The mapping stays.
        ring.path().into_iter().for_each(sys::file::unlink);
        ring
    }

    fn ready_chunks(slot: &Slot) -> u32 {
        slot.chunks_with_space.load(Ordering::Relaxed)
    }

    /// How many bytes of a ring can be read and written, and in how many mappings it is. True if a core dump would
    /// have any of it.
    #[cfg(not(miri))]
    pub(in crate::ring) fn mapped(ring: &Ring) -> (usize, usize, bool) {
        let all = ring.base.addr()..ring.base.addr() + ring.layout.length;
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("our mappings");
        let (mut accessible, mut mappings, mut dumped) = (0, 0, false);
        let mut inside = false;
        for line in smaps.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let Some((from, to)) = word.split_once('-') else {
                dumped |= inside && word == "VmFlags:" && !rest.split(' ').any(|flag| flag == "dd");
                continue;
            };
            let number = |text| usize::from_str_radix(text, 16).expect("an address");
            let (from, to) = (number(from).max(all.start), number(to).min(all.end));
            inside = from < to;
            if inside {
                mappings += 1;
                accessible += if rest.starts_with("rw") { to - from } else { 0 };
            }
        }
        (accessible, mappings, dumped)
    }

    #[test]
    #[cfg(not(miri))]
    fn parts_without_space_are_out_of_reach() {
        let in_file = ring("accessible", 1000);
        let options = Options::of_chunks(8, 8000);
        let (in_memory, trouble) = Ring::create(Some(c"/nowhere/x"), &options).expect("addresses");
        assert_eq!(trouble, Some(libc::ENOENT));
        for ring in [in_file, in_memory] {
            let head = ring.layout.first_part().next_multiple_of(CHUNK);
            assert_eq!(mapped(&ring), (head, 2, false));
            let slot = ring.claim().expect("a slot");
            assert_eq!(mapped(&ring), (head + CHUNK, 4, false));
            assert!(ring.extend(slot, 1) && ring.extend(slot, 2));
            assert_eq!(
                (ready_chunks(slot), mapped(&ring)),
                (3, (head + 3 * CHUNK, 4, false))
            );
            // Two mappings more.
            assert!(ring.claim().is_some());
            assert_eq!(mapped(&ring), (head + 4 * CHUNK, 6, false));
            // The function table's next part lies behind its first.
            assert!(ring.give_space(ring.layout.first_part(), FUNCTIONS_STEP));
            let more = (ring.layout.first_part() + FUNCTIONS_STEP).next_multiple_of(CHUNK) - head;
            assert_eq!(mapped(&ring), (head + more + 4 * CHUNK, 6, false));
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn regions_beyond_a_number_are_few_mappings() {
        const MORE: u64 = 100;
        let ring = ring("many", SEPARATE as u64 + MORE);
        for _ in 0..SEPARATE as u64 + MORE {
            assert!(ring.claim().is_some());
        }
        let (accessible, mappings, _) = mapped(&ring);
        assert_eq!(mappings, 2 + 2 * SEPARATE + 1);
        let head = ring.layout.first_part().next_multiple_of(CHUNK);
        let wanted = head + SEPARATE * CHUNK + MORE as usize * ring.layout.region_size;
        assert_eq!(accessible, wanted);
    }

    #[test]
    fn regions_get_further_chunks_on_demand() {
        let ring = ring("extend", 4);
        let slot = ring.claim().expect("a slot");
        assert_eq!(ready_chunks(slot), 1);
        assert!(ring.extend(slot, 1));
        assert_eq!(ready_chunks(slot), 2);
        // Twice is no harm.
        assert!(ring.extend(slot, 1));
        assert_eq!((ready_chunks(slot), ring.take_shortage()), (2, None));
    }

    #[test]
    fn the_dumper_is_ahead_of_who_records_much() {
        let ring = ring("ahead", 4);
        let (idle, lively) = (ring.claim().expect("a slot"), ring.claim().expect("a slot"));
        assert!(ring.extend(lively, 1));
        lively.chunk.store(2, Ordering::Relaxed);
        let mut brought = Vec::new();
        ring.look_ahead(&mut brought, true, || false);
        assert_eq!((ready_chunks(idle), ready_chunks(lively)), (1, 8));
        assert_eq!(brought, [0, 8]);
        // In its first chunk, but beyond what it got at once.
        idle.cursor.fetch_add(FIRST as u64, Ordering::Relaxed);
        idle.chunk.store(1, Ordering::Relaxed);
        ring.look_ahead(&mut brought, true, || false);
        assert_eq!((ready_chunks(idle), brought), (2, vec![2, 8]));
    }

    #[test]
    fn spares_leave_the_last_slots_alone() {
        let ring = ring("spares", 8);
        ring.prepare_spares(3);
        assert_eq!(ring.slots().count(), 3);
        ring.prepare_spares(usize::MAX);
        assert_eq!(ring.slots().count(), 6);
        for _ in 0..8 {
            assert!(ring.claim().is_some());
        }
        assert!(ring.claim().is_none() && !ring.has_room());
    }

    #[test]
    #[cfg(not(miri))]
    fn a_region_grows_without_a_descriptor() {
        use std::os::unix::fs::FileExt;
        let mut ring = ring("touched", 2);
        let slot = ring.claim().expect("a slot");
        let file = ring.file.expect("a file");
        ring.file = Some(file.closed());
        for opened in 1..8 {
            assert!(ring.extend(slot, opened));
            assert_eq!(u64::from(ready_chunks(slot)), opened + 1);
        }
        assert_eq!(ring.take_shortage(), None);
        let place = chunk::place(slot, 8);
        // SAFETY: an aligned chunk of the region, which no other code uses.
        unsafe { chunk::at_address::<u64>(place.start).write(0x0123_4567_89ab_cdef) };
        // SAFETY: the test's own descriptor, which lives as long as the process.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file.raw()) };
        let file = std::fs::File::from(file.try_clone_to_owned().expect("a second descriptor"));
        let mut word = [0; 8];
        let offset = (place.start as usize - ring.base.addr()) as u64;
        file.read_exact_at(&mut word, offset).expect("read");
        assert_eq!(u64::from_le_bytes(word), 0x0123_4567_89ab_cdef);
    }

    #[test]
    #[cfg(not(miri))]
    fn old_kernels_open_the_file_for_a_moment() {
        let mut ring = ring("apart", 2);
        let slot = ring.claim().expect("a slot");
        let (file, path) = (ring.file.expect("a file"), ring.path().expect("a path"));
        let from = ring.offset_of(slot, 1);
        ring.file = Some(file.closed());
        assert_eq!(
            ring.allocate_apart(from, CHUNK, Descriptor::allocate),
            Err(libc::ENOENT)
        );
        // A name for the file again, and one for another file.
        let named = |fd: i32| {
            let from = CString::new(format!("/proc/self/fd/{fd}")).expect("no NUL");
            let (at, how) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
            // SAFETY: both paths are NUL-terminated.
            unsafe { libc::linkat(at, from.as_ptr(), at, path.as_ptr(), how) }
        };
        std::fs::write(path.to_str().expect("text"), "of the program").expect("written");
        assert_eq!(
            ring.allocate_apart(from, CHUNK, Descriptor::allocate),
            Err(libc::ESTALE)
        );
        sys::file::unlink(path);
        if named(file.raw()) == 0 {
            assert_eq!(
                ring.allocate_apart(from, CHUNK, Descriptor::allocate),
                Ok(())
            );
            sys::file::unlink(path);
        }
    }
}
