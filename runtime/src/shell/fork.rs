//! What `fork` is to the recorder. Before it, the table of sites is taken, so that the child has it whole,
//! and the thread that forks records nothing but a count. After it, the child lets go of all that is its
//! parent's; its first record makes a ring of its own (`recorder::process_ring`).
//!
//! A dump or an installation that another thread is in the midst of is not waited for: the child forgets
//! it. All of it is async-signal-safe but for the wait for the table, which is held for moments, and not
//! at all by a thread whose handler forks.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::{dumper, dumping, install, last_thread, sites, stream};
use crate::crash;
use crate::recorder::process_ring;
use crate::sys::lock::me;
use crate::sys::signal::{Mask, undisturbed};
use crate::sys::{self, process, socket};

/// Forks that the thread which holds the table is in the midst of: more than one where a hook of the
/// program's forks. The rest of these statics is that thread's as well.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Whether that thread held the table already: a handler that interrupted it forks.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The thread, as locks name it, and its mask of signals.
static FORKER: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

/// Has the C library call this file around every `fork`. A child that is forked meanwhile does it again:
/// to be called twice does no harm.
pub(crate) fn watch() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.load(Ordering::Relaxed) {
        process::at_fork(before, in_parent, in_child);
        DONE.store(true, Ordering::Relaxed);
    }
}

extern "C" fn before() {
    keeping_errno(begin);
}

extern "C" fn in_parent() {
    keeping_errno(|| {
        leave();
    });
}

/// The fork is over in a process that goes on as it was.
fn leave() {
    if leave_one() {
        process_ring::fork_is_over();
        go_on();
    }
}

extern "C" fn in_child() {
    keeping_errno(
        || match (process_ring::is_forking(), process::may_be_new()) {
            (true, true) => {
                forget();
                if leave_one() {
                    go_on();
                } else {
                    process_ring::fork_begins();
                }
            }
            // A fork within a hook of this one led here, and did all of it.
            (true, false) => leave(),
            // Made behind the C library's back: this thread's `begin` was not called. Another thread's may
            // have been, and that one is not here.
            (false, true) => undisturbed(|| {
                FORKER.store(0, Ordering::Relaxed);
                DEPTH.store(0, Ordering::Relaxed);
                forget();
            }),
            // A call of ours in a hook that came before this one has done it.
            (false, false) => {}
        },
    );
}

fn keeping_errno(body: impl FnOnce()) {
    let errno = sys::errno();
    body();
    sys::set_errno(errno);
}

fn begin() {
    let mask = Mask::hold();
    // Not by who holds the table: in a child whose hooks fork before ours is called, that is its parent.
    if process_ring::is_forking() {
        DEPTH.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let held = sites::TABLE.is_mine();
    if !held {
        sites::TABLE.hold();
    }
    HELD.store(u32::from(held), Ordering::Relaxed);
    FORKER.store(me(), Ordering::Relaxed);
    MASK.store(mask.0, Ordering::Relaxed);
    DEPTH.store(1, Ordering::Relaxed);
    process_ring::fork_begins();
}

/// Whether it was the outermost one.
fn leave_one() -> bool {
    DEPTH.fetch_sub(1, Ordering::Relaxed) == 1
}

fn go_on() {
    let mask = Mask(MASK.load(Ordering::Relaxed));
    if HELD.load(Ordering::Relaxed) == 0 {
        sites::TABLE.let_go();
    }
    mask.restore();
}

/// Nothing of the parent's is the child's.
fn forget() {
    let forker = FORKER.load(Ordering::Relaxed);
    process::set_fork_child();
    process_ring::in_child();
    sites::TABLE.in_child(forker);
    install::in_child(forker);
    dumping::in_child(forker);
    dumper::forget();
    last_thread::forget();
    stream::forget();
    socket::forget();
    crash::after_fork();
    FORKER.store(me(), Ordering::Relaxed);
    process::notice_fork();
}
