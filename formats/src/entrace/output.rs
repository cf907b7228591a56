//! The way from items to a file, in three steps: the merge, the tables of an ET, and the thread that
//! writes.
//!
//! - The merge orders the items of all threads by time. It keeps the open calls of each thread, and the
//!   bytes that its cursors hold.
//! - An ET's tables stand in front of the entries and need the size and parent of each entry. So the writer
//!   goes through all entries twice.
//! - A second thread writes the file while the first one encodes the next bytes. It must never hold more
//!   than a few buffers, nor lose an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::bincode::put_u64;
use super::encode::At;
use super::record::{Container, Kind, encode_head, put_entry};
use super::thread_encoder::{Item, has};
use crate::bytes::groups;
use crate::spool::{Cursor, Spool};

/// A thread's strands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strands {
    pub(super) thread: u64,
    pub(super) items: usize,
    /// Arguments and payloads, one after the other.
    pub(super) extra: usize,
}

/// Items that are decoded at a time.
const DECODED: usize = 64;

struct Run<'a> {
    thread: u64,
    items: Cursor<'a>,
    extra: Cursor<'a>,
    /// The places in the file of the open calls that the next item may be in.
    open: Vec<u32>,
    /// Items, and how many of them are done.
    batch: Vec<Item>,
    done: usize,
    /// The thread's time so far. If its clock goes back, the order stays.
    time: u64,
}

impl<'a> Run<'a> {
    fn new(spool: &'a Spool, strands: &Strands) -> Run<'a> {
        Run {
            thread: strands.thread,
            items: Cursor::new(spool, strands.items),
            extra: Cursor::new(spool, strands.extra),
            open: Vec::new(),
            batch: Vec::new(),
            done: 0,
            time: 0,
        }
    }

    /// The turn of the next item among the threads; this thread is the `place`th.
    #[inline]
    fn turn(&mut self, place: usize) -> io::Result<Option<Turn>> {
        if self.done == self.batch.len() {
            self.decode()?;
        }
        let Some(next) = self.batch.get(self.done) else {
            return Ok(None);
        };
        if next.has(has::TIME) {
            self.time = self.time.max(next.time);
        }
        Ok(Some((self.time, place)))
    }

    #[cold]
    fn decode(&mut self) -> io::Result<()> {
        let bytes = self.items.rest()?;
        let items = groups(bytes).take(DECODED);
        let size = items.len() * super::thread_encoder::SIZE;
        self.batch.clear();
        self.batch.extend(items.map(|item| Item::decode(&item)));
        self.items.skip(size);
        self.done = 0;
        Ok(())
    }
}

/// Takes this many bytes from the front of a strand; fewer at its end.
#[cold]
fn take(strand: &mut Cursor<'_>, count: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    while bytes.len() < count as usize {
        let more = strand.rest()?;
        let more = &more[..more.len().min(count as usize - bytes.len())];
        if more.is_empty() {
            break;
        }
        bytes.extend_from_slice(more);
        let count = more.len();
        strand.skip(count);
    }
    Ok(())
}

/// A time, and the place of the thread. At the same time, the first thread is first.
type Turn = (u64, usize);

