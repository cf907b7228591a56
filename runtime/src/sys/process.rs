//! The process: its environment, its number, its end, its children.

use core::ffi::CStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

unsafe extern "C" {
    /// In glibc since 2.17 and in musl since 1.1.24; the libc crate does not declare it.
    fn secure_getenv(name: *const libc::c_char) -> *mut libc::c_char;
}

/// A variable of the environment; `None` where it is unset, and always in setuid programs.
/// Not async-signal-safe.
pub(crate) fn variable(name: &CStr) -> Option<OsString> {
    // SAFETY: `name` is NUL-terminated. We run where nobody changes the environment meanwhile, as
    // every reader of it must: before main, or in a call that the program made.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: secure_getenv returns a NUL-terminated string; it is copied at once.
    let bytes = unsafe { CStr::from_ptr(value) }.to_bytes();
    Some(OsString::from_vec(bytes.to_vec()))
}

/// Async-signal-safe.
pub(crate) fn pid() -> u32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() as u32 }
}

/// Calls `handler` when the process ends by `exit` or by returning from main.
pub(crate) fn at_exit(handler: extern "C" fn()) -> bool {
    // SAFETY: `handler` is a function of the C ABI that never unwinds.
    unsafe { libc::atexit(handler) == 0 }
}

/// Calls `handler` in every child that `fork` makes.
pub(crate) fn at_fork_in_child(handler: unsafe extern "C" fn()) -> bool {
    // SAFETY: as above; the other two hooks are absent.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// Keeps the shared library that holds `address` loaded for good. Nothing to do for an executable.
pub(crate) fn pin_library(address: *const libc::c_void) {
    // SAFETY: all zeros is a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: `info` is valid for writing; dladdr takes any address.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the loader's own name of the library. With NOLOAD nothing is loaded; the handle is
    // not closed on purpose. For the executable it finds nothing, which is as well.
    unsafe { libc::dlopen(info.dli_fname, flags) };
}
