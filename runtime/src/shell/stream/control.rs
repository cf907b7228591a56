//! What the stream's thread and the others say to each other, by atomics alone: a handler may call
//! `exit` in the midst of anything, and the child of a fork has no thread that would unlock a lock.
//! Must never wait for the thread without an end.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::sys;

/// Whoever waits for the thread gives up when it has done nothing for so long.
const PATIENCE: Duration = Duration::from_secs(4);

/// And after so long in any case: a peer may take a byte now and then. Longer than `end` takes.
const LONGEST: Duration = Duration::from_secs(40);

/// How often who waits looks.
const LOOK: Duration = Duration::from_micros(500);

/// The state of [`Control::runs`].
const NOT: u32 = 0;
const RUNS: u32 = 1;
const OVER: u32 = 2;

/// The one of this process.
pub(super) static CONTROL: Control = Control {
    runs: AtomicU32::new(NOT),
    tid: AtomicU32::new(0),
    wake_word: AtomicU32::new(0),
    asked: AtomicU64::new(0),
    answered: AtomicU64::new(0),
    stop: AtomicBool::new(false),
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
    /// The thread, as the kernel counts.
    tid: AtomicU32,
    /// What the thread sleeps on.
    wake_word: AtomicU32,
    /// How often a flush was asked for, and which of them was answered last.
    asked: AtomicU64,
    answered: AtomicU64,
    /// The process ends.
    stop: AtomicBool,
    /// Counts what the thread does.
    steps: AtomicU64,
    /// The thread completes a file, which takes as long as it takes.
    writes: AtomicBool,
    /// Function records that were handed over, and that were lost so far; threads of the former.
    streamed: AtomicU64,
    lost: AtomicU64,
    threads: AtomicU64,
    /// Who takes the stream now.
    receivers: AtomicU64,
    /// The trace could not be written.
    failed: AtomicBool,
}

/// Function records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Handed over to somebody who took them.
    pub(super) streamed: u64,
    /// Overwritten before they could be read, or read and taken by nobody.
    pub(super) lost: u64,
    /// Threads of the records that were handed over.
    pub(super) threads: u64,
}

/// Says at the thread's end, however it comes, that it is over.
pub(super) struct Life;

impl Drop for Life {
    fn drop(&mut self) {
        if thread::panicking() {
            CONTROL.fail();
        }
        CONTROL.runs.store(OVER, Ordering::Release);
    }
}

impl Control {
    /// True for the one who may start the thread.
    pub(super) fn begin(&self) -> bool {
        let swap = self
            .runs
            .compare_exchange(NOT, RUNS, Ordering::AcqRel, Ordering::Relaxed);
        swap.is_ok()
    }

    /// There is no thread after all; also in the child of a fork. Async-signal-safe.
    pub(super) fn forget(&self) {
        for number in [
            &self.asked,
            &self.answered,
            &self.streamed,
            &self.lost,
            &self.threads,
            &self.receivers,
        ] {
            number.store(0, Ordering::Relaxed);
        }
        for truth in [&self.stop, &self.writes, &self.failed] {
            truth.store(false, Ordering::Relaxed);
        }
        self.runs.store(NOT, Ordering::Release);
    }

    /// Whether there is a thread, or was one.
    pub(super) fn is_begun(&self) -> bool {
        self.runs.load(Ordering::Acquire) != NOT
    }

    /// Whether there is a thread.
    pub(super) fn is_running(&self) -> bool {
        self.runs.load(Ordering::Acquire) == RUNS
    }

    /// How many take the stream now.
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

    /// Has the thread hand over what is there. False where it did not, in a reasonable time.
    pub(super) fn flush(&self) -> bool {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wait(|| self.answered.load(Ordering::Acquire) >= ticket)
    }

    /// Has the thread complete the trace, and waits for that. False as for `flush`.
    pub(super) fn finish(&self) -> bool {
        self.stop.store(true, Ordering::Release);
        self.wait(|| false)
    }

    /// Waits for `done`, or the thread's end, while it does anything.
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
            if since.elapsed() > PATIENCE || (begun.elapsed() > LONGEST && !writes) {
                return false;
            }
            thread::sleep(LOOK);
        }
    }
}

/// What the thread itself does.
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

    /// The flush that is to be answered next; `None` = none is wanted.
    pub(super) fn wanted(&self) -> Option<u64> {
        let asked = self.asked.load(Ordering::Acquire);
        (asked > self.answered.load(Ordering::Relaxed)).then_some(asked)
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

    /// From here on it may take as long as it takes.
    pub(super) fn writes(&self) {
        self.writes.store(true, Ordering::Relaxed);
    }

    pub(super) fn wake_word(&self) -> u32 {
        self.wake_word.load(Ordering::Acquire)
    }

    /// Sleeps unless the wake_word was rung since `seen`.
    pub(super) fn sleep(&self, seen: u32, most: Duration) {
        sys::thread::wait(&CONTROL.wake_word, seen, Some(most));
    }
}
