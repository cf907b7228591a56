//! Compresses into a zstd file of many frames, several at a time, so that it can be unpacked so, too.
//! Each frame has its size and a checksum. Must never hold more than a frame for each worker.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, PoisonError};

use zstd::bulk::Compressor;

/// Bytes of a frame when unpacked: larger ones save less than 1 % of the file, and leave less to do at the
/// same time.
pub(crate) const FRAME: usize = 4 << 20;

/// What was packed, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// Whose fault it is.
#[derive(Debug)]
pub(crate) enum Failure {
    Input(io::Error),
    Output(io::Error),
}

/// Where the frames come from, and the number of the next.
struct Inlet<R> {
    from: R,
    next: u64,
}

/// Where they go, in order.
struct Outlet<W> {
    to: W,
    next: u64,
    done: Packed,
    failure: Option<Failure>,
}

/// Reads to the end, and writes it compressed.
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
    let inlet = Mutex::new(Inlet { from, next: 0 });
    let outlet = Mutex::new(Outlet {
        to,
        next: 0,
        done: Packed::default(),
        failure: None,
    });
    let turn = Condvar::new();
    let work = || {
        let _ended = Ended {
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
struct Ended<'a, W> {
    outlet: &'a Mutex<Outlet<W>>,
    turn: &'a Condvar,
}

impl<W> Drop for Ended<'_, W> {
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
    let mut compressor = begin(level);
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    loop {
        let mut inlet = inlet.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = inlet.next;
        inlet.next += 1;
        plain.clear();
        let read = inlet
            .from
            .by_ref()
            .take(FRAME as u64)
            .read_to_end(&mut plain);
        drop(inlet);
        let made = read.map_err(Failure::Input).and_then(|_| {
            let compressor = compressor.as_mut().map_err(|error| {
                Failure::Output(io::Error::new(error.kind(), error.to_string()))
            })?;
            packed.resize(zstd::zstd_safe::compress_bound(plain.len()), 0);
            let size = compressor.compress_to_buffer(&plain, &mut packed[..]);
            size.map_err(Failure::Output)
        });

        let outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |outlet: &mut Outlet<W>| outlet.next != nth && outlet.failure.is_none();
        let outlet = turn.wait_while(outlet, waits);
        let mut outlet = outlet.unwrap_or_else(PoisonError::into_inner);
        if outlet.failure.is_some() {
            return;
        }
        outlet.next += 1;
        // The end is a frame of nothing; whoever comes after it finds the same.
        let result = made.and_then(|size| match plain.is_empty() {
            true => Ok(0),
            false => {
                let written = outlet.to.write_all(&packed[..size]);
                written.map(|()| size).map_err(Failure::Output)
            }
        });
        turn.notify_all();
        match result {
            Ok(0) => return,
            Ok(size) => {
                outlet.done.before += plain.len() as u64;
                outlet.done.after += size as u64;
                progress(plain.len() as u64);
            }
            Err(failure) => {
                outlet.failure = Some(failure);
                return;
            }
        }
    }
}

fn begin(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    compressor.include_contentsize(true)?;
    Ok(compressor)
}
