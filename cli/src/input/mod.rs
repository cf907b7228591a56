//! From a path to a trace that can be read: the one way that every command goes. A path names a file, a folder,
//! or `-` for standard input. It becomes a plain file or folder first, and then a source. Must never take a file
//! for a trace by its name.
//!
//! | step | what comes of it |
//! | --- | --- |
//! | [`traces`] | a folder of traces becomes the paths in it |
//! | `file` | standard input and compressed files become a plain file without a name ([`packed`]) |
//! | `source` | an archive becomes a folder; a ring, a file of a format, or a folder becomes a source |
//! | `DamagedSource` | reports the damage of a compressed file together with the damage of the trace |

pub(crate) mod exports;
pub(crate) mod packed;

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use fdr_formats::bytes::FileBytes;
use fdr_formats::source::Record;
use fdr_formats::{Diagnostic, Error, Sink, Source, TraceInfo, registry, ring};

use crate::output_file::{self, Pending};
use crate::ring::{Owner, Ring};
use crate::trace::about;
use crate::{clock, memory, ring as rings, ui};
use packed::Fault;

const GROWS: &str = "what is known of the trace (its threads, functions, blocks and open calls)";

/// Whether a path stands for standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a trace; the error names the file.
///
/// # Errors
/// Where it can't be read or unpacked, or is no trace.
pub(crate) fn open(path: &Path) -> anyhow::Result<Box<dyn Source>> {
    if !is_standard(path) && fs::metadata(path).with_context(|| ui::path(path))?.is_dir() {
        memory::grows(GROWS);
        return registry::open_path(path).map_err(|error| about(path, error));
    }
    let (file, fault) = file(path)?;
    memory::grows(GROWS);
    let size = file.metadata().with_context(|| ui::path(path))?.len();
    let (source, folder) = source(path, file, fault.is_some())?;
    if folder.is_none() && fault.is_none() {
        return Ok(source);
    }
    let mut diagnostics = source.diagnostics().to_vec();
    diagnostics.extend(fault.map(|fault| Diagnostic {
        offset: size,
        what: format!("{}: nothing after it is read", packed::in_words(&fault)),
    }));
    Ok(Box::new(DamagedSource {
        source,
        diagnostics,
        _folder: folder,
    }))
}

/// Opens a ring, packed or not; the error names the file. Also returns the named file itself.
///
/// # Errors
/// Where it can't be read, is no ring, or was never finished.
pub(crate) fn open_ring(path: &Path) -> anyhow::Result<(ring::Ring, File)> {
    let named = rings::regular(path)?;
    let file = named.try_clone().with_context(|| ui::path(path))?;
    let (file, fault) = packed::plain(path, file)?;
    // Damage is an error, because a part of a ring does not show whether a trace has all of the ring.
    if let Some(fault) = fault {
        let (text, fault) = (ui::path(path), packed::in_words(&fault));
        bail!("{text}: {fault}; fdr unpack gives what is before it");
    }
    Ok((rings::open(path, file)?, named))
}

/// The plain file behind a path, and what was wrong with the compressed one.
fn file(path: &Path) -> anyhow::Result<(File, Option<Fault>)> {
    if is_standard(path) {
        return packed::plain(path, standard()?);
    }
    if !path.is_file() {
        let what = "is no regular file: save what it gives to a file first";
        bail!("{}: {what}", ui::path(path));
    }
    packed::plain(path, File::open(path).with_context(|| ui::path(path))?)
}

/// Standard input as a file without a name, for a trace is read more than once.
fn standard() -> anyhow::Result<File> {
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        bail!(
            "standard input: a trace is not typed; send it through a pipe, as in `ssh host cat app.fdr | fdr report -`"
        );
    }
    let mut file = output_file::unnamed()?;
    io::copy(&mut input, &mut file).with_context(output_file::in_temporary)?;
    Ok(file)
}

