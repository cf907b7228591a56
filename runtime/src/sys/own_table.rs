//! Descriptor tables of the recorder's own. A program may close any descriptor, or open its own file under a number
//! that the recorder holds. So the recorder opens and writes files only in threads that have another table than the
//! program: the dumper and the stream's thread, and, where no dumper exists, a thread that lives for one call
//! ([`with_own_table`]). Such a table has nothing of the program, so no pipe, socket or lock stays open because of the
//! recorder.
//!
//! Sources: close_range(2), unshare(2), clone(2).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::raw;

/// The threads that live with tables of the recorder: dumper, stream, and one for each call of [`with_own_table`] that
/// is under way. 0 = a free place.
static THREADS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// Whether the process runs in valgrind, which ends a program that makes a thread without its library.
static IN_VALGRIND: AtomicBool = AtomicBool::new(false);

/// Whether the calling thread has a descriptor table of the recorder. Async-signal-safe.
pub(crate) fn has_own_table() -> bool {
    let me = raw::thread();
    THREADS.iter().any(|of| of.load(Ordering::Relaxed) == me)
}

/// The calling thread shares such a table, or has taken one. False if there is no place to note it. Async-signal-safe.
pub(crate) fn note_own_table() -> bool {
    let me = raw::thread();
    let take = |of: &AtomicU32| {
        of.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    };
    has_own_table() || THREADS.iter().any(take)
}

/// The thread with that id has ended, or is about to. Async-signal-safe.
pub(crate) fn forget_own_table(thread: u32) {
    for of in &THREADS {
        let _ = of.compare_exchange(thread, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Called in the child of a fork, which has none of these threads. Async-signal-safe.
pub(crate) fn in_child() {
    for of in &THREADS {
        of.store(0, Ordering::Relaxed);
    }
}

/// Notes whether the process runs in valgrind. Not async-signal-safe.
pub(crate) fn look_for_valgrind() {
    let preloaded = super::process::variable(c"LD_PRELOAD").unwrap_or_default();
    let is_there = preloaded.to_string_lossy().contains("vgpreload");
    IN_VALGRIND.store(is_there, Ordering::Relaxed);
}

/// Gives the calling thread an empty descriptor table, with /dev/null as its standard streams. `keeps_stdout`: the
/// standard output stays the program's. Async-signal-safe.
///
/// # Errors
/// errno: the thread still shares the table of the program.
pub(crate) fn take_own_table(keeps_stdout: bool) -> Result<(), i32> {
    let first = match keeps_stdout {
        true => libc::STDOUT_FILENO as u32 + 1,
        false => 0,
    };
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
    Ok(())
}

/// Runs `body` in a thread that has a descriptor table of its own, and lives for this call. The calling thread waits, so
/// the two use one stack and one thread storage in turn. Signals but faults are held back. A thread that has such a
/// table runs `body` itself. Async-signal-safe, if `body` is. It touches no thread storage.
///
/// # Errors
/// errno: `body` did not run. ECANCELED: it did not come to its end, because the kernel ended the thread.
pub(crate) fn with_own_table<T>(body: impl FnOnce() -> T) -> Result<T, i32> {
    if has_own_table() {
        return Ok(body());
    }
    let mut body = Some(body);
    let mut outcome = Err(libc::ECANCELED);
    run_in_thread(&mut || {
        let ready = take_own_table(false).and_then(|()| match note_own_table() {
            true => Ok(()),
            false => Err(libc::EAGAIN),
        });
        match (ready, body.take()) {
            (Ok(()), Some(body)) => outcome = Ok(body()),
            (Err(error), _) => outcome = Err(error),
            (Ok(()), None) => {}
        }
    })?;
    outcome
}

#[inline(never)]
fn run_in_thread(mut call: &mut dyn FnMut()) -> Result<(), i32> {
    extern "C" fn begin(call: *mut libc::c_void) {
        // SAFETY: `run_in_thread` passes its own variable, and waits for this thread.
        let call = unsafe { &mut *call.cast::<&mut dyn FnMut()>() };
        call();
    }
    if IN_VALGRIND.load(Ordering::Relaxed) {
        return Err(libc::ENOSYS);
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
    fn a_pipe_of_the_program_is_not_held_open() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two numbers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [reader, writer] = ends;
        let read = with_own_table(|| {
            // SAFETY: the program's own number, closed in the program's table while this thread lives.
            let closed = unsafe { libc::close(writer) };
            closed
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
    fn a_thread_that_the_kernel_ends_is_an_error() {
        let ended = with_own_table(|| super::super::thread::exit(0));
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
