//! One thread's calls as a stack: matches exits with entries and hands out the time between them.
//!
//! A call is *measured* when its entry and its exit are both in the trace, and *clipped* when it is
//! there in part only: it was open when the trace began or ended (a writer may have put synthetic
//! records there), or its exit is missing. The time of a clipped call that lies inside the trace
//! counts for total and self, and never for minimum, mean, percentiles and maximum.
//!
//! Nothing in here hashes or allocates per event, and no depth that a file claims is believed.

mod join;

use std::hint::select_unpredictable;

use fdr_formats::{Call, Edge, FunctionId, Ticks};

use self::join::Past;
use super::stats::{CLIPPED, Closed, OTHERS, Table};

/// Open calls that are followed per thread (24 MiB); a real stack ends long before.
const MAX_DEPTH: usize = 1 << 20;

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: FunctionId,
    /// Its place in the table, with [`CLIPPED`] where its entry is synthetic.
    place: u32,
    start: Ticks,
    /// Ticks spent in functions that it called.
    children: u64,
}

const _: () = assert!(size_of::<Frame>() == 24);

/// What is below the outermost call, and where there is no call yet.
const NO_FRAME: Frame = Frame {
    function: OTHERS,
    place: 0,
    start: Ticks(0),
    children: 0,
};

/// What one thread has of one function.
#[derive(Clone, Copy, Debug, Default)]
struct Active {
    /// Calls that are open now.
    depth: u32,
    /// Ticks inside, outermost calls only.
    total: u64,
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
    /// Calls deeper than the limit.
    pub(crate) too_deep: u64,
}