/// The trace in a plain file, and the folder that its archive became. `cut`: the file may end too early.
fn source(
    path: &Path,
    file: File,
    cut: bool,
) -> anyhow::Result<(Box<dyn Source>, Option<Pending>)> {
    let head = packed::head(&file);
    if is_archive(&head) {
        let folder = output_file::unnamed_folder()?;
        let extracted = packed::extract(
            &file,
            folder.temporary(),
            packed::Destination::Temporary,
            cut,
        );
        extracted.with_context(|| ui::path(path))?;
        let source = registry::open_path(folder.temporary()).map_err(|error| about(path, error))?;
        return Ok((source, Some(folder)));
    }
    let bytes = Box::new(FileBytes::new(file).with_context(|| ui::path(path))?);
    // The process of a ring is found by the name of its mapped file, so it is not found for standard input.
    let ring = (!is_standard(path)).then(|| Ring::read(path)).flatten();
    let source = match ring {
        Some(ring) => {
            let runs = ring.owner == Owner::Runs;
            let now = runs.then(clock::monotonic_raw_ns).flatten();
            ring::open_source(bytes, ring.reason(), now)
        }
        None => match head.first_chunk().and_then(rings::process_of) {
            Some(process) => ring::open_source(bytes, Owner::of_copy(process).reason(), None),
            None => registry::open(bytes),
        },
    };
    let source = source.map_err(|error| match error {
        Error::NotATrace(_) if path.file_name().is_some_and(rings::has_end) => {
            let head = head.get(..8).unwrap_or(&head);
            anyhow::anyhow!("{}: {}", ui::path(path), rings::no_ring(head))
        }
        Error::NotATrace(_) if let Some(title) = exports::title(path, &head) => anyhow::anyhow!(
            "{}: is an export ({title}), which fdr does not read; give the trace that it was made of",
            ui::path(path)
        ),
        error => about(path, error),
    })?;
    Ok((source, None))
}

/// Whether a file that begins so is an archive; a trace may have an archive's mark in it.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    packed::is_archive(head) && registry::of_file(head).is_none()
}

/// A trace that is damaged as a compressed file, or has a folder that goes with it.
struct DamagedSource {
    source: Box<dyn Source>,
    diagnostics: Vec<Diagnostic>,
    /// Removed last.
    _folder: Option<Pending>,
}

impl Source for DamagedSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        self.source.decode(lane, sink, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.source.records(visit)
    }
}

/// How far below a named folder a tracer's folders may be: LTTng has `archives/CHUNK/ust/uid/1000/64-bit`.
const MAX_DEPTH: usize = 6;
/// The most folders that are looked into.
const MAX_FOLDERS: usize = 1000;

/// The traces that a path stands for. A folder that is not a trace itself stands for the traces in it, in the order of
/// their names. If there are none directly in the folder, it stands for the traces that are folders at any depth below
/// it, as in a session of LTTng. A number stands for the rings of the process with that id, unless a file has the
/// number as its name.
///
/// # Errors
/// Where a folder can't be read, or has no trace in it. Where there is no such process, or it does not record.
pub(crate) fn traces(named: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let process = named.to_str().and_then(|text| text.parse().ok());
    if let Some(process) = process.filter(|_| !named.exists()) {
        let mapped = rings::find::rings(process, rings::find::RingAccess::Reading)?;
        return Ok(mapped.into_iter().map(|mapped| mapped.path).collect());
    }
    if !named.is_dir() || registry::of_folder(named).is_some() {
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
    if found.is_empty() {
        found = below(named);
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

/// The traces here, the newest first: in the current folder, and in [`cargo_folder`].
pub(crate) fn newest_here() -> Vec<PathBuf> {
    let folders = [Some(PathBuf::from(".")), cargo_folder()];
    let mut found: Vec<(SystemTime, PathBuf)> = folders
        .iter()
        .flatten()
        .flat_map(|folder| traces(folder).unwrap_or_default())
        .filter_map(|path| {
            let written = path.metadata().ok()?.modified().ok()?;
            Some((written, path.strip_prefix(".").unwrap_or(&path).to_owned()))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Where the recorder puts traces and rings of a program that cargo runs, if the program's package has a build script:
/// `fdr` in the target folder of the current folder, or of one above it.
pub(crate) fn cargo_folder() -> Option<PathBuf> {
    let target = match env::var_os("CARGO_TARGET_DIR").filter(|target| !target.is_empty()) {
        Some(target) => PathBuf::from(target),
        None => {
            let here = env::current_dir().ok()?;
            let depth = here.ancestors().position(|it| it.join("target").is_dir())?;
            let above: PathBuf = (0..depth).map(|_| "..").collect();
            above.join("target")
        }
    };
    Some(target.join("fdr")).filter(|folder| folder.is_dir())
}

/// The traces below a folder that are folders. None, if there are too many folders to look.
fn below(named: &Path) -> Vec<PathBuf> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut folders = vec![(named.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        looked += 1;
        if looked > MAX_FOLDERS {
            return Vec::new();
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            // A link may lead around.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder || entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if registry::of_folder(&entry.path()).is_some() {
                found.push(entry.path());
            } else if depth + 1 < MAX_DEPTH {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

/// Whether a path is a trace that is there to be read: not the ring of a process that runs.
fn is_trace(path: &Path) -> bool {
    if path.is_dir() {
        return registry::of_folder(path).is_some();
    }
    // To open a pipe would wait for its writer.
    let Some(file) = path.is_file().then(|| File::open(path).ok()).flatten() else {
        return false;
    };
    let head = packed::head_within(&file);
    let known = packed::is_archive(&head) || registry::of_file(&head).is_some();
    known && !Ring::read(path).is_some_and(|ring| ring.runs())
}
