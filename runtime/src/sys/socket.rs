//! Sockets and pipes of streams: sending without ever waiting longer than asked, and without SIGPIPE.
//! A descriptor is looked at before each use: a program may close every descriptor that it does not
//! know and open its own under that number. Must never write into what is not ours.

use core::mem::zeroed;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::errno;
use super::file::Descriptor;

/// How much a pipe takes at once where it says that it takes anything.
const PIPE_BYTES: usize = libc::PIPE_BUF;

/// Every socket of ours, so that the child of a fork can close them: it would keep its parent's
/// connections from ending, and its port from being free.
static OPEN: [Place; 64] = [const {
    Place {
        fd: AtomicI32::new(0),
        inode: AtomicU64::new(0),
    }
}; 64];

/// A socket of ours, by number and identity; 0 = none.
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

/// What a [`Socket`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It can be asked to send without waiting.
    Socket,
    /// Something that others write as well: it must not be made non-blocking.
    Pipe,
    /// It never makes a writer wait for a reader.
    File,
}

/// A connection, a listener or a pipe that is ours. Closed on drop.
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

    /// A socket that std made.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn from_std(socket: impl Into<OwnedFd>) -> Result<Socket, i32> {
        let descriptor = Descriptor::adopt(socket.into().into_raw_fd())?;
        Ok(Socket::new(descriptor, Kind::Socket))
    }

    /// Connects to the socket at `path`, without waiting where nobody accepts.
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

    /// The program's standard output, as a descriptor of our own.
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

    /// A second descriptor of the same.
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

    /// A client of this listener, which does not wait; `None` where none is waiting.
    pub(crate) fn accept(&self) -> Option<Socket> {
        if !self.descriptor.still_ours() {
            return None;
        }
        let (nobody, flags) = (core::ptr::null_mut(), libc::SOCK_CLOEXEC);
        // SAFETY: no address is asked for.
        let fd =
            unsafe { libc::accept4(self.descriptor.raw(), nobody, core::ptr::null_mut(), flags) };
        if fd < 0 {
            return None;
        }
        let descriptor = Descriptor::adopt(fd).ok()?;
        Some(Socket::new(descriptor, Kind::Socket))
    }

    /// Sends what can be sent without waiting; 0 = nothing now. The calling thread holds SIGPIPE back.
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

    /// Waits until something can be sent, or the connection is gone; false after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let mut ask = libc::pollfd {
            fd: self.descriptor.raw(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // Rounded up: a wait of less than 1 ms would be none, and who waits again and again busy.
        let most = i32::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut ask, 1, most) != 0 }
    }

    /// Ends a connection after what was sent: the peer reads to the end of it. What the peer sent is
    /// thrown away, because closing with unread input would take back what is under way.
    pub(crate) fn end(self) {
        if self.kind != Kind::Socket || !self.descriptor.still_ours() {
            return;
        }
        let fd = self.descriptor.raw();
        let mut waste = [0u8; 4096];
        // SAFETY: plain system calls; the buffer is valid for writing its length.
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

/// Keeps a socket for the life of the process: a listener, the program's standard output.
pub(crate) fn keep(socket: Socket) {
    // Release: pairs with the Acquire in `kept`. Never freed.
    KEPT.store(Box::into_raw(Box::new(socket)), Ordering::Release);
}

/// The socket that was kept last.
pub(crate) fn kept() -> Option<&'static Socket> {
    // Acquire: pairs with the Release in `keep`.
    let kept = KEPT.load(Ordering::Acquire);
    // SAFETY: null, or from a Box that is never freed.
    unsafe { kept.as_ref() }
}

/// Closes every socket of ours, in the child of a fork: they are its parent's. Async-signal-safe.
pub(crate) fn forget() {
    KEPT.store(core::ptr::null_mut(), Ordering::Release);
    for place in &OPEN {
        let fd = place.fd.swap(0, Ordering::Relaxed);
        if fd > 0 {
            Descriptor::close_if(fd, place.inode.load(Ordering::Relaxed));
        }
    }
}
