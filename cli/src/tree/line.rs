//! One thread's calls as paths of a tree: the call stack of the formats, each open call with its node. The own times of
//! all paths that end in a function are its self time in `fdr report`.

use std::collections::BTreeMap;

use fdr_formats::calls::{
    CallHandler, CallStack, EdgeStatus, EndedCall, Exit, FastPath, OpenCall, OrdinaryEdge, Untimed,
    Window,
};
use fdr_formats::model::State;
use fdr_formats::packed::Packed;
use fdr_formats::{Call, FunctionId, Ticks};

use super::call_tree::{Label, NodeId, Tree};
use crate::off_cpu::{Absence, OffCpu, lasting};
use crate::report::open::is_end;

/// Functions in a path. Deeper calls are the last one's.
const MAX_PATH: usize = 1000;

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Line {
    /// Where the paths begin.
    root: NodeId,
    stack: CallStack<NodeId>,
    /// The moment of the dump, where it is known.
    end: Option<Ticks>,
    /// Calls that were open then have paths of their own.
    has_marks: bool,
    last_ends: LastEnds,
    by: Option<Box<ByState>>,
}

/// The data that is needed to count only the time in one state.
#[derive(Debug)]
struct ByState {
    state: State,
    absence: Absence,
    /// For each call that was open when the state changed and is still open: the ticks to subtract from its own time,
    /// because they belong to calls inside it. The numbers wrap.
    less: Vec<u64>,
}

/// The calls that a writer ended and that no record follows, by path: ticks in them alone, and their number. Where the
/// moment of the dump is not known, these were open then. There are never more than paths.
#[derive(Debug, Default)]
struct LastEnds {
    /// Measured edges of the thread before them.
    records: u64,
    ends: BTreeMap<NodeId, (u64, u64)>,
}

impl LastEnds {
    /// Forgets those that a measured edge follows.
    fn reach(&mut self, records: u64) {
        if self.records != records {
            self.records = records;
            self.ends.clear();
        }
    }

    fn add(&mut self, node: NodeId, own: u64, calls: u64) {
        let (known, number) = self.ends.entry(node).or_default();
        *known = known.saturating_add(own);
        *number += calls;
    }
}

/// Puts the calls that end into a tree. `BY`: only their time in one state.
struct Paths<'a, const BY: bool> {
    tree: &'a mut Tree,
    root: NodeId,
    end: Option<Ticks>,
    has_marks: bool,
    last_ends: &'a mut LastEnds,
    by: Option<&'a mut ByState>,
    /// All ones if the thread is in that state, else 0.
    mask: u64,
    /// The thread has no more records.
    at_end: bool,
}

impl<const BY: bool> CallHandler<NodeId> for Paths<'_, BY> {
    fn missing(&mut self, function: FunctionId, _: Exit, caller: Option<&NodeId>) -> NodeId {
        let caller = caller.copied().unwrap_or(self.root);
        self.tree.called(caller, function)
    }

    fn ended(&mut self, ended: EndedCall<NodeId>, around: &mut [OpenCall<NodeId>]) {
        let own = match &mut self.by {
            Some(by) => by.own(&ended, around),
            None => ended.own(),
        };
        let is_open = match ended.exit {
            EdgeStatus::Measured => false,
            // The writer of the trace ended what was open.
            EdgeStatus::Synthetic => self.end.is_some_and(|end| ended.end >= end),
            // Without that moment, the trace may end before they did.
            EdgeStatus::Missing => self.at_end && self.end.is_some(),
        };
        let node = match is_open && self.has_marks {
            true => self.tree.child(ended.call.data, Label::Open),
            false => ended.call.data,
        };
        self.tree.count(node, own);
        let is_last = self.end.is_none() && self.has_marks;
        if ended.exit == EdgeStatus::Synthetic && is_last {
            self.last_ends.add(node, own, 1);
        }
    }
}

