//! Connections that have not sent the token yet. Any user of the machine can make some, as many as they like. One thread
//! holds them all. If there are too many, the oldest is closed. A connection whose request has the token leaves them, and
//! is served by a thread of its own. So connections without the token take no place from those that have it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::http::{self, Answer, Incoming, Progress, Request};

/// Connections that wait at the same time.
const MAX_WAITING: usize = 256;
/// Connections that are taken before all are read again. It is less than [`MAX_WAITING`], so a request that is there is read
/// before its connection can become the oldest.
const MAX_ACCEPTS: usize = 16;
/// A request has to be there by then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// If an answer's connection were closed before the peer has sent all, the peer would not get the answer.
const FAREWELL: Duration = Duration::from_millis(200);

/// A connection that waits, or that has its answer.
struct Connection {
    stream: TcpStream,
    incoming: Incoming,
    /// When it is closed.
    end: Instant,
    is_answered: bool,
}

/// What is done with a request.
pub(super) enum Decision {
    /// It has the token: this serves the connection.
    Serve(Box<dyn FnOnce(TcpStream)>),
    Refuse(Answer),
}

/// Takes connections for as long as the process lives. `decide` is asked about each request.
pub(super) fn take_all(listener: &TcpListener, decide: &dyn Fn(Request) -> Decision) {
    let mut waiting: VecDeque<Connection> = VecDeque::new();
    loop {
        let (is_new, readable) = wait(listener, &waiting);
        let mut places = readable.into_iter();
        let now = Instant::now();
        let open = std::mem::take(&mut waiting).into_iter();
        waiting.extend(open.filter_map(|connection| {
            let is_readable = places.next() == Some(true);
            match is_readable && connection.end > now {
                true => read(connection, decide),
                false => Some(connection).filter(|connection| connection.end > now),
            }
        }));
        for _ in 0..if is_new { MAX_ACCEPTS } else { 0 } {
            match listener.accept().and_then(|(stream, _)| begin(stream)) {
                Ok(connection) => {
                    waiting.push_back(connection);
                    if waiting.len() > MAX_WAITING {
                        waiting.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // No descriptor is left, for instance.
                    if waiting.pop_front().is_none() {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    break;
                }
            }
        }
    }
}

fn begin(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nonblocking(true)?;
    Ok(Connection {
        stream,
        incoming: Incoming::default(),
        end: Instant::now() + REQUEST_TIMEOUT,
        is_answered: false,
    })
}

/// Waits until a peer connects, a connection can be read, or a connection has waited too long. Returns whether there is
/// a new peer, and which of the connections can be read.
fn wait(listener: &TcpListener, waiting: &VecDeque<Connection>) -> (bool, Vec<bool>) {
    let end = waiting.iter().map(|connection| connection.end).min();
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    let timeout = left.map_or(PollTimeout::NONE, |left| {
        // Rounded up: a wait that ends early would be a busy one.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    let streams = waiting.iter().map(|connection| connection.stream.as_fd());
    let all = std::iter::once(listener.as_fd()).chain(streams);
    let mut places: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    if poll(&mut places, timeout).is_err() {
        return (false, Vec::new());
    }
    let mut ready = places.iter().map(|place| place.any().unwrap_or(true));
    (ready.next() == Some(true), ready.collect())
}

/// Reads what came. `None`: it waits no longer.
fn read(mut connection: Connection, decide: &dyn Fn(Request) -> Decision) -> Option<Connection> {
    if connection.is_answered {
        let left = connection.stream.read(&mut [0; 1024]);
        return left.is_ok_and(|count| count > 0).then_some(connection);
    }
    let answer = match connection.incoming.read(&mut connection.stream) {
        Progress::Partial => return Some(connection),
        Progress::Gone => return None,
        Progress::Bad(status, words) => Answer::text(status, words),
        Progress::Whole(request) => match decide(request) {
            Decision::Refuse(answer) => answer,
            Decision::Serve(serve) => {
                if connection.stream.set_nonblocking(false).is_ok() {
                    serve(connection.stream);
                }
                return None;
            }
        },
    };
    // It is short, so there is room for it. A peer that does not listen is no trouble of ours.
    let _ = http::put(&mut connection.stream, &answer);
    let _ = connection.stream.shutdown(Shutdown::Write);
    connection.is_answered = true;
    connection.end = Instant::now() + FAREWELL;
    Some(connection)
}
