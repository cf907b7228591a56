//! The rings of processes that have ended.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::bail;
use fdr_formats::writer::Target;

use super::super::{Status, each};
use super::Options;
use super::save::Job;
use crate::input::{self, packed};
use crate::outputs::conversion::shape;
use crate::outputs::names;
use crate::ring::{self, END, Owner, Ring};
use crate::{output_file, ui};

/// Makes a trace of each ring.
pub(super) fn run(options: &Options) -> anyhow::Result<Status> {
    let paths = found(&options.from)?;
    // Before they are read: what a process adds to its ring in its last moments is there then.
    let rings = Ring::read_all(&paths);
    let several = paths.len() > 1;
    let mut rings = rings.into_iter();
    each(&paths, |path| {
        one(options, path, rings.next().flatten(), several)
    })
}

/// The rings to dump: each named ring, and from each named folder the rings of dead processes.
fn found(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut rings = Vec::new();
    for path in paths {
        if !path.is_dir() {
            rings.push(path.clone());
            continue;
        }
        let all = ring::in_folder(path)?;
        let folder = ui::path(path);
        let (mut living, mut dead, mut unfinished) = (0, Vec::new(), 0);
        for (file, ring) in all.iter().zip(Ring::read_all(&all)) {
            match ring {
                Some(ring) if ring.runs() => living += 1,
                None if ring::is_unfinished(file) => unfinished += 1,
                _ => dead.push(file.clone()),
            }
        }
        if unfinished > 0 {
            let rings = ui::things(unfinished, "ring");
            ui::complain(&format!(
                "{folder}: {rings} without a head passed over: not finished yet, or never"
            ));
        }
        let living = match living {
            0 => String::new(),
            count => format!("{} of running processes", ui::things(count, "ring")),
        };
        match (dead.is_empty(), living.as_str()) {
            (true, "") => bail!("{folder}: there is no ring in this folder"),
            (true, living) => bail!("{folder}: {living} and no others: see fdr dump PID"),
            (false, "") => {}
            (false, living) => ui::complain(&format!("{folder}: {living} passed over")),
        }
        rings.append(&mut dead);
    }
    Ok(rings)
}

fn one(
    options: &Options,
    path: &Path,
    head: Option<Ring>,
    several: bool,
) -> anyhow::Result<Status> {
    let owner = head.as_ref().map_or(Owner::Perhaps, |head| head.owner);
    let (mut ring, file) = input::open_ring(path)?;
    let process = ring.process();
    if let Some(head) = head.as_ref().filter(|head| head.owner == Owner::Runs) {
        let running = head.runs_in_words();
        bail!("{}: {running} makes a trace meanwhile", ui::path(path));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let output = names::output(
        options.output.as_deref(),
        several,
        folder,
        &name(path, options.to),
    )?;
    if identity(&output).is_some_and(|there| Some(there) == identity(path)) {
        bail!(
            "{}: is the ring itself: -o must be another file",
            ui::path(&output)
        );
    }
    // A packed ring is a copy.
    let reason = match head {
        Some(head) => head.reason(),
        None => Owner::of_copy(process).reason(),
    };
    let job = Job {
        ring: path,
        to: options.to,
        force: options.force,
        quiet: options.quiet,
    };
    output_file::check(&output, shape(options.to), options.force)?;
    let saved = job.save(&mut ring, reason, &output)?;
    let what = match (ring.crash(), owner) {
        (Some(crash), _) => crash.to_string(),
        (None, Owner::Ended) => format!("process {process}, which ended without a dump"),
        (None, _) => format!("process {process}, of which nothing is known"),
    };
    job.report(&saved, &what, &output);
    if options.remove {
        match (saved.why_not_whole(), owner) {
            (Some(why), _) => keep(path, why, ""),
            (None, Owner::Ended) => ring::remove(path, &file)?,
            (None, _) if options.force => ring::remove(path, &file)?,
            (None, _) => keep(path, "may still be in use", "; --force removes it"),
        }
    }
    Ok(Status::Done)
}

fn keep(ring: &Path, why: &str, but: &str) {
    let ring = ui::path(ring);
    ui::complain(&format!("{ring}: {why}, and is not removed{but}"));
}

/// The device and the inode of a file, if the file exists.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// What a trace of that ring is called.
fn name(ring: &Path, target: &Target) -> OsString {
    let plain = packed::plain_name(ring);
    let ring = plain.as_deref().unwrap_or(ring);
    let name = ring.file_name().unwrap_or_default().as_bytes();
    let mut name = name.strip_suffix(END.as_bytes()).unwrap_or(name).to_vec();
    name.push(b'.');
    name.extend(target.extension.bytes());
    OsString::from_vec(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdr_formats::registry;

    #[test]
    fn a_trace_is_named_after_its_ring() {
        let xray = registry::target("xray").unwrap();
        let of = |ring: &str| name(Path::new(ring), xray);
        assert_eq!(of("a/app.7.5f.fdr-ring"), "app.7.5f.fdr");
        assert_eq!(of("left behind"), "left behind.fdr");
        assert_eq!(of("app.7.5f.fdr-ring.zst"), "app.7.5f.fdr");
    }
}
