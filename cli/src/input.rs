//! The traces that a command line names: files, folders that are traces, folders of traces, and `-` for
//! standard input. Must never take a file for a trace by its name.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::dense;
use fdr_formats::registry::{FORMATS, Opener};

use crate::ring::Ring;
use crate::{packed, place, ui};

/// Whether a path stands for standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Standard input as a file without a name, for a trace is read more than once.
///
/// # Errors
/// Where it is a terminal, or can't be read or kept.
pub(crate) fn standard() -> anyhow::Result<File> {
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        bail!(
            "-: a trace is not typed; send it through a pipe, as in `ssh host cat app.fdr | fdr report -`"
        );
    }
    let mut file = place::unnamed()?;
    io::copy(&mut input, &mut file).with_context(place::in_temporary)?;
    Ok(file)
}

/// The traces that are meant: of a folder that is none itself, those in it, in the order of their names.
///
/// # Errors
/// Where a folder can't be read, or has no trace in it.
pub(crate) fn traces(named: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !named.is_dir() || place::is_trace(named) {
        return Ok(vec![named.to_owned()]);
    }
    let entries = fs::read_dir(named).with_context(|| ui::path(named))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| ui::path(named))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && is_trace(&path) {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        bail!(
            "{}: not a trace folder that fdr knows, and there is no trace in it",
            ui::path(named)
        );
    }
    Ok(found)
}

/// Whether a path is a trace that is there to be read: not the ring of a process that runs.
fn is_trace(path: &Path) -> bool {
    let Ok(kind) = fs::metadata(path) else {
        return false;
    };
    if kind.is_dir() {
        return place::is_trace(path);
    }
    // To open a pipe would wait for its writer.
    let Some(file) = kind.is_file().then(|| File::open(path).ok()).flatten() else {
        return false;
    };
    let head = packed::head(&file);
    let head = match packed::probe(&head) && !dense::probe(&head) {
        true => packed::head_within(&file),
        false => head,
    };
    is_head(&head) && !Ring::read(path).is_some_and(|ring| ring.runs())
}

/// Whether a trace begins so, or an archive of one.
fn is_head(head: &[u8]) -> bool {
    let first = head.get(..64).unwrap_or(head);
    let known = |opener: &Opener| matches!(opener, Opener::File { probe, .. } if probe(first));
    dense::probe(head)
        || packed::is_archive(head)
        || FORMATS.iter().any(|format| known(&format.opener))
}

/// The lines that tell the parts of several answers apart.
pub(crate) struct Headings {
    several: bool,
    first: bool,
}

impl Headings {
    pub(crate) fn new(several: bool) -> Headings {
        Headings {
            several,
            first: true,
        }
    }

    /// What stands over the next answer: nothing where there is but one.
    pub(crate) fn next(&mut self, trace: &Path) -> String {
        let first = std::mem::take(&mut self.first);
        match (self.several, first) {
            (false, _) => String::new(),
            (true, true) => format!("{}\n", ui::path(trace)),
            (true, false) => format!("\n{}\n", ui::path(trace)),
        }
    }
}

/// Reads as much as there is, up to `most` bytes.
pub(crate) fn up_to(reader: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = reader.take(most).read_to_end(&mut bytes);
    bytes
}
