//! The end of the process, by itself or by a signal: the last dump. After it the ring file is removed, unless
//! it holds the only copy of the records.

use super::dumping::{self, CHANGING};
use super::state::{self, state};
use super::{dump_signal, end_signals, failures, sites, stream, triggers};
use crate::api::Error;
use crate::recorder::{self, ring};
use crate::ring::Ring;
use crate::{crash, messages, sys};

pub(crate) extern "C" fn at_exit() {
    sys::process::notice_child();
    crash::wait_for_crash();
    end_signals::wait_for_end();
    at_end(None);
}

/// If a signal is about to end the process, does the work of the exit. The dumper calls this.
pub(crate) fn look_for_end() {
    if let Some(signal) = end_signals::take_pending() {
        at_end(Some(signal));
        end_signals::end(signal);
    }
}

/// `signal`: the signal that ends the process.
fn at_end(signal: Option<i32>) {
    // A child of a fork that never recorded has no ring of its own.
    let Some(ring) = ring().filter(|ring| ring.is_of_this_process()) else {
        return;
    };
    if dumping::is_over() {
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
    let ended = match sites::is_mine() {
        true => Err(CHANGING.into()),
        false => dumping::by_dumper(|| end(ring, signal)),
    };
    if let Err(why) = ended {
        failures::print_no_trace(&why);
    }
}

/// The last dump of the process.
fn end(ring: &Ring, signal: Option<i32>) {
    print_replaced_handler();
    failures::print_shortage(ring);
    let result = if stream::is_begun() {
        stream::finish()
    } else {
        triggers::at_end(signal)
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
fn print_replaced_handler() {
    let signal = state().and_then(|state| state.config.signal);
    if let Some(signal) = signal.filter(|&s| !sys::signal::is_installed(s, dump_signal::on_signal))
    {
        messages::info(format_args!(
            "FDR_SIGNAL: the program has a handler of its own for signal {signal} by now: dumps come \
             only if it calls the one it found; another signal may be free"
        ));
    }
}
