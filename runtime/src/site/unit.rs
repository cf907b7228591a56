//! A link unit: one executable or shared library, with a copy of this crate and its call sites.
//!
//! A plug-in that was built separately brings its own copy of the recorder. One copy is the *host*. The host
//! owns the ring, the function ids and the dumps. The other copies are *guests*. A guest's sites are in the
//! host's table, and its records go into the host's slots. So a thread has one region, whichever unit it runs
//! through.
//!
//! Copies find each other by an ELF note, which the loader maps and `strip` keeps. They need no exported
//! symbol, no file and no environment. A copy must never trust a note of an unknown version, because the
//! structures of that version may differ.

#![expect(
    clippy::disallowed_types,
    reason = "the lock lives for one command, on the stack of its thread"
)]

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use std::sync::Mutex;

use super::CallSite;
use super::slot_access::SlotAccess;
use super::task::{Begun, End, Requests, Task};
use super::wait::{Holders, Wait};
use crate::ring::layout::{CHUNK, Slot};
use crate::sys::{self, notes::Note};

/// It is raised when the meaning of anything that copies share changes. Copies share this file, `CallSite`, the
/// convention of `recorder::stub`, and the way a record is put into a slot. A change of sizes or offsets
/// changes [`VERSION`] by itself. The number is part of the link section's name, because the linker puts the
/// sections of all copies in a unit side by side. So a change of `CallSite` raises it, too.
const PROTOCOL: u32 = 12;
/// Copies of different versions ignore each other.
pub(crate) const VERSION: u32 = PROTOCOL << 24 | hash(&SHAPES) >> 8;

/// Sizes and offsets that copies share.
const SHAPES: [usize; 12] = [
    size_of::<Unit>(),
    size_of::<Host>(),
    size_of::<CallSite>(),
    size_of::<SlotAccess>(),
    size_of::<Task>(),
    size_of::<End>(),
    size_of::<Wait>(),
    CHUNK,
    offset_of!(Slot, cursor),
    offset_of!(Slot, last_low),
    offset_of!(Slot, last_high),
    offset_of!(Slot, cpu),
];

/// FNV-1a over the lower four bytes of each number.
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

/// The part of a copy that the others see.
#[repr(C)]
pub(crate) struct Unit {
    pub(crate) version: u32,
    size_of_site: u32,
    sites: *const CallSite,
    sites_end: *const CallSite,
    /// Not 0 once the loader has finished with the unit. Before that its pointers are not valid.
    ready: AtomicU32,
    /// One of [`role`]. It changes once.
    role: AtomicU32,
    /// Null unless the copy is the host.
    host: AtomicPtr<Host>,
    /// An [`Adopt`]. It is set before `ready`.
    adopt: AtomicPtr<()>,
}

/// Makes a copy a guest of that host. False if the copy is a host itself.
pub(crate) type Adopt = extern "C" fn(&'static Host) -> bool;

/// The roles of a copy.
mod role {
    pub(super) const NONE: u32 = 0;
    pub(super) const HOST: u32 = 1;
    pub(super) const GUEST: u32 = 2;
}

// SAFETY: the pointers are to the unit's own statics. Everything else is atomic or constant.
unsafe impl Sync for Unit {}

/// The functions and data that a host offers to its guests.
#[repr(C)]
pub(crate) struct Host {
    /// Returns the function that makes a guest's record, by the recorder's own calling convention.
    pub(crate) record: extern "C" fn() -> *mut (),
    /// Returns the same for records without times.
    pub(crate) record_untimed: extern "C" fn() -> *mut (),
    /// Writes a note: its kind, and its body as words.
    pub(crate) note: unsafe extern "C" fn(kind: u32, body: *const u64, words: usize),
    /// Begins and ends a poll of a task, and ends a task outside of its polls.
    pub(crate) task_begin: extern "C" fn(task: &mut Task, is_recorded: bool, busy: u32) -> Begun,
    pub(crate) task_end: extern "C" fn(task: &mut Task, begun: Begun, end: End) -> Requests,
    pub(crate) task_request_dumps: extern "C" fn(requests: Requests),
    pub(crate) task_drop: extern "C" fn(task: &mut Task, ids: &[u32; 4]),
    /// The id of the task that the thread polls.
    pub(crate) task_current: extern "C" fn() -> u64,
    /// Replaces that id, and returns the one before.
    pub(crate) task_enter: extern "C" fn(task: u64) -> u64,
    /// The thread as locks have it, the begin of a wait, and a note of it.
    pub(crate) wait_me: extern "C" fn() -> u64,
    pub(crate) wait_begin: extern "C" fn(wait: &mut Wait, holders: &Holders<'_>),
    pub(crate) wait_write_note: extern "C" fn(wait: &Wait, state: u32),
    /// Gives an id to the name of what threads wait for.
    pub(crate) wait_name: extern "C" fn(
        name: &Text<'static>,
        of: &Text<'static>,
        file: &Text<'static>,
        line: u32,
    ) -> u32,
    /// The numbers by which guests make common records themselves.
    pub(crate) slot_access: &'static SlotAccess,
    /// Takes the sites of a unit into the host's table.
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
    /// Dumps into a file without a name. The reply holds its descriptor, which the guest then owns.
    DumpUnnamed = 7,
    Mark = 8,
}

impl Operation {
    pub(crate) fn from_raw(raw: u32) -> Option<Operation> {
        use Operation::{
            Disable, Dump, DumpUnnamed, Enable, IsEnabled, Mark, SetFilter, Statistics,
        };
        [
            Enable,
            Disable,
            SetFilter,
            IsEnabled,
            Dump,
            Statistics,
            DumpUnnamed,
            Mark,
        ]
        .into_iter()
        .find(|&operation| operation as u32 == raw)
    }
}

/// Text that one copy passes to another. It belongs to the caller.
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
        // SAFETY: it was made from a `str` that lives for 'a, in a copy of the same version.
        unsafe {
            core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.start, self.length))
        }
    }
}

