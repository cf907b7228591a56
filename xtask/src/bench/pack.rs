//! `cargo xtask bench pack`: how small a real trace becomes, plain and dense, how fast it is packed and
//! unpacked, and what a packed one costs a reader; beside it the `zstd` that is installed. The trace is of a program that
//! does real work (`index_builder`), for made ones are packed too well or too badly.

use std::fs;
use std::path::{Path, PathBuf};

use super::figures::{Spread, get, words};
use super::{Program, machine};
use crate::Result;
use crate::process::{cargo, command, on_path, output, run as run_command, target};

const LEVELS: [u32; 3] = [1, 3, 9];
const ROUNDS: usize = 3;
/// The tool with its own layout of the records.
const DENSE: &str = "fdr --dense";
/// A record of XRay's.
const RECORD_BYTES: f64 = 8.0;

/// One tool at one level.
struct Row {
    tool: &'static str,
    level: u32,
    bytes: u64,
    pack: f64,
    unpack: f64,
    /// Seconds of `fdr report`; other tools' files are read by it, too.
    report: f64,
}

/// Everything that a run found. Times in seconds, sizes in bytes.
struct Findings {
    machine: String,
    trace: u64,
    report: f64,
    rows: Vec<Row>,
}

/// Records, packs, unpacks, reads, and prints a table.
///
/// # Errors
///
/// If something cannot be built or does not run, or a trace does not come back as it was.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    if let [word, ..] = words {
        return Err(format!("cannot make sense of {word}; see cargo xtask help"));
    }
    let bench = Bench::build()?;
    let findings = bench.all();
    bench.remove();
    let findings = findings?;
    print!("{}", findings.text());
    if on_path("zstd").is_none() {
        println!("zstd is not installed (Debian package zstd): nothing to compare with");
    }
    Ok(())
}

struct Bench {
    rss: Program,
    tool: PathBuf,
    trace: PathBuf,
    packed: PathBuf,
    again: PathBuf,
}

impl Bench {
    fn build() -> Result<Bench> {
        let rss = Program::build()?;
        run_command(&mut cargo("build --release --package fdr-cli --bin fdr"))?;
        run_command(&mut cargo(
            "build --release --package fdr-examples --example index_builder",
        ))?;
        let file = |name: &str| rss.folder.join(name);
        Ok(Bench {
            tool: target()?.join("release/fdr"),
            trace: file("real.trace"),
            packed: file("real.trace.zst"),
            again: file("real.again"),
            rss,
        })
    }

    fn remove(&self) {
        for file in [&self.trace, &self.packed, &self.again] {
            let _ = fs::remove_file(file);
        }
    }

    fn all(&self) -> Result<Findings> {
        let mut program = command(target()?.join("release/examples/index_builder"));
        program.args(["--threads", "2", "--passes", "3"]);
        program.env("FDR", "1").env("FDR_BUFFER", "128M");
        output(program.env("FDR_OUT", &self.trace))?;
        let mut tools = vec![("fdr", self.tool.clone()), (DENSE, self.tool.clone())];
        tools.extend(on_path("zstd").map(|zstd| ("zstd -T0", zstd)));
        let mut rows = Vec::new();
        for level in LEVELS {
            for (name, program) in &tools {
                rows.push(self.row(name, program, level)?);
            }
        }
        Ok(Findings {
            machine: machine(),
            trace: size(&self.trace)?,
            report: self.timed(&self.tool, &["report", "--limit", "1"], &[&self.trace])?,
            rows,
        })
    }

    fn row(&self, tool: &'static str, program: &Path, level: u32) -> Result<Row> {
        let level_word = level.to_string();
        let (dashed, files) = (
            format!("-{level}"),
            [&*self.trace, "-o".as_ref(), &*self.packed],
        );
        let back = [&*self.packed, "-o".as_ref(), &*self.again];
        let mut ours = vec!["pack", "-q", "--force", "--level", &level_word];
        if tool == DENSE {
            ours.push("--dense");
        }
        let (pack, unpack): (Vec<&str>, &[&str]) = match tool {
            "fdr" | DENSE => (ours, &["unpack", "-q", "--force"]),
            _ => (vec!["-q", "-f", "-T0", &dashed], &["-q", "-f", "-d"]),
        };
        let pack = self.timed(program, &pack, &files)?;
        let unpack = self.timed(program, unpack, &back)?;
        output(command("cmp").arg(&self.trace).arg(&self.again))?;
        Ok(Row {
            tool,
            level,
            bytes: size(&self.packed)?,
            pack,
            unpack,
            report: self.timed(&self.tool, &["report", "--limit", "1"], &[&self.packed])?,
        })
    }

    /// Seconds of a program: the median.
    fn timed(&self, program: &Path, words_of: &[&str], files: &[&Path]) -> Result<f64> {
        let mut seconds = Vec::new();
        for _ in 0..ROUNDS {
            let mut run = command(&self.rss.path);
            run.arg("rss").arg(program).args(words_of).args(files);
            let (_, log) = output(&mut run)?;
            seconds.push(get(
                &words(log.lines().last().unwrap_or_default()),
                "seconds",
            )?);
        }
        Ok(Spread::of(seconds).ok_or("no rounds")?.median)
    }
}

fn size(path: &Path) -> Result<u64> {
    let data = fs::metadata(path);
    data.map(|data| data.len())
        .map_err(|error| format!("{}: {error}", path.display()))
}

impl Findings {
    fn text(&self) -> String {
        let (mega, records) = (
            self.trace as f64 / 1e6,
            self.trace as f64 / RECORD_BYTES / 1e6,
        );
        let both = |seconds: f64| {
            format!(
                "{:>8.0} MB/s {:>6.1} M records/s",
                mega / seconds,
                records / seconds
            )
        };
        let mut text = format!(
            "{}; medians of {ROUNDS}; XRay trace of index_builder, {mega:.1} MB, about {records:.1} M records\n\n\
             {:<11} {:>5} {:>8} {:>13} {:>28} {:>28} {:>28}\n",
            self.machine,
            "tool",
            "level",
            "ratio",
            "bytes/record",
            "packing",
            "unpacking",
            "fdr report of it"
        );
        let plain = both(self.report);
        text += &format!(
            "{:<11} {:>5} {:>8} {:>13} {:>28} {:>28} {plain:>28}\n",
            "-", "-", "1.00", "8.00", "", ""
        );
        for row in &self.rows {
            let ratio = self.trace as f64 / row.bytes as f64;
            text += &format!(
                "{:<11} {:>5} {ratio:>8.2} {:>13.2} {:>28} {:>28} {:>28}\n",
                row.tool,
                row.level,
                RECORD_BYTES / ratio,
                both(row.pack),
                both(row.unpack),
                both(row.report)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_speeds_have_units() {
        let findings = Findings {
            machine: "a machine".to_owned(),
            trace: 80_000_000,
            report: 0.05,
            rows: vec![Row {
                tool: "fdr",
                level: 3,
                bytes: 20_000_000,
                pack: 0.5,
                unpack: 0.1,
                report: 0.2,
            }],
        };
        let text = findings.text();
        let last: Vec<_> = text
            .lines()
            .last()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(
            last.join(" "),
            "fdr 3 4.00 2.00 160 MB/s 20.0 M records/s 800 MB/s 100.0 M records/s 400 MB/s 50.0 M records/s"
        );
        assert!(text.contains("80.0 MB, about 10.0 M records"), "{text}");
    }
}
