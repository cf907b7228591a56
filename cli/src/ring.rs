//! The recorder's own files, the rings: how they are found and opened, which process each belongs to, and whether that
//! process still runs.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::bytes::FileBytes;
use fdr_formats::ring::{self, layout};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use crate::{trace, ui};

pub(crate) mod find;
pub(crate) mod mapped;

use mapped::Mapped;

/// How the names of ring files end.
pub(crate) const END: &str = ".fdr-ring";

/// A ring file, known by its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    path: PathBuf,
    /// The process that records, or did.
    pub(crate) process: u32,
    /// The process id in our namespace, if the process runs. It may differ from the id in a container.
    pub(crate) number_here: Option<u32>,
    pub(crate) owner: Owner,
}

/// What has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It runs, and the file is mapped into it.
    Runs,
    /// No process has the file mapped.
    Ended,
    /// There may be a process that can't be looked into: another user's, or in another container.
    Perhaps,
}

impl Ring {
    /// The ring in that file; `None` where it is no ring.
    pub(crate) fn read(file: &Path) -> Option<Ring> {
        Ring::read_all(&[file.to_owned()]).remove(0)
    }

    /// The same for many files, with one look at the system's processes.
    pub(crate) fn read_all(files: &[PathBuf]) -> Vec<Option<Ring>> {
        let heads: Vec<Option<Head>> = files.iter().map(|file| Head::read(file)).collect();
        if heads.iter().all(Option::is_none) {
            return heads.iter().map(|_| None).collect();
        }
        // This look must come after the heads were read. Then each process that made a ring has it mapped, or has
        // ended.
        let mapped = Mapped::look();
        let both = files.iter().zip(heads);
        both.map(|(path, head)| {
            let Head { process, file } = head?;
            Some(Ring {
                path: path.clone(),
                process,
                number_here: mapped.number_here(process, path, &file),
                owner: mapped.owner(process, path, &file),
            })
        })
        .collect()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its process runs, or may run where we can't see it.
    pub(crate) fn runs(&self) -> bool {
        self.owner != Owner::Ended
    }

    /// Why the ring is there, in the one word that a trace has for it.
    pub(crate) fn reason(&self) -> &'static str {
        self.owner.reason()
    }

    /// A line which says that the process runs, and which command makes a trace of it.
    pub(crate) fn runs_in_words(&self) -> String {
        let process = self.process;
        match self.number_here.filter(|here| *here != process) {
            None => format!("process {process} is running: fdr dump {process}"),
            Some(here) => format!(
                "process {process} of another container is running, which is process {here} here: fdr dump {here}"
            ),
        }
    }

    /// A line about the state of the ring, with the command that makes a trace of it.
    pub(crate) fn in_words(&self) -> String {
        let process = self.process;
        let dump = format!("fdr dump {}", ui::shell(&self.path));
        match self.owner {
            Owner::Runs => {
                let here = self.number_here.unwrap_or(process);
                format!(
                    "this is the ring of process {process}, which is running: for a trace, \
                     fdr dump {here}"
                )
            }
            Owner::Ended => format!(
                "this is the ring of process {process}, which is not running any more: for a \
                 trace, {dump}"
            ),
            Owner::Perhaps => format!(
                "this is the ring of process {process}, which may be running where this can't be \
                 seen, for another user or in another container: for a trace, {dump}"
            ),
        }
    }
}

impl Owner {
    /// The reason that a trace of this process's ring has, in one word.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Owner::Runs => "snapshot",
            Owner::Ended => "killed",
            Owner::Perhaps => "",
        }
    }

    /// What has become of the process whose ring was copied, such as into a packed file.
    pub(crate) fn of_copy(process: u32) -> Owner {
        Mapped::look().owner_of_copy(process)
    }
}

/// Opens a regular file. A pipe, on which opening would wait, and a device are errors.
///
/// # Errors
/// If the file is not a regular file, or can't be opened.
pub(crate) fn regular(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(O_NONBLOCK).open(path);
    let file = file.with_context(|| ui::path(path))?;
    if !file.metadata().with_context(|| ui::path(path))?.is_file() {
        bail!("{}: is no regular file", ui::path(path));
    }
    Ok(file)
}

/// Opens the ring in a plain file; the error names the file.
///
/// # Errors
/// Where it can't be read, is no ring, or was never finished.
pub(crate) fn open(path: &Path, file: File) -> anyhow::Result<ring::Ring> {
    let bytes = FileBytes::new(file).with_context(|| ui::path(path))?;
    let (head, read) = head(path, &bytes)?;
    if head != layout::MAGIC {
        bail!("{}: {}", ui::path(path), no_ring(&head[..read]));
    }
    ring::Ring::open(Box::new(bytes)).map_err(|error| trace::about(path, error))
}

/// Whether the file is a ring that its owner has not finished yet. The owner runs, and writes the magic last.
///
/// # Errors
/// Where it can't be read.
fn is_empty(path: &Path, file: File) -> anyhow::Result<bool> {
    let bytes = FileBytes::new(file).with_context(|| ui::path(path))?;
    Ok(head(path, &bytes)?.0 == [0; 8])
}

