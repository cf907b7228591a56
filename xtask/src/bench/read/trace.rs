//! Traces to be read, made anew and removed, and what reading one took. Must never leave one behind.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::Program;
use super::super::figures::{get, words};
use crate::Result;
use crate::process::{command, output, run as run_command, target, work_folder};

/// Whose format a trace is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Ours, which is llvm-xray's.
    Xray,
    Uftrace,
    Htdump,
}

/// A generated trace, removed when it goes out of scope.
pub(crate) struct Trace {
    pub(crate) path: PathBuf,
    records: u64,
    threads: u32,
}

impl Trace {
    pub(super) fn generate(millions: u32, threads: u32) -> Result<Trace> {
        Trace::of(u64::from(millions) * 1_000_000, threads)
    }

    /// A trace of so many records of four threads.
    pub(crate) fn records(records: u64) -> Result<Trace> {
        Trace::of(records, 4)
    }

    fn of(records: u64, threads: u32) -> Result<Trace> {
        let folder = work_folder("bench")?;
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

    /// The same calls in another format.
    pub(super) fn as_form(&self, form: Form, tool: &Path) -> Result<Trace> {
        let (mut make, end) = match form {
            Form::Xray => (command("ln"), "xray"),
            Form::Htdump => (command(tool), "htdump"),
            Form::Uftrace => {
                let example = target()?.join("release/examples/uftrace_folder");
                (command(example), "uftrace")
            }
        };
        let other = Trace {
            path: self.path.with_extension(end),
            ..*self
        };
        other.remove();
        if form == Form::Htdump {
            make.args(["convert", "--quiet", "--to", "htdump", "-o"]);
            make.arg(&other.path).arg(&self.path);
        } else {
            make.arg(&self.path).arg(&other.path);
        }
        run_command(&mut make)?;
        Ok(other)
    }

    /// Reads it some times. In `question`, `IN` is the trace, and `OUT` a file or folder that is removed.
    pub(super) fn read(
        &self,
        bench: &Program,
        label: &str,
        reader: &Path,
        question: &str,
        rounds: usize,
    ) -> Result<Reading> {
        let out = self.path.with_extension("out");
        let (input, out_name) = (self.path.to_string_lossy(), out.to_string_lossy());
        let word = |word: &str| match word {
            "IN" => input.clone().into_owned(),
            word => word.replace("OUT", &out_name),
        };
        let mut readings = Vec::new();
        for _ in 0..rounds {
            let mut run = command(&bench.path);
            run.arg("rss").arg(reader);
            let read = output(run.args(question.split_whitespace().map(word)));
            remove(&out);
            let (_, log) = read?;
            let words = words(log.lines().last().unwrap_or_default());
            readings.push(["seconds", "cpu_seconds", "peak_kib"].map(|key| get(&words, key)));
        }
        let mut runs = Vec::new();
        for [seconds, cpu, peak] in readings {
            runs.push((seconds?, cpu?, peak?));
        }
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (seconds, cpu_seconds, _) = *runs.get(rounds / 2).ok_or("no rounds")?;
        Ok(Reading {
            reader: label.to_owned(),
            records: self.records,
            threads: self.threads,
            seconds,
            cpu_seconds,
            peak_kib: runs.iter().fold(0.0, |peak: f64, run| peak.max(run.2)),
        })
    }

    fn remove(&self) {
        remove(&self.path);
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes a file or folder, if it is there.
fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// One reader's result.
pub(super) struct Reading {
    reader: String,
    records: u64,
    threads: u32,
    seconds: f64,
    cpu_seconds: f64,
    peak_kib: f64,
}

impl Reading {
    pub(super) fn text(&self) -> String {
        let Reading {
            reader,
            records,
            threads,
            seconds,
            cpu_seconds,
            peak_kib,
        } = self;
        let (millions, mib) = (*records as f64 / 1e6, peak_kib / 1024.0);
        let (speed, by_core) = (millions / seconds, millions / cpu_seconds.max(0.001));
        let of = if *threads == 1 {
            "1 thread "
        } else {
            "4 threads"
        };
        format!(
            "{reader:<35} {millions:>5.0} M records of {of} {seconds:>7.2} s {speed:>8.2} M records/s \
             {cpu_seconds:>7.2} s CPU {by_core:>8.2} M records/CPU s {mib:>8.1} MiB peak\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_has_speed_and_units() {
        let reading = Reading {
            reader: "fdr report".to_owned(),
            records: 100_000_000,
            threads: 1,
            seconds: 0.8,
            cpu_seconds: 1.6,
            peak_kib: 20_480.0,
        };
        let text = reading.text();
        assert!(
            text.contains("100 M records of 1 thread") && text.contains("125.00 M records/s"),
            "{text}"
        );
        assert!(
            text.contains("62.50 M records/CPU s") && text.contains("20.0 MiB peak"),
            "{text}"
        );
    }
}
