//! `cargo xtask bench`: what a traced call costs, beside the floor of two bare clock reads. Every
//! configuration is a process of its own (the recorder reads its environment once), all of them in
//! every round, and the medians of the rounds are told with their spread. Figures are compared within
//! one run only, and no test asserts them.

mod beside;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod figures;
pub(crate) mod flush;
mod folder;
pub(crate) mod formats;
mod formats_table;
pub(crate) mod history;
pub(crate) mod libraries;
mod marks;
mod options;
pub(crate) mod pack;
pub(crate) mod peers;
pub(crate) mod read;
mod report;
pub(crate) mod scale;
pub(crate) mod tail;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use beside::Beside;
use figures::{Cell, Sample, Table};
use options::Words;

use crate::Result;
use crate::process::{cargo, command, output, run as run_command, target, work_folder};

/// Fewer would not bear the word median.
const LEAST_ROUNDS: usize = 7;

/// What is measured: label, body, threads.
pub(crate) const BODIES: [(&str, &str, usize); 4] = [
    ("leaf", "leaf", 1),
    ("fib", "fib", 1),
    ("50 ns chain", "chain", 1),
    ("leaf, 2 threads", "leaf", 2),
];

/// One way to run a body.
pub(crate) struct Variant {
    pub(crate) label: &'static str,
    /// The bench program's word for it.
    word: &'static str,
    /// `FDR_CLOCK` where it records; `None`: `FDR` is unset.
    clock: Option<&'static str>,
    /// The label that its figure is divided by.
    pub(crate) floor: Option<&'static str>,
}

pub(crate) const VARIANTS: [Variant; 7] = [
    Variant {
        label: "floor rdtscp",
        word: "floor-rdtscp",
        clock: None,
        floor: None,
    },
    Variant {
        label: "on rdtscp",
        word: "traced",
        clock: Some("rdtscp"),
        floor: Some("floor rdtscp"),
    },
    Variant {
        label: "floor rdtsc",
        word: "floor-rdtsc",
        clock: None,
        floor: None,
    },
    Variant {
        label: "on rdtsc",
        word: "traced",
        clock: Some("rdtsc"),
        floor: Some("floor rdtsc"),
    },
    Variant {
        label: "untimed",
        word: "untimed",
        clock: Some("rdtsc"),
        floor: Some("floor rdtsc"),
    },
    Variant {
        label: "off",
        word: "traced",
        clock: None,
        floor: None,
    },
    Variant {
        label: "untimed, off",
        word: "untimed",
        clock: None,
        floor: None,
    },
];

struct Options {
    rounds: usize,
    beside: Option<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            rounds: 15,
            beside: None,
        };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--quick" => options.rounds = LEAST_ROUNDS,
                "--rounds" => {
                    options.rounds = LEAST_ROUNDS.max(words.number("a number", 0)?);
                }
                "--beside" => options.beside = Some(words.value()?.to_owned()),
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// The built bench program and the folder that it records into.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Builds it.
    pub(crate) fn build() -> Result<Program> {
        run_command(&mut cargo("build --release --package fdr-bench"))?;
        Ok(Program {
            path: target()?.join("release/fdr-bench"),
            folder: work_folder("bench")?,
        })
    }

    /// Runs it and returns the `key=value` words of its output.
    fn ask(&self, arguments: &[&str], clock: Option<&str>) -> Result<Vec<(String, f64)>> {
        self.ask_with(arguments, clock, &[])
    }

    /// The same, with more variables.
    fn ask_with(
        &self,
        arguments: &[&str],
        clock: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Vec<(String, f64)>> {
        let mut program = command(&self.path);
        program.args(arguments).envs(variables.iter().copied());
        if let Some(clock) = clock {
            program
                .env("FDR", "1")
                .env("FDR_CLOCK", clock)
                .env("FDR_LOG", "warn");
            program.env("FDR_OUT", self.folder.join(""));
        }
        let (stdout, stderr) = output(&mut program)?;
        if clock.is_some() && self.take_traces()? == 0 {
            let said = stderr.trim_end();
            return Err(format!(
                "the program was to record, and left no trace: not measured. {said}"
            ));
        }
        Ok(figures::words(&stdout))
    }

    /// Removes the traces of the last run and returns their bytes.
    pub(crate) fn take_traces(&self) -> Result<u64> {
        let bad = |error| format!("{}: {error}", self.folder.display());
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder).map_err(bad)? {
            let entry = entry.map_err(bad)?;
            if entry.path().extension() == Some(OsStr::new("fdr")) {
                bytes += entry.metadata().map_err(bad)?.len();
                fs::remove_file(entry.path()).map_err(bad)?;
            }
        }
        Ok(bytes)
    }
}