impl<const BY: bool> FastPath<NodeId> for Paths<'_, BY> {
    fn root(&self) -> NodeId {
        self.root
    }

    #[inline(always)]
    fn step(&mut self, plain: OrdinaryEdge<NodeId>) -> Option<NodeId> {
        let node = plain.innermost;
        if plain.exit == 0 {
            // Paths that are too deep are never near, so each takes the long way.
            return self.tree.last_found(node, plain.function);
        }
        let own = plain.total.wrapping_sub(plain.children);
        self.tree
            .count(node, if BY { own & self.mask } else { own });
        Some(node)
    }

    fn entered(&mut self, function: FunctionId, open: &[OpenCall<NodeId>]) -> NodeId {
        let caller = open.last().map_or(self.root, |open| open.data);
        match open.len() + 1 {
            0..MAX_PATH => self.tree.called(caller, function),
            MAX_PATH => self.tree.child(caller, Label::Others),
            _ => caller,
        }
    }
}

impl ByState {
    /// The time of a call in that state, without the calls inside.
    fn own(&mut self, ended: &EndedCall<NodeId>, around: &[OpenCall<NodeId>]) -> u64 {
        let (parts, caller) = self.absence.end_call(ended, around);
        let less = self.less.get(ended.depth).copied().unwrap_or(0);
        self.less.truncate(ended.depth);
        let ticks = match ended.untimed {
            true => 0,
            false => ended.own(),
        };
        if let Some(caller) = caller.checked_sub(1) {
            self.take(caller, &parts.caller);
        }
        parts.own.part(self.state, ticks).wrapping_sub(less)
    }

    /// Adds ticks that are later subtracted from the own time of the open call at this place.
    fn take(&mut self, place: usize, less: &OffCpu) {
        if self.less.len() <= place {
            self.less.resize(place + 1, 0);
        }
        let sum = &mut self.less[place];
        *sum = sum.wrapping_add(less.part(self.state, 0));
    }
}

impl Line {
    /// A thread whose paths begin there; some functions have no times. `end`: the moment of the dump, where it is
    /// known.
    pub(super) fn new(root: NodeId, untimed: Untimed, end: Option<Ticks>) -> Line {
        let stack = CallStack::new().with_untimed(untimed);
        Line {
            root,
            stack,
            end,
            has_marks: true,
            last_ends: LastEnds::default(),
            by: None,
        }
    }

    /// A line that counts only the time in that state.
    pub(super) fn with_state(self, state: State, absence: Absence) -> Line {
        let by = ByState {
            state,
            absence,
            less: Vec::new(),
        };
        Line {
            by: Some(Box::new(by)),
            ..self
        }
    }

    /// What is not known of the thread's time.
    pub(super) fn unknown(&self) -> Ticks {
        let first = self.by.as_ref().zip(self.stack.first());
        first.map_or(Ticks(0), |(by, first)| {
            by.absence.unknown(first, self.stack.latest())
        })
    }

    /// The next edge is at that time. Returns until when the thread's state lasts.
    fn reach(&mut self, time: Ticks) -> Ticks {
        let Some(by) = self.by.as_deref_mut() else {
            return Ticks(u64::MAX);
        };
        if !by.absence.lasts(time) {
            let mut taken: Vec<(usize, OffCpu)> = Vec::new();
            by.absence.reach(time, &mut self.stack, |open, away| {
                taken.push((open.len() - 1, *away));
            });
            taken.iter().for_each(|(place, away)| by.take(*place, away));
        }
        by.absence.until()
    }

    /// Whether calls that were open at the end of the trace get nodes of their own.
    pub(super) fn with_marks(self, has_marks: bool) -> Line {
        Line { has_marks, ..self }
    }

