//! The end by Ctrl-C (SIGINT) or SIGTERM, if the program has no handler for the signal. The recorder's handler asks the
//! dumper for the last trace. Then the dumper ends the process by the same signal. A second signal ends the process at
//! once.
//!
//! The thread that got the signal continues meanwhile, as if the signal came later, because it may hold a lock that the
//! dumper needs: the allocator's. If the thread could notice the signal, it waits in the handler instead. It would
//! notice the signal after a system call that the signal cut short, or in the call that sent the signal.
//!
//! The first process of a container (PID 1) gets no handler. The kernel does not deliver such signals to it, so it
//! would continue without the recorder, too.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use fdr_formats::trigger::{Event, Trigger};

use super::handover;
use super::last_thread;
use super::sites::{TableHandle, table};
use crate::crash;
use crate::recorder;
use crate::ring::Ring;
use crate::sys::action::Action;
use crate::sys::{self, raw};

/// How long a thread waits for the end, ns. The dumper needs longer only if a disk or a peer hangs.
const PATIENCE_NS: u64 = 20_000_000_000;

/// The time between two looks whether the dumper still exists, ns.
const LOOK_NS: u32 = 5_000_000;

/// The signals that make a trace, as bits.
static TRACE_SIGNALS: AtomicU64 = AtomicU64::new(0);

/// The signal that ends the process. 0 = no such signal has come.
static ENDS: AtomicI32 = AtomicI32::new(0);

/// The signal that ends the process, until the dumper takes it. 0 = none.
static PENDING: AtomicI32 = AtomicI32::new(0);

const SIGNALS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// The signal's name, which is the reason of its trace.
pub(super) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => "SIGINT",
        _ => "SIGTERM",
    }
}

/// Has the signals make traces that these triggers name. Signals with another action than the kernel's keep it.
pub(super) fn begin(triggers: &[Trigger]) {
    let signals = triggers
        .iter()
        .filter_map(|trigger| signal_of(&trigger.event));
    let trace_signals = signals.fold(0, |bits, signal| bits | raw::bit(signal));
    TRACE_SIGNALS.store(trace_signals, Ordering::Relaxed);
    if raw::process() == 1 {
        return;
    }
    for signal in SIGNALS {
        if trace_signals & raw::bit(signal) != 0 && Action::current(signal).is_default() {
            Action::handler(on_signal).set(signal);
        }
    }
}

/// The signal that a trigger waits for.
pub(super) fn signal_of(event: &Event) -> Option<i32> {
    match event {
        Event::Interrupt => Some(libc::SIGINT),
        Event::Terminate => Some(libc::SIGTERM),
        _ => None,
    }
}

/// Async-signal-safe. Keeps errno.
extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let errno = sys::errno();
    // A handler that the program installed later may call this one. Then the program decides what happens.
    if Action::current(signal).is(on_signal) {
        let goes_on = sys::signal::may_go_on(info, context);
        end_by(signal, goes_on, table());
    }
    sys::set_errno(errno);
}

/// `goes_on`: the thread continues until the last trace is made.
fn end_by(signal: i32, goes_on: bool, table: TableHandle) {
    let ours = SIGNALS
        .into_iter()
        .filter(|&of| Action::current(of).is(on_signal));
    let bits = ours.fold(0, |bits, of| {
        Action::default().set(of);
        bits | raw::bit(of)
    });
    // From here on the next signal ends the process.
    raw::mask(libc::SIG_UNBLOCK, bits);
    let makes_trace = TRACE_SIGNALS.load(Ordering::Relaxed) & raw::bit(signal) != 0;
    if makes_trace && crash::is_at_home() {
        let first = ENDS.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() && handover::is_alive() {
            // Release: pairs with the Acquire in `take_pending`.
            PENDING.store(signal, Ordering::Release);
            sys::thread::wake_dumper();
            // A thread that changes the table of sites must finish, because the dumper waits for the table.
            if goes_on || table.is_mine() {
                return;
            }
            wait_for_end();
        } else if first.is_ok() {
            by_this_thread(name(signal));
        }
    }
    raw::raise(signal);
}

/// Writes the trace without the dumper: in the child of a fork, or where the dumper can't go on.
fn by_this_thread(reason: &'static str) {
    let is_whole = crash::write_now(reason);
    let ring = recorder::ring().filter(|ring| is_whole && ring.is_of_this_process());
    if let Some(path) = ring.and_then(Ring::path) {
        raw::unlink(path);
    }
}

/// Whether a signal asks for the last trace, which has not begun.
pub(super) fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed) != 0
}

/// Takes the signal that asks for the last trace; returns it once. From then on the program's threads have the lowest
/// priority, because they are about to end. The dumper calls this.
pub(super) fn take_pending() -> Option<i32> {
    let signal = PENDING.swap(0, Ordering::Acquire);
    if signal == 0 {
        return None;
    }
    last_thread::each_of_the_program(&mut |thread| {
        sys::thread::demote(thread);
        true
    });
    Some(signal)
}

/// The last trace is made: ends the process by the signal. The dumper calls this.
pub(super) fn end(signal: i32) {
    Action::default().set(signal);
    raw::mask(libc::SIG_UNBLOCK, raw::bit(signal));
    raw::raise(signal);
}

/// If such a signal is about to end the process, waits for that end, for a limited time, so that no `exit` ends the
/// process first. Async-signal-safe.
pub(super) fn wait_for_end() {
    let end_ns = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    while ENDS.load(Ordering::Relaxed) != 0 && handover::is_alive() && raw::monotonic_ns() < end_ns
    {
        raw::sleep_ns(LOOK_NS);
    }
}

/// Called in the child of a fork. Async-signal-safe.
pub(super) fn in_child() {
    ENDS.store(0, Ordering::Relaxed);
    PENDING.store(0, Ordering::Relaxed);
}
