//! Checks which user is at the other end of a Unix socket.

use std::os::unix::net::UnixStream;

use nix::unistd::geteuid;
use rustix::net::sockopt;

/// Whether this user or root is at the other end of a socket.
pub(crate) fn is_trusted(stream: &UnixStream) -> bool {
    let peer = sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid.as_raw() == geteuid().as_raw())
}
