//! One thread's calls, for the figures of a report: the calls that the call stack of [`fdr_formats::calls`] gives,
//! summed up by function.
//!
//! The time of a clipped call that lies inside the trace counts for total and self, and never for minimum, mean,
//! percentiles and maximum. A call of an untimed function lasts as long as the timed calls inside it. The rest of its
//! time is its caller's.
//!
//! Nothing in here hashes or allocates per event. A depth that a file claims is not trusted.

use std::hint::select_unpredictable;

use fdr_formats::calls::{
    CallHandler, CallStack, EdgeStatus, EndedCall, Exit, FastPath, OpenCall, OrdinaryEdge, ROOM,
    Untimed, Window,
};
use fdr_formats::packed::Packed;
use fdr_formats::{Call, FunctionId, Ticks};

use super::histogram::add;
use super::stats::{MIN_ASSIGNED_PLACE, Stats, Table};
use crate::off_cpu::{Absence, Kind, OffCpu, Parts};

/// Calls on their way into the figures. A loop follows the edges, another one takes the calls that ended: a processor
/// runs two short ones faster than one long one.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    window: Window<()>,
    ended: Box<EndedCalls>,
}

/// Calls that have ended.
#[derive(Debug)]
struct EndedCalls {
    /// Ticks from the entry to the exit.
    total: [u64; ROOM],
    /// Ticks in calls that it made.
    children: [u64; ROOM],
    /// The place of its function.
    place: [u32; ROOM],
    /// The calls of its function that are still open.
    open: [u32; ROOM],
}

impl Default for EndedCalls {
    fn default() -> Self {
        EndedCalls {
            total: [0; ROOM],
            children: [0; ROOM],
            place: [0; ROOM],
            open: [0; ROOM],
        }
    }
}

/// What was not as it should be on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flaws {
    /// Calls whose exit is missing although a caller was left.
    pub(crate) missing_exits: u64,
    /// Exits whose entry is missing.
    pub(crate) missing_entries: u64,
    /// Calls still open at the end, without a synthetic exit.
    pub(crate) open: u64,
}

/// Calls that left no records, because they were short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortCalls {
    pub(crate) calls: u64,
    pub(crate) ticks: u64,
}

impl ShortCalls {
    pub(crate) fn add(&mut self, more: ShortCalls) {
        self.calls = self.calls.saturating_add(more.calls);
        self.ticks = self.ticks.saturating_add(more.ticks);
    }
}

/// The calls of one thread.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(super) calls: CallStack,
    /// Calls of each function that are open now, by the place in the table.
    open: Vec<u32>,
    /// Ticks inside of each function, outermost calls only.
    totals: Vec<u64>,
    /// The same sums for the time in which the thread did not run. Also the thread's states, if the trace has any.
    away: Vec<OffCpu>,
    pub(super) absence: Option<Box<Absence>>,
    /// Places where the clock jumped or began anew.
    pub(crate) breaks: u64,
    /// Records that are missing between others.
    pub(crate) lost: u64,
    /// Calls without records.
    pub(crate) short: ShortCalls,
    /// What was wrong.
    pub(crate) flaws: Flaws,
}

impl Stack {
    /// A thread from its beginning.
    pub(crate) fn new(untimed: &Untimed) -> Stack {
        Stack {
            calls: CallStack::new().with_untimed(untimed.clone()),
            ..Stack::default()
        }
    }

    /// Takes some calls, in order.
    pub(crate) fn run(&mut self, batch: &mut Batch, table: &mut Table, calls: &[Call]) {
        match self.absence.is_some() {
            true => self.run_by_state(batch, table, calls),
            false => self.follow(batch, table, calls),
        }
    }

    /// The same of packed ones.
    pub(crate) fn run_packed(&mut self, batch: &mut Batch, table: &mut Table, packed: &Packed<'_>) {
        match self.absence.is_some() {
            true => self.run_packed_by_state(batch, table, packed),
            false => self.follow_packed(batch, table, packed),
        }
    }

    /// Takes calls in which the thread stays in one state.
    pub(super) fn follow(&mut self, batch: &mut Batch, table: &mut Table, calls: &[Call]) {
        let Batch { window, ended } = batch;
        self.with::<false>(ended, table, |stack, figures| {
            stack.run(window, figures, calls);
        });
    }

    /// The same of packed ones.
    pub(super) fn follow_packed(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        packed: &Packed<'_>,
    ) {
        let Batch { window, ended } = batch;
        // Most are so: their functions are places.
        if packed.highest_function().0 < MIN_ASSIGNED_PLACE {
            self.with::<true>(ended, table, |stack, figures| {
                stack.run_packed(window, figures, packed);
            });
        } else {
            self.with::<false>(ended, table, |stack, figures| {
                stack.run_packed(window, figures, packed);
            });
        }
    }

