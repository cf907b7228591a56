//! Files: making the ring file, giving it space, and writing a line to stderr. A descriptor of this file is valid only in
//! threads that share the descriptor table of the thread that opened it (`own_table`).

use core::ffi::CStr;
use core::sync::atomic::AtomicU8;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::own_table::{self, DescriptorTable};

/// An open file in a descriptor table of ours. It is not closed on drop, because the ring's file stays open as long as
/// the dumper lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    fd: i32,
    /// The table in which it is open. [`DescriptorTable::GONE`]: the file is closed, and only its identity is left.
    table: DescriptorTable,
    device: u64,
    inode: u64,
}

/// The rights of files: only their owner may read and write them.
const OWNER: libc::mode_t = 0o600;

/// How long a line waits for room on stderr, ns. It is short, because the program itself would not have waited.
const PATIENCE_NS: libc::c_long = 100_000_000;

/// Makes a file that must not exist, readable and writable by its owner alone. It follows no link. The calling thread has
/// a descriptor table of its own. Async-signal-safe.
pub(crate) fn create(path: &CStr) -> Result<Descriptor, i32> {
    let fd = open(path, libc::O_CREAT | libc::O_EXCL)?;
    // The umask may have removed rights of the owner. If they can't be set, the file stays as it is.
    // SAFETY: this is a plain system call on a descriptor that was just opened.
    unsafe { libc::fchmod(fd, OWNER) };
    let made = Descriptor::from_fd(fd);
    if made.is_err() {
        unlink(path);
    }
    made
}

