//! This project's recorder, as a program that depends on it uses it: an attribute, and variables. Modes:
//! `rdtscp` and `rdtsc` (each call leaves its records), `default-rdtscp` (its default: short calls leave sums alone) and
//! `default-rdtsc`, `untimed` (the attribute for hot leaves, on everything here), `off` (compiled in, nothing set).

use std::fs;
use std::process::ExitCode;

use peer_harness::{Peer, RecordedSize, Result, folder, twin, untraced, with_environment};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[fdr::traced]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

macro_rules! untimed {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[fdr::traced(untimed)]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(traced, traced);
twin!(untimed, untimed);

struct Fdr {
    on: bool,
}

impl Peer for Fdr {
    fn finish(&self) -> Result<RecordedSize> {
        if !self.on {
            return Ok(RecordedSize::default());
        }
        let dump = fdr::dump().map_err(|error| error.to_string())?;
        let metadata = fs::metadata(&dump.path);
        let metadata = metadata.map_err(|error| format!("{}: {error}", dump.path.display()))?;
        Ok(RecordedSize {
            bytes: Some(metadata.len()),
            calls: Some(dump.records / 2),
        })
    }
}

fn start(mode: &str) -> Result<Fdr> {
    let on = mode != "off";
    let (clock, keep) = match (mode, mode.strip_prefix("default-")) {
        (_, Some(clock)) => (clock, "10s"),
        ("untimed", _) => ("rdtsc", "0"),
        // Every call leaves its records, as with the other recorders.
        (clock, _) => (clock, "0"),
    };
    if on {
        let out = folder()?.join("");
        let out = out.to_str().ok_or("the folder's name is not UTF-8")?;
        with_environment(&[
            ("FDR", "1"),
            ("FDR_CLOCK", clock),
            ("FDR_KEEP", keep),
            ("FDR_OUT", out),
        ])?;
    }
    Ok(Fdr { on })
}

fn main() -> ExitCode {
    let timed = std::env::args().nth(1).is_none_or(|mode| mode != "untimed");
    let traced = if timed { traced::batch } else { untimed::batch };
    peer_harness::main([untraced::batch, traced], start)
}
