//! `cargo xtask bench scale`: what a recorded call takes on one to many threads, beside the floor on the same
//! threads; what the process holds for them; whether two threads are in each other's way; and what a call does to
//! the caches. What a larger machine would do is said in docs/scaling.md, and never here.

mod pairs;

use std::path::PathBuf;

use xtask::process::root;

use crate::Result;
use crate::calls::callgrind;
use crate::figures::{Cell, LEAST_ROUNDS, Spread, Words, in_rounds};
use crate::program::{Program, left_a_trace, line_of, load, machine, said};
use crate::table::{NONE, Table, bless, last_line, middle, number, shown};

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const CLOCKS: [&str; 2] = ["rdtscp", "rdtsc"];
/// For a first look, which is never kept.
const QUICK_ROUNDS: usize = 2;

/// A recorded call on 1 to 64 threads, what each thread holds, and two threads beside each other
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Two rounds, for a first look
    #[arg(long, conflicts_with = "bless")]
    quick: bool,
    /// Seven at least
    #[arg(long, value_name = "N", default_value_t = LEAST_ROUNDS)]
    rounds: usize,
    /// How many at once
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = THREADS, conflicts_with = "bless")]
    threads: Vec<usize>,
    /// Where the rings are, instead of in the target folder
    #[arg(long, value_name = "DIR")]
    rings: Option<PathBuf>,
    /// The figures go into docs/scaling.md
    #[arg(long)]
    bless: bool,
}

/// What a process measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// So many threads at once.
    Threads(usize),
    /// Two threads with slots next to each other, or far from each other.
    Kept,
    /// Two threads for which the ring has no room.
    Dropped,
}

/// One configuration, and what its processes said. Without a clock nothing is recorded.
struct Row {
    what: What,
    clock: Option<&'static str>,
    cell: Cell<Words>,
}

impl Row {
    fn words(&self) -> Vec<String> {
        let floor = format!("floor-{}", self.clock.unwrap_or(CLOCKS[0]));
        match self.what {
            What::Threads(threads) => vec!["scale".to_owned(), floor, threads.to_string()],
            What::Kept => vec!["pair".to_owned(), floor, "kept".to_owned()],
            What::Dropped => vec!["pair".to_owned(), floor, "dropped".to_owned()],
        }
    }

    fn measure(&mut self, program: &Program) {
        let words = self.words();
        self.cell.add(|| {
            let folder = program.folder()?;
            let mut bench = program.command(self.clock, &folder);
            bench.args(&words).env("FDR_LOG", "quiet");
            if self.what == What::Dropped {
                // Room for one thread's ring.
                bench.env("FDR_BUFFER", "4M").env("FDR_MEMORY", "4M");
            }
            Ok(Words::parse(&said(&mut bench)?.stdout))
        });
    }

    fn clock(&self) -> String {
        self.clock.unwrap_or("off").to_owned()
    }

    fn word(&self, key: &str) -> Option<Spread> {
        self.cell.spread(|words| words.find(key))
    }

    /// Of one word, in another unit.
    fn times(&self, key: &str, factor: f64) -> Option<Spread> {
        self.cell.spread(|words| Some(words.find(key)? * factor))
    }

    fn over(&self, key: &str, than: &str) -> Option<Spread> {
        self.cell.spread(|words| words.over(key, than))
    }

    fn ratio(&self, key: &str, to: &str) -> Option<Spread> {
        self.cell.spread(|words| words.ratio(key, to))
    }
}

fn rows(threads: &[usize]) -> Vec<Row> {
    let clocks = CLOCKS.map(Some);
    let counts = threads.iter().map(|&threads| What::Threads(threads));
    let row = |what, clock| Row {
        what,
        clock,
        cell: Cell::default(),
    };
    let counts = counts.flat_map(|what| {
        [None]
            .into_iter()
            .chain(clocks)
            .map(move |clock| row(what, clock))
    });
    let pairs = [What::Kept, What::Dropped];
    counts
        .chain(
            pairs
                .into_iter()
                .flat_map(|what| clocks.map(|clock| row(what, clock))),
        )
        .collect()
}

