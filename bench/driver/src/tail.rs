//! `cargo xtask bench tail`: not the median but the slowest of single calls, on a fresh ring, on one that goes
//! round, during dumps, and at a thread's start, alone and with others; beside the untraced twin, which tells what
//! the clock reads around a call cost, and what the machine does to a thread by itself.

use crate::Result;
use crate::program::{Program, machine};
use crate::table::Table;

/// The slowest of single calls: on a fresh ring, later, during dumps, at a thread's start
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// The bench program's words and ours.
const SITUATIONS: [(&str, &str); 5] = [
    ("fresh", "first lap of a ring"),
    ("steady", "later laps"),
    ("dumped", "during dumps"),
    ("start", "a thread's first call"),
    ("burst", "first calls, 64 at once"),
];
const QUANTILES: [&str; 5] = ["p50", "p99", "p999", "p9999", "max"];
/// Label, the bench program's word, `FDR_CLOCK`.
const VARIANTS: [(&str, &str, Option<&str>); 3] = [
    ("untraced", "untraced", None),
    ("traced rdtscp", "traced", Some("rdtscp")),
    ("traced rdtsc", "traced", Some("rdtsc")),
];

/// Measures and prints the table.
///
/// # Errors
/// If the bench program can't be built or does not run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = Program::build()?;
    let seconds = options.seconds.to_string();
    println!(
        "{}; ns of one call, with a clock read before and after it; {seconds} s each\n",
        machine()
    );
    let mut told = Vec::new();
    for (label, word, clock) in VARIANTS {
        eprintln!("{label}");
        told.push((label, program.ask(&["tail", word, &seconds], clock)?));
    }
    let quantiles = QUANTILES.join(" | ");
    let mut table = Table::new(&format!("situation | variant | {quantiles}"));
    for (word, situation) in SITUATIONS {
        for (label, words) in &told {
            let mut row = vec![situation.to_owned(), (*label).to_owned()];
            for quantile in QUANTILES {
                row.push(format!("{:.0}", words.get(&format!("{word}_{quantile}"))?));
            }
            table.add(row);
        }
    }
    print!("{}", table.text());
    Ok(())
}