/// The place for a host's answer. Only the guest's own code touches the string, because two copies may have two
/// allocators.
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
    // The linker defines these two symbols for every section with such a name, in each unit.
    #[link_name = "__start_fdr_sites_12"]
    static SITES: u8;
    #[link_name = "__stop_fdr_sites_12"]
    static SITES_END: u8;
}

/// Makes the section exist even if no function is traced.
#[used]
#[unsafe(link_section = "fdr_sites_12")]
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
    adopt: AtomicPtr::new(core::ptr::null_mut()),
};

// The note: its name, then the distance from the field to `UNIT`. A distance needs no relocation.
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

impl Unit {
    /// Says that the loader has finished with the unit. `adopt` makes this copy a guest.
    pub(crate) fn set_ready(&self, adopt: Adopt) {
        self.adopt.store(adopt as *mut (), Ordering::Relaxed);
        // Release: pairs with the Acquire in `unit_of`.
        self.ready.store(1, Ordering::Release);
    }

    /// Makes the copy a guest of `host`. False if the copy is a host itself or not ready.
    pub(crate) fn adopt(&self, host: &'static Host) -> bool {
        let adopt = self.adopt.load(Ordering::Relaxed);
        if adopt.is_null() {
            return false;
        }
        // SAFETY: `set_ready` stored a function of this type, in a copy of the same version.
        let adopt = unsafe { core::mem::transmute::<*mut (), Adopt>(adopt) };
        adopt(host)
    }

    fn become_what(&self, wanted: u32) -> bool {
        // AcqRel: if two copies come up at once, the later one sees the earlier one.
        let change =
            self.role
                .compare_exchange(role::NONE, wanted, Ordering::AcqRel, Ordering::Acquire);
        change.is_ok() || change == Err(wanted)
    }

