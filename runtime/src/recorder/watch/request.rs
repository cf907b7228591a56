//! Requests of threads to the dumper: one place for each trigger. Leaving one is async-signal-safe. It must never wait
//! for the dumper.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fdr_formats::trigger::{CallEnd, MAX_TRIGGERS};

use crate::sys;

/// The requests of threads to the dumper, by the numbers of the triggers.
pub(super) static REQUESTS: [Request; MAX_TRIGGERS] = [const { Request::new() }; MAX_TRIGGERS];

/// A call, or a task, that took longer than a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlowCall {
    pub(crate) function: u32,
    /// 0: it is a call.
    pub(crate) task: u64,
    pub(crate) thread: u32,
    /// The thread's name, padded with NULs.
    pub(crate) name: [u64; 2],
    pub(crate) begin: u64,
    pub(crate) ticks: u64,
    pub(crate) end: CallEnd,
}

/// A request of a thread to the dumper.
pub(super) struct Request {
    /// One of the states below.
    state: AtomicU32,
    function: AtomicU32,
    thread: AtomicU32,
    /// A [`CallEnd`].
    end: AtomicU32,
    task: AtomicU64,
    name: [AtomicU64; 2],
    begin: AtomicU64,
    ticks: AtomicU64,
}

const RETURNED: u32 = CallEnd::Returned as u32;
const DROPPED: u32 = CallEnd::Dropped as u32;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const READY: u32 = 2;

impl Request {
    const fn new() -> Request {
        Request {
            state: AtomicU32::new(FREE),
            function: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            end: AtomicU32::new(0),
            task: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; 2],
            begin: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        }
    }

    /// Writes the call for the dumper, unless an earlier call still waits for it. The dumper sees it once it is handed
    /// over.
    pub(super) fn write(&self, call: &SlowCall) -> bool {
        // The load alone keeps further slow calls from writing into a line that other threads read.
        let is_free = self.state.load(Ordering::Relaxed) == FREE;
        // Acquire: pairs with the Release in `release`.
        let swap = || {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            self.state.compare_exchange(FREE, WRITING, success, failure)
        };
        if !is_free || swap().is_err() {
            return false;
        }
        self.function.store(call.function, Ordering::Relaxed);
        self.thread.store(call.thread, Ordering::Relaxed);
        self.task.store(call.task, Ordering::Relaxed);
        self.end.store(call.end as u32, Ordering::Relaxed);
        for (to, from) in self.name.iter().zip(call.name) {
            to.store(from, Ordering::Relaxed);
        }
        self.begin.store(call.begin, Ordering::Relaxed);
        self.ticks.store(call.ticks, Ordering::Relaxed);
        true
    }

    /// Hands a written call to the dumper and wakes it.
    pub(super) fn hand_over(&self) {
        // Release: pairs with the Acquire in `request`.
        self.state.store(READY, Ordering::Release);
        sys::thread::wake_dumper();
    }
}

/// The call that waits for the dumper since the trigger of that number fired. It waits until [`release`].
pub(crate) fn request(number: usize) -> Option<SlowCall> {
    let request = REQUESTS.get(number)?;
    // Acquire: pairs with the Release in `hand_over`.
    (request.state.load(Ordering::Acquire) == READY).then(|| SlowCall {
        function: request.function.load(Ordering::Relaxed),
        thread: request.thread.load(Ordering::Relaxed),
        name: [0, 1].map(|at: usize| {
            request
                .name
                .get(at)
                .map_or(0, |of| of.load(Ordering::Relaxed))
        }),
        begin: request.begin.load(Ordering::Relaxed),
        ticks: request.ticks.load(Ordering::Relaxed),
        task: request.task.load(Ordering::Relaxed),
        end: match request.end.load(Ordering::Relaxed) {
            RETURNED => CallEnd::Returned,
            DROPPED => CallEnd::Dropped,
            _ => CallEnd::Open,
        },
    })
}

/// Lets the next slow call of that trigger leave a request.
pub(crate) fn release(number: usize) {
    if let Some(request) = REQUESTS.get(number) {
        // Release: the next thread's stores come behind the dumper's loads.
        request.state.store(FREE, Ordering::Release);
    }
}

/// Called in the child of a fork: requests are the parent's. Async-signal-safe.
#[inline(never)]
pub(crate) fn forget() {
    (0..MAX_TRIGGERS).for_each(release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_at_a_time() {
        let request = Request::new();
        let call = |begin| SlowCall {
            function: 1,
            task: 0,
            thread: 2,
            name: [3, 4],
            begin,
            ticks: 6,
            end: CallEnd::Returned,
        };
        let is_seen = |request: &Request| request.state.load(Ordering::Relaxed) == READY;
        assert!(request.write(&call(5)));
        assert!(!is_seen(&request), "its thread may still write records");
        request.hand_over();
        assert!(is_seen(&request));
        assert!(!request.write(&call(7)));
        assert_eq!(request.begin.load(Ordering::Relaxed), 5);
        request.state.store(FREE, Ordering::Relaxed);
        assert!(request.write(&call(7)));
        assert_eq!(request.begin.load(Ordering::Relaxed), 7);
    }
}
