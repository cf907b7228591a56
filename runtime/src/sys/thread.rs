//! Threads: their ids and names, their CPUs, notice of their end, and sleeping until there is work. This file must never
//! wait without an end for a thread of the program.

use core::ffi::CStr;
use core::mem::zeroed;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_utils::CachePadded;

use super::kernel;

/// A thread of the recorder. A drop of this value detaches the thread, so no code waits for its end.
pub(crate) struct Thread(libc::pthread_t);

/// How many threads of [`spawn`] have no name yet.
static UNNAMED: AtomicU32 = AtomicU32::new(0);

/// Counts the threads of [`spawn`] that have begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// How long [`spawn`] waits at most for a thread's begin. A filter of system calls may end the thread before.
const MAX_BEGIN: Duration = Duration::from_millis(100);

/// Whether a thread of [`spawn`] has no name yet. It then has the name of the thread that made it.
pub(crate) fn is_any_unnamed() -> bool {
    UNNAMED.load(Ordering::Relaxed) > 0
}

/// Called in the child of a fork, which has none of these threads. Async-signal-safe.
pub(crate) fn forget_unnamed() {
    UNNAMED.store(0, Ordering::Relaxed);
}

/// The arguments of a new thread.
struct Start {
    name: &'static CStr,
    body: Box<dyn FnOnce() + Send>,
}

/// Makes a thread. It inherits the signal mask and the CPUs of its maker. Std's threads would bring 20 kB of code into
/// each traced program. `name` has at most 15 bytes. The C library gives a thread its heap at its first allocation. This
/// function waits for that, because the program may then limit its addresses, and a failure would end it. Not
/// async-signal-safe.
///
/// # Errors
/// The system makes no more threads.
pub(crate) fn spawn(
    name: &'static CStr,
    stack_bytes: usize,
    body: Box<dyn FnOnce() + Send>,
) -> io::Result<Thread> {
    let start: *mut Start = Box::into_raw(Box::new(Start { name, body }));
    UNNAMED.fetch_add(1, Ordering::Relaxed);
    let begun = BEGUN.load(Ordering::Relaxed);
    // SAFETY: all zeros are valid attributes and a valid thread, to be filled in. Every pointer is valid for its call.
    // `begin` takes `start` over, if a thread is made.
    unsafe {
        let mut thread: libc::pthread_t = zeroed();
        let mut attributes: libc::pthread_attr_t = zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let made = &raw mut thread;
        let mut error = libc::pthread_create(made, &raw const attributes, begin, start.cast());
        if error == libc::EINVAL {
            // The program's thread-local storage may not fit into the stack. The default stack is larger.
            error = libc::pthread_create(made, ptr::null(), begin, start.cast());
        }
        libc::pthread_attr_destroy(&raw mut attributes);
        if error != 0 {
            UNNAMED.fetch_sub(1, Ordering::Relaxed);
            drop(Box::from_raw(start));
            return Err(io::Error::from_raw_os_error(error));
        }
        if BEGUN.load(Ordering::Acquire) == begun {
            wait(&BEGUN, begun, Some(MAX_BEGIN));
        }
        Ok(Thread(thread))
    }
}

/// The state of floating-point numbers: which exceptions have happened, and which raise SIGFPE. Source: Intel SDM volume
/// 1, 10.2.3.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod float {
    /// All exceptions are masked. This is the state of a new process.
    pub(super) const MASKED: u32 = 0x1F80;

    pub(super) fn state() -> u32 {
        let mut state = 0_u32;
        // SAFETY: the place may be written.
        unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack)) };
        state
    }

    pub(super) fn set(state: u32) {
        // SAFETY: the state is one that `state` gave, or that of a new process.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack)) };
    }
}

/// Runs `body`, which may compute with floating-point numbers. A program may have exceptions of such numbers raise SIGFPE,
/// also those of inexact results. Afterwards the state is as before. Only x86-64 has such traps everywhere.
pub(crate) fn without_float_traps<T>(body: impl FnOnce() -> T) -> T {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let before = float::state();
        float::set(float::MASKED);
        let result = body();
        float::set(before);
        result
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    body()
}

extern "C" fn begin(start: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `spawn` made the box for this thread alone.
    let Start { name, body } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    drop(core::hint::black_box(Box::new(0_u8)));
    wake(&BEGUN);
    // SAFETY: the name ends with a NUL, and the thread is the calling one.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    UNNAMED.fetch_sub(1, Ordering::Relaxed);
    // A panic ends this thread and nothing else.
    let ended = catch_unwind(AssertUnwindSafe(|| without_float_traps(body)));
    ptr::without_provenance_mut(usize::from(ended.is_err()))
}

