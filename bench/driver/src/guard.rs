//! `cargo xtask guard`: valgrind's callgrind counts the instructions of a recorded call, of a call while off, and of
//! every format's reader and writer. These counts, and the bytes of a traced program, are compared with
//! `bench/guard.toml`. A count is the same on a busy machine. The only measured time is the CPU time of cold builds,
//! compared with builds of another library: see `lean`. Instructions are per call, entry and exit together.

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;

use comfy_table::Table;
use serde::{Deserialize, Serialize};
use xshell::cmd;
use xtask::process::{output, root, run as run_command, shell, work_folder};
use xtask::readers;

use crate::Result;
use crate::figures::median;
use crate::lean;
use crate::program::{build, folder, line_of};
use crate::table::{number, table};

const BASELINE: &str = "bench/guard.toml";
const HEAD: &str = "\
# Instructions per call (entry and exit together), counted by valgrind's callgrind; and bytes of a stripped program.
# `cargo xtask guard` compares with these, `cargo xtask guard --bless` writes them anew. The bounds are ours: it keeps them.

";

/// Fills whole chunks of the ring, again and again. So the beginning and the end of a recording cost about the same for
/// this number of calls and for twice the number. They differ by some 100,000 instructions, because the C library reads
/// the process's mappings, whose number differs from run to run. Compared with the instructions of all calls, this is
/// little.
const CALLS: u32 = 1_310_720;

/// The standard library's tables have random keys, so their cost differs between processes. The difference is at most 1
/// % of a reader, and less for a longer trace.
const RUNS: usize = 3;

/// A run's worst permitted distance from the baseline, either way.
const TOLERANCE: f64 = 0.02;
/// The file has two digits.
const ROUNDING: f64 = 0.01;

/// Instructions of calls, readers and writers, against bench/guard.toml
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Writes that file anew
    #[arg(long)]
    bless: bool,
}

/// What was counted, and with what the counted programs were built.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Counts {
    /// Compiler, target and C library: others make other instructions.
    built_with: String,
    /// What, and instructions per call.
    instructions: toml::Table,
    /// Which program, and its bytes.
    #[serde(default)]
    bytes: toml::Table,
    /// Of a program of one traced function: what may be the most of it, and how much it is.
    #[serde(default)]
    bounds: toml::Table,
}

const MORE_BYTES: &str = "traced program over a bare one, stripped bytes";
const COLD_BUILDS: [&str; 2] = [
    "cold build over tracing's, CPU time, dev",
    "cold build over tracing's, CPU time, release",
];

impl Counts {
    /// Every row, in the file's order.
    fn rows(&self) -> impl Iterator<Item = (&String, Option<f64>)> {
        let rows = self.instructions.iter().chain(&self.bytes);
        rows.map(|(name, count)| (name, count.as_float()))
    }

    fn count(&self, name: &str) -> Option<f64> {
        self.rows().find(|(known, _)| *known == name)?.1
    }

    /// # Errors
    /// If there is none.
    fn bound(&self, name: &str) -> Result<f64> {
        let bound = self.bounds.get(name).and_then(toml::Value::as_float);
        Ok(bound.ok_or_else(|| format!("{BASELINE}: no bound for {name:?}"))?)
    }
}

/// Nothing was counted, or other tools made the counts of the baseline: why.
#[derive(Debug)]
pub(crate) struct NotJudged(pub(crate) String);

impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not judged: {}", self.0)
    }
}

impl Error for NotJudged {}

/// Counts, prints the table, and compares; or writes the baseline instead.
///
/// # Errors
/// If a count is worse than the baseline allows, or something can't be built or counted.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !readers::provide("valgrind")? {
        return Err(NotJudged("valgrind is not installed".to_owned()).into());
    }
    let path = root().join(BASELINE);
    let before = fs::read_to_string(&path).map_err(|error| format!("{BASELINE}: {error}"))?;
    let before: Counts = toml::from_str(&before).map_err(|error| format!("{BASELINE}: {error}"))?;
    let now = count(&before)?;
    if options.bless {
        let Counts { bounds, .. } = before;
        let kept = Counts { bounds, ..now };
        fs::write(&path, HEAD.to_owned() + &toml::to_string(&kept)?)?;
        println!("{BASELINE}: {} counts", kept.rows().count());
        return Ok(());
    }
    let (table, bad) = compare(&before, &now);
    println!("{table}");
    judge(&before, &now, bad)
}

