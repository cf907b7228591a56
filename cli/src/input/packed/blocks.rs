//! Decodes a dense stream into its trace, several blocks at a time. The blocks come from zstd frames of one block each,
//! as `fdr pack` makes them, or from an unpacked stream. Must never write more than it was allowed, nor give back bytes
//! that follow damage.
//!
//! Memory: for each worker a block, and the bytes that it stands for.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use fdr_formats::bytes::{FileBytes, ReadAt, Window};
use fdr_formats::dense::{self, BLOCK, Decoder, HEAD, Head, LARGEST};

use super::frames::{Fault, Frame, Frames};
use super::inflate::Inflater;
use super::unpack::{Broken, Failure, Limits, Parts, State, Unpacked, in_parallel, write};

/// Bytes that are written at a time, or left out where all are zero.
const PIECE: usize = 128 << 10;

/// Goes from block to block of a stream that is not compressed.
pub(super) struct Blocks<'a> {
    window: Window<'a>,
    size: u64,
    next: u64,
}

impl<'a> Blocks<'a> {
    fn new(bytes: &'a dyn ReadAt) -> Blocks<'a> {
        Blocks {
            window: Window::new(bytes, HEAD),
            size: bytes.size(),
            next: 0,
        }
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<Frame, Fault>>> {
        let offset = self.next;
        if offset >= self.size {
            return Ok(None);
        }
        let head = self.window.at(offset, HEAD, self.size)?;
        Ok(Some(match Head::parse(head) {
            Ok(head) => {
                let size = (HEAD + head.body) as u64;
                self.next = offset.saturating_add(size);
                Ok(Frame {
                    offset,
                    size: self.next.min(self.size) - offset,
                    content: Some(size),
                    cut: self.next > self.size,
                })
            }
            Err(what) => {
                self.next = self.size;
                Err(Fault::of_file(offset, what))
            }
        }))
    }
}

/// Whether what begins there in a stream is at fault because the stream ends.
///
/// # Errors
/// Where the file can't be read.
pub(super) fn is_cut(stream: &dyn ReadAt, offset: u64) -> io::Result<bool> {
    let mut blocks = Blocks::new(stream);
    blocks.next = offset;
    Ok(match blocks.next()? {
        None => true,
        Some(Ok(block)) => block.cut,
        Some(Err(_)) => stream.size() - offset < HEAD as u64,
    })
}

/// Decodes the blocks in a zstd file's frames, one in each.
///
/// # Errors
/// See [`Failure`]. Damage is none: what is before it is unpacked.
pub(crate) fn unpack_frames(
    packed: &FileBytes,
    out: &File,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    let parts = Parts::Frames(Frames::new(packed));
    let fetch = || {
        let mut inflater = Inflater::new(packed);
        move |frame: Frame, nth: u64, block: &mut Vec<u8>| {
            // The first tells how the file was made. Behind a block, what is none is damage.
            let no_block = || match nth {
                0 => Broken::Failure(Failure::NotBlocks),
                _ => Broken::Damage(0, "a frame that is no block of a dense stream".to_owned()),
            };
            let size = frame.content.filter(|&size| size <= LARGEST as u64);
            let size = size.ok_or_else(no_block)?;
            let inflated = inflater.frame(frame, size, &mut |bytes, _| {
                block.extend_from_slice(bytes);
                Ok(())
            });
            match (inflated, Head::parse(block)) {
                (Ok(_), Ok(head)) if HEAD + head.body == block.len() => Ok(()),
                (Ok(_), _) => Err(no_block()),
                // More than one block was in it, and the first ones may be whole.
                (Err(Broken::Damage(..)), Ok(head))
                    if nth == 0 && ((HEAD + head.body) as u64) < size =>
                {
                    Err(no_block())
                }
                (Err(Broken::Damage(_, what)), _) => Err(Broken::Damage(0, what)),
                (Err(broken), _) => Err(broken),
            }
        }
    };
    all(parts, packed.size(), &fetch, out, limits, progress)
}

/// Decodes a stream that is not compressed.
///
/// # Errors
/// See [`Failure`]. Damage is none: what is before it is unpacked.
pub(crate) fn unpack_stream(
    stream: &FileBytes,
    out: &File,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    let parts = Parts::Blocks(Blocks::new(stream));
    let fetch = || {
        move |part: Frame, _, block: &mut Vec<u8>| {
            if part.cut {
                let what = "the file ends within this block".to_owned();
                return Err(Broken::Damage(0, what));
            }
            // All of it is in the file, and it is no larger than LARGEST, or its head was none.
            block.resize(usize::try_from(part.size).unwrap_or(LARGEST), 0);
            let read = stream.read_at(part.offset, block);
            let read = read.map_err(|error| Broken::Failure(Failure::Input(error)))?;
            block.truncate(read);
            Ok(())
        }
    };
    all(parts, stream.size(), &fetch, out, limits, progress)
}

/// Gets a part's block, and how many come before it, into an empty buffer.
trait Fetch: FnMut(Frame, u64, &mut Vec<u8>) -> Result<(), Broken> {}
impl<F: FnMut(Frame, u64, &mut Vec<u8>) -> Result<(), Broken>> Fetch for F {}

fn all<F: Fetch>(
    parts: Parts<'_>,
    size: u64,
    fetch: &(impl Fn() -> F + Sync),
    out: &File,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    let state = Mutex::new((State::new(parts), None));
    let work = || {
        let worker = Worker {
            fetch: fetch(),
            decoder: Decoder::new(),
            block: Vec::new(),
            plain: Vec::new(),
            out,
        };
        worker.run(&state, limits.most, progress);
    };
    in_parallel(limits.jobs, work);
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut state, last) = state;
    match last {
        Some(Last { nth, bytes, .. }) if nth + 1 == state.begun => state.ends(bytes),
        Some(Last { bytes, end, .. }) => {
            let what = "it follows the last block of a dense stream".to_owned();
            state.damaged(bytes, end, what);
        }
        None => {
            let what = "the last block of the dense stream is not there".to_owned();
            state.damaged(state.begun * BLOCK as u64, size, what);
        }
    }
    state.finish(out)
}

/// The first block that is not full.
struct Last {
    /// How many blocks come before it.
    nth: u64,
    /// Bytes of the trace up to its end.
    bytes: u64,
    /// Where it ends in the file.
    end: u64,
}

/// One thread's buffers.
struct Worker<'a, F> {
    fetch: F,
    decoder: Decoder,
    block: Vec<u8>,
    plain: Vec<u8>,
    out: &'a File,
}

