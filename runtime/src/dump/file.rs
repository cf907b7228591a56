//! Writes a dump: the ordinary path, on a thread that may allocate and wait. The recorder's own format
//! is written straight from the ring; any other one from the same copies of the rings, by that format's
//! writer. Must never mix two dumps (the caller holds the lock).

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use fdr_formats::model::{Counts, Thread};
use fdr_formats::writer::{Output, Target};
use fdr_formats::xray::{BlockSummary, DumpWriter, Version, push_thread};
use fdr_formats::{Losses, ThreadId, TraceInfo};

use super::snapshot::Snapshot;
use super::staged::{self, Staged};
use crate::primitive::Ordering;
use crate::ring::layout::Slot;
use crate::ring::{self, Ring};
use crate::sys::signal;

/// What a dump wrote. Counts are of function records, two per call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) threads: u64,
    pub(crate) records: u64,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
    /// Threads some of whose records are zeros: the ring's file was cut short, and made longer again.
    pub(crate) zeroed: u64,
    /// What the format could not hold.
    pub(crate) losses: Losses,
}

/// What is to be written, and how.
pub(crate) struct Dump<'a> {
    pub(crate) ring: &'a Ring,
    pub(crate) info: &'a TraceInfo,
    pub(crate) target: &'static Target,
    /// Whether folders are made that are not there.
    pub(crate) make_folders: bool,
    /// For temporary names: not to be guessed.
    pub(crate) nonce: u64,
}

impl Dump<'_> {
    /// Writes the ring's records to `path`. The temporary file is beside it, so that the rename stays
    /// on one file system. An earlier trace of that name is replaced.
    pub(crate) fn to_path(&self, path: &Path) -> io::Result<Written> {
        unlimited(|| {
            let (staged, written) = self.staged(path)?;
            staged.place()?;
            Ok(written)
        })
    }

    /// The same, but where somebody else took the name meanwhile, `next` gives another one.
    pub(crate) fn to_free_path(
        &self,
        path: &mut PathBuf,
        next: impl FnMut() -> PathBuf,
    ) -> io::Result<Written> {
        unlimited(|| {
            let (staged, written) = self.staged(path)?;
            *path = staged.place_where_free(next)?;
            Ok(written)
        })
    }

    /// All of it, under a temporary name.
    fn staged(&self, path: &Path) -> io::Result<(Staged, Written)> {
        let (staged, output) = Staged::begin(path, self.make_folders, self.target, self.nonce)?;
        let written = match (native(self.target), output) {
            (Some(version), Output::File(file)) => self.copy(version, file)?,
            (_, output) => self.convert(output)?,
        };
        Ok((staged, written))
    }

    /// Writes the ring's records to a stream, of which `open` is told when there is something to send.
    pub(crate) fn to_stream(
        &self,
        open: impl FnOnce() -> io::Result<Output>,
    ) -> io::Result<Written> {
        unlimited(|| {
            // A peer may take its time: what it is sent is whole before.
            let mut file = staged::unnamed(&std::env::temp_dir(), self.nonce)?;
            let stream = Output::Stream(Box::new(file.try_clone()?));
            // A handler that forked in the midst of it would have two processes write.
            let written = signal::undisturbed(|| self.convert(stream))?;
            file.rewind()?;
            let mut stream = open()?.into_stream()?;
            io::copy(&mut file, &mut stream)?;
            stream.flush()?;
            Ok(written)
        })
    }

    /// Writes the ring's records to a file without a name in `folder`, whose cursor is at its beginning then.
    pub(crate) fn to_unnamed(&self, folder: &Path) -> io::Result<(File, Written)> {
        unlimited(|| {
            let mut file = staged::unnamed(folder, self.nonce)?;
            let copy = file.try_clone()?;
            let written = match native(self.target) {
                Some(version) => self.copy(version, copy)?,
                None => self.convert(Output::File(copy))?,
            };
            file.rewind()?;
            Ok((file, written))
        })
    }

    /// Any format, from the copies of the rings.
    fn convert(&self, output: Output) -> io::Result<Written> {
        let mut writer = (self.target.create)(output, self.info).map_err(as_io)?;
        let mut written = self.threads(|thread, chunks, ended| {
            let sink = &mut writer;
            Ok(push_thread(self.info, thread, chunks, &[], ended, sink))
        })?;
        written.losses = writer.finish().map_err(as_io)?;
        Ok(written)
    }

    /// The recorder's own format: copies of the rings.
    fn copy(&self, version: Version, file: File) -> io::Result<Written> {
        let mut writer = DumpWriter::new(file, version, self.info).map_err(as_io)?;
        let mut written = self.threads(|thread, chunks, ended| {
            let block = writer.thread_with_gaps(thread, chunks, &[], ended);
            block.map_err(as_io)
        })?;
        written.losses = writer.finish().map_err(as_io)?.losses;
        Ok(written)
    }

    /// Copies one ring after the other, and gives away the thread, its chunks, and whether it has ended.
    fn threads(
        &self,
        mut give: impl FnMut(&Thread, &[&[u8]], bool) -> io::Result<BlockSummary>,
    ) -> io::Result<Written> {
        let mut snapshot = Snapshot::new(self.ring.region_size()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::OutOfMemory, "no memory for a copy of a ring")
        })?;
        let mut written = Written::default();
        // The thread that panicked comes first.
        let failed = self.info.failed_thread();
        let has_failed = |slot: &&Slot| {
            let thread = u64::from(slot.tid.load(Ordering::Relaxed));
            failed == Some(ThreadId(thread))
        };
        let first = self.ring.owned_slots().filter(has_failed);
        let others = self.ring.owned_slots().filter(|slot| !has_failed(slot));
        for slot in first.chain(others) {
            ring::read_ahead(slot);
            if !snapshot.take(slot) || snapshot.counts.recorded == 0 {
                continue;
            }
            let counts = snapshot.counts;
            let thread = Thread {
                id: ThreadId(u64::from(snapshot.owner.tid)),
                process: self.info.process,
                name: snapshot.owner.name_text(),
                counts: Some(Counts {
                    recorded: counts.recorded,
                    readable: counts.readable,
                    overwritten: counts.overwritten,
                    dropped: counts.dropped,
                    ..Counts::default()
                }),
            };
            let chunks: Vec<&[u8]> = snapshot.chunks().collect();
            let block = give(&thread, &chunks, snapshot.owner.ended)?;
            written.threads += 1;
            written.records += block.readable;
            let gone = counts.recorded.saturating_sub(counts.dropped);
            written.overwritten += gone.saturating_sub(block.readable);
            written.dropped += counts.dropped;
            let is_zeroed = snapshot.has_zeros || block.discarded_bytes > 0;
            written.zeroed += u64::from(is_zeroed);
        }
        if self.ring.is_lost() {
            return Err(io::Error::other(
                "somebody cut the ring's file short meanwhile",
            ));
        }
        Ok(written)
    }
}

/// The version of the recorder's own format, where `target` is one of that.
fn native(target: &Target) -> Option<Version> {
    match target.name {
        "xray" => Some(Version::V3),
        "xray1" => Some(Version::V1),
        _ => None,
    }
}

/// A limit on the size of files, and a reader that goes away, are errors here, not the program's end.
fn unlimited<T>(body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    signal::held_back(libc::SIGXFSZ, || signal::held_back(libc::SIGPIPE, body))
}

/// For people: what a format says of a file, without its frame.
pub(crate) fn as_io(error: fdr_formats::Error) -> io::Error {
    match error {
        fdr_formats::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
