//! `cargo xtask bench switches`: what `FDR_SCHED=1` costs at a context switch, and at the beginning of a thread. Each
//! round has a process without the recorder, one with it, and one that records states, too. Ratios are within a round.
//! On a busy machine the CPU time of a switch says more than the switches of a second.

use crate::Result;
use crate::figures::{Cell, LEAST_ROUNDS, Spread, Words, in_rounds};
use crate::program::{Program, left_a_trace, load, machine, said};
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

const WORDS: [(&str, &str); 5] = [
    ("same", "on one core, switches a second"),
    ("same_cpu", "on one core, CPU ns of a switch"),
    ("apart", "on two cores, switches a second"),
    ("apart_cpu", "on two cores, CPU ns of a switch"),
    ("threads", "threads begun and ended a second"),
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
            if records {
                left_a_trace(&folder, &said.stderr)?;
            }
            match said.stderr.contains("FDR_SCHED") {
                false => Ok(Words::parse(&said.stdout)),
                true => Err(said.stderr.trim().to_owned().into()),
            }
        });
    });
    println!(
        "{}, load {before} before; median of {rounds} rounds (least..greatest)\n",
        machine()
    );
    let mut table = Table::new("two threads | off | FDR=1 | FDR_SCHED=1 | of FDR=1");
    for (word, label) in WORDS {
        let mut row = vec![label.to_owned()];
        row.extend(
            cells
                .iter()
                .map(|cell| shown(cell.spread(|words| words.find(word)), 0)),
        );
        let [_, on, states] = &cells;
        let pairs = on.samples.iter().zip(&states.samples);
        let ratios = pairs.filter_map(|(on, states)| Some(states.find(word)? / on.find(word)?));
        row.push(shown(Spread::of(ratios), 3));
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
