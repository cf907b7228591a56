//! Many threads that record at once. For each thread, a call is compared with the floor, measured on the same thread a
//! moment before. The process's memory and work are measured, too. One process is one number of threads. Must count CPU
//! time only where it says so: with more threads than cores, the wall tells how long they waited.

#[cfg(target_arch = "x86_64")]
pub(crate) mod pair;
mod process;
#[cfg(target_arch = "x86_64")]
mod slots;
#[cfg(target_arch = "x86_64")]
mod worker;

use std::error::Error;
use std::fmt::Write;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::measure::{Slice, calls_of, median};
use crate::work::{Body, Caller, Variant};
use process::Holdings;

/// Slices of each twin, and how long one takes. Short ones: 64 threads of them are to be had in some seconds.
const SLICES: usize = 7;
const SLICE_NS: f64 = 5e6;

/// Bytes of a call in the ring.
const CALL_BYTES: u64 = 16;

/// Calls that go once round a thread's ring of the default size, nearly: its first use.
const FIRST_LAP: u64 = (4 << 20) / CALL_BYTES;

const MIB: f64 = (1 << 20) as f64;

/// The twins of a slice, in the order of their turns.
const TWINS: usize = 3;
const UNTRACED: usize = 0;
const FLOOR: usize = 1;
const TRACED: usize = 2;

/// A stretch of calls, when it began and ended, and how often its thread had to wait for a page.
struct Turn {
    slice: Slice,
    from: Instant,
    to: Instant,
    faults: u64,
}

impl Turn {
    fn take(caller: &mut Caller, calls: u64) -> Turn {
        let (faults, from) = (process::thread_faults(), Instant::now());
        let slice = Slice::take(caller, calls);
        Turn {
            slice,
            from,
            to: Instant::now(),
            faults: process::thread_faults() - faults,
        }
    }
}

/// All that one thread did.
struct Lane {
    first_lap: Turn,
    rounds: Vec<[Turn; TWINS]>,
}

impl Lane {
    fn turns(&self, twin: usize) -> impl Iterator<Item = &Turn> {
        self.rounds.iter().map(move |round| &round[twin])
    }

    fn ns(&self, twin: usize) -> f64 {
        median(self.turns(twin).map(|turn| turn.slice.cpu_ns_per_call()))
    }
}

/// Measures so many threads, on all cores by turns, each on one. `floor`: which of them.
///
/// # Errors
///
/// If a thread can't be pinned or the system does not say what the process holds; if recording is on, and a
/// thread's calls were not recorded.
pub(crate) fn scale(floor: Variant, threads: usize) -> Result<String, Box<dyn Error>> {
    let cores = core_affinity::get_core_ids().ok_or("cannot list the cores")?;
    // Here, so that no thread fails where others wait for it.
    Caller::new(Body::Leaf, floor)?;
    if threads == 0 || cores.is_empty() {
        return Err("no threads, or no cores".into());
    }
    let (slices, look) = (Barrier::new(threads), Barrier::new(threads + 1));
    let (lanes, holdings, statistics) = thread::scope(|scope| {
        let start = |at: usize| {
            let core = cores[cores.len() - 1 - at % cores.len()];
            let (slices, look) = (&slices, &look);
            scope.spawn(move || lane(core, floor, slices, look))
        };
        let lanes: Vec<_> = (0..threads).map(start).collect();
        // All have done their work, and none has ended.
        look.wait();
        let seen = (Holdings::now(), fdr::statistics());
        look.wait();
        let lanes: Vec<_> = lanes.into_iter().map(|lane| lane.join()).collect();
        (lanes, seen.0, seen.1)
    });
    let mut all = Vec::new();
    for lane in lanes {
        all.push(lane.map_err(|_| "a measuring thread panicked")??);
    }
    if fdr::is_enabled() {
        recorded(&all, &statistics)?;
    }
    Ok(told(&all, &holdings?))
}

fn lane(
    core: core_affinity::CoreId,
    floor: Variant,
    slices: &Barrier,
    look: &Barrier,
) -> Result<Lane, String> {
    // Told at the end: every thread passes every barrier.
    let pinned = core_affinity::set_for_current(core);
    let mut callers = [
        Caller::new(Body::Leaf, Variant::Untraced)?,
        Caller::new(Body::Leaf, floor)?,
        Caller::new(Body::Leaf, Variant::Traced)?,
    ];
    slices.wait();
    let first_lap = Turn::take(&mut callers[TRACED], FIRST_LAP);
    let calls = callers.each_mut().map(|caller| calls_of(caller, SLICE_NS));
    let mut rounds = Vec::with_capacity(SLICES);
    for _ in 0..SLICES {
        rounds.push([UNTRACED, FLOOR, TRACED].map(|twin| {
            slices.wait();
            Turn::take(&mut callers[twin], calls[twin])
        }));
    }
    look.wait();
    look.wait();
    if pinned {
        Ok(Lane { first_lap, rounds })
    } else {
        Err(format!("cannot pin a thread to core {}", core.id))
    }
}

