//! The end of the process, by itself or by a signal: the last dump. After it the ring file is removed, unless
//! it holds the only copy of the records.

use super::dumping::{self, CHANGING};
use super::sites::{TableHandle, table};
use super::state::{self, State, state};
use super::{dump_signal, end_signals, failures, stream, triggers};
use crate::api::Error;
use crate::recorder::{self, ring};
use crate::ring::Ring;
use crate::{crash, messages, sys};

/// The C library calls this in `exit`.
pub(crate) extern "C" fn at_exit() {
    before_end();
    // There is no ring before there is a state.
    if let Some(state) = state() {
        at_end(state, table(), None);
    }
}

/// As [`at_exit`], for the dumper when all threads of the program have ended.
pub(crate) fn at_last_thread(state: &State, table: TableHandle) {
    before_end();
    at_end(state, table, None);
}

/// Waits for another end of the process that is under way.
fn before_end() {
    sys::process::notice_child();
    crash::wait_for_crash();
    end_signals::wait_for_end();
}

/// If a signal is about to end the process, does the work of the exit. The dumper calls this.
pub(crate) fn look_for_end(state: &State, table: TableHandle) {
    if let Some(signal) = end_signals::take_pending() {
        at_end(state, table, Some(signal));
        end_signals::end(signal);
    }
}

/// `signal`: the signal that ends the process.
fn at_end(state: &State, table: TableHandle, signal: Option<i32>) {
    // A child of a fork that never recorded has no ring of its own.
    let Some(ring) = ring().filter(|ring| ring.is_of_this_process()) else {
        return;
    };
    if dumping::is_exit_done() {
        return;
    }
    if recorder::host().is_some() {
        // This copy became a guest while it came up, so no record is in its ring.
        if let Some(path) = ring.path() {
            sys::file::unlink(path);
        }
        return;
    }
    if !state::is_up() && !sys::process::is_fork_child() {
        return;
    }
    let ended = match table.is_mine() {
        true => Err(CHANGING.into()),
        false => dumping::by_dumper(state, || end(ring, state, table, signal)),
    };
    if let Err(why) = ended {
        failures::print_no_trace(&why);
    }
}

/// The last dump of the process.
fn end(ring: &Ring, state: &State, table: TableHandle, signal: Option<i32>) {
    print_replaced_handler(state);
    failures::print_shortage(ring);
    let result = if stream::is_begun() {
        stream::finish(table, signal.is_some())
    } else {
        triggers::at_end(state, table, signal)
    };
    dumping::end();
    crash::report_loss_at_exit(ring);
    // Without a trace, the ring file holds the only copy of the records, or of those that remain after a cut.
    let needed = match ring.is_lost() {
        false => matches!(result, Err(Error::Failed(_))),
        true => !ring.is_file_headless(),
    };
    if let Some(path) = ring.path().filter(|_| !needed) {
        sys::file::unlink(path);
    }
}

/// Says that the program took the dump signal. It is no warning. The program may need the signal, and its
/// handler may call ours.
fn print_replaced_handler(state: &State) {
    let is_replaced = |&signal: &i32| !sys::signal::is_installed(signal, dump_signal::on_signal);
    if let Some(signal) = state.config.signal.filter(is_replaced) {
        messages::info(format_args!(
            "FDR_SIGNAL: the program has a handler of its own for signal {signal} by now: dumps come \
             only if it calls the one it found; another signal may be free"
        ));
    }
}
