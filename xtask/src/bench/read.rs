//! `cargo xtask bench read`: how fast the tool reads a large trace, and in how much memory: figures,
//! verdict, folded stacks, other formats; of one thread and of several, on all cores and on one. Beside
//! it llvm-xray, where it is installed, on a trace that it can hold.

use std::path::{Path, PathBuf};

use super::figures::{get, words};
use super::report::quoted;
use super::{Program, machine, write};
use crate::Result;
use crate::process::{cargo, command, on_path, output, run as run_command, target};

/// llvm-xray keeps every record in memory: 200 bytes each.
const LLVM_XRAY_MILLIONS: u32 = 5;
const ROUNDS: usize = 3;
/// Threads of the traces.
const THREADS: [u32; 2] = [1, 4];
/// Converting is measured on so many at most: what is written is as large as the trace.
const CONVERTED_MILLIONS: u32 = 50;
/// Formats that it is converted to: both with a record per edge and with one per call, and our own.
const FORMATS: [&str; 4] = ["ctf", "heph", "htdump", "xray"];

/// What a reader is asked, and what that is called in the table. In arguments `OUT` is a file or folder
/// that is removed afterwards.
type Question = (&'static str, &'static [&'static str]);

const OURS: [Question; 6] = [
    ("fdr report", &["report", "--limit", "5"]),
    ("fdr report -j 1", &["report", "--limit", "5", "-j", "1"]),
    ("fdr verify", &["verify"]),
    ("fdr info", &["info"]),
    ("fdr flame", &["flame"]),
    ("fdr flame -j 1", &["flame", "-j", "1"]),
];

const LLVM: [Question; 3] = [
    ("account", &["account"]),
    (
        "stack",
        &[
            "stack",
            "--all-stacks",
            "--per-thread-stacks",
            "--stack-format=flame",
            "--aggregation-type=time",
        ],
    ),
    (
        "convert",
        &["convert", "--output-format=trace_event", "--output=OUT"],
    ),
];

struct Options {
    millions: u32,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            millions: 100,
            json: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word {
                "--records" => {
                    let millions = value()?.parse().ok().filter(|&millions| millions > 0);
                    options.millions = millions.ok_or("--records needs a number of millions")?;
                }
                "--json" => options.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown option {word}; see cargo xtask help")),
            }
        }
        Ok(options)
    }
}

/// One reader's result.
struct Reading {
    reader: String,
    records: u64,
    threads: u32,
    seconds: f64,
    peak_kib: f64,
}

impl Reading {
    fn text(&self) -> String {
        let Reading {
            reader,
            records,
            threads,
            seconds,
            peak_kib,
        } = self;
        let (millions, mib) = (*records as f64 / 1e6, peak_kib / 1024.0);
        let speed = millions / seconds;
        let of = if *threads == 1 {
            "1 thread "
        } else {
            "4 threads"
        };
        format!(
            "{reader:<26} {millions:>6.0} M records of {of} {seconds:>8.2} s {speed:>8.2} M records/s {mib:>8.1} MiB peak\n"
        )
    }

    fn json(&self) -> String {
        format!(
            "{{\"reader\": {}, \"records\": {}, \"threads\": {}, \"seconds\": {:.4}, \"records_per_s\": {:.0}, \"peak_kib\": {}}}",
            quoted(&self.reader),
            self.records,
            self.threads,
            self.seconds,
            self.records as f64 / self.seconds,
            self.peak_kib
        )
    }
}

