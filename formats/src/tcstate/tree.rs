//! Reads types.json and tree.json: the keys of a history. Keys that the history has no room for are left
//! out and reported. A damaged file is read as if it were not there.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::DeserializeOwned;

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

/// The meaning of a node of the tree, and of its timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// A meaning that a trace has no word for.
    #[default]
    Other,
    Root,
    Threads,
    Cpus,
    /// A thread, by its place in [`Tree::threads`]. Its value is its status.
    Thread(u32),
    /// Depth of the call stack of a thread.
    Depth(u32),
    /// A level of it, from 1.
    Level(u32, u32),
    /// The CPU on which a thread runs or ran last.
    RunQueue(u32),
    /// A CPU. Its value is its status, which follows from the states of the threads.
    Cpu(u32),
    /// The thread that runs on a CPU.
    CurrentThread(u32),
}

impl Role {
    /// The type that its values must have.
    fn kind(self) -> Option<Kind> {
        match self {
            Role::Depth(_) | Role::CurrentThread(_) | Role::RunQueue(_) => Some(Kind::Int),
            Role::Level(..) => Some(Kind::Text),
            // Without known states a status is null, and another program may have any value there.
            _ => None,
        }
    }

    /// The type that its values have where no file says so.
    fn guess(self) -> Option<Kind> {
        match self {
            Role::Thread(_) | Role::Cpu(_) => Some(Kind::Int),
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

/// An element of state.json, whose value repeats what the history has.
#[derive(Deserialize)]
struct StateFile {
    #[serde(rename = "key")]
    _key: u32,
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
        let kinds = kinds(types, most, diagnostics);
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
        let mut roles: Vec<Role> = Vec::with_capacity(self.nodes.len());
        let mut thread_of = HashMap::new();
        let mut unused = 0;
        for at in 0..self.nodes.len() {
            let role = match at {
                0 => Role::Root,
                _ => self.role(roles[self.nodes[at].parent], at, &mut thread_of),
            };
            roles.push(role);
            match self.nodes[at].key.filter(|&key| key < most) {
                Some(key) => unused += u64::from(!keys.assign(key as usize, at as u32, role)),
                None => unused += 1,
            }
        }
        self.has_states_alone = vec![false; self.threads.len()];
        for role in &roles {
            if let Role::RunQueue(thread) = *role {
                self.has_states_alone[thread as usize] = true;
            }
        }
        // A call stack says more.
        for role in &roles {
            if let Role::Depth(thread) = *role {
                self.has_states_alone[thread as usize] = false;
            }
        }
        let what = "attributes without a key of their own that the history has";
        left_out(diagnostics, "tree.json", unused, what);
        keys.fit(diagnostics);
        let kinds = keys.kinds.into_iter();
        self.kinds = kinds.map(Option::unwrap_or_default).collect();
        (self.roles, self.node_of) = (keys.roles, keys.node_of);
    }

    /// The meaning of a node inside another one.
    fn role(&mut self, parent: Role, node: usize, thread_of: &mut HashMap<u64, u32>) -> Role {
        let name = &*self.nodes[node].name;
        // A number has one name, so no two attributes are of one thread.
        let number = || {
            name.parse()
                .ok()
                .filter(|number: &u64| number.to_string() == name)
        };
        let short = || number().and_then(|number| u32::try_from(number).ok());
        let role = match (parent, name) {
            (Role::Root, "Threads") => Some(Role::Threads),
            (Role::Root, "CPUs") => Some(Role::Cpus),
            (Role::Threads, _) => number().map(|id| {
                Role::Thread(*thread_of.entry(id).or_insert_with(|| {
                    self.threads.push(id);
                    self.threads.len() as u32 - 1
                }))
            }),
            (Role::Thread(thread), "CallStack") => Some(Role::Depth(thread)),
            (Role::Thread(thread), "Current_cpu_rq") => Some(Role::RunQueue(thread)),
            (Role::Depth(thread), _) => short()
                .filter(|&level| level > 0)
                .map(|level| Role::Level(thread, level)),
            (Role::Cpus, _) => short().map(Role::Cpu),
            (Role::Cpu(cpu), "Current_thread") => Some(Role::CurrentThread(cpu)),
            _ => None,
        };
        role.unwrap_or_default()
    }
}

/// The facts about each key, as far as they are read.
struct Keys {
    kinds: Vec<Option<Kind>>,
    roles: Vec<Role>,
    node_of: Vec<Option<u32>>,
}

impl Keys {
    /// Keys of which only the types are known.
    fn new(kinds: Vec<Option<Kind>>) -> Keys {
        Keys {
            roles: vec![Role::Other; kinds.len()],
            node_of: vec![None; kinds.len()],
            kinds,
        }
    }

    /// Gives a key to a node. Returns false if another node has it, too.
    fn assign(&mut self, key: usize, node: u32, role: Role) -> bool {
        let least = self.roles.len().max(key + 1);
        self.kinds.resize(least, None);
        self.roles.resize(least, Role::Other);
        self.node_of.resize(least, None);
        let is_first = self.node_of[key].is_none();
        // The node whose values have the right type counts.
        if is_first || self.kinds[key].is_some() && role.kind() == self.kinds[key] {
            (self.node_of[key], self.roles[key]) = (Some(node), role);
        }
        is_first
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
            if matches!(role, Role::Thread(_))
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

/// Reports elements that are left out.
fn left_out(diagnostics: &mut DiagnosticList, file: &str, count: u64, what: &str) {
    if count > 0 {
        diagnostics.add_in(file, 0, &format!("{count} {what}; they are left out"));
    }
}

/// Checks whether state.json has an element for each key.
pub(super) fn check_state(bytes: Option<Vec<u8>>, keys: u32, diagnostics: &mut DiagnosticList) {
    let elements: Vec<StateFile> = read_table(diagnostics, "state.json", bytes);
    let count = elements.len();
    if count > 0 && count != keys as usize {
        let what = format!("{count} values, but there are {keys} keys");
        diagnostics.add_in("state.json", 0, &what);
    }
}

/// The types of keys below `most`, in the order of the keys. Of two elements with one key, the one in its place counts.
fn kinds(types: Vec<TypeFile>, most: u32, diagnostics: &mut DiagnosticList) -> Vec<Option<Kind>> {
    let (mut kinds, mut unused) = (Vec::new(), 0);
    for (nth, one) in types.iter().enumerate() {
        let key = one.key as usize;
        let Some(kind) = Kind::of_name(&one.kind).filter(|_| one.key < most) else {
            unused += 1;
            continue;
        };
        if kinds.len() <= key {
            kinds.resize(key + 1, None);
        }
        unused += u64::from(kinds[key].is_some());
        if kinds[key].is_none() || nth == key {
            kinds[key] = Some(kind);
        }
    }
    let what = "elements without a type, or without a key of their own that the history has";
    left_out(diagnostics, "types.json", unused, what);
    kinds
}
