//! Writes the bytes of a peer into a file as they arrive.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::peers::Peer;
use crate::output_file::Pending;
use crate::signals::Stop;
use crate::ui::Arrivals;

const BUFFER: usize = 256 << 10;

/// How a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed it.
    Closed,
    /// It broke.
    Broken(io::Error),
    /// As much came as is wanted.
    Limit,
    /// A signal asked for the end.
    Stopped,
    /// The received bytes can't be written.
    WriteFailed(io::Error),
}

/// What came.
#[derive(Debug)]
pub(super) struct Received {
    /// Where it is; `None`: nothing came.
    pub(super) pending: Option<Pending>,
    pub(super) bytes: u64,
    /// From the first byte to the end.
    pub(super) time: Duration,
    pub(super) end: End,
}

/// Receives until the peer, the limit or a signal ends it. `make` gives the file, when something has
/// come.
///
/// # Errors
/// Where there is no file.
pub(super) fn receive(
    peer: &mut Peer,
    make: impl FnOnce() -> anyhow::Result<(Pending, File)>,
    limit: Option<u64>,
    stop: &Stop,
    progress: &Arrivals,
) -> anyhow::Result<Received> {
    let mut buffer = vec![0; BUFFER];
    let first = next(peer, &mut buffer, limit, stop);
    let mut received = Received {
        pending: None,
        bytes: 0,
        time: Duration::ZERO,
        end: End::Closed,
    };
    let mut count = match first {
        Ok(count) => count,
        Err(end) => {
            received.end = end;
            return Ok(received);
        }
    };
    let begun = Instant::now();
    let (pending, mut file) = make()?;
    received.pending = Some(pending);
    received.end = loop {
        if let Err(error) = file.write_all(&buffer[..count]) {
            break End::WriteFailed(error);
        }
        progress.add(count as u64);
        received.bytes += count as u64;
        let left = limit.map(|limit| limit.saturating_sub(received.bytes));
        match next(peer, &mut buffer, left, stop) {
            Ok(more) => count = more,
            Err(end) => break end,
        }
    };
    received.time = begun.elapsed();
    Ok(received)
}

/// Waits for more bytes. Returns how many bytes of the buffer are filled, at least one.
fn next(peer: &mut Peer, buffer: &mut [u8], left: Option<u64>, stop: &Stop) -> Result<usize, End> {
    let most = left.map_or(buffer.len(), |left| {
        usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()))
    });
    if most == 0 {
        return Err(End::Limit);
    }
    if !peer.head.is_empty() {
        let count = peer.head.len().min(most);
        buffer[..count].copy_from_slice(&peer.head[..count]);
        peer.head.drain(..count);
        return Ok(count);
    }
    loop {
        match stop.wait_for(Some(peer.stream.as_fd()), None) {
            Ok(true) => {}
            Ok(false) => return Err(End::Stopped),
            Err(error) => return Err(End::Broken(error)),
        }
        match peer.stream.read(&mut buffer[..most]) {
            Ok(0) => return Err(End::Closed),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process reads the same standard input and took the bytes.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(End::Broken(error)),
        }
    }
}
