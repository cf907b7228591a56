//! What a child of `fork` has: its parent's memory, but none of its other threads, and no right to
//! its parent's ring, files or dumps.

use core::sync::atomic::Ordering;

use super::{dumper, stream};
use crate::recorder::{self, RING};
use crate::site::unit;
use crate::sys::socket;

/// Turns recording off in the child: the mapping is its parent's. `fdr::enable` turns it on again, with
/// a ring of the child's own. Runs in the child before `fork`
/// returns; async-signal-safe, since the parent may have been in the middle of anything.
pub(crate) extern "C" fn in_child() {
    // Release: only for symmetry with `new_ring`; the child has one thread.
    RING.store(core::ptr::null_mut(), Ordering::Release);
    unit::UNIT.switch_off();
    recorder::forget();
    dumper::forget();
    stream::forget();
    socket::forget();
}
