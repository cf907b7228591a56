//! The other ends of streams, and the sockets that programs connect to.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cleanup::{self, Entry};
use crate::sockets::is_trusted;
use crate::ui;

/// The other end of a stream.
#[derive(Debug)]
pub(super) struct Peer {
    /// For people; empty where there is nothing to say.
    pub(super) name: String,
    /// The bytes that the peer has sent already.
    pub(super) head: Vec<u8>,
    /// The stream of the peer's further bytes.
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Listener {
    /// Takes a peer that is there. `None`: the peer has closed the connection, or belongs to another user.
    ///
    /// # Errors
    /// The system's error, if another try would not help.
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

pub(super) fn peer(name: &str, stream: OwnedFd) -> io::Result<Option<Peer>> {
    Ok(Some(Peer {
        name: name.to_owned(),
        head: Vec::new(),
        stream: stream.into(),
    }))
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

/// Removes our socket. If another file is in its place, that file stays.
fn remove_own(path: &Path, own: Option<(u64, u64)>) {
    if own.is_some() && own == identity(path) {
        let _ = fs::remove_file(path);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

/// Makes the socket, for this user alone. Replaces a socket that an earlier command has left.
pub(super) fn bind(path: &Path) -> anyhow::Result<(UnixListener, Socket)> {
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
