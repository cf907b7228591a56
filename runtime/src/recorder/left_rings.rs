//! The bound on the rings that dead children leave. A child that ends by `_exit` or a kill leaves its ring file. The
//! newest of them stay. The list of them is in memory that all processes of the family share, so each child that makes a
//! ring can take the place of a dead one. A ring whose process lives is locked, and is never removed.
//!
//! Async-signal-safe.

use core::ffi::CStr;

use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::ring::fork_ring::{MAX_PATH, Template, write_path_of};
use crate::sys;

/// How many rings of dead children stay.
const MAX_LEFT_RINGS: usize = 256;

/// A ring of a child: the parts of its name. A pid of 0 = none.
struct Entry {
    pid: AtomicU32,
    random: AtomicU64,
}

struct List {
    /// How many rings were entered.
    entered: AtomicU32,
    entries: [Entry; MAX_LEFT_RINGS],
}

/// Null until the first fork.
static LIST: AtomicPtr<List> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the list, in a process that is about to fork for the first time.
pub(super) fn begin() {
    if LIST.load(Ordering::Relaxed).is_null() {
        let memory = sys::memory::shared_with_children(size_of::<List>());
        LIST.store(
            memory.map_or(core::ptr::null_mut(), <*mut u8>::cast),
            Ordering::Relaxed,
        );
    }
}

/// Enters the ring of this process, and removes the oldest ring whose process is dead if there are too many. The paths
/// are written into `path`.
pub(super) fn enter(template: Template, random: u64, path: &mut [u8; MAX_PATH]) {
    // SAFETY: the memory is shared, never unmapped, aligned to a page and large enough. Zeros are a valid list of atomics.
    let Some(list) = (unsafe { LIST.load(Ordering::Relaxed).as_ref() }) else {
        return;
    };
    let first = list.entered.fetch_add(1, Ordering::Relaxed) as usize;
    for at in first..first + MAX_LEFT_RINGS {
        let Some(entry) = list.entries.get(at % MAX_LEFT_RINGS) else {
            return;
        };
        // Acquire: pairs with the Release below. The random number is the pid's, or this is a ring that is just made.
        let pid = entry.pid.load(Ordering::Acquire);
        let is_free = pid == 0 || remove(template, pid, entry.random.load(Ordering::Relaxed), path);
        let own = sys::process::pid();
        let taken = is_free.then(|| {
            entry
                .pid
                .compare_exchange(pid, 0, Ordering::Relaxed, Ordering::Relaxed)
        });
        if taken.is_some_and(|taken| taken.is_ok()) {
            entry.random.store(random, Ordering::Relaxed);
            entry.pid.store(own, Ordering::Release);
            return;
        }
    }
}

/// Removes a ring, unless its process lives. Returns false if it lives.
fn remove(template: Template, pid: u32, random: u64, path: &mut [u8; MAX_PATH]) -> bool {
    let length = write_path_of(template, pid, random, path);
    let path = length.and_then(|length| CStr::from_bytes_with_nul(path.get(..=length)?).ok());
    path.is_none_or(sys::process::remove_left_file)
}
