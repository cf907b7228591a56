//! `cargo xtask bench read`: how fast the tool reads a large trace, and in how much memory. It measures figures,
//! verdict, folded stacks, and conversions to other formats and back. The traces have one thread or several, and the
//! tool runs on one core or on all. Other people's readers, if they are installed, read a shorter trace of the same
//! calls.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use comfy_table::Table;
use xshell::cmd;
use xtask::process::{on_path, output, run as run_command, shell, target};

use crate::Result;
use crate::figures::median;
use crate::program::{self, RunCost, Trace, machine, measured, remove, size};
use crate::table::{last_line, table};

const ROUNDS: usize = 3;
/// llvm-xray keeps every record in memory, 200 bytes each, and uftrace takes a second for a million.
const PEERS_MILLIONS: u64 = 5;
/// The most records for conversions, because the output is as large as the trace.
const CONVERTED_MILLIONS: u64 = 50;
/// Threads of the traces.
const THREADS: [u32; 2] = [1, 4];

/// How fast a large trace is read, and in how much memory
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Records of the trace
    #[arg(long, value_name = "MILLIONS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
}

/// The measured command lines of the tool. `IN` is the trace, and `OUT` a file or folder that is removed afterwards.
const READS: [&str; 6] = [
    "report --limit 5 IN",
    "report --limit 5 -j 1 IN",
    "verify IN",
    "info IN",
    "flame IN",
    "flame -j 1 IN",
];
/// Its own format, and others: with a record per edge, with one per call, and states.
const TARGETS: [&str; 7] = [
    "xray",
    "xray -j 1",
    "ctf",
    "heph",
    "htdump",
    "et",
    "tcstate",
];

