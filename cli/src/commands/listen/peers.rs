//! Where streams come from: a socket that programs connect to, one that a program listens at, or
//! standard input. Must never wait for anything that [`Stop`] can't end, and never remove a file that
//! is not the socket made here.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use fdr_formats::address::Address;
use nix::unistd::geteuid;
use rustix::net::sockopt;

use super::newcomers::Newcomers;
use crate::cleanup::{self, Entry};
use crate::signals::Stop;
use crate::ui::{self, Arrivals};

/// Between two tries to connect.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// A host that does not answer at all.
const ANSWER: Duration = Duration::from_secs(2);

/// The other end of a stream.
#[derive(Debug)]
pub(super) struct Peer {
    /// For people; empty where there is nothing to say.
    pub(super) name: String,
    /// What it has sent already.
    pub(super) head: Vec<u8>,
    /// What it sends can be read here.
    pub(super) stream: File,
}

/// Where programs connect.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// On this machine alone.
    Unix {
        listener: UnixListener,
        /// Its name goes with it.
        _socket: Socket,
    },
}

/// Gives one peer after the other.
#[derive(Debug)]
pub(super) enum Door {
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

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// Where the address is taken or no such host is known.
    pub(super) fn open(address: &Address) -> anyhow::Result<Door> {
        let named = || address.to_string();
        match address {
            Address::Stdout if io::stdin().is_terminal() => {
                bail!("-: a stream does not come from a terminal; pipe a program into fdr listen")
            }
            Address::Stdout => Ok(Door::Standard { taken: false }),
            Address::Connect(end) => {
                let listener = TcpListener::bind(end).with_context(named)?;
                listener.set_nonblocking(true).with_context(named)?;
                Ok(Door::listens(Listener::Tcp(listener)))
            }
            Address::Unix(path) => {
                let (listener, socket) = bind(path).with_context(named)?;
                Ok(Door::listens(Listener::Unix {
                    listener,
                    _socket: socket,
                }))
            }
            Address::Listen(end) => {
                end.to_socket_addrs().with_context(named)?;
                Ok(Door::Connects {
                    address: end.clone(),
                })
            }
        }
    }

    /// What is being waited for, with the port that was really taken.
    pub(super) fn in_words(&self, address: &Address) -> String {
        match self {
            Door::Standard { .. } => "reading standard input".to_owned(),
            Door::Listens {
                listener: Listener::Tcp(listener),
                ..
            } => {
                let port = listener.local_addr().map_or(0, |local| local.port());
                let asked = address.to_string();
                let (host, _) = asked.rsplit_once(':').unwrap_or((&asked, ""));
                format!("listening at {host}:{port} (FDR_OUT={host}:{port})")
            }
            Door::Listens { .. } => format!("listening at {address} (FDR_OUT={address})"),
            Door::Connects { .. } => format!("waiting for a program with FDR_OUT={address}"),
        }
    }

    fn listens(listener: Listener) -> Door {
        Door::Listens {
            listener,
            newcomers: Newcomers::default(),
        }
    }

    /// Whether several peers may send at the same time.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Door::Listens { .. })
    }

    /// The next peer; `None` where there is none until `end`, or the end was asked for. Where anybody may connect, it is
    /// one that sends a trace.
    ///
    /// # Errors
    /// What the system says, where trying again is no use.
    pub(super) fn next(
        &mut self,
        stop: &Stop,
        end: Option<Instant>,
        progress: &Arrivals,
    ) -> io::Result<Option<Peer>> {
        match self {
            Door::Standard { taken } => match std::mem::replace(taken, true) {
                true => Ok(None),
                false => peer("standard input", io::stdin().as_fd().try_clone_to_owned()?),
            },
            Door::Listens {
                listener,
                newcomers,
            } => newcomers.next(listener, stop, end, progress),
            Door::Connects { address } => connect(address, stop, end),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Listener {
    /// Takes a peer that is there. `None`: it went away, or is another user.
    ///
    /// # Errors
    /// What the system says, where trying again is no use.
    pub(super) fn accept(&self) -> io::Result<Option<Peer>> {
        let accepted = match self {
            Listener::Tcp(listener) => {
                let accepted = listener.accept();
                accepted.and_then(|(stream, from)| peer(&from.to_string(), stream.into()))
            }
            Listener::Unix { listener, .. } => match listener.accept() {
                // Until the socket had its mode, others could connect.
                Ok((stream, _)) if !is_trusted(&stream) => Ok(None),
                accepted => accepted.and_then(|(stream, _)| peer("", stream.into())),
            },
        };
        match accepted {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
            accepted => accepted,
        }
    }
}

/// Whether this user or root is at the other end of a socket.
pub(in crate::commands) fn is_trusted(stream: &UnixStream) -> bool {
    let peer = sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid.as_raw() == geteuid().as_raw())
}

fn peer(name: &str, stream: OwnedFd) -> io::Result<Option<Peer>> {
    Ok(Some(Peer {
        name: name.to_owned(),
        head: Vec::new(),
        stream: stream.into(),
    }))
}

fn connect(address: &str, stop: &Stop, end: Option<Instant>) -> io::Result<Option<Peer>> {
    loop {
        // First: with --keep the program may still be there, and would be connected again and again.
        if stop.asked() {
            return Ok(None);
        }
        // Again each time: names may come to stand for other hosts.
        for place in address.to_socket_addrs()? {
            if let Ok(stream) = TcpStream::connect_timeout(&place, ANSWER) {
                // A free port of this machine may be connected to itself.
                if let (Ok(own), Ok(other)) = (stream.local_addr(), stream.peer_addr())
                    && own != other
                {
                    return peer(&place.to_string(), stream.into());
                }
            }
        }
        let pause = Instant::now() + PAUSE;
        if end.is_some_and(|end| end <= pause) {
            return Ok(None);
        }
        stop.wait_for(None, Some(pause))?;
    }
}

/// The name of a socket in the file system, removed with this.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    entry: Entry,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut names = cleanup::wait_for_lock();
        remove_own(&self.path, self.identity);
        names.forget(&self.entry);
    }
}

/// Somebody may have put another in its place.
fn remove_own(path: &Path, own: Option<(u64, u64)>) {
    if own.is_some() && own == identity(path) {
        let _ = fs::remove_file(path);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

/// Makes the socket, for this user alone. One that a command left behind which is gone is replaced.
fn bind(path: &Path) -> anyhow::Result<(UnixListener, Socket)> {
    let mut names = cleanup::lock()?;
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_abandoned(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    let (own, removed) = (identity(path), path.to_owned());
    let socket = Socket {
        path: path.to_owned(),
        identity: own,
        entry: names.add(move || remove_own(&removed, own)),
    };
    drop(names);
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, socket))
}

fn remove_abandoned(path: &Path) -> anyhow::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        bail!("exists and is no socket; give another name");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let text = ui::path(path);
            fs::remove_file(path).with_context(|| format!("{text}, left by a command that ended"))
        }
        _ => bail!("another program listens there; give another name"),
    }
}
