//! Reads types.json, tree.json and state.json: the keys of a history. Keys that the history has no room for are left
//! out and reported. A damaged file is read as if it were not there.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::record::Kind;
use crate::error::DiagnosticList;
use crate::json::parse;

/// Reads a table. A damaged table is reported, and taken as empty.
fn read_table<T: DeserializeOwned + Default>(
    diagnostics: &mut DiagnosticList,
    file: &str,
    bytes: Option<Vec<u8>>,
) -> T {
    // The code that found no table has already reported it.
    let Some(bytes) = bytes else {
        return T::default();
    };
    parse(&bytes).unwrap_or_else(|bad| {
        let what = format!("{}; read without it", bad.what);
        diagnostics.add_in(file, bad.offset, &what);
        T::default()
    })
}

/// The meaning of a timeline for a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// A meaning that a trace has no word for.
    #[default]
    Other,
    /// Depth of the call stack of a thread, by its place in [`Tree::threads`].
    Depth(u32),
    /// A level of it, from 1.
    Level(u32, u32),
    /// The thread that runs on a CPU.
    Cpu(u32),
    /// The status of a thread, by its place in [`Tree::threads`].
    Status(u32),
    /// The CPU on which it runs or ran last.
    RunQueue(u32),
    /// The status of a CPU. It follows from the states of the threads.
    CpuStatus,
}

impl Role {
    /// The type that its values must have.
    fn kind(self) -> Option<Kind> {
        match self {
            // Without known states it is null, and another program may have any value there.
            Role::Other | Role::Status(_) | Role::CpuStatus => None,
            Role::Depth(_) | Role::Cpu(_) | Role::RunQueue(_) => Some(Kind::Int),
            Role::Level(..) => Some(Kind::Text),
        }
    }

    /// The type that its values have where no file says so.
    fn guess(self) -> Option<Kind> {
        match self {
            Role::Status(_) | Role::CpuStatus => Some(Kind::Int),
            other => other.kind(),
        }
    }
}

/// tree.json.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TreeFile {
    version: Option<Version>,
    root: Option<NodeFile>,
}

#[derive(Deserialize)]
struct Version {
    major: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeFile {
    key: Option<u32>,
    children: BTreeMap<String, NodeFile>,
}

/// An element of types.json.
#[derive(Deserialize)]
struct TypeFile {
    key: u32,
    #[serde(rename = "type")]
    kind: String,
}

/// An element of state.json.
#[derive(Deserialize)]
struct StateFile {
    key: u32,
    value: Value,
}

/// A node of the tree: a parent comes before its children.
#[derive(Debug, Default)]
struct Node {
    parent: usize,
    name: String,
    key: Option<u32>,
}

/// The meaning of each key of a history.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Place of each key in `nodes`.
    node_of: Vec<Option<u32>>,
    pub(super) kinds: Vec<Kind>,
    pub(super) roles: Vec<Role>,
    /// Numbers of the threads.
    pub(super) threads: Vec<u64>,
    /// For each thread, whether the history has only its states, and no calls.
    pub(super) has_states_alone: Vec<bool>,
}

impl Tree {
    /// Reads both files; there must be fewer than `most` keys.
    pub(super) fn read(
        types: Option<Vec<u8>>,
        tree: Option<Vec<u8>>,
        most: u32,
        diagnostics: &mut DiagnosticList,
    ) -> Tree {
        let mut out = Tree::default();
        let types: Vec<TypeFile> = read_table(diagnostics, "types.json", types);
        let types = types.into_iter();
        let types = types.map(|one| (one.key, Kind::of_name(&one.kind)));
        let kinds = by_key("types.json", types, most, diagnostics);
        let tree: TreeFile = read_table(diagnostics, "tree.json", tree);
        if tree.version.is_some_and(|version| version.major != 1) {
            diagnostics.add_in("tree.json", 0, "the version is not 1; it is read as if");
        }
        if let Some(root) = tree.root {
            out.add(0, String::new(), root);
        }
        out.settle(kinds, most, diagnostics);
        out
    }

    /// Adds a node and all inside it. Its depth is bounded, because `serde_json` has read it.
    fn add(&mut self, parent: usize, name: String, node: NodeFile) {
        let own = self.nodes.len();
        let key = node.key;
        self.nodes.push(Node { parent, name, key });
        let mut children: Vec<(String, NodeFile)> = node.children.into_iter().collect();
        // The order of the file is that of the keys.
        children.sort_by_key(|(_, child)| child.key);
        for (name, child) in children {
            self.add(own, name, child);
        }
    }

