//! Events of the kernel's performance counters: the context switches of this process's threads, and where the threads
//! are from time to time. The kernel writes them into buffers, several for each CPU. The mapping of a buffer keeps its
//! event open, so no descriptor is needed. Only [`Events`] holds descriptors, in the table of the dumper.
//!
//! Source: perf_event_open(2).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use fdr_formats::model::FAULTS_OF_SAMPLE;

const TYPE_SOFTWARE: u64 = 1;
const COUNT_TASK_CLOCK: u64 = 1;
const COUNT_PAGE_FAULTS: u64 = 2;
const COUNT_DUMMY: u64 = 9;
/// CPU time from sample to sample: 99 samples a second, so that they coincide with no timer of the system.
const SAMPLE_NS: u64 = 1_000_000_000 / 99;
/// The fields behind a record's own fields: the thread, the time, and the CPU. In a sample they follow the address.
const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 7;
const ADDRESS: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// Threads of this process, and no child process. Linux 5.13.
const INHERIT_THREAD: u64 = 1 << 35;
/// Bytes of the attributes up to the fields that Linux 5.0 has.
const ATTRIBUTES: usize = 112;
const CLOSE_ON_EXEC: usize = 1 << 3;
/// `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: u64 = 0x2405;

const LOST: u32 = 2;
const EXIT: u32 = 4;
const SAMPLED: u32 = 9;
const SWITCH: u32 = 14;
const SWITCHED_OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;

/// Bytes of the largest record that is decoded.
const RECORD: usize = 64;
/// The places of the positions in the first page: head and tail, then the data's offset and size.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const DATA: usize = 1040;
const SIZE: usize = 1048;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The thread got the CPU.
    Begins,
    /// The system took the CPU from the thread.
    Preempted,
    /// The thread waits.
    Waits,
    /// The thread ended.
    Ended,
    /// Events of this buffer were lost before.
    Lost,
    /// The thread was at an address.
    Was,
}

/// The kind of events in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Context switches.
    Switches,
    /// Where threads are, 99 times for each second of their processor time.
    Time,
    /// Where threads touch pages for the first time: one in `FAULTS_OF_SAMPLE`.
    PageFaults,
}

impl Watched {
    /// The kernel's counter of the event, and how many events make a sample. 0: the buffer has no samples.
    fn counted(self) -> (u64, u64) {
        match self {
            Watched::Switches => (COUNT_DUMMY, 0),
            Watched::Time => (COUNT_TASK_CLOCK, SAMPLE_NS),
            Watched::PageFaults => (COUNT_PAGE_FAULTS, FAULTS_OF_SAMPLE),
        }
    }

    /// The number of pages of a buffer, besides the page before it that holds its positions. The further numbers are
    /// tried if the user may not lock that much memory.
    fn pages(self) -> &'static [usize] {
        match self {
            Watched::Switches => &[64, 16, 4],
            Watched::Time => &[1],
            Watched::PageFaults => &[4, 1],
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// CLOCK_MONOTONIC_RAW.
    pub(crate) ns: u64,
    pub(crate) cpu: u32,
    /// For samples: the address of the code.
    pub(crate) address: u64,
    /// For [`EventKind::Lost`]: how many events.
    pub(crate) lost: u64,
}

/// A buffer of a CPU.
pub(crate) struct Buffer {
    pub(crate) watched: Watched,
    positions: NonNull<u8>,
    /// Bytes of the mapping.
    length: usize,
    /// The time of the last event, CLOCK_MONOTONIC_RAW.
    pub(crate) last_ns: AtomicU64,
}

// SAFETY: the mapping is shared memory, which belongs to no thread.
unsafe impl Send for Buffer {}
// SAFETY: the positions are read and written as atomics. `drain` says what its caller has to care for.
unsafe impl Sync for Buffer {}

/// The buffers of all CPUs. Null: there are none. They are never freed.
static BUFFERS: AtomicPtr<Vec<Buffer>> = AtomicPtr::new(core::ptr::null_mut());

/// The buffers that [`keep`] got. Async-signal-safe.
pub(crate) fn buffers() -> &'static [Buffer] {
    let list = BUFFERS.load(Ordering::Acquire);
    // SAFETY: the list is never freed and never changed.
    unsafe { list.as_ref() }.map_or(&[], Vec::as_slice)
}

/// Keeps the buffers of all CPUs for as long as the process lives.
pub(crate) fn keep(buffers: Vec<Buffer>) {
    // Release: pairs with the Acquire in `buffers`.
    BUFFERS.store(Box::into_raw(Box::new(buffers)), Ordering::Release);
}

