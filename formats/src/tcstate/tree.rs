//! Reads types.json, tree.json and state.json: the keys of a history. Must never believe a key. Keys that
//! the history has no room for are left out and reported.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::record::Kind;
use crate::error::Diagnostic;
use crate::json::{Bad, Key, each, int, offset_in, parse, text_of_bytes};

/// The most problems of one folder that are reported; more are counted.
const MOST_TOLD: usize = 1000;

/// What is wrong with a folder.
#[derive(Debug, Default)]
pub(super) struct Told {
    list: Vec<Diagnostic>,
    more: u64,
}

impl Told {
    /// `file` is the name, `offset` the byte in it.
    pub(super) fn add(&mut self, file: &str, offset: u64, what: &str) {
        if self.list.len() < MOST_TOLD {
            let what = format!("{file}: {what}");
            self.list.push(Diagnostic { offset, what });
        } else {
            self.more += 1;
        }
    }

    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        if let Some(last) = self.list.last().filter(|_| self.more > 0) {
            let what = format!("{} more problems are not listed", self.more);
            let offset = last.offset;
            self.list.push(Diagnostic { offset, what });
        }
        self.list
    }
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
    /// The status of a CPU, which those of the threads say as well.
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

/// A node of the tree, in the order of the file: a parent comes before its children.
#[derive(Debug, Default)]
struct Node {
    parent: usize,
    name: String,
    key: Option<u32>,
    offset: u64,
}

/// What the keys of a history are.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Place of each key in `nodes`.
    node_of: Vec<Option<u32>>,
    pub(super) kinds: Vec<Kind>,
    pub(super) roles: Vec<Role>,
    /// Numbers of the threads.
    pub(super) threads: Vec<u64>,
    /// Of each, whether its states are all that there is of it.
    pub(super) has_states_alone: Vec<bool>,
}

