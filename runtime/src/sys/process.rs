//! The process: its environment, its number, its end, its children.

use core::ffi::CStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

unsafe extern "C" {
    /// In glibc since 2.17 and in musl since 1.1.24; the libc crate does not declare it.
    fn secure_getenv(name: *const libc::c_char) -> *mut libc::c_char;
}

/// A variable of the environment; `None` where it is unset, and always in setuid programs.
/// Not async-signal-safe.
pub(crate) fn variable(name: &CStr) -> Option<OsString> {
    // SAFETY: `name` is NUL-terminated. We run where nobody changes the environment meanwhile, as
    // every reader of it must: before main, or in a call that the program made.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: secure_getenv returns a NUL-terminated string; it is copied at once.
    let bytes = unsafe { CStr::from_ptr(value) }.to_bytes();
    Some(OsString::from_vec(bytes.to_vec()))
}

/// Async-signal-safe.
pub(crate) fn pid() -> u32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() as u32 }
}

/// Calls `handler` when the process ends by `exit` or by returning from main.
pub(crate) fn at_exit(handler: extern "C" fn()) -> bool {
    // SAFETY: `handler` is a function of the C ABI that never unwinds.
    unsafe { libc::atexit(handler) == 0 }
}

/// Calls `handler` in every child that `fork` makes.
pub(crate) fn at_fork_in_child(handler: unsafe extern "C" fn()) -> bool {
    // SAFETY: as above; the other two hooks are absent.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// Visits every ELF note of every loaded object: name with its NUL, type, descriptor. Not
/// async-signal-safe: the loader has a lock.
pub(crate) fn each_note(visit: &mut dyn FnMut(&[u8], u32, &'static [u8])) {
    struct State<'a> {
        visit: &'a mut dyn FnMut(&[u8], u32, &'static [u8]),
    }
    unsafe extern "C" fn object(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        state: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid structure, and our own state back.
        let (info, state) = unsafe { (&*info, &mut *state.cast::<State<'_>>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader's structure says where the object's program headers are.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers
            .iter()
            .filter(|header| header.p_type == libc::PT_NOTE)
        {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            // SAFETY: a PT_NOTE of a loaded object lies in one of its mapped segments.
            let notes = unsafe {
                core::slice::from_raw_parts(
                    core::ptr::with_exposed_provenance::<u8>(start),
                    header.p_memsz as usize,
                )
            };
            each_of(notes, header.p_align as usize, state.visit);
        }
        0
    }
    let mut state = State { visit };
    // SAFETY: the callback has the right signature and does not unwind; `state` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut state).cast()) };
}

/// Walks the notes of one segment. Each: u32 size of the name, u32 of the descriptor, u32 type, the
/// name, the descriptor, both padded to the segment's alignment (4, or 8 for some of the linker's).
fn each_of(
    mut notes: &'static [u8],
    align: usize,
    visit: &mut dyn FnMut(&[u8], u32, &'static [u8]),
) {
    let align = if align == 8 { 8 } else { 4 };
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    while let (Some(name), Some(size), Some(kind)) =
        (word(notes, 0), word(notes, 4), word(notes, 8))
    {
        let name_end = 12 + name as usize;
        let start = name_end.next_multiple_of(align);
        let end = start + size as usize;
        let (Some(name), Some(descriptor)) = (notes.get(12..name_end), notes.get(start..end))
        else {
            return;
        };
        visit(name, kind, descriptor);
        notes = notes.get(end.next_multiple_of(align)..).unwrap_or(&[]);
    }
}

/// Keeps the shared library that holds `address` loaded for good. Nothing to do for an executable.
pub(crate) fn pin_library(address: *const libc::c_void) {
    // SAFETY: all zeros is a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: `info` is valid for writing; dladdr takes any address.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the loader's own name of the library. With NOLOAD nothing is loaded; the handle is
    // not closed on purpose. For the executable it finds nothing, which is as well.
    unsafe { libc::dlopen(info.dli_fname, flags) };
}