/// Everything, and the bounds' rows with what was measured.
fn count(before: &Counts) -> Result<Counts> {
    // Both compile and count on one core at a time, and no count depends on what else runs.
    let (calls, formats) = thread::scope(|scope| {
        let formats = scope.spawn(|| formats().map_err(|error| error.to_string()));
        (calls(), formats.join())
    });
    let mut rows = calls?;
    rows.extend(formats.map_err(|_| "the thread that counts formats has panicked")??);
    let [dev, release] = COLD_BUILDS.map(|name| before.bound(name));
    let program = lean::guarded([dev?, release?])?;
    let [dev, release] = program.ratios;
    let bounds = [
        (MORE_BYTES, program.more_bytes as f64),
        (COLD_BUILDS[0], dev),
        (COLD_BUILDS[1], release),
    ];
    let bytes = ("traced program, stripped".to_owned(), program.bytes as f64);
    Ok(Counts {
        built_with: built_with(),
        instructions: rounded(rows),
        bytes: rounded([bytes]),
        bounds: rounded(bounds.map(|(name, value)| (name.to_owned(), value))),
    })
}

/// With the digits that the file has.
fn rounded(rows: impl IntoIterator<Item = (String, f64)>) -> toml::Table {
    let round = |value: f64| toml::Value::Float((value * 100.0).round() / 100.0);
    let rows = rows.into_iter();
    rows.map(|(name, value)| (name, round(value))).collect()
}

/// An error where `bad` counts are not as the baseline has them.
fn judge(before: &Counts, now: &Counts, bad: usize) -> Result<()> {
    if before.built_with != now.built_with {
        let (before, now) = (&before.built_with, &now.built_with);
        let why =
            format!("the baseline is of {before}, and this is {now}; --bless makes one of this");
        return Err(NotJudged(why).into());
    }
    match bad {
        0 => Ok(()),
        _ => Err(format!(
            "{bad} counts are not as {BASELINE} has them; where that is meant: cargo xtask guard --bless"
        )
        .into()),
    }
}

/// The rows of both sides, in the order of the run, and the number of bad rows. A row is bad if its count has grown, if
/// only one side has it, or if it is above its bound.
fn compare(before: &Counts, now: &Counts) -> (Table, usize) {
    let mut table = table("instructions of a call, or bytes | baseline | now | more | verdict");
    let mut bad = 0;
    let names =
        |counts: &Counts| -> Vec<String> { counts.rows().map(|row| row.0.clone()).collect() };
    let mut gone = names(before);
    gone.retain(|name| now.count(name).is_none());
    for name in names(now).into_iter().chain(gone) {
        let (old, new) = (before.count(&name), now.count(&name));
        let more = old.zip(new).map(|(old, new)| (new / old - 1.0) * 100.0);
        let (word, is_bad) = verdict(old, new);
        bad += usize::from(is_bad);
        let more = more
            .filter(|more| more.is_finite())
            .map_or_else(String::new, |more| format!("{more:+.1} %"));
        table.add_row([name, number(old, 2), number(new, 2), more, word.to_owned()]);
    }
    for (name, bound) in &before.bounds {
        let [bound, value] = [Some(bound), now.bounds.get(name)].map(|value| value?.as_float());
        // What is no number is within no bound.
        let is_within = bound
            .zip(value)
            .is_some_and(|(bound, value)| value <= bound);
        bad += usize::from(!is_within);
        let word = if is_within {
            "within"
        } else {
            "ABOVE THE BOUND"
        };
        let name = format!("{name}: bound");
        table.add_row([
            name,
            number(bound, 2),
            number(value, 2),
            String::new(),
            word.to_owned(),
        ]);
    }
    (table, bad)
}

/// How a count compares with the baseline, and whether that is a failure.
fn verdict(before: Option<f64>, now: Option<f64>) -> (&'static str, bool) {
    let (before, now) = match (before, now) {
        (Some(before), Some(now)) => (before, now),
        (_, None) => return ("in the baseline, and not counted", true),
        (None, _) => return ("not in the baseline", true),
    };
    let room = (before.abs() * TOLERANCE).max(ROUNDING);
    match now - before {
        // What is no number is no count.
        more if more.is_nan() || more > room => ("WORSE", true),
        more if more < -room => ("better: --bless keeps it", false),
        _ => ("", false),
    }
}

