//! Unpacks a zstd file into another, frame by frame, several frames at a time. Must never write more than
//! it was allowed, nor give back bytes that follow damage.
//!
//! Memory: for each worker the window that its frame asks for, at most [`LARGEST_WINDOW`], and two
//! buffers.

use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use fdr_formats::bytes::{FileBytes, ReadAt};
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::frames::{Fault, Frame, Frames};

/// Bytes of the largest window, as a power of two: 128 MiB, what `zstd` itself takes without being asked.
const LARGEST_WINDOW: u32 = 27;
const BUFFER: usize = 128 << 10;

/// What was unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Where it ended too early.
    pub(crate) damage: Option<Fault>,
}

/// Why nothing was unpacked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The compressed file can't be read.
    Input(io::Error),
    /// The other can't be written.
    Output(io::Error),
    /// There are more bytes in it than were allowed.
    TooMuch,
}

/// A file's content from its beginning on, for who wants the first of it alone.
///
/// # Errors
/// Where there is no memory for it.
pub(super) fn decoder(packed: &File) -> io::Result<impl io::Read> {
    let mut packed = packed.try_clone()?;
    packed.rewind()?;
    let mut decoder = zstd::stream::read::Decoder::new(packed)?;
    decoder.window_log_max(LARGEST_WINDOW)?;
    Ok(decoder)
}

/// What the workers share.
struct State<'a> {
    frames: Frames<'a>,
    /// Where the next frame's bytes go.
    out: u64,
    /// The earliest damage: how far the bytes before it go.
    damage: Option<(u64, Fault)>,
    failure: Option<Failure>,
    /// No frame is begun any more.
    over: bool,
}

/// Where something goes wrong within a frame.
enum Broken {
    Failure(Failure),
    /// So many bytes are good.
    Damage(u64, String),
}

/// Unpacks all frames into an empty file; at most `most` bytes.
///
/// # Errors
/// See [`Failure`]. Damage is none: what is before it is unpacked.
pub(crate) fn unpack(
    packed: &FileBytes,
    out: &File,
    most: u64,
    jobs: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    if declared(packed, most).map_err(Failure::Input)? > most {
        return Err(Failure::TooMuch);
    }
    let state = Mutex::new(State {
        frames: Frames::new(packed),
        out: 0,
        damage: None,
        failure: None,
        over: false,
    });
    let work = || Worker::new(packed, out, progress).run(&state, most);
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = state.failure {
        return Err(failure);
    }
    let (bytes, damage) = match state.damage {
        Some((bytes, fault)) => (bytes, Some(fault)),
        None => (state.out, None),
    };
    // Zeros at the end were not written.
    out.set_len(bytes).map_err(Failure::Output)?;
    Ok(Unpacked { bytes, damage })
}

/// How much the frames say that they hold, before any is unpacked; not counted on once it is over `most`.
fn declared(packed: &FileBytes, most: u64) -> io::Result<u64> {
    let (mut frames, mut sum) = (Frames::new(packed), 0_u64);
    while sum <= most {
        let Some(Ok(frame)) = frames.next()? else {
            break;
        };
        sum = sum.saturating_add(frame.content.unwrap_or(0));
    }
    Ok(sum)
}

impl State<'_> {
    fn damaged(&mut self, intact: u64, offset: u64, what: String) {
        self.over = true;
        if self
            .damage
            .as_ref()
            .is_none_or(|(first, _)| intact < *first)
        {
            self.damage = Some((intact, Fault { offset, what }));
        }
    }

    fn failed(&mut self, failure: Failure) {
        self.over = true;
        self.failure.get_or_insert(failure);
    }

    fn broken(&mut self, frame: Frame, start: u64, broken: Broken) {
        match broken {
            Broken::Failure(failure) => self.failed(failure),
            Broken::Damage(good, what) => self.damaged(start + good, frame.offset, what),
        }
    }

    /// The next frame, if there is one.
    fn next(&mut self) -> Option<Frame> {
        if self.over {
            return None;
        }
        match self.frames.next() {
            Ok(Some(Ok(frame))) => return Some(frame),
            Ok(Some(Err(Fault { offset, what }))) => self.damaged(self.out, offset, what),
            Ok(None) => self.over = true,
            Err(error) => self.failed(Failure::Input(error)),
        }
        None
    }
}

/// One thread's buffers.
struct Worker<'a> {
    packed: &'a FileBytes,
    out: &'a File,
    progress: &'a (dyn Fn(u64) + Sync),
    input: Vec<u8>,
    output: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(packed: &'a FileBytes, out: &'a File, progress: &'a (dyn Fn(u64) + Sync)) -> Self {
        Worker {
            packed,
            out,
            progress,
            input: vec![0; BUFFER],
            output: vec![0; BUFFER],
        }
    }

    fn run(mut self, state: &Mutex<State<'_>>, most: u64) {
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut shared = lock();
            let Some(frame) = shared.next() else { return };
            let (start, left) = (shared.out, most.saturating_sub(shared.out));
            match frame.content {
                Some(content) if content > left => shared.failed(Failure::TooMuch),
                Some(content) => {
                    shared.out += content;
                    drop(shared);
                    if let Err(broken) = self.frame(frame, start, content) {
                        lock().broken(frame, start, broken);
                    }
                }
                // Where the next one begins is known at the end of this one.
                None => match self.frame(frame, start, left) {
                    Ok(bytes) => shared.out += bytes,
                    Err(broken) => shared.broken(frame, start, broken),
                },
            }
        }
    }

    /// Unpacks one frame, of at most `most` bytes; returns how many they are.
    fn frame(&mut self, frame: Frame, start: u64, most: u64) -> Result<u64, Broken> {
        let input = |error| Broken::Failure(Failure::Input(error));
        // What a damaged frame gave before it was found out can't be told from what it should have given.
        let damaged = |error: io::Error| Broken::Damage(0, error.to_string());
        let mut decoder = Decoder::new().map_err(input)?;
        let largest = DParameter::WindowLogMax(LARGEST_WINDOW);
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
            // What is in the decoder comes out although there is nothing more to put in.
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
                        Some(_) => Broken::Damage(0, "it holds more than it says".to_owned()),
                        None => Broken::Failure(Failure::TooMuch),
                    });
                }
                let written = self.write(step.bytes_written, start + given);
                written.map_err(|error| Broken::Failure(Failure::Output(error)))?;
                given += bytes;
                (self.progress)(bytes);
                if step.remaining == 0 {
                    return self.finished(frame, given, taken + used as u64);
                }
                if step.bytes_read == 0 && step.bytes_written == 0 {
                    break;
                }
            }
            taken += read as u64;
        }
        Err(Broken::Damage(
            given,
            "the file ends within this frame".to_owned(),
        ))
    }

    /// A frame's own word about its size, and where it ends.
    fn finished(&self, frame: Frame, given: u64, taken: u64) -> Result<u64, Broken> {
        if frame.content.is_some_and(|content| content != given) || taken != frame.size {
            return Err(Broken::Damage(0, "its sizes disagree".to_owned()));
        }
        Ok(given)
    }

    /// Zeros are left out: a file has them where nothing was written, and rings are full of them.
    fn write(&self, count: usize, at: u64) -> io::Result<()> {
        let bytes = &self.output[..count];
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        self.out.write_all_at(bytes, at)
    }
}
