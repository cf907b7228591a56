//! Traces as files: opened, or refused with the reason and with what to do; the first word about a
//! damaged one. Must never follow a name to anything but a regular file: a pipe can't be read twice.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use fdr_formats::{Diagnostic, Error, Source, registry};

use crate::report::engine::KEPT_DIAGNOSTICS;
use crate::ring::Ring;
use crate::ui;

/// Opens a trace; the error names the file.
pub(crate) fn open(file: &Path) -> anyhow::Result<Box<dyn Source>> {
    if file.as_os_str() == "-" {
        bail!("-: standard input can't be read: a trace must be a regular file (./- is one)");
    }
    let kind = fs::metadata(file).with_context(|| ui::path(file))?;
    if kind.is_dir() {
        bail!("{}: is a folder; a trace is a regular file", ui::path(file));
    }
    if !kind.is_file() {
        let what = "is no regular file: save what it gives to a file first";
        bail!("{}: {what}", ui::path(file));
    }
    registry::open_file(file).map_err(|error| match (&error, Ring::read(file)) {
        (Error::NotATrace(_), Some(ring)) => {
            anyhow::anyhow!("{}: {}", ui::path(file), ring.in_words())
        }
        _ => about(file, error),
    })
}

/// An error that names the file it is about.
pub(crate) fn about(file: &Path, error: Error) -> anyhow::Error {
    anyhow::Error::new(error).context(ui::path(file))
}

/// Says that a trace is damaged, before anything is said of what is in it. `diagnostics` are in the
/// order of the file.
pub(crate) fn warn_of_damage(file: &Path, diagnostics: &[Diagnostic], more: u64) {
    let Some(first) = diagnostics.first() else {
        return;
    };
    let count = diagnostics.len() as u64 + more;
    // Readers stop counting, too.
    let least = if count > KEPT_DIAGNOSTICS as u64 { "at least " } else { "" };
    ui::complain(&format!(
        "{}: the trace is damaged in {least}{}, the first at byte {}: what follows is what can be \
         read (fdr verify lists them)",
        ui::path(file),
        ui::things(count, "place"),
        first.offset,
    ));
}
