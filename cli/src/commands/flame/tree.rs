//! Call paths as a tree: for each path what its innermost function did by itself. Bounded: paths beyond
//! a quarter of a million share one entry. Must never take time that grows with a path's length or a caller's fan-out.

use std::collections::HashMap;

use fdr_formats::{FunctionId, ThreadId};

/// Nodes of a tree (10 MiB, and more to find them).
const MAX_NODES: usize = 1 << 18;
/// Entries of the table that saves most searches; a power of two.
const NEAR: usize = 1 << 12;

/// A node's place in its tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// The whole trace.
    pub(super) const ROOT: NodeId = NodeId(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node stands for below its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Label {
    /// Where paths begin.
    Root,
    /// A function.
    Function(FunctionId),
    /// A thread.
    Thread(ThreadId),
    /// Calls deeper than paths are followed, or every path beyond the limit.
    Others,
}

/// A path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) caller: NodeId,
    pub(super) label: Label,
    /// Ticks inside, less those in functions that it called.
    pub(super) own: u64,
    /// Calls that ended there.
    pub(super) calls: u64,
}

/// All paths.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    by_path: HashMap<(NodeId, Label), NodeId>,
    /// The last search for each hash of a path.
    near: Vec<(NodeId, FunctionId, NodeId)>,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node {
            caller: NodeId::ROOT,
            label: Label::Root,
            own: 0,
            calls: 0,
        };
        let none = (NodeId(u32::MAX), FunctionId(0), NodeId::ROOT);
        Tree {
            nodes: vec![root],
            by_path: HashMap::new(),
            near: vec![none; NEAR],
        }
    }
}

impl Tree {
    /// The path of that function, called from that path.
    #[inline]
    pub(super) fn called(&mut self, caller: NodeId, function: FunctionId) -> NodeId {
        let hash = (caller.0 ^ function.0.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let slot = hash as usize >> 20 & (NEAR - 1);
        let (known, of, node) = self.near[slot];
        if (known, of) == (caller, function) {
            return node;
        }
        let node = self.child(caller, Label::Function(function));
        self.near[slot] = (caller, function, node);
        node
    }

    /// The node of that label below another one; made where there is none.
    #[inline(never)]
    pub(super) fn child(&mut self, caller: NodeId, label: Label) -> NodeId {
        if let Some(&node) = self.by_path.get(&(caller, label)) {
            return node;
        }
        let shared = (NodeId::ROOT, Label::Others);
        let path = match self.nodes.len() {
            0..MAX_NODES => (caller, label),
            _ => shared,
        };
        if let Some(&node) = self.by_path.get(&path) {
            return node;
        }
        let node = self.add(path.0, path.1);
        self.by_path.insert(path, node);
        node
    }

    /// Another root, for paths of which the beginning is not known yet.
    pub(super) fn other_root(&mut self) -> NodeId {
        self.add(NodeId::ROOT, Label::Root)
    }

    fn add(&mut self, caller: NodeId, label: Label) -> NodeId {
        let node = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            caller,
            label,
            own: 0,
            calls: 0,
        });
        node
    }

    /// A call of that path has ended.
    #[inline]
    pub(super) fn count(&mut self, node: NodeId, own: u64) {
        let node = &mut self.nodes[node.0 as usize];
        node.own = node.own.saturating_add(own);
        node.calls += 1;
    }

    /// Whether all paths of another tree have nodes of their own here.
    pub(super) fn has_room_for(&self, more: &Tree) -> bool {
        self.nodes.len() + more.nodes.len() < MAX_NODES
    }

    /// Adds another tree. Its roots become what `root_of` says: the first, second, … of them. Returns
    /// where each of its nodes is here.
    pub(super) fn join(&mut self, more: &Tree, root_of: &dyn Fn(usize) -> NodeId) -> Vec<NodeId> {
        let mut places: Vec<NodeId> = Vec::with_capacity(more.nodes.len());
        let mut roots = 0;
        for node in &more.nodes {
            let place = match node.label {
                Label::Root => {
                    roots += 1;
                    root_of(roots - 1)
                }
                // Callers come before those that they call.
                label => self.child(places[node.caller.0 as usize], label),
            };
            let own = &mut self.nodes[place.0 as usize];
            own.own = own.own.saturating_add(node.own);
            own.calls += node.calls;
            places.push(place);
        }
        places
    }

    /// Gives the time of functions that have none to their callers: what passed in them passed there.
    pub(super) fn give_to_callers(&mut self, untimed: &dyn Fn(FunctionId) -> bool) {
        // From the innermost on: a caller may be untimed, too.
        for at in (0..self.nodes.len()).rev() {
            let Node {
                caller, label, own, ..
            } = self.nodes[at];
            if matches!(label, Label::Function(id) if untimed(id)) {
                self.nodes[at].own = 0;
                let caller = &mut self.nodes[caller.index()];
                caller.own = caller.own.saturating_add(own);
            }
        }
    }

    /// The nodes, callers before those that they call.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let ids = (0..).map(NodeId);
        ids.zip(&self.nodes)
    }
}
