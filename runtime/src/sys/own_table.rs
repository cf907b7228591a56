//! Descriptor tables of the recorder's own. A program may close any descriptor, or open its own file under a number
//! that the recorder holds. So the recorder opens and writes files only in threads that do not share the program's
//! table. These are the dumper and the thread of the stream. If there is no dumper, it is a thread that exists for one
//! call ([`with_own_table`]). Such a table has nothing of the program, so no pipe, socket or lock stays open because of
//! the recorder.
//!
//! A descriptor is valid in one table alone. So each stored descriptor comes with the number of its table.
//!
//! Sources: close_range(2), unshare(2), clone(2).

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::raw;

/// The threads that have tables of the recorder.
static THREADS: [TableOwner; 64] = [const {
    TableOwner {
        thread: AtomicU64::new(0),
        stands_in_for: AtomicU32::new(0),
    }
}; 64];

/// A thread that has such a table.
struct TableOwner {
    /// Thread << 32 | table. 0 = this place is free.
    thread: AtomicU64,
    /// The thread that waits for it, if it lives for one call.
    stands_in_for: AtomicU32,
}

/// The number of the last table.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Whether the process runs in valgrind, which ends a program that makes a thread without its library.
static IN_VALGRIND: AtomicBool = AtomicBool::new(false);

/// The number of a descriptor table of the recorder. 0 = none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorTable(u32);

impl DescriptorTable {
    /// The program's own table, as far as the recorder knows.
    pub(crate) const NONE: DescriptorTable = DescriptorTable(0);

    /// A table that no thread has.
    pub(crate) const GONE: DescriptorTable = DescriptorTable(u32::MAX);

    /// The table of the calling thread. Async-signal-safe.
    pub(crate) fn mine() -> DescriptorTable {
        let known = TableOwner::find(raw::thread());
        DescriptorTable(known.map_or(0, |known| known.thread.load(Ordering::Relaxed) as u32))
    }

    /// Notes that the calling thread shares this table. False if there is no place to note it. Async-signal-safe.
    pub(crate) fn share(self) -> bool {
        self.note(0)
    }

    /// Notes a new number for the table of the calling thread, which stands in for another thread.
    fn note_new(stands_in_for: u32) -> bool {
        DescriptorTable(LAST.fetch_add(1, Ordering::Relaxed) + 1).note(stands_in_for)
    }

    fn note(self, stands_in_for: u32) -> bool {
        let me = u64::from(raw::thread()) << 32 | u64::from(self.0);
        // A free place is that of the thread 0.
        while let Some(free) = TableOwner::find(0) {
            let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            if free.thread.compare_exchange(0, me, done, failed).is_ok() {
                free.stands_in_for.store(stands_in_for, Ordering::Relaxed);
                return true;
            }
        }
        false
    }
}

impl TableOwner {
    #[inline(never)]
    fn find(thread: u32) -> Option<&'static TableOwner> {
        let is_its =
            |known: &&TableOwner| known.thread.load(Ordering::Relaxed) >> 32 == u64::from(thread);
        THREADS.iter().find(is_its)
    }
}

/// The kernel's id of the calling thread. In [`with_own_table`] a thread stands in for another one, and the result is
/// the id of that other thread. Async-signal-safe.
pub(crate) fn original_thread() -> u32 {
    let me = raw::thread();
    let original = TableOwner::find(me).map(|known| known.stands_in_for.load(Ordering::Relaxed));
    original.filter(|&original| original != 0).unwrap_or(me)
}

/// Whether the calling thread has a descriptor table of the recorder. Async-signal-safe.
pub(crate) fn has_own_table() -> bool {
    DescriptorTable::mine() != DescriptorTable::NONE
}

/// The thread with that id has ended, or is about to. Async-signal-safe.
pub(crate) fn forget_own_table(thread: u32) {
    if let Some(known) = TableOwner::find(thread) {
        known.thread.store(0, Ordering::Relaxed);
    }
}

/// Called in the child of a fork, which has none of these threads. Async-signal-safe.
pub(crate) fn in_child() {
    for known in &THREADS {
        known.thread.store(0, Ordering::Relaxed);
    }
}

/// Notes whether the process runs in valgrind. Not async-signal-safe.
pub(crate) fn look_for_valgrind() {
    let preloaded = super::process::variable(c"LD_PRELOAD").unwrap_or_default();
    let name = b"vgpreload";
    let mut parts = preloaded.as_encoded_bytes().windows(name.len());
    let is_there = parts.any(|part| part == name);
    IN_VALGRIND.store(is_there, Ordering::Relaxed);
}

/// Gives the calling thread an empty descriptor table, with /dev/null as its standard streams. `keeps_stdout`: the
/// standard output stays the program's. Async-signal-safe.
///
/// # Errors
/// errno: the thread still shares the table of the program.
fn take_own_table(keeps_stdout: bool) -> Result<(), i32> {
    let first = match keeps_stdout {
        true => libc::STDOUT_FILENO as u32 + 1,
        false => 0,
    };
    let is_closed = keeps_stdout && raw::identity(libc::STDOUT_FILENO) == Err(libc::EBADF);
    // In one step no descriptor of the program is copied. A container may forbid `unshare`, but not this call.
    if raw::close_from(first, true).is_err() {
        raw::unshare_descriptors()?;
        if raw::close_from(first, false).is_err() {
            raw::close_each_from(first);
        }
    }
    raw::close(libc::STDIN_FILENO);
    // The lowest free numbers are taken, so this ends with the first one above the standard streams.
    while let Ok(fd) = raw::open_null() {
        if fd > libc::STDERR_FILENO {
            raw::close(fd);
            break;
        }
    }
    // A write to stdout must be an error.
    if is_closed {
        raw::close(libc::STDOUT_FILENO);
    }
    Ok(())
}