/// Called in the child of a fork, where the kernel maps no buffers. Async-signal-safe.
pub(crate) fn forget() {
    BUFFERS.store(core::ptr::null_mut(), Ordering::Release);
}

/// Forgets the buffers, and puts anonymous memory in their place. A handler that reads them at this moment finds zeros.
/// The events end with their last descriptor.
pub(crate) fn discard() {
    let list = BUFFERS.swap(core::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: the list is never freed and never changed.
    let buffers = unsafe { list.as_ref() }.map_or(&[][..], Vec::as_slice);
    buffers.iter().for_each(Buffer::discard);
}

/// The same for the buffers of samples. They stay in the list, and are empty.
pub(crate) fn discard_samples() {
    let samples = buffers().iter();
    samples
        .filter(|buffer| buffer.watched != Watched::Switches)
        .for_each(Buffer::discard);
}

/// The process's limits on the numbers of descriptors, and on the bytes that it may lock in memory.
pub(crate) fn limits() -> [u64; 2] {
    [libc::RLIMIT_NOFILE, libc::RLIMIT_MEMLOCK].map(|which| {
        // SAFETY: all zeros is a valid `rlimit`.
        let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
        // SAFETY: `limit` is valid for writing.
        let result = unsafe { libc::getrlimit(which, &raw mut limit) };
        if result == 0 { limit.rlim_cur } else { 0 }
    })
}

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call has no precondition.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize
}

/// How many CPUs the machine may have.
pub(crate) fn cpus() -> usize {
    // SAFETY: the call has no precondition.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// Makes the kernel record these events of `thread`, and of all threads that it makes from now on, on that CPU. The
/// calling thread has a descriptor table of its own.
///
/// # Errors
/// The errno. ENODEV: there is no such CPU now.
pub(crate) fn watch(thread: u32, cpu: usize, watched: Watched) -> Result<Buffer, i32> {
    let fd = open(thread, cpu, watched, INHERIT_THREAD).or_else(|error| match error {
        // An older kernel. `drain` tells whose events are of this process.
        libc::EINVAL | libc::E2BIG => open(thread, cpu, watched, 0),
        other => Err(other),
    })?;
    let buffer = map(fd, watched, watched.pages());
    // SAFETY: the descriptor is ours. No other code knows it.
    unsafe { libc::close(fd) };
    buffer
}

/// Events of threads that existed before the recorder asked for them. They end once this is dropped, in the thread that
/// made it, and their buffers are unmapped. The descriptors are in that thread's table.
#[derive(Default)]
pub(crate) struct Events {
    descriptors: Vec<i32>,
}

impl Events {
    /// Makes the kernel record these events of all `threads`, and of the threads that they make from now on. Makes a
    /// buffer of `pages` pages for each CPU. A thread that has ended is left out.
    ///
    /// # Errors
    /// The errno. EINVAL: the kernel is older than Linux 5.13, and would also record child processes.
    pub(crate) fn watch(
        threads: &[u32],
        watched: Watched,
        pages: usize,
    ) -> Result<(Events, Vec<Buffer>), i32> {
        let (mut events, mut buffers) = (Events::default(), Vec::new());
        // The first event of each CPU has the buffer of the others.
        let mut first = vec![None; cpus()];
        for &thread in threads {
            for (cpu, first) in first.iter_mut().enumerate() {
                let fd = match open(thread, cpu, watched, INHERIT_THREAD) {
                    Ok(fd) => fd,
                    // The CPU is off.
                    Err(libc::ENODEV) => continue,
                    Err(libc::ESRCH) => break,
                    Err(error) => return Err(error),
                };
                events.descriptors.push(fd);
                match *first {
                    Some(first) => control(fd, SET_OUTPUT, first)?,
                    None => {
                        buffers.push(map(fd, watched, &[pages])?);
                        *first = Some(fd);
                    }
                }
            }
        }
        Ok((events, buffers))
    }

    /// Holds the other events, too.
    pub(crate) fn append(&mut self, mut other: Events) {
        self.descriptors.append(&mut other.descriptors);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for &fd in &self.descriptors {
            // SAFETY: the descriptor is ours. No other code knows it.
            unsafe { libc::close(fd) };
        }
    }
}

fn control(fd: i32, request: u64, value: i32) -> Result<(), i32> {
    // SAFETY: the requests above take a number, and no pointer.
    match unsafe { libc::ioctl(fd, request as _, value) } {
        0 => Ok(()),
        _ => Err(super::errno()),
    }
}

fn open(thread: u32, cpu: usize, watched: Watched, also: u64) -> Result<i32, i32> {
    let (count, period) = watched.counted();
    let (records, sample) = match watched {
        Watched::Switches => (TASK | CONTEXT_SWITCH, SAMPLE),
        _ => (0, SAMPLE | ADDRESS),
    };
    let flags =
        INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID | records | also;
    let clock = (libc::CLOCK_MONOTONIC_RAW as u64) << 32;
    let mut attributes = [0_u64; ATTRIBUTES / 8];
    attributes[0] = TYPE_SOFTWARE | (ATTRIBUTES as u64) << 32;
    attributes[1] = count;
    attributes[2] = period;
    attributes[3] = sample;
    attributes[5] = flags;
    attributes[11] = clock;
    // SAFETY: the attributes say their size, and are valid for reading. The kernel keeps no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            thread,
            cpu,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        Ok(fd) if fd >= 0 => Ok(fd),
        _ => Err(super::errno()),
    }
}

