//! `cargo xtask bench scale`: what a recorded call takes on one to many threads, beside the floor on the same
//! threads; what the process holds for them; and whether two threads are in each other's way. A configuration
//! is a process, all of them in every round, and the medians of the rounds are told with their spread. What a
//! larger machine would do is said in docs/scaling.md, and never here.

mod footprint;
mod pairs;
mod table;

use std::path::PathBuf;

use super::figures::{Spread, get, words};
use super::folder::Private;
use super::options::Words;
use super::{LEAST_ROUNDS, Program, load, machine, marks};
use crate::Result;
use crate::process::{command, output, root, work_folder};

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const CLOCKS: [&str; 2] = ["rdtscp", "rdtsc"];

/// For a first look, which is never kept.
const QUICK_ROUNDS: usize = 2;

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

/// One configuration, and what its processes said.
struct Row {
    what: What,
    /// `FDR_CLOCK`; `None`: nothing is recorded.
    clock: Option<&'static str>,
    samples: Vec<Vec<(String, f64)>>,
    /// Why it was not measured (any further).
    failure: Option<String>,
}

impl Row {
    fn new(what: What, clock: Option<&'static str>) -> Row {
        Row {
            what,
            clock,
            samples: Vec::new(),
            failure: None,
        }
    }

    /// The bench program's words, and variables beside those of every recording.
    fn command(&self) -> (Vec<String>, &'static [(&'static str, &'static str)]) {
        let floor = format!("floor-{}", self.clock.unwrap_or(CLOCKS[0]));
        let words = match self.what {
            What::Threads(threads) => vec!["scale".to_owned(), floor, threads.to_string()],
            What::Kept => vec!["pair".to_owned(), floor, "kept".to_owned()],
            What::Dropped => vec!["pair".to_owned(), floor, "dropped".to_owned()],
        };
        match self.what {
            // Room for one thread's ring.
            What::Dropped => (words, &[("FDR_BUFFER", "4M"), ("FDR_MEMORY", "4M")]),
            _ => (words, &[]),
        }
    }

    /// Adds one sample, or the reason why there is none; the first reason stays.
    fn measure(&mut self, program: &Program, folder: &Private) {
        if self.failure.is_some() {
            return;
        }
        let (words, variables) = self.command();
        match ask(program, folder, &words, self.clock, variables) {
            Ok(sample) => self.samples.push(sample),
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Of a value that is made of each sample; `None` unless all rounds were measured.
    fn spread(&self, value: impl Fn(&[(String, f64)]) -> Option<f64>) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.samples.iter().map(|sample| value(sample)).collect();
        Spread::of(values?).filter(|_| self.failure.is_none())
    }

    /// Of a word as it was said.
    fn word(&self, key: &str) -> Option<Spread> {
        self.spread(|sample| get(sample, key).ok())
    }

    /// Of what one word is more than another.
    fn over(&self, key: &str, than: &str) -> Option<Spread> {
        self.spread(|sample| Some(get(sample, key).ok()? - get(sample, than).ok()?))
    }

    /// Of one word over another, round by round.
    fn ratio(&self, key: &str, to: &str) -> Option<Spread> {
        self.spread(|sample| Some(get(sample, key).ok()? / get(sample, to).ok()?))
    }
}

fn ask(
    program: &Program,
    folder: &Private,
    arguments: &[String],
    clock: Option<&str>,
    variables: &[(&str, &str)],
) -> Result<Vec<(String, f64)>> {
    let run = folder.fresh()?;
    let mut bench = command(&program.path);
    bench.args(arguments);
    if let Some(clock) = clock {
        bench.env("FDR", "1").env("FDR_CLOCK", clock);
        bench.env("FDR_LOG", "quiet").env("FDR_OUT", run.join(""));
        bench.envs(variables.iter().copied());
    }
    let said = output(&mut bench);
    // The rings that it left are large.
    folder.empty();
    Ok(words(&said?.0))
}

struct Options {
    rounds: usize,
    threads: Vec<usize>,
    /// Where the rings are; `None`: in the target folder.
    rings: Option<PathBuf>,
    bless: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            rounds: LEAST_ROUNDS,
            threads: THREADS.to_vec(),
            rings: None,
            bless: false,
        };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--quick" => options.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    options.rounds = LEAST_ROUNDS.max(words.number("a number", 0)?);
                }
                "--threads" => {
                    let numbers = words.value()?.split(',').map(str::parse);
                    let numbers: std::result::Result<Vec<usize>, _> = numbers.collect();
                    let numbers = numbers.ok().filter(|all| all.iter().all(|&one| one > 0));
                    options.threads = numbers.ok_or("--threads needs numbers: 1,2,4")?;
                }
                "--rings" => options.rings = Some(words.path()?),
                "--bless" => options.bless = true,
                _ => return Err(words.unknown()),
            }
        }
        if options.bless && (options.rounds < LEAST_ROUNDS || options.threads != THREADS) {
            return Err(format!(
                "--bless needs at least {LEAST_ROUNDS} rounds of all threads"
            ));
        }
        Ok(options)
    }

    fn rows(&self) -> Vec<Row> {
        let clocks = || CLOCKS.map(Some).into_iter();
        let mut rows = Vec::new();
        for &threads in &self.threads {
            let what = What::Threads(threads);
            rows.extend(
                [None]
                    .into_iter()
                    .chain(clocks())
                    .map(|clock| Row::new(what, clock)),
            );
        }
        for what in [What::Kept, What::Dropped] {
            rows.extend(clocks().map(|clock| Row::new(what, clock)));
        }
        rows
    }
}

