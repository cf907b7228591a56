//! `cargo xtask bench formats`: how fast every format is written and read, and a large XRay trace is
//! converted into each, with how much memory; beside it the real tools that read the same files. All
//! are processes of their own; nothing here knows a format.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::figures::{Spread, get, words};
use super::formats_table::{Conversion, Findings, Format, Other};
use super::options::Words;
use super::read::Trace;
use super::{Program, machine};
use crate::Result;
use crate::process::{cargo, command, on_path, output, run as run_command, target, work_folder};

/// Calls of the trace that other people's tools take: they need minutes for more.
const SMALL: u64 = 1_000_000;

struct Options {
    /// Of the conversions, in millions.
    calls: u64,
    rounds: usize,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            calls: 10,
            rounds: 3,
        };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--calls" => options.calls = words.number("a number of millions", 1)?,
                "--rounds" => options.rounds = words.number("a number", 1)?,
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// The programs, and where they write.
struct Bench {
    /// Runs a program, and tells its time and memory.
    rss: Program,
    /// `fdr`.
    tool: PathBuf,
    /// The example that writes and reads without the tool.
    measure: PathBuf,
    folder: PathBuf,
    rounds: usize,
}

/// Measures, prints the tables, and writes the JSON if asked for.
///
/// # Errors
///
/// If something cannot be built, or one of our own programs fails. A missing tool of others is told.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let rss = Program::build()?;
    run_command(&mut cargo(
        "build --release --package fdr-cli --bin fdr --example generate_trace --example measure_formats",
    ))?;
    let release = target()?.join("release");
    let bench = Bench {
        rss,
        tool: release.join("fdr"),
        measure: release.join("examples/measure_formats"),
        folder: work_folder("bench")?.join("formats"),
        rounds: options.rounds,
    };
    let _ = fs::remove_dir_all(&bench.folder);
    let made = fs::create_dir_all(&bench.folder);
    made.map_err(|error| format!("{}: {error}", bench.folder.display()))?;
    let findings = bench.all(options.calls);
    let _ = fs::remove_dir_all(&bench.folder);
    let findings = findings?;
    print!("{}", findings.text());
    Ok(())
}

impl Bench {
    fn all(&self, millions: u64) -> Result<Findings> {
        let (targets, _) = output(command(&self.measure).arg("targets"))?;
        let small = Trace::records(2 * SMALL)?;
        let large = Trace::records(2 * millions * 1_000_000)?;
        let (mut formats, mut conversions) = (Vec::new(), Vec::new());
        for line in targets.lines() {
            let (name, extension) = line.split_once(' ').unwrap_or((line, "trace"));
            let out = self.folder.join(format!("{name}.{extension}"));
            formats.push(self.format(name, &out, &small.path)?);
            remove(&out);
            conversions.push(self.conversion(name, &out, &large.path)?);
            remove(&out);
        }
        Ok(Findings {
            machine: machine(),
            rounds: self.rounds,
            calls: millions * 1_000_000,
            formats,
            conversions,
            others: self.others(&small.path)?,
        })
    }

    /// Writing and reading alone, each on one thread.
    fn format(&self, name: &str, out: &Path, trace: &Path) -> Result<Format> {
        let (mut written, mut read) = (Vec::new(), Vec::new());
        let (mut calls, mut bytes) = (0.0, 0.0);
        for _ in 0..self.rounds {
            remove(out);
            let mut write = command(&self.measure);
            let said = output(write.args(["write", name]).args([out, trace]))?.0;
            let said = words(&said);
            written.push(get(&said, "seconds")?);
            (calls, bytes) = (get(&said, "calls")?, get(&said, "bytes")?);
            let said = output(command(&self.measure).arg("read").arg(out))?.0;
            let said = words(&said);
            if get(&said, "calls")? != calls {
                return Err(format!("{name}: {calls} calls written, but read {said:?}"));
            }
            read.push(get(&said, "seconds")?);
        }
        Ok(Format {
            name: name.to_owned(),
            calls,
            bytes,
            written: median(written)?,
            read: median(read)?,
        })
    }