/// Another reader: its programs, the best first; its source; its command lines; and the format of its trace. `fdr`
/// writes that format, or an example writes the trace.
type Peer = (
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static [&'static str],
);

const PEERS: [Peer; 4] = [
    (
        &["llvm-xray-19", "llvm-xray"],
        "Debian's llvm-19",
        "",
        &[
            "account IN",
            "stack --all-stacks --per-thread-stacks --stack-format=flame --aggregation-type=time IN",
            "convert --output-format=trace_event --output=OUT IN",
        ],
    ),
    (
        &["uftrace"],
        "Debian's uftrace",
        "examples/uftrace_folder",
        &[
            "report --no-pager -d IN",
            "dump --no-pager --flame-graph -d IN",
        ],
    ),
    (
        &["hawktracer-converter", "hawktracer-converter-rs"],
        "HawkTracer, or the crate hawktracer-converter",
        "htdump",
        &["--format chrome-tracing --source IN --output-file OUT"],
    ),
    (
        &["babeltrace2"],
        "Debian's babeltrace2",
        "ctf",
        &["IN -o dummy"],
    ),
];

/// Generates the traces, reads them, prints a table, and removes the traces.
///
/// # Errors
/// If something can't be built, or one of our own commands fails. If another reader is missing or fails, a line says
/// so.
pub(crate) fn run(options: &Options) -> Result<()> {
    program::build()?;
    let sh = shell()?;
    run_command(cmd!(
        sh,
        "cargo build --release --package fdr-cli --bin fdr --example generate_trace --example uftrace_folder"
    ))?;
    let heads = "reader | M records | threads | bytes/record | s | M records/s | CPU s | M records/CPU s | peak MiB";
    let mut readings = Readings {
        tool: target()?.join("release/fdr"),
        most_records: options.records,
        table: table(heads),
    };
    readings.read_native()?;
    readings.convert()?;
    let notes = readings.compare_peers()?;
    println!(
        "{}; medians of {ROUNDS} readings of a file in the page cache\n\n{}",
        machine(),
        readings.table
    );
    notes.iter().for_each(|note| println!("{note}"));
    Ok(())
}

/// The command line of a conversion to the target.
fn conversion(target: &str) -> String {
    format!("convert --quiet --force -o OUT IN --to {target}")
}

/// What a program takes: medians of the rounds, and the most memory. Of its words, `IN` and `OUT` are paths.
///
/// # Errors
/// If it fails.
fn took(rounds: usize, program: &Path, words: &str, [input, out]: [&Path; 2]) -> Result<RunCost> {
    let (sh, mut all) = (shell()?, Vec::new());
    for _ in 0..rounds {
        let words = words.split_whitespace();
        let words = words.map(|word| filled(word, input, out));
        let (_, log) = output(measured(&sh)?.arg(program).args(words))?;
        all.push(RunCost::parse(&log)?);
    }
    Ok(RunCost {
        seconds: median(all.iter().map(|took| took.seconds)),
        cpu_seconds: median(all.iter().map(|took| took.cpu_seconds)),
        peak_mib: all.iter().map(|took| took.peak_mib).fold(0.0, f64::max),
    })
}

/// A word of a command line, with paths for `IN` and `OUT`.
fn filled(word: &str, input: &Path, out: &Path) -> OsString {
    match word {
        "IN" => input.into(),
        word => word.replace("OUT", &out.to_string_lossy()).into(),
    }
}

struct Readings {
    tool: PathBuf,
    /// In millions.
    most_records: u64,
    table: Table,
}

impl Readings {
    fn generate(&self, millions: u64, threads: u32) -> Result<Trace> {
        Trace::generate(millions.min(self.most_records) * 1_000_000, threads)
    }

    /// Measures a command line on `input`, which has the records of the trace, and adds a row.
    fn measure(
        &mut self,
        trace: &Trace,
        name: &str,
        program: &Path,
        words: &str,
        input: &Path,
    ) -> Result<()> {
        let label = format!("{name} {}", words.replace("--quiet --force ", ""));
        eprintln!("{label}");
        let out = trace.beside("out");
        let took = took(ROUNDS, program, words, [input, &out]);
        remove(&out);
        let (took, millions) = (took?, trace.records as f64 / 1e6);
        self.table.add_row([
            label,
            format!("{millions:.0}"),
            trace.threads.to_string(),
            format!("{:.1}", size(input) as f64 / trace.records as f64),
            format!("{:.2}", took.seconds),
            format!("{:.2}", millions / took.seconds),
            format!("{:.2}", took.cpu_seconds),
            format!("{:.2}", millions / took.cpu_seconds.max(0.001)),
            format!("{:.1}", took.peak_mib),
        ]);
        Ok(())
    }

    /// Measures the tool on the trace itself.
    fn measure_tool(&mut self, trace: &Trace, words: &str) -> Result<()> {
        let tool = self.tool.clone();
        self.measure(trace, "fdr", &tool, words, &trace.path)
    }

    fn read_native(&mut self) -> Result<()> {
        for threads in THREADS {
            let trace = self.generate(self.most_records, threads)?;
            for words in READS {
                self.measure_tool(&trace, words)?;
            }
        }
        Ok(())
    }

    /// Conversions to each format, and the verdict of the converted traces.
    fn convert(&mut self) -> Result<()> {
        let tool = self.tool.clone();
        for threads in THREADS {
            let trace = self.generate(CONVERTED_MILLIONS, threads)?;
            // The other formats of several threads only.
            let targets = if threads > 1 {
                &TARGETS[..]
            } else {
                &TARGETS[..2]
            };
            for target in targets {
                self.measure_tool(&trace, &conversion(target))?;
            }
            for target in targets.iter().filter(|target| !target.contains("-j")) {
                let made = trace.beside("made");
                took(1, &tool, &conversion(target), [&trace.path, &made])?;
                let name = format!("fdr, of {target},");
                self.measure(&trace, &name, &tool, "verify IN", &made)?;
                remove(&made);
            }
        }
        Ok(())
    }

    /// The tool and other people's readers on the shorter trace. Returns a line for each that is missing or fails.
    fn compare_peers(&mut self) -> Result<Vec<String>> {
        let trace = self.generate(PEERS_MILLIONS, 4)?;
        for words in READS.iter().filter(|words| !words.contains("-j")) {
            self.measure_tool(&trace, words)?;
        }
        self.measure_tool(&trace, &conversion("xray"))?;
        let mut notes = Vec::new();
        for (programs, package, maker, questions) in PEERS {
            let Some((name, path)) = programs
                .iter()
                .find_map(|name| Some((name, on_path(name)?)))
            else {
                notes.push(format!("{}: not installed ({package})", programs[0]));
                continue;
            };
            let theirs = trace.beside("theirs");
            if maker.starts_with("examples/") {
                let maker = target()?.join("release").join(maker);
                let (sh, input) = (shell()?, &trace.path);
                run_command(cmd!(sh, "{maker} {input} {theirs}"))?;
            } else if !maker.is_empty() {
                let words = conversion(maker);
                took(1, &self.tool, &words, [&trace.path, &theirs])?;
            }
            let input = match maker {
                "" => &trace.path,
                _ => &theirs,
            };
            for words in questions {
                if let Err(error) = self.measure(&trace, name, &path, words, input) {
                    notes.push(format!("{name} {words}: {}", last_line(&error.to_string())));
                }
            }
            remove(&theirs);
        }
        Ok(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_names_its_trace() {
        let peers = PEERS.iter().flat_map(|(.., questions)| *questions);
        for words in READS.iter().chain(peers) {
            assert!(words.split_whitespace().any(|word| word == "IN"), "{words}");
        }
    }

    #[test]
    fn paths_stand_for_in_and_out() {
        let of = |word| filled(word, Path::new("a b"), Path::new("c"));
        assert_eq!(
            ["IN", "--output=OUT", "x"].map(of),
            ["a b", "--output=c", "x"]
        );
    }
}
