//! `cargo xtask guard`: instructions of a recorded call, of one that is off, and of every format's
//! reader and writer, counted by valgrind's callgrind and held against `bench/guard.toml`. It counts
//! and never takes the time: a count is the same on a busy machine.

mod baseline;

use std::fs;
use std::path::{Path, PathBuf};

use baseline::{Counts, Verdict, compare};

use crate::Result;
use crate::bench::Program;
use crate::bench::code::instructions;
use crate::bench::figures::Spread;
use crate::process::{cargo, command, output, root, run as run_command, target, work_folder};
use crate::readers;

const BASELINE: &str = "bench/guard.toml";

/// Fills whole chunks of the ring, again and again: what begins and ends a recording then takes the same
/// for one and for twice as many.
const CALLS: u32 = 163_840;

/// Tables of the standard library's are keyed at random, and so take some more or less in each process: up to
/// 1 % of a reader, the less the longer its trace.
const RUNS: usize = 3;

/// How a comparison ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// No count is worse than the baseline's.
    Yes,
    /// Told and not judged, for other tools made these counts: which.
    Unjudged(String),
    /// Nothing was counted: why.
    Skipped(String),
}

/// Counts, prints the table, and compares; with `--bless`, writes the baseline instead.
///
/// # Errors
///
/// If a count is worse than the baseline allows, or something can't be built or counted.
pub(crate) fn run(words: &[&str]) -> Result<Held> {
    let bless = match words {
        [] => false,
        ["--bless"] => true,
        [word, ..] => return Err(format!("unknown option {word}; see cargo xtask help")),
    };
    if !readers::provide("valgrind")? {
        return Ok(Held::Skipped("valgrind is not installed".to_owned()));
    }
    let now = Counts {
        built_with: built_with()?,
        rows: count()?,
    };
    let path = root().join(BASELINE);
    if bless {
        fs::write(&path, now.text())
            .map_err(|error| format!("cannot write {BASELINE}: {error}"))?;
        println!("{BASELINE}: {} counts", now.rows.len());
        return Ok(Held::Yes);
    }
    let text =
        fs::read_to_string(&path).map_err(|error| format!("cannot read {BASELINE}: {error}"))?;
    let before = Counts::parse(&text).map_err(|error| format!("{BASELINE}: {error}"))?;
    judge(&before, &now)
}

/// The same as a command: what was not judged is said.
///
/// # Errors
///
/// As [`run`]; where nothing could be counted, too.
pub(crate) fn command_line(words: &[&str]) -> Result<()> {
    match run(words)? {
        Held::Yes => Ok(()),
        Held::Unjudged(why) => {
            println!("not judged: {why}");
            Ok(())
        }
        Held::Skipped(why) => Err(why),
    }
}

/// Prints the table; an error where something is worse.
fn judge(before: &Counts, now: &Counts) -> Result<Held> {
    let rows = compare(before, now);
    println!(
        "{:<24} {:>10} {:>10} {:>9}",
        "instructions of a call", "baseline", "now", ""
    );
    for row in &rows {
        println!("{}", row.text());
    }
    if before.built_with != now.built_with {
        return Ok(Held::Unjudged(format!(
            "the baseline is of {}, and this is {}; --bless makes one of this",
            before.built_with, now.built_with
        )));
    }
    let bad = |row: &&baseline::Row| matches!(row.verdict, Verdict::Worse | Verdict::Unmatched);
    match rows.iter().filter(bad).count() {
        0 => Ok(Held::Yes),
        bad => Err(format!(
            "{bad} of {} counts are not as {BASELINE} has them; where that is meant: \
             cargo xtask guard --bless",
            rows.len()
        )),
    }
}

/// What the counts depend on beside our own text.
fn built_with() -> Result<String> {
    let (compiler, _) = output(command("rustc").arg("-vV"))?;
    let (library, _) = output(command("ldd").arg("--version"))?;
    let compiler_line = compiler.lines().next().unwrap_or_default();
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    let library = library
        .lines()
        .next()
        .and_then(|line| line.rsplit(' ').next());
    Ok(format!(
        "{compiler_line}, {}, glibc {}",
        host.unwrap_or("unknown host"),
        library.unwrap_or("unknown")
    ))
}

fn count() -> Result<Vec<(String, f64)>> {
    let program = Program::build()?;
    run_command(&mut cargo(
        "build --release --package fdr-formats --example guard",
    ))?;
    let mut rows = calls(&program)?;
    rows.extend(formats()?);
    Ok(rows)
}

