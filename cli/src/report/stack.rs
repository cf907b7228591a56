//! One thread's calls as a stack: matches exits with entries and hands out the time between them.
//!
//! A call is *measured* when its entry and its exit are both in the trace, and *clipped* when it is
//! there in part only: it was open when the trace began or ended (a writer may have put synthetic
//! records there), or its exit is missing. The time of a clipped call that lies inside the trace
//! counts for total and self, and never for minimum, mean, percentiles and maximum.
//!
//! Nothing in here hashes or allocates per event, and no depth that a file claims is believed.

use fdr_formats::{Call, Edge, FunctionId, Ticks};

use super::stats::{CLIPPED, Closed, Table};

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
    frames: Vec<Frame>,
    /// By the place in the table.
    active: Vec<Active>,
    /// Open calls above [`MAX_DEPTH`], which are counted and not followed.
    beyond: u64,
    /// Ticks in finished calls that have no caller in the trace.
    roots: u64,
    /// Time of the first call record.
    pub(crate) first: Option<Ticks>,
    /// Latest time of a call record.
    pub(crate) last: Ticks,
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
        let Some(first) = calls.first() else { return };
        self.first.get_or_insert(first.time);
        let mut synthetic = 0;
        let mut last = self.last;
        for call in calls {
            synthetic += u64::from(call.synthetic);
            last = last.max(call.time);
            match call.edge {
                Edge::Entry => self.enter(table, call),
                // The callee of a tail call has an entry of its own.
                Edge::Exit | Edge::TailExit => self.leave(table, call),
            }
        }
        self.last = last;
        self.synthetic += synthetic;
        self.records += calls.len() as u64 - synthetic;
        table.settle();
    }

    #[inline]
    fn enter(&mut self, table: &mut Table, call: &Call) {
        let place = table.place(call.function);
        if self.frames.len() == self.frames.capacity() && !self.grow() {
            self.beyond += 1;
            self.flaws.too_deep += 1;
            table.stats[place as usize].clipped += 1;
            return;
        }
        match self.active.get_mut(place as usize) {
            Some(active) => active.depth += 1,
            None => self.first_of(place),
        }
        let mark = if call.synthetic { CLIPPED } else { 0 };
        self.frames.push(Frame {
            function: call.function,
            place: place | mark,
            start: call.time,
            children: 0,
        });
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        if self.frames.len() >= MAX_DEPTH {
            return false;
        }
        self.frames
            .reserve_exact(self.frames.len().clamp(64, MAX_DEPTH / 2));
        true
    }

    #[cold]
    #[inline(never)]
    fn first_of(&mut self, place: u32) {
        self.active.resize(place as usize + 1, Active::default());
        self.active[place as usize].depth = 1;
    }

    #[inline]
    fn leave(&mut self, table: &mut Table, call: &Call) {
        match self.frames.last() {
            Some(&frame) if frame.function == call.function && self.beyond == 0 => {
                self.close(table, frame, call.time, call.synthetic);
            }
            _ => self.leave_other(table, call),
        }
    }

    /// Ends the innermost open call, `frame`.
    #[inline(always)]
    fn close(&mut self, table: &mut Table, frame: Frame, time: Ticks, clipped: bool) {
        self.frames.pop();
        let inclusive = time.since(frame.start).0;
        match self.frames.last_mut() {
            Some(caller) => caller.children = caller.children.saturating_add(inclusive),
            None => self.roots = self.roots.saturating_add(inclusive),
        }
        let active = &mut self.active[(frame.place & !CLIPPED) as usize];
        active.depth -= 1;
        if active.depth == 0 {
            active.total = active.total.saturating_add(inclusive);
        }
        table.closed.push(Closed {
            inclusive,
            own: inclusive.saturating_sub(frame.children),
            place: frame.place | if clipped { CLIPPED } else { 0 },
        });
    }

    /// An exit of a function that is not the innermost open one.
    #[cold]
    #[inline(never)]
    fn leave_other(&mut self, table: &mut Table, call: &Call) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let place = table.place(call.function);
        let open = self
            .active
            .get(place as usize)
            .is_some_and(|active| active.depth > 0);
        if open && !table.is_shared(place) {
            while let Some(&frame) = self.frames.last() {
                let found = frame.function == call.function;
                self.close(table, frame, call.time, call.synthetic || !found);
                if found {
                    break;
                }
                self.flaws.missing_exits += 1;
            }
            table.settle();
            return;
        }
        self.flaws.missing_entries += 1;
        if self.frames.is_empty() {
            self.close_unseen(table, place, call.time);
        }
    }

    /// Ends a call that was open before the trace began: all that this thread did so far, it did
    /// inside of that call.
    fn close_unseen(&mut self, table: &mut Table, place: u32, time: Ticks) {
        let inclusive = time.since(self.first.unwrap_or(time)).0;
        if self.active.len() <= place as usize {
            self.active.resize(place as usize + 1, Active::default());
        }
        let active = &mut self.active[place as usize];
        active.total = active.total.max(inclusive);
        let stats = &mut table.stats[place as usize];
        stats.own = stats
            .own
            .saturating_add(inclusive.saturating_sub(self.roots));
        stats.clipped += 1;
        self.roots = inclusive;
    }

    /// Ends what is still open, and gives the totals to the table. Takes the memory back, so that it
    /// may be done as soon as the thread has no more calls; doing it again changes nothing.
    pub(crate) fn finish(&mut self, table: &mut Table) {
        while let Some(&frame) = self.frames.last() {
            self.flaws.open += 1;
            self.close(table, frame, self.last, true);
        }
        table.settle();
        table.closed = Vec::new();
        for (active, stats) in std::mem::take(&mut self.active)
            .iter()
            .zip(&mut table.stats)
        {
            stats.total = stats.total.saturating_add(active.total);
        }
        self.frames = Vec::new();
    }
}
