//! Sockets and pipes of streams. Sending never waits longer than asked and never raises SIGPIPE. They are used only in
//! threads with a descriptor table of the recorder.

use core::mem::zeroed;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::errno;

/// How many bytes a pipe takes at once if it takes any.
const PIPE_BYTES: usize = libc::PIPE_BUF;

/// See [`keep`].
static PROCESS_SOCKET: AtomicPtr<Socket> = AtomicPtr::new(core::ptr::null_mut());

/// The kind of a [`Socket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It can send without waiting.
    Socket,
    /// Others may write to it, so it must not be made non-blocking.
    Pipe,
    /// A writer never waits for a reader.
    File,
}

/// A connection, a listener or a pipe of ours. It is closed on drop.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    kind: Kind,
}

impl Socket {
    fn new(descriptor: impl Into<OwnedFd>, kind: Kind) -> Socket {
        let descriptor = descriptor.into();
        Socket { descriptor, kind }
    }

    /// Takes over a socket of std.
    pub(crate) fn from_std(socket: impl Into<OwnedFd>) -> Socket {
        Socket::new(socket, Kind::Socket)
    }

    fn raw(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Connects to the socket at `path`. It does not wait until the connection is accepted.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn connect_unix(path: &Path) -> Result<Socket, i32> {
        // SAFETY: all zeros is a valid `sockaddr_un`.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() >= address.sun_path.len() {
            return Err(libc::ENAMETOOLONG);
        }
        for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
            *place = *byte as libc::c_char;
        }
        let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a plain system call.
        let fd = unsafe { libc::socket(libc::AF_UNIX, flags, 0) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: the descriptor was just opened.
        let socket = Socket::new(unsafe { OwnedFd::from_raw_fd(fd) }, Kind::Socket);
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let place = (&raw const address).cast::<libc::sockaddr>();
        // SAFETY: the address is valid for reading its length.
        match unsafe { libc::connect(socket.raw(), place, length) } {
            0 => Ok(socket),
            _ => Err(errno()),
        }
    }

    /// The user who listened at the other end of a connection to a path.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn peer_user(&self) -> Result<u32, i32> {
        // SAFETY: all zeros is a valid `ucred`.
        let mut peer: libc::ucred = unsafe { zeroed() };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let place = (&raw mut peer).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        // SAFETY: the place is valid for writing its length.
        match unsafe { libc::getsockopt(self.raw(), level, name, place, &raw mut length) } {
            0 => Ok(peer.uid),
            _ => Err(errno()),
        }
    }

    /// The program's standard output, which the calling thread kept when it took its own descriptor table.
    ///
    /// # Errors
    /// It is closed.
    pub(crate) fn stdout() -> io::Result<Socket> {
        // SAFETY: in this table no other code closes it.
        let stdout = unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) };
        let descriptor = stdout.try_clone_to_owned()?;
        // SAFETY: all zeros is a valid `stat`, valid for writing.
        let mode = unsafe {
            let mut stat: libc::stat = zeroed();
            libc::fstat(descriptor.as_raw_fd(), &raw mut stat);
            stat.st_mode & libc::S_IFMT
        };
        let kind = match mode {
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFREG => Kind::File,
            _ => Kind::Pipe,
        };
        Ok(Socket::new(descriptor, kind))
    }

    /// A second descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn second(&self) -> io::Result<Socket> {
        Ok(Socket::new(self.descriptor.try_clone()?, self.kind))
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        // SAFETY: a plain system call.
        unsafe { libc::isatty(self.raw()) == 1 }
    }

    /// Takes a client of this listener. It does not wait. `None` if no client is there.
    pub(crate) fn accept(&self) -> Option<Socket> {
        let (nobody, flags) = (core::ptr::null_mut(), libc::SOCK_CLOEXEC);
        // SAFETY: the call asks for no address.
        let fd = unsafe { libc::accept4(self.raw(), nobody, core::ptr::null_mut(), flags) };
        // SAFETY: the descriptor was just opened.
        (fd >= 0).then(|| Socket::new(unsafe { OwnedFd::from_raw_fd(fd) }, Kind::Socket))
    }

    /// Sends as much as it can without waiting. 0 = nothing now. The calling thread must hold SIGPIPE back.
    ///
    /// # Errors
    /// errno: the connection is gone.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, i32> {
        let (fd, place) = (self.raw(), bytes.as_ptr().cast());
        let count = match self.kind {
            Kind::Socket => {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                // SAFETY: the bytes are valid for reading.
                unsafe { libc::send(fd, place, bytes.len(), flags) }
            }
            Kind::Pipe if !self.wait(Duration::ZERO) => return Ok(0),
            Kind::Pipe => {
                // SAFETY: as above.
                unsafe { libc::write(fd, place, bytes.len().min(PIPE_BYTES)) }
            }
            // SAFETY: as above.
            Kind::File => unsafe { libc::write(fd, place, bytes.len()) },
        };
        match errno() {
            _ if count >= 0 => Ok(count as usize),
            libc::EAGAIN | libc::EINTR => Ok(0),
            error => Err(error),
        }
    }

    /// Waits until something can be sent or the connection is gone. False after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let mut ask = libc::pollfd {
            fd: self.raw(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // It is rounded up, because a wait of less than 1 ms would not wait at all.
        let most = i32::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: there is one valid entry.
        unsafe { libc::poll(&raw mut ask, 1, most) != 0 }
    }

    /// Ends a connection after the bytes that were sent, so the peer can read all of them. Input of the peer is
    /// thrown away. Closing with unread input would take sent bytes back.
    pub(crate) fn end(self) {
        if self.kind != Kind::Socket {
            return;
        }
        let fd = self.raw();
        let mut waste = [0u8; 4096];
        // SAFETY: these are plain system calls. The buffer is valid for writing its length.
        unsafe {
            libc::shutdown(fd, libc::SHUT_WR);
            while libc::recv(
                fd,
                waste.as_mut_ptr().cast(),
                waste.len(),
                libc::MSG_DONTWAIT,
            ) > 0
            {}
        }
    }
}

/// Keeps a socket for the life of the process: a listener, or the program's standard output.
pub(crate) fn keep(socket: Socket) {
    // Release: pairs with the Acquire in `process_socket`. Never freed.
    PROCESS_SOCKET.store(Box::into_raw(Box::new(socket)), Ordering::Release);
}

/// The socket that was kept last.
pub(crate) fn process_socket() -> Option<&'static Socket> {
    // Acquire: pairs with the Release in `keep`.
    let kept = PROCESS_SOCKET.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a Box that is never freed.
    unsafe { kept.as_ref() }
}

/// Called in the child of a fork, which does not have it. Async-signal-safe.
pub(crate) fn forget() {
    PROCESS_SOCKET.store(core::ptr::null_mut(), Ordering::Release);
}
