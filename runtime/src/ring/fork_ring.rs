//! The ring in the child of a fork. The child leaves the ring of its parent and makes a ring of its own, with
//! the parent's settings. The child has a copy of the parent's [`Ring`] object. The mapping is shared with the
//! parent, so the child must never write into it. The child must not keep the file of a dead parent alive
//! either.
//!
//! Async-signal-safe: it makes system calls only, takes no lock and allocates nothing.

use core::ffi::CStr;
use core::fmt::Write as _;

use super::Ring;
use super::chunk::at_address;
use super::layout::{Header, Layout, Slot};
use crate::primitive::{AtomicU64, Ordering};
use crate::sys;
use crate::sys::file::Descriptor;

/// Bytes of the longest path of a ring file, with its NUL. The kernel takes no longer path.
pub(crate) const MAX_PATH: usize = libc::PATH_MAX as usize;

/// The path of a ring file without its random part. A NUL stands for the pid, because no path can hold a NUL.
pub(crate) type Template = &'static [u8];

/// The [`Ring::child_region`] of a ring that no child has left.
pub(super) const NOT_LEFT: u64 = u64::MAX;

const HEADER_WORDS: usize = size_of::<Header>() / size_of::<u64>();
const SLOT_WORDS: usize = size_of::<Slot>() / size_of::<u64>();
const _: () = assert!(size_of::<Header>() % 8 == 0);
const _: () = assert!(size_of::<Slot>() % 8 == 0);

/// Text in memory of the caller.
struct Text<'a> {
    bytes: &'a mut [u8; MAX_PATH],
    length: usize,
}

impl Text<'_> {
    /// Appends text. False if it is too long. One byte stays free for the NUL.
    fn push(&mut self, more: &[u8]) -> bool {
        let end = self.length + more.len();
        let Some(place) = self.bytes[..MAX_PATH - 1].get_mut(self.length..end) else {
            return false;
        };
        place.copy_from_slice(more);
        self.length = end;
        true
    }
}

impl core::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes())
            .then_some(())
            .ok_or(core::fmt::Error)
    }
}

/// Writes the path of this process's ring, which is unpredictable. `None` if the path is too long.
pub(crate) fn write_path(template: &[u8], to: &mut [u8; MAX_PATH]) -> Option<usize> {
    write_path_of(template, sys::process::pid(), sys::process::random(), to)
}

/// As [`write_path`], for any process. `random` is the random number of its ring.
pub(crate) fn write_path_of(
    template: &[u8],
    pid: u32,
    random: u64,
    to: &mut [u8; MAX_PATH],
) -> Option<usize> {
    let mut text = Text {
        bytes: to,
        length: 0,
    };
    for (nth, part) in template.split(|&byte| byte == 0).enumerate() {
        if nth > 0 {
            write!(text, "{pid}").ok()?;
        }
        text.push(part).then_some(())?;
    }
    write!(text, ".{random:016x}.fdr-ring").ok()?;
    let length = text.length;
    to[length] = 0;
    Some(length)
}

impl Ring {
    /// The template for the paths of children's rings.
    pub(crate) fn template(&self) -> Template {
        self.template
    }

    /// Makes the ring of a child, in a file at `path`. If the file can't be made, the ring is in anonymous
    /// memory. `None` if no addresses are free.
    pub(crate) fn for_child(&self, path: Option<&'static CStr>) -> Option<Ring> {
        // The file is open only while this thread stands in for another one. The mapping keeps it locked.
        let is_apart = path.is_none() || sys::own_table::has_own_table();
        let settings = (self.full, self.clock);
        let path = path.filter(|_| is_apart);
        let (mut ring, mut trouble) =
            Ring::with_layout(path, self.layout, settings, self.template)?;
        if !is_apart {
            trouble = Some(libc::EAGAIN);
        }
        ring.file = ring.file.map(Descriptor::closed);
        if let Some(error) = trouble {
            ring.misses_space(error);
        }
        let (old, new) = (self.header(), ring.header());
        for (from, to) in [
            (&old.start_ticks, &new.start_ticks),
            (&old.start_monotonic, &new.start_monotonic),
            (&old.start_realtime, &new.start_realtime),
            (&old.frequency, &new.frequency),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let flags = old.clock_flags.load(Ordering::Relaxed);
        new.clock_flags.store(flags, Ordering::Relaxed);
        for (from, to) in old.program.iter().zip(&new.program) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        ring.set_identity(self.identity);
        ring.copy_functions(self);
        Some(ring)
    }

    /// Replaces the parent's ring by memory of the child's own. The fork may have been made in a signal handler. Then
    /// the interrupted code may still finish a record in `slot`, or may still claim a slot. That code finds the same
    /// values as before, and what it writes is never read.
    ///
    /// If a step fails, the parts that are left stay shared.
    pub(crate) fn leave(&self, slot: Option<&Slot>) {
        let header: [u64; HEADER_WORDS] = words(self.base.addr());
        let own: Option<(usize, [u64; SLOT_WORDS])> = slot.map(|slot| {
            let at = core::ptr::from_ref(slot).addr();
            (at, words(at))
        });
        let layout = &self.layout;
        // SAFETY: the part is inside our mapping. This is the child's only thread. Words that the thread still
        // reads there are put back below.
        if unsafe { sys::memory::map_anonymous(self.base, layout.functions) }.is_err() {
            return;
        }
        put_back(self.base.addr(), &header);
        if let Some((at, own)) = own {
            put_back(at, &own);
        }
        let mut kept = layout.length;
        if let Some(slot) = slot {
            let region = slot.base.load(Ordering::Relaxed) as usize;
            let at = region.wrapping_sub(self.base.addr());
            let valid = at >= layout.regions && at < layout.length;
            // SAFETY: this is a region of ours. Otherwise as above.
            let memory = |at, length| unsafe {
                sys::memory::map_anonymous(self.base.add(at), length).is_ok()
            };
            if !valid || !memory(at, layout.region_size) {
                return;
            }
            kept = at;
            if layout.totals > 0 {
                let totals = self.totals_beside(kept);
                if !memory(totals, layout.totals_size) {
                    return;
                }
                if let Some(calls) = self.open_calls_of(slot) {
                    let address = (self.base.addr() + totals) as u64;
                    calls.totals.store(address, Ordering::Relaxed);
                }
            }
        }
        for (from, length) in self.let_go_parts(kept) {
            // SAFETY: as above. Nothing uses these parts any more.
            unsafe { sys::memory::abandon(self.base.add(from), length) };
        }
        self.child_region.store(kept as u64, Ordering::Relaxed);
    }
}

impl Ring {
    /// Offset of the totals of the slot whose region is at `region`.
    fn totals_beside(&self, region: usize) -> usize {
        let layout = &self.layout;
        layout.totals((region - layout.regions) / layout.region_size)
    }

