//! The file of a trace while it is written. It has a hidden temporary name beside its final name, and gets the
//! final name when it is complete. Async-signal-safe. It must never leave the temporary file behind, and never
//! replace anything but a file.
//!
//! It is open in a descriptor table of the recorder's own, if the kernel makes a thread for that. Otherwise the program
//! could put a file of its own under the number, so each write first compares the identity, and names its offset.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::Prepared;
use super::text::Text;
use crate::sys::file::make_folders;
use crate::sys::raw;

/// Bytes of the buffer that collects small writes.
pub(super) const BUFFER: usize = 16 * 1024;

/// How many temporary names are tried.
const MAX_NAMES: u64 = 8;

/// The path of the temporary file, for a thread that must remove the file while it is written.
static UNFINISHED: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Removes the temporary file, if there is one.
pub(super) fn remove_unfinished() {
    let path = UNFINISHED.swap(core::ptr::null_mut(), Ordering::Acquire);
    if !path.is_null() {
        // SAFETY: the path is NUL-terminated and stays in [`Prepared`].
        raw::unlink(unsafe { CStr::from_ptr(path) });
    }
}

/// Called in the child of a fork. The temporary file belongs to the parent.
pub(super) fn forget() {
    UNFINISHED.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// A file, and the bytes that are not written yet.
pub(super) struct TraceFile {
    fd: i32,
    /// Device and inode. `None`: the kernel does not tell them (before Linux 4.11).
    identity: Option<(u32, u32, u64)>,
    /// The bytes that are written.
    length: u64,
    /// The first error, an errno; 0 = none.
    error: i32,
    /// When writing is given up, ns of the monotonic clock.
    deadline_ns: u64,
    used: usize,
    buffer: &'static mut [u8],
    temporary: Text<'static>,
}

impl TraceFile {
    /// `buffer` has [`BUFFER`] bytes.
    pub(super) fn new(buffer: &'static mut [u8], temporary: Text<'static>) -> TraceFile {
        TraceFile {
            fd: -1,
            identity: None,
            length: 0,
            error: 0,
            deadline_ns: 0,
            used: 0,
            buffer,
            temporary,
        }
    }

    /// Makes the temporary file in `folder`.
    ///
    /// # Errors
    /// errno.
    pub(super) fn create(
        &mut self,
        prepared: &Prepared,
        folder: &[u8],
        deadline_ns: u64,
    ) -> Result<(), i32> {
        (self.used, self.error, self.deadline_ns) = (0, 0, deadline_ns);
        self.length = 0;
        let mine = prepared.nonce ^ u64::from(raw::process()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut error = libc::EEXIST;
        for nonce in 0..MAX_NAMES {
            self.temporary.clear();
            let name = self.temporary.push(folder).push(b".fdr-");
            name.hex(mine.wrapping_add(nonce), 16).push(b".tmp");
            let path = self.temporary.path().ok_or(libc::ENAMETOOLONG)?;
            match raw::create(path) {
                Ok(fd) => {
                    // As in `dump::staged`. Another process may have removed it before it was locked.
                    if raw::lock(fd, libc::LOCK_EX).is_ok() && !raw::exists(path) {
                        raw::close(fd);
                        continue;
                    }
                    let place = path.as_ptr().cast_mut();
                    // Release: pairs with the Acquire in `remove_unfinished`.
                    UNFINISHED.store(place, Ordering::Release);
                    self.fd = fd;
                    self.identity = raw::identity(fd).ok();
                    return Ok(());
                }
                Err(again @ libc::EEXIST) => error = again,
                // The same error came a second time, so trying again does not help.
                Err(again) if again == error => break,
                Err(again @ libc::ENOENT) if prepared.output().makes_folders() => {
                    error = again;
                    make_folders(self.temporary.path_mut())?;
                }
                Err(other) => return Err(other),
            }
        }
        Err(error)
    }

    /// Writes bytes. False after any error.
    pub(super) fn put(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > BUFFER - self.used {
            self.flush();
        }
        if self.error != 0 {
            return false;
        }
        if bytes.len() >= BUFFER {
            self.error = self.write(bytes).err().unwrap_or(0);
        } else if let Some(place) = self.buffer.get_mut(self.used..self.used + bytes.len()) {
            place.copy_from_slice(bytes);
            self.used += bytes.len();
        }
        self.error == 0
    }

    /// Bytes of the file, if no write failed.
    pub(super) fn size(&self) -> u64 {
        self.length + self.used as u64
    }

    /// Replaces bytes that were put before. Without success they stay.
    pub(super) fn replace(&mut self, offset: u64, bytes: &[u8]) {
        self.flush();
        if self.error == 0 && self.is_ours().is_ok() {
            let _ = raw::write_at(self.fd, bytes, offset);
        }
    }

    fn flush(&mut self) {
        let used = core::mem::take(&mut self.used);
        if self.error == 0 {
            let buffer = core::mem::take(&mut self.buffer);
            let written = self.write(buffer.get(..used).unwrap_or(&[]));
            self.buffer = buffer;
            self.error = written.err().unwrap_or(0);
        }
    }

    /// Writes all bytes behind those that are written.
    ///
    /// # Errors
    /// errno. EBADF: the number no longer stands for the file.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), i32> {
        while !bytes.is_empty() {
            if raw::monotonic_ns() > self.deadline_ns {
                return Err(libc::ETIMEDOUT);
            }
            self.is_ours()?;
            match raw::write_at(self.fd, bytes, self.length) {
                Ok(0) => return Err(libc::ENOSPC),
                Ok(taken) => {
                    self.length += taken as u64;
                    bytes = bytes.get(taken..).unwrap_or(&[]);
                }
                Err(libc::EINTR) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn is_ours(&self) -> Result<(), i32> {
        match raw::identity(self.fd).ok() == self.identity {
            true => Ok(()),
            false => Err(libc::EBADF),
        }
    }

    /// Gives the file its final name. `replace`: even if a file has that name.
    ///
    /// # Errors
    /// errno. The file then still has its temporary name.
    pub(super) fn place(&mut self, path: &CStr, replace: bool) -> Result<(), i32> {
        let temporary = self.temporary.path().ok_or(libc::ENAMETOOLONG)?;
        raw::rename(temporary, path, replace)?;
        UNFINISHED.store(core::ptr::null_mut(), Ordering::Release);
        Ok(())
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The first errno of all writes.
    pub(super) fn close(&mut self) -> Result<(), i32> {
        self.flush();
        if self.is_ours().is_ok() {
            raw::close(self.fd);
        }
        self.fd = -1;
        match self.error {
            0 => Ok(()),
            error => Err(error),
        }
    }
}