/// The first bytes of a file, and how many it has of them.
fn head(path: &Path, bytes: &FileBytes) -> anyhow::Result<([u8; 8], usize)> {
    let mut head = [0; 8];
    let read = fdr_formats::bytes::ReadAt::read_at(bytes, 0, &mut head);
    let read = read.with_context(|| ui::path(path))?;
    Ok((head, read))
}

/// What a file is that should be a ring.
pub(crate) fn no_ring(head: &[u8]) -> String {
    if head.iter().all(|&byte| byte == 0) {
        "a ring that was never finished: its process ended before it recorded anything".to_owned()
    } else {
        layout::other_version(head)
            .unwrap_or_else(|| "not a ring file; fdr rings lists those of a folder".to_owned())
    }
}

/// The files of a folder that are rings, or are called like one, in the order of their names. Links are
/// not followed.
///
/// # Errors
/// Where the folder can't be read.
pub(crate) fn in_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| ui::path(folder))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| ui::path(folder))?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let called = has_end(&entry.file_name());
        if is_file && (called || is_ring(&entry.path())) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the file that was read, not a link to it, and no other that has its name by now.
///
/// # Errors
/// There is no such file any more, or it can't be removed.
pub(crate) fn remove(path: &Path, file: &File) -> anyhow::Result<()> {
    let read = file.metadata().with_context(|| ui::path(path))?;
    let real = path.canonicalize().with_context(|| ui::path(path))?;
    if Some((read.dev(), read.ino())) != fs::metadata(&real).ok().map(|now| (now.dev(), now.ino()))
    {
        bail!(
            "{}: is another file now, and is not removed",
            ui::path(path)
        );
    }
    fs::remove_file(&real).with_context(|| ui::path(&real))
}

/// Whether a file is called like a ring.
pub(crate) fn has_end(name: &OsStr) -> bool {
    name.as_bytes().ends_with(END.as_bytes())
}

/// Whether a file, which is no link, begins as a ring.
fn is_ring(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(O_NONBLOCK | O_NOFOLLOW);
    let mut head = [0; 8];
    let read = options
        .open(path)
        .and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == layout::MAGIC
}

/// What is known of a ring before its process is looked for.
struct Head {
    process: u32,
    file: Metadata,
}

impl Head {
    fn read(path: &Path) -> Option<Head> {
        let (mut file, mut head) = (regular(path).ok()?, [0; 12]);
        file.read_exact(&mut head).ok()?;
        Some(Head {
            process: process_of(&head)?,
            file: file.metadata().ok()?,
        })
    }
}

/// Whether a file has nothing where a ring has its head.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = regular(path).map(|file| file.take(8).read_to_end(&mut head));
    matches!(read, Ok(Ok(_))) && head.iter().all(|&byte| byte == 0)
}

/// The process of a ring that begins so. `None`: it is no ring.
pub(crate) fn process_of(head: &[u8; 12]) -> Option<u32> {
    let (magic, process) = head.split_first_chunk::<8>()?;
    let process = u32::from_le_bytes(process.try_into().ok()?);
    (*magic == layout::MAGIC).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_differs_from_others() {
        assert_eq!(process_of(b"FDRRING\x01\x39\x30\0\0"), Some(12345));
        assert_eq!(process_of(b"FDRRING\x02\x39\x30\0\0"), None);
        assert_eq!(process_of(b"\x03\0\x01\0\x03\0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn other_files_are_no_rings() {
        assert!(no_ring(&[0; 8]).contains("never finished"));
        assert!(no_ring(&[]).contains("never finished"));
        assert!(no_ring(b"FDRRING\x02").contains("version 2"));
        assert!(no_ring(b"FDR is a").starts_with("not a ring file"));
    }

    #[test]
    fn rings_say_how_to_get_a_trace() {
        let words = |owner| {
            let path = PathBuf::from("a b.fdr-ring");
            let process = 7;
            Ring {
                path,
                process,
                number_here: Some(9).filter(|_| owner == Owner::Runs),
                owner,
            }
            .in_words()
        };
        // In its container it is process 7.
        assert!(words(Owner::Runs).ends_with("fdr dump 9"));
        assert!(words(Owner::Ended).ends_with("fdr dump 'a b.fdr-ring'"));
        assert!(words(Owner::Perhaps).contains("for another user"));
    }

    #[test]
    fn another_file_of_the_name_is_not_removed() {
        let folder = std::env::temp_dir().join(format!("fdr-recover-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("a.fdr-ring"), folder.join("b"));
        fs::write(&path, "ring").unwrap();
        let file = File::open(&path).unwrap();
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        let error = remove(&path, &file).unwrap_err().to_string();
        assert!(error.ends_with("is another file now, and is not removed"));
        remove(&path, &File::open(&path).unwrap()).unwrap();
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
