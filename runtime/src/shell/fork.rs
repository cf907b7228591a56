//! The recorder's work around `fork`. Before the fork, the forking thread takes the table of sites, so that the
//! child gets a complete table. From then on the thread's records are only counted. After the fork, the child
//! leaves everything that belongs to its parent. Its first record makes a ring of its own
//! (`recorder::process_ring`).
//!
//! `fork` does not wait for a dump or an installation of another thread. The child resets the state of such work.
//! All functions are async-signal-safe, except for the waits for the table and for a walk of the loaded objects. Threads
//! hold these two for moments only.
//! If a handler forks while its own thread holds the table, it does not wait.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::sites::{TableHandle, table};
use super::{dump_signal, dumping, end_signals, handover, last_thread, state, stream, triggers};
use crate::dump::schedule;
use crate::recorder::process_ring;
use crate::sys::lock::me;
use crate::sys::signal::{Mask, undisturbed};
use crate::sys::{self, process};
use crate::{crash, messages};

/// How many forks are under way in the thread that holds the table. It is more than one if a fork hook of the
/// program forks. The statics below belong to the same thread.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Whether that thread held the table before. Then a handler that interrupted it forks.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The thread, as locks name it, and its signal mask.
static FORKER: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

/// Has the C library call this file around every `fork`. A child that is forked meanwhile calls it again, which
/// does no harm.
pub(crate) fn watch() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.load(Ordering::Relaxed) {
        process::at_fork(before, in_parent, in_child);
        DONE.store(true, Ordering::Relaxed);
    }
}

extern "C" fn before() {
    keeping_errno(|| begin(table()));
}

extern "C" fn in_parent() {
    keeping_errno(|| {
        leave(table());
    });
}

/// Ends a fork in a process that goes on as before.
fn leave(table: TableHandle) {
    if leave_one() {
        process_ring::fork_is_over();
        go_on(table);
    }
}

extern "C" fn in_child() {
    let table = table();
    keeping_errno(
        || match (process_ring::is_forking(), process::may_be_new()) {
            (true, true) => {
                forget(table);
                if leave_one() {
                    go_on(table);
                    time_all(table);
                } else {
                    process_ring::fork_begins();
                }
            }
            // A fork within a hook of this fork led here and has done everything.
            (true, false) => leave(table),
            // The child was made without the C library, so this thread did not call `begin`. Another thread may
            // have called it, but that thread does not exist in the child.
            (false, true) => undisturbed(|| {
                FORKER.store(0, Ordering::Relaxed);
                DEPTH.store(0, Ordering::Relaxed);
                forget(table);
            }),
            // A call of ours in an earlier hook has done it.
            (false, false) => {}
        },
    );
}

fn keeping_errno(body: impl FnOnce()) {
    let errno = sys::errno();
    body();
    sys::set_errno(errno);
}

fn begin(table: TableHandle) {
    let mask = Mask::hold();
    // The holder of the table can't answer this. In a child whose hooks fork before ours is called, the holder
    // is the parent.
    if process_ring::is_forking() {
        DEPTH.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let held = table.is_mine();
    if !held {
        table.hold();
    }
    sys::loader::before_fork();
    HELD.store(u32::from(held), Ordering::Relaxed);
    FORKER.store(me(), Ordering::Relaxed);
    MASK.store(mask.0, Ordering::Relaxed);
    DEPTH.store(1, Ordering::Relaxed);
    process_ring::fork_begins();
}

/// Ends one fork. Returns whether it was the outermost one.
fn leave_one() -> bool {
    DEPTH.fetch_sub(1, Ordering::Relaxed) == 1
}

fn go_on(table: TableHandle) {
    let mask = Mask(MASK.load(Ordering::Relaxed));
    sys::loader::after_fork();
    if HELD.load(Ordering::Relaxed) == 0 {
        table.let_go();
    }
    mask.restore();
}

/// A function that the parent only looked at is off. A child with such functions alone would never make a record, so it
/// would have no ring and no budget that could turn them on.
fn time_all(table: TableHandle) {
    if table.is_mine() {
        return;
    }
    if let Some(mut table) = table.try_lock() {
        table.time_all();
    }
}

/// The child leaves everything that belongs to its parent.
fn forget(table: TableHandle) {
    let forker = FORKER.load(Ordering::Relaxed);
    process::set_fork_child();
    process_ring::in_child();
    table.in_child(forker);
    sys::loader::in_child();
    state::in_child(forker);
    dumping::in_child(forker);
    sys::own_table::in_child();
    handover::in_child(forker);
    messages::in_child(forker);
    dump_signal::in_child();
    end_signals::in_child();
    triggers::in_child(forker);
    last_thread::forget();
    stream::forget();
    schedule::forget();
    crash::after_fork();
    FORKER.store(me(), Ordering::Relaxed);
    process::notice_fork();
}
