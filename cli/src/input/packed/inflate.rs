//! One frame of zstd's, unpacked piece by piece: each piece goes wherever the caller puts it.
//!
//! Memory: the window that a frame asks for, at most [`MAX_WINDOW`], and two buffers. Of frames with large
//! windows one is unpacked at a time, however many threads there are.

use std::fs::File;
use std::io::{self, Seek};
use std::sync::{Mutex, PoisonError};

use fdr_formats::bytes::ReadAt;
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::frames::{self, Frame};
use crate::memory::{self, BorrowedMemory};

/// The base-2 logarithm of the largest window in bytes: 128 MiB, which is the default limit of `zstd` itself.
const MAX_WINDOW: u32 = 27;
const BUFFER: usize = 128 << 10;
/// Windows of up to this many bytes may be in all threads at the same time. The frames that we write need half of it.
const SMALL_WINDOW: u64 = 8 << 20;

/// Why nothing was unpacked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The compressed file can't be read.
    Input(io::Error),
    /// The other can't be written.
    Output(io::Error),
    /// There are more bytes in it than were allowed.
    MemoryRefusal,
}

/// Where something goes wrong within a part.
pub(super) enum InflateError {
    Failure(Failure),
    /// The number of good bytes before the damage, and the error.
    Damage(u64, String),
}

/// Held while a frame with a large window is unpacked.
static LARGE: Mutex<()> = Mutex::new(());

/// Unpacks a file from its beginning, for callers that need only the first bytes.
///
/// # Errors
/// Where there is no memory for it.
pub(super) fn decoder(packed: &File) -> io::Result<impl io::Read> {
    let mut packed = packed.try_clone()?;
    packed.rewind()?;
    let mut decoder = zstd::stream::read::Decoder::new(packed)?;
    decoder.window_log_max(MAX_WINDOW)?;
    Ok(decoder)
}

/// One thread's buffers.
pub(super) struct Inflater<'a> {
    packed: &'a dyn ReadAt,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl<'a> Inflater<'a> {
    pub(super) fn new(packed: &'a dyn ReadAt) -> Inflater<'a> {
        Inflater {
            packed,
            input: vec![0; BUFFER],
            output: vec![0; BUFFER],
        }
    }

    /// Unpacks one frame, of at most `most` bytes; returns how many they are. `put` takes each piece, and
    /// how many bytes came before it.
    pub(super) fn frame(
        &mut self,
        frame: Frame,
        most: u64,
        put: &mut dyn FnMut(&[u8], u64) -> io::Result<()>,
    ) -> Result<u64, InflateError> {
        let input = |error| InflateError::Failure(Failure::Input(error));
        // Discards the bytes of a damaged frame, because any of them may be wrong.
        let damaged = |error: io::Error| InflateError::Damage(0, error.to_string());
        let read = self.packed.read_at(frame.offset, &mut self.input);
        let head = self.input.get(..read.map_err(input)?).unwrap_or(&[]);
        let window = frames::window(head).min(1 << MAX_WINDOW);
        let large = (window > SMALL_WINDOW).then(|| LARGE.lock());
        let _large = large.map(|locked| locked.unwrap_or_else(PoisonError::into_inner));
        let _window = BorrowedMemory::new(window);
        memory::check().map_err(input)?;
        let mut decoder = Decoder::new().map_err(input)?;
        let largest = DParameter::WindowLogMax(MAX_WINDOW);
        decoder.set_parameter(largest).map_err(input)?;
        let (mut taken, mut given) = (0, 0);
        while taken < frame.size {
            let want = usize::try_from(frame.size - taken).map_or(BUFFER, |left| left.min(BUFFER));
            let read = self
                .packed
                .read_at(frame.offset + taken, &mut self.input[..want]);
            let read = read.map_err(input)?;
            if read == 0 {
                break;
            }
            let (mut used, mut full) = (0, true);
            // The decoder may hold output even after it has taken all input.
            while used < read || full {
                let rest = &self.input[used..read];
                let step = decoder
                    .run_on_buffers(rest, &mut self.output)
                    .map_err(damaged)?;
                used += step.bytes_read;
                full = step.bytes_written == self.output.len();
                let bytes = step.bytes_written as u64;
                if bytes > most - given {
                    return Err(match frame.content {
                        Some(_) => InflateError::Damage(0, "it holds more than it says".to_owned()),
                        None => InflateError::Failure(Failure::MemoryRefusal),
                    });
                }
                let written = put(&self.output[..step.bytes_written], given);
                written.map_err(|error| InflateError::Failure(Failure::Output(error)))?;
                given += bytes;
                if step.remaining == 0 {
                    return finished(frame, given, taken + used as u64);
                }
                if step.bytes_read == 0 && step.bytes_written == 0 {
                    break;
                }
            }
            taken += read as u64;
        }
        Err(InflateError::Damage(
            given,
            "the file ends within this frame".to_owned(),
        ))
    }
}

/// A frame's own word about its size, and where it ends.
fn finished(frame: Frame, given: u64, taken: u64) -> Result<u64, InflateError> {
    if frame.content.is_some_and(|content| content != given) || taken != frame.size {
        return Err(InflateError::Damage(0, "its sizes disagree".to_owned()));
    }
    Ok(given)
}