    /// The call stack, and the handler of its calls.
    fn paths<'a, const BY: bool>(
        &'a mut self,
        tree: &'a mut Tree,
    ) -> (&'a mut CallStack<NodeId>, Paths<'a, BY>) {
        let Line {
            root,
            stack,
            end,
            has_marks,
            last_ends,
            by,
        } = self;
        let is_in = |by: &ByState| by.absence.is_in(by.state);
        let is_in = by.as_deref().is_none_or(is_in);
        let paths = Paths {
            tree,
            root: *root,
            end: *end,
            has_marks: *has_marks,
            last_ends,
            by: by.as_deref_mut(),
            mask: u64::from(is_in).wrapping_neg(),
            at_end: false,
        };
        (stack, paths)
    }

    /// Takes some calls, in order.
    pub(super) fn run(&mut self, window: &mut Window<NodeId>, tree: &mut Tree, calls: &[Call]) {
        let mut rest = calls;
        // Where the moment of the dump is known, it tells what was open.
        if self.end.is_none() && calls.iter().fold(false, |any, call| any | call.synthetic) {
            while let Some(at) = rest.iter().position(is_end) {
                let (before, from) = rest.split_at(at);
                let (end, after) = from.split_at(1);
                self.follow(window, tree, before);
                self.last_ends.reach(self.stack.measured());
                self.follow(window, tree, end);
                rest = after;
            }
        }
        self.follow(window, tree, rest);
    }

    fn follow(&mut self, window: &mut Window<NodeId>, tree: &mut Tree, calls: &[Call]) {
        if self.by.is_none() {
            return self.follow_in::<false>(window, tree, calls);
        }
        let mut rest = calls;
        while let Some(first) = rest.first() {
            let until = self.reach(first.time);
            let lasts = |call: &&Call| first.time <= call.time && call.time < until;
            let count = rest.iter().take_while(lasts).count().max(1);
            let (now, later) = rest.split_at(count);
            self.follow_in::<true>(window, tree, now);
            rest = later;
        }
    }

    fn follow_in<const BY: bool>(
        &mut self,
        window: &mut Window<NodeId>,
        tree: &mut Tree,
        calls: &[Call],
    ) {
        let (stack, mut paths) = self.paths::<BY>(tree);
        stack.run(window, &mut paths, calls);
    }

    /// The same of packed ones.
    pub(super) fn run_packed(
        &mut self,
        window: &mut Window<NodeId>,
        tree: &mut Tree,
        packed: &Packed<'_>,
    ) {
        if self.by.is_none() {
            return self.follow_packed::<false>(window, tree, packed);
        }
        let (mut from, mut base) = (0, packed.base.0);
        while let Some(first) = packed.get(from) {
            let until = self.reach(Ticks(base.wrapping_add(first.delta())));
            let (count, ticks) = lasting(packed, from, base, until.0);
            let mut now = packed.part(from, count);
            now.base = Ticks(base);
            self.follow_packed::<true>(window, tree, &now);
            (from, base) = (from + count, base.wrapping_add(ticks));
        }
    }

    fn follow_packed<const BY: bool>(
        &mut self,
        window: &mut Window<NodeId>,
        tree: &mut Tree,
        packed: &Packed<'_>,
    ) {
        let (stack, mut paths) = self.paths::<BY>(tree);
        stack.run_packed(window, &mut paths, packed);
    }

    /// The innermost open call made `calls` calls that left no records.
    pub(super) fn short_calls(&mut self, tree: &mut Tree, time: Ticks, calls: u64, ticks: u64) {
        let caller = self.stack.open().last().map_or(self.root, |open| open.data);
        let node = tree.child(caller, Label::Short);
        let ticks = self.stack.short_calls(time, ticks);
        // The trace has no states of short calls. They count as running, because nearly all of them ran.
        let is_counted = self.by.as_ref().is_none_or(|by| by.state == State::Running);
        tree.count_calls(node, if is_counted { ticks } else { 0 }, calls);
    }

    /// Records are missing here.
    pub(super) fn lose(&mut self) {
        self.stack.lose();
    }

    /// The tree has its nodes elsewhere now.
    pub(super) fn moved(&mut self, places: &[NodeId]) {
        self.root = places[self.root.index()];
        for open in self.stack.open_mut() {
            open.data = places[open.data.index()];
        }
        for (node, (own, calls)) in std::mem::take(&mut self.last_ends.ends) {
            self.last_ends.add(places[node.index()], own, calls);
        }
    }

    /// Ends what is still open, and takes the memory back.
    pub(super) fn finish(&mut self, tree: &mut Tree) {
        let end = self.end;
        if !self.stack.open().is_empty() {
            self.reach(end.unwrap_or_default().max(self.stack.latest()));
        }
        let (stack, mut paths) = self.paths::<false>(tree);
        paths.at_end = true;
        stack.finish(end, &mut paths);
        self.last_ends.reach(self.stack.measured());
        for (node, (own, calls)) in std::mem::take(&mut self.last_ends.ends) {
            let open = tree.child(node, Label::Open);
            tree.reassign(node, open, own, calls);
        }
    }
}