/// What the counts depend on beside our own text.
fn built_with() -> String {
    let (compiler, library) = (line_of("rustc -vV"), line_of("ldd --version"));
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    let library = library
        .lines()
        .next()
        .and_then(|line| line.rsplit(' ').next());
    format!(
        "{}, {}, glibc {}",
        compiler.lines().next().unwrap_or_default(),
        host.unwrap_or("unknown host"),
        library.unwrap_or("unknown")
    )
}

type Variables = &'static [(&'static str, &'static str)];

/// Each call leaves its records.
const EACH: Variables = &[("FDR_KEEP", "0")];
/// Calls leave none once the ring has been full a few times. None are only counted.
const SHORT: Variables = &[("FDR_KEEP", "10s"), ("FDR_BUDGET", "0")];
/// Recording is on, and the program makes one call.
const ON: Variables = &[("FDR_KEEP", "10s")];

/// The clock that the recorder prefers. A small ring, so that the dump is a small part.
const COMMON: [(&str, &str); 3] = [
    ("FDR", "1"),
    ("FDR_CLOCK", "rdtscp"),
    ("FDR_BUFFER", "128K"),
];

/// A leaf's calls, recorded and off, beyond those of its untraced twin. Locks and unlocks beyond those of the
/// library whose place they take.
fn calls() -> Result<Vec<(String, f64)>> {
    let program = build()?;
    let counted = |words: &str, count: u32, variables: Option<Variables>| -> Result<f64> {
        let folder = folder()?;
        let out = folder.path().join("");
        let out = out.to_str().ok_or("the target folder's name is no text")?;
        let on = variables.map(|variables| [&COMMON, variables, &[("FDR_OUT", out)]].concat());
        let count_word = count.to_string();
        let words: Vec<&str> = words.split(' ').chain([&*count_word]).collect();
        let counted = callgrind(&program, &words, &[], &on.unwrap_or_default())?;
        let log = counted.stderr;
        if variables == Some(EACH) && recorded(&log) != Some(u64::from(count) * 2) {
            return Err(format!("{count} calls were not all recorded:\n{log}").into());
        }
        Ok(counted.parts.iter().sum())
    };
    let each = |words: &str, variables| -> Result<f64> {
        let twice = counted(words, 2 * CALLS, variables)?;
        Ok((twice - counted(words, CALLS, variables)?) / f64::from(CALLS))
    };
    let untraced = each("calls untraced", None)?;
    let (std, parking_lot) = (each("lock std", None)?, each("lock parking_lot", None)?);
    let row = |name: &str, words, variables, bare| -> Result<(String, f64)> {
        Ok((name.to_owned(), each(words, variables)? - bare))
    };
    Ok(vec![
        row("call, off", "calls traced", None, untraced)?,
        row("call, recorded", "calls traced", Some(EACH), untraced)?,
        row(
            "call, recorded untimed",
            "calls untimed",
            Some(EACH),
            untraced,
        )?,
        row("call, short", "calls traced", Some(SHORT), untraced)?,
        row("lock, off", "lock fdr", None, std)?,
        row("lock, on", "lock fdr", Some(ON), std)?,
        row(
            "lock of parking_lot, off",
            "lock fdr-parking-lot",
            None,
            parking_lot,
        )?,
        row(
            "lock of parking_lot, on",
            "lock fdr-parking-lot",
            Some(ON),
            parking_lot,
        )?,
    ])
}

/// Records that were made, by the recorder's line about its dump: `… 16384 records of 1 thread, 100 overwritten, 0
/// dropped`. `None`: no such line, or some were dropped.
fn recorded(log: &str) -> Option<u64> {
    let line = log
        .lines()
        .rfind(|line| line.contains(" overwritten, 0 dropped"))?;
    let number = |before: &str| -> Option<u64> {
        line.split(before)
            .next()?
            .rsplit([' ', ':'])
            .next()?
            .parse()
            .ok()
    };
    Some(number(" records of ")? + number(" overwritten, ")?)
}

