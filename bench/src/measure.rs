//! Takes the time: slices of the untraced twin and of the measured variant alternate in one process,
//! and the middle one of each counts. The unit is CPU time of the calling thread, so other processes
//! hardly matter. Scaling with threads is also measured in wall time, which needs a quiet machine.

use std::error::Error;
use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::work::{Body, Caller, Variant};

const SLICES: usize = 11;
const SLICE_NS: f64 = 10e6;

/// ns per call, each the median of the slices.
pub(crate) struct Figures {
    untraced: f64,
    measured: f64,
    /// With several threads: of the untraced twin, and of the variant.
    scaling: Option<[Scaling; 2]>,
}

/// The calls a second of N threads together, divided by N times the calls a second of one thread
/// alone.
struct Scaling {
    cpu: f64,
    wall: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "untraced={:.4} measured={:.4}",
            self.untraced, self.measured
        )?;
        if let Some([untraced, measured]) = &self.scaling {
            write!(
                f,
                " cpu_scaling_untraced={:.4} cpu_scaling={:.4}",
                untraced.cpu, measured.cpu
            )?;
            write!(
                f,
                " wall_scaling_untraced={:.4} wall_scaling={:.4}",
                untraced.wall, measured.wall
            )?;
        }
        Ok(())
    }
}

/// One stretch of calls.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) calls: u64,
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
}

impl Slice {
    pub(crate) fn take(caller: &mut Caller, calls: u64) -> Slice {
        let (wall, cpu) = (Instant::now(), thread_cpu_ns());
        let calls = caller.call(calls);
        let cpu_ns = (thread_cpu_ns() - cpu) as f64;
        Slice {
            calls,
            cpu_ns,
            wall_ns: wall.elapsed().as_nanos() as f64,
        }
    }

    pub(crate) fn cpu_ns_per_call(&self) -> f64 {
        self.cpu_ns / self.calls as f64
    }
}

/// CPU time of the calling thread, in ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The middle one (the upper one of two).
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many calls fill a slice.
fn calls_of_a_slice(caller: &mut Caller) -> u64 {
    calls_of(caller, SLICE_NS)
}

/// How many calls take this much CPU time, in ns.
pub(crate) fn calls_of(caller: &mut Caller, ns: f64) -> u64 {
    let mut calls = 1_000;
    loop {
        let slice = Slice::take(caller, calls);
        if slice.cpu_ns > ns / 4.0 {
            return (ns / slice.cpu_ns_per_call()) as u64;
        }
        calls *= 4;
    }
}

