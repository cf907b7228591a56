//! Writes a dump on a thread that may allocate and wait. The recorder's own format is written straight from
//! copies of the rings. Any other format is written from the same copies, by that format's writer. Two dumps
//! must never mix, so the caller holds the lock.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use fdr_formats::model::{Counts, FunctionTotals, Moment, Thread};
use fdr_formats::text::owned;
use fdr_formats::writer::{Output, Target};
use fdr_formats::xray::{BlockSummary, DumpWriter, Version, push_thread};
use fdr_formats::{FunctionId, Losses, ThreadId, Ticks, TraceInfo};

use super::snapshot::Snapshot;
use super::staged::{self, Staged};
use crate::primitive::Ordering;
use crate::ring::layout::{Slot, Totals};
use crate::ring::totals::Copy;
use crate::ring::{self, Ring};
use crate::sys::signal;

/// The result of a dump. Counts are of function records, two per call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) threads: u64,
    pub(crate) records: u64,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
    /// Threads with zeros in the place of some records: the ring's file was cut short, and then made longer again.
    pub(crate) zeroed: u64,
    /// Contents that the format could not hold.
    pub(crate) losses: Losses,
}

/// Takes a thread, its chunks, and whether it has ended. It is no type parameter, so the code around it is there once.
type Give<'a> = dyn FnMut(&Thread, &[&[u8]], bool) -> io::Result<BlockSummary> + 'a;

/// The arguments of a dump.
pub(crate) struct Dump<'a> {
    pub(crate) ring: &'a Ring,
    pub(crate) info: &'a TraceInfo,
    pub(crate) target: &'static Target,
    /// The thread that comes first: it panicked, or made the slow call.
    pub(crate) first_thread: Option<u32>,
    /// Whether missing folders are made.
    pub(crate) make_folders: bool,
    /// An unpredictable number for temporary names.
    pub(crate) nonce: u64,
}

impl Dump<'_> {
    /// Writes the ring's records to `path`, and replaces an earlier trace of that name. The temporary file is
    /// in the same folder, so the rename stays on one file system.
    pub(crate) fn to_path(&self, path: &Path) -> io::Result<Written> {
        unlimited(|| {
            let (staged, written) = self.staged(path)?;
            staged.place()?;
            Ok(written)
        })
    }

    /// Writes the ring's records to `path`. If another process has taken the name meanwhile, `next` gives
    /// another one.
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

    /// Writes everything under a temporary name.
    fn staged(&self, path: &Path) -> io::Result<(Staged, Written)> {
        let (staged, file) = Staged::begin(path, self.make_folders, self.nonce)?;
        Ok((staged, self.write(file)?))
    }

    /// Writes the ring's records to a stream. It calls `open` when there is something to send.
    pub(crate) fn to_stream(
        &self,
        open: impl FnOnce() -> io::Result<Box<dyn Write>>,
    ) -> io::Result<Written> {
        unlimited(|| {
            // The trace is complete before it is sent, because a peer may take its time.
            let mut file = staged::unnamed(&std::env::temp_dir(), self.nonce)?;
            let stream = Output::Stream(Box::new(file.try_clone()?));
            // A handler that forked meanwhile would make two processes write.
            let written = signal::undisturbed(|| self.convert(stream))?;
            file.rewind()?;
            let mut stream = open()?;
            io::copy(&mut file, &mut stream)?;
            stream.flush()?;
            Ok(written)
        })
    }

    /// Writes the ring's records to a file without a name in `folder`. The file's cursor is then at its
    /// beginning.
    pub(crate) fn to_unnamed(&self, folder: &Path) -> io::Result<(File, Written)> {
        unlimited(|| {
            let mut file = staged::unnamed(folder, self.nonce)?;
            let written = self.write(file.try_clone()?)?;
            file.rewind()?;
            Ok((file, written))
        })
    }

    /// Not inlined, so that its code is there once.
    #[inline(never)]
    fn write(&self, file: File) -> io::Result<Written> {
        match native(self.target) {
            Some(version) => self.copy(version, file),
            None => self.convert(Output::File(file)),
        }
    }

    /// Writes another format than the recorder's own, from the copies of the rings.
    fn convert(&self, output: Output) -> io::Result<Written> {
        let mut writer = (self.target.create)(output, self.info).map_err(as_io)?;
        let mut written = self.threads(&mut |thread, chunks, ended| {
            let sink = &mut writer;
            Ok(push_thread(self.info, thread, chunks, &[], ended, sink))
        })?;
        written.losses = writer.finish().map_err(as_io)?;
        written.losses.add_moments(&self.info.moments);
        written.losses.add_schedule(&self.info.schedule);
        Ok(written)
    }

    /// Writes the recorder's own format, by copying.
    fn copy(&self, version: Version, file: File) -> io::Result<Written> {
        let mut writer = DumpWriter::new(file, version, self.info).map_err(as_io)?;
        let mut written = self.threads(&mut |thread, chunks, ended| {
            let block = writer.thread_with_gaps(thread, chunks, &[], ended);
            block.map_err(as_io)
        })?;
        written.losses = writer.finish().map_err(as_io)?.losses;
        Ok(written)
    }

    /// The totals of that owner of the slot. Empty if the slot has another owner by now.
    fn totals_of(&self, slot: &Slot, generation: u64) -> Vec<FunctionTotals> {
        let list = self.ring.totals_of(slot).map(totals).unwrap_or_default();
        match slot.generation.load(Ordering::Acquire) == generation {
            true => list,
            false => Vec::new(),
        }
    }

    /// Copies one ring after the other. Passes on each thread, its chunks, and whether it has ended.
    fn threads(&self, give: &mut Give<'_>) -> io::Result<Written> {
        let mut snapshot = Snapshot::new(self.ring.region_size()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::OutOfMemory, "no memory for a copy of a ring")
        })?;
        let mut written = Written::default();
        let has_failed = |slot: &&Slot| self.first_thread == Some(slot.tid.load(Ordering::Relaxed));
        let first = self.ring.owned_slots().filter(has_failed);
        let others = self.ring.owned_slots().filter(|slot| !has_failed(slot));
        let first = first.map(|slot| (slot, true));
        for (slot, is_first) in first.chain(others.map(|slot| (slot, false))) {
            ring::read_ahead(slot);
            let generation = slot.generation.load(Ordering::Acquire);
            if !snapshot.take(slot) || snapshot.is_empty(slot) {
                continue;
            }
            // The thread may have ended just now, and another one has its slot. That one comes with the others.
            if is_first && self.first_thread != Some(snapshot.owner.tid) {
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
                    summarised: counts.summarised,
                    ..Counts::default()
                }),
                totals: self.totals_of(slot, generation),
                early_calls: snapshot.early_calls.clone(),
            };
            let mut chunks = Vec::new();
            snapshot.chunks().for_each(|chunk| chunks.push(chunk));
            let block = give(&thread, &chunks, snapshot.owner.ended)?;
            written.threads += 1;
            written.records += block.readable;
            let without = counts.dropped.saturating_add(counts.summarised);
            let gone = counts.recorded.saturating_sub(without);
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

