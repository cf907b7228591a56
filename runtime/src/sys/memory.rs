//! Mappings: one long reservation of addresses, files and anonymous memory laid into it.

/// Reserves `length` bytes of addresses, aligned to `align` (a power of two, at least a page).
/// Nothing can be read or written there yet. Async-signal-safe.
pub(crate) fn reserve(length: usize, align: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let total = length.checked_add(align)?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let raw = unsafe { libc::mmap(core::ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return None;
    }
    let start = raw as usize;
    let aligned = start.checked_next_multiple_of(align)?;
    let (head, tail) = (aligned - start, align - (aligned - start));
    // SAFETY: both ends belong to the mapping made above and are outside what is returned.
    unsafe {
        if head > 0 {
            libc::munmap(raw, head);
        }
        if tail > 0 {
            libc::munmap((aligned + length) as *mut libc::c_void, tail);
        }
    }
    Some(aligned as *mut u8)
}

/// Lays `length` bytes of a file, from its start, over a reservation, shared. Nothing there can be read or
/// written before [`allow`]. What is touched is brought in, and nothing around it: the kernel would read ahead as
/// for a file that is read from its start, which costs a first touch a millisecond where a disk is set to read
/// much ahead.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours that nobody uses yet.
pub(crate) unsafe fn map_file(at: *mut u8, length: usize, fd: i32) -> Result<(), i32> {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller vouches for the place; the kernel for the rest.
    unsafe { map(at, length, libc::PROT_NONE, flags, fd) }?;
    // SAFETY: as above; the advice changes no contents.
    unsafe { libc::madvise(at.cast(), length, libc::MADV_RANDOM) };
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
    match unsafe { libc::mprotect(at.cast(), length, protection) } {
        0 => Ok(()),
        _ => Err(super::errno()),
    }
}

/// Keeps a part of a mapping out of core dumps. A hint: failure is no harm. Async-signal-safe.
pub(crate) fn leave_out_of_cores(at: *mut u8, length: usize) {
    // SAFETY: the advice changes no contents; a wrong range is an error of the call, not of ours.
    unsafe { libc::madvise(at.cast(), length, libc::MADV_DONTDUMP) };
}

/// Puts a mapping in the place of another one of the same length, in one step: no thread sees anything else
/// there than the old contents or the new ones. Async-signal-safe.
///
/// # Safety
/// `from .. from + length` is a mapping of ours that nobody else knows; `to .. to + length` is one of ours, of
/// which every content is valid for those who use it.
pub(crate) unsafe fn move_over(from: *mut u8, length: usize, to: *mut u8) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let to = to.cast::<libc::c_void>();
    // SAFETY: as the caller vouches.
    unsafe { libc::mremap(from.cast(), length, length, flags, to) != libc::MAP_FAILED }
}

/// Lays anonymous memory over a part of a reservation, or over a part of the file's mapping that
/// could not get space.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours and nobody uses that part yet.
pub(crate) unsafe fn map_anonymous(at: *mut u8, length: usize) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: as the caller vouches.
    unsafe { map(at, length, protection, flags, -1) }
}

/// `length` bytes of zeros, more than none, that stay for the life of the process. Async-signal-safe.
pub(crate) fn lasting(length: usize) -> Option<&'static mut [u8]> {
    let at = reserve(length, ALIGNMENT)?;
    // SAFETY: the reservation just made, which nobody uses.
    unsafe { map_anonymous(at, length) }.ok()?;
    // SAFETY: as long, zeros, and nobody else's for good.
    Some(unsafe { core::slice::from_raw_parts_mut(at, length) })
}

/// What mappings are aligned to: the largest page there is.
const ALIGNMENT: usize = 64 * 1024;

/// Puts addresses where nothing can be read or written over a part of a mapping, whose memory is given
/// back. Async-signal-safe.
///
/// # Safety
/// `at .. at + length` lies in a reservation of ours, and nobody uses that part any more.
pub(crate) unsafe fn abandon(at: *mut u8, length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: MAP_FIXED replaces only what the caller says is ours and unused.
    let raw = unsafe { libc::mmap(at.cast(), length, libc::PROT_NONE, flags, -1, 0) };
    raw != libc::MAP_FAILED
}

/// # Safety
/// As of the two functions above.
unsafe fn map(at: *mut u8, length: usize, protection: i32, flags: i32, fd: i32) -> Result<(), i32> {
    // SAFETY: MAP_FIXED replaces only what the caller says is ours and unused.
    let raw = unsafe { libc::mmap(at.cast(), length, protection, flags, fd, 0) };
    if raw == libc::MAP_FAILED {
        Err(super::errno())
    } else {
        Ok(())
    }
}

/// Gives a reservation back.
///
/// # Safety
/// `at .. at + length` is a mapping of ours that nobody uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { libc::munmap(at.cast(), length) };
}

/// Has the kernel read what is not in memory any more, all of it at a time. A hint: failure is no harm.
pub(crate) fn read_ahead(at: *mut u8, length: usize) {
    // SAFETY: the advice changes no contents; a wrong range is an error of the call, not of ours.
    unsafe { libc::madvise(at.cast(), length, libc::MADV_WILLNEED) };
}

/// Brings pages in, so that their first use is no page fault. A hint: failure is no harm.
pub(crate) fn prefault(at: *mut u8, length: usize) {
    /// Linux 5.14; older kernels answer EINVAL.
    const MADV_POPULATE_WRITE: i32 = 23;
    // SAFETY: the advice changes no contents; a wrong range is an error of the call, not of ours.
    unsafe { libc::madvise(at.cast(), length, MADV_POPULATE_WRITE) };
}
