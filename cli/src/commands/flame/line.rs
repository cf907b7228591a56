//! One thread's calls as paths of a tree: the call stack of the formats, each open call with its node. The own
//! times of all paths that end in a function are its self time in `fdr report`. A piece of a thread can be
//! followed without what came before it, and joined to it. Must never match calls by itself.

use fdr_formats::calls::{
    CallHandler, CallStack, EdgeStatus, Ended, Exit, FastPath, Open, OrdinaryEdge, Untimed, Window,
};
use fdr_formats::packed::Packed;
use fdr_formats::{Call, FunctionId, Ticks};

use super::tree::{Label, NodeId, Tree};

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
}

/// Puts the calls that end into a tree.
struct Paths<'a> {
    tree: &'a mut Tree,
    root: NodeId,
    end: Option<Ticks>,
    /// The thread has no more records.
    at_end: bool,
}

impl CallHandler<NodeId> for Paths<'_> {
    fn missing(&mut self, function: FunctionId, _: Exit, caller: Option<&NodeId>) -> NodeId {
        let caller = caller.copied().unwrap_or(self.root);
        self.tree.called(caller, function)
    }

    fn ended(&mut self, ended: Ended<NodeId>, _: &mut [Open<NodeId>]) {
        let is_open = match ended.exit {
            EdgeStatus::Measured => false,
            // The writer of the trace ended what was open.
            EdgeStatus::Synthetic => self.end.is_some_and(|end| ended.end >= end),
            EdgeStatus::Missing => self.at_end,
        };
        let node = match is_open {
            true => self.tree.child(ended.call.data, Label::Open),
            false => ended.call.data,
        };
        self.tree.count(node, ended.own());
    }
}

impl FastPath<NodeId> for Paths<'_> {
    fn root(&self) -> NodeId {
        self.root
    }

    #[inline(always)]
    fn step(&mut self, plain: OrdinaryEdge<NodeId>) -> Option<NodeId> {
        let node = plain.innermost;
        if plain.exit == 0 {
            // Paths that are too deep are never near, so each takes the long way.
            return self.tree.near(node, plain.function);
        }
        self.tree
            .count(node, plain.total.wrapping_sub(plain.children));
        Some(node)
    }

    fn entered(&mut self, function: FunctionId, open: &[Open<NodeId>]) -> NodeId {
        let caller = open.last().map_or(self.root, |open| open.data);
        match open.len() + 1 {
            0..MAX_PATH => self.tree.called(caller, function),
            MAX_PATH => self.tree.child(caller, Label::Others),
            _ => caller,
        }
    }

    fn left_earlier(&mut self, _: &Call) {
        // What comes now is beside a call that was entered before.
        self.root = self.tree.other_root();
    }
}

impl Line {
    /// A thread whose paths begin there; some functions have no times. `end`: the moment of the dump, where it is
    /// known.
    pub(super) fn new(root: NodeId, untimed: Untimed, end: Option<Ticks>) -> Line {
        let stack = CallStack::new().with_untimed(untimed);
        Line { root, stack, end }
    }

    /// A piece of a thread's calls, into a tree of its own.
    pub(super) fn piece(untimed: Untimed, end: Option<Ticks>) -> Line {
        let line = Line::new(NodeId::ROOT, untimed, end);
        Line {
            stack: line.stack.piece(),
            ..line
        }
    }

    /// The call stack, and what it tells of calls.
    fn paths<'a>(&'a mut self, tree: &'a mut Tree) -> (&'a mut CallStack<NodeId>, Paths<'a>) {
        let Line { root, stack, end } = self;
        let paths = Paths {
            tree,
            root: *root,
            end: *end,
            at_end: false,
        };
        (stack, paths)
    }

    /// Takes some calls, in order.
    pub(super) fn run(&mut self, window: &mut Window<NodeId>, tree: &mut Tree, calls: &[Call]) {
        let (stack, mut paths) = self.paths(tree);
        stack.run(window, &mut paths, calls);
        self.root = paths.root;
    }

    /// The same of packed ones.
    pub(super) fn run_packed(
        &mut self,
        window: &mut Window<NodeId>,
        tree: &mut Tree,
        packed: &Packed<'_>,
    ) {
        let (stack, mut paths) = self.paths(tree);
        stack.run_packed(window, &mut paths, packed);
        self.root = paths.root;
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
    }

    /// What comes now can't be told without the past.
    pub(super) fn make_unclear(&mut self) {
        self.stack.make_unclear();
    }

    /// Adds a piece that follows, and its tree. `false`: that can't be told, and nothing was changed.
    pub(super) fn join(&mut self, tree: &mut Tree, mut piece: Line, theirs: &Tree) -> bool {
        let deepest = self.stack.open().len() + piece.stack.room();
        if deepest >= MAX_PATH || !self.stack.fits(&piece.stack) {
            return false;
        }
        let open = self.stack.open().iter().rev();
        let roots: Vec<NodeId> = open.map(|open| open.data).chain([self.root]).collect();
        let root_of = |nth: usize| roots.get(nth).copied().unwrap_or(NodeId::ROOT);
        let places = tree.join(theirs, &root_of);
        piece.moved(&places);
        let (stack, mut paths) = self.paths(tree);
        stack.join(piece.stack, &mut paths);
        true
    }

    /// Ends what is still open, and takes the memory back.
    pub(super) fn finish(&mut self, tree: &mut Tree) {
        let end = self.end;
        let (stack, mut paths) = self.paths(tree);
        paths.at_end = true;
        stack.finish(end, &mut paths);
    }
}
