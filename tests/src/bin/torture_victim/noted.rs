//! The walk of a program that uses everything that the recorder offers: functions with arguments and results, and,
//! after a fixed number of edges, a block with an event, a counter, a task of two polls, and a lock that all threads
//! share. Their values follow from the number of the edge or of the block. So a reader can check that each value is
//! correct and complete.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fdr::sync::Mutex;
use fdr::traced;
use fdr_tests::programs::page::Page;
use fdr_tests::programs::signals::{errno, set_errno};
use fdr_tests::support::truth::{LOCKED, WAY, WRONG, way};
use fdr_tests::support::{course, script};

use crate::walk::{Walk, inside};

/// The functions of scripts, by number.
pub(crate) type Functions = [fn(&mut Walk<'_>, usize) -> u64; script::FUNCTIONS.len()];

pub(crate) const FUNCTIONS: Functions = [alpha, beta, gamma, delta];

/// Blocks from one in which the lock is taken to the next, and to the next in which it is kept for long.
const LOCKS: u64 = 8;
const LONG_LOCKS: u64 = 256;
/// Longer than the looks at a lock before a thread blocks.
const LONG: Duration = Duration::from_micros(30);

static LOCK: Mutex<u64> = Mutex::named("torture", 0);
/// The page, and the process that has the lock. A child of a fork may have it in the hands of a thread that it lacks.
static PAGE: OnceLock<(Page, u32)> = OnceLock::new();

/// Remembers whether the program is to use all of it.
pub(crate) fn begin(page: Page) {
    if way::is_noted(page[0].get(WAY)) {
        let _ = PAGE.set((page, std::process::id()));
    }
}

pub(crate) fn is_on() -> bool {
    PAGE.get().is_some()
}

macro_rules! functions {
    ($($name:ident)*) => {$(
        #[traced(args(number = walk.so_far(), text = %walk.so_far()), ret)]
        fn $name(walk: &mut Walk<'_>, depth: usize) -> u64 {
            inside(walk, depth);
            walk.so_far()
        }
    )*};
}

functions! { alpha beta gamma delta }

/// Polled twice.
#[traced(args(number = walk.borrow().so_far()))]
async fn strand(walk: &RefCell<&mut Walk<'_>>) {
    walk.borrow_mut().made();
    let mut is_first = true;
    poll_fn(|_| match std::mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
    walk.borrow_mut().made();
}

/// All that a thread says beside its calls, in the block of that number.
pub(crate) fn block(walk: &mut Walk<'_>, serial: u64) {
    fdr::event!("noted", serial, check = course::check(serial), text = %serial);
    fdr::gauge!("counted", serial);
    let held = (serial % LOCKS == LOCKS - 1)
        .then(|| lock(serial))
        .flatten();
    let walk = RefCell::new(walk);
    let mut strand = pin!(strand(&walk));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let is_over = strand.as_mut().poll(&mut context).is_ready();
        walk.borrow_mut().made();
        if is_over {
            break;
        }
    }
    drop(held);
}

/// The lock, unless this is a child of a fork. A wait for a lock may change errno, which the caller has not asked for.
fn lock(serial: u64) -> Option<fdr::sync::MutexGuard<'static, u64>> {
    let (page, process) = PAGE.get()?;
    if *process != std::process::id() {
        return None;
    }
    let before = errno();
    let mut held = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    set_errno(before);
    *held += 1;
    if page[0].count_shared(LOCKED) != *held {
        page[0].count_shared(WRONG);
    }
    let begun = Instant::now();
    while serial % LONG_LOCKS == LOCKS - 1 && begun.elapsed() < LONG {
        std::hint::spin_loop();
    }
    Some(held)
}
