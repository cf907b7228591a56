//! Work that one thread hands over to another one, and waits for. The work lies on the stack of the thread that waits.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lock::Lock;
use super::{process, thread};

/// How long the waiting thread sleeps before it looks whether the other one still exists.
const LOOK: Duration = Duration::from_millis(100);

/// The place where work is handed over. Threads that hand work over take turns.
pub(crate) struct Handover {
    turn: Lock<()>,
    /// The work that is not begun.
    work: AtomicPtr<Work<'static>>,
    /// Changes when work is done.
    done: AtomicU32,
}

struct Work<'a> {
    body: &'a mut (dyn FnMut() + Send),
    is_done: &'a AtomicU32,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// The calling thread is inside of such work, or waits for it and was interrupted.
    Inside,
    /// The thread that does the work has ended, or exists in the parent of this process only.
    Gone,
}

impl Handover {
    pub(crate) const fn new() -> Handover {
        Handover {
            turn: Lock::new(()),
            work: AtomicPtr::new(core::ptr::null_mut()),
            done: AtomicU32::new(0),
        }
    }

    /// Runs `body` while no other thread hands work over.
    pub(crate) fn in_turn<T>(&'static self, body: impl FnOnce() -> T) -> Result<T, NotDone> {
        if self.turn.is_mine() {
            return Err(NotDone::Inside);
        }
        let _turn = self.turn.lock();
        Ok(body())
    }

    /// Has the other thread run `body`, and waits for that. `wake` wakes the other thread, and `is_there` tells whether it
    /// exists. The calling thread is in its turn. It must hold no lock that the work needs.
    pub(crate) fn ask(
        &'static self,
        body: &mut (dyn FnMut() + Send),
        wake: fn(),
        is_there: fn() -> bool,
    ) -> Result<(), NotDone> {
        let is_done = AtomicU32::new(0);
        let mut work = Work {
            body,
            is_done: &is_done,
        };
        let process = process::pid();
        // Release: pairs with the Acquire in `carry_out`.
        let place = (&raw mut work).cast();
        self.work.store(place, Ordering::Release);
        wake();
        loop {
            let seen = self.done.load(Ordering::Acquire);
            // Acquire: pairs with the Release in `carry_out`. This thread sees what the work did.
            if is_done.load(Ordering::Acquire) != 0 {
                return Ok(());
            }
            thread::wait(&self.done, seen, Some(LOOK));
            // If a handler forked meanwhile, this may be the child.
            let is_gone = process::pid() != process || !is_there();
            if is_gone && is_done.load(Ordering::Acquire) == 0 {
                self.work.store(core::ptr::null_mut(), Ordering::Relaxed);
                return Err(NotDone::Gone);
            }
        }
    }

    /// Does the work that a thread has handed over, if any. A panic in the work ends the work alone.
    pub(crate) fn carry_out(&'static self) {
        // Acquire: pairs with the Release in `ask`.
        let work = self.work.swap(core::ptr::null_mut(), Ordering::Acquire);
        if work.is_null() {
            return;
        }
        // SAFETY: the thread that stored it waits until the work is done, and uses only the word meanwhile.
        let Work { body, is_done } = unsafe { work.read() };
        let _ = catch_unwind(AssertUnwindSafe(body));
        // The waiting thread goes on only after this.
        is_done.store(1, Ordering::Release);
        thread::wake(&self.done);
    }

    /// Whether there is work that is not begun.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.load(Ordering::Relaxed).is_null()
    }

    /// Called in the child of a fork. Async-signal-safe.
    pub(crate) fn in_child(&'static self, forker: u64) {
        self.turn.in_child(forker);
        self.work.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn another_thread_does_the_work() {
        static HANDOVER: Handover = Handover::new();
        static ENDS: AtomicBool = AtomicBool::new(false);
        let worker = std::thread::spawn(|| {
            while !ENDS.load(Ordering::Acquire) {
                HANDOVER.carry_out();
                std::thread::yield_now();
            }
            std::thread::current().id()
        });
        let mut ids = Vec::new();
        for _ in 0..100 {
            let done = HANDOVER.in_turn(|| {
                HANDOVER.ask(
                    &mut || ids.push(std::thread::current().id()),
                    || {},
                    || true,
                )
            });
            assert_eq!(done, Ok(Ok(())));
        }
        let panics = HANDOVER.in_turn(|| HANDOVER.ask(&mut || panic!("caught"), || {}, || true));
        assert_eq!(panics, Ok(Ok(())));
        ENDS.store(true, Ordering::Release);
        let worker = worker.join().expect("it ended");
        assert_eq!(ids, vec![worker; 100]);
    }

    #[test]
    fn without_that_thread_nobody_waits() {
        static HANDOVER: Handover = Handover::new();
        let done = HANDOVER.in_turn(|| {
            assert_eq!(HANDOVER.in_turn(|| ()), Err(NotDone::Inside));
            HANDOVER.ask(&mut || (), || {}, || false)
        });
        assert_eq!(done, Ok(Err(NotDone::Gone)));
    }
}