/// An error where threads' records are missing: figures of calls that were not recorded would be good ones.
fn recorded(lanes: &[Lane], statistics: &fdr::Statistics) -> Result<(), String> {
    let calls = |lane: &Lane| {
        let later: u64 = lane.turns(TRACED).map(|turn| turn.slice.calls).sum();
        lane.first_lap.slice.calls + later
    };
    let made: u64 = lanes.iter().map(|lane| 2 * calls(lane)).sum();
    let recorded = |thread: &fdr::ThreadStatistics| thread.readable + thread.overwritten;
    let found: u64 = statistics.threads.iter().map(recorded).sum();
    if statistics.missing.dropped == 0 && found >= made {
        return Ok(());
    }
    Err(format!(
        "of {made} records of the slices, {found} were recorded, and {} had no ring: set a larger FDR_MEMORY",
        statistics.missing.dropped
    ))
}

/// Words for xtask.
fn told(lanes: &[Lane], holdings: &Holdings) -> String {
    let mut words = String::new();
    for (name, twin) in [("untraced", UNTRACED), ("floor", FLOOR), ("traced", TRACED)] {
        let of_threads = lanes.iter().map(|lane| lane.ns(twin));
        let _ = write!(words, "{name}={:.4} ", median(of_threads));
    }
    let of_threads = || lanes.iter().map(|lane| lane.ns(TRACED));
    let (least, most) = (
        of_threads().fold(f64::INFINITY, f64::min),
        of_threads().fold(0.0, f64::max),
    );
    let _ = write!(words, "least_thread={least:.4} most_thread={most:.4} ");
    let _ = write!(words, "records_per_core_s={:.0} ", per_core_second(lanes));
    let walls = (0..SLICES).map(|round| per_second(lanes, round));
    let _ = write!(words, "records_per_s={:.0} ", median(walls));
    let laps = lanes
        .iter()
        .map(|lane| lane.first_lap.slice.cpu_ns_per_call());
    let _ = write!(words, "first_lap={:.4} ", median(laps));
    let first = faults_per_mib(lanes.iter().map(|lane| &lane.first_lap));
    let later = faults_per_mib(lanes.iter().flat_map(|lane| lane.turns(TRACED)));
    let _ = write!(
        words,
        "first_lap_faults={first:.4} later_faults={later:.4} "
    );
    words + &holdings.words()
}

/// Records that a second of the recording threads' CPU makes, with the function's own time.
fn per_core_second(lanes: &[Lane]) -> f64 {
    let turns = || lanes.iter().flat_map(|lane| lane.turns(TRACED));
    let calls: u64 = turns().map(|turn| turn.slice.calls).sum();
    let cpu_ns: f64 = turns().map(|turn| turn.slice.cpu_ns).sum();
    2e9 * calls as f64 / cpu_ns
}

/// Records of all threads in a second on the wall, in one round.
fn per_second(lanes: &[Lane], round: usize) -> f64 {
    let turns = || lanes.iter().map(|lane| &lane.rounds[round][TRACED]);
    let from = turns().map(|turn| turn.from).min();
    let to = turns().map(|turn| turn.to).max();
    let calls: u64 = turns().map(|turn| turn.slice.calls).sum();
    match (from, to) {
        (Some(from), Some(to)) => 2.0 * calls as f64 / (to - from).as_secs_f64(),
        _ => 0.0,
    }
}

/// Page faults of the recording threads for each MiB that they recorded.
fn faults_per_mib<'a>(turns: impl Iterator<Item = &'a Turn>) -> f64 {
    let (faults, calls) = turns.fold((0, 0), |(faults, calls), turn| {
        (faults + turn.faults, calls + turn.slice.calls)
    });
    faults as f64 / ((calls * CALL_BYTES) as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn turn(begin: Instant, from_ms: u64, to_ms: u64, calls: u64, cpu_ns: f64) -> Turn {
        Turn {
            slice: Slice {
                calls,
                cpu_ns,
                wall_ns: 0.0,
            },
            from: begin + Duration::from_millis(from_ms),
            to: begin + Duration::from_millis(to_ms),
            faults: 32,
        }
    }

    /// Two threads on one core: each has half of the wall, and the same CPU time for a call.
    fn lanes() -> Vec<Lane> {
        let begin = Instant::now();
        let lane = |from_ms: u64| {
            let round = |_| {
                [1.0, 30.0, 40.0]
                    .map(|ns| turn(begin, from_ms, from_ms + 40, 1 << 20, ns * 1048576.0))
            };
            Lane {
                first_lap: turn(begin, 0, 10, FIRST_LAP, 60.0 * FIRST_LAP as f64),
                rounds: (0..SLICES).map(round).collect(),
            }
        };
        vec![lane(0), lane(40)]
    }

    #[test]
    fn cpu_and_wall_are_told_apart() {
        let words = told(&lanes(), &Holdings::default());
        let start = "untraced=1.0000 floor=30.0000 traced=40.0000 least_thread=40.0000 \
                     most_thread=40.0000 records_per_core_s=50000000 records_per_s=52428800 \
                     first_lap=60.0000 first_lap_faults=8.0000 later_faults=2.0000 ";
        assert!(words.starts_with(start), "{words}");
    }

    #[test]
    fn missing_records_are_an_error() {
        let mut statistics = fdr::Statistics::default();
        let error = recorded(&lanes(), &statistics).expect_err("nothing was recorded");
        assert!(error.contains("0 were recorded"), "{error}");
        let calls = FIRST_LAP + SLICES as u64 * (1 << 20);
        let mut thread = fdr::ThreadStatistics::default();
        thread.overwritten = 2 * calls;
        statistics.threads = vec![thread.clone(), thread];
        assert_eq!(recorded(&lanes(), &statistics), Ok(()));
        statistics.missing.dropped = 1;
        assert!(recorded(&lanes(), &statistics).is_err());
    }
}
