//! Walks of the loaded objects. The loader holds a lock during a walk. If another thread forks meanwhile, glibc leaves
//! this lock locked in the child, and a walk in the child would wait for ever. So a fork waits for the walks of this
//! crate. A walk makes no system call unless a fork is under way, because it also takes place in programs that do not
//! record.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use super::thread;

/// What the loader calls for each object, until it returns something else than 0.
pub(super) type Callback =
    unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut libc::c_void) -> libc::c_int;

/// How many walks of this crate are under way. Changes of it wake a fork that waits.
static WALKS: AtomicU32 = AtomicU32::new(0);

/// How many forks are under way. Changes of it wake walks that wait.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The length of one sleep.
const SLEEP: Duration = Duration::from_millis(10);

/// How often a fork sleeps before it goes on beside a walk. The walk may wait for a thread that holds the loader's lock,
/// or may be of the thread that forks, in a handler.
const MAX_SLEEPS: u32 = 20;

/// Calls `callback` for the loaded objects, the executable first. A thread may walk within a walk. Not async-signal-safe,
/// because the loader has a lock.
///
/// # Safety
/// `callback` takes `data` and does not unwind.
pub(super) unsafe fn walk(callback: Callback, data: *mut libc::c_void) {
    begin();
    // SAFETY: the caller keeps the contract.
    unsafe { libc::dl_iterate_phdr(Some(callback), data) };
    end();
}

/// Waits for forks, unless another walk holds them up already: that may be of this thread.
fn begin() {
    loop {
        // SeqCst, here and in `before_fork`: of a walk and a fork, at least one sees the other.
        if WALKS.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        let forks = FORKS.load(Ordering::SeqCst);
        if forks == 0 {
            return;
        }
        end();
        thread::wait(&FORKS, forks, Some(SLEEP));
    }
}

fn end() {
    subtract_one(&WALKS);
    if FORKS.load(Ordering::SeqCst) > 0 {
        thread::wake(&WALKS);
    }
}

/// The child of a fork begins with zero, also within a walk or a fork.
fn subtract_one(count: &AtomicU32) {
    let less = |count: u32| count.checked_sub(1);
    let _ = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
}

/// Called before a fork. Async-signal-safe.
pub(crate) fn before_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    for _ in 0..MAX_SLEEPS {
        let walks = WALKS.load(Ordering::SeqCst);
        if walks == 0 {
            return;
        }
        thread::wait(&WALKS, walks, Some(SLEEP));
    }
}

/// Called after a fork in the parent. Async-signal-safe.
pub(crate) fn after_fork() {
    subtract_one(&FORKS);
    thread::wake(&FORKS);
}

/// Called in the child, which has no other thread. Async-signal-safe.
pub(crate) fn in_child() {
    WALKS.store(0, Ordering::SeqCst);
    FORKS.store(0, Ordering::SeqCst);
}
