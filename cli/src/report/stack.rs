//! One thread's calls as a stack, for the figures of a report: what [`fdr_formats::calls`] tells of each call, summed
//! up by function, at a few nanoseconds each. What an exit ends is decided by the rule there; in here are only the
//! ways that are quick.
//!
//! A call is *measured* when its entry and its exit are both in the trace, and *clipped* when it is
//! there in part only: it was open when the trace began or ended (a writer may have put synthetic
//! records there), or its exit is missing. The time of a clipped call that lies inside the trace
//! counts for total and self, and never for minimum, mean, percentiles and maximum. A call of an untimed
//! function is as wide as the calls in it: what passed beside them is its caller's.
//!
//! Nothing in here hashes or allocates per event, and no depth that a file claims is believed.

mod join;

use fdr_formats::calls::{Exit, Past, Rule};
use fdr_formats::packed::Packed;
use fdr_formats::{Call, Edge, FunctionId, Ticks};

use super::batch::{Batch, ROOM, Step};
use super::stats::{CLIPPED, LOW, NONE, PLACE, Table};

/// Frames that a batch of steps may come to; a power of two.
const WINDOW: usize = 2 * ROOM;

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: Ticks,
    /// Ticks that its caller had spent in functions that it called, when this one was entered.
    before: u64,
    /// Its function's place in the table, with [`CLIPPED`] where its entry is synthetic.
    place: u32,
}

const _: () = assert!(size_of::<Frame>() == 24);

/// What is below the outermost call, and where there is no call yet.
const NO_FRAME: Frame = Frame {
    start: Ticks(0),
    before: 0,
    place: NONE,
};

/// How far some steps were followed.
struct Followed {
    /// Steps.
    count: usize,
    /// Those among them that ended a call.
    ended: usize,
    /// Time of the last of them.
    time: u64,
    /// None of the calls that ended is clipped, nor took less than those that it made.
    forward: bool,
}