impl Tree {
    /// Reads both files; there must be fewer than `most` keys.
    pub(super) fn read(types: &[u8], tree: &[u8], most: u32, told: &mut Told) -> Tree {
        let mut out = Tree::default();
        let kind = |element: &Value| Kind::of_name(element.get("type")?.as_str()?);
        let (kinds, damage) = by_key("types.json", types, most, told, kind);
        if let Some(bad) = damage {
            let what = format!("{}; the types after it are guessed from the tree", bad.what);
            told.add("types.json", bad.offset, &what);
        }
        let text = &*text_of_bytes(tree);
        let root = Members {
            nodes: &mut out.nodes,
            text,
            of: Of::File(told),
        };
        if let Err(bad) = parse(text, root) {
            let what = format!("{}; the attributes after it have no names", bad.what);
            told.add("tree.json", bad.offset, &what);
        }
        out.settle(kinds, most, told);
        out
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
    fn settle(&mut self, mut kinds: Vec<Option<Kind>>, most: u32, told: &mut Told) {
        let mut roles = vec![Role::Other; kinds.len()];
        let mut node_of = vec![None; kinds.len()];
        let mut places: Vec<Place> = Vec::with_capacity(self.nodes.len());
        let mut thread_of = HashMap::new();
        let (mut foreign, mut doubled) = (LeftOut::default(), LeftOut::default());
        for (at, node) in self.nodes.iter().enumerate() {
            let parent = if at == 0 {
                None
            } else {
                places.get(node.parent)
            };
            let place = Place::of(
                parent.copied(),
                &node.name,
                &mut self.threads,
                &mut thread_of,
            );
            places.push(place);
            let Some(key) = node.key.filter(|&key| key < most) else {
                foreign.add(node.offset);
                continue;
            };
            let least = roles.len().max(key as usize + 1);
            kinds.resize(least, None);
            roles.resize(least, Role::Other);
            node_of.resize(least, None);
            let (key, role) = (key as usize, place.role());
            if node_of[key].is_some() {
                doubled.add(node.offset);
                // The key whose values have the right type counts.
                if kinds[key].is_none() || role.kind() != kinds[key] {
                    continue;
                }
            }
            (node_of[key], roles[key]) = (Some(at as u32), role);
        }
        let mut alone = vec![false; self.threads.len()];
        let in_order = places.iter().filter_map(|place| match place {
            Place::RunQueue(thread) => Some((*thread, true)),
            _ => None,
        });
        // A call stack says more.
        let stacks = places.iter().filter_map(|place| match place {
            Place::Stack(thread) => Some((*thread, false)),
            _ => None,
        });
        for (thread, is_alone) in in_order.chain(stacks) {
            alone[thread as usize] = is_alone;
        }
        self.has_states_alone = alone;
        foreign.tell(
            told,
            "tree.json",
            "attributes without a key that the history has",
        );
        doubled.tell(told, "tree.json", "attributes with the key of another");
        let named = |key: usize| node_of.get(key).is_some_and(Option::is_some);
        let (mut guessed, mut unfit) = (0, 0);
        for (key, (kind, role)) in kinds.iter_mut().zip(&mut roles).enumerate() {
            let (wanted, guess) = (role.kind(), role.guess());
            match *kind {
                None => guessed += u64::from(named(key)),
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
            told.add("types.json", 0, &what);
        }
        if unfit > 0 {
            let what = format!("{unfit} keys have a type that their attribute can't have");
            told.add("types.json", 0, &what);
        }
        self.kinds = kinds.into_iter().map(Option::unwrap_or_default).collect();
        (self.roles, self.node_of) = (roles, node_of);
    }
}

/// An object of tree.json. Its nodes are taken one by one, so that those before a damage are there.
struct Members<'n, 't, 'o> {
    nodes: &'n mut Vec<Node>,
    text: &'t str,
    of: Of<'o>,
}

/// What has the members.
enum Of<'o> {
    File(&'o mut Told),
    /// A node, by its place.
    Node(usize),
    /// The list of children of a node.
    Children(usize),
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key_seed(Key)? {
            let offset = offset_in(self.text, &name);
            match (&mut self.of, &*name) {
                (Of::File(_), "root") if self.nodes.is_empty() => {
                    let node = self.node(0, String::new(), offset);
                    members.next_value_seed(self.members(node))?;
                }
                (Of::Children(parent), _) => {
                    let parent = *parent;
                    let node = self.node(parent, name.into_owned(), offset);
                    members.next_value_seed(self.members(node))?;
                }
                (Of::Node(at), "children") => {
                    let children = Of::Children(*at);
                    members.next_value_seed(self.members(children))?;
                }
                (Of::Node(at), "key") => {
                    self.nodes[*at].key = int(&members.next_value()?);
                }
                (Of::File(told), "version") => {
                    let version: Value = members.next_value()?;
                    if version["major"] != 1 {
                        let what = "the version is not 1; it is read as if";
                        told.add("tree.json", offset, what);
                    }
                }
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'t> Members<'_, 't, '_> {
    fn node(&mut self, parent: usize, name: String, offset: u64) -> Of<'static> {
        self.nodes.push(Node {
            parent,
            name,
            key: None,
            offset,
        });
        Of::Node(self.nodes.len() - 1)
    }

    /// Those of an object inside.
    fn members<'a>(&'a mut self, of: Of<'static>) -> Members<'a, 't, 'static> {
        Members {
            nodes: self.nodes,
            text: self.text,
            of,
        }
    }
}

/// Where in the tree a node is.
#[derive(Clone, Copy, Debug)]
enum Place {
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

impl Place {
    fn of(
        parent: Option<Place>,
        name: &str,
        threads: &mut Vec<u64>,
        thread_of: &mut HashMap<u64, u32>,
    ) -> Place {
        match (parent, name) {
            (None, _) => Place::Root,
            (Some(Place::Root), "Threads") => Place::Threads,
            (Some(Place::Root), "CPUs") => Place::Cpus,
            (Some(Place::Threads), id) => match id.parse() {
                Ok(id) => Place::Thread(*thread_of.entry(id).or_insert_with(|| {
                    threads.push(id);
                    threads.len() as u32 - 1
                })),
                Err(_) => Place::Other,
            },
            (Some(Place::Thread(thread)), "CallStack") => Place::Stack(thread),
            (Some(Place::Thread(thread)), "Current_cpu_rq") => Place::RunQueue(thread),
            (Some(Place::Stack(thread)), level) => match level.parse() {
                Ok(level) if level > 0 => Place::Level(thread, level),
                _ => Place::Other,
            },
            (Some(Place::Cpus), cpu) => cpu.parse().map_or(Place::Other, Place::Cpu),
            (Some(Place::Cpu(cpu)), "Current_thread") => Place::Current(cpu),
            (Some(_), _) => Place::Other,
        }
    }

    fn role(self) -> Role {
        match self {
            Place::Stack(thread) => Role::Depth(thread),
            Place::Level(thread, level) => Role::Level(thread, level),
            Place::Current(cpu) => Role::Cpu(cpu),
            Place::Thread(thread) => Role::Status(thread),
            Place::RunQueue(thread) => Role::RunQueue(thread),
            Place::Cpu(_) => Role::CpuStatus,
            _ => Role::Other,
        }
    }
}

/// Elements of one kind that are left out, reported together.
#[derive(Debug, Default)]
struct LeftOut {
    count: u64,
    first: u64,
}

impl LeftOut {
    fn add(&mut self, offset: u64) {
        if self.count == 0 {
            self.first = offset;
        }
        self.count += 1;
    }

    fn tell(&self, told: &mut Told, file: &str, what: &str) {
        if self.count > 0 {
            let what = format!("{} {what}, this one first; they are left out", self.count);
            told.add(file, self.first, &what);
        }
    }
}

/// Takes a list of objects. Each has a key below `most` and a value that `take` finds. They should be in
/// the order of the keys. Of two objects with one key, the one in its place counts.
fn by_key<T>(
    file: &str,
    bytes: &[u8],
    most: u32,
    told: &mut Told,
    take: impl Fn(&Value) -> Option<T>,
) -> (Vec<Option<T>>, Option<Bad>) {
    let mut values: Vec<Option<T>> = Vec::new();
    let (mut foreign, mut doubled) = (LeftOut::default(), LeftOut::default());
    let mut place = 0;
    let take = |offset, element: Value| {
        let nth = place;
        place += 1;
        let key = element.get("key").and_then(int::<u32>);
        let Some((key, value)) = key.filter(|&key| key < most).zip(take(&element)) else {
            foreign.add(offset);
            return;
        };
        let key = key as usize;
        if values.len() <= key {
            values.resize_with(key + 1, || None);
        }
        match &mut values[key] {
            Some(_) if nth != key => doubled.add(offset),
            Some(known) => {
                doubled.add(offset);
                *known = value;
            }
            none => *none = Some(value),
        }
    };
    let text = &*text_of_bytes(bytes);
    let damage = parse(text, each(text, "a list", take)).err();
    foreign.tell(
        told,
        file,
        "elements without a key that the history has, or without a value",
    );
    doubled.tell(told, file, "elements with the key of another");
    (values, damage)
}

/// Reads state.json: the values of the first `keys` keys.
pub(super) fn read_state(bytes: &[u8], keys: u32, told: &mut Told) -> Vec<Option<Value>> {
    let value = |element: &Value| element.get("value").cloned();
    let (values, damage) = by_key("state.json", bytes, keys, told, value);
    let missing = values
        .iter()
        .position(Option::is_none)
        .unwrap_or(values.len());
    if let Some(bad) = damage {
        let what = format!("{}; the rest is not read", bad.what);
        told.add("state.json", bad.offset, &what);
    } else if missing < keys as usize {
        told.add(
            "state.json",
            0,
            &format!("the value of key {missing} is missing"),
        );
    }
    values
}
