//! The static of every `#[traced]` function. It is in a link section of its own, so the recorder finds all of
//! them at load time without a call. This file must never run code of its own.

pub(crate) mod slot_access;
pub(crate) mod unit;

use core::sync::atomic::{AtomicU32, Ordering};

/// One traced function. The `CallSite`s of a program are side by side in the link section `fdr_sites`.
#[repr(C, align(64))]
pub struct CallSite {
    /// 0 = off. Otherwise the low word of the function's records: its id << 4, with the recorder's own bit 0.
    state: AtomicU32,
    /// The function's id, from 1. 0 until the function is registered.
    id: AtomicU32,
    /// Source line, from 1.
    line: u32,
    /// [`CallSite::MAGIC`]. It is checked before the section's contents are used.
    magic: u32,
    /// The full name if the attribute gives one, otherwise empty.
    name: &'static str,
    /// Returns the name of a type that the expansion declares inside the function. This name is the compiler's
    /// full path.
    path: fn() -> &'static str,
    /// The source file, in the compiler's words.
    file: &'static str,
    /// Whether its records have no times of their own.
    untimed: bool,
}

const _: () = assert!(size_of::<CallSite>() == 64);

impl CallSite {
    pub(crate) const MAGIC: u32 = 0xFD12_517E;

    /// For expansions only. `Here` is a type declared in the function. A function returns its name, because
    /// names of types are not known at compile time.
    #[must_use]
    pub const fn new<Here>(file: &'static str, line: u32) -> CallSite {
        CallSite {
            state: AtomicU32::new(0),
            id: AtomicU32::new(0),
            line,
            magic: CallSite::MAGIC,
            name: "",
            path: core::any::type_name::<Here>,
            file,
            untimed: false,
        }
    }

    /// For expansions only: gives the site a full name.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> CallSite {
        self.name = name;
        self
    }

    /// For expansions only: makes the site untimed.
    #[must_use]
    pub const fn untimed(mut self) -> CallSite {
        self.untimed = true;
        self
    }

    /// 0 = off, otherwise the record's low word. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn state(&self) -> u32 {
        // Relaxed: the word needs nothing else. Registration has published the function that it names.
        self.state.load(Ordering::Relaxed)
    }

    /// Gives the site its id, from 1, below 2^28.
    pub(crate) fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    /// Turns recording at the site on or off. A call that is under way keeps its word. `bit` is an additional
    /// bit of the word, see `recorder::prepare`.
    pub(crate) fn switch(&self, on: bool, bit: u32) {
        let state = if on { self.id() << 4 | bit } else { 0 };
        self.state.store(state, Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The compiler's path of a type declared in the function.
    pub(crate) fn path(&self) -> &'static str {
        (self.path)()
    }

    pub(crate) fn file(&self) -> &'static str {
        self.file
    }

    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    pub(crate) fn is_untimed(&self) -> bool {
        self.untimed
    }
}
