//! Connections of streams: opening one, and sending a whole dump over it. It waits for a peer for a limited time.

use core::time::Duration;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Instant;

use fdr_formats::address::Address;

use crate::api::Failure;
use crate::messages;
use crate::sys::process;
use crate::sys::socket::{self, Socket};

/// The longest wait until a connection is made, for each address of a host name.
const CONNECT: Duration = Duration::from_secs(1);

/// A peer of a dump is given up if it takes nothing for this long.
pub(crate) const MAX_IDLE_TIME: Duration = Duration::from_secs(5);

/// The name of an address in messages.
pub(crate) fn name(address: &Address) -> String {
    match address {
        Address::Stdout => "the standard output".to_owned(),
        other => format!("{other}"),
    }
}

/// Does the preparations before the first record: binds a listener, or checks the standard output.
///
/// # Errors
/// The address can't be used.
pub(crate) fn prepare(address: &Address) -> Result<(), Failure> {
    let named = |error| {
        Failure::new(
            &format!("FDR_OUT: {address}"),
            "choose another address",
            Some(error),
        )
    };
    let prepared = match address {
        Address::Connect(_) | Address::Unix(_) => return Ok(()),
        Address::Listen(place) => listen(place).map_err(named)?,
        Address::Stdout => {
            let stdout = Socket::stdout().map_err(named)?;
            if stdout.is_terminal() {
                return Err("FDR_OUT: -: the standard output is a terminal; redirect it".into());
            }
            stdout
        }
    };
    socket::keep(prepared);
    Ok(())
}

fn listen(place: &str) -> io::Result<Socket> {
    let listener = TcpListener::bind(place)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?;
    if place.ends_with(":0") {
        messages::warn(format_args!("listening on tcp-listen://{port}"));
    }
    Ok(Socket::from_std(listener))
}

fn prepared() -> io::Result<&'static Socket> {
    socket::process_socket().ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// Makes a connection to the address.
pub(crate) fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Unix(path) => {
            let socket = Socket::connect_unix(path).map_err(os)?;
            match socket.peer_user().map_err(os)? {
                user if user == process::user() || user == 0 => Ok(socket),
                // In a folder for all, another user may have made the socket first.
                user => Err(io::Error::other(format!(
                    "user {user} made the socket, and nothing is sent to another user"
                ))),
            }
        }
        Address::Stdout => prepared()?.second(),
        Address::Listen(_) => accept().ok_or_else(|| io::Error::other("no client is there")),
        Address::Connect(place) => {
            let mut last = io::Error::other("the host's name has no address");
            for place in place.to_socket_addrs()? {
                match TcpStream::connect_timeout(&place, CONNECT) {
                    // A connection to a free port of this machine may be a connection to itself.
                    Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => {
                        last = io::ErrorKind::ConnectionRefused.into();
                    }
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(Socket::from_std(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// Takes a client that waits at the listener.
pub(crate) fn accept() -> Option<Socket> {
    prepared().ok()?.accept()
}

fn os(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Opens a connection for one dump. If clients connect to us, all waiting clients get the dump.
pub(crate) fn open(address: &Address) -> io::Result<Box<dyn Write>> {
    let mut sockets = vec![connect(address)?];
    if matches!(address, Address::Listen(_)) {
        sockets.extend(std::iter::from_fn(accept));
    }
    Ok(Box::new(AllPeers { sockets }))
}

/// Sends the same bytes to several peers. A peer that goes away or takes nothing for too long is left out. It
/// is an error if no peer is left.
struct AllPeers {
    sockets: Vec<Socket>,
}

impl Write for AllPeers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut last = io::Error::from(io::ErrorKind::NotConnected);
        self.sockets.retain(|socket| match send_all(socket, bytes) {
            Ok(()) => true,
            Err(error) => {
                last = error;
                false
            }
        });
        if self.sockets.is_empty() {
            Err(last)
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for AllPeers {
    fn drop(&mut self) {
        self.sockets.drain(..).for_each(Socket::end);
    }
}

fn send_all(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    let mut since = Instant::now();
    while !bytes.is_empty() {
        let count = socket.send(bytes).map_err(os)?;
        bytes = bytes.get(count..).unwrap_or(&[]);
        if count > 0 {
            since = Instant::now();
        } else if since.elapsed() > MAX_IDLE_TIME {
            let what = format!("the peer took nothing for {} s", MAX_IDLE_TIME.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        } else {
            socket.wait(Duration::from_millis(100));
        }
    }
    Ok(())
}
