//! What a peer's program prints, and what is made of it. Pure: it starts nothing and prints nothing. Times are ns of
//! CPU for each traced call.

use crate::Result;
use crate::figures::{Spread, Words};

/// What one process measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    /// A call of the untraced twin.
    pub(super) untraced: f64,
    /// What tracing adds to a call, on the thread that makes it.
    pub(super) thread: f64,
    /// What the recorder adds in the whole process: its own threads, work between slices and at the end, and processes
    /// that belong to the recording.
    pub(super) process: f64,
}

impl Sample {
    /// From lines of `key=value` words: one for each pair of slices, and those of the end.
    ///
    /// # Errors
    /// If a value is missing, or there is no slice.
    pub(super) fn parse(text: &str) -> Result<Sample> {
        let lines: Vec<Words> = text.lines().map(Words::parse).collect();
        let slices = || {
            lines
                .iter()
                .filter(|line| line.find("untraced_calls").is_some())
        };
        let sum = |key: &str| slices().map(|slice| slice.get(key)).sum::<Result<f64>>();
        let middle = |twin: &str| -> Result<f64> {
            let (ns, calls) = (format!("{twin}_ns"), format!("{twin}_calls"));
            let each: Result<Vec<f64>> = slices()
                .map(|slice| Ok(slice.get(&ns)? / slice.get(&calls)?))
                .collect();
            Ok(Spread::from_values(each?)
                .ok_or("the program measured no slice")?
                .median)
        };
        let (untraced, traced) = (middle("untraced")?, middle("traced")?);
        let process_ns = lines.iter().find_map(|line| line.find("process_ns"));
        let process_ns = process_ns.ok_or("the program did not say process_ns")?;
        Ok(Sample {
            untraced,
            thread: traced - untraced,
            process: (process_ns - sum("untraced_ns")?) / sum("traced_calls")? - untraced,
        })
    }
}

/// What came out of a known number of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probe {
    /// Bytes of a call, if the recorder makes bytes.
    pub(super) bytes: Option<f64>,
    /// Share of the calls that came out, if it can be known.
    pub(super) kept: Option<f64>,
}

impl Probe {
    pub(super) fn parse(text: &str) -> Result<Probe> {
        let words = Words::parse(text);
        words.get("calls")?;
        Ok(Probe {
            bytes: words.ratio("bytes", "calls"),
            kept: words.ratio("kept", "calls"),
        })
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
    fn call_cost_is_a_difference_of_medians() {
        let sample = Sample::parse(TEXT).expect("a sample");
        assert_eq!((sample.untraced, sample.thread), (2.0, 10.0));
        // 48,200 less 19,000 of the untraced slices are 29,200 for 600 calls, of 2 ns each themselves.
        assert!((sample.process - (29_200.0 / 600.0 - 2.0)).abs() < 1e-9);
    }

    #[test]
    fn what_is_missing_is_reported() {
        assert!(Sample::parse("process_ns=1\n").is_err());
        assert!(Sample::parse("untraced_calls=1 untraced_ns=1 traced_calls=1\n").is_err());
        let slices = TEXT.rsplit_once("process").expect("the last line").0;
        let error = Sample::parse(slices)
            .expect_err("no process_ns")
            .to_string();
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
}
