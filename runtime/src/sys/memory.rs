//! Mappings: a long reservation of addresses, and files and anonymous memory that are mapped into it. This file
//! must never replace a mapping of the program.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::kernel;

/// Reserves `length` bytes of addresses, aligned to `align` (a power of two, at least a page). They can't be
/// read or written yet. Async-signal-safe.
pub(crate) fn reserve(length: usize, align: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let total = length.checked_add(align)?;
    // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
    let raw = unsafe { kernel::mmap(core::ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return None;
    }
    let start = raw as usize;
    let aligned = start.checked_next_multiple_of(align)?;
    let (head, tail) = (aligned - start, align - (aligned - start));
    // SAFETY: both ends belong to the mapping made above and lie outside the returned part.
    unsafe {
        if head > 0 {
            kernel::munmap(raw, head);
        }
        if tail > 0 {
            kernel::munmap((aligned + length) as *mut libc::c_void, tail);
        }
    }
    Some(aligned as *mut u8)
}

/// Maps `length` bytes of a file, from its start, shared, over a reservation. They can't be read or written
/// before [`allow`]. A first touch brings in the touched page only. By default the kernel would read ahead, and
/// a first touch would then take a millisecond on some disks.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours that no code uses yet.
pub(crate) unsafe fn map_file(at: *mut u8, length: usize, fd: i32) -> Result<(), i32> {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller promises the place. The kernel checks the other arguments.
    unsafe { map(at, length, libc::PROT_NONE, flags, fd) }?;
    // SAFETY: as above. The advice changes no contents.
    unsafe { kernel::madvise(at.cast(), length, libc::MADV_RANDOM) };
    Ok(())
}

/// Allows reading and writing in a part of a mapping. Async-signal-safe.
///
/// # Errors
/// errno. ENOMEM: the kernel allows no more mappings.
///
/// # Safety
/// `at .. at + length` lies in a mapping of ours.
pub(crate) unsafe fn allow(at: *mut u8, length: usize) -> Result<(), i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: as the caller vouches; no contents change.
    match unsafe { kernel::mprotect(at.cast(), length, protection) } {
        0 => Ok(()),
        _ => Err(super::errno()),
    }
}

/// Keeps a part of a mapping out of core dumps. It is a hint, so failure does no harm. Async-signal-safe.
pub(crate) fn leave_out_of_cores(at: *mut u8, length: usize) {
    // SAFETY: the advice changes no contents. The kernel refuses a wrong range.
    unsafe { kernel::madvise(at.cast(), length, libc::MADV_DONTDUMP) };
}

/// Replaces a mapping by another one of the same length, in one step. Every thread sees either the old contents
/// or the new ones. Async-signal-safe.
///
/// # Safety
/// `from .. from + length` is a mapping of ours that no other code knows. `to .. to + length` is a mapping of ours, and
/// its users accept any contents.
pub(crate) unsafe fn move_over(from: *mut u8, length: usize, to: *mut u8) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let to = to.cast::<libc::c_void>();
    // SAFETY: as the caller vouches.
    unsafe { libc::mremap(from.cast(), length, length, flags, to) != libc::MAP_FAILED }
}

/// Maps anonymous memory over a part of a reservation, or over a part of the file's mapping that got no space.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours, and no code uses that part yet.
pub(crate) unsafe fn map_anonymous(at: *mut u8, length: usize) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: as the caller vouches.
    unsafe { map(at, length, protection, flags, -1) }
}

/// `length` zero bytes, at least one, that stay for the life of the process. Async-signal-safe.
pub(crate) fn lasting(length: usize) -> Option<&'static mut [u8]> {
    let at = reserve(length, ALIGNMENT)?;
    // SAFETY: this is the reservation made above, which no other code uses.
    unsafe { map_anonymous(at, length) }.ok()?;
    // SAFETY: the bytes are mapped, zero, and belong to the caller for ever.
    Some(unsafe { core::slice::from_raw_parts_mut(at, length) })
}

