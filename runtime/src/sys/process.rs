//! The process: its environment, its number, its end, its children.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
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

/// The user in whose name the process acts. Async-signal-safe.
pub(crate) fn user() -> u32 {
    // SAFETY: geteuid has no precondition.
    unsafe { libc::geteuid() }
}

/// Calls `handler` when the process ends by `exit` or by returning from main.
pub(crate) fn at_exit(handler: extern "C" fn()) -> bool {
    // SAFETY: `handler` is a function of the C ABI that never unwinds.
    unsafe { libc::atexit(handler) == 0 }
}

/// Ends the process as `exit(0)` does.
pub(crate) fn exit() -> ! {
    // SAFETY: the caller is a thread of ours that holds no lock; `exit` in other threads at the same time is
    // waited for by the C library, or ends the process as well.
    unsafe { libc::exit(0) }
}

/// Calls the three around every `fork`: before it, and after it in the parent and in the child. Children
/// that were made behind the C library's back are [`noticed`](notice_fork) later.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // Release: pairs with the Acquire in `notice_child`.
    IN_CHILD.store(child as *mut (), Ordering::Release);
    watch_children();
    // SAFETY: functions of the C ABI that never unwind. Without memory for the list there is no call.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// What is called in a child.
static IN_CHILD: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Does in a child of which nobody was told what should have been done at once. Async-signal-safe.
pub(crate) fn notice_child() {
    if !is_unnoticed_child() {
        return;
    }
    let child = IN_CHILD.load(Ordering::Acquire);
    if !child.is_null() {
        // SAFETY: `at_fork` stored it, a function of this type.
        let child = unsafe { core::mem::transmute::<*mut (), extern "C" fn()>(child) };
        child();
    }
    notice_fork();
}

/// A page that the kernel empties in every child that has a copy of this process's memory, however the
/// child is made. One that shares the memory (`vfork`) sees what its parent sees.
#[repr(C)]
struct Watch {
    /// 0 in a child that nobody has noticed yet.
    noticed: AtomicU32,
    /// What [`count_in_fork`] counts.
    counted: AtomicU64,
}

/// Null until [`watch_children`], and where the kernel is too old (before 4.14).
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(core::ptr::null_mut());

/// In its place there; a child then counts its parent's as well.
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn watch() -> Option<&'static Watch> {
    // Acquire: pairs with the Release in `watch_children`.
    let page = WATCH.load(Ordering::Acquire);
    // SAFETY: null, or a page of ours that is never unmapped; zeros are valid.
    unsafe { page.as_ref() }
}

fn watch_children() {
    let length = size_of::<Watch>();
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address of the kernel's choice; the advice is about it alone, and where
    // it is refused the mapping goes no further.
    unsafe {
        let page = libc::mmap(core::ptr::null_mut(), length, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        if libc::madvise(page, length, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, length);
            return;
        }
        WATCH.store(page.cast(), Ordering::Release);
    }
    notice_fork();
}

/// Whether this is a child of which [`notice_fork`] was not told. Async-signal-safe; one load more or
/// less, for the recorder asks.
#[inline]
pub(crate) fn is_unnoticed_child() -> bool {
    watch().is_some_and(|watch| watch.noticed.load(Ordering::Relaxed) == 0)
}

/// Whether [`notice_fork`] was not called in this process yet, as far as that can be known: an old kernel
/// has no page that tells. Async-signal-safe.
pub(crate) fn may_be_new() -> bool {
    watch().is_none_or(|watch| watch.noticed.load(Ordering::Relaxed) == 0)
}

/// This process is known. Async-signal-safe.
pub(crate) fn notice_fork() {
    if let Some(watch) = watch() {
        watch.noticed.store(1, Ordering::Relaxed);
    }
}

/// Whether a fork led to this process.
static IS_CHILD: AtomicU32 = AtomicU32::new(0);

/// Says that a fork led to this process. Async-signal-safe.
pub(crate) fn set_fork_child() {
    IS_CHILD.store(1, Ordering::Relaxed);
}

/// Whether a fork led to this process, and it has executed no other program since. Async-signal-safe.
pub(crate) fn is_fork_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed) != 0
}

fn counted_in_fork() -> &'static AtomicU64 {
    watch().map_or(&COUNTED, |watch| &watch.counted)
}

/// Counts one more while a fork is under way; what the parent counts before it is not in the child.
/// Async-signal-safe.
pub(crate) fn count_in_fork() {
    counted_in_fork().fetch_add(1, Ordering::Relaxed);
}

/// What was counted so far, from then on 0. Async-signal-safe.
pub(crate) fn take_counted_in_fork() -> u64 {
    counted_in_fork().swap(0, Ordering::Relaxed)
}

/// A number that nobody can guess, and that a child does not share with its parent. Async-signal-safe;
/// keeps errno.
pub(crate) fn random() -> u64 {
    let saved = super::errno();
    let mut bytes = [0_u8; 8];
    // SAFETY: `bytes` is valid for writing its length. By number: older C libraries have no function for
    // it; it never waits.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    super::set_errno(saved);
    let number = u64::from_ne_bytes(bytes);
    if got == bytes.len() as libc::c_long {
        return number;
    }
    // Before the kernel has any: hardly to be guessed, and another one in every process.
    let mixed = super::raw::monotonic_ns() ^ u64::from(pid()) << 40;
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
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
