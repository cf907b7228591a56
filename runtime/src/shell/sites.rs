//! The table of sites: every traced function of every unit, with its id and name, and whether it is on. A
//! recording thread must never take the lock of the table.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use fdr_formats::Ticks;
use fdr_formats::filter::Filter;
use fdr_formats::model::Level;
use fdr_formats::tasks;
use fdr_formats::text::owned;

use super::names::{nearest_in_words, person_name};
use super::state::State;
use crate::crash::names;
use crate::recorder::watch::{self, Watched};
use crate::recorder::{self, Bits};
use crate::ring::Ring;
use crate::ring::functions::Entry;
use crate::site::unit::{UNIT, Unit};
use crate::site::{COUNTED, CallSite, SiteKind};
use crate::sys::lock::{Guard, Lock};
use crate::sys::signal::Mask;

/// An id has 28 bits in the records, and 0 is no id.
const MAX_ID: usize = (1 << 28) - 1;
/// Names are never freed. A program may make them as it runs.
const MAX_NAMES: usize = 1 << 16;

/// Every registered site. Its place in the list is its id - 1. Sites of one name share a place.
#[derive(Default)]
pub(crate) struct Table {
    functions: Vec<Function>,
    units: Vec<&'static Unit>,
    /// The names that are neither functions nor events, in order, with their ids.
    names: Vec<(&'static str, u32)>,
    /// The switches of waits, one for each copy.
    waits: Vec<&'static CallSite>,
    /// How many functions are in the ring's own table.
    in_ring: usize,
    /// The functions that are recorded while recording is on. `None`: no filter was set.
    filter: Option<Filter>,
    enabled: bool,
    /// Bits of the words of sites, besides id and action.
    bits: Bits,
    /// The triggers that wait for calls: number, and names of functions.
    triggers: Vec<(usize, Filter)>,
    /// When the recorder came up. `None`: no ring was published.
    start: Option<Ticks>,
}

/// One traced function.
pub(crate) struct Function {
    site: &'static CallSite,
    /// Whether the function certainly belongs to this copy and not to a guest.
    own: bool,
    /// Whether it is to be recorded: recording is on, and the filter names it.
    on: bool,
    /// How its calls are recorded, because of the budget, and instead of that during a slice.
    level: Level,
    in_slice: Option<Level>,
    /// Whether a trigger names it, or did so before (`recorder::watch`). Its calls are always timed.
    watched: bool,
    pub(crate) name: String,
}

impl Function {
    fn new(site: &'static CallSite, own: bool, name: String) -> Function {
        Function {
            site,
            own,
            on: false,
            level: Level::Timed,
            in_slice: None,
            watched: false,
            name,
        }
    }

    /// Whether filters turn it on and off.
    fn is_switched(&self) -> bool {
        matches!(self.site.kind(), SiteKind::Calls | SiteKind::Event)
    }

    /// Whether the function is recorded. Its site may be off nevertheless: after the loss of the ring, and while the
    /// function is only looked at.
    fn is_on(&self) -> bool {
        let level = self.in_slice.unwrap_or(self.level);
        self.site.state() != 0 || self.on && level == Level::LookedAt
    }

    /// Whether the budget may change how its calls are recorded.
    fn has_levels(&self) -> bool {
        self.site.kind() == SiteKind::Calls && !self.watched
    }

    /// Turns recording at its site on or off.
    fn switch(&self, bits: Bits) {
        let level = self.in_slice.unwrap_or(self.level);
        let kind = match (self.site.is_untimed(), level) {
            _ if self.watched => bits.watched,
            (false, Level::Counted) => bits.counted | COUNTED,
            (true, Level::Counted) => bits.untimed | COUNTED,
            (false, _) => bits.timed,
            (true, _) => bits.untimed,
        };
        let guests = if self.own { 0 } else { bits.guests };
        let on = self.on && level != Level::LookedAt;
        self.site.switch(on, kind | guests);
    }

    /// Whether a trigger can wait for its calls.
    fn has_durations(&self) -> bool {
        self.site.kind() == SiteKind::Calls && !self.site.is_untimed()
    }
}

/// What the budget has to know of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionLevel {
    /// How its calls are recorded. `None`: the function is off, or watched.
    pub(crate) level: Option<Level>,
    /// Whether `cargo fdr` or a scope chose it.
    pub(crate) is_auto: bool,
    /// Whether its calls are polls of tasks.
    pub(crate) has_tasks: bool,
}

static TABLE: Lock<Table> = Lock::new(Table {
    functions: Vec::new(),
    units: Vec::new(),
    names: Vec::new(),
    waits: Vec::new(),
    in_ring: 0,
    filter: None,
    enabled: false,
    bits: Bits {
        timed: 0,
        untimed: 0,
        counted: 0,
        guests: 0,
        watched: 0,
    },
    triggers: Vec::new(),
    start: None,
});