/// Opens a file for reading and writing, but no link.
fn open(path: &CStr, how: i32) -> Result<i32, i32> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | how;
    loop {
        // SAFETY: `path` is NUL-terminated. The mode is passed as open(2) needs it with O_CREAT.
        let fd = unsafe { libc::open(path.as_ptr(), flags, OWNER as libc::c_uint) };
        match fd {
            0.. => return Ok(fd),
            _ if super::errno() == libc::EINTR => {}
            _ => return Err(super::errno()),
        }
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

/// Device, inode and length.
#[inline(never)]
fn stat(call: impl FnOnce(*mut libc::stat) -> i32) -> Option<(u64, u64, u64)> {
    // SAFETY: all zeros is a valid `stat`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let result = call(&raw mut stat);
    (result == 0).then_some((stat.st_dev as u64, stat.st_ino as u64, stat.st_size as u64))
}

impl Descriptor {
    /// Takes over a descriptor that was just opened.
    fn from_fd(fd: i32) -> Result<Descriptor, i32> {
        // SAFETY: a plain system call on a descriptor that was just opened.
        let Some((device, inode, _)) = stat(|place| unsafe { libc::fstat(fd, place) }) else {
            let error = super::errno();
            super::raw::close(fd);
            return Err(error);
        };
        let table = DescriptorTable::mine();
        Ok(Descriptor {
            fd,
            table,
            device,
            inode,
        })
    }

    /// Opens the file a second time, at the path at which it was made. The calling thread has a descriptor table of its
    /// own. Async-signal-safe.
    ///
    /// # Errors
    /// errno. ESTALE: another file has the path.
    pub(crate) fn again(&self, path: &CStr) -> Result<Descriptor, i32> {
        let file = Descriptor::from_fd(open(path, 0)?)?;
        if (file.device, file.inode) != (self.device, self.inode) {
            file.close();
            return Err(libc::ESTALE);
        }
        Ok(file)
    }

    /// Whether the calling thread has the file open. Async-signal-safe.
    pub(crate) fn is_mine(&self) -> bool {
        self.table == DescriptorTable::mine()
    }

    /// The file without its descriptor, which ends with the table that has it.
    pub(crate) fn closed(self) -> Descriptor {
        Descriptor {
            fd: -1,
            table: DescriptorTable::GONE,
            ..self
        }
    }

    pub(crate) fn raw(&self) -> i32 {
        self.fd
    }

    /// Locks the file as long as any process has it open or mapped. A process in another container can't see
    /// ours, but it sees the lock. If the file can't be locked, it stays unlocked. Async-signal-safe.
    pub(crate) fn lock(&self) {
        /// Another process may test the lock for a moment.
        const MAX_TRIES: u32 = 100;
        for _ in 0..MAX_TRIES {
            if super::raw::lock(self.fd, libc::LOCK_EX) != Err(libc::EWOULDBLOCK) {
                return;
            }
            super::thread::give_way();
        }
    }

    /// The file's length. Async-signal-safe.
    pub(crate) fn length(&self) -> Option<u64> {
        // SAFETY: a plain system call on a descriptor of the calling thread.
        let found = stat(|place| unsafe { libc::fstat(self.fd, place) });
        found.map(|(_, _, length)| length)
    }

    /// The length of the file at that path, if it is this file. No descriptor is needed. Async-signal-safe.
    pub(crate) fn length_at(&self, path: &CStr) -> Option<u64> {
        // SAFETY: `path` is NUL-terminated.
        let found = stat(|place| unsafe { libc::lstat(path.as_ptr(), place) });
        let (device, inode, length) = found?;
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

    /// Gives `length` bytes at `offset` space on the disk. After that, touching them raises SIGBUS only if another
    /// program cuts the file short. No thread may write to them meanwhile.
    ///
    /// `whole` is the length of the file. This function never lengthens the file. So a cut always leads to a
    /// SIGBUS, and never to zeros in the place of records. It fails before the kernel would send SIGXFSZ, and
    /// with ESTALE if the file was cut. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn allocate(&self, offset: u64, length: u64, whole: u64) -> Result<(), i32> {
        match self.allocate_untouched(offset, length, whole) {
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => self.fill(offset, length, whole),
            other => other,
        }
    }

    /// As [`allocate`](Descriptor::allocate), but by zeros in the page cache. Many file systems choose the place on the disk
    /// only when they write the zeros back, seconds later. A file that is removed before has no such place, so its removal
    /// costs nothing.
    #[inline(never)]
    pub(crate) fn fill(&self, offset: u64, length: u64, whole: u64) -> Result<(), i32> {
        self.may_have(offset, length, whole)?;
        self.write_zeros(offset, length)?;
        // If the file was cut just before, the zeros have made it longer again, but not as long as it was.
        match self.length() {
            Some(now) if now < whole => Err(libc::ESTALE),
            _ => Ok(()),
        }
    }

    /// Whether the part may be given space.
    fn may_have(&self, offset: u64, length: u64, whole: u64) -> Result<(), i32> {
        match self.length() {
            None => return Err(libc::EBADF),
            Some(now) if now < whole => return Err(libc::ESTALE),
            Some(_) => {}
        }
        match offset.saturating_add(length) > whole.min(size_limit()) {
            true => Err(libc::EFBIG),
            false => Ok(()),
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
        self.may_have(offset, length, whole)?;
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

    /// Writes zeros, up to a chunk by one call.
    fn write_zeros(&self, mut offset: u64, mut length: u64) -> Result<(), i32> {
        // Atomics are memory that the system zeroes. A constant would be a page in each traced program.
        static ZEROS: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
        while length > 0 {
            let mut rest = length;
            let parts: [libc::iovec; 16] = core::array::from_fn(|_| {
                let count = rest.min(ZEROS.len() as u64);
                rest -= count;
                libc::iovec {
                    iov_base: ZEROS.as_ptr().cast_mut().cast(),
                    iov_len: count as usize,
                }
            });
            // SAFETY: each part is valid for reading. The call only reads them.
            let done = unsafe {
                let (at, count) = (parts.as_ptr(), parts.len());
                libc::syscall(libc::SYS_pwritev, self.fd, at, count, offset, 0)
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

    /// Closes it. Async-signal-safe.
    pub(crate) fn close(self) {
        super::raw::close(self.fd);
    }
}

/// Locks a file for as long as it is open. False: another process has the lock, or the file system has no locks.
pub(crate) fn lock(file: &File) -> bool {
    super::raw::lock(file.as_raw_fd(), libc::LOCK_EX).is_ok()
}

/// As [`lock`], but others may have this kind of lock at the same time.
pub(crate) fn lock_shared(file: &File) -> bool {
    super::raw::lock(file.as_raw_fd(), libc::LOCK_SH).is_ok()
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

/// The text of a file of the kernel. `None` if it can't be read. Std's functions for whole files ask for the length
/// first, and such files have none. Not async-signal-safe.
#[inline(never)]
pub(crate) fn kernel_text(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut text = Vec::new();
    // The stack of the program may be small.
    let mut bytes = [0; 256];
    loop {
        let length = file.read(&mut bytes).ok()?;
        if length == 0 {
            return String::from_utf8(text).ok();
        }
        text.extend_from_slice(bytes.get(..length)?);
    }
}

/// Calls `body` with each name in a folder, until it returns false. Returns whether it never did. A name that can't be
/// read is empty. Not async-signal-safe.
#[inline(never)]
pub(crate) fn each_name(folder: &Path, body: &mut dyn FnMut(&OsStr) -> bool) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.all(|entry| {
        let name = entry.map(|entry| entry.file_name());
        body(&name.unwrap_or_default())
    })
}

/// Removes a file. It is no error if the file does not exist. Async-signal-safe.
pub(crate) fn unlink(path: &CStr) {
    // SAFETY: `path` is NUL-terminated.
    unsafe { libc::unlink(path.as_ptr()) };
}

/// Writes to the program's stderr. One call writes as much as a pipe takes at once, so lines of several threads do not
/// mix. Text that finds no room in time is left out. False: the calling thread has a descriptor table of its own, and
/// can't get at the program's stderr. Async-signal-safe.
pub(crate) fn stderr(text: &[u8]) -> bool {
    let saved = super::errno();
    let has_own = own_table::has_own_table();
    let fd = match has_own {
        true => programs_stderr(),
        false => Some(libc::STDERR_FILENO),
    };
    if let Some(fd) = fd {
        // Without this a program in the background of a terminal would be stopped.
        super::signal::held_back(libc::SIGPIPE, || {
            super::signal::held_back(libc::SIGTTOU, || write_in_time(fd, text));
        });
        if has_own {
            super::raw::close(fd);
        }
    }
    super::set_errno(saved);
    fd.is_some()
}

fn write_in_time(fd: i32, mut text: &[u8]) {
    while !text.is_empty() && has_room(fd) {
        let count = text.len().min(libc::PIPE_BUF);
        // SAFETY: `text` is valid for reading its length. There is no place to report a failure.
        let done = unsafe { libc::write(fd, text.as_ptr().cast(), count) };
        match usize::try_from(done) {
            Ok(done) => text = text.get(done..).unwrap_or(&[]),
            Err(_) if super::errno() == libc::EINTR => {}
            Err(_) => return,
        }
    }
}

/// The program's present stderr, as a descriptor of the calling thread's own table. It is opened for each line, because
/// a kept descriptor would tie a program to a terminal that it has left. Linux 5.6. `None`: it can't be opened.
#[inline(never)]
fn programs_stderr() -> Option<i32> {
    let pid = super::process::pid();
    // SAFETY: plain system calls. The calls are made by number, because older C libraries have no functions for them.
    let fd = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        let fd = libc::syscall(libc::SYS_pidfd_getfd, process, libc::STDERR_FILENO, 0);
        if process >= 0 {
            super::raw::close(process as i32);
        }
        fd
    };
    i32::try_from(fd).ok().filter(|&fd| fd >= 0)
}

/// Whether a descriptor takes bytes, or reports at once that it never will.
fn has_room(fd: i32) -> bool {
    let mut stderr = libc::pollfd {
        fd,
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
