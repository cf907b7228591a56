//! ELF notes. Copies of this crate find each other by the notes of all loaded objects. The build id is in a note of the
//! executable. This file must never trust a size in a note, because other people's tools write notes too.

use super::loader;

/// A note as it lies in a loaded object.
pub(crate) struct Note {
    /// Its owner, with the NUL at its end.
    pub(crate) name: &'static [u8],
    /// Its type, in the owner's numbering.
    pub(crate) kind: u32,
    /// Its contents.
    pub(crate) descriptor: &'static [u8],
}

/// The notes of every loaded object. Not async-signal-safe, because the loader has a lock.
pub(crate) fn all() -> Vec<Note> {
    unsafe extern "C" fn object(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid structure and our own list.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Note>>()) };
        if !info.dlpi_phdr.is_null() {
            // SAFETY: the loader's structure says where the object's program headers are.
            let headers = unsafe {
                core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
            };
            // SAFETY: the object is loaded at that address.
            unsafe { of_object(headers, info.dlpi_addr as usize, found) };
        }
        0
    }
    let mut found = Vec::new();
    // SAFETY: the callback takes our list and does not unwind.
    unsafe { loader::walk(object, (&raw mut found).cast()) };
    found
}

/// The build id of the executable, if its linker made one. Source: GNU binutils, "NT_GNU_BUILD_ID"; getauxval(3).
/// It takes no lock, because another thread may have held the loader's when this process was forked.
pub(crate) fn build_id() -> Option<&'static [u8]> {
    // SAFETY: the function takes a number and touches no memory of ours.
    let value = |kind| unsafe { libc::getauxval(kind) } as usize;
    let (at, count) = (value(libc::AT_PHDR), value(libc::AT_PHNUM));
    if at == 0 || value(libc::AT_PHENT) != size_of::<libc::Elf64_Phdr>() {
        return None;
    }
    // SAFETY: the kernel says where the executable's program headers are, and it has mapped them.
    let headers: &[libc::Elf64_Phdr] =
        unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(at), count) };
    let address = load_bias(headers)?;
    let mut notes = Vec::new();
    // SAFETY: the executable is loaded at that address.
    unsafe { of_object(headers, address, &mut notes) };
    build_id_in(&notes)
}

/// By how much the addresses of the executable differ from those in its file. Its program headers are given as they lie
/// in memory.
///
/// Most linkers say where these headers should lie (PT_PHDR). GNU ld says so only in programs that need a loader. In
/// others the ELF header is in the same page, and the file's first segment says where that page should lie.
fn load_bias(headers: &[libc::Elf64_Phdr]) -> Option<usize> {
    let at = headers.as_ptr().expose_provenance();
    if let Some(own) = headers.iter().find(|header| header.p_type == libc::PT_PHDR) {
        return Some(at.wrapping_sub(own.p_vaddr as usize));
    }
    /// No page is smaller, so all of this size around the program headers is mapped.
    const PAGE: usize = 4096;
    let page = at & !(PAGE - 1);
    if at - page < size_of::<libc::Elf64_Ehdr>() {
        return None;
    }
    // SAFETY: the structure ends before the program headers, in a page that is mapped. Any bytes are valid for it.
    let file: &libc::Elf64_Ehdr = unsafe { &*core::ptr::with_exposed_provenance(page) };
    let is_file = file.e_ident.starts_with(b"\x7FELF") && file.e_phoff == (at - page) as u64;
    let first = headers
        .iter()
        .find(|header| header.p_type == libc::PT_LOAD && header.p_offset == 0)?;
    is_file.then(|| page.wrapping_sub(first.p_vaddr as usize))
}

/// The build id among the notes of an object.
pub(super) fn build_id_in(notes: &[Note]) -> Option<&'static [u8]> {
    const BUILD_ID: u32 = 3;
    let id = |note: &&Note| note.name == b"GNU\0" && note.kind == BUILD_ID;
    notes.iter().find(id).map(|note| note.descriptor)
}