    /// Makes this copy the host. False if another copy is the host. Not async-signal-safe, because the loader
    /// has a lock.
    pub(crate) fn become_host(&'static self, mine: &'static Host) -> bool {
        self.pin();
        let mut is_host = false;
        // If several copies come up at once, exactly one of them finds no other.
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

    /// Makes this copy a guest. False if it is the host.
    pub(crate) fn become_guest(&self) -> bool {
        self.become_what(role::GUEST)
    }

    /// A unit that is only sites, which were made at run time.
    fn from_sites(sites: &'static [CallSite]) -> Unit {
        let sites = sites.as_ptr_range();
        Unit {
            version: VERSION,
            size_of_site: size_of::<CallSite>() as u32,
            sites: sites.start,
            sites_end: sites.end,
            ready: AtomicU32::new(0),
            role: AtomicU32::new(role::NONE),
            host: AtomicPtr::new(core::ptr::null_mut()),
            adopt: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Turns every site of the unit off. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn switch_off(&'static self) {
        self.sites().iter().for_each(|site| site.switch(false, 0));
    }

    /// Whether both have the same sites.
    pub(crate) fn shares_sites(&self, with: &Unit) -> bool {
        (self.sites, self.sites_end) == (with.sites, with.sites_end)
    }

    /// Keeps the unit's library loaded for ever, because other units have pointers into it.
    pub(crate) fn pin(&'static self) {
        sys::process::pin_library(core::ptr::from_ref(self).cast::<c_void>());
    }

    /// The unit's sites. There are none if the section does not hold the `CallSite`s of this version.
    pub(crate) fn sites(&'static self) -> &'static [CallSite] {
        let bytes = self.sites_end.addr().saturating_sub(self.sites.addr());
        let count = bytes / size_of::<CallSite>();
        if self.size_of_site as usize != size_of::<CallSite>() || count == 0 {
            return &[];
        }
        // SAFETY: the linker put the unit's `CallSite` statics side by side between these two symbols. Their
        // alignment is their size, so there are no gaps.
        let sites = unsafe { core::slice::from_raw_parts(self.sites, count) };
        if sites.iter().all(|site| site.magic == CallSite::MAGIC) {
            sites
        } else {
            &[]
        }
    }
}

/// Sites that were made at run time, and a link to those that were made before. It is never freed.
struct MadeUnit {
    unit: Unit,
    before: *const MadeUnit,
}

/// The last ones of this copy. Null = there are none.
static MADE: AtomicPtr<MadeUnit> = AtomicPtr::new(core::ptr::null_mut());

/// Makes a unit of sites that are made at run time, such as those of another crate's statics. The unit is in [`made`]
/// at once. The caller attaches it.
pub(crate) fn make(sites: &'static [CallSite]) -> &'static Unit {
    let mut before = MADE.load(Ordering::Relaxed);
    let unit = Unit::from_sites(sites);
    let made = Box::into_raw(Box::new(MadeUnit { unit, before }));
    loop {
        // SAFETY: no other code has the pointer yet.
        unsafe { (*made).before = before };
        // Release: pairs with the Acquire in `made`.
        match MADE.compare_exchange(before, made, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: from here on it is never changed and never freed.
            Ok(_) => return unsafe { &(*made).unit },
            Err(newer) => before = newer,
        }
    }
}

/// All units of [`make`] in this copy. Async-signal-safe.
pub(crate) fn made() -> impl Iterator<Item = &'static Unit> {
    // SAFETY: the pointer is null or comes from `make`, which frees and changes nothing that is in the list.
    let load = |made: *const MadeUnit| unsafe { made.as_ref() };
    let last = load(MADE.load(Ordering::Acquire));
    core::iter::successors(last, move |made| load(made.before)).map(|made| &made.unit)
}

/// Turns every site of this copy off, also those that the table has on. Async-signal-safe.
#[inline(never)]
pub(crate) fn switch_off() {
    UNIT.switch_off();
    made().for_each(Unit::switch_off);
}

/// Every copy in the process, this one included. Not async-signal-safe, because the loader has a lock.
pub(crate) fn units() -> Vec<&'static Unit> {
    let ours = |note: &Note| note.name == OWNER && note.kind == VERSION;
    let mut units = Vec::new();
    for note in sys::notes::all().into_iter().filter(ours) {
        units.extend(unit_of(note));
    }
    units
}

/// The copy that one of our notes points to.
fn unit_of(note: Note) -> Option<&'static Unit> {
    let distance = isize::from_le_bytes(note.descriptor.try_into().ok()?);
    let address = note
        .descriptor
        .as_ptr()
        .addr()
        .wrapping_add_signed(distance);
    // SAFETY: the assembly above made the note in a copy of this very version. The note points to that copy's
    // static.
    let unit = unsafe { &*core::ptr::with_exposed_provenance::<Unit>(address) };
    // Acquire: pairs with the Release in `set_ready`.
    let ready = unit.version == VERSION && unit.ready.load(Ordering::Acquire) != 0;
    ready.then_some(unit)
}

/// The host of this process, if there is one.
pub(crate) fn host() -> Option<&'static Host> {
    units().into_iter().find_map(|unit| {
        // Acquire: pairs with the Release in `become_host`.
        let host = unit.host.load(Ordering::Acquire);
        // SAFETY: only `become_host` sets it, to a static of a unit that is never unloaded.
        unsafe { host.as_ref() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Attributes take no constant.
    #[test]
    fn the_section_has_the_number_of_the_protocol() {
        let name = format!("fdr_sites_{PROTOCOL}\"");
        let here = include_str!("unit.rs").matches(&name).count();
        let expansions = [
            include_str!("../private.rs"),
            include_str!("../private/macros.rs"),
        ];
        let in_expansions = expansions.map(|text| text.matches(&name).count());
        // Its start, its end and the empty static; the static of each function and each task; and that of each event
        // and name.
        assert_eq!((here, in_expansions), (3, [2, 1]));
        assert_eq!(size_of::<CallSite>(), 64, "raise the protocol's number");
    }
    #[test]
    fn made_units_are_switched_off() {
        let site = || CallSite::new::<()>("", 1);
        let units = [1, 3].map(|count| {
            let sites: Vec<CallSite> = (0..count).map(|_| site()).collect();
            make(sites.leak())
        });
        for (unit, count) in units.into_iter().zip([1, 3]) {
            assert!(made().any(|known| core::ptr::eq(known, unit)));
            assert_eq!(unit.sites().len(), count);
            for site in unit.sites() {
                site.set_id(7);
                site.switch(true, 0);
            }
            assert!(unit.shares_sites(unit) && !unit.shares_sites(&UNIT));
        }
        made().for_each(Unit::switch_off);
        let mut sites = units.iter().flat_map(|unit| unit.sites());
        assert!(sites.all(|site| site.state() == 0));
    }
}
