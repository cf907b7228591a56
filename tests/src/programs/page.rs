//! The page in which a program's threads keep how many records they have surely made, from the program's side.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::truth::{ENTRIES, ENTRY};

/// One thread's truth; the first is for the program as a whole. The words are those of
/// [`crate::support::truth`].
#[derive(Debug)]
#[repr(align(64))]
pub struct Entry([AtomicU64; 8]);

const _: () = assert!(size_of::<Entry>() == ENTRY);

impl Entry {
    /// All zeros.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a static needs a const function"
    )]
    pub const fn new() -> Entry {
        Entry([const { AtomicU64::new(0) }; 8])
    }

    /// Changes a word.
    pub fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }

    /// A word.
    #[must_use]
    pub fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    /// Adds 1. Only the owner writes the word.
    pub fn count(&self, word: usize) {
        self.set(word, self.0[word].load(Ordering::Relaxed) + 1);
    }

    /// Adds 1. Other threads may write the word, too.
    pub fn count_shared(&self, word: usize) -> u64 {
        self.0[word].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Raises the word to `value`, if it is less.
    pub fn raise(&self, word: usize, value: u64) {
        self.0[word].fetch_max(value, Ordering::AcqRel);
    }
}

/// All entries.
pub type Page = &'static [Entry; ENTRIES];

/// Maps the page, which is made already.
///
/// # Panics
///
/// If there is none at `path`.
#[must_use]
pub fn open(path: &str) -> Page {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("the page's file");
    let length = file.metadata().expect("its length").len();
    assert_eq!(length, (ENTRIES * ENTRY) as u64);
    // SAFETY: a new shared mapping of a file that is so long; it is never unmapped, zeros are valid
    // atomics, and pages are aligned to more than 64.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            ENTRIES * ENTRY,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<[Entry; ENTRIES]>()
    }
}
