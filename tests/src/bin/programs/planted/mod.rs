//! A service of eight threads in which one of about ten thousand calls is slow. The first argument names the cause, and
//! the seed decides where the call is. Tests record it, and ask `fdr slow` why the call was slow.
//!
//! ```text
//! planted none|lock|fsync|neighbour|faults|quadratic|channel|allocation SEED
//! planted spin                   (started by `neighbour`: takes the CPU that its standard input names)
//! ```
//! Its last line is JSON: the slow call with its function and thread, by how long the cause delayed it, the CPU time of
//! the delay, and the other thread with its function if the cause has one. Only the planted call may differ from the
//! other calls. So everything that the planted call needs is prepared outside of traced calls.

mod causes;
mod plan;
mod service;

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self};
use std::time::Duration;

use causes::{Outcome, Shared};
use fdr_tests::programs::threads::spawn;
use plan::{Cause, Plan, WORKERS};
use service::Worker;

/// Requests of each worker, and how many come at a time.
const REQUESTS: u64 = 1800;
const BURST: u64 = 4;

/// All requests of a worker.
fn work(mut worker: Worker) -> Option<Outcome> {
    for request in 0..REQUESTS {
        if request % BURST == 0 {
            worker.poll();
        }
        worker.begins(request);
        worker.serve();
    }
    worker.outcome
}

pub(crate) fn main(words: &[&str]) {
    let (cause, seed) = match words {
        ["spin"] => return causes::spin_as_told(),
        [cause, seed] => (Cause::named(cause), seed.parse().ok()),
        _ => (None, None),
    };
    let (Some(cause), Some(seed)) = (cause, seed) else {
        eprintln!(
            "usage: planted none|lock|fsync|neighbour|faults|quadratic|channel|allocation SEED"
        );
        exit(2);
    };
    let plan = Plan::new(cause, seed, REQUESTS);
    // A service takes a moment until its first request. Meanwhile the states of threads begin.
    thread::sleep(Duration::from_millis(100));
    let (shared, mut audits) = Shared::new(plan.clone());
    let shared = Arc::new(shared);
    let theirs = Arc::clone(&shared);
    let maintenance = spawn("maintenance", move || {
        while !theirs.is_over.load(Ordering::Acquire) {
            service::maintain(&theirs, &mut audits);
        }
    });
    let theirs = Arc::clone(&shared);
    let metrics = spawn("metrics", move || {
        while !theirs.is_over.load(Ordering::Acquire) {
            service::sample();
            thread::sleep(Duration::from_millis(1));
        }
    });
    let workers: Vec<_> = (0..WORKERS)
        .map(|place| {
            let worker = Worker::new(place, Arc::clone(&shared), seed);
            spawn(&plan::worker_name(place), move || work(worker))
        })
        .collect();
    let outcomes = workers
        .into_iter()
        .map(|worker| worker.join().expect("no panic"));
    let outcome = outcomes.fold(None, Option::or);
    shared.is_over.store(true, Ordering::Release);
    maintenance.join().expect("no panic");
    metrics.join().expect("no panic");
    assert_eq!(outcome.is_none(), cause == Cause::None, "one call is slow");
    println!("{}", plan.row(outcome.as_ref()));
}
