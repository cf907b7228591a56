//! `cargo xtask torture`: kills, crashes, signals, forks and full disks, repeated many times, on programs that count
//! for themselves. The work is done by `tests/src/bin/torture`; here it is built, given its share of the time, and its
//! results become a table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;

use crate::platforms;
use crate::test::{Tally, once};
use xshell::cmd;
use xtask::Result;
use xtask::process::{build_tested, lines, run as run_command, shell, target, work_folder};

/// A case, and its number of tries.
struct Case {
    name: &'static str,
    /// What is counted as tries.
    what: &'static str,
    /// Tries of the long form and of the short one.
    long: u64,
    short: u64,
    /// Its part of the time, where that is limited.
    share: u32,
}

const CASES: [Case; 8] = [
    case("kill", "kill -9 at random moments", 10_000, 300, 4),
    case("crash", "crashes of every kind", 10_000, 200, 5),
    case(
        "dumps",
        "dump signals over 64 threads",
        1_000_000,
        20_000,
        2,
    ),
    case("forks", "forks beside 8 recording threads", 10_000, 200, 2),
    case("snapshots", "snapshots at full speed", 1_000, 50, 2),
    case("faults", "combinations of faults", 2_000, 60, 2),
    case("cut", "rings that are cut short", 2_000, 60, 2),
    case(
        "descriptors",
        "programs that take every descriptor",
        10_000,
        600,
        2,
    ),
];

/// The programs that the driver `torture` drives.
const DRIVEN: [&str; 2] = ["torture_victim", "steadfast"];

const fn case(name: &'static str, what: &'static str, long: u64, short: u64, share: u32) -> Case {
    Case {
        name,
        what,
        long,
        short,
        share,
    }
}

/// kill -9, crashes, signals, forks, faults, on programs that count for themselves
///
/// A quarter of an hour, unless --minutes or --short is given.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// None: all of them
    #[arg(value_name = "CASE", value_parser = PossibleValuesParser::new(CASES.iter().map(|case| case.name)))]
    cases: Vec<String>,
    /// In all
    #[arg(long, value_name = "N", value_parser = crate::minutes)]
    minutes: Option<f64>,
    /// Of the random numbers
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,
    /// About two minutes
    #[arg(long)]
    short: bool,
    /// Of each case
    #[arg(long, value_name = "N")]
    tries: Option<u64>,
    /// The number of the first try
    #[arg(long, value_name = "I", default_value_t = 0)]
    first: u64,
    /// Builds with optimizations
    #[arg(long)]
    release: bool,
    /// What the tortured programs are built for, such as x86_64-unknown-linux-musl. Those for aarch64 run under
    /// qemu-aarch64
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Where a case writes what it could not do here.
    #[arg(skip)]
    skips: Option<PathBuf>,
}

const SEED: u64 = 1;

impl Options {
    fn chosen(&self) -> Vec<&'static Case> {
        let is_asked =
            |case: &&Case| self.cases.is_empty() || self.cases.iter().any(|name| name == case.name);
        CASES.iter().filter(is_asked).collect()
    }

    /// How many tries, and in how much time at most.
    fn bounds(&self, case: &Case) -> (u64, Option<Duration>) {
        let all: u32 = self.chosen().iter().map(|case| case.share).sum();
        let share = |minutes: f64| minutes * 60.0 * f64::from(case.share) / f64::from(all);
        let time = self.minutes.map(share).map(Duration::from_secs_f64);
        let count = match (self.tries, time) {
            (Some(tries), _) => tries,
            (None, Some(_)) => u64::MAX,
            (None, None) if self.short => case.short,
            (None, None) => case.long,
        };
        (count, time)
    }
}

/// What became of a case.
#[derive(Debug, Default, PartialEq)]
struct Row {
    tries: u64,
    passed: u64,
    seconds: f64,
    notes: Vec<String>,
    good: bool,
}

impl Row {
    /// Takes in a line of the driver's; false where it is one for people.
    fn take(&mut self, line: &str) -> bool {
        if let Some(note) = line.strip_prefix("note ") {
            self.notes.push(note.to_owned());
            return true;
        }
        let Some(words) = line.strip_prefix("result ") else {
            return false;
        };
        let mut words = words.split(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        (self.tries, self.passed) = (number(), number());
        let seconds = words.next().and_then(|word| word.parse().ok());
        self.seconds = seconds.unwrap_or(0.0);
        true
    }
}

/// Runs the chosen cases, and prints the table.
///
/// # Errors
///
/// If the programs cannot be built, or a try failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    torture(options)?.close()
}

/// The short form: how many cases passed and failed; what was left out is appended to `skips`.
///
/// # Errors
///
/// If the programs cannot be built.
pub(crate) fn short(skips: &Path) -> Result<Tally> {
    torture(&Options {
        short: true,
        seed: SEED,
        skips: Some(skips.to_owned()),
        ..Options::default()
    })
}

/// Half a minute of kills, crashes, dump signals and forks of programs that are built for that target.
///
/// # Errors
///
/// If the programs cannot be built.
pub(crate) fn built_for(target: &str, skips: &Path) -> Result<Tally> {
    torture(&Options {
        cases: ["kill", "crash", "dumps", "forks"]
            .map(str::to_owned)
            .into(),
        minutes: Some(0.5),
        target: Some(target.to_owned()),
        seed: SEED,
        skips: Some(skips.to_owned()),
        ..Options::default()
    })
}

