//! A ring becomes a trace in its place: for `fdr dump`.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context;
use fdr_formats::model::Missing;
use fdr_formats::ring::{Copied, Ring};
use fdr_formats::writer::Target;
use fdr_formats::xray::Version;
use fdr_formats::{Diagnostic, Losses};

use crate::output_file::{self, Pending, Shape};
use crate::outputs::conversion;
use crate::{trace, ui};

/// How a trace is to be written.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// What is read, for errors.
    pub(super) ring: &'a Path,
    pub(super) to: &'static Target,
    pub(super) force: bool,
    pub(super) quiet: bool,
}

/// A trace that is in its place.
pub(super) struct Saved {
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
    /// If the ring can't be read, or if the trace can't be written. Then no part of the trace remains.
    pub(super) fn save(
        &self,
        ring: &mut Ring,
        reason: &str,
        output: &Path,
    ) -> anyhow::Result<Saved> {
        let info = ring.take_info(reason);
        let both = || format!("{} to {}", ui::path(self.ring), ui::path(output));
        let (copied, losses) = if let Some(version) = native(self.to) {
            output_file::check(output, Shape::File, self.force)?;
            let (mut pending, file) = Pending::file(output, self.force)?;
            let copied = ring.write(&file, version, &info).with_context(both)?;
            // Before the ring may be removed.
            file.sync_all().with_context(|| ui::path(output))?;
            pending.place()?;
            let losses = copied.dump.losses.clone();
            (copied, losses)
        } else {
            let (source, copied) = ring.to_trace(&info).with_context(both)?;
            let job = conversion::Job {
                trace: self.ring,
                to: self.to,
                force: self.force,
                quiet: true,
                jobs: ui::jobs(),
            };
            let done = conversion::write(&source, &job, output)?;
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
            bytes: output_file::size(output),
        })
    }

    /// Says what became of a ring.
    pub(super) fn report(&self, saved: &Saved, what: &str, output: &Path) {
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
        conversion::report_losses(&output, self.to, &saved.losses);
    }
}

impl Saved {
    /// Why the trace lacks something that the ring has or should have. `None`: the trace has all of the ring.
    pub(super) fn why_not_whole(&self) -> Option<&'static str> {
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
