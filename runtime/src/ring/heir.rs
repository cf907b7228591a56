//! The ring in the child of a fork: letting go of the parent's, and making one of its own from what
//! the parent's object says. The object is memory that the child has a copy of; the mapping was shared,
//! so nothing of it may be written, and it must not keep a dead parent's file alive.
//!
//! Async-signal-safe: system calls alone, no lock, no allocation.

use core::ffi::CStr;
use core::fmt::Write as _;

use super::Ring;
use super::chunk::at_address;
use super::layout::{Header, Layout, Slot};
use crate::primitive::{AtomicU64, Ordering};
use crate::sys;

/// Bytes of a ring file's path, its NUL included: the kernel takes no longer one.
pub(crate) const LONGEST_PATH: usize = libc::PATH_MAX as usize;

/// The path of a ring file but for its random part. A NUL, which no path can hold, stands for the pid.
pub(crate) type Template = &'static [u8];

/// The [`Ring::kept`] of a ring that no child has let go.
pub(super) const NOT_LEFT: u64 = u64::MAX;

const HEADER_WORDS: usize = size_of::<Header>() / size_of::<u64>();
const SLOT_WORDS: usize = size_of::<Slot>() / size_of::<u64>();
const _: () = assert!(size_of::<Header>() % 8 == 0);
const _: () = assert!(size_of::<Slot>() % 8 == 0);

/// Text in memory that is there already.
struct Text<'a> {
    bytes: &'a mut [u8; LONGEST_PATH],
    length: usize,
}

impl Text<'_> {
    /// False where it is too long; one byte is left for the NUL.
    fn push(&mut self, more: &[u8]) -> bool {
        let end = self.length + more.len();
        let Some(place) = self.bytes[..LONGEST_PATH - 1].get_mut(self.length..end) else {
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

/// Writes the path of this process's ring: a name that nobody can guess. `None` where it is too long.
pub(crate) fn write_path(template: &[u8], to: &mut [u8; LONGEST_PATH]) -> Option<usize> {
    let mut text = Text {
        bytes: to,
        length: 0,
    };
    for (nth, part) in template.split(|&byte| byte == 0).enumerate() {
        if nth > 0 {
            write!(text, "{}", sys::process::pid()).ok()?;
        }
        text.push(part).then_some(())?;
    }
    write!(text, ".{:016x}.fdr-ring", sys::process::random()).ok()?;
    let length = text.length;
    to[length] = 0;
    Some(length)
}

impl Ring {
    /// What the paths of children's rings are made of.
    pub(crate) fn template(&self) -> Template {
        self.template
    }

    /// Makes the ring of a child, in a file at `path`, or, where that can't be, in anonymous memory.
    /// `None` where not even addresses are to be had.
    pub(crate) fn heir(&self, path: Option<&'static CStr>) -> Option<Ring> {
        let (ring, trouble) =
            Ring::with_layout(path, self.layout, self.full, self.clock, self.template)?;
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
        ring.copy_functions(self);
        Some(ring)
    }

    /// Puts memory of the child's own in the place of its parent's ring, and closes its file. Code that
    /// the fork interrupted (it was made in a signal handler) may still finish a record in `slot`, or
    /// the claim of another: it finds everything as it was, and what it writes goes nowhere.
    ///
    /// Where a step can't be made the rest stays as it was: shared.
    pub(crate) fn leave(&self, slot: Option<&Slot>) {
        let header: [u64; HEADER_WORDS] = words(self.base.addr());
        let own: Option<(usize, [u64; SLOT_WORDS])> = slot.map(|slot| {
            let at = core::ptr::from_ref(slot).addr();
            (at, words(at))
        });
        let layout = &self.layout;
        // SAFETY: the part is inside our mapping; this is the child's only thread, and what it still
        // reads there is put back below.
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
            // SAFETY: a region of ours; as above.
            let replaced = valid
                && unsafe { sys::memory::map_anonymous(self.base.add(at), layout.region_size) }
                    .is_ok();
            if !replaced {
                return;
            }
            kept = at;
        }
        for (from, length) in self.let_go_parts(kept) {
            // SAFETY: as above; nothing there is used any more.
            unsafe { sys::memory::abandon(self.base.add(from), length) };
        }
        self.kept.store(kept as u64, Ordering::Relaxed);
        if let Some(file) = self.file {
            file.close();
        }
    }
}

impl Ring {
    /// What a child lets go that keeps the head and the region at `kept`: offset and length of each part.
    fn let_go_parts(&self, kept: usize) -> impl Iterator<Item = (usize, usize)> {
        let Layout {
            functions, length, ..
        } = self.layout;
        let behind = length.min(kept.saturating_add(self.layout.region_size));
        let parts = [(functions, kept), (behind, length)];
        let parts = parts.map(|(from, to)| (from, to.saturating_sub(from)));
        parts.into_iter().filter(|&(_, length)| length > 0)
    }

    /// Gives back the addresses that [`Ring::leave`] made inaccessible, so that a family of any length has
    /// room. The head and one region stay, as memory: two forks ago a handler may have interrupted a record
    /// that is still to be finished there. To be called once, by the last who knows this ring.
    pub(crate) fn unmap_what_was_left(&self) {
        let kept = self.kept.swap(NOT_LEFT, Ordering::Relaxed);
        if kept == NOT_LEFT {
            return;
        }
        for (from, length) in self.let_go_parts(kept as usize) {
            // SAFETY: part of our mapping; nothing can be read or written there since `leave`.
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
    // SAFETY: a header's or slot's word in the ring's mapping, which stays for the life of the process.
    unsafe { &*at_address::<AtomicU64>(address as u64).add(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_this_process_and_something_random() {
        let mut buffer = [b'x'; LONGEST_PATH];
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
        let mut buffer = [0; LONGEST_PATH];
        for length in [
            LONGEST_PATH - 28,
            LONGEST_PATH - 27,
            LONGEST_PATH,
            2 * LONGEST_PATH,
        ] {
            let made = write_path(&vec![b'a'; length], &mut buffer).is_some();
            assert_eq!(made, length < LONGEST_PATH - 26, "{length}");
        }
    }
}
