//! The state that the stream's thread and other threads share. All of it is atomic. A handler may call `exit`
//! at any moment, and the child of a fork has no thread that would unlock a lock. No wait for the stream's
//! thread may be without an end.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::sys;

/// A waiting thread gives up if the stream's thread has done nothing for this long.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);

/// A waiting thread gives up after this time in any case, because a peer may take one byte now and then. It is
/// longer than `end` takes.
const MAX_WAIT: Duration = Duration::from_secs(40);

/// The pause of a waiting thread between two looks.
const LOOK: Duration = Duration::from_micros(500);

/// The states of [`Control::runs`].
const NOT: u32 = 0;
const RUNS: u32 = 1;
const OVER: u32 = 2;

/// The control of this process.
pub(super) static CONTROL: Control = Control {
    runs: AtomicU32::new(NOT),
    tid: AtomicU32::new(0),
    wake_word: AtomicU32::new(0),
    requested: AtomicU64::new(0),
    answered: AtomicU64::new(0),
    stop: AtomicBool::new(false),
    by_signal: AtomicBool::new(false),
    steps: AtomicU64::new(0),
    writes: AtomicBool::new(false),
    streamed: AtomicU64::new(0),
    lost: AtomicU64::new(0),
    threads: AtomicU64::new(0),
    receivers: AtomicU64::new(0),
    failed: AtomicBool::new(false),
};

/// See [`CONTROL`].
pub(super) struct Control {
    runs: AtomicU32,
    /// The kernel's id of the stream's thread.
    tid: AtomicU32,
    /// The word that the thread sleeps on.
    wake_word: AtomicU32,
    /// How many flushes were requested, and the number of the last one that was answered.
    requested: AtomicU64,
    answered: AtomicU64,
    /// Whether the process ends.
    stop: AtomicBool,
    /// Whether a signal ends the process.
    by_signal: AtomicBool,
    /// Counts the steps of the thread.
    steps: AtomicU64,
    /// Whether the thread completes a file. That may take any time.
    writes: AtomicBool,
    /// Function records that were handed over, function records that were lost, and threads of the former.
    streamed: AtomicU64,
    lost: AtomicU64,
    threads: AtomicU64,
    /// How many receivers take the stream now.
    receivers: AtomicU64,
    /// Whether the trace could not be written.
    failed: AtomicBool,
}

/// Function records until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Records that a receiver took.
    pub(super) streamed: u64,
    /// Records that were overwritten before they were read, or that no receiver took.
    pub(super) lost: u64,
    /// Threads of the records that were handed over.
    pub(super) threads: u64,
}

/// On drop, says that the thread has ended, also after a panic.
pub(super) struct Life;

impl Drop for Life {
    fn drop(&mut self) {
        if thread::panicking() {
            CONTROL.fail();
        }
        sys::own_table::forget_own_table(sys::thread::tid());
        CONTROL.runs.store(OVER, Ordering::Release);
    }
}

impl Control {
    /// Returns true to the one caller that may start the thread.
    pub(super) fn begin(&self) -> bool {
        let swap = self
            .runs
            .compare_exchange(NOT, RUNS, Ordering::AcqRel, Ordering::Relaxed);
        swap.is_ok()
    }

    /// Called if there is no thread after all, and in the child of a fork. Async-signal-safe.
    pub(super) fn forget(&self) {
        for number in [
            &self.requested,
            &self.answered,
            &self.streamed,
            &self.lost,
            &self.threads,
            &self.receivers,
        ] {
            number.store(0, Ordering::Relaxed);
        }
        for truth in [&self.stop, &self.by_signal, &self.writes, &self.failed] {
            truth.store(false, Ordering::Relaxed);
        }
        self.runs.store(NOT, Ordering::Release);
    }

    /// Whether there is a thread or was one.
    pub(super) fn is_begun(&self) -> bool {
        self.runs.load(Ordering::Acquire) != NOT
    }

    /// Whether there is a thread.
    pub(super) fn is_running(&self) -> bool {
        self.runs.load(Ordering::Acquire) == RUNS
    }

    /// How many receivers take the stream now.
    pub(super) fn receivers(&self) -> u64 {
        self.receivers.load(Ordering::Relaxed)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            streamed: self.streamed.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            threads: self.threads.load(Ordering::Relaxed),
        }
    }

    /// Makes the thread hand over all records made so far. Returns false if it did not do so in time.
    pub(super) fn flush(&self) -> bool {
        let ticket = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        self.wait(|| self.answered.load(Ordering::Acquire) >= ticket)
    }

    /// Has the thread complete the trace, and waits for that. `by_signal`: the thread has little time. False if it did not
    /// do so in time.
    pub(super) fn finish(&self, by_signal: bool) -> bool {
        self.by_signal.store(by_signal, Ordering::Relaxed);
        self.stop.store(true, Ordering::Release);
        self.wait(|| false)
    }

    /// Waits for `done` or for the thread's end, as long as the thread makes steps.
    fn wait(&self, done: impl Fn() -> bool) -> bool {
        if self.tid.load(Ordering::Relaxed) == sys::thread::tid() {
            return false;
        }
        sys::thread::wake(&CONTROL.wake_word);
        let begun = Instant::now();
        let (mut steps, mut since) = (0, begun);
        loop {
            if done() || self.runs.load(Ordering::Acquire) == OVER {
                return true;
            }
            let now = self.steps.load(Ordering::Relaxed);
            let writes = self.writes.load(Ordering::Relaxed);
            if now != steps || writes {
                (steps, since) = (now, Instant::now());
            }
            if since.elapsed() > MAX_IDLE_TIME || (begun.elapsed() > MAX_WAIT && !writes) {
                return false;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Functions for the stream's thread itself.
impl Control {
    pub(super) fn is_me(&self) {
        self.tid.store(sys::thread::tid(), Ordering::Relaxed);
    }

    pub(super) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn ends_by_signal(&self) -> bool {
        self.by_signal.load(Ordering::Relaxed)
    }

    /// The number of the next flush to answer. `None` if no flush is requested.
    pub(super) fn pending_flush(&self) -> Option<u64> {
        let requested = self.requested.load(Ordering::Acquire);
        (requested > self.answered.load(Ordering::Relaxed)).then_some(requested)
    }

    pub(super) fn answer(&self, ticket: u64) {
        self.answered.store(ticket, Ordering::Release);
    }

    pub(super) fn publish(&self, totals: Totals, receivers: usize) {
        self.receivers.store(receivers as u64, Ordering::Relaxed);
        self.streamed.store(totals.streamed, Ordering::Relaxed);
        self.lost.store(totals.lost, Ordering::Relaxed);
        self.threads.store(totals.threads, Ordering::Relaxed);
    }

    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// From now on the thread may take any time.
    pub(super) fn writes(&self) {
        self.writes.store(true, Ordering::Relaxed);
    }

    pub(super) fn wake_word(&self) -> u32 {
        self.wake_word.load(Ordering::Acquire)
    }

    /// Sleeps until another thread changes the word. Returns at once if the word is not `expected`.
    pub(super) fn sleep(&self, expected: u32, most: Duration) {
        sys::thread::wait(&CONTROL.wake_word, expected, Some(most));
    }
}
