//! `cargo xtask bench`: what a traced call costs, beside the floor of two bare clock reads. It measures two programs of
//! `bench peers`, with another third body. Figures are compared within one run only.

use comfy_table::Table;

use crate::Result;
use crate::peers::{self, Body, Row, spread_cell};
use crate::program::machine;
use crate::table::{last_line, number, table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fewer than seven are a first look
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

const PROGRAMS: [&str; 2] = ["floor", "fdr"];

const BODIES: [Body; 4] = [
    ("leaf", "leaf", "1"),
    ("fib", "fib", "1"),
    ("50 ns chain", "chain", "1"),
    ("leaf, 2 threads", "leaf", "2"),
];

/// Measures, and prints the table.
///
/// # Errors
/// If the floor can't be measured. Another error is a line below the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rounds = options.rounds;
    let rows = peers::measure(&peers::choose(&PROGRAMS)?, &BODIES, rounds)?;
    println!(
        "{}; {rounds} rounds in rotation, each process pinned; ns of the calling thread's CPU that tracing adds to a \
         call: median (least..most)\n",
        machine()
    );
    println!("{}\n", figures(&rows));
    for row in &rows {
        for why in row.failures() {
            println!("{}: not measured: {}", row.label(), last_line(why));
        }
    }
    if let Some([untraced, traced]) = rows.last().and_then(|row| row.code) {
        println!("code bytes of a leaf: untraced {untraced:.0}, traced {traced:.0}");
    }
    Ok(())
}

fn figures(rows: &[Row]) -> Table {
    let bodies = BODIES.map(|(label, ..)| label).join(" | ");
    let mut table = table(&format!("ns a call | {bodies}"));
    let untraced = rows.first().into_iter().flat_map(|row| &row.cells);
    let untraced = untraced.map(|cell| number(cell.untraced().map(|spread| spread.median), 2));
    table.add_row(["an untraced call".to_owned()].into_iter().chain(untraced));
    for row in rows {
        let cells = row.cells.iter().map(|cell| spread_cell(cell.thread()));
        table.add_row([row.label().to_owned()].into_iter().chain(cells));
        let Some(floor) = rows.iter().find(|floor| row.is_above(floor)) else {
            continue;
        };
        let ratios = row.cells.iter().zip(&floor.cells);
        let ratios = ratios.map(|(cell, floor)| {
            let ratio = cell.thread().zip(floor.thread());
            number(ratio.map(|(cell, floor)| cell.median / floor.median), 2)
        });
        table.add_row(["times the floor".to_owned()].into_iter().chain(ratios));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_calls_are_divided_by_their_floor() {
        let rows = peers::tests::rows(&PROGRAMS);
        let text = figures(&rows).to_string();
        let line = |start: &str| {
            let mut lines = text
                .lines()
                .skip_while(|line| !line.contains(start))
                .skip(1);
            let words = lines.next().unwrap_or_default().split('|');
            words.map(str::trim).take(3).collect::<Vec<_>>().join("|")
        };
        // The floors cost 11 and 21 ns, the recorder 31 and 41.
        assert_eq!(line("fdr, rdtsc "), "|times the floor|2.82");
        assert_eq!(line("fdr, rdtscp"), "|times the floor|1.95");
        assert!(!line("fdr, untimed").contains("floor"), "{text}");
    }
}
