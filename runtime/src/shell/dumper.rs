//! The dumper: a thread of ours that writes a dump when the signal comes, keeps a region ready for
//! the next new thread, and compares the CPUs' clocks once. The program's threads go on recording.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::{dumping, install, say, skew};
use crate::{recorder, sys};

/// Dumps that the signal asked for and that have not begun. Signals that come before a dump begins
/// are one; those that come during one make another.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Whether the thread runs.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Starts the thread. All signals are blocked in it: the program's handlers never run there.
pub(crate) fn start(compare_clocks: bool) {
    if RUNS.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    let builder = thread::Builder::new()
        .name("fdr-dumper".into())
        .stack_size(512 * 1024);
    let spawned = sys::signal::with_all_blocked(|| builder.spawn(move || run(compare_clocks)));
    if let Err(error) = spawned {
        RUNS.store(0, Ordering::Release);
        say::warn(format_args!(
            "no dumper thread ({error}): the dump signal does nothing; exit and dump() still dump"
        ));
    }
}

fn run(compare_clocks: bool) {
    prepare();
    if compare_clocks
        && let Some(state) = install::state()
        && let Some(skew) = skew::measure(state.chosen.kind, &state.frequency())
        && let Some(warning) = skew.warning()
    {
        say::warn(format_args!("{warning}"));
    }
    loop {
        let seen = sys::thread::NEWS.load(Ordering::Acquire);
        if ASKED.swap(0, Ordering::AcqRel) > 0 {
            let _ = dumping::dump_and_say("signal");
        }
        prepare();
        sys::thread::wait_for_news(seen);
    }
}

/// Keeps a region ready, so that a thread's first record need not wait for the disk.
fn prepare() {
    if let Some(ring) = recorder::ring() {
        ring.reap();
        ring.prepare_spare();
        if ring.says_out_of_space() {
            say::warn(format_args!(
                "no space for a thread's ring on the disk: it is in memory only, and lost with \
                 the process; set FDR_DIR or a smaller FDR_BUFFER"
            ));
        }
    }
}

/// The dump signal's handler: asks the dumper and calls the handler that was there before.
/// Async-signal-safe; keeps errno.
pub(crate) extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = sys::errno();
    ASKED.fetch_add(1, Ordering::AcqRel);
    sys::thread::tell_news();
    sys::signal::chain(signal, info, context);
    sys::set_errno(errno);
}

/// In the child of a fork the thread is gone.
pub(crate) fn forget() {
    RUNS.store(0, Ordering::Release);
}
