//! The process: its environment, its id, its end and its children. This file must never change the environment.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fdr_formats::text::{self, Parts};

unsafe extern "C" {
    /// glibc has it since 2.17 and musl since 1.1.24. The libc crate does not declare it.
    fn secure_getenv(name: *const libc::c_char) -> *mut libc::c_char;

    /// The variables of the environment. The libc crate does not declare it.
    static environ: *const *const libc::c_char;
}

/// A variable of the environment. `None` if it is unset, and always in a setuid program. Not async-signal-safe.
pub(crate) fn variable(name: &CStr) -> Option<OsString> {
    // SAFETY: `name` is NUL-terminated. No thread changes the environment meanwhile: this runs before main or in a call
    // that the program made. Every reader of the environment relies on that.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: secure_getenv returns a NUL-terminated string. It is copied at once.
    let bytes = unsafe { CStr::from_ptr(value) }.to_bytes();
    Some(OsString::from_vec(bytes.to_vec()))
}

/// The fields behind the name in the text of a thread's `stat` file: see proc(5).
pub(crate) fn stat_fields(stat: &str) -> Option<Parts<'_>> {
    // The name is in parentheses and may hold anything.
    let end = stat.bytes().rposition(|byte| byte == b')')?;
    let fields = text::trimmed(stat.get(end + 1..)?);
    Some(text::parts(fields, b' '))
}

/// The names of variables that begin with `start`. Not async-signal-safe.
pub(crate) fn variables_that_begin(start: &str) -> Vec<OsString> {
    let mut names = Vec::new();
    // SAFETY: the C library's list, as in `variable`. It ends with a null pointer, as each text ends with a NUL.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let text = CStr::from_ptr(*at).to_bytes();
            let name = text.split(|&byte| byte == b'=').next().unwrap_or(text);
            if name.starts_with(start.as_bytes()) {
                names.push(OsString::from_vec(name.to_vec()));
            }
            at = at.add(1);
        }
    }
    names
}

/// Removes a file that a dead process of ours left. Does not remove it if a living process has locked it. Returns
/// false if it may be locked. Async-signal-safe. May change errno.
pub(crate) fn remove_left_file(path: &CStr) -> bool {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: `path` ends with a NUL.
    let file = unsafe { libc::open(path.as_ptr(), flags) };
    if file < 0 {
        return super::errno() == libc::ENOENT;
    }
    // SAFETY: plain calls on a descriptor that was just opened, and on the path. The close is made by number, because
    // a thread may be cancelled in the C library's.
    unsafe {
        let is_left = libc::flock(file, libc::LOCK_EX | libc::LOCK_NB) == 0;
        if is_left {
            libc::unlink(path.as_ptr());
        }
        libc::syscall(libc::SYS_close, file);
        is_left
    }
}

/// Async-signal-safe.
pub(crate) fn pid() -> u32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() as u32 }
}

/// The effective user of the process. Async-signal-safe.
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
    // SAFETY: the caller is a thread of ours that holds no lock. If another thread calls `exit` at the same
    // time, the C library waits for it, or that call ends the process.
    unsafe { libc::exit(0) }
}

/// Ends the process with that status, and calls no function of the program.
pub(crate) fn exit_at_once(status: i32) -> ! {
    // SAFETY: the call has no precondition.
    unsafe { libc::_exit(status) }
}

/// Has the three functions called around every `fork`: before it, and after it in the parent and in the child.
/// A child that was made without the C library is [noticed](notice_fork) later.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // Release: pairs with the Acquire in `notice_child`.
    IN_CHILD.store(child as *mut (), Ordering::Release);
    watch_children();
    // SAFETY: these are functions of the C ABI that never unwind. Without memory for its list the C library
    // calls none.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// The function that is called in a child.
static IN_CHILD: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// If this is a child in which no hook ran, does what the hook would have done. Async-signal-safe.
pub(crate) fn notice_child() {
    if !is_unnoticed_child() {
        return;
    }
    let child = IN_CHILD.load(Ordering::Acquire);
    if !child.is_null() {
        // SAFETY: `at_fork` stored a function of this type.
        let child = unsafe { core::mem::transmute::<*mut (), extern "C" fn()>(child) };
        child();
    }
    notice_fork();
}

/// A page that the kernel empties in every child that has a copy of this process's memory. A child that shares
/// the memory (`vfork`) sees the page of its parent.
#[repr(C)]
struct Watch {
    /// The process. 0 in a child that was not noticed yet.
    noticed: AtomicU32,
    /// The count of [`count_in_fork`].
    counted: AtomicU64,
}

/// Null until [`watch_children`], and on a kernel before 4.14.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(core::ptr::null_mut());

/// The count without such a page. A child then also counts what its parent counted.
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn watch() -> Option<&'static Watch> {
    // Acquire: pairs with the Release in `watch_children`.
    let page = WATCH.load(Ordering::Acquire);
    // SAFETY: the pointer is null or points to a page of ours that is never unmapped. Zeros are valid.
    unsafe { page.as_ref() }
}

fn watch_children() {
    let length = size_of::<Watch>();
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: this is a new mapping at an address that the kernel chooses. The advice is about it alone. If the kernel
    // refuses the advice, the mapping is not used.
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

/// Whether this is a child for which [`notice_fork`] was not called. Async-signal-safe. It is one or two loads,
/// because the recorder calls it.
#[inline]
pub(crate) fn is_unnoticed_child() -> bool {
    watch().is_some_and(|watch| watch.noticed.load(Ordering::Relaxed) == 0)
}

/// Whether [`notice_fork`] may not have been called in this process. An old kernel has no page that tells. An emulator
/// says that it empties the page, and does not. Async-signal-safe.
pub(crate) fn may_be_new() -> bool {
    watch().is_none_or(|watch| watch.noticed.load(Ordering::Relaxed) != pid())
}

/// Notes that this process was noticed. Async-signal-safe.
pub(crate) fn notice_fork() {
    if let Some(watch) = watch() {
        watch.noticed.store(pid(), Ordering::Relaxed);
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

/// Counts one record while a fork is under way. The child does not have the counts of its parent.
/// Async-signal-safe.
pub(crate) fn count_in_fork() {
    counted_in_fork().fetch_add(1, Ordering::Relaxed);
}

/// Returns the count and sets it to 0. Async-signal-safe.
pub(crate) fn take_counted_in_fork() -> u64 {
    counted_in_fork().swap(0, Ordering::Relaxed)
}

/// A random number from the kernel, which no other user can guess. A child has other numbers than its parent.
/// Async-signal-safe. Keeps errno.
#[inline(never)]
pub(crate) fn random() -> u64 {
    let saved = super::errno();
    let mut bytes = [0_u8; 8];
    // SAFETY: `bytes` is valid for writing its length. The call is made by number, because older C libraries
    // have no function for it. It never waits.
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
    // The kernel has no random number yet. This one is hard to guess, and every process has another one.
    let mixed = super::raw::monotonic_ns() ^ u64::from(pid()) << 40;
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// Keeps the shared library that holds `address` loaded for ever. Does nothing for an executable.
pub(crate) fn pin_library(address: *const libc::c_void) {
    // SAFETY: all zeros is a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: `info` is valid for writing, and dladdr takes any address.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: it is the loader's own name of the library. NOLOAD loads nothing, and the handle stays open on
    // purpose. For the executable it finds nothing, which is fine.
    unsafe { libc::dlopen(info.dli_fname, flags) };
}