/// The totals of each function. Not inlined, because a copy of a row takes 2 KiB of the stack.
#[inline(never)]
pub(crate) fn totals(totals: &Totals) -> Vec<FunctionTotals> {
    let mut copy = Copy::EMPTY;
    let mut list = Vec::new();
    for row in ring::totals::rows(totals) {
        let _ = copy.read(row);
        if copy.is_empty() {
            continue;
        }
        let mut lengths = Vec::new();
        for (class, &count) in (0..).zip(&copy.lengths) {
            if count > 0 {
                lengths.push((class, count));
            }
        }
        list.push(FunctionTotals {
            function: FunctionId(copy.function),
            calls: copy.calls,
            untimed: copy.untimed,
            total: Ticks(copy.total),
            own: Ticks(copy.own.min(copy.total)),
            longest: Ticks(copy.longest),
            lengths,
            nests: copy.nests,
            estimate: copy.has_estimate().then(|| Box::new(copy.estimate)),
        });
    }
    list
}

/// The named moments.
pub(crate) fn moments(ring: &Ring) -> Vec<Moment> {
    let mut moments = Vec::new();
    for of in ring::moments::all(ring.moments()) {
        moments.push(Moment {
            number: of.number,
            time: Ticks(of.ticks),
            name: owned(of.name()),
        });
    }
    moments
}

/// The version of the recorder's own format, if `target` is one.
fn native(target: &Target) -> Option<Version> {
    match target.name {
        "xray" => Some(Version::V3),
        "xray1" => Some(Version::V1),
        _ => None,
    }
}

/// Runs `body` with two signals held back. So a limit on the size of files, or a reader that goes away, is an
/// error and does not end the program.
fn unlimited<T>(body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    signal::held_back(libc::SIGXFSZ, || signal::held_back(libc::SIGPIPE, body))
}

/// The error of a format without its frame, for people.
pub(crate) fn as_io(error: fdr_formats::Error) -> io::Error {
    match error {
        fdr_formats::Error::Io(error) => error,
        other => io::Error::other(format!("{other}")),
    }
}
