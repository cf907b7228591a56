//! Compresses into a zstd file of many frames, several at a time, so that several can be unpacked at a time, too. Each
//! frame has its size and a checksum.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, PoisonError};

use zstd::bulk::Compressor;

/// Bytes of an unpacked frame. Larger frames make the file less than 1 % smaller, but fewer cores can work at the same
/// time.
pub(crate) const FRAME: usize = 4 << 20;

/// What was packed, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// Which side failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Input(io::Error),
    Output(io::Error),
}

/// Where the frames come from, and the number of the next.
struct Inlet<R> {
    from: R,
    next: u64,
    /// The end was read.
    over: bool,
}

/// Where they go, in order.
struct Outlet<W> {
    to: W,
    next: u64,
    done: Packed,
    failure: Option<Failure>,
}

/// Reads to the end, and writes it compressed. `level` is one of zstd's.
///
/// # Errors
/// Where one can't be read, or the other not be written.
pub(crate) fn pack<W: Write + Send>(
    from: impl Read + Send,
    to: W,
    level: i32,
    jobs: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Packed, Failure> {
    let inlet = Mutex::new(Inlet {
        from,
        next: 0,
        over: false,
    });
    let outlet = Mutex::new(Outlet {
        to,
        next: 0,
        done: Packed::default(),
        failure: None,
    });
    let turn = Condvar::new();
    let work = || {
        let _ended = EndGuard {
            outlet: &outlet,
            turn: &turn,
        };
        work(&inlet, &outlet, &turn, level, progress);
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let outlet = outlet.into_inner().unwrap_or_else(PoisonError::into_inner);
    match outlet.failure {
        None => Ok(outlet.done),
        Some(failure) => Err(failure),
    }
}

/// A worker that ends with a panic takes the others with it: they would wait for its frame.
struct EndGuard<'a, W> {
    outlet: &'a Mutex<Outlet<W>>,
    turn: &'a Condvar,
}

impl<W> Drop for EndGuard<'_, W> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        let panicked = || Failure::Output(io::Error::other("a thread panicked"));
        outlet.failure.get_or_insert_with(panicked);
        self.turn.notify_all();
    }
}

fn work<W: Write>(
    inlet: &Mutex<Inlet<impl Read>>,
    outlet: &Mutex<Outlet<W>>,
    turn: &Condvar,
    level: i32,
    progress: &(dyn Fn(u64) + Sync),
) {
    let mut worker = Worker::new(level);
    loop {
        let mut inlet = inlet.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = inlet.next;
        if inlet.over {
            return;
        }
        inlet.next += 1;
        let read = worker.read(&mut inlet.from);
        inlet.over = !matches!(read, Ok(FRAME));
        drop(inlet);
        let made = read.map_err(Failure::Input);
        let made = made.and_then(|_| worker.pack().map_err(Failure::Output));

        let outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |outlet: &mut Outlet<W>| outlet.next != nth && outlet.failure.is_none();
        let outlet = turn.wait_while(outlet, waits);
        let mut outlet = outlet.unwrap_or_else(PoisonError::into_inner);
        if outlet.failure.is_some() {
            return;
        }
        outlet.next += 1;
        let result = made.and_then(|size| {
            let written = outlet.to.write_all(&worker.packed[..size]);
            written.map(|()| size).map_err(Failure::Output)
        });
        turn.notify_all();
        match result {
            Ok(size) => {
                let before = worker.plain.len() as u64;
                outlet.done.before += before;
                outlet.done.after += size as u64;
                progress(before);
            }
            Err(failure) => {
                outlet.failure = Some(failure);
                return;
            }
        }
    }
}

/// One thread's buffers.
struct Worker {
    compressor: io::Result<Compressor<'static>>,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Worker {
    fn new(level: i32) -> Worker {
        Worker {
            compressor: begin(level),
            plain: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Takes what a frame holds; fewer bytes only at the end.
    fn read(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.plain.clear();
        from.take(FRAME as u64).read_to_end(&mut self.plain)
    }

    /// Compresses it; returns how many bytes it became.
    fn pack(&mut self) -> io::Result<usize> {
        // The bytes ended with the frame before.
        if self.plain.is_empty() {
            return Ok(0);
        }
        let again = |error: &mut io::Error| io::Error::new(error.kind(), error.to_string());
        let compressor = self.compressor.as_mut().map_err(again)?;
        self.packed
            .resize(zstd::zstd_safe::compress_bound(self.plain.len()), 0);
        compressor.compress_to_buffer(&self.plain, &mut self.packed[..])
    }
}

fn begin(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    compressor.include_contentsize(true)?;
    Ok(compressor)
}