/// Generates the traces, reads them, prints a table, and removes the traces.
///
/// # Errors
///
/// If something cannot be built, or a reader fails. A missing llvm-xray is told.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    run_command(&mut cargo(
        "build --release --package fdr-cli --bin fdr --example generate_trace",
    ))?;
    let tool = target()?.join("release/fdr");
    println!(
        "{}; medians of {ROUNDS} readings of a file in the page cache\n",
        machine()
    );
    let mut readings = Vec::new();
    let mut told = |reading: Reading| {
        print!("{}", reading.text());
        readings.push(reading);
    };
    for threads in THREADS {
        let large = Trace::generate(options.millions, threads)?;
        for (label, arguments) in OURS {
            told(large.read(&program, label, &tool, arguments)?);
        }
    }
    let millions = CONVERTED_MILLIONS.min(options.millions);
    let converted = Trace::generate(millions, 4)?;
    for format in FORMATS {
        let arguments = ["convert", "--quiet", "--force", "--to", format, "-o", "OUT"];
        let label = format!("fdr convert --to {format}");
        told(converted.read(&program, &label, &tool, &arguments)?);
    }
    drop(converted);
    let small = Trace::generate(LLVM_XRAY_MILLIONS.min(options.millions), 4)?;
    for at in [0, 4] {
        let (label, arguments) = OURS[at];
        told(small.read(&program, label, &tool, arguments)?);
    }
    let other = ["llvm-xray-19", "llvm-xray"]
        .into_iter()
        .find(|name| on_path(name).is_some());
    match other {
        Some(other) => {
            for (what, arguments) in LLVM {
                let label = format!("{other} {what}");
                told(small.read(&program, &label, Path::new(other), arguments)?);
            }
        }
        None => {
            println!(
                "llvm-xray is not installed (Debian package llvm-19): nothing to compare with"
            );
        }
    }
    let rows: Vec<_> = readings.iter().map(Reading::json).collect();
    match &options.json {
        Some(path) => {
            let (machine, rows) = (quoted(&machine()), rows.join(",\n"));
            write(
                path,
                &format!("{{\"machine\": {machine},\n\"readings\": [\n{rows}\n]}}\n"),
            )
        }
        None => Ok(()),
    }
}

/// A generated trace file, removed when it goes out of scope.
pub(crate) struct Trace {
    pub(crate) path: PathBuf,
    records: u64,
    threads: u32,
}

impl Trace {
    fn generate(millions: u32, threads: u32) -> Result<Trace> {
        Trace::of(u64::from(millions) * 1_000_000, threads)
    }

    /// A trace of so many records of four threads.
    pub(crate) fn records(records: u64) -> Result<Trace> {
        Trace::of(records, 4)
    }

    fn of(records: u64, threads: u32) -> Result<Trace> {
        let folder = crate::process::work_folder("bench")?;
        let trace = Trace {
            path: folder.join(format!("generated-{records}-{threads}.fdr")),
            records,
            threads,
        };
        let mut generate = command(target()?.join("release/examples/generate_trace"));
        run_command(
            generate
                .arg(&trace.path)
                .args([&records.to_string(), &threads.to_string()]),
        )?;
        Ok(trace)
    }

    fn read(
        &self,
        bench: &Program,
        label: &str,
        reader: &Path,
        arguments: &[&str],
    ) -> Result<Reading> {
        let out = self.path.with_extension("out");
        let out_name = out.to_string_lossy();
        let mut readings = Vec::new();
        for _ in 0..ROUNDS {
            let mut run = command(&bench.path);
            run.arg("rss").arg(reader);
            run.args(arguments.iter().map(|word| word.replace("OUT", &out_name)));
            let (_, log) = output(run.arg(&self.path))?;
            let _ = std::fs::remove_file(&out).or_else(|_| std::fs::remove_dir_all(&out));
            let words = words(log.lines().last().unwrap_or_default());
            readings.push((get(&words, "seconds")?, get(&words, "peak_kib")?));
        }
        readings.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (seconds, _) = readings[ROUNDS / 2];
        let peak_kib = readings
            .iter()
            .fold(0.0, |peak: f64, reading| peak.max(reading.1));
        Ok(Reading {
            reader: label.to_owned(),
            records: self.records,
            threads: self.threads,
            seconds,
            peak_kib,
        })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        assert_eq!(Options::parse(&[]).map(|options| options.millions), Ok(100));
        assert_eq!(
            Options::parse(&["--records", "7"]).map(|options| options.millions),
            Ok(7)
        );
        assert!(Options::parse(&["--records", "0"]).is_err());
        assert!(Options::parse(&["--records"]).is_err());
    }

    #[test]
    fn a_reading_has_speed_and_units() {
        let reading = Reading {
            reader: "fdr report".to_owned(),
            records: 100_000_000,
            threads: 1,
            seconds: 0.8,
            peak_kib: 20_480.0,
        };
        let text = reading.text();
        assert!(
            text.contains("100 M records of 1 thread") && text.contains("125.00 M records/s"),
            "{text}"
        );
        assert!(text.contains("20.0 MiB peak"), "{text}");
        assert!(reading.json().contains("\"records_per_s\": 125000000"));
    }
}