/// Writing and reading, of every format: the medians of some runs.
fn formats() -> Result<Vec<(String, f64)>> {
    // A folder of its own, because cargo lets only one build at a time into a folder.
    let built = work_folder("guard")?;
    let sh = shell()?;
    run_command(cmd!(
        sh,
        "cargo build --release --package fdr-formats --example guard --target-dir {built}"
    ))?;
    let program = built.join("release/examples/guard");
    let runs: Result<Vec<_>> = (0..RUNS).map(|_| formats_once(&program)).collect();
    let runs = runs?;
    let median_of = |(nth, (name, _)): (usize, &(String, f64))| {
        (name.clone(), median(runs.iter().map(|rows| rows[nth].1)))
    };
    Ok(runs[0].iter().enumerate().map(median_of).collect())
}

fn formats_once(program: &Path) -> Result<Vec<(String, f64)>> {
    let folder = folder()?;
    let traces = folder.path().to_str();
    let traces = traces.ok_or("the target folder's name is no text")?;
    // A large buffer's zeros are the system's, always: memory that was used before is cleared by instructions.
    let counted = callgrind(
        program,
        &[traces],
        &["--dump-before=*guard*stretch*"],
        &[("MALLOC_MMAP_THRESHOLD_", "65536")],
    )?;
    let rows = per_call(&counted.stdout, &counted.parts);
    Ok(rows.ok_or_else(|| {
        let parts = counted.parts.len();
        format!(
            "{parts} parts of callgrind's make no sense for\n{}{}",
            counted.stdout, counted.stderr
        )
    })?)
}

/// What callgrind counted in a program's main thread, and what the program printed.
struct Counted {
    /// Instructions, part by part: flags say where a part ends.
    parts: Vec<f64>,
    stdout: String,
    stderr: String,
}

/// Runs a program under callgrind. Only the main thread counts: how often the recorder's own threads wake depends on what
/// else the machine does.
///
/// # Errors
/// If it fails.
fn callgrind(
    program: &Path,
    words: &[&str],
    flags: &[&str],
    variables: &[(&str, &str)],
) -> Result<Counted> {
    let folder = folder()?;
    let (sh, counts) = (shell()?, folder.path().join("counts"));
    let valgrind = cmd!(
        sh,
        "valgrind --tool=callgrind --separate-threads=yes {flags...} --callgrind-out-file={counts} {program} {words...}"
    );
    let (stdout, stderr) = output(valgrind.envs(variables.iter().copied()))?;
    let parts = parts(folder.path())?;
    Ok(Counted {
        parts,
        stdout,
        stderr,
    })
}

/// What callgrind counted in the main thread, part by part: its files have a `thread: `, a `part: ` and a `summary: ` line
/// each.
fn parts(folder: &Path) -> Result<Vec<f64>> {
    let mut parts: Vec<(u32, f64)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        let field = |name: &str| -> Option<f64> {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        if field("thread:") != Some(1.0) {
            continue;
        }
        parts.extend(
            field("part:")
                .map(|number| number as u32)
                .zip(field("summary:")),
        );
    }
    parts.sort_by_key(|part| part.0);
    if parts.is_empty() {
        return Err("callgrind counted nothing".into());
    }
    Ok(parts.into_iter().map(|part| part.1).collect())
}

