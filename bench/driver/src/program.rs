//! Builds and runs the measured programs, and measures their time and memory. Each run records into a folder of its
//! own. No other user can read that folder, and it is removed after the run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xshell::{Cmd, cmd};
use xtask::process::{output, root, run, shell, target, work_folder};

use crate::Result;
use crate::figures::{Words, median};

/// A program of the package `fdr-bench`, built.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Where the folders that it records into are made.
    pub(crate) place: PathBuf,
}

/// The output of a run.
pub(crate) struct CapturedOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn build() -> Result<Program> {
        let sh = shell()?;
        run(cmd!(sh, "cargo build --release --package fdr-bench"))?;
        Ok(Program {
            path: target()?.join("release/fdr-bench"),
            place: work_folder("bench")?,
        })
    }

    /// Another revision's, built in a copy of its own; `revision` is whatever git takes for one. Also its name.
    ///
    /// # Errors
    /// If there is no such revision, or it can't be built.
    pub(crate) fn of_revision(revision: &str) -> Result<(String, Program)> {
        let folder = work_folder("beside")?;
        let copy = folder.join("source");
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        let (sh, root, target) = (shell()?, root(), folder.join("target"));
        let revision = format!("{revision}^{{commit}}");
        let (revision, _) = output(cmd!(sh, "git rev-parse --short {revision}"))?;
        let revision = revision.trim().to_owned();
        run(cmd!(
            sh,
            "git clone --quiet --shared --no-checkout {root} {copy}"
        ))?;
        sh.change_dir(&copy);
        run(cmd!(sh, "git checkout --quiet --detach {revision}"))?;
        run(cmd!(
            sh,
            "cargo build --release --package fdr-bench --target-dir {target}"
        ))?;
        let path = target.join("release/fdr-bench");
        Ok((
            revision,
            Program {
                path,
                place: folder,
            },
        ))
    }

    /// A folder for one run.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&self.place)?)
    }

    /// Runs it, recording if there is a clock.
    ///
    /// # Errors
    /// If it fails, or was to record and left no trace.
    pub(crate) fn ask(&self, words: &[&str], clock: Option<&str>) -> Result<Words> {
        let (sh, folder, program) = (shell()?, self.folder()?, &self.path);
        let program = cmd!(sh, "{program} {words...}");
        let output = run_captured(recording(program, clock, &folder))?;
        if clock.is_some() {
            left_a_trace(&folder, &output.stderr)?;
        }
        Ok(Words::parse(&output.stdout))
    }

    /// What another program takes: medians of the rounds, and the most memory. Of its words, `IN` and `OUT` are
    /// paths.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn took(
        &self,
        rounds: usize,
        program: &Path,
        words: &str,
        [input, out]: [&Path; 2],
    ) -> Result<RunCost> {
        let mut all = Vec::new();
        let (sh, bench) = (shell()?, &self.path);
        for _ in 0..rounds {
            let words = words
                .split_whitespace()
                .map(|word| filled(word, input, out));
            let output = run_captured(cmd!(sh, "{bench} rss {program} {words...}"))?;
            let words = Words::parse(output.stderr.lines().last().unwrap_or_default());
            all.push((
                words.get("seconds")?,
                words.get("cpu_seconds")?,
                words.get("peak_kib")?,
            ));
        }
        Ok(RunCost {
            seconds: median(all.iter().map(|took| took.0)),
            cpu_seconds: median(all.iter().map(|took| took.1)),
            peak_mib: all.iter().fold(0.0, |most: f64, took| most.max(took.2)) / 1024.0,
        })
    }
}

/// The program, ready to record every call into the folder if there is a clock; otherwise recording is off.
fn recording<'a>(program: Cmd<'a>, clock: Option<&str>, folder: &TempDir) -> Cmd<'a> {
    let Some(clock) = clock else { return program };
    program
        .env("FDR", "1")
        .env("FDR_CLOCK", clock)
        .env("FDR_KEEP", "0")
        .env("FDR_LOG", "warn")
        .env("FDR_OUT", folder.path().join(""))
}

/// Runs a command.
///
/// # Errors
/// If it fails.
pub(crate) fn run_captured(command: Cmd<'_>) -> Result<CapturedOutput> {
    let (stdout, stderr) = output(command)?;
    Ok(CapturedOutput { stdout, stderr })
}

/// Checks that a program which was to record has.
///
/// # Errors
/// If there is no trace in the folder. The error has the program's output.
pub(crate) fn left_a_trace(folder: &TempDir, log: &str) -> Result<()> {
    let is_trace = |entry: fs::DirEntry| entry.path().extension() == Some(OsStr::new("fdr"));
    if !fs::read_dir(folder)?.flatten().any(is_trace) {
        let log = log.trim_end();
        return Err(format!("the program was to record, and left no trace: {log}").into());
    }
    Ok(())
}

/// What a program took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunCost {
    pub(crate) seconds: f64,
    /// Of all cores.
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_mib: f64,
}

/// A word of a command line, with paths for `IN` and `OUT`.
fn filled(word: &str, input: &Path, out: &Path) -> OsString {
    match word {
        "IN" => input.into(),
        word => word.replace("OUT", &out.to_string_lossy()).into(),
    }
}

/// A generated trace, removed when it goes out of scope, with what was made of it.
pub(crate) struct Trace {
    pub(crate) path: PathBuf,
    pub(crate) records: u64,
    pub(crate) threads: u32,
    folder: TempDir,
}

impl Trace {
    /// Generates a trace of `records` records by the example `generate_trace`, which is built first.
    pub(crate) fn generate(records: u64, threads: u32) -> Result<Trace> {
        let folder = tempfile::Builder::new().tempdir_in(work_folder("bench")?)?;
        let path = folder.path().join("trace.fdr");
        let (sh, program) = (shell()?, target()?.join("release/examples/generate_trace"));
        let (count, of) = (records.to_string(), threads.to_string());
        run(cmd!(sh, "{program} {path} {count} {of}"))?;
        Ok(Trace {
            path,
            records,
            threads,
            folder,
        })
    }

    /// A path for something made of it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Removes a file or folder, if it is there.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// Bytes of a file, or of all files of a folder.
pub(crate) fn size(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| size(&entry.path())).sum(),
        Err(_) => fs::metadata(path).map_or(0, |file| file.len()),
    }
}

/// What a command prints, or nothing.
pub(crate) fn line_of(words: &str) -> String {
    let mut words = words.split(' ');
    let said = shell().and_then(|sh| output(sh.cmd(words.next().unwrap_or_default()).args(words)));
    said.map_or_else(|_| String::new(), |(stdout, _)| stdout.trim().to_owned())
}

/// How many threads ran or wanted to, on the average of the last minute.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// The processor's name and the number of cores.
pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = info.lines();
    let model = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
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
    fn runs_without_trace_report_their_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = left_a_trace(&folder, "fdr: no room\n").expect_err("no trace");
        assert!(error.to_string().ends_with("left no trace: fdr: no room"));
        fs::write(folder.path().join("a.1.fdr"), "").expect("a file");
        assert!(left_a_trace(&folder, "").is_ok());
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
