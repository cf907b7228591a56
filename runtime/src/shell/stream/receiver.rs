//! One receiver: its writer, the destination of its bytes, and its position in each thread's records. A receiver gets
//! whole batches. It gets the next batch when it has taken the last one.

#![expect(
    clippy::disallowed_types,
    reason = "only the thread of the stream uses the lock, and a child has no such thread"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fdr_formats::model::{Counts, Thread};
use fdr_formats::writer::{Output, Target};
use fdr_formats::xray::ChunkDecoder;
use fdr_formats::{Call, Diagnostic, Function, Losses, Mark, Sink, Ticks, TraceInfo, Writer};

use crate::dump::file::as_io;
use crate::ring::counts;
use crate::sys::socket::Socket;

/// Records that are handed over together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) records: u64,
    /// For each of its threads: whether any record of the thread was ever taken.
    pub(super) threads: Vec<Rc<Cell<bool>>>,
    /// Whether a receiver has taken all of it.
    pub(super) is_received: Cell<bool>,
}

/// A receiver's position in the records of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct ReceiverPosition {
    /// Records of the thread before the position. The receiver got them, or got the number of those that are lost.
    position: u64,
    /// Records that were given to the receiver.
    records: u64,
    /// Whether the receiver has the thread's final counts.
    ended: bool,
}

/// Bytes of a writer that are not sent yet.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer of a peer that went away. The next peer gets it.
pub(super) struct DetachedWriter {
    writer: Box<dyn Writer>,
    bytes: Bytes,
    functions: usize,
}

/// The destination of a writer's bytes.
enum Delivery {
    /// The bytes go to a peer, through this process.
    Peer {
        socket: Socket,
        bytes: Bytes,
        /// Bytes for the peer, and how many of them it has taken.
        pending: Vec<u8>,
        sent: usize,
    },
    /// The writer writes to a file. `Growing` is a file that others may read meanwhile.
    Itself(Option<Growing>),
}

/// A file under its final name that others may read while it grows. It ends with a whole record, even on a full
/// disk.
struct Growing {
    file: File,
    /// Bytes up to the end of the last batch.
    length: u64,
}

impl Growing {
    fn grown(&mut self) -> io::Result<()> {
        self.length = self.file.stream_position()?;
        Ok(())
    }

    /// Removes the bytes behind the last batch. The writer must be dropped before, because it may hold more
    /// bytes.
    fn cut(&self) {
        let _ = self.file.set_len(self.length);
    }
}

/// One receiver.
pub(super) struct Receiver {
    /// `None` after the trace was completed or the writer has failed.
    writer: Option<Box<dyn Writer>>,
    delivery: Delivery,
    /// How many functions the writer knows, from the start of the table.
    functions: usize,
    threads: HashMap<usize, ReceiverPosition>,
    batch: Option<Rc<Batch>>,
    /// When the peer last took something.
    pub(super) progress: Instant,
    /// Whether it was waited for in vain and has not caught up since.
    pub(super) late: bool,
}

/// The result of sending.
pub(super) enum Sent {
    /// The peer took everything.
    All,
    /// The peer took something.
    Some,
    /// The peer took nothing.
    Nothing,
    /// The peer is gone.
    Gone(io::Error),
}

impl Receiver {
    /// A receiver at the other end of `socket`. It may get the writer of an earlier peer.
    pub(super) fn peer(
        socket: Socket,
        target: &Target,
        info: &TraceInfo,
        detached: Option<DetachedWriter>,
    ) -> io::Result<Receiver> {
        let again = detached.and_then(|mut detached| {
            // Bytes that the writer still holds were for the earlier peer.
            let _ = detached.writer.flush();
            detached.bytes.take();
            let start = detached.writer.restart()?;
            Some((detached, start))
        });
        let (detached, pending) = match again {
            Some((detached, start)) => (detached, start),
            None => {
                let bytes = Bytes::default();
                let output = Output::Stream(Box::new(bytes.clone()));
                let mut writer = (target.create)(output, info).map_err(as_io)?;
                writer.flush().map_err(as_io)?;
                let start = bytes.take();
                let functions = info.functions.len();
                (
                    DetachedWriter {
                        writer,
                        bytes,
                        functions,
                    },
                    start,
                )
            }
        };
        let delivery = Delivery::Peer {
            socket,
            bytes: detached.bytes,
            pending,
            sent: 0,
        };
        Ok(Receiver::new(detached.writer, delivery, detached.functions))
    }

