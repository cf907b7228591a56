//! `cargo xtask bench libraries`: what a traced leaf costs in code that is not the executable's, beside the
//! executable's own and the floor. Thread storage is dearer there, and a plug-in's records are put where its
//! host's are.

use crate::Result;
use crate::calls::over;
use crate::figures::{Cell, LEAST_ROUNDS, Words, in_rounds};
use crate::program::{Program, left_a_trace, machine, recording, said};
use crate::table::{Table, number, shown};
use xtask::process::command;

/// What a traced call costs in a plug-in and in other libraries, beside the executable's
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seven rounds
    #[arg(long)]
    quick: bool,
}

/// Where the traced function is: label, and the words of the bench program or of the bare one; `LIBRARY` is the
/// library, and `FLOOR` the clock's floor.
const ROWS: [(&str, &str); 5] = [
    ("floor", "fdr-bench measure leaf FLOOR 1 0"),
    ("executable", "fdr-bench measure leaf traced 1 0"),
    (
        "plug-in of a traced executable",
        "fdr-bench library LIBRARY leaf traced 1 0",
    ),
    (
        "library, by dlopen, alone",
        "fdr-bench-bare LIBRARY leaf traced 1 0",
    ),
    (
        "library, from the start, alone",
        "fdr-bench-bare - leaf traced 1 0",
    ),
];

/// Measures and prints the table.
///
/// # Errors
/// If the bench can't be built.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rounds = if options.quick { LEAST_ROUNDS } else { 11 };
    let program = Program::build()?;
    println!(
        "{}; a traced leaf, ns of CPU over its untraced twin, {rounds} rounds\n",
        machine()
    );
    let mut table = Table::new("clock | where | ns (least..most) | x floor | not measured");
    for clock in ["rdtscp", "rdtsc"] {
        let mut cells: Vec<Cell<Words>> = vec![Cell::default(); ROWS.len()];
        in_rounds(rounds, ROWS.len(), |at| {
            cells[at].add(|| ask(&program, ROWS[at].1, clock))
        });
        let spreads: Vec<_> = cells.iter().map(|cell| cell.spread(over)).collect();
        let floor = spreads[0].map(|spread| spread.median);
        for ((label, _), (spread, cell)) in ROWS.iter().zip(spreads.iter().zip(&cells)) {
            let ratio = spread
                .zip(floor)
                .map(|(spread, floor)| spread.median / floor);
            let why = cell.failure.clone().unwrap_or_default();
            table.add([
                clock.to_owned(),
                (*label).to_owned(),
                shown(*spread, 1),
                number(ratio, 2),
                why,
            ]);
        }
    }
    print!("{}", table.text());
    Ok(())
}

fn ask(program: &Program, words: &str, clock: &str) -> Result<Words> {
    let library = program.path.with_file_name("libfdr_bench_library.so");
    let library_name = library.to_string_lossy();
    let floor = format!("floor-{clock}");
    let words = words
        .replace("LIBRARY", &library_name)
        .replace("FLOOR", &floor);
    let words: Vec<&str> = words.split(' ').collect();
    let folder = program.folder()?;
    let clock = Some(clock).filter(|_| !words.contains(&floor.as_str()));
    let mut run = recording(
        command(program.path.with_file_name(words[0])),
        clock,
        &folder,
    );
    if words[1] == "-" {
        run.env("LD_PRELOAD", &library);
    }
    let said = said(run.args(&words[1..]))?;
    if clock.is_some() {
        left_a_trace(&folder, &said.stderr)?;
    }
    Ok(Words::parse(&said.stdout))
}