    /// How many keys there are.
    pub(super) fn keys(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// The names from the root to a key; without a tree, the key's number.
    pub(super) fn path(&self, key: u32) -> Vec<String> {
        let Some(mut at) = self.node_of.get(key as usize).copied().flatten() else {
            return vec![format!("key {key}")];
        };
        let mut names = Vec::new();
        while let Some(node) = self.nodes.get(at as usize).filter(|_| at > 0) {
            names.push(node.name.clone());
            at = node.parent as u32;
        }
        names.reverse();
        names
    }

    /// Brings keys, types and names together.
    fn settle(&mut self, kinds: Vec<Option<Kind>>, most: u32, diagnostics: &mut DiagnosticList) {
        let mut keys = Keys::new(kinds);
        let mut places: Vec<NodeRole> = Vec::with_capacity(self.nodes.len());
        let mut thread_of = HashMap::new();
        let mut foreign = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            let parent = if at == 0 {
                None
            } else {
                places.get(node.parent)
            };
            let place = NodeRole::from_name(
                parent.copied(),
                &node.name,
                &mut self.threads,
                &mut thread_of,
            );
            places.push(place);
            match node.key.filter(|&key| key < most) {
                Some(key) => keys.assign(key as usize, at as u32, place.role()),
                None => foreign += 1,
            }
        }
        self.has_states_alone = has_states_alone(&places, self.threads.len());
        let what = "attributes without a key that the history has";
        left_out(diagnostics, "tree.json", foreign, what);
        let what = "attributes with the key of another";
        left_out(diagnostics, "tree.json", keys.doubled, what);
        keys.fit(diagnostics);
        let kinds = keys.kinds.into_iter();
        self.kinds = kinds.map(Option::unwrap_or_default).collect();
        (self.roles, self.node_of) = (keys.roles, keys.node_of);
    }
}

/// For each thread, whether the history has only its states, and no calls.
fn has_states_alone(places: &[NodeRole], threads: usize) -> Vec<bool> {
    let mut alone = vec![false; threads];
    let in_order = places.iter().filter_map(|place| match place {
        NodeRole::RunQueue(thread) => Some((*thread, true)),
        _ => None,
    });
    // A call stack says more.
    let stacks = places.iter().filter_map(|place| match place {
        NodeRole::Stack(thread) => Some((*thread, false)),
        _ => None,
    });
    for (thread, is_alone) in in_order.chain(stacks) {
        alone[thread as usize] = is_alone;
    }
    alone
}

/// The facts about each key, as far as they are read.
struct Keys {
    kinds: Vec<Option<Kind>>,
    roles: Vec<Role>,
    node_of: Vec<Option<u32>>,
    /// Nodes whose key another node has, too.
    doubled: u64,
}

impl Keys {
    /// Keys of which only the types are known.
    fn new(kinds: Vec<Option<Kind>>) -> Keys {
        Keys {
            roles: vec![Role::Other; kinds.len()],
            node_of: vec![None; kinds.len()],
            kinds,
            doubled: 0,
        }
    }

    /// Gives a key to a node.
    fn assign(&mut self, key: usize, node: u32, role: Role) {
        let least = self.roles.len().max(key + 1);
        self.kinds.resize(least, None);
        self.roles.resize(least, Role::Other);
        self.node_of.resize(least, None);
        if self.node_of[key].is_some() {
            self.doubled += 1;
            // The key whose values have the right type counts.
            if self.kinds[key].is_none() || role.kind() != self.kinds[key] {
                return;
            }
        }
        (self.node_of[key], self.roles[key]) = (Some(node), role);
    }

    /// Gives a type to each key that has none. Takes the role from each key whose values don't fit it.
    fn fit(&mut self, diagnostics: &mut DiagnosticList) {
        let (mut guessed, mut unfit) = (0, 0);
        let keys = self.kinds.iter_mut().zip(&mut self.roles);
        for ((kind, role), node) in keys.zip(&self.node_of) {
            let (wanted, guess) = (role.kind(), role.guess());
            match *kind {
                None => guessed += u64::from(node.is_some()),
                Some(kind) if wanted.is_none_or(|wanted| wanted == kind || kind == Kind::Any) => {}
                // All of its values may be null.
                Some(Kind::None) => {}
                Some(_) => {
                    unfit += 1;
                    *role = Role::Other;
                }
            }
            if matches!(role, Role::Status(_))
                && !matches!(kind, None | Some(Kind::Int | Kind::Any))
            {
                *role = Role::Other;
            }
            *kind = kind.or(guess);
        }
        if guessed > 0 {
            let what = format!("{guessed} keys of the tree have no type; guessed from the tree");
            diagnostics.add_in("types.json", 0, &what);
        }
        if unfit > 0 {
            let what = format!("{unfit} keys have a type that their attribute can't have");
            diagnostics.add_in("types.json", 0, &what);
        }
    }
}