/// Measures, prints the table, and writes the JSON if asked for.
///
/// # Errors
///
/// If the bench program cannot be built or does not run at all. A single configuration that cannot be
/// measured is told in the table.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    program.take_traces()?;
    let beside = options.beside.as_deref().map(Beside::build);
    let mut beside = beside.transpose()?;
    let steps = figures::get(&program.ask(&["steps"], None)?, "steps")?.to_string();
    let mut table = Table::new(BODIES.len(), VARIANTS.len());
    for round in 0..options.rounds {
        eprint!("\rround {} of {} ", round + 1, options.rounds);
        for at in 0..BODIES.len() * VARIANTS.len() {
            // Each round starts elsewhere, so that nothing is always measured after the same thing.
            let at = (at + round * VARIANTS.len() + round) % (BODIES.len() * VARIANTS.len());
            let (body, variant) = (at / VARIANTS.len(), at % VARIANTS.len());
            measure(&program, &steps, body, variant, table.cell(body, variant));
            if let Some(Beside { program, table, .. }) = &mut beside {
                measure(program, &steps, body, variant, table.cell(body, variant));
            }
        }
    }
    eprintln!();
    let findings = report::Findings {
        machine: machine(),
        rounds: options.rounds,
        code: code::leaf_bytes(&program.path),
        instructions: code::leaf_instructions(&program.path),
        table,
    };
    print!("{}", findings.text());
    if let Some(beside) = beside {
        print!("{}", beside.text(&findings.table, &findings.code));
    }
    let ratio = |body, variant| findings.ratio(body, variant);
    if let Err(error) = history::add(&findings.machine, options.rounds, ratio) {
        eprintln!("{error}");
    }
    Ok(())
}

/// Adds one sample to the cell, or the reason why there is none; the first reason stays.
fn measure(program: &Program, steps: &str, body: usize, variant: usize, cell: &mut Cell) {
    if cell.failure.is_some() {
        return;
    }
    let (_, body, threads) = BODIES[body];
    let Variant { word, clock, .. } = &VARIANTS[variant];
    let arguments = ["measure", body, word, &threads.to_string(), steps];
    match program
        .ask(&arguments, *clock)
        .and_then(|words| Sample::from_words(&words))
    {
        Ok(sample) => cell.samples.push(sample),
        Err(failure) => cell.failure = Some(failure),
    }
}

/// Writes a result file, relative to the caller's folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// How many threads ran or wanted to, on the average of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// The processor's name and the number of cores.
pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cores} cores",
        model.map_or("unknown processor", |(_, name)| name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_never_below_the_least() {
        assert_eq!(
            Options::parse(&["--rounds", "3"]).map(|options| options.rounds),
            Ok(7)
        );
        assert_eq!(
            Options::parse(&["--rounds", "9"]).map(|options| options.rounds),
            Ok(9)
        );
        assert!(Options::parse(&["--rounds"]).is_err());
        assert!(Options::parse(&["--faster"]).is_err());
    }

    #[test]
    fn floors_exist_and_are_measured_first() {
        for (at, variant) in VARIANTS.iter().enumerate() {
            if let Some(floor) = variant.floor {
                assert!(
                    VARIANTS[..at].iter().any(|other| other.label == floor),
                    "{floor}"
                );
            }
        }
    }
}
