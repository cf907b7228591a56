//! Writes events of any format as a state history. A state system is fed in order of time over all
//! threads, so events are spooled (64 MiB in memory, then a temporary file) and everything is written
//! at the end. Memory is the call stacks and the functions; must never grow with the events.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::build::Builder;
use super::lane::{Lane, Untold};
use super::layout::{HEADER_SIZE, Header, SORTED};
use super::merge::Changes;
use super::meta::{Meta, ThreadMeta};
use super::{FILES, tables};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::writer::{Writer, tell_kept};

/// Bytes of intervals that are collected before they are written.
const CHUNK: usize = 256 * 1024;

/// What is kept of a thread beside its changes.
#[derive(Debug, Default)]
struct Known {
    thread: Thread,
    lane: Lane,
    wall: Option<(u64, u32)>,
}

/// A sink that writes a folder.
pub(super) struct TcstateWriter {
    folder: PathBuf,
    info: TraceInfo,
    scale: Scale,
    threads: Vec<Known>,
    thread_of: HashMap<ThreadId, usize>,
    now: usize,
    changes: Changes,
    untold: Untold,
    losses: Losses,
    failed: Option<io::Error>,
}

impl TcstateWriter {
    /// `folder` exists and is empty.
    pub(super) fn new(folder: PathBuf, info: &TraceInfo) -> TcstateWriter {
        TcstateWriter {
            folder,
            scale: Scale::new(info.clock.frequency),
            info: TraceInfo {
                threads: Vec::new(),
                ..info.clone()
            },
            threads: Vec::new(),
            thread_of: HashMap::new(),
            now: 0,
            changes: Changes::default(),
            untold: Untold::default(),
            losses: Losses::default(),
            failed: None,
        }
    }

    /// Start and end of the history.
    fn range(&self) -> (i64, i64) {
        let begin = self.info.start.map(|start| self.nanos(start));
        let lanes = || self.threads.iter().map(|known| &known.lane);
        let first = lanes().filter_map(|lane| Some(lane.first? - i64::from(lane.before > 0)));
        let start = first.chain(begin).min().unwrap_or(0);
        let last = lanes()
            .filter(|lane| lane.first.is_some())
            .map(|lane| lane.last);
        // What is open lasts until the dump.
        let is_open = lanes().any(Lane::is_open);
        let end = self.info.end.filter(|_| is_open);
        let end = end.map(|end| self.nanos(end));
        (start, last.chain(end).max().unwrap_or(start))
    }

    fn nanos(&self, ticks: Ticks) -> i64 {
        i64::try_from(self.info.clock.nanos(ticks).0).unwrap_or(i64::MAX)
    }

    fn complete(&mut self) -> io::Result<()> {
        for known in &mut self.threads {
            known.lane.finish(&mut self.untold);
        }
        self.info.functions.sort_by_key(|function| function.id);
        let (start, end) = self.range();
        let changes = std::mem::take(&mut self.changes);
        let threads = self.threads.iter().map(|known| known.thread.id);
        let mut builder = Builder::new(start, threads);
        let info = &self.info;
        let (types, tree, state, history) = (FILES[0].1, FILES[1].1, FILES[2].1, FILES[3].1);
        save(&self.folder, history, |out| {
            // The magic comes last: a history without its end is none.
            out.write_all(&[0; HEADER_SIZE])?;
            changes.merge(|thread, time, op| {
                builder.change(thread, time, op, info);
                hand_over(&mut builder, out, CHUNK)
            })?;
            builder.finish(end);
            hand_over(&mut builder, out, 1)?;
            let header = Header {
                major: 1,
                minor: 0,
                size: HEADER_SIZE as u32,
                start,
                end,
                intervals: builder.intervals,
                keys: builder.engine().attributes().len() as u32,
                flags: SORTED,
                strings_offset: out.stream_position()?,
                strings: builder.strings.names.len() as u64,
            };
            for (name, _) in &builder.strings.names {
                // A name of 4 GiB does not fit into memory anyway.
                let size = u32::try_from(name.len()).map_err(io::Error::other)?;
                out.write_all(&size.to_le_bytes())?;
                out.write_all(name.as_bytes())?;
            }
            out.seek(SeekFrom::Start(0))?;
            out.write_all(&header.encode())
        })?;
        let attributes = builder.engine().attributes();
        let names = &builder.strings.names;
        let name = |number: u32| names.get(number as usize).map_or("", |(name, _)| name);
        save(&self.folder, types, |out| {
            tables::write_types(out, attributes)
        })?;
        save(&self.folder, tree, |out| {
            tables::write_tree(out, attributes)
        })?;
        save(&self.folder, state, |out| {
            tables::write_state(out, attributes, name)
        })?;
        let meta = self.meta(&builder, (start, end));
        save(&self.folder, super::META, |out| meta.write(out))?;
        self.untold.losses(&mut self.losses);
        let what = "changes of CPU that the state of the CPUs does not show, or not in time";
        self.losses.add(what, builder.untold_cpus);
        let what = "calls of functions that have the name of another: told as calls of that one";
        self.losses.add(what, builder.strings.shared);
        Ok(())
    }