fn torture(options: &Options) -> Result<Tally> {
    let profile = if options.release { "release" } else { "debug" };
    let sh = shell()?;
    let bins = |programs: &[&str]| {
        let bins = programs.iter().map(|program| format!("--bin={program}"));
        let release = options.release.then_some("--release");
        let build = cmd!(sh, "cargo build --quiet --package fdr-tests {release...}");
        build.args(bins)
    };
    let build = match options.release {
        true => bins(&[&["torture"], &DRIVEN[..]].concat()),
        false => once(build_tested(&sh)),
    };
    let driver = target()?.join(profile);
    run_command(build.env("CARGO_TARGET_DIR", target()?))?;
    let programs = match &options.target {
        Some(target) => platforms::build_for(target, profile, bins(&DRIVEN), &DRIVEN)?,
        None => driver.clone(),
    };
    let built_for = options.target.as_deref().unwrap_or("this system");
    println!("seed {}, {profile} build for {built_for}", options.seed);
    let mut rows = Vec::new();
    for case in options.chosen() {
        rows.push((case, one(case, options, &driver, &programs)?));
    }
    print!("\n{}", table(&rows));
    let mut tally = Tally::default();
    for (case, row) in rows {
        let outcome = row.good.then_some(());
        let outcome = outcome.ok_or_else(|| "see the table".to_owned());
        tally.count(&format!("torture {}", case.name), outcome);
    }
    Ok(tally)
}

/// Runs a case; its failures are printed as they come.
fn one(case: &Case, options: &Options, driver: &Path, programs: &Path) -> Result<Row> {
    let (tries, time) = options.bounds(case);
    let (sh, driver, name) = (shell()?, driver.join("torture"), case.name);
    let bounds = [
        ("--seed", options.seed),
        ("--tries", tries),
        ("--first", options.first),
        ("--seconds", time.map_or(0, |time| time.as_secs().max(1))),
    ];
    let bounds = bounds.map(|(option, value)| [option.to_owned(), value.to_string()]);
    let (bounds, folder) = (bounds.as_flattened(), work_folder("torture")?);
    let target = options
        .target
        .iter()
        .flat_map(|target| ["--target", target]);
    let driver = cmd!(
        sh,
        "{driver} {name} {bounds...} --folder {folder} --programs {programs} {target...}"
    );
    let skips = options.skips.iter().map(|skips| ("FDR_SKIPS", skips));
    eprintln!("{name}: {}", case.what);
    let mut row = Row::default();
    let status = lines(driver.envs(skips), |line| {
        if !row.take(line) {
            println!("{name}: {line}");
        }
    })?;
    row.good = status.success() && row.tries > 0;
    if !row.good && row.passed == row.tries {
        println!("{name}: the driver ended without a result: {status}");
    }
    Ok(row)
}

/// For people: the figures, and below them what is worth knowing.
fn table(rows: &[(&Case, Row)]) -> String {
    let mut text = format!(
        "{:<11} {:>10} {:>10} {:>8}\n",
        "case", "tries", "passed", "time (s)"
    );
    for (case, row) in rows {
        let Row {
            tries,
            passed,
            seconds,
            ..
        } = row;
        text += &format!(
            "{:<11} {tries:>10} {passed:>10} {seconds:>8.1}  {}\n",
            case.name, case.what
        );
    }
    for (case, row) in rows {
        for note in &row.notes {
            text += &format!("{}: {note}\n", case.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Task, tests::task};

    #[test]
    fn the_time_is_divided_among_the_chosen_cases() {
        let options = |words: &str| match task(&format!("torture {words}")) {
            Ok(Task::Torture(options)) => Ok(options),
            Ok(_) => panic!("another task"),
            Err(error) => Err(error),
        };
        let some = options("--minutes 9 kill crash --seed 7").expect("good options");
        assert_eq!(some.seed, 7);
        let chosen = some.chosen();
        let times: Vec<_> = chosen.iter().map(|case| some.bounds(case)).collect();
        let seconds = |seconds| (u64::MAX, Some(Duration::from_secs(seconds)));
        assert_eq!(times, [seconds(240), seconds(300)]);
        let one = options("kill --first 5 --tries 1").expect("good options");
        assert_eq!(one.bounds(&CASES[0]), (1, None));
        assert_eq!(Options::default().bounds(&CASES[0]), (10_000, None));
        assert!(options("--minutes 0").is_err());
        assert!(options("kil").is_err_and(|error| error.contains("kill, crash")));
    }

    #[test]
    fn what_the_driver_says_becomes_a_row() {
        let mut row = Row::default();
        assert!(!row.take("FAILED; again: cargo xtask torture kill"));
        assert!(row.take("note files: 7"));
        assert!(row.take("result 10 8 2.5"));
        let expected = Row {
            tries: 10,
            passed: 8,
            seconds: 2.5,
            notes: vec!["files: 7".into()],
            good: false,
        };
        assert_eq!(row, expected);
        let text = table(&[(&CASES[0], row)]);
        assert!(
            text.contains("kill                10          8      2.5"),
            "{text}"
        );
        assert!(text.ends_with("kill: files: 7\n"));
    }
}
