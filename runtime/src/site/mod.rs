//! The static that every `#[traced]` function has, in a link section of its own, so that all of
//! them are found at load time without a call from anywhere. It must never run code of its own.

pub(crate) mod slot_access;
pub(crate) mod unit;

use core::sync::atomic::{AtomicU32, Ordering};

/// One traced function. All of a program's stand side by side in the link section `fdr_sites`.
#[repr(C, align(64))]
pub struct CallSite {
    /// 0 = off; otherwise the low word of the function's records, its id << 4, with the recorder's own
    /// bit 0.
    state: AtomicU32,
    /// The function's id, from 1; 0 until it is registered.
    id: AtomicU32,
    /// Source line, from 1.
    line: u32,
    /// [`CallSite::MAGIC`]: what the section holds is checked before it is believed.
    magic: u32,
    /// Full name where the attribute gives one, otherwise empty.
    name: &'static str,
    /// Name of a type that the expansion declares inside the function: the compiler's full path of it.
    path: fn() -> &'static str,
    /// Source file, as the compiler was told it.
    file: &'static str,
    /// Its records have no times of their own.
    untimed: bool,
}

const _: () = assert!(size_of::<CallSite>() == 64);

impl CallSite {
    pub(crate) const MAGIC: u32 = 0xFD12_517E;

    /// For expansions only. `Here`: a type declared in the function. The name of a type can't be had at
    /// compile time, so it is asked for by a function.
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

    /// For expansions only: the same, with the full name to use.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> CallSite {
        self.name = name;
        self
    }

    /// For expansions only: the same, without times.
    #[must_use]
    pub const fn untimed(mut self) -> CallSite {
        self.untimed = true;
        self
    }

    /// 0 = off, otherwise the record's low word. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn state(&self) -> u32 {
        // Relaxed: the word is self-contained; what it names was published by registration.
        self.state.load(Ordering::Relaxed)
    }

    /// Gives the site its id, from 1, below 2^28.
    pub(crate) fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    /// Turns recording at the site on or off. Calls that are under way keep what they began with.
    /// `bit`: what the word must hold besides, see `recorder::prepare`.
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
