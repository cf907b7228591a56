//! What a peer's program prints, and what is made of it. Pure: it starts nothing and prints nothing. All
//! arithmetic of the comparison is here; times are ns of CPU for each traced call.

use crate::Result;
use crate::bench::figures::{Spread, get, words};

/// What one process measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// A call of the untraced twin.
    pub(crate) untraced: f64,
    /// What tracing adds to a call, on the thread that makes it.
    pub(crate) thread: f64,
    /// What it adds in the whole process: the recorder's own threads, what is done between slices and at the
    /// end, and processes that belong to the recording.
    pub(crate) process: f64,
}

impl Sample {
    /// From lines of `key=value` words: one for each pair of slices, and those of the end.
    ///
    /// # Errors
    ///
    /// If a value is missing, or there is no slice.
    pub(crate) fn parse(text: &str) -> Result<Sample> {
        let mut per_call = [Vec::new(), Vec::new()];
        let (mut untraced_ns, mut traced_calls, mut process_ns) = (0.0, 0.0, None);
        for line in text.lines().map(words) {
            process_ns = process_ns.or(get(&line, "process_ns").ok());
            if get(&line, "untraced_calls").is_err() {
                continue;
            }
            for (twin, times) in ["untraced", "traced"].into_iter().zip(&mut per_call) {
                let calls = get(&line, &format!("{twin}_calls"))?;
                times.push(get(&line, &format!("{twin}_ns"))? / calls);
            }
            untraced_ns += get(&line, "untraced_ns")?;
            traced_calls += get(&line, "traced_calls")?;
        }
        let median = |times: &[f64]| Spread::of(times.iter().copied()).map(|spread| spread.median);
        let untraced = median(&per_call[0]).ok_or("the program measured no slice")?;
        let traced = median(&per_call[1]).ok_or("the program measured no slice")?;
        let process_ns = process_ns.ok_or("the program did not say process_ns")?;
        Ok(Sample {
            untraced,
            thread: traced - untraced,
            process: (process_ns - untraced_ns) / traced_calls - untraced,
        })
    }
}

/// What came out of a known number of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probe {
    /// Bytes of a call, if the recorder makes bytes.
    pub(crate) bytes: Option<f64>,
    /// Share of the calls that came out, if it can be known.
    pub(crate) kept: Option<f64>,
}

impl Probe {
    pub(crate) fn parse(text: &str) -> Result<Probe> {
        let said = words(text);
        let calls = get(&said, "calls")?;
        let share = |key| get(&said, key).ok().map(|value| value / calls);
        Ok(Probe {
            bytes: share("bytes"),
            kept: share("kept"),
        })
    }
}

/// All rounds of one peer with one body.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) samples: Vec<Sample>,
    /// Why it was not measured (any further).
    pub(crate) failure: Option<String>,
}

impl Cell {
    /// `None` unless all rounds were measured.
    fn spread(&self, value: fn(&Sample) -> f64) -> Option<Spread> {
        let whole = self.failure.is_none();
        Spread::of(self.samples.iter().map(value)).filter(|_| whole)
    }

    pub(crate) fn untraced(&self) -> Option<Spread> {
        self.spread(|sample| sample.untraced)
    }

    pub(crate) fn thread(&self) -> Option<Spread> {
        self.spread(|sample| sample.thread)
    }

    pub(crate) fn process(&self) -> Option<Spread> {
        self.spread(|sample| sample.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads with three slices each: untraced calls take 2 ns, traced ones 12, but for one slice each
    /// that something disturbed.
    const TEXT: &str = "\
untraced_calls=1000 untraced_ns=2000 traced_calls=100 traced_ns=1200
untraced_calls=1000 untraced_ns=2000 traced_calls=100 traced_ns=1200
untraced_calls=1000 untraced_ns=9000 traced_calls=100 traced_ns=1200
untraced_calls=1000 untraced_ns=2000 traced_calls=100 traced_ns=5200
untraced_calls=1000 untraced_ns=2000 traced_calls=100 traced_ns=1200
untraced_calls=1000 untraced_ns=2000 traced_calls=100 traced_ns=1200
process_ns=48200 bytes=9600
";

    #[test]
    fn a_call_costs_the_median_less_the_twins_median() {
        let sample = Sample::parse(TEXT).expect("a sample");
        assert_eq!((sample.untraced, sample.thread), (2.0, 10.0));
    }

    #[test]
    fn the_process_pays_for_all_but_the_untraced_slices() {
        // 48,200 less 19,000 of the untraced slices are 29,200 for 600 calls, of 2 ns each themselves.
        let sample = Sample::parse(TEXT).expect("a sample");
        assert!((sample.process - (29_200.0 / 600.0 - 2.0)).abs() < 1e-9);
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(Sample::parse("process_ns=1\n").is_err());
        assert!(Sample::parse("untraced_calls=1 untraced_ns=1 traced_calls=1\n").is_err());
        let slices = TEXT.rsplit_once("process").expect("the last line").0;
        let error = Sample::parse(slices).expect_err("no process_ns");
        assert!(error.contains("process_ns"), "{error}");
    }

    #[test]
    fn a_probe_is_divided_by_its_calls() {
        let probe = Probe::parse("calls=200\nbytes=3200 kept=150\n").expect("a probe");
        assert_eq!((probe.bytes, probe.kept), (Some(16.0), Some(0.75)));
        let nothing = Probe::parse("calls=200\n").expect("a probe");
        assert_eq!((nothing.bytes, nothing.kept), (None, None));
        assert!(Probe::parse("bytes=3200\n").is_err());
    }

    #[test]
    fn a_cell_that_failed_has_no_figure() {
        let sample = |thread| Sample {
            untraced: 1.0,
            thread,
            process: 50.0,
        };
        let mut cell = Cell {
            samples: vec![sample(10.0), sample(30.0), sample(20.0)],
            failure: None,
        };
        let spread = cell.thread().expect("a figure");
        assert_eq!((spread.min, spread.median, spread.max), (10.0, 20.0, 30.0));
        assert_eq!(cell.process().map(|spread| spread.median), Some(50.0));
        cell.failure = Some("it crashed".to_owned());
        assert_eq!(cell.thread(), None);
    }
}
