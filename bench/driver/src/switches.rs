//! `cargo xtask bench switches`: what `FDR_SCHED=1` costs at a context switch, and at the beginning of a thread. Each
//! round has a process without the recorder, one with it, and one that records states, too. Ratios are within a round.

use crate::Result;
use crate::figures::{Cell, LEAST_ROUNDS, Spread, Words, in_rounds};
use crate::program::{Program, load, machine, said};
use crate::table::{Table, shown};

/// Switches of two threads, and threads begun, with and without FDR_SCHED=1
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seven at least
    #[arg(long, value_name = "N", default_value_t = LEAST_ROUNDS)]
    rounds: usize,
    /// How long each of the three figures of a process is measured
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

const WORDS: [(&str, &str); 3] = [
    ("same", "two threads on one core, switches"),
    ("apart", "two threads on two cores, switches"),
    ("threads", "threads begun and ended"),
];
/// Label, whether it records, and whether it records states.
const VARIANTS: [(&str, bool, bool); 3] = [
    ("off", false, false),
    ("FDR=1", true, false),
    ("FDR_SCHED=1", true, true),
];

/// Measures and prints the table.
///
/// # Errors
/// If the bench program can't be built or does not run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = Program::build()?;
    let rounds = options.rounds.max(LEAST_ROUNDS);
    let seconds = options.seconds.to_string();
    let before = load();
    let mut cells: [Cell<Words>; 3] = Default::default();
    in_rounds(rounds, VARIANTS.len(), |at| {
        let (_, records, states) = VARIANTS[at];
        cells[at].add(|| {
            let folder = program.folder()?;
            let mut bench = program.command(records.then_some("rdtscp"), &folder);
            if states {
                bench.env("FDR_SCHED", "1");
            }
            let said = said(bench.args(["switches", &seconds]))?;
            match said.stderr.trim() {
                "" => Ok(Words::parse(&said.stdout)),
                warning => Err(warning.to_owned().into()),
            }
        });
    });
    println!(
        "{}, load {before} before; a second, median of {rounds} rounds (least..greatest)\n",
        machine()
    );
    let mut table = Table::new("what | off | FDR=1 | FDR_SCHED=1 | of FDR=1 | ns more");
    for (word, label) in WORDS {
        let mut row = vec![label.to_owned()];
        row.extend(
            cells
                .iter()
                .map(|cell| shown(cell.spread(|words| words.find(word)), 0)),
        );
        let [_, on, states] = &cells;
        let pairs = || on.samples.iter().zip(&states.samples);
        let each = |of: fn(f64, f64) -> f64| {
            let both =
                pairs().filter_map(|(on, states)| Some((on.find(word)?, states.find(word)?)));
            Spread::of(both.map(|(on, states)| of(on, states)))
        };
        row.push(shown(each(|on, states| states / on), 3));
        row.push(shown(each(|on, states| 1e9 / states - 1e9 / on), 0));
        table.add(row);
    }
    print!("{}", table.text());
    for (cell, (label, ..)) in cells.iter().zip(VARIANTS) {
        if let Some(failure) = &cell.failure {
            println!("{label}: {failure}");
        }
    }
    Ok(())
}
