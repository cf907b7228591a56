//! A link unit: one executable or shared library with a copy of this crate and its call sites.
//!
//! A plug-in that was built on its own brings its own copy of the recorder. One copy is the *host*:
//! it owns the ring, the function ids and the dumps. The others are *guests*: their sites are in the
//! host's table, and their records are put into the host's slots, so that a thread has one region
//! whichever unit it runs through.
//!
//! Copies find each other by an ELF note, which the loader maps and `strip` keeps; no exported
//! symbol, no file and no environment is needed. It must never trust a note whose version it does
//! not know: another version's structures may differ.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use std::sync::Mutex;

use super::CallSite;
use crate::recorder;
use crate::ring::layout::{CHUNK, Slot};
use crate::sys::{self, notes::Note};

/// Raised whenever what copies share changes its meaning: this file, `CallSite`, the convention of
/// `recorder::stub`, how a record is put into a slot. What changes its shape changes [`VERSION`] by itself.
const PROTOCOL: u32 = 5;
/// Copies of different versions do not see each other.
pub(crate) const VERSION: u32 = PROTOCOL << 24 | hash(&SHAPES) >> 8;

/// What copies share, in numbers.
const SHAPES: [usize; 9] = [
    size_of::<Unit>(),
    size_of::<Host>(),
    size_of::<CallSite>(),
    size_of::<recorder::Reach>(),
    CHUNK,
    offset_of!(Slot, cursor),
    offset_of!(Slot, last_low),
    offset_of!(Slot, last_high),
    offset_of!(Slot, cpu),
];

/// FNV-1a, a byte of each number at a time.
const fn hash(numbers: &[usize]) -> u32 {
    let mut hash = 0x811C_9DC5_u32;
    let mut at = 0;
    while at < numbers.len() * 4 {
        let byte = numbers[at / 4] >> (at % 4 * 8) & 0xFF;
        hash = (hash ^ byte as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// The note's name, owner of its types.
const OWNER: &[u8; 4] = b"fdr\0";

/// What a copy shows to the others.
#[repr(C)]
pub(crate) struct Unit {
    pub(crate) version: u32,
    size_of_site: u32,
    sites: *const CallSite,
    sites_end: *const CallSite,
    /// Not 0 once the loader has finished with the unit: before that its pointers mean nothing.
    ready: AtomicU32,
    /// What the copy is: one of [`role`]. It changes once.
    role: AtomicU32,
    /// Set in a copy that is a host.
    host: AtomicPtr<Host>,
    /// Makes the copy a guest of that host; false where it is a host itself.
    pub(crate) adopt: extern "C" fn(&'static Host) -> bool,
}

/// What a copy of the recorder is to the others.
mod role {
    pub(super) const NONE: u32 = 0;
    pub(super) const HOST: u32 = 1;
    pub(super) const GUEST: u32 = 2;
}

// SAFETY: the pointers are to the unit's own statics; the rest is an atomic or constant.
unsafe impl Sync for Unit {}

/// What a host does for its guests.
#[repr(C)]
pub(crate) struct Host {
    /// Where guests' records go, by the recorder's own calling convention.
    pub(crate) record: extern "C" fn() -> *mut (),
    /// The same for records without times.
    pub(crate) record_untimed: extern "C" fn() -> *mut (),
    /// How guests make the common ones themselves.
    pub(crate) reach: &'static recorder::Reach,
    /// Takes a unit's sites into the table.
    pub(crate) attach: extern "C" fn(&'static Unit),
    /// Carries out a call of the API that was made in a guest, see `shell::guest`.
    pub(crate) control:
        extern "C" fn(operation: u32, argument: &Text<'_>, reply: &Reply<'_>) -> u32,
}

/// A call of the API.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Enable = 1,
    Disable = 2,
    SetFilter = 3,
    IsEnabled = 4,
    Dump = 5,
    Statistics = 6,
    /// Into a file without a name, whose descriptor the answer gives away.
    DumpUnnamed = 7,
}

impl Operation {
    pub(crate) fn from_raw(raw: u32) -> Option<Operation> {
        use Operation::{Disable, Dump, DumpUnnamed, Enable, IsEnabled, SetFilter, Statistics};
        [
            Enable,
            Disable,
            SetFilter,
            IsEnabled,
            Dump,
            Statistics,
            DumpUnnamed,
        ]
        .into_iter()
        .find(|&operation| operation as u32 == raw)
    }
}

/// Text on its way between two copies; it belongs to the caller.
#[repr(C)]
pub(crate) struct Text<'a> {
    start: *const u8,
    length: usize,
    text: PhantomData<&'a str>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Text<'a> {
        Text {
            start: text.as_ptr(),
            length: text.len(),
            text: PhantomData,
        }
    }

    pub(crate) fn as_str(&self) -> &'a str {
        // SAFETY: made from a `str` that lives for 'a, in a copy of the same version.
        unsafe {
            core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.start, self.length))
        }
    }
}

/// Where a host puts its answer. Only the guest's own code touches the string: two copies may have
/// two allocators.
#[repr(C)]
pub(crate) struct Reply<'a> {
    take: extern "C" fn(&Mutex<String>, &Text<'_>),
    to: &'a Mutex<String>,
}

