//! One thread's calls as paths of a tree: matches exits with entries as `fdr report` does, so that the
//! own times of all paths that end in a function are its self time there. A piece of a thread can be
//! followed without what came before it, and joined to it. Must never follow more calls than a stack may
//! have, nor search one in vain more often than entries have paid for.
//!
//! A call of an untimed function is as wide as the calls in it: what passed beside them is its caller's.

use std::sync::Arc;

use fdr_formats::packed::{Packed, PackedCall};
use fdr_formats::{Call, Edge, FunctionId, Ticks};

use super::tree::{Label, NodeId, Tree};

/// Open calls that are followed per thread (24 MiB); a real stack ends long before.
const MAX_DEPTH: usize = 1 << 20;
/// Functions in a path. Deeper calls are the last one's.
const MAX_PATH: usize = 1000;
/// Open calls that are always looked at for the entry of an exit.
const NEAR: usize = 4096;
/// Exits of earlier calls that a piece may have.
const MAX_LEFT: usize = 1 << 16;

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: Ticks,
    /// Ticks in functions that it called.
    children: u64,
    function: FunctionId,
    node: NodeId,
}

const _: () = assert!(size_of::<Frame>() == 24);

/// An edge of a call.
#[derive(Clone, Copy, Debug)]
struct Step {
    time: Ticks,
    function: FunctionId,
    enters: bool,
}

/// An exit of a call that was entered before the piece, and what the piece has right inside of that call.
#[derive(Clone, Copy, Debug)]
struct Left {
    function: FunctionId,
    time: Ticks,
    children: u64,
}

/// What a piece must know of the calls before it.
#[derive(Debug, Default)]
struct Past {
    left: Vec<Left>,
    unclear: bool,
}

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Line {
    /// Functions without times, sorted.
    untimed: Arc<[FunctionId]>,
    /// The first is none: it is below the outermost calls.
    frames: Vec<Frame>,
    past: Option<Past>,
    /// Open calls above [`MAX_DEPTH`].
    beyond: u64,
    /// Searches in vain that entries have paid for, in calls looked at.
    credit: usize,
    /// Where records were last missing.
    gap: Option<Ticks>,
    first: Option<Ticks>,
    last: Ticks,
    before: Ticks,
}

impl Line {
    /// A thread whose paths begin there.
    pub(super) fn new(root: NodeId, untimed: Arc<[FunctionId]>) -> Line {
        let none = Frame {
            start: Ticks(0),
            children: 0,
            function: FunctionId(u32::MAX),
            node: root,
        };
        Line {
            untimed,
            frames: vec![none],
            past: None,
            beyond: 0,
            credit: 0,
            gap: None,
            first: None,
            last: Ticks(0),
            before: Ticks(0),
        }
    }

    /// A piece of a thread's calls, into a tree of its own.
    pub(super) fn piece(untimed: Arc<[FunctionId]>) -> Line {
        Line {
            past: Some(Past::default()),
            ..Line::new(NodeId::ROOT, untimed)
        }
    }

    fn is_untimed(&self, function: FunctionId) -> bool {
        !self.untimed.is_empty() && self.untimed.binary_search(&function).is_ok()
    }

    /// Takes some calls, in order.
    pub(super) fn run(&mut self, tree: &mut Tree, calls: &[Call]) {
        let step = |call: &Call| Step {
            time: call.time,
            function: call.function,
            enters: call.edge == Edge::Entry,
        };
        let first = calls.first().map(|call| call.time);
        self.follow(tree, first, calls.iter().map(step));
    }

    /// The same of packed ones.
    pub(super) fn run_packed(&mut self, tree: &mut Tree, packed: &Packed<'_>) {
        let mut time = packed.base.0;
        let step = |call: PackedCall| {
            time = time.wrapping_add(call.delta());
            Step {
                time: Ticks(time),
                function: call.function(),
                enters: call.left() == 0,
            }
        };
        self.follow(tree, packed.first(), packed.calls().map(step));
    }

    /// Takes steps, the first of which is at that time.
    #[inline(always)]
    fn follow(&mut self, tree: &mut Tree, first: Option<Ticks>, steps: impl Iterator<Item = Step>) {
        if self.past.as_ref().is_some_and(|past| past.unclear) {
            return;
        }
        self.first = [self.first, first].into_iter().flatten().min();
        let (mut before, mut last) = (self.before, self.last);
        for step in steps {
            match self.frames.last() {
                Some(top) if step.enters => {
                    let caller = top.node;
                    self.enter(tree, &step, caller);
                }
                Some(top) if top.function == step.function && self.beyond == 0 => {
                    self.close(tree, step.time);
                }
                _ => {
                    self.before = before;
                    self.leave(tree, &step);
                }
            }
            before = step.time;
            last = last.max(before);
        }
        (self.before, self.last) = (before, last);
    }

    /// Records are missing here.
    pub(super) fn lose(&mut self) {
        self.make_unclear();
        self.gap = self.first.map(|_| self.last);
        if let Some(none) = self.frames.first_mut() {
            none.children = 0;
        }
    }

    /// The tree has its nodes elsewhere now.
    pub(super) fn moved(&mut self, places: &[NodeId]) {
        for frame in &mut self.frames {
            frame.node = places[frame.node.index()];
        }
    }

