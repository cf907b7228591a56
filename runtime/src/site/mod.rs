//! The static of every `#[traced]` function, and of every name that notes have. It is in a link section of its own, so
//! the recorder finds all of them at load time without a call. This file must never run code of its own.
#![allow(unsafe_code)]

pub(crate) mod slot_access;
pub(crate) mod task;
pub(crate) mod unit;
pub(crate) mod wait;

use core::sync::atomic::{AtomicU32, Ordering};

use fdr_formats::text;

/// What a [`CallSite`] stands for.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteKind {
    /// A function, or a span: something that has calls.
    Calls = 0,
    /// An event or a counter: filters choose it, and it has no calls.
    Event = 1,
    /// A name, which is neither on nor off. All sites with the same name have one id.
    Name = 2,
    /// The tasks of a function that finished. `fdr_formats::tasks` describes their counts.
    Finished = 3,
    /// The tasks of a function that were dropped.
    Dropped = 4,
    /// How long they were polled.
    Busy = 5,
    /// The waits of the threads ([`wait::WAITS`]): on while anything is. It has no id of its own.
    Waits = 6,
}

/// The sites of a function whose calls are polls of tasks: the site of the function, and those of the counts of its
/// tasks.
pub type TaskSites = [CallSite; 4];

/// One traced function, or a name of notes. The `CallSite`s of a program are side by side in the link section `fdr_sites_N`. N
/// is `unit::PROTOCOL`, so a program may have copies of this crate whose `CallSite`s differ.
#[repr(C, align(64))]
pub struct CallSite {
    /// 0 = off. Otherwise the low word of the function's records: its id << 4, with the recorder's own bits 0 and 3.
    state: AtomicU32,
    /// The function's id, from 1. 0 until the function is registered.
    id: AtomicU32,
    /// Source line, from 1.
    line: u32,
    /// [`CallSite::MAGIC`]. It is checked before the section's contents are used.
    magic: u32,
    /// The full name, if the attribute gives one.
    name: Option<&'static &'static str>,
    /// The version of the program, if the function was compiled for a binary.
    version: Option<&'static &'static str>,
    /// Returns the name of a type that the expansion declares inside the function. This name is the compiler's
    /// full path.
    path: fn() -> &'static str,
    /// The source file, in the compiler's words, but relative to its crate.
    file: &'static str,
    /// Whether its records have no times of their own.
    untimed: bool,
    /// Whether `cargo fdr` or a scope chose the function, and no person marked it alone.
    auto: bool,
    kind: SiteKind,
}

/// Set in the word of a site whose calls are only counted, or watched (`recorder::watch`). The bit is 0 in every
/// record.
pub(crate) const COUNTED: u32 = 8;

const _: () = assert!(size_of::<CallSite>() == 64);

impl CallSite {
    /// The least state of a site that is on.
    pub(crate) const MIN_ON: u32 = 1 << 4;
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
            name: None,
            version: None,
            path: core::any::type_name::<Here>,
            file: text::path_in_crate(file),
            untimed: false,
            auto: false,
            kind: SiteKind::Calls,
        }
    }

    /// For expansions only: the site is an event's.
    #[must_use]
    pub const fn event(mut self) -> CallSite {
        self.kind = SiteKind::Event;
        self
    }

    /// For expansions only: the site is a name.
    #[must_use]
    pub const fn only_name(mut self) -> CallSite {
        self.kind = SiteKind::Name;
        self
    }

    /// The switch of [`wait::WAITS`].
    pub(crate) const fn waits(mut self) -> CallSite {
        self.kind = SiteKind::Waits;
        self
    }

    /// For expansions only: gives the site a full name.
    #[must_use]
    pub const fn named(mut self, name: &'static &'static str) -> CallSite {
        self.name = Some(name);
        self
    }

    /// For expansions only: states the version of the program.
    #[must_use]
    pub const fn version(mut self, version: &'static &'static str) -> CallSite {
        self.version = Some(version);
        self
    }

    /// For expansions only: makes the site untimed.
    #[must_use]
    pub const fn untimed(mut self) -> CallSite {
        self.untimed = true;
        self
    }

    /// For expansions only: `cargo fdr` or a scope chose the function.
    #[must_use]
    pub const fn auto(mut self) -> CallSite {
        self.auto = true;
        self
    }

    /// For expansions only: the function's calls are polls of tasks.
    #[must_use]
    pub const fn with_tasks(self) -> TaskSites {
        let [finished, dropped, busy] = [
            self.of_tasks(SiteKind::Finished),
            self.of_tasks(SiteKind::Dropped),
            self.of_tasks(SiteKind::Busy),
        ];
        [self, finished, dropped, busy]
    }

    const fn of_tasks(&self, kind: SiteKind) -> CallSite {
        CallSite {
            state: AtomicU32::new(0),
            id: AtomicU32::new(0),
            line: self.line,
            magic: CallSite::MAGIC,
            name: self.name,
            version: None,
            path: self.path,
            file: self.file,
            untimed: false,
            auto: false,
            kind,
        }
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

    /// 0 until the site is registered, which it is before the first site is on. Async-signal-safe.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn kind(&self) -> SiteKind {
        self.kind
    }

    /// Turns recording at the site on or off. A call that is under way keeps its word. `bits` are additional
    /// bits of the word, see `recorder::prepare`.
    pub(crate) fn switch(&self, on: bool, bits: u32) {
        let state = if on { self.id() << 4 | bits } else { 0 };
        self.state.store(state, Ordering::Relaxed);
    }

    /// Empty if the attribute gives none.
    pub(crate) fn name(&self) -> &'static str {
        self.name.copied().unwrap_or_default()
    }

    pub(crate) fn program_version(&self) -> Option<&'static str> {
        self.version.copied()
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

    pub(crate) fn is_auto(&self) -> bool {
        self.auto
    }
}
