//! The table of sites: every traced function of every unit, with its id and its name, and which of
//! them are on. Guarded by a lock that no recording thread ever takes.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use fdr_formats::Ticks;
use fdr_formats::filter::{Filter, nearest};

use super::install;
use super::names::person_name;
use crate::crash::names;
use crate::recorder::Bits;
use crate::ring::Ring;
use crate::ring::functions::Entry;
use crate::site::CallSite;
use crate::site::unit::{UNIT, Unit};
use crate::sys::lock::{Guard, Lock};
use crate::sys::signal::Mask;

/// Ids are 28 bits wide in the records, and 0 is none.
const LARGEST_ID: usize = (1 << 28) - 1;

/// Every registered site; its place in the list is its id - 1.
#[derive(Default)]
pub(crate) struct Table {
    functions: Vec<Function>,
    units: Vec<&'static Unit>,
    /// How many functions the ring's own table has.
    in_ring: usize,
    /// What is recorded while recording is on; `None` = nobody has said.
    filter: Option<Filter>,
    enabled: bool,
    /// What the words of sites hold besides id and action.
    bits: Bits,
}

/// One traced function.
pub(crate) struct Function {
    site: &'static CallSite,
    /// In this very copy's unit, not in a guest's.
    own: bool,
    pub(crate) name: String,
}

/// Held for moments: `fork` waits for it.
pub(crate) static TABLE: Lock<Table> = Lock::new(Table {
    functions: Vec::new(),
    units: Vec::new(),
    in_ring: 0,
    filter: None,
    enabled: false,
    bits: Bits {
        timed: 0,
        untimed: 0,
        guests: 0,
    },
});

/// The table, for as long as it lives. The thread's signals are held back meanwhile: a handler that came
/// and called `exit`, or a dump, would wait for its own thread. In this order they end.
pub(crate) struct Held {
    table: Guard<Table>,
    _signals: HeldBack,
}

/// Signals that come again when it ends.
struct HeldBack(Mask);

/// Takes the table, for moments. Who has it already ([`is_mine`]) must not ask again.
pub(crate) fn table() -> Held {
    let signals = HeldBack(Mask::hold());
    Held {
        table: TABLE.lock(),
        _signals: signals,
    }
}

/// Whether the calling thread is in the midst of using the table: only a handler of a fault, which can't
/// be held back, sees that. Async-signal-safe.
pub(crate) fn is_mine() -> bool {
    TABLE.is_mine()
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.0.restore();
    }
}

impl Deref for Held {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Table {
    /// Takes a unit's sites in: gives them ids and names, and turns on those that the filter names.
    pub(crate) fn attach(&mut self, unit: &'static Unit) {
        if self.units.iter().any(|known| core::ptr::eq(*known, unit)) {
            return;
        }
        self.units.push(unit);
        let own = core::ptr::eq(unit, &raw const UNIT);
        for site in unit.sites() {
            if self.functions.len() >= LARGEST_ID {
                return;
            }
            site.set_id(self.functions.len() as u32 + 1);
            let name = if site.name().is_empty() {
                person_name(site.path())
            } else {
                site.name().to_owned()
            };
            self.functions.push(Function { site, own, name });
        }
        self.apply();
    }

    /// Sets what the words of sites hold besides, see `recorder::prepare`.
    pub(crate) fn set_bits(&mut self, bits: Bits) {
        self.bits = bits;
    }

    /// Sets what is recorded. Returns how many functions that names.
    pub(crate) fn set_filter(&mut self, filter: Filter) -> usize {
        self.filter = Some(filter);
        self.apply()
    }

    /// Turns recording on or off. Returns how many functions are on.
    pub(crate) fn enable(&mut self, enabled: bool) -> usize {
        self.enabled = enabled;
        let named = self.apply();
        if enabled { named } else { 0 }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// What is recorded; `None` = nobody has said.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    fn apply(&mut self) -> usize {
        let mut named = 0;
        for function in &self.functions {
            let wanted = self
                .filter
                .as_ref()
                .is_some_and(|filter| filter.matches(&function.name));
            named += usize::from(wanted);
            let bits = match function.site.is_untimed() {
                false => self.bits.timed,
                true => self.bits.untimed,
            };
            let guests = if function.own { 0 } else { self.bits.guests };
            function.site.switch(wanted && self.enabled, bits | guests);
        }
        named
    }

    /// Writes functions that the ring's own table lacks into it.
    pub(crate) fn publish(&mut self, ring: &Ring) {
        if ring.header().functions_length.load(Ordering::Relaxed) == 0 {
            // A new ring: what the one before it has does not count.
            self.in_ring = 0;
        }
        let missing = self.functions.get(self.in_ring..).unwrap_or(&[]);
        ring.append_functions(missing.iter().map(|function| Entry {
            id: function.site.id(),
            line: function.site.line(),
            name: &function.name,
            file: function.site.file(),
            untimed: function.site.is_untimed(),
        }));
        self.in_ring = self.functions.len();
        if let Some(state) = install::state() {
            let start = Ticks(state.start().ticks);
            names::add(&self.for_trace_from(names::count()), start);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Functions that are on now.
    pub(crate) fn on(&self) -> usize {
        self.functions
            .iter()
            .filter(|function| function.site.state() != 0)
            .count()
    }

    /// Which of the filter's patterns name no function, each with the names that come closest.
    pub(crate) fn unmatched(&self) -> Vec<(String, Vec<String>)> {
        let names: Vec<&str> = self.functions.iter().map(|f| f.name.as_str()).collect();
        let Some(filter) = &self.filter else {
            return Vec::new();
        };
        let near = |pattern: &str| {
            nearest(names.iter().copied(), pattern, 3)
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        filter
            .unmatched(&names)
            .into_iter()
            .map(|pattern| (pattern.to_owned(), near(pattern)))
            .collect()
    }

    /// Every function but the first so many, as a trace carries it.
    pub(crate) fn for_trace_from(&self, first: usize) -> Vec<fdr_formats::Function> {
        let function = |function: &Function| fdr_formats::Function {
            id: fdr_formats::FunctionId(function.site.id()),
            name: function.name.clone(),
            file: function.site.file().to_owned(),
            line: function.site.line(),
            untimed: function.site.is_untimed(),
        };
        let functions = self.functions.get(first..).unwrap_or(&[]);
        functions.iter().map(function).collect()
    }
}
