//! `fdr snapshot`: a trace of a process that runs. It is read from the process's ring while the process goes on. Must
//! never stop the process, signal it, or wait for it.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use fdr_formats::ring::Ring;
use fdr_formats::writer::Target;

use super::Status;
use super::convert::{shape, target};
use super::recover::save::{self, Job};
use crate::ring::find;
use crate::selection::moment::seconds;
use crate::{clock, place, ui};

/// Numbers that are tried for a name that no file has.
const NUMBERS: u32 = 100_000;

const HELP: &str = "\
fdr copies one thread after the other. The trace has what each thread had
recorded when its turn came. fdr neither stops nor signals the process. Records
that the process overwrites during the copy are counted as overwritten.

fdr must be allowed to look into the process: use the same user, or root. If
the recorder could not make a ring file (it says so at the start), only the
dump signal helps.

Examples:
  fdr snapshot 1234  my_app.1234.snapshot-1.fdr, here
  fdr snapshot 1234 -o now.fdr && fdr report now.fdr
  fdr snapshot 1234 --every 10 --limit 6 -o traces/";

/// Make a trace of a running process, without stopping it
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The process
    #[arg(value_name = "PID", value_parser = process_number)]
    process: u32,
    /// The trace, or a folder for it [default: PROGRAM.PID.snapshot-N with the format's extension]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The format to write; fdr convert --help lists them
    #[arg(long, alias = "format", value_name = "FORMAT", value_parser = target::Parser::TRACES, hide_possible_values = true, default_value = "xray")]
    to: &'static Target,
    /// Write another one every TIME, as 10 (seconds) or 500ms, until the process ends
    #[arg(long, value_name = "TIME", value_parser = pause)]
    every: Option<Duration>,
    /// With --every: write N traces
    #[arg(short = 'n', long, alias = "count", value_name = "N", requires = "every", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn process_number(text: &str) -> Result<u32, &'static str> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or("not the number of a process; `fdr rings` lists those that record")
}

fn pause(text: &str) -> Result<Duration, &'static str> {
    let pause = seconds(text)?;
    let is_long = pause >= Duration::from_millis(1);
    is_long.then_some(pause).ok_or("it must be 1ms or more")
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let Some(every) = options.every else {
        one(options)?;
        return Ok(Status::Done);
    };
    let output = options.output.as_deref();
    if let Some(file) = output.filter(|output| is_for_one(output, options.to)) {
        let file = ui::path(file);
        bail!("-o {file}: with --every there are several traces: name a folder, as {file}/");
    }
    one(options)?;
    let more = options.limit.map_or(usize::MAX, |limit| limit.get() - 1);
    for _ in 0..more {
        thread::sleep(every);
        // It may end between two looks as well, and what can't be read then is no error.
        let ended = find::has_ended(options.process);
        let copied = if ended { Ok(()) } else { one(options) };
        if ended || (copied.is_err() && find::has_ended(options.process)) {
            if !options.quiet {
                ui::complain(&format!("process {} has ended", options.process));
            }
            break;
        }
        copied?;
    }
    Ok(Status::Done)
}

/// Whether a path is meant to be one trace.
fn is_for_one(path: &Path, to: &Target) -> bool {
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir();
    !is_folder && path.extension().is_some_and(|end| end == to.extension)
}

fn one(options: &Options) -> anyhow::Result<()> {
    let rings = find::rings(options.process, find::For::Reading)?;
    // Two copies of the recorder, of different versions, have a ring each.
    let several = rings.len() > 1 || options.every.is_some();
    for mut mapped in rings {
        let name = free_name(options, several, &mapped.ring)?;
        let job = Job {
            ring: &mapped.path,
            to: options.to,
            force: options.force,
            quiet: options.quiet,
        };
        let output = save::output(options.output.as_deref(), several, Path::new(""), &name)?;
        place::check(&output, shape(options.to), options.force)?;
        if let Some(now) = clock::monotonic_raw_ns() {
            mapped.ring.lasts_until(now);
        }
        let saved = job.save(&mut mapped.ring, "snapshot", &output)?;
        job.tell(&saved, &format!("process {}", options.process), &output);
    }
    Ok(())
}

/// A name that nothing has where the trace goes.
fn free_name(options: &Options, several: bool, ring: &Ring) -> anyhow::Result<OsString> {
    let (program, process) = (harmless(&ring.program()), options.process);
    let end = options.to.extension;
    for number in 1..=NUMBERS {
        let name = OsString::from(format!("{program}.{process}.snapshot-{number}.{end}"));
        let path = save::output(options.output.as_deref(), several, Path::new(""), &name)?;
        let is_ours = path.file_name() == Some(&name);
        if !is_ours || fs::symlink_metadata(&path).is_err() {
            return Ok(name);
        }
    }
    bail!("there are {NUMBERS} snapshots already; -o gives another folder")
}

/// A program's name as a part of a file's: whoever wrote the ring chose it.
fn harmless(program: &str) -> String {
    let plain = |character: char| match character {
        '.' | '_' | '-' | '+' => character,
        other if other.is_alphanumeric() => other,
        _ => '_',
    };
    let name: String = program.chars().map(plain).collect();
    match name.trim_start_matches(['.', '-']) {
        "" => "program".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_can_not_choose_where_its_trace_goes() {
        assert_eq!(harmless("my_app"), "my_app");
        assert_eq!(harmless("Größe-2.x"), "Größe-2.x");
        assert_eq!(harmless("../../etc/x"), "_.._etc_x");
        assert_eq!(harmless("a\x1b[31m b\n"), "a__31m_b_");
        assert_eq!(harmless("-rf"), "rf");
        assert_eq!(harmless(""), "program");
    }

    #[test]
    fn a_pause_has_some_length() {
        assert_eq!(pause("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(pause("1ms"), Ok(Duration::from_millis(1)));
        for wrong in ["0", "0.9ms", "-1", "x"] {
            assert!(pause(wrong).is_err(), "{wrong}");
        }
    }
}
