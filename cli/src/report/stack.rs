//! One thread's calls as a stack: matches exits with entries and hands out the time between them.
//!
//! A call is *measured* when its entry and its exit are both in the trace, and *clipped* when it is
//! there in part only: it was open when the trace began or ended (a writer may have put synthetic
//! records there), or its exit is missing. The time of a clipped call that lies inside the trace
//! counts for total and self, and never for minimum, mean, percentiles and maximum. A call of an untimed
//! function is as wide as the calls in it: what passed beside them is its caller's.
//!
//! Nothing in here hashes or allocates per event, and no depth that a file claims is believed.

mod join;

use std::cell::Cell;
use std::ops::Range;

use fdr_formats::packed::{Packed, PackedCall};
use fdr_formats::{Call, Edge, Ticks};

use self::join::Past;
use super::batch::{Batch, ROOM, Step, settle};
use super::stats::{CLIPPED, NONE, PLACE, Table};

/// Open calls that are followed per thread (24 MiB); a real stack ends long before.
const MAX_DEPTH: usize = 1 << 20;

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

/// What was not as it should be on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flaws {
    /// Calls whose exit is missing although a caller was left.
    pub(crate) missing_exits: u64,
    /// Exits whose entry is missing.
    pub(crate) missing_entries: u64,
    /// Calls still open at the end, without a synthetic exit.
    pub(crate) open: u64,
    /// Calls deeper than the limit.
    pub(crate) too_deep: u64,
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
    /// Open calls above [`MAX_DEPTH`], which are counted and not followed.
    beyond: u64,
    /// Where records were last missing; calls that are open there are clipped.
    gap: Option<Ticks>,
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
        let forward = self.last <= first.time && calls.is_sorted_by_key(|call| call.time);
        self.went_back |= !forward;
        for calls in calls.chunks(ROOM) {
            let sums = batch.prepare(calls, table.near());
            self.last = self.last.max(sums.last);
            self.synthetic += sums.synthetic;
            self.records += calls.len() as u64 - sums.synthetic;
            let call = |nth: usize| {
                let before = nth.checked_sub(1).and_then(|before| calls.get(before));
                Some((*calls.get(nth)?, before.map(|before| before.time)))
            };
            self.take(batch, table, calls.len(), sums.synthetic == 0, call);
            self.before = calls.last().map_or(self.before, |last| last.time);
        }
    }

    /// The same of packed ones.
    pub(crate) fn run_packed(&mut self, batch: &mut Batch, table: &mut Table, packed: &Packed<'_>) {
        let Some(first) = packed.first() else { return };
        if !self.begin(first) {
            return;
        }
        self.went_back |= first < self.last;
        let mut time = packed.base.0;
        for calls in packed.parts(ROOM) {
            time = batch.prepare_packed(time, &calls, table.near());
            self.last = self.last.max(Ticks(time));
            self.records += calls.len() as u64;
            let call = |nth: usize| {
                let call = calls.get(nth)?;
                let deltas = calls.calls().skip(nth).map(PackedCall::delta);
                let at = time - deltas.skip(1).sum::<u64>();
                let before = (nth > 0).then_some(Ticks(at - call.delta()));
                Some((call.at(Ticks(at)), before))
            };
            self.take(batch, table, calls.len(), true, call);
            self.before = Ticks(time);
        }
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

    /// Takes the calls of which the batch has the steps. `measured`: none is synthetic. `call` gives one of them, and the time of the one before it in the batch.
    #[inline(always)]
    fn take(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        count: usize,
        measured: bool,
        call: impl Fn(usize) -> Option<(Call, Option<Ticks>)>,
    ) {
        let mut done = 0;
        loop {
            if self.make_room() {
                done += self.plain(batch, table, done..count, measured);
            }
            let Some((call, before)) = call(done).filter(|_| done < count) else {
                break;
            };
            self.other(batch, table, &call, before.unwrap_or(self.before));
            done += 1;
        }
    }

    /// So many records are missing here. Calls that are open now may have ended, and others of the
    /// same functions begun: they are clipped.
    pub(crate) fn lose(&mut self, records: u64) {
        self.make_unclear();
        self.lost = self.lost.saturating_add(records);
        self.gap = self.first.map(|_| self.last);
        self.doubt();
        // What ended before is not inside of a call of which only the exit will come.
        match self.frames.get_mut(1).filter(|_| self.depth > 0) {
            Some(outermost) => outermost.before = 0,
            None => self.children = 0,
        }
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

    /// Takes steps while they are plain; returns how many.
    fn plain(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        steps: Range<usize>,
        measured: bool,
    ) -> usize {
        let first = steps.start;
        let forward = measured && !self.went_back && table.untimed().is_empty();
        let (done, ended) = match forward {
            true => self.follow::<true>(&mut batch.steps, steps, &[]),
            false => self.follow::<false>(&mut batch.steps, steps, table.untimed()),
        };
        let closed = batch.steps.get_mut(first..ended).unwrap_or(&mut []);
        match forward {
            true => settle::<true>(closed, &mut table.stats, &mut self.totals),
            false => settle::<false>(closed, &mut table.stats, &mut self.totals),
        }
        done
    }

    /// Takes one call of the function at that place; returns whether it was plain.
    fn one(&mut self, batch: &mut Batch, table: &mut Table, call: &Call, place: u32) -> bool {
        batch.one[0] = Step::of(call, place);
        let (done, ended) = self.follow::<false>(&mut batch.one, 0..1, table.untimed());
        let closed = batch.one.get_mut(..ended).unwrap_or(&mut []);
        settle::<false>(closed, &mut table.stats, &mut self.totals);
        done == 1
    }

    /// Takes those steps while they are plain: entries, and exits of the innermost call. Returns how many.
    /// Calls that ended are in their place, up to the other index that is returned.
    ///
    /// Whether an entry or an exit comes next, no processor can foresee: so all is done for both,
    /// with zeros for what is not meant, instead of a branch. `FORWARD`: no time went back, so that no sum
    /// is more than the time that has passed; all functions have times, and no step is synthetic.
    #[inline(never)]
    fn follow<const FORWARD: bool>(
        &mut self,
        steps: &mut [Step; ROOM],
        range: Range<usize>,
        untimed: &[u64],
    ) -> (usize, usize) {
        // As far as so many steps may lead, up or down: what is found by a mask needs no test.
        let base = self.base();
        let window = self.frames.get_mut(base..);
        let window: Option<&mut [Frame; WINDOW]> = window.and_then(<[Frame]>::first_chunk_mut);
        let mut ended = range.start;
        let steps = Cell::from_mut(&mut steps[..]).as_slice_of_cells();
        let (Some(frames), Some(all), 0) = (window, steps.first_chunk::<ROOM>(), self.beyond)
        else {
            return (0, ended);
        };
        let steps = steps.get(range).unwrap_or(&[]);
        let open = &mut self.open[..];
        let (mut above, mut children) = (self.depth - base + 1, self.children);
        let (mut rest, mut done) = (steps.iter(), steps.len());
        while let Some(step) = rest.next() {
            let step = step.get();
            let (exit, place) = (step.exit(), step.place);
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
                done -= rest.len() + 1;
                break;
            };
            let inclusive = match FORWARD {
                true => step.time.wrapping_sub(frame.start.0) & exit,
                false => {
                    let timed = step.time.saturating_sub(frame.start.0) & exit;
                    let untimed = untimed.get((place & PLACE) as usize).copied().unwrap_or(0);
                    timed & !untimed | children & exit & untimed
                }
            };
            // One up, or one down.
            let way = exit | 1;
            *open = open.wrapping_add(way as u32);
            all[ended % ROOM].set(Step {
                time: inclusive,
                children,
                place: match FORWARD {
                    true => place,
                    false => frame.place | place,
                },
                open: *open,
            });
            let before = children;
            children = match FORWARD {
                true => frame.before.wrapping_add(inclusive),
                false => frame.before.saturating_add(inclusive),
            } & exit;
            // After an exit it is above the innermost call, where it means nothing.
            *frame = Frame {
                start: Ticks(step.time),
                before,
                place,
            };
            ended = ended.wrapping_sub(exit as usize);
            above = above.wrapping_add(way as usize);
        }
        self.children = children;
        self.depth = base.wrapping_add(above).wrapping_sub(1);
        (done, ended)
    }

    /// Where the frames begin that so many steps may come to.
    fn base(&self) -> usize {
        self.depth.saturating_sub(ROOM - 1)
    }

    /// Makes room for so many steps; whether there may be as many open calls.
    fn make_room(&mut self) -> bool {
        let need = self.base() + WINDOW;
        if self.frames.len() < need {
            let room = need.max(2 * self.frames.len()).min(MAX_DEPTH + WINDOW);
            self.frames.resize(room, NO_FRAME);
        }
        self.depth + ROOM <= MAX_DEPTH
    }

    /// A call for which something must be done first, or that is not as it should be.
    #[cold]
    #[inline(never)]
    fn other(&mut self, batch: &mut Batch, table: &mut Table, call: &Call, before: Ticks) {
        let place = table.place(call.function);
        if self.open.len() <= place as usize {
            self.open.resize(place as usize + 1, 0);
            self.totals.resize(place as usize + 1, 0);
        }
        self.make_room();
        let entry = call.edge == Edge::Entry;
        if self.beyond > 0 && !entry {
            self.beyond -= 1;
        } else if !(entry && self.depth >= MAX_DEPTH) && self.one(batch, table, call, place) {
            // It is a function that the hot loop does not know, or the stack is very deep.
        } else if entry {
            self.make_unclear();
            self.beyond += 1;
            self.flaws.too_deep += 1;
            table.stats[place as usize].clipped += 1;
        } else {
            self.leave(batch, table, call, place, before);
        }
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

    /// An exit of a function that is not the innermost open one. What it leaves open inside ends with
    /// the record `before` it, as the writers of traces have it.
    fn leave(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        call: &Call,
        place: u32,
        before: Ticks,
    ) {
        if self.open[place as usize] > 0 {
            while self.depth > 0 {
                let found = self.frames[self.depth].place & PLACE == place;
                let time = if found { call.time } else { before };
                self.close(batch, table, time, call.synthetic || !found);
                if found {
                    break;
                }
                self.flaws.missing_exits += 1;
            }
            return;
        }
        if self.past.is_some() {
            return self.leave_past(call, place);
        }
        self.flaws.missing_entries += 1;
        if self.depth == 0 {
            self.close_unseen(table, place, call.time);
        }
    }

    /// Ends a call that was open before the trace began, or was entered in a gap: all that this
    /// thread did since then, it did inside of that call.
    fn close_unseen(&mut self, table: &mut Table, place: u32, time: Ticks) {
        let begin = self.gap.or(self.first);
        let inclusive = match table.untimed().get(place as usize) {
            Some(&u64::MAX) => self.children,
            _ => time.since(begin.unwrap_or(time)).0,
        };
        let total = &mut self.totals[place as usize];
        *total = inclusive.max(*total);
        let roots = std::mem::replace(&mut self.children, inclusive);
        let stats = &mut table.stats[place as usize];
        stats.own = stats.own.saturating_add(inclusive.saturating_sub(roots));
        stats.clipped += 1;
    }

    /// Ends what is still open, and gives the totals to the table. Takes the memory back, so that it
    /// may be done as soon as the thread has no more calls; doing it again changes nothing.
    pub(crate) fn finish(&mut self, batch: &mut Batch, table: &mut Table) {
        // What was not followed is not open, and the innermost ones may be the first of their step.
        self.beyond = 0;
        self.make_room();
        while self.depth > 0 {
            self.flaws.open += 1;
            self.close(batch, table, self.last, true);
        }
        for (total, stats) in std::mem::take(&mut self.totals)
            .iter()
            .zip(&mut table.stats)
        {
            stats.total = stats.total.saturating_add(*total);
        }
        (self.frames, self.open) = (Vec::new(), Vec::new());
    }
}
