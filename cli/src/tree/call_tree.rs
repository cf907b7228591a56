//! Call paths as a tree: for each path what its innermost function did by itself. Bounded: paths beyond a quarter of a
//! million share one entry.

use fdr_formats::{FunctionId, ThreadId};
use foldhash::{HashMap, HashMapExt};

/// The most paths of a finished tree (10 MiB, and more for the table that finds them). A growing tree may have half as
/// many more.
pub(crate) const MAX_PATHS: usize = 1 << 18;
/// Entries of the table that saves most searches; a power of two.
const NEAR: usize = 1 << 14;

/// A node's place in its tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The whole trace.
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node stands for below its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Label {
    /// The root, where all paths begin.
    Root,
    /// A function.
    Function(FunctionId),
    /// A thread.
    Thread(ThreadId),
    /// Calls deeper than paths are followed, or every path beyond the limit.
    Others,
    /// The calls of the path above that were open when the trace was written.
    Open,
    /// Calls that the path above made and that left no records.
    Short,
}

/// A path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) caller: NodeId,
    pub(crate) label: Label,
    /// Ticks inside, less those in functions that it called.
    pub(crate) own: u64,
    /// Calls that ended there.
    pub(crate) calls: u64,
}

/// Depth and hash of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u32, u64);

impl Rank {
    /// Of that label below the path of this rank.
    fn below(caller: Rank, label: Label) -> Rank {
        let label = match label {
            Label::Root => 0,
            Label::Function(FunctionId(id)) => u64::from(id) << 2 | 1,
            Label::Thread(ThreadId(id)) => id << 2 | 2,
            Label::Others => 3,
            Label::Open => 7,
            Label::Short => 11,
        };
        let mut hash = (caller.1.rotate_left(5) ^ label).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Rank(caller.0 + 1, hash ^ hash >> 32)
    }
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_path: HashMap<(NodeId, Label), NodeId>,
    /// The last search for each hash of a path.
    near: Box<[CachedSearch; NEAR]>,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node {
            caller: NodeId::ROOT,
            label: Label::Root,
            own: 0,
            calls: 0,
        };
        let none = CachedSearch {
            path: u64::MAX,
            node: NodeId::ROOT,
        };
        Tree {
            nodes: vec![root],
            by_path: HashMap::new(),
            near: Box::new([none; NEAR]),
        }
    }
}

/// A search that was made.
#[derive(Clone, Copy, Debug)]
struct CachedSearch {
    path: u64,
    node: NodeId,
}

/// A caller's node and a function.
#[inline(always)]
fn path(caller: NodeId, function: FunctionId) -> u64 {
    u64::from(caller.0) << 32 | u64::from(function.0)
}

/// Where the last search for a path is, among those of its hash.
#[inline(always)]
fn slot(path: u64) -> usize {
    (path.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR.trailing_zeros())) as usize
}

impl Tree {
    /// The path of that function, called from that path.
    #[inline]
    pub(crate) fn called(&mut self, caller: NodeId, function: FunctionId) -> NodeId {
        if let Some(node) = self.last_found(caller, function) {
            return node;
        }
        let node = self.child(caller, Label::Function(function));
        let path = path(caller, function);
        self.near[slot(path)] = CachedSearch { path, node };
        node
    }

    /// The same, where that was the last search of its hash.
    #[inline(always)]
    pub(crate) fn last_found(&self, caller: NodeId, function: FunctionId) -> Option<NodeId> {
        let path = path(caller, function);
        let near = &self.near[slot(path) % NEAR];
        (near.path == path).then_some(near.node)
    }

