//! Takes the time: slices of the untraced twin and of the traced one alternate on every thread. It only
//! prints the times. The driver computes all figures, for all peers in one place.

use std::sync::{Barrier, Mutex};
use std::thread;

use crate::work::{Body, Scratch};
use crate::{Batch, Peer, Result, sys};

const SLICES: usize = 11;
const SLICE_NS: u64 = 10_000_000;

/// One stretch of calls on one thread.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// How many.
    pub calls: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
}

/// All that a process measured.
pub struct Measurement {
    /// Of every thread, one after the other: the untraced twin, the traced one.
    pub pairs: Vec<[Slice; 2]>,
    /// CPU time of the process and of its helpers when the first slice began.
    pub since_ns: u64,
}

/// Measures with one thread on each of the cores.
///
/// # Errors
///
/// If a thread cannot be pinned, or the twins do not compute the same.
pub fn measure<P: Peer>(
    peer: &P,
    twins: [Batch; 2],
    body: Body,
    cores: &[usize],
) -> Result<Measurement> {
    let barrier = Barrier::new(cores.len());
    let since = Mutex::new(Ok(0));
    let lanes = thread::scope(|scope| {
        let start = |&core| {
            let (barrier, since) = (&barrier, &since);
            scope.spawn(move || on_core(core, peer, twins, body, barrier, since))
        };
        let lanes: Vec<_> = cores.iter().map(start).collect();
        lanes
            .into_iter()
            .map(|lane| lane.join())
            .collect::<Vec<_>>()
    });
    let mut pairs = Vec::new();
    for lane in lanes {
        pairs.extend(lane.map_err(|_| "a measuring thread panicked")??);
    }
    let since_ns = since.into_inner().map_err(|_| "a thread panicked")??;
    Ok(Measurement { pairs, since_ns })
}

/// CPU time of the process and of its helpers, in ns.
pub fn all_cpu_ns<P: Peer>(peer: &P) -> Result<u64> {
    Ok(sys::process_cpu_ns()? + peer.helpers_cpu_ns()?)
}

fn on_core<P: Peer>(
    core: usize,
    peer: &P,
    [untraced, traced]: [Batch; 2],
    body: Body,
    barrier: &Barrier,
    since: &Mutex<Result<u64>>,
) -> Result<Vec<[Slice; 2]>> {
    // Errors are reported at the end, because every thread must pass every barrier. Otherwise another thread waits for
    // ever.
    let pinned = sys::pin(core);
    let mut scratches = [Scratch::new(), Scratch::new()];
    let results = [
        crate::untraced::batch(body, &mut Scratch::new()),
        untraced(body, &mut scratches[0]),
        one_batch(peer, traced, body, &mut scratches[1]),
    ];
    let [scratch, other] = &mut scratches;
    let mut plain = || {
        std::hint::black_box(untraced(body, scratch));
    };
    let mut recorded = || {
        std::hint::black_box(one_batch(peer, traced, body, other));
    };
    let batches = [batches(&mut plain), batches(&mut recorded)];
    if barrier.wait().is_leader() {
        peer.settle();
        if let Ok(mut since) = since.lock() {
            *since = all_cpu_ns(peer);
        }
    }
    let mut pairs = Vec::with_capacity(SLICES);
    for _ in 0..SLICES {
        barrier.wait();
        let first = take(batches[0], body, &mut plain);
        barrier.wait();
        let second = take(batches[1], body, &mut recorded);
        if barrier.wait().is_leader() {
            peer.settle();
        }
        pairs.push([first, second]);
    }
    pinned?;
    if results.iter().any(|result| *result != results[0]) {
        return Err(format!("the twins of {body:?} differ: {results:x?}"));
    }
    pairs.into_iter().map(|[a, b]| Ok([a?, b?])).collect()
}

/// A batch of traced calls, with what the peer puts around it.
pub fn one_batch<P: Peer>(peer: &P, traced: Batch, body: Body, scratch: &mut Scratch) -> u64 {
    let mut result = 0;
    peer.batch(&mut || result = traced(body, scratch));
    result
}

fn take(batches: u64, body: Body, batch: &mut dyn FnMut()) -> Result<Slice> {
    let since = sys::thread_cpu_ns()?;
    for _ in 0..batches {
        batch();
    }
    Ok(Slice {
        calls: batches * body.calls(),
        cpu_ns: sys::thread_cpu_ns()? - since,
    })
}

/// How many batches fill a slice. A clock that cannot be read gives one; `take` tells why.
fn batches(batch: &mut dyn FnMut()) -> u64 {
    let mut count = 1;
    loop {
        let Ok(slice) = take(count, Body::Leaf, batch) else {
            return 1;
        };
        if slice.cpu_ns > SLICE_NS / 4 {
            return (count * SLICE_NS / slice.cpu_ns).max(1);
        }
        count *= 4;
    }
}