impl<F: Fetch> Worker<'_, F> {
    fn run(
        mut self,
        state: &Mutex<(State<'_>, Option<Last>)>,
        most: u64,
        progress: &(dyn Fn(u64) + Sync),
    ) {
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut shared = lock();
            let nth = shared.0.begun;
            let Some(part) = shared.0.next() else { return };
            let start = nth * BLOCK as u64;
            shared.0.out = start + BLOCK as u64;
            drop(shared);
            let done = self.block(part, nth, most);
            let mut shared = lock();
            let (state, last) = &mut *shared;
            match done {
                Ok(BLOCK) => progress(BLOCK as u64),
                Ok(bytes) => {
                    progress(bytes as u64);
                    if last.as_ref().is_none_or(|last| nth < last.nth) {
                        *last = Some(Last {
                            nth,
                            bytes: start + bytes as u64,
                            end: part.offset + part.size,
                        });
                    }
                }
                Err(broken) => state.broken(part, start, broken),
            }
        }
    }

    /// Decodes one block to its place; returns how many bytes it stands for.
    fn block(&mut self, part: Frame, nth: u64, most: u64) -> Result<usize, Broken> {
        let start = nth * BLOCK as u64;
        let damaged = |what: String| Broken::Damage(0, what);
        self.block.clear();
        (self.fetch)(part, nth, &mut self.block)?;
        let head = Head::parse(&self.block).map_err(|what| damaged(what.to_owned()))?;
        if head.offset != start {
            let what = format!(
                "a block of byte {} where that of {start} should be",
                head.offset
            );
            return Err(damaged(what));
        }
        if start + head.plain as u64 > most {
            return Err(Broken::Failure(Failure::TooMuch));
        }
        let decoded = self.decoder.block(&self.block, &mut self.plain);
        decoded.map_err(|dense::Fault { offset, what }| {
            damaged(format!("at byte {offset} of the block: {what}"))
        })?;
        for (nth, piece) in self.plain.chunks(PIECE).enumerate() {
            let written = write(self.out, piece, start + (nth * PIECE) as u64);
            written.map_err(|error| Broken::Failure(Failure::Output(error)))?;
        }
        Ok(self.plain.len())
    }
}
