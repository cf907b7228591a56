//! Writes a dump: the ordinary path, on a thread that may allocate and wait. It must never leave a
//! half-written file under its final name, and never mix two dumps (the caller holds the lock).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fdr_formats::model::{Counts, Thread};
use fdr_formats::xray::{DumpWriter, Version};
use fdr_formats::{ThreadId, TraceInfo};

use super::snapshot::Snapshot;
use crate::ring::Ring;
use crate::sys::signal;

/// What a dump wrote. Counts are of function records, two per call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) threads: u64,
    pub(crate) records: u64,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
}

/// Writes the ring's records to `path`. The temporary file is beside it, so that the rename stays
/// on one file system.
pub(crate) fn write(
    ring: &Ring,
    info: &TraceInfo,
    version: Version,
    path: &Path,
    nonce: u64,
) -> io::Result<Written> {
    // A rename would replace a device or a pipe (FDR_OUT=/dev/stdout) by a plain file.
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return Err(io::Error::other("not a file; it is left as it is"));
    }
    if let Some(folder) = path.parent() {
        // What is wrong with it shows when the file is made.
        let _ = fs::create_dir_all(folder);
    }
    let temporary = temporary_name(path, nonce);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&temporary)?;
    // A limit on the size of files is an error here, not the program's end.
    let threads = || write_threads(ring, info, version, file);
    let result = signal::held_back(libc::SIGXFSZ, threads).and_then(|written| {
        fs::rename(&temporary, path)?;
        Ok(written)
    });
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_threads(
    ring: &Ring,
    info: &TraceInfo,
    version: Version,
    file: File,
) -> io::Result<Written> {
    let mut snapshot = Snapshot::new(ring.region_size()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::OutOfMemory, "no memory for a copy of a ring")
    })?;
    let mut writer = DumpWriter::new(file, version, info).map_err(as_io)?;
    let mut written = Written::default();
    for slot in ring.owned_slots() {
        if !snapshot.take(slot) || snapshot.counts.recorded == 0 {
            continue;
        }
        let counts = snapshot.counts;
        let thread = Thread {
            id: ThreadId(u64::from(snapshot.owner.tid)),
            process: info.process,
            name: snapshot.owner.name.clone(),
            counts: Some(Counts {
                recorded: counts.recorded,
                readable: counts.readable,
                overwritten: counts.overwritten,
                dropped: counts.dropped,
                ..Counts::default()
            }),
        };
        writer.thread(&thread, &snapshot.chunks()).map_err(as_io)?;
        written.threads += 1;
        written.records += counts.readable;
        written.overwritten += counts.overwritten;
        written.dropped += counts.dropped;
    }
    writer.finish().map_err(as_io)?;
    Ok(written)
}

/// Beside the final name, hidden, not to be guessed, and short where that name is long.
fn temporary_name(path: &Path, nonce: u64) -> PathBuf {
    path.with_file_name(format!(".fdr-{nonce:016x}.tmp"))
}

fn as_io(error: fdr_formats::Error) -> io::Error {
    match error {
        fdr_formats::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