    /// The offset and the length of each part that a child gives up. The child keeps the head, the region at `kept`,
    /// and the totals of the same slot.
    fn let_go_parts(&self, kept: usize) -> impl Iterator<Item = (usize, usize)> {
        let Layout {
            functions, length, ..
        } = self.layout;
        let behind = length.min(kept.saturating_add(self.layout.region_size));
        let (totals, end) = match self.layout.totals > 0 && kept < length {
            true => {
                let totals = self.totals_beside(kept);
                (totals, totals + self.layout.totals_size)
            }
            false => (length, length),
        };
        let parts = [(functions, kept), (behind, totals), (end, length)];
        let parts = parts.map(|(from, to)| (from, to.saturating_sub(from)));
        parts.into_iter().filter(|&(_, length)| length > 0)
    }

    /// Unmaps the addresses that [`Ring::leave`] made inaccessible, so each further fork finds free addresses.
    /// The head and one region stay as memory. Two forks ago a handler may have interrupted a record, which is
    /// still to be finished there. Called once, by the last user of this ring.
    pub(crate) fn unmap_what_was_left(&self) {
        let kept = self.child_region.swap(NOT_LEFT, Ordering::Relaxed);
        if kept == NOT_LEFT {
            return;
        }
        for (from, length) in self.let_go_parts(kept as usize) {
            // SAFETY: the part is in our mapping. Nothing can be read or written there since `leave`.
            unsafe { sys::memory::unmap(self.base.add(from), length) };
        }
    }
}

fn words<const N: usize>(address: usize) -> [u64; N] {
    core::array::from_fn(|at| word(address, at).load(Ordering::Relaxed))
}

fn put_back(address: usize, words: &[u64]) {
    for (at, value) in words.iter().enumerate() {
        word(address, at).store(*value, Ordering::Relaxed);
    }
}

fn word(address: usize, at: usize) -> &'static AtomicU64 {
    // SAFETY: this is a word of the header or of a slot in the ring's mapping, which stays for the life of the
    // process.
    unsafe { &*at_address::<AtomicU64>(address as u64).add(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_this_process_and_something_random() {
        let mut buffer = [b'x'; MAX_PATH];
        let length = write_path(b"/a/\0/prog.\0", &mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap().to_owned();
        assert_eq!(buffer[length], 0);
        let pid = sys::process::pid();
        let rest = text.strip_prefix(&format!("/a/{pid}/prog.{pid}.")).unwrap();
        let random = rest.strip_suffix(".fdr-ring").unwrap();
        assert!(random.len() == 16 && u64::from_str_radix(random, 16).is_ok());
        write_path(b"/a/\0/prog.\0", &mut buffer).unwrap();
        assert_ne!(buffer[..length], *text.as_bytes());
    }

    #[test]
    fn a_path_that_is_too_long_is_none() {
        let mut buffer = [0; MAX_PATH];
        for length in [MAX_PATH - 28, MAX_PATH - 27, MAX_PATH, 2 * MAX_PATH] {
            let made = write_path(&vec![b'a'; length], &mut buffer).is_some();
            assert_eq!(made, length < MAX_PATH - 26, "{length}");
        }
    }
}