    fn meta(&self, builder: &Builder, (start, end): (i64, i64)) -> Meta {
        let strings = builder.strings.names.iter().zip(0..);
        let threads = self.threads.iter().map(|known| ThreadMeta {
            thread: Thread {
                counts: known.thread.counts.map(|counts| known.lane.counts(counts)),
                ..known.thread.clone()
            },
            wall: known.wall,
            span: known.lane.first.map(|first| (first, known.lane.last)),
            before: known.lane.before,
            after: known.lane.after,
        });
        Meta {
            start: Some(start),
            end: Some(end),
            timestamp: Some(end),
            threads: threads.collect(),
            strings: strings.map(|((_, id), number)| (number, *id)).collect(),
            info: self.info.clone(),
        }
    }
}

/// Writes intervals if there are so many bytes of them.
fn hand_over(builder: &mut Builder, out: &mut dyn Write, least: usize) -> io::Result<()> {
    if builder.bytes.len() < least {
        return Ok(());
    }
    let written = out.write_all(&builder.bytes);
    builder.bytes.clear();
    written
}

/// Writes one file of the folder; the error names it.
fn save(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    // For its owner alone, as every trace.
    let file = options.mode(0o600).open(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Sink for TcstateWriter {
    fn thread(&mut self, thread: &Thread) {
        let next = self.threads.len();
        self.now = *self.thread_of.entry(thread.id).or_insert(next);
        if self.now == next {
            self.changes.thread();
            self.threads.push(Known {
                thread: thread.clone(),
                ..Known::default()
            });
            return;
        }
        let known = &mut self.threads[self.now].thread;
        known.counts = thread.counts.or(known.counts);
        known.process = thread.process.or(known.process);
        if !thread.name.is_empty() && thread.name != known.name {
            known.name.clone_from(&thread.name);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        if self.failed.is_some() {
            return;
        }
        let (changes, now, failed) = (&mut self.changes, self.now, &mut self.failed);
        for call in calls {
            let mut out = |time, op| {
                if let Err(error) = changes.push(now, time, op) {
                    failed.get_or_insert(error);
                }
            };
            known
                .lane
                .call(call, &mut self.scale, &mut self.untold, &mut out);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        let losses = &mut self.losses;
        match *mark {
            Mark::Cpu { cpu, .. } => known.lane.cpu(cpu, &mut self.untold),
            Mark::Wall { seconds, micros } => {
                if known.wall.is_none() && known.lane.first.is_none() {
                    known.wall = Some((seconds, micros));
                } else {
                    losses.add("wall-clock times in the middle of a thread: left out", 1);
                }
            }
            Mark::Argument { .. } => losses.add("arguments: left out", 1),
            Mark::Lost { records } => {
                losses.add("missing records: their place is left out", records);
            }
            Mark::Break { .. } => losses.add("breaks of the clock: their place is left out", 1),
            Mark::Custom { .. } => losses.add("custom events: left out", 1),
            Mark::Typed { .. } => losses.add("typed events: left out", 1),
        }
    }

    fn diagnostic(&mut self, _diagnostic: Diagnostic) {}
}

impl Writer for TcstateWriter {
    fn functions(&mut self, more: &[Function]) {
        self.info.functions.extend_from_slice(more);
    }

    /// Does nothing: a state can't be written before the last event is known.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(tell_kept(&mut self.failed)?)
    }

    fn end(&mut self, end: Ticks) {
        self.info.end = Some(end);
    }

    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        self.complete()?;
        Ok(self.losses)
    }
}