impl<'a> Reply<'a> {
    pub(crate) fn to(answer: &'a Mutex<String>) -> Reply<'a> {
        extern "C" fn take(to: &Mutex<String>, text: &Text<'_>) {
            if let Ok(mut to) = to.lock() {
                to.push_str(text.as_str());
            }
        }
        Reply { take, to: answer }
    }

    pub(crate) fn send(&self, text: &str) {
        (self.take)(self.to, &Text::new(text));
    }
}

unsafe extern "C" {
    // The linker gives every section with such a name these two symbols, in each unit its own.
    #[link_name = "__start_fdr_sites"]
    static SITES: u8;
    #[link_name = "__stop_fdr_sites"]
    static SITES_END: u8;
}

/// Makes the section exist where nothing is traced.
#[used]
#[unsafe(link_section = "fdr_sites")]
static NO_SITE: [CallSite; 0] = [];

/// This copy.
pub(crate) static UNIT: Unit = Unit {
    version: VERSION,
    size_of_site: size_of::<CallSite>() as u32,
    sites: (&raw const SITES).cast(),
    sites_end: (&raw const SITES_END).cast(),
    ready: AtomicU32::new(0),
    role: AtomicU32::new(role::NONE),
    host: AtomicPtr::new(core::ptr::null_mut()),
    adopt: crate::shell::guest::adopt,
};

// The note: name, then the distance from the field to `UNIT`, which needs no relocation.
core::arch::global_asm!(
    ".pushsection .note.fdr, \"a\", %note",
    ".balign 4",
    ".long 4",
    ".long 8",
    ".long {version}",
    ".asciz \"fdr\"",
    ".quad {unit} - .",
    ".popsection",
    version = const VERSION,
    unit = sym UNIT,
);

/// Run by the loader before main, and by dlopen: no call in main is needed.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    crate::shell::install::at_load();
}

impl Unit {
    /// Says that the loader has finished with the unit.
    pub(crate) fn set_ready(&self) {
        // Release: pairs with the Acquire in `unit_of`.
        self.ready.store(1, Ordering::Release);
    }

    fn become_what(&self, wanted: u32) -> bool {
        // AcqRel: two copies that come up at once see who was first.
        let change =
            self.role
                .compare_exchange(role::NONE, wanted, Ordering::AcqRel, Ordering::Acquire);
        change.is_ok() || change == Err(wanted)
    }

    /// Makes this copy the host; false where another one is. Not async-signal-safe: the loader has a lock.
    pub(crate) fn become_host(&'static self, mine: &'static Host) -> bool {
        self.pin();
        let mut is_host = false;
        // Of copies that come up at once, one finds no other.
        sys::notes::alone(&mut || {
            let other = host().is_some_and(|known| !core::ptr::eq(known, mine));
            is_host = !other && self.become_what(role::HOST);
            if is_host {
                // Release: pairs with the Acquire in `host`.
                self.host
                    .store(core::ptr::from_ref(mine).cast_mut(), Ordering::Release);
            }
        });
        is_host
    }

    /// Makes this copy a guest; false where it is a host.
    pub(crate) fn become_guest(&self) -> bool {
        self.become_what(role::GUEST)
    }

    /// Turns every site off, whatever the table says. Async-signal-safe.
    pub(crate) fn switch_off(&'static self) {
        self.sites().iter().for_each(|site| site.switch(false, 0));
    }

    /// Keeps the unit's library loaded for good: others have pointers into it.
    pub(crate) fn pin(&'static self) {
        sys::process::pin_library(core::ptr::from_ref(self).cast::<c_void>());
    }

    /// The unit's sites; none where what the section holds is not what we know.
    pub(crate) fn sites(&'static self) -> &'static [CallSite] {
        let bytes = self.sites_end.addr().saturating_sub(self.sites.addr());
        let count = bytes / size_of::<CallSite>();
        if self.size_of_site as usize != size_of::<CallSite>() || count == 0 {
            return &[];
        }
        // SAFETY: the linker laid the unit's `CallSite` statics side by side between these two; their
        // alignment is their size, so there are no gaps.
        let sites = unsafe { core::slice::from_raw_parts(self.sites, count) };
        if sites.iter().all(|site| site.magic == CallSite::MAGIC) {
            sites
        } else {
            &[]
        }
    }
}

/// Every copy in the process, this one included. Not async-signal-safe: the loader has a lock.
pub(crate) fn units() -> Vec<&'static Unit> {
    let ours = |note: &Note| note.name == OWNER && note.kind == VERSION;
    sys::notes::all()
        .into_iter()
        .filter(ours)
        .filter_map(unit_of)
        .collect()
}

/// The copy that a note of ours points at.
fn unit_of(note: Note) -> Option<&'static Unit> {
    let distance = isize::from_le_bytes(note.descriptor.try_into().ok()?);
    let address = note
        .descriptor
        .as_ptr()
        .addr()
        .wrapping_add_signed(distance);
    // SAFETY: the note was made by the assembly above in a copy of this very version, and points at
    // that copy's static.
    let unit = unsafe { &*core::ptr::with_exposed_provenance::<Unit>(address) };
    // Acquire: pairs with the Release in `set_ready`.
    let ready = unit.version == VERSION && unit.ready.load(Ordering::Acquire) != 0;
    ready.then_some(unit)
}

/// The copy that is the host, if there is one.
pub(crate) fn host() -> Option<&'static Host> {
    units().into_iter().find_map(|unit| {
        // Acquire: pairs with the Release in `become_host`.
        let host = unit.host.load(Ordering::Acquire);
        // SAFETY: only `become_host` sets it, to a static of a unit that is never unloaded.
        unsafe { host.as_ref() }
    })
}