    /// The node of that label below another one; made where there is none.
    #[inline(never)]
    pub(crate) fn child(&mut self, caller: NodeId, label: Label) -> NodeId {
        if let Some(&node) = self.by_path.get(&(caller, label)) {
            return node;
        }
        // The node that stands for many paths has no nodes below it.
        if self.nodes[caller.index()].label == Label::Others {
            return caller;
        }
        let node = self.add(caller, label);
        self.by_path.insert((caller, label), node);
        node
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
    pub(crate) fn count(&mut self, node: NodeId, own: u64) {
        let node = &mut self.nodes[node.0 as usize];
        node.own = node.own.saturating_add(own);
        node.calls += 1;
    }

    /// `calls` calls of that path have ended.
    pub(crate) fn count_calls(&mut self, node: NodeId, own: u64, calls: u64) {
        let node = &mut self.nodes[node.index()];
        node.own = node.own.saturating_add(own);
        node.calls = node.calls.saturating_add(calls);
    }

    /// Moves `calls` calls, and the ticks `own` that they spent, from one path to another.
    pub(crate) fn reassign(&mut self, from: NodeId, to: NodeId, own: u64, calls: u64) {
        let known = &mut self.nodes[from.index()];
        let (own, calls) = (own.min(known.own), calls.min(known.calls));
        (known.own, known.calls) = (known.own - own, known.calls - calls);
        let label = self.nodes[to.index()].label;
        self.take(
            to,
            &Node {
                caller: from,
                label,
                own,
                calls,
            },
        );
    }

    /// The label of a path; of one of open calls, that of their function.
    pub(crate) fn label_of(&self, node: &Node) -> Label {
        match node.label {
            Label::Open => self.nodes[node.caller.index()].label,
            label => label,
        }
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Keeps the `most` least deep paths, and joins all others to one. The choice depends on the paths alone, not on
    /// the order in which they came. So a path that is kept in the end was kept at each earlier call of `shrink`, and
    /// its figures are complete. Returns where each node is now; `None`: no node has moved.
    pub(crate) fn shrink(&mut self, most: usize) -> Option<Vec<NodeId>> {
        let ranks = self.ranks();
        let mut sorted: Vec<Rank> = ranks.iter().copied().flatten().collect();
        sorted.sort_unstable();
        let limit = *sorted.get(most)?;
        let shared = self.child(NodeId::ROOT, Label::Others);
        let nodes = std::mem::take(&mut self.nodes);
        *self = Tree::default();
        let mut places = vec![NodeId::ROOT; nodes.len()];
        places[shared.index()] = self.child(NodeId::ROOT, Label::Others);
        for (at, node) in nodes.iter().enumerate().skip(1) {
            let stays = ranks.get(at).copied().flatten() < Some(limit);
            if at != shared.index() {
                places[at] = match stays {
                    // Callers are less deep, so they stay, too.
                    true => self.child(places[node.caller.index()], node.label),
                    false => places[shared.index()],
                };
            }
            self.take(places[at], node);
        }
        Some(places)
    }

    /// The order in which nodes stay; `None` for those that always do.
    fn ranks(&self) -> Vec<Option<Rank>> {
        let mut ranks = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let always = node.caller == NodeId::ROOT && node.label == Label::Others;
            ranks.push(match node.label {
                Label::Root => None,
                _ if always => None,
                label => {
                    let caller = ranks.get(node.caller.index()).copied().flatten();
                    Some(Rank::below(caller.unwrap_or_default(), label))
                }
            });
        }
        ranks
    }

    /// Adds what is known of a path.
    fn take(&mut self, place: NodeId, more: &Node) {
        let known = &mut self.nodes[place.index()];
        known.own = known.own.saturating_add(more.own);
        known.calls += more.calls;
    }

    /// Adds another tree.
    pub(crate) fn join(&mut self, more: &Tree) {
        let mut places: Vec<NodeId> = Vec::with_capacity(more.nodes.len());
        for node in &more.nodes {
            let place = match node.label {
                Label::Root => NodeId::ROOT,
                // Callers come before those that they call.
                label => self.child(places[node.caller.0 as usize], label),
            };
            self.take(place, node);
            places.push(place);
        }
    }

    /// The nodes, callers before those that they call.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let ids = (0..).map(NodeId);
        ids.zip(&self.nodes)
    }
}