    /// What comes now can't be told without the past.
    pub(super) fn make_unclear(&mut self) {
        if let Some(past) = &mut self.past {
            past.unclear = true;
        }
    }

    fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    #[inline(always)]
    fn enter(&mut self, tree: &mut Tree, call: &Step, caller: NodeId) {
        let node = match self.frames.len() {
            0..MAX_PATH => tree.called(caller, call.function),
            MAX_PATH => tree.child(caller, Label::Others),
            depth if depth <= MAX_DEPTH => caller,
            _ => {
                self.make_unclear();
                self.beyond += 1;
                return;
            }
        };
        self.credit = self.credit.wrapping_add(1);
        self.frames.push(Frame {
            start: call.time,
            children: 0,
            function: call.function,
            node,
        });
    }

    /// Ends the innermost open call.
    #[inline]
    fn close(&mut self, tree: &mut Tree, time: Ticks) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let inclusive = match self.is_untimed(frame.function) {
            true => frame.children,
            false => time.since(frame.start).0,
        };
        tree.count(frame.node, inclusive.saturating_sub(frame.children));
        if let Some(caller) = self.frames.last_mut() {
            caller.children = caller.children.saturating_add(inclusive);
        }
    }

    /// An exit of a function that is not the innermost open one. What it leaves open inside ends with
    /// the record before it.
    #[cold]
    fn leave(&mut self, tree: &mut Tree, call: &Step) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let most = NEAR.saturating_add(self.credit).min(self.depth());
        let open = self.frames.get(1..).unwrap_or(&[]).iter().rev();
        let found = open
            .take(most)
            .position(|frame| frame.function == call.function);
        if let Some(inner) = found {
            (0..inner).for_each(|_| self.close(tree, self.before));
            return self.close(tree, call.time);
        }
        self.credit = self.credit.saturating_sub(most.saturating_sub(NEAR));
        if self.past.is_some() {
            self.leave_past(tree, call);
        } else if self.depth() == 0 {
            self.close_unseen(tree, call);
        }
    }

    /// Ends a call that was open before the trace began, or was entered in a gap. What it called is
    /// already beside it.
    fn close_unseen(&mut self, tree: &mut Tree, call: &Step) {
        let begin = self.gap.or(self.first).unwrap_or(call.time);
        let untimed = self.is_untimed(call.function);
        let Some(none) = self.frames.first_mut() else {
            return;
        };
        let node = tree.called(none.node, call.function);
        let inclusive = match untimed {
            true => none.children,
            false => call.time.since(begin).0,
        };
        let roots = std::mem::replace(&mut none.children, inclusive);
        tree.count(node, inclusive.saturating_sub(roots));
    }

    fn leave_past(&mut self, tree: &mut Tree, call: &Step) {
        let depth = self.depth();
        let (Some(past), Some(none)) = (&mut self.past, self.frames.first_mut()) else {
            return;
        };
        if depth > 0 || past.left.len() >= MAX_LEFT {
            past.unclear = true;
            return;
        }
        past.left.push(Left {
            function: call.function,
            time: call.time,
            children: std::mem::take(&mut none.children),
        });
        none.node = tree.other_root();
    }

    /// Adds a piece that follows, and its tree. `false`: that can't be told, and nothing was changed.
    pub(super) fn join(&mut self, tree: &mut Tree, piece: &Line, theirs: &Tree) -> bool {
        let depth = self.depth();
        let Some(past) = piece.past.as_ref().filter(|past| !past.unclear) else {
            return false;
        };
        let open = self.frames.iter().rev().map(|frame| frame.function);
        let left = past.left.iter().map(|left| left.function);
        let matched = past.left.len() <= depth && left.eq(open.take(past.left.len()));
        // A stack never had more than it has room for; where a search might end early, it is left out.
        let most = depth + piece.frames.capacity();
        let deep = self.beyond > 0 || most > MAX_PATH.min(NEAR);
        if self.past.is_some() || deep || !matched {
            return false;
        }
        let roots: Vec<NodeId> = self.frames.iter().rev().map(|frame| frame.node).collect();
        let root_of = |nth: usize| roots.get(nth).copied().unwrap_or(NodeId::ROOT);
        let places = tree.join(theirs, &root_of);
        for left in &past.left {
            self.add_children(left.children);
            self.close(tree, left.time);
        }
        let (none, open) = piece
            .frames
            .split_first()
            .map_or((0, &[][..]), |(none, open)| (none.children, open));
        self.add_children(none);
        self.frames.extend(open.iter().map(|frame| Frame {
            node: places[frame.node.index()],
            ..*frame
        }));
        self.credit = self.credit.wrapping_add(piece.credit);
        if piece.first.is_some() {
            self.before = piece.before;
        }
        self.first = [self.first, piece.first].into_iter().flatten().min();
        self.last = self.last.max(piece.last);
        true
    }

    fn add_children(&mut self, ticks: u64) {
        if let Some(frame) = self.frames.last_mut() {
            frame.children = frame.children.saturating_add(ticks);
        }
    }

    /// Ends what is still open, and takes the memory back.
    pub(super) fn finish(&mut self, tree: &mut Tree) {
        while self.depth() > 0 {
            self.close(tree, self.last);
        }
        self.frames.shrink_to_fit();
    }
}
