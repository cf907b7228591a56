//! How long single calls take: the tail, not the median. Every call lies between two clock reads, which
//! are in the figures; the untraced twin in the same loop tells them, and what the machine itself does to a
//! thread. Must not touch memory of its own between two calls but one histogram.

use std::error::Error;
use std::fmt::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::work::{Body, Caller, Variant};

/// Calls that surely go once round a thread's ring of the default size.
const LAP: u64 = 300_000;

/// Threads whose first call is measured.
const STARTS: u32 = 2_000;

/// Threads that make their first call at the same time, and how often. A ring of the default size has a slot for each
/// of them and for the few threads before them. So none inherits the slot of an ended thread.
const BURST: usize = 64;
const BURSTS: usize = 3;

/// Buckets of a power of two: values are told to a sixteenth.
const STEPS: u64 = 16;

/// Measured times, in ns: buckets as wide as a sixteenth of their values, and the largest as it is.
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram {
            buckets: vec![0; (64 * STEPS) as usize],
            count: 0,
            max: 0,
        }
    }

    fn add(&mut self, ns: u64) {
        self.buckets[bucket(ns) as usize] += 1;
        self.count += 1;
        self.max = self.max.max(ns);
    }

    /// The least value that so many of all are not above, within a sixteenth.
    fn quantile(&self, of_all: f64) -> u64 {
        let enough = (self.count as f64 * of_all).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= enough.max(1)
        });
        found.map_or(self.max, |at| highest(at as u64).min(self.max))
    }

    /// Words for xtask, each after `name` and an underline.
    fn tell(&self, name: &str, words: &mut String) {
        let quantiles = [
            ("p50", 0.5),
            ("p99", 0.99),
            ("p999", 0.999),
            ("p9999", 0.9999),
        ];
        for (word, of_all) in quantiles {
            let _ = write!(words, "{name}_{word}={} ", self.quantile(of_all));
        }
        let _ = write!(
            words,
            "{name}_max={} {name}_calls={} ",
            self.max, self.count
        );
    }
}

/// Which bucket a value is in.
fn bucket(ns: u64) -> u64 {
    if ns < STEPS {
        return ns;
    }
    let power = u64::from(ns.ilog2()) - u64::from(STEPS.ilog2());
    (power + 1) * STEPS + ((ns >> power) - STEPS)
}

/// The highest value of a bucket.
fn highest(bucket: u64) -> u64 {
    if bucket < STEPS {
        return bucket;
    }
    let power = bucket / STEPS - 1;
    ((STEPS + bucket % STEPS + 1) << power) - 1
}

/// Times one call.
fn one(caller: &mut Caller) -> u64 {
    let before = Instant::now();
    caller.call(1);
    before.elapsed().as_nanos() as u64
}

/// Measures the variant in each of the situations, `each` long where it is a matter of time.
///
/// # Errors
///
/// If the thread can't be pinned, or the variant is not to be had here.
pub(crate) fn tail(variant: Variant, each: Duration) -> Result<String, Box<dyn Error>> {
    let cores = core_affinity::get_core_ids().ok_or("cannot list the cores")?;
    let core = *cores.last().ok_or("no core")?;
    let mut words = String::new();
    thread::scope(|scope| {
        // Threads of their own: the first calls of a thread are what is measured.
        let of_one_thread = scope.spawn(move || in_one_thread(core, variant, each));
        of_one_thread.join().map_err(|_| "a thread panicked")?
    })?
    .into_iter()
    .for_each(|(name, histogram)| histogram.tell(name, &mut words));
    let mut bursts = Histogram::new();
    for _ in 0..BURSTS {
        burst(variant, &mut bursts)?;
    }
    bursts.tell("burst", &mut words);
    let mut starts = Histogram::new();
    for _ in 0..STARTS {
        let first = thread::spawn(move || {
            let mut caller = Caller::new(Body::Leaf, variant)?;
            Ok::<u64, String>(one(&mut caller))
        });
        starts.add(first.join().map_err(|_| "a thread panicked")??);
    }
    starts.tell("start", &mut words);
    Ok(words.trim_end().to_owned())
}

/// The first calls of threads that wait for one another just before.
fn burst(variant: Variant, to: &mut Histogram) -> Result<(), Box<dyn Error>> {
    let barrier = Barrier::new(BURST);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..BURST)
            .map(|_| {
                scope.spawn(|| {
                    let caller = Caller::new(Body::Leaf, variant);
                    barrier.wait();
                    Ok::<u64, String>(one(&mut caller?))
                })
            })
            .collect();
        for first in threads {
            to.add(first.join().map_err(|_| "a thread panicked")??);
        }
        Ok(())
    })
}

type Rows = Vec<(&'static str, Histogram)>;

fn in_one_thread(
    core: core_affinity::CoreId,
    variant: Variant,
    each: Duration,
) -> Result<Rows, String> {
    if !core_affinity::set_for_current(core) {
        return Err(format!("cannot pin a thread to core {}", core.id));
    }
    let mut caller = Caller::new(Body::Leaf, variant)?;
    // The thread's very first one is a figure of its own.
    caller.call(1);
    let mut fresh = Histogram::new();
    for _ in 0..LAP {
        fresh.add(one(&mut caller));
    }
    let mut steady = Histogram::new();
    let since = Instant::now();
    while since.elapsed() < each {
        (0..1000).for_each(|_| steady.add(one(&mut caller)));
    }
    let mut dumped = Histogram::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A thread begins on the core of the one that starts it.
            let others = core_affinity::get_core_ids().unwrap_or_default();
            if let Some(other) = others.into_iter().find(|other| other.id != core.id) {
                core_affinity::set_for_current(other);
            }
            while !stop.load(Ordering::Relaxed) {
                // Nothing to dump where nothing is recorded: a pause is as good.
                if fdr::dump().is_err() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let since = Instant::now();
        while since.elapsed() < each {
            (0..1000).for_each(|_| dumped.add(one(&mut caller)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(vec![
        ("fresh", fresh),
        ("steady", steady),
        ("dumped", dumped),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_values() {
        let values = (0..100_000).chain([1 << 40, (1 << 40) + 1]);
        for value in values {
            let at = bucket(value);
            assert!(
                highest(at) >= value && (at == 0 || highest(at - 1) < value),
                "{value}"
            );
            assert!(highest(at) - value <= value / 16, "{value}");
        }
    }

    #[test]
    fn quantiles_are_of_all_values() {
        let mut histogram = Histogram::new();
        (0..1000).for_each(|_| histogram.add(10));
        histogram.add(5_000);
        assert_eq!(histogram.quantile(0.5), 10);
        assert_eq!(histogram.quantile(0.999), 10);
        assert_eq!(histogram.quantile(0.9999), 5_000);
        let mut words = String::new();
        histogram.tell("steady", &mut words);
        assert!(words.contains("steady_p50=10 ") && words.contains("steady_max=5000 "));
    }
}