    /// Lets the call stack tell of calls.
    fn with<const NEAR: bool>(
        &mut self,
        ended: &mut EndedCalls,
        table: &mut Table,
        follow: impl FnOnce(&mut CallStack, &mut Figures<'_, NEAR>),
    ) {
        let mut figures = Figures {
            ended,
            table,
            open: std::mem::take(&mut self.open),
            totals: std::mem::take(&mut self.totals),
            away: std::mem::take(&mut self.away),
            kind: self.absence.as_ref().and_then(|absence| absence.kind()),
            absence: self.absence.take(),
            flaws: self.flaws,
            at_end: false,
        };
        follow(&mut self.calls, &mut figures);
        self.flaws = figures.flaws;
        (self.open, self.totals) = (figures.open, figures.totals);
        (self.away, self.absence) = (figures.away, figures.absence);
    }

    /// `records` records are missing here.
    pub(crate) fn lose(&mut self, records: u64) {
        self.lost = self.lost.saturating_add(records);
        self.calls.lose();
    }

    /// The innermost open call made `calls` calls that left no records.
    pub(crate) fn short_calls(&mut self, time: Ticks, calls: u64, ticks: u64) {
        let ticks = self.calls.short_calls(time, ticks);
        self.short.add(ShortCalls { calls, ticks });
    }

    /// The clock jumped or began anew here.
    pub(crate) fn break_off(&mut self) {
        self.breaks += 1;
        self.calls.doubt();
    }

    /// Time of the first call record.
    pub(crate) fn first(&self) -> Option<Ticks> {
        self.calls.first()
    }

    /// Latest time of a call record.
    pub(crate) fn last(&self) -> Ticks {
        self.calls.latest()
    }

    /// Entries and exits, without synthetic ones.
    pub(crate) fn records(&self) -> u64 {
        self.calls.measured()
    }

    /// Synthetic entries and exits.
    pub(crate) fn synthetic(&self) -> u64 {
        self.calls.synthetic()
    }

    /// How many calls are open.
    pub(super) fn depth(&self) -> usize {
        self.calls.open().len()
    }

    /// The innermost open call: its function and entry, and whether the entry was measured.
    pub(super) fn open_call(&self) -> Option<(FunctionId, Ticks, bool)> {
        let open = self.calls.open().last()?;
        Some((open.function, open.start, open.is_measured()))
    }

    /// Ends the calls that are still open, adds the totals to the table, and frees the memory. May be called as soon
    /// as the thread has no more calls. A second call changes nothing.
    pub(crate) fn finish(&mut self, batch: &mut Batch, end: Option<Ticks>, table: &mut Table) {
        if self.depth() > 0 {
            self.reach(end.unwrap_or_default().max(self.last()), table);
        }
        self.with::<false>(&mut batch.ended, table, |stack, figures| {
            figures.at_end = true;
            stack.finish(end, figures);
        });
        for (total, stats) in std::mem::take(&mut self.totals)
            .iter()
            .zip(&mut table.stats)
        {
            if let Some(stats) = stats {
                stats.total = stats.total.saturating_add(*total);
            }
        }
        let away = std::mem::take(&mut self.away);
        for (away, stats) in away.iter().zip(&mut table.stats) {
            if let Some(stats) = stats {
                stats.total_away.add(away);
            }
        }
        self.open = Vec::new();
    }
}

/// Takes calls that end into the figures of their functions. `NEAR`: the functions' ids are places.
struct Figures<'a, const NEAR: bool> {
    ended: &'a mut EndedCalls,
    table: &'a mut Table,
    open: Vec<u32>,
    totals: Vec<u64>,
    away: Vec<OffCpu>,
    /// What the thread does, if it does not run.
    kind: Option<Kind>,
    absence: Option<Box<Absence>>,
    flaws: Flaws,
    /// The thread has no more records.
    at_end: bool,
}

impl<const NEAR: bool> Figures<'_, NEAR> {
    /// The place of a function, where there is room now.
    #[inline(never)]
    fn place(&mut self, function: FunctionId) -> usize {
        let place = self.table.place(function) as usize;
        if self.open.len() <= place {
            self.open.resize(place + 1, 0);
            self.totals.resize(place + 1, 0);
        }
        if self.absence.is_some() && self.away.len() <= place {
            self.away.resize(place + 1, OffCpu::default());
        }
        place
    }

    /// The function's calls so far were inside of another call of it.
    fn forget_totals(&mut self, place: usize) {
        self.totals[place] = 0;
        if let Some(away) = self.away.get_mut(place) {
            *away = OffCpu::default();
        }
    }

    /// What of a call that ended was not running.
    #[cold]
    fn away(&mut self, place: usize, ended: &EndedCall<()>, open: &[OpenCall<()>]) {
        let Some(absence) = &mut self.absence else {
            return;
        };
        let (Parts { total, own, caller }, around) = absence.end_call(ended, open);
        self.table.at(place as u32).own_away.add(&own);
        if self.open[place] == 0 {
            self.away[place].add(&total);
        }
        if let Some(around) = around.checked_sub(1).and_then(|place| open.get(place)) {
            let place = self.place(around.function);
            self.table.at(place as u32).own_away.take(&caller);
        }
    }
}