    fn conversion(&self, name: &str, out: &Path, trace: &Path) -> Result<Conversion> {
        let arguments = to(name, out, trace);
        let (seconds, peak_kib) = self.timed(&self.tool, &arguments)?;
        Ok(Conversion { seconds, peak_kib })
    }

    /// Seconds and peak memory in KiB of a program: the medians.
    fn timed(&self, program: &Path, arguments: &[&OsStr]) -> Result<(f64, f64)> {
        let (mut seconds, mut peaks) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let mut run = command(&self.rss.path);
            run.arg("rss").arg(program).args(arguments);
            let (_, log) = output(&mut run)?;
            let words = words(log.lines().last().unwrap_or_default());
            seconds.push(get(&words, "seconds")?);
            peaks.push(get(&words, "peak_kib")?);
        }
        Ok((median(seconds)?, median(peaks)?))
    }

    /// The real tools on the small trace, each beside what we do with the same file.
    fn others(&self, small: &Path) -> Result<Vec<Other>> {
        let mut others = Vec::new();
        let again = self.folder.join("again.out");
        let text = self.folder.join("other.out");
        // Tool, its arguments with the file and the text for IN and OUT, the format, and ours: what writes
        // is beside a conversion into another format, what only reads beside what only reads.
        let llvm = "convert -f yaml -o OUT IN";
        let hawktracer = "--format chrome-tracing --source IN --output-file OUT";
        let convert = "convert --quiet --force --to htdump -o OUT IN";
        let convert_back = "convert --quiet --force --to xray -o OUT IN";
        for (tool, arguments, from, ours) in [
            ("llvm-xray-19", llvm, "xray", convert),
            (
                "hawktracer-converter-rs",
                hawktracer,
                "htdump",
                convert_back,
            ),
            ("babeltrace2", "IN -o dummy", "ctf", "verify IN"),
        ] {
            let Some(program) = on_path(tool) else {
                let why = Err("not installed (cargo xtask test installs it)".to_owned());
                others.push(Other::new(tool, arguments, from, ours, why));
                continue;
            };
            let input = self.folder.join(format!("{from}.in"));
            remove(&input);
            let mut convert = command(&self.tool);
            convert.args(["convert", "--quiet", "--to", from, "-o"]);
            output(convert.arg(&input).arg(small))?;
            let theirs = self.timed(&program, &filled(arguments, &input, &text));
            let mine = self.timed(&self.tool, &filled(ours, &input, &again))?;
            let result = theirs.map(|theirs| (theirs, mine));
            others.push(Other::new(tool, arguments, from, ours, result));
            remove(&input);
        }
        Ok(others)
    }
}

/// Words with paths for IN and OUT.
fn filled<'a>(words: &'a str, input: &'a Path, out: &'a Path) -> Vec<&'a OsStr> {
    let word = |word: &'a str| match word {
        "IN" => input.as_os_str(),
        "OUT" => out.as_os_str(),
        word => word.as_ref(),
    };
    words.split(' ').map(word).collect()
}

/// The arguments of `fdr convert`.
fn to<'a>(format: &'a str, out: &'a Path, trace: &'a Path) -> Vec<&'a OsStr> {
    let words = ["convert", "--quiet", "--force", "--to", format, "-o"];
    let paths = [out.as_os_str(), trace.as_os_str()];
    words.map(OsStr::new).into_iter().chain(paths).collect()
}

fn median(values: Vec<f64>) -> Result<f64> {
    let spread = Spread::of(values).ok_or("no rounds")?;
    Ok(spread.median)
}

/// Removes a file or folder, if it is there.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let options = Options::parse(&["--calls", "2", "--rounds", "5"]).expect("options");
        assert_eq!((options.calls, options.rounds), (2, 5));
        for bad in [&["--calls"][..], &["--calls", "0"], &["--faster"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }
}
