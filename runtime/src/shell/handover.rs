//! Work on files, handed over to a thread with a descriptor table of its own: to the dumper, or, in a child of a fork,
//! to a thread that lives for that work. So the program can neither close the recorder's files nor put its own in their
//! place. The calling thread waits until the work is done. It must not hold a lock that the work needs.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::dumper;
use crate::api::Failure;
use crate::messages;
use crate::sys::handover::{Handover, NotDone};
use crate::sys::own_table::{has_own_table, with_own_table};
use crate::sys::thread::{wake_dumper, without_float_traps};

static HANDOVER: Handover = Handover::new();

/// Has `body` run in a thread whose files the program can't touch. Not async-signal-safe.
///
/// # Errors
/// There is no such thread. The work did not begin, or it did not come to its end.
pub(crate) fn hand_over<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    if has_own_table() {
        return Ok(body());
    }
    let mut body = Some(body);
    let mut result = None;
    let mut call = || result = body.take().map(|body| body());
    let handed = HANDOVER.in_turn(|| match dumper::is_running() {
        true => HANDOVER
            .ask(&mut call, wake_dumper, dumper::is_alive)
            .map_err(why),
        // The thread that stands in has the program's state of floating-point numbers.
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
    handed.unwrap_or_else(|inside| Err(why(inside)))?;
    result.ok_or_else(|| why(NotDone::Gone))
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

/// Called in the child of a fork. Async-signal-safe.
pub(super) fn in_child(forker: u64) {
    HANDOVER.in_child(forker);
}