/// The notes of one object.
///
/// # Safety
/// An object with these program headers is loaded at that address.
pub(super) unsafe fn of_object(
    headers: &[libc::Elf64_Phdr],
    address: usize,
    found: &mut Vec<Note>,
) {
    for header in headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
    {
        let start = address.wrapping_add(header.p_vaddr as usize);
        // SAFETY: a PT_NOTE of a loaded object lies in one of its mapped segments.
        let segment = unsafe {
            core::slice::from_raw_parts(
                core::ptr::with_exposed_provenance::<u8>(start),
                header.p_memsz as usize,
            )
        };
        walk(segment, header.p_align as usize, found);
    }
}

/// Runs `work` under the loader's lock. So no other thread runs `alone` at the same time, in any copy of this crate,
/// and no library is loaded or unloaded. With musl this is not so, because it walks the loaded objects without a lock.
/// `work` must load nothing. Not async-signal-safe.
pub(crate) fn alone(mut work: &mut dyn FnMut()) {
    unsafe extern "C" fn first(
        _info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        work: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: our own reference comes back, and no other code has it.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        work();
        1
    }
    // SAFETY: the callback takes `work` and does not unwind. The owner of the loader's lock may take it again.
    unsafe { loader::walk(first, (&raw mut work).cast()) };
}

/// Walks the notes of one segment. A note has a u32 size of the name, a u32 size of the descriptor, a u32 type, the
/// name, and the descriptor. Name and descriptor are padded to the segment's alignment (4, or 8 for some notes of the
/// linker). Source: the gABI, chapter 5, "Note Section".
fn walk(mut segment: &'static [u8], align: usize, found: &mut Vec<Note>) {
    let align = if align == 8 { 8 } else { 4 };
    while let Some((note, end)) = first(segment, align) {
        found.push(note);
        segment = segment.get(end.next_multiple_of(align)..).unwrap_or(&[]);
    }
}

/// The first note and where it ends.
fn first(segment: &'static [u8], align: usize) -> Option<(Note, usize)> {
    let word = |at: usize| {
        let bytes = segment.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let name_end = 12_usize.checked_add(word(0)? as usize)?;
    let start = name_end.checked_next_multiple_of(align)?;
    let end = start.checked_add(word(4)? as usize)?;
    let note = Note {
        name: segment.get(12..name_end)?,
        kind: word(8)?,
        descriptor: segment.get(start..end)?,
    };
    Some((note, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(segment: &'static [u8], align: usize) -> Vec<(&'static [u8], u32, &'static [u8])> {
        let mut found = Vec::new();
        walk(segment, align, &mut found);
        found
            .iter()
            .map(|note| (note.name, note.kind, note.descriptor))
            .collect()
    }

    #[test]
    fn notes_follow_each_other_with_padding() {
        let segment = b"\x02\0\0\0\x01\0\0\0\x07\0\0\0a\0\0\0z\0\0\0\
                        \x04\0\0\0\x00\0\0\0\x08\0\0\0fdr\0";
        assert_eq!(
            walked(segment, 4),
            [(&b"a\0"[..], 7, &b"z"[..]), (b"fdr\0", 8, b"")]
        );
        let wide = b"\x04\0\0\0\x02\0\0\0\x05\0\0\0GNU\0yz\0\0\0\0\0\0";
        assert_eq!(walked(wide, 8), [(&b"GNU\0"[..], 5, &b"yz"[..])]);
    }

    #[test]
    fn sizes_that_lie_end_the_walk() {
        let long_name = b"\xFF\xFF\xFF\xFF\x01\0\0\0\x07\0\0\0a\0\0\0";
        let long_text = b"\x02\0\0\0\xFF\xFF\xFF\xFF\x07\0\0\0a\0\0\0";
        assert_eq!(walked(long_name, 4), []);
        assert_eq!(walked(long_text, 8), []);
        assert_eq!(walked(b"\x02\0\0", 4), []);
    }

    #[test]
    fn the_build_id_is_that_of_the_executable() {
        let own = all()
            .into_iter()
            .filter(|note| note.name == b"GNU\0" && note.kind == 3);
        let own: Vec<_> = own.map(|note| note.descriptor).collect();
        let id = build_id();
        assert!(id.is_none_or(|id| !id.is_empty() && own.contains(&id)));
    }

    #[test]
    fn this_very_program_has_our_note() {
        assert!(
            all()
                .iter()
                .any(|note| note.name == b"fdr\0" && note.descriptor.len() == 8)
        );
    }
}
