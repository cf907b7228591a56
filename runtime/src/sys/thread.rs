//! Threads: their numbers and names, notice of their end, sleeping until there is work.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use crossbeam_utils::CachePadded;

/// Ends the calling thread behind the C library's back. The status counts if it is the process's last one.
pub(crate) fn exit(status: i32) {
    // SAFETY: the thread is one of ours, and nobody refers to its stack or waits for it.
    unsafe { libc::syscall(libc::SYS_exit, status) };
}

/// Bytes of a thread's name, as the kernel keeps it, without the NUL.
pub(crate) const NAME_BYTES: usize = 16;

/// The calling thread's number, as the kernel counts. Async-signal-safe.
pub(crate) fn tid() -> u32 {
    // SAFETY: gettid has no precondition. By number: older C libraries have no function for it.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether the process has a thread of that number. Async-signal-safe; may change errno.
pub(crate) fn exists(tid: u32) -> bool {
    // SAFETY: signal 0 is not sent, only asked about.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) };
    result == 0 || super::errno() != libc::ESRCH
}

/// The calling thread's name as the kernel keeps it, padded with NULs. Async-signal-safe.
pub(crate) fn name() -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Lets other threads run first. Async-signal-safe; keeps errno.
pub(crate) fn give_way() {
    // SAFETY: sched_yield has no precondition, and does not fail on Linux.
    unsafe { libc::sched_yield() };
}

/// Keys below this have their value in the thread's own block; the C library allocates memory for those
/// above it at a thread's first use, which may be a signal handler's.
const KEYS_IN_PLACE: libc::pthread_key_t = 32;

/// A key whose destructor runs at the end of every thread that set it; -1 until made.
static END_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes the key. `on_end` gets the thread's value, once for each round of the C library. False where no
/// key is left that may be used in a signal handler: ends of threads are not told then.
pub(crate) fn watch_ends(on_end: extern "C" fn(*mut libc::c_void)) -> bool {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` is valid for writing, `on_end` has the C ABI and never unwinds.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(on_end)) } != 0 {
        return false;
    }
    if key >= KEYS_IN_PLACE {
        // SAFETY: made just now; no thread has a value of it.
        unsafe { libc::pthread_key_delete(key) };
        return false;
    }
    // Release: pairs with the Acquire in `set_end_value`, so that the key is seen as made.
    END_KEY.store(key, Ordering::Release);
    true
}

/// Sets the calling thread's value of the key; not null = the destructor will run. False where there is
/// no key. Async-signal-safe in practice, for the keys that `watch_ends` takes.
pub(crate) fn set_end_value(value: usize) -> bool {
    let key = END_KEY.load(Ordering::Acquire);
    // SAFETY: the key was made by `watch_ends` and is never deleted.
    key != u32::MAX && unsafe { libc::pthread_setspecific(key, value as *const libc::c_void) } == 0
}

/// What the dumper thread sleeps on: changes whenever there may be work for it. On a line of its own:
/// every thread that begins writes it, and statics that each record reads lie beside it.
pub(crate) static DUMPER_WAKE: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// Sleeps while [`DUMPER_WAKE`] is what it was, at most for so long. May return for no reason.
pub(crate) fn wait_for_work(seen: u32, most: Option<Duration>) {
    wait(&DUMPER_WAKE, seen, most);
}

/// Wakes the dumper. Async-signal-safe; keeps errno.
pub(crate) fn wake_dumper() {
    wake(&DUMPER_WAKE);
}

/// Sleeps while `word` is `seen`, at most for so long. May return for no reason.
pub(crate) fn wait(word: &'static AtomicU32, seen: u32, most: Option<Duration>) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = most.map(|most| libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `word` is a valid, aligned u32; the time is valid, and null is for ever.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, seen, time) };
}

/// Changes `word` and wakes who sleeps on it. Async-signal-safe; keeps errno.
pub(crate) fn wake(word: &'static AtomicU32) {
    // Release: pairs with the sleeper's Acquire; what it is to see was stored before.
    word.fetch_add(1, Ordering::Release);
    let saved = super::errno();
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a valid, aligned u32.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
    super::set_errno(saved);
}
