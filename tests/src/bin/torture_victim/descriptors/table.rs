//! The table of descriptors, by plain system calls. All changes of it are made with the table's lock held, so that no
//! thread of the program takes a number from another one. Only the recorder knows nothing of the lock.

use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fdr_tests::support::truth::descriptors::WRONG_FILE;

use super::PATIENCE;

/// The round that the program is in.
pub(crate) static ROUND: AtomicU64 = AtomicU64::new(0);

/// Says what is wrong, and ends the process at once.
pub(crate) fn wrong(what: &str) -> ! {
    let text = format!("round {}: {what}", ROUND.load(Ordering::Relaxed));
    let _ = std::fs::write(WRONG_FILE, text);
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(3) }
}

/// The same unless all is right.
pub(crate) fn ensure(is_right: bool, what: impl FnOnce() -> String) {
    if !is_right {
        wrong(&what());
    }
}

/// The result of a system call, which must not have failed.
pub(crate) fn done(result: impl Into<i64>, call: &str) -> i64 {
    let result = result.into();
    ensure(result >= 0, || {
        format!("{call}: {}", io::Error::last_os_error())
    });
    result
}

/// The lock that a thread holds while it changes the table.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    static TABLE: Mutex<()> = Mutex::new(());
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that may be no descriptor at all.
pub(crate) type Number = i32;

/// Lets the process have that many descriptors, where it may.
pub(crate) fn widen(count: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for reading and writing.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = count.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// Opens a file, at the lowest number that is free.
pub(crate) fn open(path: &CStr, flags: i32) -> Number {
    let flags = flags | libc::O_RDWR | libc::O_CREAT;
    // SAFETY: the path ends with NUL.
    done(unsafe { libc::open(path.as_ptr(), flags, 0o640) }, "open") as Number
}

/// Closes a number, whatever it is.
pub(crate) fn close(number: Number) {
    // SAFETY: users of this descriptor must bear that it is closed. The test wants exactly this.
    unsafe { libc::close(number) };
}

/// Closes all from this number on.
pub(crate) fn close_from(number: Number) {
    // SAFETY: as for `close`.
    unsafe { libc::syscall(libc::SYS_close_range, number, u32::MAX, 0) };
}

/// Puts one over the other.
pub(crate) fn dup_over(from: Number, to: Number) {
    // SAFETY: as for `close`.
    done(unsafe { libc::dup2(from, to) }, "dup2");
}

/// Device, inode, length and mode.
pub(crate) fn look(number: Number) -> Option<(u64, u64, u64, u32)> {
    let mut known = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `known` is valid for writing, and zeros are a `stat`.
    let known = unsafe {
        if libc::fstat(number, known.as_mut_ptr()) != 0 {
            return None;
        }
        known.assume_init()
    };
    Some((
        known.st_dev,
        known.st_ino,
        known.st_size.cast_unsigned(),
        known.st_mode,
    ))
}

/// Appends to a file that is open for that, or writes at a place.
pub(crate) fn write(number: Number, bytes: &[u8], offset: Option<u64>) {
    let data = bytes.as_ptr().cast();
    // SAFETY: `bytes` are valid for reading.
    let written = unsafe {
        match offset {
            Some(offset) => libc::pwrite(number, data, bytes.len(), offset.cast_signed()),
            None => libc::write(number, data, bytes.len()),
        }
    };
    let written = done(written as i64, "write");
    ensure(written == bytes.len() as i64, || {
        format!("{written} bytes written")
    });
}

/// Reads from a place, up to the end.
pub(crate) fn read(number: Number, bytes: &mut [u8], offset: u64) -> usize {
    let (data, offset) = (bytes.as_mut_ptr().cast(), offset.cast_signed());
    // SAFETY: `bytes` are valid for writing.
    let count = unsafe { libc::pread(number, data, bytes.len(), offset) };
    done(count as i64, "pread") as usize
}

/// Both ends of a new pipe.
pub(crate) fn pipe() -> [Number; 2] {
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writing.
    done(unsafe { libc::pipe(ends.as_mut_ptr()) }, "pipe");
    ends
}

/// Whether the lock of a file could be had.
pub(crate) fn take(number: Number) -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::flock(number, libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Closes a pipe's reader. Returns whether it has seen the end of the pipe soon, because all writers are closed.
pub(crate) fn close_at_end(reader: Number) -> bool {
    let mut poll = libc::pollfd {
        fd: reader,
        events: 0,
        revents: 0,
    };
    let count = loop {
        // SAFETY: one valid `pollfd`.
        let count = unsafe { libc::poll(&raw mut poll, 1, PATIENCE.as_millis() as i32) };
        if count >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break count;
        }
    };
    close(reader);
    count == 1 && poll.revents & libc::POLLHUP != 0
}