    /// A file that is a trace only when it is complete.
    pub(super) fn path(file: File, target: &Target, info: &TraceInfo) -> io::Result<Receiver> {
        let writer = (target.create)(Output::File(file), info).map_err(as_io)?;
        Ok(Receiver::new(
            writer,
            Delivery::Itself(None),
            info.functions.len(),
        ))
    }

    /// A file that is a trace at any time after its head is written.
    pub(super) fn growing(file: File, target: &Target, info: &TraceInfo) -> io::Result<Receiver> {
        let mut growing = Growing {
            file: file.try_clone()?,
            length: 0,
        };
        // The target is a stream, because the writer of a file may complete the file only at its end.
        let output = Output::Stream(Box::new(file));
        let mut writer = (target.create)(output, info).map_err(as_io)?;
        writer.flush().map_err(as_io)?;
        growing.grown()?;
        let delivery = Delivery::Itself(Some(growing));
        Ok(Receiver::new(writer, delivery, info.functions.len()))
    }

    fn new(writer: Box<dyn Writer>, delivery: Delivery, functions: usize) -> Receiver {
        Receiver {
            writer: Some(writer),
            delivery,
            functions,
            threads: HashMap::new(),
            batch: None,
            progress: Instant::now(),
            late: false,
        }
    }

    /// Whether the receiver has taken everything, so it can get more.
    pub(super) fn is_ready(&self) -> bool {
        match &self.delivery {
            Delivery::Peer { pending, .. } => pending.is_empty(),
            Delivery::Itself(_) => true,
        }
    }

