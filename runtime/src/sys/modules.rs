//! The files that are loaded into the process: where their code lies, their build ids, and their paths. Must never be
//! called where the loader's lock may be held by a thread that waits.

use core::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

use fdr_formats::model::Module;

use super::{loader, notes};

/// All that are loaded now, the executable first. Not async-signal-safe.
pub(crate) fn all() -> Vec<Module> {
    unsafe extern "C" fn object(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid structure and our own list.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Module>>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader's structure says where the object's program headers are.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let name = match info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: the loader's structure has a text that ends, and lives for as long as the object is loaded.
            false => unsafe { CStr::from_ptr(info.dlpi_name) },
        };
        let mut list = Vec::new();
        // SAFETY: the object is loaded at that address.
        unsafe { notes::of_object(headers, info.dlpi_addr as usize, &mut list) };
        let build = notes::build_id_in(&list).unwrap_or_default().to_vec();
        let path = match name.to_bytes() {
            // The executable: by glibc, and by musl in a static program.
            b"" | b"/proc/self/exe" => own_path(),
            path => String::from_utf8_lossy(path).into_owned(),
        };
        if let Some((start, end)) = code(headers) {
            found.push(Module {
                start: info.dlpi_addr.wrapping_add(start),
                end: info.dlpi_addr.wrapping_add(end),
                bias: info.dlpi_addr,
                build,
                path,
            });
        }
        0
    }
    let mut found = Vec::new();
    // SAFETY: the callback takes our list and does not unwind.
    unsafe { loader::walk(object, (&raw mut found).cast()) };
    found
}

fn own_path() -> String {
    let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

/// From where to where the code is, by the file's own addresses.
fn code(headers: &[libc::Elf64_Phdr]) -> Option<(u64, u64)> {
    let is_code = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0
    };
    let all = headers.iter().filter(is_code);
    let all = all.map(|header| (header.p_vaddr, header.p_vaddr.wrapping_add(header.p_memsz)));
    all.reduce(|(start, end), (from, until)| (start.min(from), end.max(until)))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_executable_has_this_code() {
        let here = all as fn() -> Vec<Module> as usize as u64;
        let list = all();
        let own = list
            .iter()
            .find(|module| (module.start..module.end).contains(&here));
        let own = own.expect("the executable");
        assert_eq!(own.path, own_path());
        assert_eq!(own.build, notes::build_id().unwrap_or_default());
        assert!(own.bias <= own.start);
    }
}