/// Measures, prints the tables, and writes them where that was asked for.
///
/// # Errors
/// If the bench program can't be built, or a file not written. A configuration that can't be measured is told.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut program = Program::build()?;
    program.place = options.rings.clone().unwrap_or(program.place);
    let rounds = match options.quick {
        true => QUICK_ROUNDS,
        false => options.rounds.max(LEAST_ROUNDS),
    };
    let mut rows = rows(&options.threads);
    let before = load();
    in_rounds(rounds, rows.len(), |at| rows[at].measure(&program));
    let text = format!(
        "\n{}; {}; {rounds} rounds in rotation; load {before} at the beginning, {} at the end. Medians \
         (least..most).\n\n{}\n{}",
        line_of("date -u +%Y-%m-%d"),
        machine(),
        load(),
        tables(&rows),
        footprint(&program).unwrap_or_else(|why| format!("Caches: not measured: {why}\n"))
    );
    print!("{text}");
    if options.bless {
        bless(&root().join("docs/scaling.md"), "scale", &text)?;
    }
    Ok(())
}

const CALLS: &str = "threads | clock | untraced, ns | floor, ns | recorded, ns | over the floor | \
    slowest thread | million records/s of a core | of all, on the wall";
const HOLDINGS: &str = "threads | clock | ring in memory, MiB/thread | in huge pages, MiB/thread | \
    mappings more than off | of them the ring | descriptors | faults/MiB, first lap | later laps | \
    first lap, ns/call | dumper, ms/thread";

fn tables(rows: &[Row]) -> String {
    let mut calls = Table::new(CALLS);
    let mut holdings = Table::new(HOLDINGS);
    let mut beside = Table::new("clock | this thread; the other thread | ns/call | over the first");
    let (mut notes, mut off) = (String::new(), None);
    for row in rows {
        match row.what {
            What::Threads(threads) => {
                calls.add(calls_of(threads, row));
                match row.clock {
                    None => off = row.word("mappings").map(|spread| spread.median),
                    Some(_) => holdings.add(holdings_of(threads, row, off)),
                }
            }
            What::Kept => pairs::add(&mut beside, row, pairs::KEPT),
            What::Dropped => pairs::add(&mut beside, row, pairs::DROPPED),
        }
        notes += &pairs::apart(row).unwrap_or_default();
        if let Some(why) = &row.cell.failure {
            let words = row.words().join(" ");
            notes += &format!(
                "\n- {}, {words}: not measured: {}\n",
                row.clock(),
                last_line(why)
            );
        }
    }
    format!(
        "{}\n{}\n{}{notes}",
        calls.markdown(),
        holdings.markdown(),
        beside.markdown()
    )
}

fn calls_of(threads: usize, row: &Row) -> [String; 9] {
    let when = |field: String| {
        if row.clock.is_some() {
            field
        } else {
            NONE.to_owned()
        }
    };
    let over_floor = row
        .cell
        .spread(|words| Some(words.over("traced", "untraced")? / words.over("floor", "untraced")?));
    [
        threads.to_string(),
        row.clock(),
        middle(row.word("untraced"), 2),
        when(shown(row.over("floor", "untraced"), 1)),
        shown(
            row.over("traced", "untraced"),
            if row.clock.is_some() { 1 } else { 2 },
        ),
        when(shown(over_floor, 3)),
        when(middle(row.ratio("most_thread", "traced"), 3)),
        when(middle(row.times("records_per_core_s", 1e-6), 1)),
        when(middle(row.times("records_per_s", 1e-6), 1)),
    ]
}

/// `off`: the mappings of the same threads where nothing is recorded.
fn holdings_of(threads: usize, row: &Row, off: Option<f64>) -> [String; 11] {
    let each = 1.0 / threads as f64;
    let mappings = row
        .word("mappings")
        .zip(off)
        .map(|(with, without)| with.median - without);
    [
        threads.to_string(),
        row.clock(),
        middle(row.times("ring_kib", each / 1024.0), 2),
        middle(row.times("ring_huge_kib", each / 1024.0), 2),
        number(mappings, 0),
        middle(row.word("ring_mappings"), 0),
        middle(row.word("descriptors"), 0),
        middle(row.word("first_lap_faults"), 1),
        shown(row.word("later_faults"), 2),
        shown(row.word("first_lap"), 1),
        middle(row.times("dumper_ns", each * 1e-6), 2),
    ]
}

/// First level of data, and second level: those of a current server's core, as valgrind wants them (bytes, ways,
/// bytes of a line).
const CACHES: [&str; 4] = [
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=49152,12,64",
    "--LL=2097152,16,64",
];

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