impl Thread {
    /// Waits for the thread's end. False: a panic ended it.
    pub(crate) fn join(self) -> bool {
        let mut result = ptr::null_mut();
        // SAFETY: the thread was neither joined nor detached, because both take this value.
        let error = unsafe { libc::pthread_join(self.0, &raw mut result) };
        core::mem::forget(self);
        error == 0 && result.is_null()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// Bytes of a thread's name, as the kernel keeps it, without the NUL.
pub(crate) const NAME_BYTES: usize = 16;

/// The kernel's id of the calling thread. Async-signal-safe.
pub(crate) fn tid() -> u32 {
    // SAFETY: gettid has no precondition. The call is made by number, because older C libraries have no
    // function for it.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether the process has a thread with that id. Async-signal-safe. May change errno.
pub(crate) fn exists(tid: u32) -> bool {
    // SAFETY: signal 0 is not sent. The kernel only checks the thread.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) };
    result == 0 || super::errno() != libc::ESRCH
}

/// Gives a thread the lowest priority, for ever. That needs no right. The thread still gets a share of a busy CPU, because
/// others may wait for a lock that it holds. Async-signal-safe. May change errno.
pub(crate) fn demote(tid: u32) {
    const LOWEST: i32 = 19;
    // SAFETY: a plain system call. If it fails, nothing changes.
    unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, LOWEST) };
}

/// The calling thread's name as the kernel keeps it, padded with NULs. Async-signal-safe.
pub(crate) fn name() -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { kernel::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Lets other threads run first. Async-signal-safe. Keeps errno.
pub(crate) fn give_way() {
    // SAFETY: sched_yield has no precondition, and does not fail on Linux.
    unsafe { libc::sched_yield() };
}

/// The value of a key below this number is in the thread's own block. For a higher key, the C library allocates
/// memory at a thread's first use, which may be in a signal handler.
const KEYS_IN_PLACE: libc::pthread_key_t = 32;

/// A key whose destructor runs at the end of every thread that set it. -1 until it is made.
static END_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes the key. `on_end` gets the thread's value, once for each round of the C library. False if no key is
/// left that a signal handler may use. Then ends of threads are not reported.
pub(crate) fn watch_ends(on_end: extern "C" fn(*mut libc::c_void)) -> bool {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` is valid for writing, `on_end` has the C ABI and never unwinds.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(on_end)) } != 0 {
        return false;
    }
    if key >= KEYS_IN_PLACE {
        // SAFETY: the key was made above, and no thread has a value of it.
        unsafe { libc::pthread_key_delete(key) };
        return false;
    }
    // Release: pairs with the Acquire in `set_end_value`, which uses the key.
    END_KEY.store(key, Ordering::Release);
    true
}

/// Sets the calling thread's value of the key. If the value is not null, the destructor will run. False if
/// there is no key. Async-signal-safe in practice, for the keys that `watch_ends` accepts.
pub(crate) fn set_end_value(value: usize) -> bool {
    let key = END_KEY.load(Ordering::Acquire);
    // SAFETY: the key was made by `watch_ends` and is never deleted.
    key != u32::MAX && unsafe { libc::pthread_setspecific(key, value as *const libc::c_void) } == 0
}

/// The word that the dumper sleeps on. It changes when there may be work. It has cache lines of its own,
/// because every new thread writes it, and each record reads statics that would lie beside it.
pub(crate) static DUMPER_WAKE: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// A word of a shared file that another process may change, and its value when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedWord {
    pub(crate) word: *const u32,
    pub(crate) expected: u32,
}

/// Sleeps until [`DUMPER_WAKE`] differs from `expected` or the shared word has changed, at most for `most`. It may also
/// return earlier. A kernel before Linux 5.16 can't wait for two words, so there a change of the shared word wakes no
/// thread.
pub(crate) fn wait_for_work(expected: u32, most: Option<Duration>, shared: Option<SharedWord>) {
    let waited = shared.is_some_and(|shared| wait_for_two(&DUMPER_WAKE, expected, shared, most));
    if !waited {
        wait(&DUMPER_WAKE, expected, most);
    }
}

/// One word of a wait for several: `struct futex_waitv` of the kernel.
#[repr(C)]
struct Waited {
    expected: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// A word of 32 bits, in the kernel's second interface of futexes.
const FUTEX2_SIZE_U32: u32 = 2;

/// False if the kernel can't wait for both, for example because the shared word is no longer in a file.
fn wait_for_two(
    word: &'static AtomicU32,
    expected: u32,
    shared: SharedWord,
    most: Option<Duration>,
) -> bool {
    let waited = |address: *const u32, expected: u32, flags: u32| Waited {
        expected: u64::from(expected),
        address: address.addr() as u64,
        flags: FUTEX2_SIZE_U32 | flags,
        reserved: 0,
    };
    let private = libc::FUTEX_PRIVATE_FLAG as u32;
    let words = [
        waited(word.as_ptr(), expected, private),
        waited(shared.word, shared.expected, 0),
    ];
    let end = most.map(time_after);
    let end = end.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the array is valid for reading. The kernel checks the addresses in it. The time is valid, and null
    // means for ever.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            words.as_ptr(),
            words.len(),
            0,
            end,
            libc::CLOCK_MONOTONIC,
        )
    };
    result >= 0 || [libc::EAGAIN, libc::EINTR, libc::ETIMEDOUT].contains(&super::errno())
}

/// The time of CLOCK_MONOTONIC after a pause.
fn time_after(pause: Duration) -> libc::timespec {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let nanos = now.tv_nsec + libc::c_long::from(pause.subsec_nanos() as i32);
    libc::timespec {
        tv_sec: now.tv_sec + pause.as_secs() as i64 + nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    }
}

/// Wakes the dumper. Async-signal-safe. Keeps errno.
pub(crate) fn wake_dumper() {
    wake(&DUMPER_WAKE);
}

/// Sleeps until `word` is no longer `expected`, at most for `most`. May return without a reason.
#[inline(never)]
pub(crate) fn wait(word: &'static AtomicU32, expected: u32, most: Option<Duration>) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = most.map(|most| libc::timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `word` is a valid, aligned u32. The time is valid, and null means for ever.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, time) };
}

/// Changes `word` and wakes one thread that sleeps on it. Async-signal-safe. Keeps errno.
#[inline(never)]
pub(crate) fn wake(word: &'static AtomicU32) {
    // Release: pairs with the Acquire of the sleeping thread, which then sees the stores before this one.
    word.fetch_add(1, Ordering::Release);
    let saved = super::errno();
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a valid, aligned u32.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
    super::set_errno(saved);
}
