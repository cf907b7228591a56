//! One thread's calls as a stack: matches exits with entries and hands out the time between them.
//!
//! A call is *measured* when its entry and its exit are both in the trace, and *clipped* when it is
//! there in part only: it was open when the trace began or ended (a writer may have put synthetic
//! records there), or its exit is missing. The time of a clipped call that lies inside the trace
//! counts for total and self, and never for minimum, mean, percentiles and maximum.
//!
//! Nothing in here hashes or allocates per event, and no depth that a file claims is believed.

mod join;

use fdr_formats::{Call, Edge, Ticks};

use self::join::Past;
use super::batch::{Batch, Closed, ROOM, Step, settle};
use super::stats::{CLIPPED, NONE, OUTERMOST, PLACE, Table};

/// Open calls that are followed per thread (24 MiB); a real stack ends long before.
const MAX_DEPTH: usize = 1 << 20;

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
    place: NONE & PLACE,
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
        let Some(first) = calls.first().filter(|_| !self.is_unclear()) else {
            return;
        };
        // Sources give what went back in a batch of its own.
        let earliest = self.first.map_or(first.time, |known| known.min(first.time));
        self.first = Some(earliest);
        for calls in calls.chunks(ROOM) {
            let sums = batch.prepare(calls, table.near());
            self.last = self.last.max(sums.last);
            self.synthetic += sums.synthetic;
            self.records += calls.len() as u64 - sums.synthetic;
            let mut done = 0;
            loop {
                done += self.plain(batch, table, calls, done);
                let Some(call) = calls.get(done) else { break };
                let before = done.checked_sub(1).and_then(|before| calls.get(before));
                let before = before.map_or(self.before, |before| before.time);
                self.other(batch, table, call, before);
                done += 1;
            }
            self.before = calls.last().map_or(self.before, |last| last.time);
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

    /// Takes calls from one on while they are plain; returns how many.
    fn plain(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        calls: &[Call],
        from: usize,
    ) -> usize {
        let calls = calls.get(from..).unwrap_or(&[]);
        let steps = batch.steps.get(from..).unwrap_or(&[]);
        let (done, ended) = self.follow(&mut batch.closed, calls, steps);
        let closed = batch.closed.get(..ended).unwrap_or(&[]);
        settle(closed, &mut table.stats, &mut self.totals);
        done
    }

    /// Takes one call of the function at that place; returns whether it was plain.
    fn one(&mut self, batch: &mut Batch, table: &mut Table, call: &Call, place: u32) -> bool {
        let (call, step) = (std::slice::from_ref(call), [Step::new(call, place)]);
        let (done, ended) = self.follow(&mut batch.closed, call, &step);
        let closed = batch.closed.get(..ended).unwrap_or(&[]);
        settle(closed, &mut table.stats, &mut self.totals);
        done == 1
    }

    /// Takes calls while they are plain: entries for which there is room, and exits of the innermost
    /// call. Returns how many, and how many calls ended, which are in `closed`.
    ///
    /// Whether an entry or an exit comes next, no processor can foresee: so all is done for both,
    /// with zeros for what is not meant, instead of a branch.
    fn follow(
        &mut self,
        closed: &mut [Closed; ROOM],
        calls: &[Call],
        steps: &[Step],
    ) -> (usize, usize) {
        if self.beyond > 0 {
            return (0, 0);
        }
        let (frames, open) = (&mut self.frames[..], &mut self.open[..]);
        let (mut depth, mut children) = (self.depth, self.children);
        let (mut done, mut ended) = (0, 0);
        for (call, step) in calls.iter().zip(steps) {
            let exit = step.exit();
            let place = step.place();
            // One up, or one down.
            let way = exit.wrapping_mul(2).wrapping_add(1);
            let at = depth.wrapping_add(1).wrapping_add(exit as usize);
            let (Some(frame), Some(open)) =
                (frames.get_mut(at), open.get_mut((place & PLACE) as usize))
            else {
                break;
            };
            // The innermost call, if it is an exit.
            if (frame.place ^ place) & PLACE & exit as u32 != 0 {
                break;
            }
            let inclusive = call.time.since(frame.start).0 & exit;
            *open = open.wrapping_add(way as u32);
            let outermost = u32::from(*open == 0) << OUTERMOST.trailing_zeros();
            closed[ended % ROOM] = Closed {
                inclusive,
                children,
                place: frame.place | place & CLIPPED | outermost,
            };
            let before = children;
            children = frame.before.saturating_add(inclusive) & exit;
            // Above the innermost call after an exit, where it means nothing.
            *frame = Frame {
                start: call.time,
                before,
                place,
            };
            ended = ended.wrapping_sub(exit as usize);
            depth = depth.wrapping_add(way as usize);
            done += 1;
        }
        (self.depth, self.children) = (depth, children);
        (done, ended)
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
        if self.depth + 2 > self.frames.len() {
            let more = self.frames.len().clamp(64, MAX_DEPTH / 2);
            let room = (self.frames.len() + more).min(MAX_DEPTH + 1);
            self.frames.resize(room, NO_FRAME);
        }
        let entry = call.edge == Edge::Entry;
        if self.beyond > 0 && !entry {
            self.beyond -= 1;
        } else if self.beyond == 0 && self.one(batch, table, call, place) {
            // There was no room before, or it is a function that the hot loop does not know.
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
        let inclusive = time.since(begin.unwrap_or(time)).0;
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
