//! `cargo xtask demo`: records a real program, dumps it while it runs, and prints its report. It works on a fresh
//! machine. Program and tool must be the ones that a user builds.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use xshell::cmd;
use xtask::Result;
use xtask::process::{cannot_run, output, run as run_command, shell, target, work_folder};

/// When the dump is asked for, after the start of the program.
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
    // What an earlier run left, if any.
    let _ = fs::remove_dir_all(work_folder("demo")?);
    let (release, folder) = (target()?.join("release"), work_folder("demo")?);

    println!("\nRecording a program that builds an inverted index on two threads:\n");
    let (program, tool) = (release.join("examples/index_builder"), release.join("fdr"));
    let program = cmd!(sh, "{program} --threads 2 --seconds {SECONDS}");
    let line = program.to_string();
    println!("$ FDR=1 FDR_OUT={}/ {line}", folder.display());
    // The trailing slash says: a folder.
    let program = program.env("FDR", "1").env("FDR_OUT", folder.join(""));
    let child = Command::from(program).spawn();
    let mut child = child.map_err(|error| cannot_run(&line, &error))?;
    thread::sleep(RUNNING);
    let process = child.id().to_string();
    println!("$ fdr ctl {process} dump");
    let dumped = output(cmd!(sh, "{tool} ctl {process} dump"));
    if dumped.is_err() {
        // So that nothing is left behind.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| cannot_run(&line, &error))?;
    let (dumped, _) = dumped?;
    if !status.success() {
        return Err(format!("`{line}`: {status}"));
    }

    println!("\nWhat it did until the dump:\n");
    let trace = dumped.trim_end();
    run_command(cmd!(sh, "{tool} report {trace}"))?;
    println!(
        "\nThe traces, of the dump and of the exit, are in {}",
        folder.display()
    );
    println!("To look closer: {} report --help", tool.display());
    Ok(())
}
