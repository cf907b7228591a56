//! Files: making the ring file, giving it space, and writing a line to stderr. This file must never use a
//! descriptor number that is no longer ours.

use core::ffi::CStr;
use core::sync::atomic::AtomicU8;
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, IntoRawFd};

/// An open file of ours. It is not closed on drop, because the ring's file stays open as long as the process
/// lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    fd: i32,
    device: u64,
    inode: u64,
}

/// Our descriptors are moved to numbers from this one on. Some programs rely on low numbers or close a range of
/// them.
const HIGH_DESCRIPTOR: i32 = 700;

/// The rights of files: only their owner may read and write them.
const OWNER: libc::mode_t = 0o600;

/// How long a line waits for room on stderr, ns. It is short, because the program itself would not have waited.
const PATIENCE_NS: libc::c_long = 100_000_000;

/// Makes a file that must not exist, readable and writable by its owner alone. It follows no link.
/// Async-signal-safe.
pub(crate) fn create(path: &CStr) -> Result<Descriptor, i32> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let low = loop {
        // SAFETY: `path` is NUL-terminated. The mode is passed as open(2) needs it with O_CREAT.
        let low = unsafe { libc::open(path.as_ptr(), flags, OWNER as libc::c_uint) };
        match low {
            0.. => break low,
            _ if super::errno() == libc::EINTR => {}
            _ => return Err(super::errno()),
        }
    };
    // The umask may have removed rights of the owner. If they can't be set, the file stays as it is.
    // SAFETY: this is a plain system call on a descriptor that was just opened.
    unsafe { libc::fchmod(low, OWNER) };
    let Some(fd) = raise(low) else {
        return Err(give_up(path, low));
    };
    match identity(fd) {
        Some((device, inode)) => Ok(Descriptor { fd, device, inode }),
        None => Err(give_up(path, fd)),
    }
}

/// Makes the missing folders of a file's path, which ends with a NUL. Only their owner may put anything into
/// them. `Err`: the errno of the last folder that is missing. An existing folder is no error.
/// Async-signal-safe. Keeps errno.
pub(crate) fn make_folders(path: &mut [u8]) -> Result<(), i32> {
    let mut made = Ok(());
    for at in 1..path.len() {
        match path.get(at) {
            Some(b'/') => {}
            Some(0) | None => return made,
            Some(_) => continue,
        }
        path[at] = 0;
        // The path ends at the NUL stored above.
        made = match CStr::from_bytes_until_nul(path).map(super::raw::make_folder) {
            Ok(Ok(_) | Err(libc::EEXIST)) => Ok(()),
            Ok(Err(other)) => Err(other),
            Err(_) => Err(libc::EINVAL),
        };
        path[at] = b'/';
    }
    made
}

/// Moves a descriptor of ours to a high number. It must not be one of the first three, because a program that
/// has closed those would print into our file. `None` if it can't be moved. Async-signal-safe.
fn raise(low: i32) -> Option<i32> {
    let high = [HIGH_DESCRIPTOR, 3].into_iter().find_map(|least| {
        // SAFETY: this is a plain system call on a descriptor that the caller just opened.
        let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, least) };
        (high >= 0).then_some(high)
    });
    match high {
        Some(high) => {
            // SAFETY: `low` is ours and no longer needed.
            unsafe { shut(low) };
            Some(high)
        }
        None => (low > libc::STDERR_FILENO).then_some(low),
    }
}

/// Removes a file that was just made. Returns errno.
fn give_up(path: &CStr, fd: i32) -> i32 {
    let error = super::errno();
    // SAFETY: `create` opened the descriptor, and nobody else gets it.
    unsafe { shut(fd) };
    unlink(path);
    error
}