/// A leaf's calls, recorded and off, beyond those of its untraced twin.
fn calls(program: &Program) -> Result<Vec<(String, f64)>> {
    let counted = |twin: &str, calls: u32, record: bool| -> Result<f64> {
        let mut variables = Vec::new();
        let out = program.folder.join("");
        if record {
            // The clock that the recorder prefers. A small ring, so that the dump is a small part.
            variables.extend([
                ("FDR", "1"),
                ("FDR_CLOCK", "rdtscp"),
                ("FDR_BUFFER", "128K"),
            ]);
            variables.push((
                "FDR_OUT",
                out.to_str().ok_or("the target folder's name is no text")?,
            ));
        }
        let (count, log) = instructions(&program.path, twin, calls, &variables)?;
        if record && recorded(&log) != Some(u64::from(calls) * 2) {
            return Err(format!("{calls} calls were not all recorded:\n{log}"));
        }
        Ok(count)
    };
    let per_call = |twin: &str, record: bool| -> Result<f64> {
        let more = counted(twin, 2 * CALLS, record)? - counted(twin, CALLS, record)?;
        Ok(more / f64::from(CALLS))
    };
    program.take_traces()?;
    let untraced = per_call("untraced", false)?;
    let rows = vec![
        (
            "call, off".to_owned(),
            per_call("traced", false)? - untraced,
        ),
        (
            "call, recorded".to_owned(),
            per_call("traced", true)? - untraced,
        ),
        (
            "call, recorded untimed".to_owned(),
            per_call("untimed", true)? - untraced,
        ),
    ];
    program.take_traces()?;
    Ok(rows)
}

/// Records that were made, by the recorder's line about its dump: `… 16384 records of 1 thread, 100
/// overwritten, 0 dropped`. `None`: no such line, or some were dropped.
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
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(formats_once()?);
    }
    let median = |nth: usize| {
        let spread = Spread::of(runs.iter().map(|rows| rows[nth].1));
        spread.map(|spread| (runs[0][nth].0.clone(), spread.median))
    };
    Ok((0..runs[0].len()).filter_map(median).collect())
}

fn formats_once() -> Result<Vec<(String, f64)>> {
    let folder = work_folder("guard")?;
    let bad = |error| format!("{}: {error}", folder.display());
    fs::remove_dir_all(&folder).map_err(bad)?;
    let traces = folder.join("traces");
    fs::create_dir_all(&traces).map_err(bad)?;
    let mut valgrind = command("valgrind");
    valgrind.args(["--tool=callgrind", "--dump-before=*guard*stretch*"]);
    // A large buffer's zeros are the system's, always: memory that was used before is cleared by instructions.
    valgrind.env("MALLOC_MMAP_THRESHOLD_", "65536");
    let out = folder.join("counts");
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    let (stretches, log) = output(
        valgrind
            .arg(target()?.join("release/examples/guard"))
            .arg(&traces),
    )?;
    let counts = parts(&folder)?;
    let rows = per_call(&stretches, &counts);
    let _ = fs::remove_dir_all(&folder);
    rows.ok_or_else(|| {
        let parts = counts.len();
        format!("{parts} parts of callgrind's make no sense for\n{stretches}{log}")
    })
}

/// What callgrind counted, part by part: its files have a `part: ` and a `summary: ` line each.
fn parts(folder: &Path) -> Result<Vec<f64>> {
    let bad = |error| format!("{}: {error}", folder.display());
    let mut parts: Vec<(u32, f64)> = Vec::new();
    for entry in fs::read_dir(folder).map_err(bad)? {
        let path: PathBuf = entry.map_err(bad)?.path();
        if !path.is_file() {
            continue;
        }
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let number = field("part:").map(|number: f64| number as u32);
        parts.extend(number.zip(field("summary:")));
    }
    parts.sort_by_key(|part| part.0);
    Ok(parts.into_iter().map(|part| part.1).collect())
}

/// The difference of each stretch of work and the shorter one of its kind, by call. The first part is
/// what came before the first stretch.
fn per_call(stretches: &str, counts: &[f64]) -> Option<Vec<(String, f64)>> {
    let stretches: Vec<&str> = stretches.lines().collect();
    let (mut rows, mut shorter) = (Vec::new(), Vec::<(String, f64, f64)>::new());
    // The last one only ends the one before.
    for (stretch, count) in stretches
        .iter()
        .zip(counts.get(1..)?)
        .take(stretches.len() - 1)
    {
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

    fn counts(built_with: &str, count: f64) -> Counts {
        Counts {
            built_with: built_with.to_owned(),
            rows: vec![("call, recorded".to_owned(), count)],
        }
    }

    #[test]
    fn only_what_is_worse_fails_and_another_compiler_judges_nothing() {
        let before = counts("rustc 1", 50.0);
        assert_eq!(judge(&before, &counts("rustc 1", 50.5)), Ok(Held::Yes));
        assert_eq!(judge(&before, &counts("rustc 1", 40.0)), Ok(Held::Yes));
        let error = judge(&before, &counts("rustc 1", 52.0)).unwrap_err();
        assert!(
            error.starts_with("1 of 1 counts") && error.contains("--bless"),
            "{error}"
        );
        assert!(
            judge(
                &before,
                &Counts {
                    rows: Vec::new(),
                    ..before.clone()
                }
            )
            .is_err()
        );
        let other = judge(&before, &counts("rustc 2", 90.0));
        assert!(matches!(other, Ok(Held::Unjudged(why)) if why.contains("rustc 2")));
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