/// All that was found.
struct Findings {
    date: String,
    machine: String,
    /// Load at the beginning and at the end: whether others were at work.
    load: [String; 2],
    rounds: usize,
    rows: Vec<Row>,
    footprint: Result<footprint::Footprint>,
}

/// Measures, prints the tables, and writes them where that was asked for.
///
/// # Errors
///
/// If the bench program can't be built, or a file not written. A single configuration that can't be measured
/// is told in its row.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    let place = match &options.rings {
        Some(place) => place.clone(),
        None => work_folder("bench")?,
    };
    let folder = Private::new(&place)?;
    let mut rows = options.rows();
    let before = load();
    let count = rows.len();
    for round in 0..options.rounds {
        eprint!("\rround {} of {} ", round + 1, options.rounds);
        for at in 0..count {
            // Each round starts elsewhere, so that nothing is always measured after the same thing.
            let at = (at + round * (count / options.rounds + 1)) % count;
            rows[at].measure(&program, &folder);
        }
    }
    eprintln!();
    let (date, _) = output(command("date").args(["-u", "+%Y-%m-%d"]))?;
    let findings = Findings {
        date: date.trim().to_owned(),
        machine: machine(),
        load: [before, load()],
        rounds: options.rounds,
        rows,
        footprint: footprint::of_a_call(&program, &folder),
    };
    let text = table::markdown(&findings);
    print!("{text}");
    if options.bless {
        marks::bless(&root().join("docs/scaling.md"), "scale", &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_runs_are_kept() {
        let options = Options::parse(&["--bless", "--rounds", "3"]).expect("options");
        assert_eq!((options.rounds, options.threads.len()), (LEAST_ROUNDS, 7));
        for bad in [
            &["--bless", "--quick"][..],
            &["--bless", "--threads", "1,2"],
            &["--threads", "1,0"],
            &["--threads", "some"],
            &["--rounds"],
            &["--faster"],
        ] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_number_of_threads_is_measured_off_and_with_both_clocks() {
        let options = Options::parse(&["--threads", "1,8"]).expect("options");
        let rows = options.rows();
        let asked: Vec<String> = rows.iter().map(|row| row.command().0.join(" ")).collect();
        assert_eq!(
            asked,
            [
                "scale floor-rdtscp 1",
                "scale floor-rdtscp 1",
                "scale floor-rdtsc 1",
                "scale floor-rdtscp 8",
                "scale floor-rdtscp 8",
                "scale floor-rdtsc 8",
                "pair floor-rdtscp kept",
                "pair floor-rdtsc kept",
                "pair floor-rdtscp dropped",
                "pair floor-rdtsc dropped",
            ]
        );
        assert_eq!((rows[0].clock, rows[1].clock), (None, Some("rdtscp")));
        assert!(rows[8].command().1.contains(&("FDR_MEMORY", "4M")));
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let mut row = Row::new(What::Threads(1), None);
        for (floor, traced) in [(10.0, 20.0), (20.0, 40.0), (30.0, 90.0)] {
            row.samples.push(vec![
                ("floor".to_owned(), floor),
                ("traced".to_owned(), traced),
            ]);
        }
        let ratio = row.ratio("traced", "floor").expect("a ratio");
        assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, 2.0, 3.0));
        assert_eq!(
            row.over("traced", "floor").map(|more| more.median),
            Some(20.0)
        );
        assert_eq!(row.word("nothing"), None);
        row.failure = Some("it crashed".to_owned());
        assert_eq!(row.word("floor"), None);
    }
}
