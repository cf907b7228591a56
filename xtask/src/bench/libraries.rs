//! `cargo xtask bench libraries`: what a traced leaf costs in code that is not the executable's, beside the
//! executable's own and the floor. Thread storage is dearer there, and a plug-in's records are put where
//! its host's are.

use std::path::Path;

use super::figures::{Cell, Sample, Spread};
use super::{LEAST_ROUNDS, Program, machine};
use crate::Result;

/// Where the traced function is.
#[derive(Clone, Copy)]
enum Place {
    /// In the executable: the floor, and a traced call.
    Executable(&'static str),
    /// In a library that an executable with the recorder loads: its guest.
    PlugIn,
    /// In a library that records for itself: loaded by dlopen, or with the executable.
    Library { from_start: bool },
}

const CLOCKS: [(&str, &str); 2] = [("rdtscp", "floor-rdtscp"), ("rdtsc", "floor-rdtsc")];

const ROWS: [(&str, Place); 4] = [
    ("executable", Place::Executable("traced")),
    ("plug-in of a traced executable", Place::PlugIn),
    (
        "library, by dlopen, alone",
        Place::Library { from_start: false },
    ),
    (
        "library, from the start, alone",
        Place::Library { from_start: true },
    ),
];

/// Measures and prints the table.
///
/// # Errors
///
/// If the bench can't be built, or a row can't be measured.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let rounds = match words {
        [] => 11,
        ["--quick"] => LEAST_ROUNDS,
        _ => return Err("unknown option; see cargo xtask help".to_owned()),
    };
    let program = Program::build()?;
    program.take_traces()?;
    let folder = program.path.parent().unwrap_or(Path::new(""));
    let library = folder.join("libfdr_bench_library.so");
    let bare = folder.join("fdr-bench-bare");
    println!(
        "{}; a traced leaf, ns of CPU over its untraced twin, median of {rounds} rounds (least to greatest)\n",
        machine()
    );
    for (clock, floor) in CLOCKS {
        let rows: Vec<_> = [(floor, Place::Executable(floor))]
            .into_iter()
            .chain(ROWS)
            .collect();
        let mut cells: Vec<Cell> = rows.iter().map(|_| Cell::default()).collect();
        for round in 0..rounds {
            for at in 0..rows.len() {
                let at = (at + round) % rows.len();
                let sample = sample(&program, &library, &bare, rows[at].1, clock)?;
                cells[at].samples.push(sample);
            }
        }
        let spread = |cell: &Cell| Spread::of(cell.samples.iter().map(|sample| sample.over));
        let floor = spread(&cells[0]).map_or(f64::NAN, |spread| spread.median);
        for ((label, _), cell) in rows.iter().zip(&cells) {
            if let Some(spread) = spread(cell) {
                println!("{}", row(clock, label, &spread, floor));
            }
        }
        println!();
    }
    Ok(())
}

fn sample(
    program: &Program,
    library: &Path,
    bare: &Path,
    place: Place,
    clock: &str,
) -> Result<Sample> {
    let path = library.to_string_lossy();
    let with = |path: &Path| Program {
        path: path.to_owned(),
        folder: program.folder.clone(),
    };
    let words = match place {
        Place::Executable(variant) => {
            let clock = (variant == "traced").then_some(clock);
            program.ask(&["measure", "leaf", variant, "1", "0"], clock)
        }
        Place::PlugIn => program.ask(&leaf_after(&["library", &path]), Some(clock)),
        Place::Library { from_start: false } => with(bare).ask(&leaf_after(&[&path]), Some(clock)),
        Place::Library { from_start: true } => {
            with(bare).ask_with(&leaf_after(&["-"]), Some(clock), &[("LD_PRELOAD", &path)])
        }
    };
    Sample::from_words(&words?)
}

/// The words that have a library measure its leaf.
fn leaf_after<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &["leaf", "traced", "1", "0"]].concat()
}

fn row(clock: &str, label: &str, spread: &Spread, floor: f64) -> String {
    let Spread { median, min, max } = spread;
    format!(
        "{clock:<7} {label:<32} {median:>6.1} ({min:.1} to {max:.1})  {:.2} x floor",
        median / floor
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_by_the_floor() {
        let spread = Spread {
            median: 33.0,
            min: 30.0,
            max: 36.5,
        };
        let text = row("rdtscp", "executable", &spread, 30.0);
        assert!(
            text.ends_with("33.0 (30.0 to 36.5)  1.10 x floor"),
            "{text}"
        );
    }
}