/// Runs `body` in a thread that has a descriptor table of its own, and that lives for this call. The calling thread
/// waits, so the two use one stack and one thread storage in turn. Threads that `body` makes share the table, which
/// lives as long as they do. All signals except faults are held back. A thread that already has such a table runs
/// `body` itself. Async-signal-safe, if `body` is. It touches no thread storage.
///
/// In valgrind, `body` runs in the calling thread, beside the program's files.
///
/// # Errors
/// errno: `body` did not run. ECANCELED: it did not come to its end, because the kernel ended the thread.
pub(crate) fn with_own_table<T>(body: impl FnOnce() -> T) -> Result<T, i32> {
    with_own_table_and(false, body)
}

/// As [`with_own_table`]. `keeps_stdout`: the thread also has the program's standard output.
///
/// # Errors
/// As above.
pub(crate) fn with_own_table_and<T>(
    keeps_stdout: bool,
    body: impl FnOnce() -> T,
) -> Result<T, i32> {
    // Only this much is compiled for each `body`.
    let (mut body, mut result) = (Some(body), None);
    run_with_own_table(keeps_stdout, &mut || {
        result = body.take().map(|body| body());
    })?;
    result.ok_or(libc::ECANCELED)
}

#[inline(never)]
fn run_with_own_table(keeps_stdout: bool, body: &mut dyn FnMut()) -> Result<(), i32> {
    if has_own_table() {
        body();
        return Ok(());
    }
    let original = raw::thread();
    let in_valgrind = IN_VALGRIND.load(Ordering::Relaxed);
    let mut outcome = Err(libc::ECANCELED);
    let mut run = || {
        // From here on a fault counts as one of the waiting thread.
        outcome = DescriptorTable::note_new(original)
            .then_some(())
            .ok_or(libc::EAGAIN);
        if outcome.is_ok() && !in_valgrind {
            outcome = take_own_table(keeps_stdout);
        }
        if outcome.is_ok() {
            body();
        }
    };
    if in_valgrind {
        run();
        forget_own_table(original);
    } else {
        run_in_thread(&mut run)?;
    }
    outcome
}

fn run_in_thread(mut call: &mut dyn FnMut()) -> Result<(), i32> {
    extern "C" fn begin(call: *mut libc::c_void) {
        // SAFETY: `run_in_thread` passes its own variable, and waits for this thread.
        let call = unsafe { &mut *call.cast::<&mut dyn FnMut()>() };
        call();
    }
    let old = raw::mask(libc::SIG_BLOCK, raw::ALL_BUT_FAULTS);
    // SAFETY: `begin` has the right type and gets what it expects. It does not unwind: a panic in it aborts.
    let thread = unsafe { raw::call_in_thread(begin, (&raw mut call).cast()) };
    raw::mask(libc::SIG_SETMASK, old);
    thread.map(forget_own_table)
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    fn identity(fd: i32) -> Option<(u64, u64)> {
        // SAFETY: all zeros is a valid `stat`, which is valid for writing.
        unsafe {
            let mut stat: libc::stat = core::mem::zeroed();
            (libc::fstat(fd, &raw mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
        }
    }

    #[test]
    fn its_files_are_not_the_programs() {
        let path = std::env::temp_dir().join(format!("fdr-own-table-{}", std::process::id()));
        let theirs = File::open("/proc/self/exe").expect("a file");
        let number = theirs.as_raw_fd();
        let (inside, opened) = with_own_table(|| {
            assert!(has_own_table());
            let inside = identity(number);
            let mut file = File::create(&path).expect("made");
            file.write_all(b"ours").expect("written");
            (inside, file.as_raw_fd())
        })
        .expect("a thread");
        assert!(!has_own_table());
        assert_eq!(inside, None, "nothing of the program is there");
        assert_eq!(opened, 3, "behind the standard streams");
        assert!(identity(number).is_some(), "the program's stays open");
        let mut text = String::new();
        let mut file = File::open(&path).expect("there");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "ours");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn pipes_of_the_program_are_not_held_open() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two numbers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [reader, writer] = ends;
        let read = with_own_table(|| {
            // SAFETY: the program's own number, closed in the program's table while this thread lives.
            unsafe { libc::close(writer) }
        });
        assert_eq!(read, Ok(-1), "it is not in this table");
        // SAFETY: as above.
        unsafe { libc::close(writer) };
        let mut byte = 0_u8;
        // SAFETY: the byte is valid for writing.
        let end = unsafe { libc::read(reader, (&raw mut byte).cast(), 1) };
        assert_eq!(end, 0, "the end of the pipe");
        // SAFETY: as above.
        unsafe { libc::close(reader) };
    }

    #[test]
    fn a_killed_thread_is_an_error() {
        // SAFETY: the thread is one of ours. No code refers to its stack.
        let ended = with_own_table(|| unsafe { libc::syscall(libc::SYS_exit, 0) });
        assert_eq!(ended, Err(libc::ECANCELED));
        assert_eq!(with_own_table(|| 7), Ok(7));
    }

    #[test]
    fn many_at_once() {
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let text = with_own_table(|| vec![number; 1000]);
                        assert_eq!(text, Ok(vec![number; 1000]));
                    }
                });
            }
        });
    }
}