/// The calls of one thread.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// `frames[depth]` is the innermost open call. `frames[0]` is none: its `children` are the ticks
    /// in finished calls that have no caller in the trace.
    frames: Vec<Frame>,
    depth: usize,
    /// By the place in the table.
    active: Vec<Active>,
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
    pub(crate) fn run(&mut self, table: &mut Table, calls: &[Call]) {
        let Some(first) = calls.first().filter(|_| !self.is_unclear()) else {
            return;
        };
        // Sources give what went back in a batch of its own.
        let earliest = self.first.map_or(first.time, |known| known.min(first.time));
        self.first = Some(earliest);
        let mut synthetic = 0;
        let mut last = self.last;
        for call in calls {
            synthetic += u64::from(call.synthetic);
            last = last.max(call.time);
        }
        self.last = last;
        self.synthetic += synthetic;
        self.records += calls.len() as u64 - synthetic;
        let mut done = self.plain(table, calls);
        while let Some(call) = calls.get(done) {
            let before = done.checked_sub(1).and_then(|before| calls.get(before));
            let before = before.map_or(self.before, |before| before.time);
            self.other(table, call, before);
            done += 1;
            done += self.plain(table, calls.get(done..).unwrap_or(&[]));
        }
        self.before = calls.last().map_or(self.before, |last| last.time);
    }

    /// So many records are missing here. Calls that are open now may have ended, and others of the
    /// same functions begun: they are clipped.
    pub(crate) fn lose(&mut self, records: u64) {
        self.make_unclear();
        self.lost = self.lost.saturating_add(records);
        self.gap = self.first.map(|_| self.last);
        self.doubt();
        // What ended before is not inside of a call of which only the exit will come.
        if let Some(none) = self.frames.first_mut() {
            none.children = 0;
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

    /// Takes calls while they are plain; returns how many.
    fn plain(&mut self, table: &mut Table, calls: &[Call]) -> usize {
        if self.beyond > 0 {
            return 0;
        }
        let (near, closed) = table.parts();
        let (done, ended) = self.follow(closed, calls, |function| {
            near.get(function.0 as usize).copied()
        });
        table.settle(ended);
        done
    }

    /// Takes one call of the function at that place; returns whether it was plain.
    fn one(&mut self, table: &mut Table, call: &Call, place: u32) -> bool {
        let (_, closed) = table.parts();
        let (done, ended) = self.follow(closed, std::slice::from_ref(call), |_| Some(place));
        table.settle(ended);
        done == 1
    }

    /// Takes calls while they are plain: entries for which there is room, and exits of the innermost
    /// call. Returns how many, and how many of them ended, which are in `closed`.
    ///
    /// Whether an entry or an exit comes next, no processor can foresee: so all is done for both,
    /// with zeros for what is not meant, instead of a branch.
    #[inline(always)]
    fn follow(
        &mut self,
        closed: &mut [Closed],
        calls: &[Call],
        place_of: impl Fn(FunctionId) -> Option<u32>,
    ) -> (usize, usize) {
        let (frames, active) = (&mut self.frames[..], &mut self.active[..]);
        let (mut depth, mut done, mut ended) = (self.depth, 0, 0);
        for call in calls {
            let Some(place) = place_of(call.function) else {
                break;
            };
            // The callee of a tail call has an entry of its own.
            let exit = call.edge != Edge::Entry;
            let step = usize::from(exit);
            if depth + 2 - step >= frames.len() {
                break;
            }
            let clipped = u32::from(call.synthetic) << CLIPPED.trailing_zeros();
            // Above the innermost call: it counts only where `depth` follows.
            frames[depth + 1] = Frame {
                function: call.function,
                place: place | clipped,
                start: call.time,
                children: 0,
            };
            let matched = frames[depth + 1 - step].function == call.function;
            let (Some(active), Some(slot), true) = (
                active.get_mut(place as usize),
                closed.get_mut(ended),
                matched,
            ) else {
                break;
            };
            let top = frames[depth];
            let inclusive = select_unpredictable(exit, call.time.since(top.start).0, 0);
            let Some(caller) = frames.get_mut(depth.wrapping_sub(step)) else {
                break;
            };
            caller.children = caller.children.saturating_add(inclusive);
            *slot = Closed {
                inclusive,
                children: top.children,
                place: top.place | clipped,
            };
            ended += step;
            depth = depth + 1 - 2 * step;

            active.depth = active.depth + 1 - 2 * step as u32;
            let outermost = select_unpredictable(active.depth == 0, inclusive, 0);
            active.total = active.total.saturating_add(outermost);
            done += 1;
        }
        self.depth = depth;
        (done, ended)
    }

    /// A call for which something must be done first, or that is not as it should be.
    #[cold]
    #[inline(never)]
    fn other(&mut self, table: &mut Table, call: &Call, before: Ticks) {
        let place = table.place(call.function);
        if self.active.len() <= place as usize {
            self.active.resize(place as usize + 1, Active::default());
        }
        if self.depth + 2 >= self.frames.len() {
            let more = self.frames.len().clamp(64, MAX_DEPTH / 2);
            let room = (self.frames.len() + more).min(MAX_DEPTH + 2);
            self.frames.resize(room, NO_FRAME);
        }
        let entry = call.edge == Edge::Entry;
        if self.beyond > 0 && !entry {
            self.beyond -= 1;
        } else if self.beyond == 0 && self.one(table, call, place) {
            // There was no room before, or it is a function that the hot loop does not know.
        } else if entry {
            self.make_unclear();
            self.beyond += 1;
            self.flaws.too_deep += 1;
            table.stats[place as usize].clipped += 1;
        } else {
            self.leave(table, call, place, before);
        }
    }

    /// Ends the innermost open call.
    fn close(&mut self, table: &mut Table, time: Ticks, synthetic: bool) {
        let Frame {
            function, place, ..
        } = self.frames[self.depth];
        let exit = Call {
            time,
            function,
            edge: Edge::Exit,
            synthetic,
            has_arguments: false,
        };
        let plain = self.one(table, &exit, place & !CLIPPED);
        debug_assert!(plain, "the innermost call can be ended");
    }

    /// An exit of a function that is not the innermost open one. What it leaves open inside ends with
    /// the record `before` it, as the writers of traces have it.
    fn leave(&mut self, table: &mut Table, call: &Call, place: u32, before: Ticks) {
        let open = self.active[place as usize].depth > 0;
        if open && !table.is_shared(place) {
            while self.depth > 0 {
                let found = self.frames[self.depth].function == call.function;
                let time = if found { call.time } else { before };
                self.close(table, time, call.synthetic || !found);
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
        let active = &mut self.active[place as usize];
        active.total = active.total.max(inclusive);
        let roots = std::mem::replace(&mut self.frames[0].children, inclusive);
        let stats = &mut table.stats[place as usize];
        stats.own = stats.own.saturating_add(inclusive.saturating_sub(roots));
        stats.clipped += 1;
    }

    /// Ends what is still open, and gives the totals to the table. Takes the memory back, so that it
    /// may be done as soon as the thread has no more calls; doing it again changes nothing.
    pub(crate) fn finish(&mut self, table: &mut Table) {
        while self.depth > 0 {
            self.flaws.open += 1;
            self.close(table, self.last, true);
        }
        for (active, stats) in std::mem::take(&mut self.active)
            .iter()
            .zip(&mut table.stats)
        {
            stats.total = stats.total.saturating_add(active.total);
        }
        self.frames = Vec::new();
    }
}