/// `length` zero bytes that stay for the life of the process, and that its children write to as well.
/// Async-signal-safe.
pub(crate) fn shared_with_children(length: usize) -> Option<*mut u8> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
    let at = unsafe { kernel::mmap(core::ptr::null_mut(), length, protection, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// Has the kernel empty the memory in every child that gets a copy of it. `memory` begins at a page. A kernel before
/// 4.14 does not know how.
pub(crate) fn empty_in_children(memory: &mut [u8]) {
    // SAFETY: the advice changes no contents here. The caller has the memory for itself.
    unsafe {
        kernel::madvise(
            memory.as_mut_ptr().cast(),
            memory.len(),
            libc::MADV_WIPEONFORK,
        )
    };
}

/// A file that was mapped for reading. It needs no descriptor.
#[derive(Debug)]
pub(crate) struct Mapped {
    at: usize,
    length: usize,
}

impl Mapped {
    /// Maps all of a file. No other process may have the file open.
    ///
    /// # Errors
    /// The file is empty, or the system maps nothing more.
    pub(crate) fn from_file(file: &File) -> io::Result<Mapped> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let (fd, flags) = (file.as_raw_fd(), libc::MAP_PRIVATE);
        // SAFETY: the kernel chooses addresses that no mapping uses.
        let at =
            unsafe { kernel::mmap(core::ptr::null_mut(), length, libc::PROT_READ, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = at.expose_provenance();
        Ok(Mapped { at, length })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let at = core::ptr::with_exposed_provenance(self.at);
        // SAFETY: the bytes are mapped as long as this value lives, and no process writes to the file.
        unsafe { core::slice::from_raw_parts(at, self.length) }
    }

    /// Its place as text, for another copy of the recorder in this process. [`Mapped::from_text`] takes it over.
    pub(crate) fn into_text(self) -> String {
        let text = format!("{} {}", self.at, self.length);
        core::mem::forget(self);
        text
    }

    /// Takes over what [`Mapped::into_text`] gave, once.
    pub(crate) fn from_text(at: &str, length: &str) -> Option<Mapped> {
        let (at, length) = (at.parse().ok()?, length.parse().ok()?);
        Some(Mapped { at, length })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let at = core::ptr::with_exposed_provenance_mut(self.at);
        // SAFETY: the mapping is this value's own.
        unsafe { kernel::munmap(at, self.length) };
    }
}

/// The alignment of mappings: the largest page that exists.
const ALIGNMENT: usize = 64 * 1024;

/// Makes a part of a mapping inaccessible and gives its memory back. Async-signal-safe.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours, and no code uses that part any more.
pub(crate) unsafe fn abandon(at: *mut u8, length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: MAP_FIXED replaces only the part that the caller promises to be ours and unused.
    let raw = unsafe { kernel::mmap(at.cast(), length, libc::PROT_NONE, flags, -1, 0) };
    raw != libc::MAP_FAILED
}

/// # Safety
/// The promises of the two functions above.
unsafe fn map(at: *mut u8, length: usize, protection: i32, flags: i32, fd: i32) -> Result<(), i32> {
    // SAFETY: MAP_FIXED replaces only the part that the caller promises to be ours and unused.
    let raw = unsafe { kernel::mmap(at.cast(), length, protection, flags, fd, 0) };
    if raw == libc::MAP_FAILED {
        Err(super::errno())
    } else {
        Ok(())
    }
}

/// The process's limit on its addresses, in bytes. `None`: there is none.
pub(crate) fn address_limit() -> Option<u64> {
    // SAFETY: all zeros is a valid `rlimit`.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` is valid for writing.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Whether the folder's files are in memory, and never on a disk.
pub(crate) fn has_files_in_memory(folder: &core::ffi::CStr) -> bool {
    /// Source: statfs(2). The constant of libc has another type in each C library.
    const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58F6];
    // SAFETY: all zeros is a valid `statfs`.
    let mut found: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: the name ends with a NUL, and `found` is valid for writing.
    let result = unsafe { libc::statfs(folder.as_ptr(), &raw mut found) };
    #[allow(
        clippy::unnecessary_cast,
        reason = "the field's type is another one in each C library"
    )]
    let kind = found.f_type as i64;
    result == 0 && IN_MEMORY.contains(&kind)
}

/// Unmaps a reservation.
///
/// # Safety
/// `at .. at + length` is a mapping of ours that no code uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { kernel::munmap(at.cast(), length) };
}

/// Has the kernel read everything that is no longer in memory, at once. It is a hint, so failure does no harm.
pub(crate) fn read_ahead(at: *mut u8, length: usize) {
    // SAFETY: the advice changes no contents. The kernel refuses a wrong range.
    unsafe { kernel::madvise(at.cast(), length, libc::MADV_WILLNEED) };
}

/// Removes the contents of pages of a file, with their space. It is a favour to others, so failure does no harm.
/// Async-signal-safe. May change errno.
pub(crate) fn give_space_back(at: *mut u8, length: usize) {
    // SAFETY: the pages are of a part of the file that no code uses. The kernel refuses a wrong range.
    unsafe { libc::madvise(at.cast(), length, libc::MADV_REMOVE) };
}

/// Brings pages into memory, so their first use is no page fault. Pages of a file get space on the disk. `at` is the
/// beginning of a page. Async-signal-safe. May change errno.
///
/// # Errors
/// errno. EFAULT: a use of the pages would raise SIGBUS, because there is no space or because the file is shorter.
/// EINVAL: a kernel before Linux 5.14.
pub(crate) fn populate(at: *mut u8, length: usize) -> Result<(), i32> {
    const MADV_POPULATE_WRITE: i32 = 23;
    loop {
        // SAFETY: the advice changes no contents. The kernel refuses a wrong range.
        match unsafe { kernel::madvise(at.cast(), length, MADV_POPULATE_WRITE) } {
            0 => return Ok(()),
            _ if super::errno() == libc::EINTR => {}
            _ => return Err(super::errno()),
        }
    }
}
