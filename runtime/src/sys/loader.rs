//! Walks of the loaded objects. The loader holds a lock during a walk. If another thread forks meanwhile, glibc leaves
//! this lock locked in the child, and a walk in the child would wait for ever. So walks of this crate hold a lock of
//! their own, too, and a fork waits for it.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use super::lock::Lock;

/// What the loader calls for each object, until it returns something else than 0.
pub(super) type Callback =
    unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut libc::c_void) -> libc::c_int;

/// Held during a walk of this crate.
static WALK: Lock<()> = Lock::new(());

/// The longest time that a fork waits for a walk. The walk may wait for a thread that holds the loader's lock, and a
/// handler of that thread may be what forks.
const MAX_WAIT: Duration = Duration::from_millis(200);

/// Whether the forking thread took [`WALK`] for the fork. Only the thread that forks uses it.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Calls `callback` for the loaded objects, the executable first. A thread may walk within a walk. Not async-signal-safe,
/// because the loader has a lock.
///
/// # Safety
/// `callback` takes `data` and does not unwind.
pub(super) unsafe fn walk(callback: Callback, data: *mut libc::c_void) {
    let guard = (!WALK.is_mine()).then(|| WALK.lock());
    // SAFETY: the caller keeps the contract.
    unsafe { libc::dl_iterate_phdr(Some(callback), data) };
    drop(guard);
}

/// Called before a fork: from now on no other thread walks. Async-signal-safe.
pub(crate) fn before_fork() {
    let taken = !WALK.is_mine() && WALK.hold_within(MAX_WAIT);
    TAKEN.store(taken, Ordering::Relaxed);
}

/// Called after a fork in the parent, and in the child after [`in_child`]. Async-signal-safe.
pub(crate) fn after_fork() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        WALK.let_go();
    }
}

/// See [`Lock::in_child`]. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    WALK.in_child(forker);
}
