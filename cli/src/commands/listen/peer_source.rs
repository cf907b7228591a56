//! Where streams come from: a socket that programs connect to, one that a program listens at, or standard input.

use std::io::{self, IsTerminal};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fdr_formats::address::Address;

use super::newcomers::Newcomers;
use super::peers::{Listener, Peer, bind, peer};
use crate::signals::Stop;
use crate::ui::Arrivals;

/// Between two attempts to connect.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long one attempt to connect waits for the host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Gives one peer after the other.
#[derive(Debug)]
pub(super) enum PeerSource {
    /// Standard input, once.
    Standard { taken: bool },
    /// Programs connect, and others may, too.
    Listens {
        listener: Listener,
        newcomers: Newcomers,
    },
    /// A program listens.
    Connects { address: String },
}

impl PeerSource {
    /// Opens it.
    ///
    /// # Errors
    /// Where the address is taken or no such host is known.
    pub(super) fn open(address: &Address) -> anyhow::Result<PeerSource> {
        let named = || address.to_string();
        match address {
            Address::Stdout if io::stdin().is_terminal() => {
                bail!("-: a stream does not come from a terminal; pipe a program into fdr listen")
            }
            Address::Stdout => Ok(PeerSource::Standard { taken: false }),
            Address::Connect(end) => {
                let listener = TcpListener::bind(end).with_context(named)?;
                listener.set_nonblocking(true).with_context(named)?;
                Ok(PeerSource::listens(Listener::Tcp(listener)))
            }
            Address::Unix(path) => {
                let (listener, socket) = bind(path).with_context(named)?;
                Ok(PeerSource::listens(Listener::Unix {
                    listener,
                    _socket: socket,
                }))
            }
            Address::Listen(end) => {
                end.to_socket_addrs().with_context(named)?;
                Ok(PeerSource::Connects {
                    address: end.clone(),
                })
            }
        }
    }

    /// Words about what the command waits for. They have the actual port.
    pub(super) fn in_words(&self, address: &Address) -> String {
        match self {
            PeerSource::Standard { .. } => "reading standard input".to_owned(),
            PeerSource::Listens {
                listener: Listener::Tcp(listener),
                ..
            } => {
                let port = listener.local_addr().map_or(0, |local| local.port());
                let asked = address.to_string();
                let (host, _) = asked.rsplit_once(':').unwrap_or((&asked, ""));
                format!("listening at {host}:{port} (FDR_OUT={host}:{port})")
            }
            PeerSource::Listens { .. } => format!("listening at {address} (FDR_OUT={address})"),
            PeerSource::Connects { .. } => format!("waiting for a program with FDR_OUT={address}"),
        }
    }

    fn listens(listener: Listener) -> PeerSource {
        PeerSource::Listens {
            listener,
            newcomers: Newcomers::default(),
        }
    }

    /// Whether several peers may send at the same time.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, PeerSource::Listens { .. })
    }

    /// Waits for the next peer. `None`: `end` has come first, or the user has ended the command. If any user may
    /// connect, a peer counts only if it sends a trace.
    ///
    /// # Errors
    /// The system's error, if another try would not help.
    pub(super) fn next(
        &mut self,
        stop: &Stop,
        end: Option<Instant>,
        progress: &Arrivals,
    ) -> io::Result<Option<Peer>> {
        match self {
            PeerSource::Standard { taken } => match std::mem::replace(taken, true) {
                true => Ok(None),
                false => peer("standard input", io::stdin().as_fd().try_clone_to_owned()?),
            },
            PeerSource::Listens {
                listener,
                newcomers,
            } => newcomers.next(listener, stop, end, progress),
            PeerSource::Connects { address } => connect(address, stop, end),
        }
    }
}

fn connect(address: &str, stop: &Stop, end: Option<Instant>) -> io::Result<Option<Peer>> {
    loop {
        // First: with --keep the program may still be there, and would be connected again and again.
        if stop.is_end_requested() {
            return Ok(None);
        }
        // Again each time: names may come to stand for other hosts.
        for place in address.to_socket_addrs()? {
            if let Ok(stream) = TcpStream::connect_timeout(&place, CONNECT_TIMEOUT) {
                // A free port of this machine may be connected to itself.
                if let (Ok(own), Ok(other)) = (stream.local_addr(), stream.peer_addr())
                    && own != other
                {
                    return peer(&place.to_string(), stream.into());
                }
            }
        }
        let pause = Instant::now() + RETRY_INTERVAL;
        if end.is_some_and(|end| end <= pause) {
            return Ok(None);
        }
        stop.wait_for(None, Some(pause))?;
    }
}
