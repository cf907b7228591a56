//! The dump signal (`FDR_SIGNAL`): its handler wakes the dumper. In a child of a fork, which has no dumper, the handler
//! writes the trace.

use core::sync::atomic::{AtomicU32, Ordering};

use super::handover;
use crate::{crash, sys};

/// Dumps that the signal asked for and that have not begun. Signals that come before a dump begins count as
/// one. Signals during a dump make another one.
static PENDING: AtomicU32 = AtomicU32::new(0);

/// Whether the signal has asked for a dump that has not begun. After this call the dump counts as begun.
pub(crate) fn take_pending() -> bool {
    PENDING.swap(0, Ordering::AcqRel) > 0
}

/// Whether the signal has asked for a dump that has not begun.
pub(super) fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed) > 0
}

/// The handler of the dump signal. It wakes the dumper and calls the former handler. Async-signal-safe. Keeps
/// errno.
pub(crate) extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = sys::errno();
    // A child that no fork hook ran in must first find out that it has no dumper.
    sys::process::notice_child();
    if !handover::is_running() {
        // In the child of a fork no dumper exists, so the handler writes the trace.
        crash::write_now("signal");
    } else {
        PENDING.fetch_add(1, Ordering::AcqRel);
        sys::thread::wake_dumper();
    }
    sys::signal::chain(signal, info, context);
    sys::set_errno(errno);
}

/// Called in the child of a fork. Requests for dumps are the parent's. Async-signal-safe.
pub(super) fn in_child() {
    PENDING.store(0, Ordering::Relaxed);
}