/// # Safety
/// The descriptor is ours and no longer used.
unsafe fn shut(fd: i32) {
    // SAFETY: the caller promises that. It is not `close`, because a thread may be cancelled in there.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

fn identity(fd: i32) -> Option<(u64, u64)> {
    let (device, inode, _) = stat(fd)?;
    Some((device, inode))
}

/// Device, inode and length.
#[inline(never)]
fn stat(fd: i32) -> Option<(u64, u64, u64)> {
    // SAFETY: all zeros is a valid `stat`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is valid for writing.
    let result = unsafe { libc::fstat(fd, &raw mut stat) };
    (result == 0).then_some((stat.st_dev as u64, stat.st_ino as u64, stat.st_size as u64))
}

impl Descriptor {
    /// Takes over a descriptor that was just opened. Closes it if that fails.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn adopt(low: i32) -> Result<Descriptor, i32> {
        let fd = raise(low).unwrap_or(low);
        if let Some((device, inode)) = identity(fd).filter(|_| fd > libc::STDERR_FILENO) {
            return Ok(Descriptor { fd, device, inode });
        }
        let error = super::errno();
        // SAFETY: the descriptor was given to us, and nobody else gets it.
        unsafe { shut(fd) };
        Err(error)
    }

    #[cfg(feature = "stream")]
    /// A second descriptor of the file that the program's own `fd` stands for.
    ///
    /// # Errors
    /// errno.
    pub(crate) fn second(fd: i32) -> Result<Descriptor, i32> {
        // SAFETY: this is a plain system call, and `fd` stays as it is.
        let high = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
        if high < 0 {
            return Err(super::errno());
        }
        Descriptor::adopt(high)
    }

    /// A descriptor that is closed if no others are left. Async-signal-safe.
    pub(crate) fn spare() -> Option<Descriptor> {
        // SAFETY: the name is NUL-terminated. The call is made by number, because older C libraries have no
        // function for it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_memfd_create,
                c"fdr-spare".as_ptr(),
                libc::MFD_CLOEXEC,
            )
        };
        Descriptor::adopt(i32::try_from(fd).ok().filter(|&fd| fd >= 0)?).ok()
    }

    pub(crate) fn raw(&self) -> i32 {
        self.fd
    }

    #[cfg(feature = "stream")]
    /// The number by which the kernel knows the file, within its device.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Locks the file as long as any process has this descriptor. A process in another container can't see
    /// ours, but it sees the lock. If the file can't be locked, it stays unlocked. Async-signal-safe.
    pub(crate) fn lock(&self) {
        /// Another process may test the lock for a moment.
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            // SAFETY: this is a plain system call on our descriptor, and it does not wait.
            let result = unsafe { libc::flock(self.fd, libc::LOCK_EX | libc::LOCK_NB) };
            if result == 0 || super::errno() != libc::EWOULDBLOCK {
                return;
            }
            super::thread::give_way();
        }
    }

    #[cfg(feature = "stream")]
    /// Closes the number if it still stands for that file. Async-signal-safe.
    pub(crate) fn close_if(fd: i32, inode: u64) {
        if identity(fd).is_some_and(|(_, now)| now == inode) {
            // SAFETY: it is our descriptor, because its identity is ours.
            unsafe { shut(fd) };
        }
    }

    /// Whether the number still stands for our file. A program may close every descriptor that it does not
    /// know, and open its own file under that number. Async-signal-safe.
    pub(crate) fn still_ours(&self) -> bool {
        self.length().is_some()
    }

    /// The file's length, if the number still stands for the file. Async-signal-safe.
    pub(crate) fn length(&self) -> Option<u64> {
        let (device, inode, length) = stat(self.fd)?;
        ((device, inode) == (self.device, self.inode)).then_some(length)
    }

    /// Makes the file `length` bytes long, or as long as the process's limit on the size of files allows. New
    /// bytes get no space yet. Returns the new length. Async-signal-safe.
    pub(crate) fn lengthen(&self, length: u64) -> Result<u64, i32> {
        // A length beyond the limit would raise SIGXFSZ.
        let length = length.min(size_limit());
        let bytes = i64::try_from(length).map_err(|_| libc::EFBIG)?;
        loop {
            // SAFETY: a plain system call on our descriptor.
            if unsafe { libc::ftruncate(self.fd, bytes) } == 0 {
                return Ok(length);
            }
            match super::errno() {
                libc::EINTR => {}
                error => return Err(error),
            }
        }
    }

    /// Gives `length` bytes at `offset` space on the disk. After that, touching them raises SIGBUS only if
    /// somebody else cuts the file short. No thread may write to them meanwhile.
    ///
    /// `whole` is the length of the file. This function never lengthens the file. So a cut always leads to a
    /// SIGBUS, and never to zeros in the place of records. It fails before the kernel would send SIGXFSZ, and
    /// with ESTALE if the file was cut. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn allocate(&self, offset: u64, length: u64, whole: u64) -> Result<(), i32> {
        match self.allocate_untouched(offset, length, whole) {
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => self.allocate_by_writing(offset, length),
            other => other,
        }
    }

    /// As [`allocate`](Descriptor::allocate), but threads may write meanwhile, because the contents stay. Some
    /// file systems can't do this. Async-signal-safe.
    pub(crate) fn allocate_untouched(
        &self,
        offset: u64,
        length: u64,
        whole: u64,
    ) -> Result<(), i32> {
        match self.length() {
            None => return Err(libc::EBADF),
            Some(now) if now < whole => return Err(libc::ESTALE),
            Some(_) => {}
        }
        if offset.saturating_add(length) > whole.min(size_limit()) {
            return Err(libc::EFBIG);
        }
        let (Ok(start), Ok(count)) = (i64::try_from(offset), i64::try_from(length)) else {
            return Err(libc::EFBIG);
        };
        loop {
            // SAFETY: a plain system call on our descriptor.
            let done = unsafe {
                let mode = libc::FALLOC_FL_KEEP_SIZE;
                libc::syscall(libc::SYS_fallocate, self.fd, mode, start, count)
            };
            if done == 0 {
                return Ok(());
            }
            match super::errno() {
                libc::EINTR => {}
                error => return Err(error),
            }
        }
    }

    /// Writes zeros, for file systems that can't allocate.
    fn allocate_by_writing(&self, mut offset: u64, mut length: u64) -> Result<(), i32> {
        // Atomics are memory that the system zeroes. A constant would be a page in each traced program.
        static ZEROS: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
        while length > 0 {
            let count = length.min(ZEROS.len() as u64) as usize;
            // SAFETY: `ZEROS` is valid for reading `count` bytes.
            let done = unsafe {
                libc::syscall(libc::SYS_pwrite64, self.fd, ZEROS.as_ptr(), count, offset)
            };
            match u64::try_from(done) {
                Ok(0) => return Err(libc::ENOSPC),
                Ok(done) => {
                    offset += done;
                    length = length.saturating_sub(done);
                }
                Err(_) if super::errno() == libc::EINTR => {}
                Err(_) => return Err(super::errno()),
            }
        }
        Ok(())
    }

    /// Closes it, unless the number stands for another file by now. Async-signal-safe.
    pub(crate) fn close(self) {
        if self.still_ours() {
            // SAFETY: the descriptor is ours, and `self` is not used afterwards.
            unsafe { shut(self.fd) };
        }
    }
}

