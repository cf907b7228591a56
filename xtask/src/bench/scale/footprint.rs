//! What a call does to the caches, counted by valgrind's simulation of two of them: the same on every machine
//! and at any load. It knows neither prefetching nor other cores, and must not be taken for a time.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::bench::Program;
use crate::bench::folder::Private;
use crate::process::{command, on_path, output};

/// First level of data, and second level: those of a current server's core, as valgrind wants them (bytes,
/// ways, bytes of a line).
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64"];

/// Both more than a ring holds, so that the dump at the end is the same.
const FEW: u32 = 300_000;
const MANY: u32 = 600_000;

/// Valgrind's name of an event, and ours.
const EVENTS: [(&str, &str); 7] = [
    ("Ir", "instructions"),
    ("Dr", "loads"),
    ("Dw", "stores"),
    ("D1mr", "loads that miss the first level"),
    ("D1mw", "stores that miss the first level"),
    ("DLmr", "loads that miss the second level"),
    ("DLmw", "stores that miss the second level"),
];

/// Events of one call, loop included.
pub(super) struct Footprint {
    /// What is counted; untraced, recorded with `rdtscp`.
    pub(super) rows: Vec<(&'static str, [f64; 2])>,
}

/// Counts them.
///
/// # Errors
///
/// If valgrind is missing, or can't run the program.
pub(super) fn of_a_call(program: &Program, folder: &Private) -> Result<Footprint> {
    if on_path("valgrind").is_none() {
        return Err("valgrind is not installed (Debian package valgrind)".to_owned());
    }
    let per_call = |twin: &str| -> Result<Vec<f64>> {
        let few = events(program, folder, twin, FEW)?;
        let many = events(program, folder, twin, MANY)?;
        let difference = many.iter().zip(&few);
        Ok(difference
            // What has nothing to do with calls may vary by some events.
            .map(|(many, few)| ((many - few) / f64::from(MANY - FEW)).max(0.0))
            .collect())
    };
    let (untraced, traced) = (per_call("untraced")?, per_call("traced")?);
    let rows = EVENTS.iter().zip(untraced.into_iter().zip(traced));
    Ok(Footprint {
        rows: rows
            .map(|((_, name), (untraced, traced))| (*name, [untraced, traced]))
            .collect(),
    })
}

/// Of a process that makes so many calls, in the order of [`EVENTS`].
fn events(program: &Program, folder: &Private, twin: &str, calls: u32) -> Result<Vec<f64>> {
    let run = folder.fresh()?;
    let mut valgrind = command("valgrind");
    valgrind
        .args(["--tool=callgrind", "--cache-sim=yes"])
        .args(CACHES)
        .arg(format!(
            "--callgrind-out-file={}",
            run.join("counts").display()
        ))
        .arg(&program.path)
        .args(["calls", "leaf", twin, &calls.to_string(), "1"]);
    if twin == "traced" {
        valgrind.env("FDR", "1").env("FDR_CLOCK", "rdtscp");
        valgrind
            .env("FDR_LOG", "quiet")
            .env("FDR_OUT", run.join(""));
    }
    let (_, log) = output(&mut valgrind)?;
    if twin == "traced" && !left_a_trace(&run) {
        return Err(format!(
            "the program was to record, and left no trace:\n{log}"
        ));
    }
    folder.empty();
    parse(&log).ok_or_else(|| format!("callgrind counted nothing:\n{log}"))
}

fn left_a_trace(folder: &Path) -> bool {
    let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|file| file.path().extension() == Some(OsStr::new("fdr")))
}

/// From the lines `==PID== Events : Ir Dr …` and `==PID== Collected : 12 3 …`.
fn parse(log: &str) -> Option<Vec<f64>> {
    let line = |name: &str| {
        let mut lines = log.lines().filter_map(|line| line.split_once(" : "));
        let found = lines.find(|(start, _)| start.contains(name));
        found.map(|(_, rest)| rest.split_whitespace())
    };
    let names: Vec<&str> = line("Events ")?.collect();
    let values: Vec<&str> = line("Collected")?.collect();
    let of = |event: &str| {
        let at = names.iter().position(|name| *name == event)?;
        values.get(at)?.parse().ok()
    };
    EVENTS.iter().map(|(event, _)| of(event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_their_names() {
        let log = "==7== Events    : Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
                   ==7== Collected : 100 30 20 1 2 3 4 5 6\n==7==\n\
                   ==7== I   refs:      100\n";
        assert_eq!(
            parse(log),
            Some(vec![100.0, 30.0, 20.0, 2.0, 3.0, 5.0, 6.0])
        );
        assert_eq!(parse("==7== Events    : Ir\n==7== Collected : 100\n"), None);
        assert_eq!(parse("==7== nothing\n"), None);
    }
}