/// Measures `variant` against the untraced twin on `threads` threads, each pinned to its own core.
///
/// # Errors
///
/// If there are fewer cores than threads, or a thread cannot be pinned.
pub(crate) fn measure(
    body: Body,
    variant: Variant,
    threads: usize,
) -> Result<Figures, Box<dyn Error>> {
    let cores = core_affinity::get_core_ids().ok_or("cannot list the cores")?;
    if threads == 0 || cores.len() < threads {
        return Err(format!("{threads} threads on {} cores", cores.len()).into());
    }
    let barrier = Barrier::new(threads);
    let rows = thread::scope(|scope| {
        let barrier = &barrier;
        // From the last core down: the first one usually serves the interrupts.
        let start = |&core| scope.spawn(move || measure_on(core, body, variant, barrier));
        let workers: Vec<_> = cores.iter().rev().take(threads).map(start).collect();
        workers
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for rows in rows {
        all.push(rows.map_err(|_| "a measuring thread panicked")??);
    }
    Ok(figures(&all))
}

/// What one thread took in one round of slices. Alone: the first thread while the others wait.
struct Row {
    alone: Option<[Slice; 2]>,
    together: [Slice; 2],
}

fn measure_on(
    core: core_affinity::CoreId,
    body: Body,
    variant: Variant,
    barrier: &Barrier,
) -> Result<Vec<Row>, String> {
    // Told at the end: every thread passes every barrier, or another waits for ever.
    let pinned = core_affinity::set_for_current(core);
    let mut untraced = Caller::new(body, Variant::Untraced)?;
    let mut measured = Caller::new(body, variant)?;
    let calls = [
        calls_of_a_slice(&mut untraced),
        calls_of_a_slice(&mut measured),
    ];
    let mut pair = |before: &dyn Fn()| {
        before();
        let first = Slice::take(&mut untraced, calls[0]);
        before();
        [first, Slice::take(&mut measured, calls[1])]
    };
    let mut rows = Vec::with_capacity(SLICES);
    for _ in 0..SLICES {
        let leader = barrier.wait().is_leader();
        let alone = leader.then(|| pair(&|| ()));
        let together = pair(&|| {
            barrier.wait();
        });
        rows.push(Row { alone, together });
    }
    if pinned {
        Ok(rows)
    } else {
        Err(format!("cannot pin a thread to core {}", core.id))
    }
}

fn figures(threads: &[Vec<Row>]) -> Figures {
    let together = |which: usize| {
        let rows = threads.iter().flatten();
        median(rows.map(move |row| row.together[which].cpu_ns_per_call()))
    };
    let several = threads.len() > 1;
    Figures {
        untraced: together(0),
        measured: together(1),
        scaling: several.then(|| [0, 1].map(|which| scaling(threads, which))),
    }
}

/// `which`: 0 = the untraced twin, 1 = the variant.
fn scaling(threads: &[Vec<Row>], which: usize) -> Scaling {
    // Slice by slice: what one did alone just before all did it together.
    let of_slice = |slice: usize, speed: fn(&Slice) -> f64| {
        let rows = || threads.iter().map(|rows| &rows[slice]);
        let alone: f64 = rows()
            .filter_map(|row| row.alone)
            .map(|pair| speed(&pair[which]))
            .sum();
        let together: f64 = rows().map(|row| speed(&row.together[which])).sum();
        together / (threads.len() as f64 * alone)
    };
    let middle = |speed| median((0..SLICES).map(|slice| of_slice(slice, speed)));
    Scaling {
        cpu: middle(|slice| slice.calls as f64 / slice.cpu_ns),
        wall: middle(|slice| slice.calls as f64 / slice.wall_ns),
    }
}

/// How many dependent multiplies of `untraced::chain` take about 50 ns here.
///
/// # Errors
///
/// Never on x86-64.
pub(crate) fn steps_of_50_ns() -> Result<u32, String> {
    let probe = 64;
    let mut caller = Caller::new(Body::Chain(probe), Variant::Untraced)?;
    let calls = calls_of_a_slice(&mut caller);
    let took = median((0..SLICES).map(|_| Slice::take(&mut caller, calls).cpu_ns_per_call()));
    Ok((50.0 * f64::from(probe) / took).round().max(1.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(calls: u64, cpu_ns: f64, wall_ns: f64) -> Slice {
        Slice {
            calls,
            cpu_ns,
            wall_ns,
        }
    }

    #[test]
    fn the_median_ignores_an_outlier() {
        assert_eq!(median([5.0, 1.0, 900.0, 4.0, 3.0]), 4.0);
    }

    #[test]
    fn two_threads_at_full_speed_scale_by_one() {
        let row = |alone: bool, wall: f64| Row {
            alone: alone.then(|| [slice(10, 20.0, 20.0), slice(10, 40.0, 40.0)]),
            together: [slice(10, 20.0, 20.0), slice(10, 40.0, wall)],
        };
        let rows = |alone, wall| (0..SLICES).map(|_| row(alone, wall)).collect::<Vec<_>>();
        // The variant's threads wait for each other half of the time.
        let figures = figures(&[rows(true, 80.0), rows(false, 80.0)]);
        assert_eq!(
            figures.to_string(),
            "untraced=2.0000 measured=4.0000 cpu_scaling_untraced=1.0000 cpu_scaling=1.0000 \
             wall_scaling_untraced=1.0000 wall_scaling=0.5000"
        );
    }

    #[test]
    fn one_thread_has_no_scaling() {
        let row = |_| Row {
            alone: None,
            together: [slice(10, 20.0, 20.0); 2],
        };
        let figures = figures(&[(0..SLICES).map(row).collect()]);
        assert!(figures.scaling.is_none());
    }
}