/// Hands each item to `give`, with its own place in the file, from `first` on, and its parent's place.
pub(super) fn merge(
    spool: &Spool,
    strands: &[Strands],
    first: u32,
    mut give: impl FnMut(u32, &Item, At, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let runs = strands.iter().map(|strands| Run::new(spool, strands));
    let mut runs: Vec<Run<'_>> = runs.collect();
    let mut turns = BinaryHeap::new();
    for (place, run) in runs.iter_mut().enumerate() {
        turns.extend(run.turn(place)?.map(Reverse));
    }
    let (mut own, mut extra) = (first, Vec::new());
    while let Some(mut earliest) = turns.peek_mut() {
        let Reverse((_, place)) = *earliest;
        let run = &mut runs[place];
        let item = &run.batch[run.done];
        run.done += 1;
        extra.clear();
        if item.extra > 0 {
            take(&mut run.extra, item.extra, &mut extra)?;
        }
        run.open.truncate(item.depth as usize);
        let at = At {
            parent: run.open.last().copied().unwrap_or(0),
            thread: run.thread,
        };
        give(own, item, at, &extra)?;
        if item.holds_others() {
            run.open.push(own);
        }
        own += 1;
        match run.turn(place)? {
            Some(turn) => *earliest = Reverse(turn),
            None => drop(PeekMut::pop(earliest)),
        }
    }
    Ok(())
}

/// Bytes that are collected before they are written.
const BUFFER: usize = 128 * 1024;
/// No entry.
const NONE: u32 = u32::MAX;

/// A receiver of entries, one by one.
pub(super) trait Take {
    /// The entry at the place `own` has this parent. `size` gives its bytes, `put` appends them.
    fn entry(
        &mut self,
        own: u32,
        parent: u32,
        size: impl FnOnce() -> usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()>;
}

/// Writes the table of offsets, and collects the children of each entry.
pub(super) struct Tables<'a, 'b> {
    out: &'a mut Out<'b>,
    offset: u64,
    /// The last child of each entry.
    last: Vec<u32>,
    /// For each entry, the previous child of the same parent.
    before: Vec<u32>,
}

impl<'a, 'b> Tables<'a, 'b> {
    pub(super) fn new(out: &'a mut Out<'b>, entries: u32) -> Tables<'a, 'b> {
        put_u64(&mut out.bytes, entries.into());
        Tables {
            out,
            offset: 0,
            last: vec![NONE; entries as usize],
            before: vec![NONE; entries as usize],
        }
    }

    /// Writes the children of each entry, ascending.
    pub(super) fn pool(mut self) -> io::Result<()> {
        let out = self.out;
        put_u64(&mut out.bytes, self.last.len() as u64);
        for &last in &self.last {
            let (mut at, mut first, mut count) = (last, NONE, 0);
            while at != NONE {
                let before = std::mem::replace(&mut self.before[at as usize], first);
                (first, at) = (at, before);
                count += 1;
            }
            put_u64(&mut out.bytes, count);
            while first != NONE {
                put_u64(&mut out.bytes, first.into());
                first = self.before[first as usize];
                out.room()?;
            }
            out.room()?;
        }
        Ok(())
    }
}

impl Take for Tables<'_, '_> {
    fn entry(
        &mut self,
        own: u32,
        parent: u32,
        size: impl FnOnce() -> usize,
        _: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        put_u64(&mut self.out.bytes, self.offset);
        self.offset += size() as u64;
        if own > 0 {
            let last = std::mem::replace(&mut self.last[parent as usize], own);
            self.before[own as usize] = last;
        }
        self.out.room()
    }
}

/// The file, and the bytes that are not written yet.
pub(super) struct Out<'a> {
    write_thread: WriteThread<'a>,
    prefixed: bool,
    bytes: Vec<u8>,
}

impl Out<'_> {
    /// Begins with the head of the file.
    pub(super) fn new(write_thread: WriteThread<'_>, kind: Kind) -> Out<'_> {
        let mut bytes = Vec::with_capacity(BUFFER + BUFFER / 4);
        bytes.extend_from_slice(&encode_head(kind));
        Out {
            write_thread,
            prefixed: kind.container == Container::IetPrefix,
            bytes,
        }
    }

    #[inline]
    fn room(&mut self) -> io::Result<()> {
        if self.bytes.len() < BUFFER {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the collected bytes.
    #[cold]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_thread.put(&mut self.bytes)?;
        self.bytes.reserve(BUFFER + BUFFER / 4);
        Ok(())
    }
}

impl Take for Out<'_> {
    #[inline]
    fn entry(
        &mut self,
        _: u32,
        _: u32,
        _: impl FnOnce() -> usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        put_entry(&mut self.bytes, self.prefixed, put);
        self.room()
    }
}

/// Buffers that wait to be written, or are being written.
const BUFFERS: usize = 2;

/// The file. It takes full buffers.
pub(super) struct WriteThread<'a> {
    file: &'a File,
    /// `None`: the calling thread writes.
    thread: Option<Buffers>,
}

/// The channel to the write thread, and the channel back.
struct Buffers {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
}

/// Writes the bytes that `make` gives. `much`: they are worth a second thread. If no thread can be
/// started, the calling thread writes.
pub(super) fn write(
    file: &File,
    much: bool,
    make: impl FnOnce(WriteThread<'_>) -> io::Result<()>,
) -> io::Result<()> {
    if !much {
        return make(WriteThread { file, thread: None });
    }
    let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
    let (written, empty) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // The channel has room for all of them.
        let _ = written.send(Vec::new());
    }
    let work = move || -> io::Result<()> {
        let mut file = file;
        for mut bytes in to_write {
            file.write_all(&bytes)?;
            bytes.clear();
            // The sender of this buffer may have made its last one.
            let _ = written.send(bytes);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("fdr-write".to_owned());
        let Ok(thread) = builder.spawn_scoped(scope, work) else {
            return make(WriteThread { file, thread: None });
        };
        let thread_has = Some(Buffers { full, empty });
        let made = make(WriteThread {
            file,
            thread: thread_has,
        });
        match thread.join() {
            // The write thread's error has the reason. `make` saw only a closed channel.
            Ok(written) => written.and(made),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl WriteThread<'_> {
    /// Takes the bytes, and leaves an empty buffer in their place.
    pub(super) fn put(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let Some(buffers) = &self.thread else {
            self.file.write_all(bytes)?;
            bytes.clear();
            return Ok(());
        };
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let next = buffers.empty.recv().map_err(|_| gone())?;
        let full = std::mem::replace(bytes, next);
        buffers.full.send(full).map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::{Read, Seek};

    use super::*;
    use crate::temporary::unlinked;

    fn many(mut write_thread: WriteThread<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for round in 0..100u8 {
            bytes.resize(usize::from(round) * 100, round);
            write_thread.put(&mut bytes)?;
            assert!(bytes.is_empty());
        }
        Ok(())
    }

    #[test]
    fn everything_is_written_in_order_with_a_thread_and_without() {
        let wanted: Vec<u8> = (0..100u8)
            .flat_map(|round| vec![round; usize::from(round) * 100])
            .collect();
        for much in [false, true] {
            let mut file = unlinked().expect("a folder for temporary files");
            write(&file, much, many).expect("room");
            let mut found = Vec::new();
            file.rewind().expect("a file");
            file.read_to_end(&mut found).expect("a file");
            assert!(found == wanted, "with a thread: {much}");
        }
    }

    #[test]
    fn an_error_is_told_and_is_the_real_one() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let full = full.expect("every Linux has it");
        for much in [false, true] {
            let written = write(&full, much, many).map_err(|error| error.kind());
            assert_eq!(written, Err(io::ErrorKind::StorageFull), "{much}");
            let fails = |_: WriteThread<'_>| Err(io::ErrorKind::TimedOut.into());
            let written = write(&full, much, fails).map_err(|error| error.kind());
            assert_eq!(written, Err(io::ErrorKind::TimedOut), "{much}");
        }
    }
}
