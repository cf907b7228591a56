//! The measured programs: how they are built, what a command took, and what it works on.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xshell::{Cmd, Shell, cmd};
use xtask::process::{output, run, shell, target, work_folder};

use crate::Result;
use crate::figures::Words;

/// Builds the program `fdr-bench`.
pub(crate) fn build() -> Result<PathBuf> {
    let sh = shell()?;
    run(cmd!(sh, "cargo build --release --package fdr-bench"))?;
    path()
}

fn path() -> Result<PathBuf> {
    Ok(target()?.join("release/fdr-bench"))
}

/// A folder for one run. No other user can read it, and it is removed when it goes out of scope.
pub(crate) fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(work_folder("bench")?)?)
}

/// The beginning of a command that is measured: its own words follow. [`RunCost::parse`] finds the result in its
/// messages. [`build`] comes first.
pub(crate) fn measured(sh: &Shell) -> Result<Cmd<'_>> {
    let program = path()?;
    Ok(cmd!(sh, "{program} rss"))
}

/// What a command took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunCost {
    pub(crate) seconds: f64,
    /// Of all cores.
    pub(crate) cpu_seconds: f64,
    /// The most memory of one process.
    pub(crate) peak_mib: f64,
}

impl RunCost {
    /// From the messages of a command that was [`measured`].
    ///
    /// # Errors
    /// If the result is not among them.
    pub(crate) fn parse(stderr: &str) -> Result<RunCost> {
        // The measuring program has the attribute itself, and may say so at its end.
        let line = stderr.lines().rfind(|line| line.starts_with("seconds="));
        let words = Words::parse(line.unwrap_or_default());
        Ok(RunCost {
            seconds: words.get("seconds")?,
            cpu_seconds: words.get("cpu_seconds")?,
            peak_mib: words.get("peak_kib")? / 1024.0,
        })
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
        let folder = folder()?;
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

/// Bytes of a program without symbols and debug information.
pub(crate) fn stripped_bytes(program: &Path) -> Result<u64> {
    let stripped = program.with_extension("stripped");
    let sh = shell()?;
    output(cmd!(sh, "strip -o {stripped} {program}"))?;
    Ok(fs::metadata(stripped)?.len())
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
    fn the_result_is_found_among_messages() {
        let log =
            "warning: x\nseconds=1.5 cpu_seconds=2.5 peak_kib=2048\nfdr: nothing was recorded\n";
        let took = RunCost::parse(log).expect("a result");
        assert_eq!(
            [took.seconds, took.cpu_seconds, took.peak_mib],
            [1.5, 2.5, 2.0]
        );
        assert!(RunCost::parse("").is_err());
    }
}