    /// The peer's socket, if the receiver is a peer.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match &self.delivery {
            Delivery::Peer { socket, .. } => Some(socket),
            Delivery::Itself(_) => None,
        }
    }

    /// How many functions the writer knows.
    pub(super) fn functions(&self) -> usize {
        self.functions
    }

    /// Tells the writer the functions that it does not know.
    pub(super) fn learn(&mut self, more: &[Function]) {
        self.functions += more.len();
        if let Some(writer) = &mut self.writer {
            writer.functions(more);
        }
    }

    /// Begins a part of a thread's calls. The thread made `first` records before them.
    pub(super) fn begin(&mut self, key: usize, thread: &Thread, first: u64, at: &ChunkDecoder) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        writer.thread(thread);
        let known = self.threads.contains_key(&key);
        let given = self.threads.entry(key).or_default();
        if first > given.position {
            let records = first - given.position;
            writer.mark(&Mark::Lost { records });
        }
        match at.place() {
            (time, Some(cpu)) if !known => writer.mark(&Mark::Cpu { time, cpu }),
            _ => {}
        }
        given.position = first;
    }

    /// Counts records of the thread that were given to the receiver.
    pub(super) fn count_delivered(&mut self, key: usize, records: u64) {
        let given = self.threads.entry(key).or_default();
        given.position += records;
        given.records += records;
    }

    /// Sends the receiver a thread's current counts, but only once after the thread's end. This last time it also
    /// sends how many of the last records the receiver did not get: another receiver had them, or they were
    /// overwritten.
    pub(super) fn count(
        &mut self,
        key: usize,
        thread: &Thread,
        counts: counts::Counts,
        ended: bool,
    ) {
        let given = self.threads.entry(key).or_default();
        let Some(writer) = self.writer.as_mut().filter(|_| !given.ended) else {
            return;
        };
        given.ended = ended;
        let made = counts.recorded.saturating_sub(counts.dropped);
        let missing = made.saturating_sub(given.records);
        if ended && made > given.position {
            let records = made - given.position;
            writer.thread(thread);
            writer.mark(&Mark::Lost { records });
            given.position = made;
        }
        writer.thread(&Thread {
            counts: Some(Counts {
                recorded: counts.recorded,
                readable: given.records,
                overwritten: missing,
                dropped: counts.dropped,
                ..Counts::default()
            }),
            ..thread.clone()
        });
    }

    /// Forgets a slot that has another owner.
    pub(super) fn forget(&mut self, key: usize) {
        self.threads.remove(&key);
    }

    /// Makes the writer's bytes ready to be sent, as `batch`.
    pub(super) fn end_batch(&mut self, batch: Rc<Batch>) -> io::Result<()> {
        self.batch = Some(batch);
        match (&mut self.delivery, &mut self.writer) {
            (Delivery::Itself(None), _) | (_, None) => Ok(()),
            (Delivery::Itself(Some(growing)), Some(writer)) => {
                let flushed = writer.flush().map_err(as_io);
                flushed.and_then(|()| growing.grown()).inspect_err(|_| {
                    self.writer = None;
                    growing.cut();
                })
            }
            (
                Delivery::Peer {
                    bytes,
                    pending,
                    sent,
                    ..
                },
                Some(writer),
            ) => {
                writer.flush().map_err(as_io)?;
                (*pending, *sent) = (bytes.take(), 0);
                self.progress = Instant::now();
                Ok(())
            }
        }
    }

    /// Sends as much as the peer takes now.
    pub(super) fn push(&mut self) -> Sent {
        let mut some = false;
        if let Delivery::Peer {
            socket,
            pending,
            sent,
            ..
        } = &mut self.delivery
        {
            while let Some(rest) = pending.get(*sent..).filter(|rest| !rest.is_empty()) {
                match socket.send(rest) {
                    Ok(0) if some => return Sent::Some,
                    Ok(0) => return Sent::Nothing,
                    Ok(count) => *sent += count,
                    Err(errno) => return Sent::Gone(io::Error::from_raw_os_error(errno)),
                }
                (some, self.progress) = (true, Instant::now());
            }
            pending.clear();
            *sent = 0;
        }
        self.late = false;
        Sent::All
    }

    /// The batch that the receiver has taken. Each batch is returned once.
    pub(super) fn take_received(&mut self) -> Option<Rc<Batch>> {
        self.batch.take()
    }

    /// Completes the trace. Open calls last until `end`. Some bytes may still have to be sent.
    pub(super) fn finish(&mut self, end: Ticks) -> io::Result<Losses> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(Losses::default());
        };
        writer.end(end);
        let finished = writer.finish().map_err(as_io);
        if let (Delivery::Itself(Some(growing)), Err(_)) = (&self.delivery, &finished) {
            growing.cut();
        }
        let losses = finished?;
        if let Delivery::Peer { bytes, pending, .. } = &mut self.delivery {
            pending.extend(bytes.take());
            self.progress = Instant::now();
        }
        Ok(losses)
    }

    /// Drops the writer, because it has failed. The next peer gets a new one.
    pub(super) fn drop_writer(&mut self) {
        self.writer = None;
    }

    /// The writer for the next peer, after this peer went away.
    pub(super) fn detach(self) -> Option<DetachedWriter> {
        match (self.delivery, self.writer) {
            (Delivery::Peer { bytes, .. }, Some(writer)) => Some(DetachedWriter {
                writer,
                bytes,
                functions: self.functions,
            }),
            _ => None,
        }
    }

    /// Ends the connection after the bytes that were sent.
    pub(super) fn end(self) {
        if let Delivery::Peer { socket, .. } = self.delivery {
            socket.end();
        }
    }
}

/// Gives the same calls to several receivers.
pub(super) struct AllReceivers<'a>(pub(super) &'a mut [Receiver]);

impl AllReceivers<'_> {
    fn each(&mut self, mut step: impl FnMut(&mut dyn Writer)) {
        let ready = self.0.iter_mut().filter(|receiver| receiver.is_ready());
        for writer in ready.filter_map(|receiver| receiver.writer.as_mut()) {
            step(&mut **writer);
        }
    }
}

impl Sink for AllReceivers<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.each(|writer| writer.thread(thread));
    }

    fn calls(&mut self, calls: &[Call]) {
        self.each(|writer| writer.calls(calls));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.each(|writer| writer.mark(mark));
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}