/// What a call does to the caches, loop included, counted by valgrind's simulation of two of them. It knows neither
/// prefetching nor other cores, and is no time.
fn footprint(program: &Program) -> Result<String> {
    // Both more than a ring holds, so that the dump at the end is the same.
    let (few, many) = (300_000, 600_000);
    let events = |twin: &str, calls: u32| {
        let folder = program.folder()?;
        let out = folder.path().join("");
        let out = out.to_str().ok_or("the folder's name is no text")?;
        let variables = [
            ("FDR", "1"),
            ("FDR_CLOCK", "rdtscp"),
            ("FDR_KEEP", "0"),
            ("FDR_LOG", "quiet"),
            ("FDR_OUT", out),
        ];
        let variables = if twin == "traced" {
            &variables[..]
        } else {
            &[]
        };
        let words = ["calls", "leaf", twin, &calls.to_string(), "1"];
        let (events, log) = callgrind(&program.path, &words, &CACHES, variables)?;
        if twin == "traced" {
            left_a_trace(&folder, &log)?;
        }
        Ok::<_, Box<dyn std::error::Error>>(events)
    };
    let mut table = Table::new("of a call, counted by valgrind | untraced | recorded");
    let [untraced, traced] = ["untraced", "traced"]
        .map(|twin| Ok::<_, Box<dyn std::error::Error>>((events(twin, few)?, events(twin, many)?)));
    let twins = [untraced?, traced?];
    for (event, name) in EVENTS {
        // What has nothing to do with calls may vary by some events.
        let each = twins.each_ref().map(|(less, more)| {
            let more = more.get(event)? - less.get(event)?;
            Some((more / f64::from(many - few)).max(0.0))
        });
        table.add(
            [name.to_owned()]
                .into_iter()
                .chain(each.map(|count| number(count, 3))),
        );
    }
    Ok(table.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: What, clock: Option<&'static str>, said: &str) -> Row {
        let cell = Cell {
            samples: vec![Words::parse(said); 3],
            failure: None,
        };
        Row { what, clock, cell }
    }

    #[test]
    fn every_number_of_threads_is_measured_off_and_with_both_clocks() {
        let rows = rows(&[1, 8]);
        let asked: Vec<String> = rows.iter().map(|row| row.words().join(" ")).collect();
        assert_eq!(
            asked[..3],
            [
                "scale floor-rdtscp 1",
                "scale floor-rdtscp 1",
                "scale floor-rdtsc 1"
            ]
        );
        assert_eq!(
            asked[6..],
            [
                "pair floor-rdtscp kept",
                "pair floor-rdtsc kept",
                "pair floor-rdtscp dropped",
                "pair floor-rdtsc dropped",
            ]
        );
        assert_eq!((rows[0].clock, rows[1].clock), (None, Some("rdtscp")));
    }

    #[test]
    fn calls_are_told_over_the_untraced_twin_and_the_floor_and_holdings_for_each_thread() {
        let said = |mappings: u32| {
            format!(
                "untraced=1 floor=31 traced=34 most_thread=35.7 records_per_core_s=58000000 \
                 records_per_s=110000000 first_lap=50 first_lap_faults=100 later_faults=0.5 mappings={mappings} \
                 ring_mappings=1 ring_kib=8192 ring_huge_kib=2048 descriptors=5 dumper_ns=3000000"
            )
        };
        let mut failed = row(What::Dropped, Some("rdtsc"), "");
        failed.cell.failure = Some("the process:\n  crashed | badly\n".to_owned());
        let text = tables(&[
            row(What::Threads(2), None, &said(40)),
            row(What::Threads(2), Some("rdtscp"), &said(46)),
            failed,
        ]);
        for wanted in [
            "| 2 | off | 1.00 | - | 33.00 (33.00..33.00) | - |",
            "| 2 | rdtscp | 1.00 | 30.0 (30.0..30.0) | 33.0 (33.0..33.0) | 1.100 (1.100..1.100) | 1.050 | 58.0 | 110.0 |\n",
            "| 2 | rdtscp | 4.00 | 1.00 | 6 | 1 | 5 | 100.0 | 0.50 (0.50..0.50) | 50.0 (50.0..50.0) | 1.50 |\n",
            "- rdtsc, pair floor-rdtsc dropped: not measured: crashed | badly\n",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn pairs_are_compared_with_their_own_alone() {
        let pair = "alone=40 near=41 far=40 counter_far=38 counter_same_line=190 together=0.97 near_slots=1 \
                    near_bytes=4194304 far_slots=38 far_bytes=159383552";
        let text = tables(&[row(What::Kept, Some("rdtscp"), pair)]);
        for wanted in [
            "next slot and region | 41.0 (41.0..41.0) | 1.025 (1.025..1.025) |",
            "same line | 190.0 (190.0..190.0) | 5.000 (5.000..5.000) |",
            "next are 1..1 slots and 4 MiB, far are 38..38 slots and 152 MiB; both threads were at work in 97 %",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }
}