/// The difference of each stretch of work and the shorter one of its kind, by call. The first part is what came
/// before the first stretch.
fn per_call(stretches: &str, counts: &[f64]) -> Option<Vec<(String, f64)>> {
    let stretches: Vec<&str> = stretches.lines().collect();
    let (mut rows, mut shorter) = (Vec::new(), Vec::<(String, f64, f64)>::new());
    // The last one only ends the one before.
    for (stretch, count) in stretches.split_last()?.1.iter().zip(counts.get(1..)?) {
        let words: Vec<&str> = stretch.split(' ').collect();
        let [what, format, calls] = words[..] else {
            return None;
        };
        let calls: f64 = calls.parse().ok()?;
        if what == "check" {
            continue;
        }
        let name = format!("{format}, {what}");
        match shorter.iter().find(|(known, ..)| *known == name) {
            Some((_, few, less)) => rows.push((name, (count - less) / (calls - few))),
            None => shorter.push((name, calls, *count)),
        }
    }
    (!rows.is_empty() && rows.len() == shorter.len()).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(built_with: &str, rows: &[(&str, f64)]) -> Counts {
        let row = |&(name, count): &(&str, f64)| (name.to_owned(), toml::Value::Float(count));
        Counts {
            built_with: built_with.to_owned(),
            instructions: rows.iter().map(row).collect(),
            bytes: toml::Table::new(),
            bounds: toml::Table::new(),
        }
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let written = counts("rustc 1", &[("call, off", 7.0), ("a, read", 41.25)]);
        let text = HEAD.to_owned() + &toml::to_string(&written).expect("TOML");
        assert_eq!(toml::from_str::<Counts>(&text).expect("counts"), written);
        let kept = fs::read_to_string(root().join(BASELINE)).expect("the file");
        let kept: Counts = toml::from_str(&kept).expect("counts");
        assert_eq!(
            kept.instructions.keys().next().map(String::as_str),
            Some("call, off")
        );
    }

    #[test]
    fn changes_up_to_two_percent_pass() {
        let of = |before: f64, now: f64| verdict(Some(before), Some(now));
        assert_eq!(of(100.0, 100.0), ("", false));
        assert_eq!(of(100.0, 101.9), ("", false));
        assert_eq!(of(100.0, 98.1), ("", false));
        assert_eq!(of(100.0, 102.1), ("WORSE", true));
        assert!(of(100.0, 97.9).0.starts_with("better"));
        // One instruction more while recording is off is one too many.
        assert_eq!(of(7.0, 8.0), ("WORSE", true));
        assert_eq!(of(0.0, 0.005), ("", false));
        assert_eq!(of(0.0, 1.0), ("WORSE", true));
        assert_eq!(of(1.0, f64::NAN), ("WORSE", true));
    }

    #[test]
    fn only_worse_counts_of_the_same_compiler_fail() {
        let before = counts("rustc 1", &[("old", 5.0), ("a", 50.0)]);
        let judged = |now: Counts| {
            let (table, bad) = compare(&before, &now);
            (table.to_string(), judge(&before, &now, bad))
        };
        let (_, same) = judged(counts("rustc 1", &[("old", 5.0), ("a", 40.0)]));
        assert!(same.is_ok());
        let (text, error) = judged(counts("rustc 1", &[("new", 5.0), ("a", 52.0)]));
        assert!(
            error
                .expect_err("worse")
                .to_string()
                .starts_with("3 counts are not")
        );
        let ends = ["not in the baseline", "WORSE", "not counted"];
        for (line, end) in text.lines().skip(2).zip(ends) {
            assert!(line.trim_end_matches([' ', '|']).ends_with(end), "{text}");
        }
        assert!(text.contains("+4.0 %"), "{text}");
        let (_, other) = judged(counts("rustc 2", &[("a", 90.0)]));
        let other = other.expect_err("another compiler");
        assert!(
            other
                .downcast_ref::<NotJudged>()
                .is_some_and(|why| why.0.contains("rustc 2"))
        );
    }

    #[test]
    fn a_bound_may_be_reached_and_no_more() {
        let bounded = |value: f64| Counts {
            bounds: rounded([("a".to_owned(), value)]),
            ..counts("rustc 1", &[])
        };
        let bad = |value| compare(&bounded(1.25), &bounded(value)).1;
        assert_eq!([1.0, 1.25, 1.26, f64::NAN].map(bad), [0, 0, 1, 1]);
        assert_eq!(compare(&bounded(1.25), &counts("rustc 1", &[])).1, 1);
        assert_eq!(bounded(1.25).bound("a").expect("a bound"), 1.25);
        assert!(bounded(1.25).bound("b").is_err());
    }

    #[test]
    fn stretches_are_compared_with_the_shorter_ones() {
        let stretches = "write xray 100\nread xray 100\ncheck xray 100\nwrite xray 200\n\
                         read xray 200\ncheck xray 200\nend - 0\n";
        let counts = [9e9, 5_000.0, 3_000.0, 7.0, 9_000.0, 4_000.0, 7.0, 55.0];
        let rows = per_call(stretches, &counts).expect("rows");
        let wanted = [("xray, write", 40.0), ("xray, read", 10.0)];
        assert_eq!(rows, wanted.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(
            per_call("write xray 100\nend - 0\n", &[1.0, 2.0, 3.0]),
            None
        );
        assert_eq!(per_call("", &[]), None);
    }

    #[test]
    fn the_recorders_line_is_read() {
        let line =
            "fdr: wrote x.1.fdr: 16320 records of 1 thread, 639040 overwritten, 0 dropped\n==1==\n";
        assert_eq!(recorded(line), Some(655_360));
        assert_eq!(recorded(&line.replace(" 0 dropped", " 3 dropped")), None);
        assert_eq!(recorded("nothing"), None);
    }
}
