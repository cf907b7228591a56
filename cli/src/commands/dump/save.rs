//! A ring becomes a trace in its place: for `fdr dump`. Must never leave half a
//! trace, nor be silent about what is not in it.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::model::Missing;
use fdr_formats::registry::of_folder;
use fdr_formats::ring::{Copied, Ring};
use fdr_formats::writer::Target;
use fdr_formats::xray::Version;
use fdr_formats::{Diagnostic, Losses};

use super::super::convert;
use crate::place::{self, Pending, Shape};
use crate::{trace, ui};

/// How a trace is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    /// What is read, for errors.
    pub(crate) ring: &'a Path,
    pub(crate) to: &'static Target,
    pub(crate) force: bool,
    pub(crate) quiet: bool,
}

/// A trace that is in its place.
pub(crate) struct Saved {
    copied: Copied,
    losses: Losses,
    missing: Missing,
    /// All that was damaged in the ring.
    damage: Vec<Diagnostic>,
    bytes: u64,
}

impl Job<'_> {
    /// Writes the trace of a ring.
    ///
    /// # Errors
    /// Where the ring can't be read, or the trace not be written; nothing is left of it then.
    pub(crate) fn save(
        &self,
        ring: &mut Ring,
        reason: &str,
        output: &Path,
    ) -> anyhow::Result<Saved> {
        let info = ring.take_info(reason);
        let both = || format!("{} to {}", ui::path(self.ring), ui::path(output));
        let (copied, losses) = if let Some(version) = native(self.to) {
            place::check(output, Shape::File, self.force)?;
            let (mut pending, file) = Pending::file(output, self.force)?;
            let copied = ring.write(&file, version, &info).with_context(both)?;
            // Before the ring may be removed.
            file.sync_all().with_context(|| ui::path(output))?;
            pending.place()?;
            let losses = copied.dump.losses.clone();
            (copied, losses)
        } else {
            let (source, copied) = ring.to_trace(&info).with_context(both)?;
            let job = convert::Job {
                trace: self.ring,
                to: self.to,
                force: self.force,
                quiet: true,
                jobs: ui::jobs(),
            };
            let done = convert::write(&source, &job, output)?;
            sync(output).with_context(|| ui::path(output))?;
            let mut losses = copied.dump.losses.clone();
            for (what, count) in done.losses.iter() {
                losses.add(what, count);
            }
            for (what, count) in done.losses.notes() {
                losses.note(what, count);
            }
            (copied, losses)
        };
        let mut damage = ring.diagnostics().to_vec();
        damage.extend_from_slice(&copied.diagnostics);
        damage.sort_by_key(|diagnostic| diagnostic.offset);
        Ok(Saved {
            copied,
            losses,
            missing: info.missing,
            damage,
            bytes: place::size(output),
        })
    }

    /// Says what became of a ring.
    pub(crate) fn tell(&self, saved: &Saved, what: &str, output: &Path) {
        let ring = ui::path(self.ring);
        if let Some(first) = saved.damage.first() {
            let more = match saved.damage.len() - 1 {
                0 => String::new(),
                more => format!("; {} more", ui::things(more as u64, "place")),
            };
            ui::complain(&format!("{ring}: is damaged {first}{more}"));
        }
        if self.quiet {
            return;
        }
        let output = ui::path(output);
        for line in saved.lines(what) {
            ui::complain(&format!("{output}: {line}"));
        }
        convert::tell_losses(&output, self.to, &saved.losses);
    }
}

impl Saved {
    /// Why the ring has, or should have, what is not in the trace; `None` where the trace has all of it.
    pub(crate) fn why_not_whole(&self) -> Option<&'static str> {
        if !self.damage.is_empty() {
            Some("is damaged")
        } else if !self.losses.is_empty() {
            Some("has what the trace's format can't hold")
        } else if self.copied.moved > 0 {
            Some("changed while it was read")
        } else {
            None
        }
    }

    fn lines(&self, what: &str) -> Vec<String> {
        let counts = &self.copied.counts;
        let mut lines = vec![format!(
            "{what}: {} of {}, {} overwritten, {} dropped, {}",
            ui::things(counts.readable, "record"),
            ui::things(self.copied.dump.threads, "thread"),
            ui::count(counts.overwritten),
            ui::count(counts.dropped),
            ui::size(self.bytes),
        )];
        if let Some(missing) = trace::missing(&self.missing) {
            lines.push(format!("not in the trace: {missing}"));
        }
        if self.copied.moved > 0 {
            let threads = ui::things(self.copied.moved, "thread");
            lines.push(format!(
                "not in the trace, nor in its counts: {threads} that ended while it was copied, and \
                 whose rings were reused"
            ));
        }
        lines
    }
}

/// The version of XRay that a ring's chunks are copied into as they are.
fn native(target: &Target) -> Option<Version> {
    match target.name {
        "xray" => Some(Version::V3),
        "xray1" => Some(Version::V1),
        _ => None,
    }
}

/// Brings a file, or the files of a folder, to the disk.
fn sync(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            File::open(entry?.path())?.sync_all()?;
        }
    }
    File::open(path)?.sync_all()
}

/// Where a trace of that name goes: as `-o` says. `-o` is a folder if there are `several` traces, if it ends with `/`,
/// or if it names a folder that is no trace; else into `folder`.
///
/// # Errors
/// Where the folder can't be made.
pub(crate) fn output(
    asked: Option<&Path>,
    several: bool,
    folder: &Path,
    name: &std::ffi::OsStr,
) -> anyhow::Result<PathBuf> {
    let Some(asked) = asked else {
        return Ok(folder.join(name));
    };
    if asked.as_os_str() == "-" {
        bail!("-o -: give a file or a folder; fdr convert RING --to FORMAT -o - writes to a pipe");
    }
    let named_so = asked.as_os_str().as_bytes().ends_with(b"/");
    if several || named_so || (asked.is_dir() && of_folder(asked).is_none()) {
        fs::create_dir_all(asked).with_context(|| ui::path(asked))?;
        return Ok(asked.join(name));
    }
    Ok(asked.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn an_output_is_a_file_or_goes_into_a_folder() {
        let name = OsStr::new("app.7.fdr");
        let of = |asked: Option<&str>, several| {
            output(asked.map(Path::new), several, Path::new("/r"), name).unwrap()
        };
        assert_eq!(of(None, true), Path::new("/r/app.7.fdr"));
        assert_eq!(of(Some("x.fdr"), false), Path::new("x.fdr"));
        let folder = std::env::temp_dir();
        let folder = folder.to_str().unwrap();
        assert_eq!(of(Some(folder), false), Path::new(folder).join(name));
        assert!(output(Some(Path::new("-")), false, Path::new("/r"), name).is_err());
    }
}