/// Maps the buffer of an event, with the first of these numbers of pages that the user may lock.
fn map(fd: i32, watched: Watched, pages: &[usize]) -> Result<Buffer, i32> {
    let mut mapped = Err(libc::EPERM);
    for &pages in pages {
        mapped = map_pages(fd, watched, pages);
        if mapped.is_ok() {
            break;
        }
    }
    mapped
}

fn map_pages(fd: i32, watched: Watched, pages: usize) -> Result<Buffer, i32> {
    let length = (pages + 1) * page_size();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses addresses that no mapping uses.
    let at = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            length,
            access,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(super::errno());
    }
    NonNull::new(at.cast())
        .map(|positions| Buffer {
            watched,
            positions,
            length,
            last_ns: AtomicU64::new(0),
        })
        .ok_or(libc::ENOMEM)
}

impl Drop for Buffer {
    /// Ends the event, too.
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and there is no reference into it.
        unsafe { libc::munmap(self.positions.as_ptr().cast(), self.length) };
    }
}

impl Buffer {
    fn discard(&self) {
        // SAFETY: the mapping is ours. What reads it bears any contents.
        let _ = unsafe { super::memory::map_anonymous(self.positions.as_ptr(), self.length) };
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the word is in the first page of the mapping, which lives as long as the buffer, and aligned.
        unsafe { &*self.positions.as_ptr().add(at).cast() }
    }

    /// Passes on the events up to that time that no call has passed on before, and frees their space in the buffer. No
    /// other call may run meanwhile. Returns whether the buffer was full: then later events were lost, and the kernel says
    /// so only with its next event on that CPU. Async-signal-safe.
    pub(crate) fn drain(&self, until_ns: u64, give: &mut dyn FnMut(Event)) -> bool {
        // Acquire: what stands before the head was written before it.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        let size = self.word(SIZE).load(Ordering::Relaxed) as usize;
        let offset = self.word(DATA).load(Ordering::Relaxed) as usize;
        if size == 0 || head.wrapping_sub(tail) > size as u64 {
            tail = head;
        }
        let is_full = head.wrapping_sub(tail) as usize + RECORD > size;
        while tail != head {
            let mut record = [0; RECORD];
            let length = 8.min(head.wrapping_sub(tail) as usize);
            self.copy(offset, size, tail, &mut record[..length]);
            let length = usize::from(u16::from_le_bytes([record[6], record[7]]));
            if length < 8 || length as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            let shown = length.min(RECORD);
            self.copy(offset, size, tail, &mut record[..shown]);
            if let Some(event) = decode(&record[..shown]) {
                if event.ns > until_ns {
                    break;
                }
                give(event);
            }
            tail = tail.wrapping_add(length as u64);
        }
        // Release: the kernel may write there once the bytes have been read.
        self.word(TAIL).store(tail, Ordering::Release);
        is_full
    }

    fn copy(&self, offset: usize, size: usize, at: u64, to: &mut [u8]) {
        for (nth, byte) in to.iter_mut().enumerate() {
            let place = (at as usize).wrapping_add(nth) % size;
            // SAFETY: the place is inside the data. The kernel does not write there before the tail is moved.
            *byte = unsafe { self.positions.as_ptr().add(offset + place).read() };
        }
    }
}

