//! Replacements for the C library while Miri interprets the tests (`cargo xtask miri`). Miri maps only anonymous
//! memory, and changes no access rights. So all addresses are readable and writable from the beginning. Miri has no
//! signals, so none is held back.

use libc::{c_int, c_void, off_t, sigset_t, size_t};

/// # Safety
/// As for `mmap`. What was mapped at an address before has not been used.
pub(super) unsafe fn mmap(
    at: *mut c_void,
    length: size_t,
    _: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if fd != -1 {
        return libc::MAP_FAILED;
    }
    if flags & libc::MAP_FIXED != 0 {
        return at;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: as the caller vouches.
    unsafe {
        libc::mmap(
            at,
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd,
            offset,
        )
    }
}

/// Keeps the memory, because Miri unmaps no parts.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn munmap(_: *mut c_void, _: size_t) -> c_int {
    0
}

/// # Safety
/// None is needed.
pub(super) unsafe fn mprotect(_: *mut c_void, _: size_t, _: c_int) -> c_int {
    0
}

/// # Safety
/// None is needed.
pub(super) unsafe fn madvise(_: *mut c_void, _: size_t, _: c_int) -> c_int {
    0
}

/// # Safety
/// `old` is null or may be written.
pub(super) unsafe fn pthread_sigmask(_: c_int, _: *const sigset_t, old: *mut sigset_t) -> c_int {
    if !old.is_null() {
        // SAFETY: as the caller vouches. All zeros is a valid set.
        unsafe { old.write(core::mem::zeroed()) };
    }
    0
}

/// # Safety
/// None is needed.
pub(super) unsafe fn sigfillset(_: *mut sigset_t) -> c_int {
    0
}

/// # Safety
/// None is needed.
pub(super) unsafe fn sigdelset(_: *mut sigset_t, _: c_int) -> c_int {
    0
}

/// Only the thread's name is asked for.
///
/// # Safety
/// `name` has 16 bytes that may be written.
pub(super) unsafe fn prctl(_: c_int, name: *mut u8) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.cast(), 16) }
}
