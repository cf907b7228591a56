//! What `cargo xtask bench formats` found, as tables for people and as JSON. Every number for people has
//! its unit. Pure: it starts nothing.

use std::fmt::Write;

use crate::Result;

/// One way to write a trace, without a tool around it.
pub(crate) struct Format {
    pub(crate) name: String,
    pub(crate) calls: f64,
    pub(crate) bytes: f64,
    /// Seconds.
    pub(crate) written: f64,
    /// Seconds.
    pub(crate) read: f64,
}

/// The large XRay trace into one format.
pub(crate) struct Conversion {
    pub(crate) seconds: f64,
    pub(crate) peak_kib: f64,
}

/// Another program, and what we do with the same file: seconds and peak memory in KiB of each.
pub(crate) struct Other {
    tool: &'static str,
    arguments: &'static str,
    /// The format of the file.
    from: &'static str,
    /// The same work as `fdr` does it.
    ours: &'static str,
    result: Result<Both>,
}

/// Theirs and ours.
type Both = ((f64, f64), (f64, f64));

impl Other {
    pub(crate) fn new(
        tool: &'static str,
        arguments: &'static str,
        from: &'static str,
        ours: &'static str,
        result: Result<Both>,
    ) -> Other {
        Other {
            tool,
            arguments,
            from,
            ours,
            result,
        }
    }
}

/// Everything that a run found.
pub(crate) struct Findings {
    pub(crate) machine: String,
    pub(crate) rounds: usize,
    /// Of each conversion.
    pub(crate) calls: u64,
    pub(crate) formats: Vec<Format>,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) others: Vec<Other>,
}

impl Findings {
    /// Two tables and a line for each other tool.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}; medians of {} rounds, files in the page cache\n\n\
             writing and reading alone, one thread; and fdr convert of {:.1} M calls from XRay\n\n\
             {:<12} {:>10} {:>14} {:>14} {:>12} {:>14} {:>11}\n",
            self.machine,
            self.rounds,
            self.calls as f64 / 1e6,
            "format",
            "bytes/call",
            "write Mcalls/s",
            "read Mcalls/s",
            "convert s",
            "conv. Mcalls/s",
            "peak MiB"
        );
        for (format, conversion) in self.formats.iter().zip(&self.conversions) {
            let speed = |seconds| format.calls / seconds / 1e6;
            let _ = writeln!(
                text,
                "{:<12} {:>10.1} {:>14.2} {:>14.2} {:>12.2} {:>14.2} {:>11.1}",
                format.name,
                format.bytes / format.calls,
                speed(format.written),
                speed(format.read),
                conversion.seconds,
                self.calls as f64 / conversion.seconds / 1e6,
                conversion.peak_kib / 1024.0
            );
        }
        text += "\nother programs, and fdr with the same file (1 M calls) and as much to do\n\n";
        for other in &self.others {
            let Other {
                tool,
                arguments,
                from,
                ours: same,
                result,
            } = other;
            let _ = match result {
                Ok(((theirs, their_peak), (ours, our_peak))) => writeln!(
                    text,
                    "{from}: {tool} {arguments}: {theirs:.2} s, {:.0} MiB; fdr {same}: {ours:.3} s, \
                     {:.0} MiB; {:.1} times as fast",
                    their_peak / 1024.0,
                    our_peak / 1024.0,
                    theirs / ours
                ),
                Err(why) => writeln!(text, "{tool} {arguments}: not measured: {why}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Findings {
        Findings {
            machine: "a machine".to_owned(),
            rounds: 3,
            calls: 10_000_000,
            formats: vec![Format {
                name: "heph".to_owned(),
                calls: 1e6,
                bytes: 8e7,
                written: 0.1,
                read: 0.2,
            }],
            conversions: vec![Conversion {
                seconds: 2.0,
                peak_kib: 10_240.0,
            }],
            others: vec![
                Other::new(
                    "one",
                    "IN",
                    "xray",
                    "verify IN",
                    Ok(((5.0, 2048.0), (0.5, 1024.0))),
                ),
                Other::new(
                    "another",
                    "IN",
                    "ctf",
                    "verify IN",
                    Err("not installed".to_owned()),
                ),
            ],
        }
    }

    #[test]
    fn the_tables_have_speeds_and_ratios() {
        let text = findings().text();
        let row = text.lines().find(|line| line.starts_with("heph"));
        let row: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        assert_eq!(
            row,
            ["heph", "80.0", "10.00", "5.00", "2.00", "5.00", "10.0"]
        );
        assert!(text.contains("5.00 s, 2 MiB; fdr verify IN: 0.500 s, 1 MiB; 10.0 times as fast"));
        assert!(text.contains("another IN: not measured: not installed"));
    }
}