/// The table, not locked yet. Code that may need the table gets this as a parameter. It locks the table for moments only,
/// because `fork` waits for the table.
#[derive(Clone, Copy)]
pub(crate) struct TableHandle(&'static Lock<Table>);

/// The table of this process. Only the entry points of `shell/mod.rs` call this. Async-signal-safe.
pub(crate) fn table() -> TableHandle {
    TableHandle(&TABLE)
}

/// The locked table. The thread's signals are held back meanwhile. A handler that called `exit`, or a dump,
/// would wait for its own thread. The fields are dropped in this order.
pub(crate) struct Held {
    table: Guard<Table>,
    _signals: HeldBack,
}

/// Signals that are let through again when this is dropped.
struct HeldBack(Mask);

impl TableHandle {
    /// Locks the table, for moments. A thread that holds it ([`TableHandle::is_mine`]) must not call this.
    #[inline(never)]
    pub(crate) fn lock(self) -> Held {
        let signals = HeldBack(Mask::hold());
        Held {
            table: self.0.lock(),
            _signals: signals,
        }
    }

    /// As [`TableHandle::lock`], but `None` if another thread holds the table.
    pub(crate) fn try_lock(self) -> Option<Held> {
        let signals = HeldBack(Mask::hold());
        Some(Held {
            table: self.0.try_lock()?,
            _signals: signals,
        })
    }

    /// Whether the calling thread holds the table. Only a handler of a fault can see this, because other signals
    /// are held back. Async-signal-safe.
    pub(crate) fn is_mine(self) -> bool {
        self.0.is_mine()
    }

    /// Takes the table without a guard, until [`TableHandle::let_go`]. Nothing holds signals back. Only for `fork`.
    pub(super) fn hold(self) {
        self.0.hold();
    }

    /// Async-signal-safe.
    pub(super) fn let_go(self) {
        self.0.let_go();
    }

    /// Called in the child of a fork, see [`Lock::in_child`]. Async-signal-safe.
    pub(super) fn in_child(self, forker: u64) {
        self.0.in_child(forker);
    }
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
    /// Adds the sites of a unit, unless another copy in the unit has added them. Gives them ids and names, and turns on
    /// those that the filter names.
    pub(crate) fn attach(&mut self, unit: &'static Unit) {
        if self.units.iter().any(|known| core::ptr::eq(*known, unit)) {
            return;
        }
        let shares_sites = self.units.iter().any(|known| known.shares_sites(unit));
        self.units.push(unit);
        if shares_sites {
            // Two copies of the same protocol in one executable. Nothing tells which copy a site belongs to.
            let sites = unit.sites().as_ptr_range();
            let of_both =
                |function: &&mut Function| sites.contains(&core::ptr::from_ref(function.site));
            let functions = self.functions.iter_mut();
            functions
                .filter(of_both)
                .for_each(|function| function.own = false);
            self.apply();
            return;
        }
        let own = core::ptr::eq(unit, &raw const UNIT);
        let first = self.functions.len();
        for site in unit.sites() {
            if self.functions.len() >= MAX_ID {
                break;
            }
            if site.kind() == SiteKind::Waits {
                site.set_id(1);
                self.waits.push(site);
                continue;
            }
            let id = self.functions.len() as u32 + 1;
            let mut name = if site.name().is_empty() {
                person_name(site.path())
            } else {
                // The name of a field is a word of the program.
                let name = site.name();
                owned(name.strip_prefix("r#").unwrap_or(name))
            };
            name.push_str(match site.kind() {
                SiteKind::Calls | SiteKind::Event | SiteKind::Name | SiteKind::Waits => "",
                SiteKind::Finished => tasks::FINISHED,
                SiteKind::Dropped => tasks::DROPPED,
                SiteKind::Busy => tasks::BUSY,
            });
            if site.kind() == SiteKind::Name {
                match self.place_of(site.name()) {
                    Ok(place) => {
                        site.set_id(self.names[place].1);
                        continue;
                    }
                    Err(place) => self.names.insert(place, (site.name(), id)),
                }
            }
            site.set_id(id);
            self.functions.push(Function::new(site, own, name));
        }
        self.find_watched(first);
        self.apply_from(first);
    }

    /// Sets the triggers that wait for calls, by number and names of functions. Their thresholds are set before.
    pub(crate) fn watch(&mut self, triggers: Vec<(usize, Filter)>) {
        self.triggers = triggers;
        self.find_watched(0);
        self.apply();
    }

    /// Finds out which of the functions behind the first ones are watched.
    fn find_watched(&mut self, first: usize) {
        if self.triggers.is_empty() && watch::room() == 0 {
            return;
        }
        if watch::room() <= self.functions.len() {
            let room = (self.functions.len() + 1).next_power_of_two();
            let list: Vec<Watched> = (0..room).map(|_| Watched::default()).collect();
            let list: &'static [Watched] = list.leak();
            watch::set_functions(Box::leak(Box::new(list)));
        }
        let behind = self.functions.iter_mut().skip(first);
        for function in behind.filter(|function| function.has_durations()) {
            let is_named = |(_, names): &&(usize, Filter)| names.matches(&function.name);
            let named = self.triggers.iter().filter(is_named);
            let bits = named.fold(0, |bits, (number, _)| bits | 1 << number);
            function.watched = watch::set_triggers(function.site.id(), bits);
            if function.watched {
                (function.level, function.in_slice) = (Level::Timed, None);
            }
        }
    }

    /// Of the functions that the filter names: how many can be watched, and how many of those are on.
    pub(crate) fn watchable(&self, names: &Filter) -> (usize, usize) {
        let named = self.functions.iter();
        let named = named.filter(|f| f.has_durations() && names.matches(&f.name));
        let on = |function: &&Function| function.is_on();
        (named.clone().count(), named.filter(on).count())
    }

    /// The name of the function with that id. Empty if there is none.
    pub(crate) fn name_of(&self, id: u32) -> &str {
        let function = self.functions.get((id as usize).wrapping_sub(1));
        function.map_or("", |function| &function.name)
    }

    /// The names of functions with durations that are closest to a glob, in words.
    pub(crate) fn nearest_in_words(&self, glob: &str) -> String {
        nearest_in_words(&self.names_of(Function::has_durations), glob)
    }

    /// The names of functions.
    fn names_of(&self, wanted: fn(&Function) -> bool) -> Vec<&str> {
        let mut names = Vec::new();
        for function in &self.functions {
            if wanted(function) {
                names.push(function.name.as_str());
            }
        }
        names
    }

    /// Sets the bits of the words of sites, see `recorder::prepare`.
    pub(crate) fn set_bits(&mut self, bits: Bits) {
        self.bits = bits;
    }

    /// Sets the filter. Returns how many functions it names.
    pub(crate) fn set_filter(&mut self, filter: Filter) -> usize {
        self.filter = Some(filter);
        self.apply()
    }

    /// Turns recording on or off. Returns how many functions are on.
    pub(crate) fn enable(&mut self, enabled: bool) -> usize {
        self.enabled = enabled;
        if enabled {
            return self.apply();
        }
        // No name is compared with the filter.
        self.waits.iter().for_each(|site| site.switch(false, 0));
        let functions = self.functions.iter_mut();
        for function in functions.filter(|function| function.is_switched()) {
            function.on = false;
            function.switch(self.bits);
        }
        0
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The filter. `None`: no filter was set.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    fn apply(&mut self) -> usize {
        self.apply_from(0)
    }

    /// Switches the sites behind the first ones, and all waits. Returns how many of the sites the filter names.
    #[inline(never)]
    fn apply_from(&mut self, first: usize) -> usize {
        // Whatever functions the filter names.
        let waits = self.enabled && self.filter.is_some();
        self.waits.iter().for_each(|site| site.switch(waits, 0));
        let mut named = 0;
        let functions = self.functions.iter_mut().skip(first);
        for function in functions.filter(|function| function.is_switched()) {
            let wanted = self
                .filter
                .as_ref()
                .is_some_and(|filter| filter.matches(&function.name));
            named += usize::from(wanted);
            function.on = wanted && self.enabled;
            function.switch(self.bits);
        }
        named
    }

    /// Where a name is, or should be.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by_key(&name, |known| known.0)
    }

    /// The id of a name that came while the program runs. 0: there are too many.
    pub(crate) fn id_of_name(&mut self, name: String, file: &'static str, line: u32) -> u32 {
        let place = match self.place_of(&name) {
            Ok(place) => return self.names[place].1,
            Err(place) => place,
        };
        if self.functions.len() >= MAX_ID || self.names.len() >= MAX_NAMES {
            return 0;
        }
        let id = self.functions.len() as u32 + 1;
        let text: &'static str = name.clone().leak();
        let site = CallSite::new::<()>(file, line).only_name();
        let site = Box::leak(Box::new(site.named(Box::leak(Box::new(text)))));
        site.set_id(id);
        self.names.insert(place, (text, id));
        self.functions.push(Function::new(site, true, name));
        if let Some(ring) = recorder::ring() {
            self.publish(ring);
        }
        id
    }

    /// From now on the calls of these functions are recorded so.
    pub(crate) fn set_level(&mut self, ids: &[u32], level: Level) {
        self.change(ids, &|function| function.level = level);
    }

    /// Has the calls of these functions recorded so during a slice. `None`: the slice has ended.
    pub(crate) fn set_slice(&mut self, ids: &[u32], level: Option<Level>) {
        self.change(ids, &|function| function.in_slice = level);
    }

    /// From now on all calls are timed.
    #[inline(never)]
    pub(crate) fn time_all(&mut self) {
        for function in &mut self.functions {
            let is_timed = function.level == Level::Timed && function.in_slice.is_none();
            if function.has_levels() && !is_timed {
                (function.level, function.in_slice) = (Level::Timed, None);
                function.switch(self.bits);
            }
        }
    }

    fn change(&mut self, ids: &[u32], change: &dyn Fn(&mut Function)) {
        for id in ids {
            let index = (*id as usize).wrapping_sub(1);
            let function = self.functions.get_mut(index);
            if let Some(function) = function.filter(|function| function.has_levels()) {
                let is_on = function.is_on();
                change(function);
                if is_on {
                    function.switch(self.bits);
                }
            }
        }
    }

    /// The levels of the functions, in the order of ids.
    pub(crate) fn levels(&self) -> impl Iterator<Item = FunctionLevel> {
        let functions = self.functions.iter().enumerate();
        functions.map(|(index, function)| {
            let on = function.is_on() && function.has_levels();
            // The sites of a function with tasks are registered one behind the other.
            let next = self.functions.get(index + 1);
            FunctionLevel {
                level: on.then_some(function.level),
                is_auto: function.site.is_auto(),
                has_tasks: next.is_some_and(|next| next.site.kind() == SiteKind::Finished),
            }
        })
    }

    /// As [`Table::publish`], while the recorder comes up.
    pub(crate) fn begin(&mut self, ring: &Ring, state: &State) {
        self.start = Some(Ticks(state.start().ticks));
        self.publish(ring);
    }

    /// Appends the functions that the ring's own table lacks.
    pub(crate) fn publish(&mut self, ring: &Ring) {
        if ring.header().functions_length.load(Ordering::Relaxed) == 0 {
            // A new ring has none of the functions yet.
            self.in_ring = 0;
        }
        let missing = self.functions.get(self.in_ring..).unwrap_or(&[]);
        ring.append_functions(missing.iter().map(|function| Entry {
            id: function.site.id(),
            line: function.site.line(),
            name: &function.name,
            file: function.site.file(),
            untimed: function.site.is_untimed(),
            kind: function.site.kind() as u8,
        }));
        self.in_ring = self.functions.len();
        if let Some(start) = self.start {
            names::add(&self.for_trace_from(names::count()), start);
        }
    }

    /// How many entries the table has: those of functions, of events and of names.
    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// How many functions and events there are.
    pub(crate) fn switched(&self) -> usize {
        let functions = self.functions.iter();
        functions.filter(|function| function.is_switched()).count()
    }

    /// How many functions are on.
    pub(crate) fn on(&self) -> usize {
        self.functions.iter().filter(|function| function.on).count()
    }

    /// The patterns of the filter that name no function, each with the names that are closest to it. `None` if each
    /// pattern names a function.
    pub(crate) fn unmatched_in_words(&self) -> Option<String> {
        let names = self.names_of(Function::is_switched);
        let mut words = String::new();
        for pattern in self.filter.as_ref()?.unmatched(&names) {
            let near = nearest_in_words(&names, pattern);
            let before = if words.is_empty() {
                "no function matches "
            } else {
                ", "
            };
            words += &format!("{before}`{pattern}` (nearest: {near})");
        }
        (!words.is_empty()).then_some(words)
    }

    /// Why no record was made, and what the user can do.
    pub(crate) fn why_nothing(&self) -> String {
        if self.switched() == 0 {
            return owned(
                "the program has no traced function (a #[traced] scope leaves out what is not worth two clock reads; \
                 #[traced(always)] does not)",
            );
        }
        if self.filter.is_none() {
            return owned("recording was never turned on");
        }
        if self.on() > 0 {
            return format!("none of the {} functions that are on was called", self.on());
        }
        let nothing =
            "the filter excludes every function that it names, or recording was turned off";
        self.unmatched_in_words().unwrap_or_else(|| owned(nothing))
    }

    /// Every function behind the first `first` ones, in the form of a trace.
    pub(crate) fn for_trace_from(&self, first: usize) -> Vec<fdr_formats::Function> {
        let function = |function: &Function| fdr_formats::Function {
            id: fdr_formats::FunctionId(function.site.id()),
            name: owned(&function.name),
            file: owned(function.site.file()),
            line: function.site.line(),
            untimed: function.site.is_untimed(),
            kind: fdr_formats::model::FunctionKind::from_number(function.site.kind() as u8),
        };
        let functions = self.functions.get(first..).unwrap_or(&[]);
        functions.iter().map(function).collect()
    }
}
