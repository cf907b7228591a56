//! `cargo xtask demo`: records a real program, dumps it by signal while it runs, and prints its report. It works on a
//! fresh machine. Program and tool must be the ones that a user builds.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use xshell::cmd;
use xtask::Result;
use xtask::process::{cannot_run, output, run as run_command, shell, target, work_folder};

/// When the signal is sent, after the start of the program.
const RUNNING: Duration = Duration::from_millis(1500);
/// How long the program runs.
const SECONDS: &str = "5";

/// Runs the demonstration.
///
/// # Errors
///
/// If something cannot be built or started, or no trace appears while the program runs.
pub(crate) fn run() -> Result<()> {
    let sh = shell()?;
    run_command(cmd!(
        sh,
        "cargo build --release --package fdr-examples --no-default-features --example index_builder"
    ))?;
    run_command(cmd!(
        sh,
        "cargo build --release --package fdr-cli --bin fdr"
    ))?;
    let folder = work_folder("demo")?;
    for old in traces(&folder)? {
        fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let release = target()?.join("release");

    println!("\nRecording a program that builds an inverted index on two threads:\n");
    let program = release.join("examples/index_builder");
    let program = cmd!(sh, "{program} --threads 2 --seconds {SECONDS}");
    let line = program.to_string();
    println!("$ FDR=1 FDR_OUT={}/ {line}", folder.display());
    // The trailing slash says: a folder.
    let program = program.env("FDR", "1").env("FDR_OUT", folder.join(""));
    let child = Command::from(program).spawn();
    let mut child = child.map_err(|error| cannot_run(&line, &error))?;
    let dumped = dump(&mut child, &folder);
    let status = child.wait().map_err(|error| cannot_run(&line, &error))?;
    let dumped = dumped?;
    if !status.success() {
        return Err(format!("`{line}`: {status}"));
    }

    println!("\nWhat it did until the signal came:\n");
    let tool = release.join("fdr");
    run_command(cmd!(sh, "{tool} report {dumped}"))?;
    println!("\nThe traces (by signal, and at exit):");
    for trace in traces(&folder)? {
        let bytes = fs::metadata(&trace).map_or(0, |data| data.len());
        println!(
            "  {} ({:.1} MiB)",
            trace.display(),
            bytes as f64 / f64::from(1 << 20)
        );
    }
    println!("To look closer: {} report --help", tool.display());
    Ok(())
}

/// Sends the signal to the running program, and waits for the trace. The program is ended if that
/// fails, so that nothing is left behind.
fn dump(child: &mut Child, folder: &Path) -> Result<PathBuf> {
    thread::sleep(RUNNING);
    let kill = format!("kill -USR2 {}", child.id());
    println!("$ {kill}");
    let sent = shell().and_then(|sh| output(cmd!(sh, "sh -c {kill}")));
    let trace = sent.and_then(|_| wait_for_trace(child, folder));
    if trace.is_err() {
        let _ = child.kill();
    }
    trace
}

fn wait_for_trace(child: &mut Child, folder: &Path) -> Result<PathBuf> {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(10) {
        // A trace appears under its name when it is complete.
        if let Some(trace) = traces(folder)?.into_iter().next() {
            return Ok(trace);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!(
                "the program ended ({status}) before its trace was written"
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(format!(
        "no trace in {} 10 s after the signal",
        folder.display()
    ))
}

/// The trace files of a folder, by name.
fn traces(folder: &Path) -> Result<Vec<PathBuf>> {
    let bad = |error| format!("{}: {error}", folder.display());
    let mut traces = Vec::new();
    for entry in fs::read_dir(folder).map_err(bad)? {
        let path = entry.map_err(bad)?.path();
        if path.extension() == Some(OsStr::new("fdr")) {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}