/// Where in the tree a node is.
#[derive(Clone, Copy, Debug)]
enum NodeRole {
    Root,
    Threads,
    Thread(u32),
    Stack(u32),
    Level(u32, u32),
    Cpus,
    Cpu(u32),
    Current(u32),
    RunQueue(u32),
    Other,
}

impl NodeRole {
    fn from_name(
        parent: Option<NodeRole>,
        name: &str,
        threads: &mut Vec<u64>,
        thread_of: &mut HashMap<u64, u32>,
    ) -> NodeRole {
        match (parent, name) {
            (None, _) => NodeRole::Root,
            (Some(NodeRole::Root), "Threads") => NodeRole::Threads,
            (Some(NodeRole::Root), "CPUs") => NodeRole::Cpus,
            (Some(NodeRole::Threads), id) => match id.parse() {
                Ok(id) => NodeRole::Thread(*thread_of.entry(id).or_insert_with(|| {
                    threads.push(id);
                    threads.len() as u32 - 1
                })),
                Err(_) => NodeRole::Other,
            },
            (Some(NodeRole::Thread(thread)), "CallStack") => NodeRole::Stack(thread),
            (Some(NodeRole::Thread(thread)), "Current_cpu_rq") => NodeRole::RunQueue(thread),
            (Some(NodeRole::Stack(thread)), level) => match level.parse() {
                Ok(level) if level > 0 => NodeRole::Level(thread, level),
                _ => NodeRole::Other,
            },
            (Some(NodeRole::Cpus), cpu) => cpu.parse().map_or(NodeRole::Other, NodeRole::Cpu),
            (Some(NodeRole::Cpu(cpu)), "Current_thread") => NodeRole::Current(cpu),
            (Some(_), _) => NodeRole::Other,
        }
    }

    fn role(self) -> Role {
        match self {
            NodeRole::Stack(thread) => Role::Depth(thread),
            NodeRole::Level(thread, level) => Role::Level(thread, level),
            NodeRole::Current(cpu) => Role::Cpu(cpu),
            NodeRole::Thread(thread) => Role::Status(thread),
            NodeRole::RunQueue(thread) => Role::RunQueue(thread),
            NodeRole::Cpu(_) => Role::CpuStatus,
            _ => Role::Other,
        }
    }
}

/// Reports elements that are left out.
fn left_out(diagnostics: &mut DiagnosticList, file: &str, count: u64, what: &str) {
    if count > 0 {
        diagnostics.add_in(file, 0, &format!("{count} {what}; they are left out"));
    }
}

/// The values of keys below `most`, in the order of the keys. Of two elements with one key, the one in its
/// place counts.
fn by_key<T>(
    file: &str,
    elements: impl Iterator<Item = (u32, Option<T>)>,
    most: u32,
    diagnostics: &mut DiagnosticList,
) -> Vec<Option<T>> {
    let mut values: Vec<Option<T>> = Vec::new();
    let (mut foreign, mut doubled) = (0, 0);
    for (nth, (key, value)) in elements.enumerate() {
        let Some(value) = value.filter(|_| key < most) else {
            foreign += 1;
            continue;
        };
        let key = key as usize;
        if values.len() <= key {
            values.resize_with(key + 1, || None);
        }
        doubled += u64::from(values[key].is_some());
        if values[key].is_none() || nth == key {
            values[key] = Some(value);
        }
    }
    let what = "elements without a key that the history has, or without a value";
    left_out(diagnostics, file, foreign, what);
    left_out(
        diagnostics,
        file,
        doubled,
        "elements with the key of another",
    );
    values
}

/// Reads state.json: the values of the first `keys` keys.
pub(super) fn read_state(
    bytes: Option<Vec<u8>>,
    keys: u32,
    diagnostics: &mut DiagnosticList,
) -> Vec<Option<Value>> {
    let elements: Vec<StateFile> = read_table(diagnostics, "state.json", bytes);
    let elements = elements.into_iter();
    let values = by_key(
        "state.json",
        elements.map(|one| (one.key, Some(one.value))),
        keys,
        diagnostics,
    );
    let missing = values
        .iter()
        .position(Option::is_none)
        .unwrap_or(values.len());
    if (1..keys as usize).contains(&missing) {
        diagnostics.add_in(
            "state.json",
            0,
            &format!("the value of key {missing} is missing"),
        );
    }
    values
}
