//! `fdr dump`: a trace of the ring of a process, which runs or has ended.

mod process;
mod ring;
mod save;

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use fdr_formats::writer::Target;

use super::{Status, running};
use crate::outputs::target;
use crate::ring::find::{NO_PROCESS, process_number};
use crate::selection::moment::seconds;
use crate::ui;

const HELP: &str = "\
A running process: fdr copies one thread after the other. The trace has what
each thread had recorded when its turn came. fdr neither stops nor signals the
process. Records that the process overwrites during the copy are counted as
overwritten. fdr must be allowed to look into the process: use the same user,
or root. If the recorder could not make a ring file (it says so at the start),
only the dump signal helps.

A program that ends without a dump, for example by kill -9, leaves its ring
file, PROGRAM.PID.RANDOM.fdr-ring. The ring has every record that the program
made. fdr counts and reports what is overwritten, dropped or damaged. As in a
dump, missing entries and exits are added, so that calls nest. The ring of a
running process is refused: its number makes a trace.

A ring lives in the system's page cache, and goes to the disk when the system
writes it. A crash of the machine itself may lose it.

Every command that reads a trace also reads a ring:
fdr report app.1234.5f0c.fdr-ring.

Examples:
  fdr dump                               the only program that records
  fdr dump 1234                          my_app.1234.snapshot-1.fdr, here
  fdr dump 1234 --every 10 --limit 6 -o traces/
  fdr dump app.1234.5f0c9a.fdr-ring      app.1234.5f0c9a.fdr, beside it
  fdr dump /dev/shm -o traces/ --remove  all rings of dead processes there
  fdr dump app.1234.5f0c9a.fdr-ring --to ctf -o traces/app";

/// Make a trace of a running process, or of a killed one's ring
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The number of a running process; or ring files, or folders with rings of dead processes [default: the only
    /// process that records]
    #[arg(value_name = "PID|RING")]
    from: Vec<PathBuf>,
    /// The trace, or a folder for it [default: the ring's name, or PROGRAM.PID.snapshot-N, with the format's
    /// extension]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The format to write; fdr convert --help lists them
    #[arg(long, alias = "format", value_name = "FORMAT", value_parser = target::Parser::Traces, hide_possible_values = true, default_value = "xray")]
    to: &'static Target,
    /// Write another one every TIME, as 10 (seconds) or 500ms, until the process ends
    #[arg(long, value_name = "TIME", value_parser = pause)]
    every: Option<Duration>,
    /// With --every: write N traces
    #[arg(short = 'n', long, alias = "count", value_name = "N", requires = "every", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Remove the ring if the trace holds all of it, and its process has surely ended
    #[arg(long, conflicts_with = "every")]
    remove: bool,
    /// Replace an existing file; with --remove, remove the ring also if its process may still run
    #[arg(long)]
    force: bool,
    /// Print only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

fn pause(text: &str) -> Result<Duration, &'static str> {
    let pause = seconds(text)?;
    let is_long = pause >= Duration::from_millis(1);
    is_long.then_some(pause).ok_or("it must be 1ms or more")
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    // A file may have a number for a name: `./1234` is one.
    let number = |path: &PathBuf| path.to_str().and_then(|text| process_number(text).ok());
    let process = match options.from.as_slice() {
        [from] => number(from).map(Some),
        from => from.is_empty().then_some(None),
    };
    if let Some(named) = process {
        if options.remove {
            bail!("--remove is for the rings of processes that have ended");
        }
        return process::run(options, running::or_only(named, "fdr dump")?);
    }
    if let Some(process) = options.from.iter().find(|from| number(from).is_some()) {
        let process = ui::path(process);
        bail!("{process}: a running process is dumped alone; ./{process} is a file of that name");
    }
    let is_absent = |path: &&PathBuf| {
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if let Some(absent) = options.from.iter().find(is_absent) {
        bail!("{}: no such file, and {NO_PROCESS}", ui::path(absent));
    }
    if options.every.is_some() {
        bail!("--every is for a running process: give its number");
    }
    ring::run(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_has_some_length() {
        assert_eq!(pause("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(pause("1ms"), Ok(Duration::from_millis(1)));
        for wrong in ["0", "0.9ms", "-1", "x"] {
            assert!(pause(wrong).is_err(), "{wrong}");
        }
    }
}