/// The process's limit on the size of files, in bytes.
fn size_limit() -> u64 {
    // SAFETY: all zeros is a valid `rlimit`.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` is valid for writing.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if result == 0 {
        limit.rlim_cur
    } else {
        u64::MAX
    }
}

/// The text of a file of the kernel. `None` if it can't be read. Std's way to read whole files asks for their lengths
/// first, and these files have none. Not async-signal-safe.
#[inline(never)]
pub(crate) fn kernel_text(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut text = Vec::new();
    let mut bytes = [0; 1024];
    loop {
        let length = file.read(&mut bytes).ok()?;
        if length == 0 {
            return String::from_utf8(text).ok();
        }
        text.extend_from_slice(bytes.get(..length)?);
    }
}

/// Turns a file into its descriptor. [`take`] takes the descriptor over.
pub(crate) fn give(file: File) -> i32 {
    file.into_raw_fd()
}

/// Takes over a descriptor of [`give`], once.
pub(crate) fn take(descriptor: i32) -> File {
    // SAFETY: as above: [`give`] made the descriptor, and nobody else has taken it.
    unsafe { File::from_raw_fd(descriptor) }
}

/// Removes a file. It is no error if the file does not exist. Async-signal-safe.
pub(crate) fn unlink(path: &CStr) {
    // SAFETY: `path` is NUL-terminated.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// Writes to stderr. One call writes as much as a pipe takes at once, so lines of several threads do not mix.
/// Text that finds no room in time is left out. Async-signal-safe.
pub(crate) fn stderr(mut text: &[u8]) {
    let saved = super::errno();
    let write = || {
        while !text.is_empty() && stderr_has_room() {
            let count = text.len().min(libc::PIPE_BUF);
            // SAFETY: `text` is valid for reading its length. There is no place to report a failure.
            let done = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), count) };
            match usize::try_from(done) {
                Ok(done) => text = text.get(done..).unwrap_or(&[]),
                Err(_) if super::errno() == libc::EINTR => {}
                Err(_) => return,
            }
        }
    };
    // Without this a program in the background of a terminal would be stopped.
    super::signal::held_back(libc::SIGPIPE, || {
        super::signal::held_back(libc::SIGTTOU, write);
    });
    super::set_errno(saved);
}

/// Whether stderr takes bytes, or reports at once that it never will.
fn stderr_has_room() -> bool {
    let mut stderr = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    let patience = libc::timespec {
        tv_sec: 0,
        tv_nsec: PATIENCE_NS,
    };
    // SAFETY: a sigset_t is plain memory that sigfillset fills in. The three pointers are valid. All signals
    // are held back, so none makes the call begin again.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::ppoll(&raw mut stderr, 1, &raw const patience, &raw const all) > 0
    }
}
