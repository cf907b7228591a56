//! One thread's calls as paths of a tree: the call stack of the formats, each open call with its node. The own
//! times of all paths that end in a function are its self time in `fdr report`. A piece of a thread can be
//! followed without what came before it, and joined to it. Must never match calls by itself.

use fdr_formats::calls::{
    CallHandler, CallStack, Ended, Exit, FastPath, Open, Plain, Untimed, Window,
};
use fdr_formats::packed::Packed;
use fdr_formats::{Call, FunctionId};

use super::tree::{Label, NodeId, Tree};

/// Functions in a path. Deeper calls are the last one's.
const MAX_PATH: usize = 1000;

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Line {
    /// Where the paths begin.
    root: NodeId,
    stack: CallStack<NodeId>,
}

/// Puts the calls that end into a tree.
struct Paths<'a> {
    tree: &'a mut Tree,
    root: NodeId,
}

impl CallHandler<NodeId> for Paths<'_> {
    fn missing(&mut self, function: FunctionId, _: Exit, caller: Option<&NodeId>) -> NodeId {
        let caller = caller.copied().unwrap_or(self.root);
        self.tree.called(caller, function)
    }

    fn ended(&mut self, ended: Ended<NodeId>, _: &mut [Open<NodeId>]) {
        self.tree.count(ended.call.data, ended.own());
    }
}

impl FastPath<NodeId> for Paths<'_> {
    fn root(&self) -> NodeId {
        self.root
    }

    #[inline(always)]
    fn step(&mut self, plain: Plain<NodeId>) -> Option<NodeId> {
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
    /// A thread whose paths begin there; some functions have no times.
    pub(super) fn new(root: NodeId, untimed: Untimed) -> Line {
        let stack = CallStack::new().with_untimed(untimed);
        Line { root, stack }
    }

    /// A piece of a thread's calls, into a tree of its own.
    pub(super) fn piece(untimed: Untimed) -> Line {
        Line {
            root: NodeId::ROOT,
            stack: CallStack::new().with_untimed(untimed).piece(),
        }
    }

    /// Takes some calls, in order.
    pub(super) fn run(&mut self, window: &mut Window<NodeId>, tree: &mut Tree, calls: &[Call]) {
        let root = self.root;
        let mut paths = Paths { tree, root };
        self.stack.run(window, &mut paths, calls);
        self.root = paths.root;
    }

    /// The same of packed ones.
    pub(super) fn run_packed(
        &mut self,
        window: &mut Window<NodeId>,
        tree: &mut Tree,
        packed: &Packed<'_>,
    ) {
        let root = self.root;
        let mut paths = Paths { tree, root };
        self.stack.run_packed(window, &mut paths, packed);
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
        let root = self.root;
        self.stack.join(piece.stack, &mut Paths { tree, root });
        true
    }

    /// Ends what is still open, and takes the memory back.
    pub(super) fn finish(&mut self, tree: &mut Tree) {
        let root = self.root;
        self.stack.finish(None, &mut Paths { tree, root });
    }
}