/// Decodes a record. `None`: its kind is not used.
fn decode(record: &[u8]) -> Option<Event> {
    let half = |at: usize| {
        let bytes = record.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let record_type = half(0)?;
    let flags = half(4)? as u16;
    let kind = match record_type {
        LOST => EventKind::Lost,
        EXIT => EventKind::Ended,
        SWITCH if flags & SWITCHED_OUT == 0 => EventKind::Begins,
        SWITCH if flags & PREEMPTED != 0 => EventKind::Preempted,
        SWITCH => EventKind::Waits,
        SAMPLED => EventKind::Was,
        _ => return None,
    };
    // They stand at the end of each record.
    let behind = record.len().checked_sub(24)?;
    let word = |at: usize| Some(u64::from(half(at)?) | u64::from(half(at + 4)?) << 32);
    let ns = word(behind + 8)?;
    let (mut process, mut thread) = (half(behind)?, half(behind + 4)?);
    if record_type == EXIT {
        // Process, its parent, thread, its parent.
        (process, thread) = (half(8)?, half(16)?);
    }
    Some(Event {
        kind,
        process,
        thread,
        ns,
        cpu: half(behind + 16)?,
        address: if kind == EventKind::Was { word(8)? } else { 0 },
        lost: if kind == EventKind::Lost {
            word(16)?
        } else {
            0
        },
    })
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    /// A record typed by hand: kind, flags, its own fields, then process 7, thread 8, time, CPU 3.
    fn typed(kind: u32, flags: u16, own: &[u32]) -> Vec<u8> {
        typed_at(0x10, kind, flags, own)
    }

    /// The same, with the lower half of its time.
    fn typed_at(low: u32, kind: u32, flags: u16, own: &[u32]) -> Vec<u8> {
        let length = (8 + own.len() * 4 + 24) as u32;
        let head = [kind, u32::from(flags) | length << 16];
        let tail = [7, 8, low, 2, 3, 0];
        let words = head.iter().chain(own).chain(&tail);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn records_typed_by_hand() {
        let event = |kind, process, thread| {
            Some(Event {
                kind,
                process,
                thread,
                ns: 0x2_0000_0010,
                cpu: 3,
                address: 0,
                lost: if kind == EventKind::Lost { 5 } else { 0 },
            })
        };
        assert_eq!(decode(&typed(14, 2, &[])), event(EventKind::Begins, 7, 8));
        assert_eq!(
            decode(&typed(14, 1 << 13, &[])),
            event(EventKind::Waits, 7, 8)
        );
        let both = 1 << 13 | 1 << 14;
        assert_eq!(
            decode(&typed(14, both, &[])),
            event(EventKind::Preempted, 7, 8)
        );
        let exit = [70, 71, 80, 81, 1, 1];
        assert_eq!(decode(&typed(4, 0, &exit)), event(EventKind::Ended, 70, 80));
        assert_eq!(
            decode(&typed(2, 0, &[1, 0, 5, 0])),
            event(EventKind::Lost, 7, 8)
        );
        let sample = decode(&typed(9, 2, &[0x20, 1])).expect("a sample");
        assert_eq!(
            (sample.kind, sample.address),
            (EventKind::Was, 0x1_0000_0020)
        );
        assert_eq!((sample.thread, sample.cpu), (8, 3));
        assert_eq!(decode(&typed(5, 0, &[])), None);
        assert_eq!(decode(&typed(14, 0, &[])[..20]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn later_events_stay_in_the_buffer() {
        const PAGE: usize = 4096;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel chooses addresses that no mapping uses.
        let at = unsafe { libc::mmap(core::ptr::null_mut(), 2 * PAGE, access, kind, -1, 0) };
        let positions = NonNull::new(at.cast::<u8>()).expect("memory");
        let buffer = Buffer {
            watched: Watched::Switches,
            positions,
            length: 2 * PAGE,
            last_ns: AtomicU64::new(0),
        };
        let begins = [0x10, 0x20, 0x30].map(|low| typed_at(low, SWITCH, 0, &[]));
        let bytes = begins.concat();
        // SAFETY: the second page is the data's, and no other code has the mapping.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                positions.as_ptr().add(PAGE),
                bytes.len(),
            )
        };
        for (at, value) in [(DATA, PAGE), (SIZE, PAGE), (HEAD, bytes.len())] {
            buffer.word(at).store(value as u64, Ordering::Relaxed);
        }
        let passed_on = |until_ns| {
            let mut times = Vec::new();
            buffer.drain(until_ns, &mut |event| times.push(event.ns as u32));
            times
        };
        assert_eq!(passed_on(0x2_0000_0020), [0x10, 0x20]);
        assert_eq!(passed_on(0x2_0000_002f), [0_u32; 0]);
        assert_eq!(passed_on(u64::MAX), [0x30]);
        assert_eq!(passed_on(u64::MAX), [0_u32; 0]);
        // The largest record that is decoded has no place any more.
        for (bytes, is_full) in [(PAGE - 64, false), (PAGE - 56, true)] {
            for (at, value) in [(TAIL, 0), (HEAD, bytes)] {
                buffer.word(at).store(value as u64, Ordering::Relaxed);
            }
            assert_eq!(buffer.drain(u64::MAX, &mut |_| {}), is_full);
        }
    }
}
