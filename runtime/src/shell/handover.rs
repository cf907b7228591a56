//! Hands over work on files to a thread with its own descriptor table. This is the dumper. In a child of a fork, it is
//! a thread that exists only for that work. So the program can neither close the recorder's files nor put its own in
//! their place. The calling thread waits until the work is done. It must not hold a lock that the work needs.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::api::Failure;
use crate::messages;
use crate::sys;
use crate::sys::handover::{Handover, NotDone};
use crate::sys::own_table::{has_own_table, with_own_table};
use crate::sys::thread::{wake_dumper, without_float_traps};

static HANDOVER: Handover = Handover::new();

/// The name of the dumper.
pub(super) const DUMPER: &CStr = c"fdr-dumper";

/// Whether there is a dumper.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// The kernel's id of the dumper, once it runs.
static TID: AtomicU32 = AtomicU32::new(0);

/// A dumper is about to be made. False: there is one.
pub(super) fn begin() -> bool {
    let begins = RUNS.swap(1, Ordering::AcqRel) == 0;
    if begins {
        TID.store(0, Ordering::Relaxed);
    }
    begins
}

/// The calling thread is the dumper.
pub(super) fn is_me() {
    TID.store(sys::thread::tid(), Ordering::Relaxed);
}

/// Stores that there is no dumper any more.
pub(super) fn end() {
    RUNS.store(0, Ordering::Release);
}

/// Whether the dumper accepts work.
pub(crate) fn is_running() -> bool {
    RUNS.load(Ordering::Acquire) != 0
}

/// Whether the dumper accepts work, and the kernel still has its thread. A filter of system calls may have ended the
/// thread.
pub(crate) fn is_alive() -> bool {
    is_running() && (TID.load(Ordering::Relaxed) == 0 || exists())
}

/// Whether the kernel has the thread.
pub(crate) fn exists() -> bool {
    sys::thread::exists(TID.load(Ordering::Relaxed))
}

/// Runs `body` in a thread whose files the program can't touch. Not async-signal-safe.
///
/// # Errors
/// There is no such thread. The work did not begin, or it did not come to its end.
pub(crate) fn hand_over<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    if has_own_table() {
        return Ok(body());
    }
    // Only this much is compiled for each `body`.
    let (mut body, mut result) = (Some(body), None);
    hand_over_call(&mut || result = body.take().map(|body| body()))?;
    result.ok_or_else(|| why(NotDone::Gone))
}

#[inline(never)]
fn hand_over_call(call: &mut (dyn FnMut() + Send)) -> Result<(), Failure> {
    let handed = HANDOVER.in_turn(|| match is_running() {
        true => HANDOVER.ask(call, wake_dumper, is_alive).map_err(why),
        // The thread that stands in inherits the program's floating-point state.
        false => with_own_table(|| {
            let call = || without_float_traps(call);
            drop(catch_unwind(AssertUnwindSafe(call)));
        })
        .map_err(|errno| {
            let error = io::Error::from_raw_os_error(errno);
            Failure::new("no thread for the work on files", "", Some(error))
        }),
    });
    messages::print_left();
    handed.unwrap_or_else(|inside| Err(why(inside)))
}

fn why(not_done: NotDone) -> Failure {
    let (what, remedy) = match not_done {
        NotDone::Inside => (
            "this thread is in the middle of a dump",
            "call it where no dump is under way",
        ),
        NotDone::Gone => ("the recorder's own thread has ended", ""),
    };
    Failure::new(what, remedy, None)
}

/// Does what a thread has handed over. The dumper calls this.
pub(super) fn carry_out() {
    HANDOVER.carry_out();
}

/// Whether a thread has handed work over that is not begun.
pub(super) fn is_awaited() -> bool {
    HANDOVER.has_work()
}

/// Called in the child of a fork, which has no dumper. Async-signal-safe.
pub(super) fn in_child(forker: u64) {
    end();
    HANDOVER.in_child(forker);
}