impl Followed {
    fn none(time: u64) -> Followed {
        Followed {
            count: 0,
            ended: 0,
            time,
            forward: false,
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

/// The calls of one thread.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// `frames[depth]` is the innermost open call; `frames[0]` is none.
    frames: Vec<Frame>,
    depth: usize,
    /// Ticks in functions that the innermost open call has called; where none is open, in finished
    /// calls that have no caller in the trace.
    children: u64,
    /// Calls of each function that are open now, by the place in the table.
    open: Vec<u32>,
    /// Ticks inside of each function, outermost calls only.
    totals: Vec<u64>,
    /// Where this is but a piece of the thread's calls: what it must know of those before.
    past: Option<Past>,
    rule: Rule,
    /// Records are missing between the call record before and the next.
    gap: bool,
    /// When all open calls were last found to be clipped.
    doubted: Option<Ticks>,
    /// Places where the clock jumped or began anew.
    pub(crate) breaks: u64,
    /// Records that are missing between others.
    pub(crate) lost: u64,
    /// Time of the first call record.
    pub(crate) first: Option<Ticks>,
    /// Latest time of a call record.
    pub(crate) last: Ticks,
    /// Time of the call record before.
    before: Ticks,
    /// A time was earlier than one before it.
    went_back: bool,
    /// Entries and exits, without synthetic ones.
    pub(crate) records: u64,
    /// Synthetic entries and exits.
    pub(crate) synthetic: u64,
    /// What was wrong.
    pub(crate) flaws: Flaws,
}

impl Stack {
    /// Takes some calls, in order.
    pub(crate) fn run(&mut self, batch: &mut Batch, table: &mut Table, calls: &[Call]) {
        let Some(first) = calls.first() else { return };
        if !self.begin(first.time) {
            return;
        }
        self.went_back |= first.time < self.last || !calls.is_sorted_by_key(|call| call.time);
        for mut calls in calls.chunks(ROOM) {
            let synthetic = calls.iter().filter(|call| call.synthetic).count() as u64;
            self.synthetic += synthetic;
            self.records += calls.len() as u64 - synthetic;
            let times = calls.iter().map(|call| call.time);
            self.last = times.fold(self.last, Ticks::max);
            while !calls.is_empty() {
                let (from, places) = (self.before.0, &*table);
                let mut before = from;
                let steps = calls.iter().map(move |call| {
                    let ticks = call.time.0.wrapping_sub(before);
                    before = call.time.0;
                    Step::of(call, places.known(call.function), ticks)
                });
                let followed = self.plain(batch, places, synthetic == 0, from, steps);
                self.settle(batch, table, &followed);
                self.before = Ticks(followed.time);
                calls = calls.get(followed.count..).unwrap_or(&[]);
                if let Some((call, rest)) = calls.split_first() {
                    self.other(batch, table, call);
                    calls = rest;
                }
            }
        }
    }

    /// The same of packed ones.
    pub(crate) fn run_packed(&mut self, batch: &mut Batch, table: &mut Table, packed: &Packed<'_>) {
        let Some(first) = packed.first() else { return };
        if !self.begin(first) {
            return;
        }
        self.went_back |= first < self.last;
        self.records += packed.len() as u64;
        // Most are so: their functions are places, and one bit tells the edge.
        let plain = packed.highest_function().0 < LOW && !packed.has_odd_edges();
        let (mut done, mut time) = (0, packed.base.0);
        while done < packed.len() {
            let part = packed.part(done, ROOM);
            let followed = if plain {
                let steps = part.calls().map(|call| Step {
                    ticks: call.delta(),
                    place: call.function().0,
                    exit: call.plainly_left(),
                });
                self.plain(batch, table, true, time, steps)
            } else {
                let steps = part.calls().map(|call| Step {
                    ticks: call.delta(),
                    place: table.known(call.function()),
                    exit: call.left(),
                });
                self.plain(batch, table, true, time, steps)
            };
            self.settle(batch, table, &followed);
            (done, time) = (done + followed.count, followed.time);
            if followed.count > 0 {
                self.before = Ticks(time);
            }
            if let Some(call) = part.get(followed.count) {
                time = time.wrapping_add(call.delta());
                self.other(batch, table, &call.at(Ticks(time)));
                done += 1;
            }
        }
        self.last = self.last.max(Ticks(time));
    }

    /// Calls come, from that time on; whether they are of use.
    fn begin(&mut self, first: Ticks) -> bool {
        if self.is_unclear() {
            return false;
        }
        // Sources give what went back in a batch of its own.
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        true
    }

    /// So many records are missing here. Calls that are open now may have ended, and others of the
    /// same functions begun: they are clipped.
    pub(crate) fn lose(&mut self, records: u64) {
        self.make_unclear();
        self.lost = self.lost.saturating_add(records);
        // What is missing before the first record is not in the middle.
        if self.first.is_some() {
            self.gap = true;
            self.rule.lost();
        }
        self.doubt();
    }

    /// The clock jumped or began anew here: what calls took that are open now is not known.
    pub(crate) fn break_off(&mut self) {
        self.make_unclear();
        self.breaks += 1;
        self.doubt();
    }

    /// Calls that are open now are clipped.
    fn doubt(&mut self) {
        let before = std::mem::replace(&mut self.doubted, self.first.map(|_| self.last));
        let open = self.frames.get_mut(1..=self.depth).unwrap_or(&mut []);
        // Down to those that were open the last time: a frame is looked at once, and once more.
        for frame in open.iter_mut().rev() {
            let known = frame.place & CLIPPED != 0;
            if known && before.is_some_and(|before| frame.start <= before) {
                break;
            }
            frame.place |= CLIPPED;
        }
    }

    /// Takes at most [`ROOM`] steps while they are plain; the first is counted from that time. Those that
    /// end calls leave them in the batch, to be settled. `measured`: none is synthetic.
    #[inline(always)]
    fn plain(
        &mut self,
        batch: &mut Batch,
        table: &Table,
        measured: bool,
        time: u64,
        steps: impl Iterator<Item = Step>,
    ) -> Followed {
        self.make_room();
        match measured && !self.went_back && table.untimed().is_empty() {
            true => self.follow::<true>(batch, time, steps, &[]),
            false => self.follow::<false>(batch, time, steps, table.untimed()),
        }
    }

    /// Takes the calls that ended into the figures.
    fn settle(&mut self, batch: &Batch, table: &mut Table, followed: &Followed) {
        self.rule.entered(followed.count - followed.ended);
        self.gap &= followed.count == 0;
        let (stats, totals) = (&mut table.stats[..], &mut self.totals[..]);
        match followed.forward {
            true => batch.settle::<true>(followed.ended, stats, totals),
            false => batch.settle::<false>(followed.ended, stats, totals),
        }
    }

    /// Takes one call of the function at that place; returns whether it was plain.
    fn one(&mut self, batch: &mut Batch, table: &mut Table, call: &Call, place: u32) -> bool {
        let steps = std::iter::once(Step::of(call, place, 0));
        let followed = self.follow::<false>(batch, call.time.0, steps, table.untimed());
        self.settle(batch, table, &followed);
        followed.count == 1
    }

    /// Takes those steps while they are plain: entries, and exits of the innermost call.
    ///
    /// Whether an entry or an exit comes next, no processor can foresee: so all is done for both,
    /// with zeros for what is not meant, instead of a branch. `FORWARD`: no time went back, so that no sum
    /// is more than the time that has passed; all functions have times, and no step is synthetic.
    #[inline(never)]
    fn follow<const FORWARD: bool>(
        &mut self,
        batch: &mut Batch,
        mut time: u64,
        steps: impl Iterator<Item = Step>,
        untimed: &[u64],
    ) -> Followed {
        // As far as so many steps may lead, up or down: what is found by a mask needs no test.
        let base = self.base();
        let window = self.frames.get_mut(base..);
        let window: Option<&mut [Frame; WINDOW]> = window.and_then(<[Frame]>::first_chunk_mut);
        let Some(frames) = window else {
            return Followed::none(time);
        };
        let open = &mut self.open[..];
        let first = self.depth - base + 1;
        let (mut above, mut children, mut ended) = (first, self.children, 0_usize);
        for Step { ticks, place, exit } in steps {
            time = time.wrapping_add(ticks);
            // The call to come, or the innermost one.
            let frame = &mut frames[above.wrapping_add(exit as usize) % WINDOW];
            let open = open.get_mut(match FORWARD {
                true => place as usize,
                false => (place & PLACE) as usize,
            });
            // Where nothing is clipped, a call that is comes out as one that does not fit.
            let differs = (frame.place ^ place) & if FORWARD { u32::MAX } else { PLACE };
            let fits = differs & exit as u32 == 0;
            let Some(open) = open.filter(|_| fits) else {
                time = time.wrapping_sub(ticks);
                break;
            };
            // Of an entry, it means nothing.
            let inclusive = match FORWARD {
                true => time.wrapping_sub(frame.start.0),
                false => {
                    let timed = time.saturating_sub(frame.start.0);
                    let untimed = untimed.get((place & PLACE) as usize).copied().unwrap_or(0);
                    timed & !untimed | children & untimed
                }
            };
            // One up, or one down.
            let way = exit | 1;
            *open = open.wrapping_add(way as u32);
            let at = ended % ROOM;
            batch.time[at] = inclusive;
            batch.children[at] = children;
            batch.place[at] = match FORWARD {
                true => place,
                false => frame.place | place,
            };
            batch.open[at] = *open;
            let before = children;
            children = match FORWARD {
                true => frame.before.wrapping_add(inclusive),
                false => frame.before.saturating_add(inclusive),
            } & exit;
            // After an exit it is above the innermost call, where it means nothing.
            *frame = Frame {
                start: Ticks(time),
                before,
                place,
            };
            ended = ended.wrapping_sub(exit as usize);
            above = above.wrapping_add(way as usize);
        }
        self.children = children;
        self.depth = base.wrapping_add(above).wrapping_sub(1);
        Followed {
            // Exits, and entries: as many, and what the stack has grown by.
            count: above.wrapping_sub(first).wrapping_add(2 * ended),
            ended,
            time,
            forward: FORWARD,
        }
    }

    /// Where the frames begin that so many steps may come to.
    fn base(&self) -> usize {
        self.depth.saturating_sub(ROOM - 1)
    }

    /// Makes room for so many steps.
    fn make_room(&mut self) {
        let need = self.base() + WINDOW;
        if self.frames.len() < need {
            let room = need.max(self.frames.len() + self.frames.len() / 2);
            self.frames.resize(room, NO_FRAME);
        }
    }

    /// A call for which something must be done first, or that is not as it should be.
    #[cold]
    #[inline(never)]
    fn other(&mut self, batch: &mut Batch, table: &mut Table, call: &Call) {
        let before = self.before;
        let place = table.place(call.function);
        if self.open.len() <= place as usize {
            self.open.resize(place as usize + 1, 0);
            self.totals.resize(place as usize + 1, 0);
        }
        self.make_room();
        // As a rule it is a function that the hot loop does not know.
        if !self.one(batch, table, call, place) {
            self.leave(batch, table, call, place, before);
            self.gap = false;
        }
        self.before = call.time;
    }

    /// Ends the innermost open call.
    fn close(&mut self, batch: &mut Batch, table: &mut Table, time: Ticks, synthetic: bool) {
        let place = self.frames[self.depth].place & PLACE;
        let exit = Call {
            time,
            function: table.function(place),
            edge: Edge::Exit,
            synthetic,
            has_arguments: false,
        };
        let plain = self.one(batch, table, &exit, place);
        debug_assert!(plain, "the innermost call can be ended");
    }

    /// An exit of a function that is not the innermost open one; `before` is the time of the record before.
    fn leave(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        call: &Call,
        place: u32,
        before: Ticks,
    ) {
        let open = self.frames.get(1..=self.depth).unwrap_or(&[]);
        let exit = self.rule.other(open, |frame| frame.place & PLACE == place);
        match exit {
            Exit::Innermost => self.close(batch, table, call.time, call.synthetic),
            Exit::Outer(inside) => {
                for _ in 0..inside {
                    self.flaws.missing_exits += 1;
                    self.close(batch, table, before, true);
                }
                self.close(batch, table, call.time, call.synthetic);
            }
            _ if self.past.is_some() => self.leave_past(call, place),
            Exit::Before => {
                self.flaws.missing_entries += 1;
                self.close_unseen(table, place, call.time);
            }
            Exit::Lone => {
                self.flaws.missing_entries += 1;
                let start = if self.gap { call.time } else { before };
                let entry = Call {
                    time: start.min(call.time),
                    edge: Edge::Entry,
                    synthetic: true,
                    ..*call
                };
                self.make_room();
                self.one(batch, table, &entry, place);
                self.close(batch, table, call.time, true);
            }
        }
    }

    /// Ends a call that was open before the trace began: all that this thread did since then, it did inside of
    /// that call.
    fn close_unseen(&mut self, table: &mut Table, place: u32, time: Ticks) {
        let inclusive = match table.untimed().get(place as usize) {
            Some(&u64::MAX) => self.children,
            _ => time.since(self.first.unwrap_or(time)).0,
        };
        let total = &mut self.totals[place as usize];
        *total = inclusive.max(*total);
        let roots = std::mem::replace(&mut self.children, inclusive);
        let stats = table.at(place);
        stats.own = stats.own.saturating_add(inclusive.saturating_sub(roots));
        stats.clipped += 1;
    }

    /// The open call that is so many below the innermost one: its function and entry, and whether the entry
    /// was measured.
    pub(super) fn open_call(
        &self,
        table: &Table,
        below: usize,
    ) -> Option<(FunctionId, Ticks, bool)> {
        let at = self.depth.checked_sub(below).filter(|&at| at > 0)?;
        let frame = self.frames.get(at)?;
        let function = table.function(frame.place & PLACE);
        Some((function, frame.start, frame.place & CLIPPED == 0))
    }

    /// Ends what is still open, and gives the totals to the table. Takes the memory back, so that it
    /// may be done as soon as the thread has no more calls; doing it again changes nothing.
    pub(crate) fn finish(&mut self, batch: &mut Batch, table: &mut Table) {
        // The innermost ones may be the first of their step.
        self.make_room();
        while self.depth > 0 {
            self.flaws.open += 1;
            self.close(batch, table, self.last, true);
        }
        for (total, stats) in std::mem::take(&mut self.totals)
            .iter()
            .zip(&mut table.stats)
        {
            if let Some(stats) = stats {
                stats.total = stats.total.saturating_add(*total);
            }
        }
        (self.frames, self.open) = (Vec::new(), Vec::new());
    }
}
