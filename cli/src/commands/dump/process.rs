//! A trace of a process that runs: its ring is read while it goes on.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::bail;
use fdr_formats::ring::Ring;
use fdr_formats::writer::Target;

use super::super::Status;
use super::Options;
use super::save::Job;
use crate::outputs::conversion::shape;
use crate::outputs::names;
use crate::ring::find;
use crate::{clock, output_file, ui};

/// Numbers that are tried for a name that no file has.
const NUMBERS: u32 = 100_000;

/// Makes a trace, or one every so often.
pub(super) fn run(options: &Options, process: u32) -> anyhow::Result<Status> {
    let Some(every) = options.every else {
        one(options, process)?;
        return Ok(Status::Done);
    };
    let output = options.output.as_deref();
    if let Some(file) = output.filter(|output| is_for_one(output, options.to)) {
        let file = ui::path(file);
        bail!("-o {file}: with --every there are several traces: name a folder, as {file}/");
    }
    one(options, process)?;
    let more = options.limit.map_or(usize::MAX, |limit| limit.get() - 1);
    for _ in 0..more {
        thread::sleep(every);
        // It may end between two looks as well, and what can't be read then is no error.
        let ended = find::has_ended(process);
        let copied = if ended { Ok(()) } else { one(options, process) };
        if ended || (copied.is_err() && find::has_ended(process)) {
            if !options.quiet {
                ui::complain(&format!("process {} has ended", process));
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

fn one(options: &Options, process: u32) -> anyhow::Result<()> {
    let rings = find::rings(process, find::RingAccess::Reading)?;
    // Two copies of the recorder, of different versions, have a ring each.
    let several = rings.len() > 1 || options.every.is_some();
    for mut mapped in rings {
        let name = free_name(options, process, several, &mapped.ring)?;
        let job = Job {
            ring: &mapped.path,
            to: options.to,
            force: options.force,
            quiet: options.quiet,
        };
        let output = names::output(options.output.as_deref(), several, Path::new(""), &name)?;
        output_file::check(&output, shape(options.to), options.force)?;
        if let Some(now) = clock::monotonic_raw_ns() {
            mapped.ring.lasts_until(now);
        }
        let saved = job.save(&mut mapped.ring, "snapshot", &output)?;
        job.report(&saved, &format!("process {}", process), &output);
    }
    Ok(())
}

/// A name that nothing has where the trace goes.
fn free_name(
    options: &Options,
    process: u32,
    several: bool,
    ring: &Ring,
) -> anyhow::Result<OsString> {
    let program = harmless(&ring.program());
    let end = options.to.extension;
    for number in 1..=NUMBERS {
        let name = OsString::from(format!("{program}.{process}.snapshot-{number}.{end}"));
        let path = names::output(options.output.as_deref(), several, Path::new(""), &name)?;
        let is_ours = path.file_name() == Some(&name);
        if !is_ours || fs::symlink_metadata(&path).is_err() {
            return Ok(name);
        }
    }
    bail!("there are {NUMBERS} snapshots already; -o gives another folder")
}

/// A program's name as a part of a file's name. The writer of the ring chose it, so it is not trusted.
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
    fn a_program_cannot_choose_the_output() {
        assert_eq!(harmless("my_app"), "my_app");
        assert_eq!(harmless("Größe-2.x"), "Größe-2.x");
        assert_eq!(harmless("../../etc/x"), "_.._etc_x");
        assert_eq!(harmless("a\x1b[31m b\n"), "a__31m_b_");
        assert_eq!(harmless("-rf"), "rf");
        assert_eq!(harmless(""), "program");
    }
}
