//! Unpacks a zstd file into another, frame by frame, several frames at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use fdr_formats::bytes::FileBytes;

use super::frames::{Fault, Frame, Frames};
use super::inflate::{Failure, InflateError, Inflater};

/// What was unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Where it ended too early.
    pub(crate) damage: Option<Fault>,
}

/// How much may be done.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes to unpack.
    pub(crate) most: u64,
    /// Threads.
    pub(crate) jobs: usize,
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

/// Unpacks all frames into an empty file.
///
/// # Errors
/// See [`Failure`]. Damage is not an error: the bytes before it are unpacked.
pub(crate) fn unpack(
    packed: &FileBytes,
    out: &File,
    Limits { most, jobs }: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    if declared(packed, most).map_err(Failure::Input)? > most {
        return Err(Failure::MemoryRefusal);
    }
    let state = Mutex::new(State::new(Frames::new(packed)));
    let work = || {
        let inflater = Inflater::new(packed);
        run(inflater, out, &state, most, progress);
    };
    in_parallel(jobs, work);
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.finish(out)
}

/// Does the same on several threads.
pub(super) fn in_parallel(jobs: usize, work: impl Fn() + Copy + Send) {
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
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

impl<'a> State<'a> {
    fn new(frames: Frames<'a>) -> State<'a> {
        State {
            frames,
            out: 0,
            damage: None,
            failure: None,
            over: false,
        }
    }

    fn damaged(&mut self, intact: u64, offset: u64, what: String) {
        self.over = true;
        if self
            .damage
            .as_ref()
            .is_none_or(|(first, _)| intact < *first)
        {
            self.damage = Some((intact, Fault::new(offset, what)));
        }
    }

    fn failed(&mut self, failure: Failure) {
        self.over = true;
        self.failure.get_or_insert(failure);
    }

    fn broken(&mut self, frame: Frame, start: u64, broken: InflateError) {
        match broken {
            InflateError::Failure(failure) => self.failed(failure),
            InflateError::Damage(good, what) => self.damaged(start + good, frame.offset, what),
        }
    }

    /// The next frame, if there is one.
    fn next(&mut self) -> Option<Frame> {
        if self.over {
            return None;
        }
        match self.frames.next() {
            Ok(Some(Ok(frame))) => return Some(frame),
            Ok(Some(Err(fault))) => self.damaged(self.out, fault.offset, fault.what),
            Ok(None) => self.over = true,
            Err(error) => self.failed(Failure::Input(error)),
        }
        None
    }

    /// What came of it, when all workers have ended.
    fn finish(self, out: &File) -> Result<Unpacked, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (bytes, damage) = match self.damage {
            Some((bytes, fault)) => (bytes, Some(fault)),
            None => (self.out, None),
        };
        // Zeros at the end were not written.
        out.set_len(bytes).map_err(Failure::Output)?;
        Ok(Unpacked { bytes, damage })
    }
}

/// One thread's work.
fn run(
    mut inflater: Inflater<'_>,
    out: &File,
    state: &Mutex<State<'_>>,
    most: u64,
    progress: &(dyn Fn(u64) + Sync),
) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut unpack = |frame, start, most| {
        inflater.frame(frame, most, &mut |bytes, given| {
            progress(bytes.len() as u64);
            write(out, bytes, start + given)
        })
    };
    loop {
        let mut shared = lock();
        let Some(frame) = shared.next() else { return };
        let (start, left) = (shared.out, most.saturating_sub(shared.out));
        match frame.content {
            Some(content) if content > left => shared.failed(Failure::MemoryRefusal),
            Some(content) => {
                shared.out += content;
                drop(shared);
                if let Err(broken) = unpack(frame, start, content) {
                    lock().broken(frame, start, broken);
                }
            }
            // Where the next one begins is known at the end of this one.
            None => match unpack(frame, start, left) {
                Ok(bytes) => shared.out += bytes,
                Err(broken) => shared.broken(frame, start, broken),
            },
        }
    }
}

/// Zeros are left out: a file has them where nothing was written, and rings are full of them.
pub(super) fn write(out: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    out.write_all_at(bytes, at)
}
