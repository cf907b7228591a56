//! Sockets and pipes of streams. Sending never waits longer than asked and never raises SIGPIPE. A descriptor
//! is checked before each use. A program may close every descriptor that it does not know, and open its own
//! file under that number. This file must never write into a descriptor that is not ours.

use core::mem::zeroed;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::errno;
use super::file::Descriptor;

/// How many bytes a pipe takes at once if it takes any.
const PIPE_BYTES: usize = libc::PIPE_BUF;

/// Every socket of ours. The child of a fork closes them. Otherwise it would keep its parent's connections open
/// and its port in use.
static OPEN: [Place; 64] = [const {
    Place {
        fd: AtomicI32::new(0),
        inode: AtomicU64::new(0),
    }
}; 64];

/// A socket of ours, by its number and identity. 0 = none.
struct Place {
    fd: AtomicI32,
    inode: AtomicU64,
}

impl Place {
    fn swap(&self, from: i32, to: i32) -> bool {
        let swap = self
            .fd
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        swap.is_ok()
    }
}

/// See [`keep`].
static KEPT: AtomicPtr<Socket> = AtomicPtr::new(core::ptr::null_mut());

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
    descriptor: Descriptor,
    kind: Kind,
}

impl Socket {
    fn new(descriptor: Descriptor, kind: Kind) -> Socket {
        if let Some(place) = OPEN.iter().find(|place| place.swap(0, descriptor.raw())) {
            place.inode.store(descriptor.inode(), Ordering::Relaxed);
        }
        Socket { descriptor, kind }
    }

    /// Takes over a socket of std.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn from_std(socket: impl Into<OwnedFd>) -> Result<Socket, i32> {
        let descriptor = Descriptor::adopt(socket.into().into_raw_fd())?;
        Ok(Socket::new(descriptor, Kind::Socket))
    }

    /// Connects to the socket at `path`. It does not wait until somebody accepts.
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
        let socket = Socket::new(Descriptor::adopt(fd)?, Kind::Socket);
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let place = (&raw const address).cast::<libc::sockaddr>();
        // SAFETY: the address is valid for reading its length.
        match unsafe { libc::connect(socket.descriptor.raw(), place, length) } {
            0 => Ok(socket),
            _ => Err(errno()),
        }
    }

    /// The program's standard output, as a descriptor of ours.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn stdout() -> Result<Socket, i32> {
        let descriptor = Descriptor::second(libc::STDOUT_FILENO)?;
        // SAFETY: all zeros is a valid `stat`, valid for writing.
        let mode = unsafe {
            let mut stat: libc::stat = zeroed();
            libc::fstat(descriptor.raw(), &raw mut stat);
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
    /// errno.
    pub(crate) fn second(&self) -> Result<Socket, i32> {
        if !self.descriptor.still_ours() {
            return Err(libc::EBADF);
        }
        let descriptor = Descriptor::second(self.descriptor.raw())?;
        Ok(Socket::new(descriptor, self.kind))
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        // SAFETY: a plain system call.
        unsafe { libc::isatty(self.descriptor.raw()) == 1 }
    }

    /// Takes a client of this listener. It does not wait. `None` if no client is there.
    pub(crate) fn accept(&self) -> Option<Socket> {
        if !self.descriptor.still_ours() {
            return None;
        }
        let (nobody, flags) = (core::ptr::null_mut(), libc::SOCK_CLOEXEC);
        // SAFETY: the call asks for no address.
        let fd =
            unsafe { libc::accept4(self.descriptor.raw(), nobody, core::ptr::null_mut(), flags) };
        if fd < 0 {
            return None;
        }
        let descriptor = Descriptor::adopt(fd).ok()?;
        Some(Socket::new(descriptor, Kind::Socket))
    }

    /// Sends as much as it can without waiting. 0 = nothing now. The calling thread must hold SIGPIPE back.
    ///
    /// # Errors
    /// errno: the connection is gone.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, i32> {
        if !self.descriptor.still_ours() {
            return Err(libc::EBADF);
        }
        let (fd, place) = (self.descriptor.raw(), bytes.as_ptr().cast());
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
            fd: self.descriptor.raw(),
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
        if self.kind != Kind::Socket || !self.descriptor.still_ours() {
            return;
        }
        let fd = self.descriptor.raw();
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

impl Drop for Socket {
    fn drop(&mut self) {
        let fd = self.descriptor.raw();
        let _ = OPEN.iter().any(|place| place.swap(fd, 0));
        self.descriptor.close();
    }
}

/// Keeps a socket for the life of the process: a listener, or the program's standard output.
pub(crate) fn keep(socket: Socket) {
    // Release: pairs with the Acquire in `kept`. Never freed.
    KEPT.store(Box::into_raw(Box::new(socket)), Ordering::Release);
}

/// The socket that was kept last.
pub(crate) fn kept() -> Option<&'static Socket> {
    // Acquire: pairs with the Release in `keep`.
    let kept = KEPT.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a Box that is never freed.
    unsafe { kept.as_ref() }
}

/// Closes every socket of ours in the child of a fork, because they belong to the parent. Async-signal-safe.
pub(crate) fn forget() {
    KEPT.store(core::ptr::null_mut(), Ordering::Release);
    for place in &OPEN {
        let fd = place.fd.swap(0, Ordering::Relaxed);
        if fd > 0 {
            Descriptor::close_if(fd, place.inode.load(Ordering::Relaxed));
        }
    }
}