impl<const NEAR: bool> CallHandler<()> for Figures<'_, NEAR> {
    fn missing(&mut self, function: FunctionId, exit: Exit, _: Option<&()>) {
        self.flaws.missing_entries += 1;
        let place = self.place(function);
        self.open[place] += 1;
        if exit == Exit::Before {
            self.forget_totals(place);
        }
    }

    fn ended(&mut self, ended: EndedCall<()>, around: &mut [OpenCall<()>]) {
        if ended.exit == EdgeStatus::Missing {
            match self.at_end {
                true => self.flaws.open += 1,
                false => self.flaws.missing_exits += 1,
            }
        }
        let place = self.place(ended.call.function);
        let (total, open) = (ended.total(), &mut self.open[place]);
        *open = open.wrapping_sub(1);
        if *open == 0 {
            add(&mut self.totals[place], total);
        }
        if self.absence.is_some() {
            self.away(place, &ended, around);
        }
        let stats = self.table.at(place as u32);
        add(&mut stats.own, ended.own());
        match ended.clipped {
            true => stats.clipped += 1,
            false => stats.measured.record(total),
        }
    }
}

impl<const NEAR: bool> FastPath<()> for Figures<'_, NEAR> {
    fn root(&self) {}

    #[inline(always)]
    fn step(&mut self, plain: OrdinaryEdge<()>) -> Option<()> {
        let place = match NEAR {
            true => plain.function.0,
            false => self.table.place_of(plain.function),
        };
        let open = self.open.get_mut(place as usize)?;
        // One up, or one down.
        *open = open.wrapping_add((plain.exit | 1) as u32);
        // An entry is stored as well. It does not raise `ended`, so the next edge overwrites it.
        let at = plain.ended % ROOM;
        self.ended.total[at] = plain.total;
        self.ended.children[at] = plain.children;
        self.ended.place[at] = place;
        self.ended.open[at] = *open;
        Some(())
    }

    fn stepped(&mut self, ended: usize) {
        settle(self.ended, ended, &mut self.table.stats, &mut self.totals);
        if let Some(kind) = self.kind {
            settle_away(
                self.ended,
                ended,
                kind,
                &mut self.table.stats,
                &mut self.away,
            );
        }
    }

    fn entered(&mut self, function: FunctionId, _: &[OpenCall<()>]) {
        let place = self.place(function);
        self.open[place] += 1;
    }
}

/// Takes the first of the calls that have ended into the figures of their functions. `totals`: of the thread, by
/// place.
#[inline(never)]
fn settle(ended: &EndedCalls, count: usize, stats: &mut [Option<Box<Stats>>], totals: &mut [u64]) {
    let places = stats.len().min(totals.len());
    let (Some(stats), Some(totals)) = (stats.get_mut(..places), totals.get_mut(..places)) else {
        return;
    };
    for nth in 0..count.min(ROOM) {
        let place = ended.place[nth] as usize;
        let (Some(stats), Some(total)) = (stats.get_mut(place), totals.get_mut(place)) else {
            continue;
        };
        let stats = match stats {
            Some(stats) => stats,
            none => first(none),
        };
        let (time, children) = (ended.total[nth], ended.children[nth]);
        add(&mut stats.own, time.wrapping_sub(children));
        add(total, select_unpredictable(ended.open[nth] == 0, time, 0));
        stats.measured.record(time);
    }
}

/// Adds the times of these calls to the time off the CPU. The thread did not run during any part of them.
#[inline(never)]
fn settle_away(
    ended: &EndedCalls,
    count: usize,
    kind: Kind,
    stats: &mut [Option<Box<Stats>>],
    away: &mut [OffCpu],
) {
    for nth in 0..count.min(ROOM) {
        let place = ended.place[nth] as usize;
        let (Some(Some(stats)), Some(away)) = (stats.get_mut(place), away.get_mut(place)) else {
            continue;
        };
        let (time, children) = (ended.total[nth], ended.children[nth]);
        stats
            .own_away
            .add(&OffCpu::new(kind, time.wrapping_sub(children)));
        if ended.open[nth] == 0 {
            away.add(&OffCpu::new(kind, time));
        }
    }
}

#[cold]
#[inline(never)]
fn first(stats: &mut Option<Box<Stats>>) -> &mut Stats {
    stats.get_or_insert_default()
}
