//! Trees of the calls inside the slow calls of one function, and inside its usual calls.

use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};

use fdr_formats::calls::EndedCall;
use fdr_formats::notes::{Form, Note, NoteKind, form_of, thread_state};
use fdr_formats::states::States;
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::arguments::{PathNotes, span_of};
use super::events::Events;
use super::overlaps::Stretch;
use super::slow_call::SlowCall;
use crate::off_cpu::OffCpu;
use crate::report::waits::Object;
use crate::stacks::Pass;

/// The most paths inside one call that have entries of their own.
const NODES: usize = 1 << 12;
/// Usual calls that slow ones are compared with, as to what other threads did.
pub(crate) const SAMPLE: usize = 64;
/// The place of a path without room.
const NO_ROOM: u32 = u32::MAX;

/// All calls on one path, from the function that is looked at inwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) function: FunctionId,
    pub(crate) calls: u64,
    /// Ticks.
    pub(crate) total: u64,
    /// The part of them outside of the calls inside.
    pub(crate) own: u64,
    /// Calls that left no records, which these calls made, and their ticks.
    pub(crate) short_calls: u64,
    pub(crate) short: u64,
    /// Of slow calls: the part of all the ticks in which the thread did not run, where its states are known.
    pub(crate) away: OffCpu,
    /// Of the first call: its arguments and its result.
    pub(crate) notes: PathNotes,
    /// The places of the paths that go on with one more call.
    pub(crate) inside: Vec<u32>,
}

/// A wait for a lock, a condition or a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) object: Object,
    /// Ticks.
    pub(crate) waited: u64,
    /// The thread that held the object, and the function that it was in. 0: not known.
    pub(crate) holder: u64,
    pub(crate) function: u32,
}

/// The paths of one call, or of several calls together. The function itself is at place 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    places: HashMap<(u32, FunctionId), u32>,
    /// The longest wait inside of the call.
    pub(crate) wait: Option<Wait>,
    /// A wait that has not ended, and its beginning.
    blocked: Option<(Wait, Ticks)>,
    /// Events inside of the call.
    pub(crate) events: Events,
}

impl Tree {
    fn new(function: FunctionId) -> Tree {
        let root = Node {
            function,
            ..Node::default()
        };
        Tree {
            nodes: vec![root],
            ..Tree::default()
        }
    }

    fn clear(&mut self) {
        self.nodes.truncate(1);
        let function = self.nodes[0].function;
        self.nodes[0] = Node {
            function,
            ..Node::default()
        };
        self.places.clear();
        self.wait = None;
        self.blocked = None;
        self.events = Events::default();
    }

    /// Takes a note of the innermost call, which is at that place.
    fn take_note(&mut self, place: u32, time: Ticks, kind: NoteKind, body: &[u8]) {
        let of = match kind {
            NoteKind::Event if form_of(body) == Some(Form::Begin) => {
                place_of_span(self, place, body)
            }
            NoteKind::Arguments => Some(place),
            _ => return self.events.take(time, kind, body),
        };
        let node = of.and_then(|place| self.nodes.get_mut(place as usize));
        if let Some(node) = node.filter(|node| node.calls == 0) {
            node.notes.take(time, kind, body);
        }
    }

    /// Takes fields that a span got outside of its calls. False: the span has no call here.
    fn take_late_fields(&mut self, note: &LateFields) -> bool {
        let mut nodes = self.nodes.iter_mut();
        let node = nodes.find(|node| node.notes.are_of_span(note.span));
        let is_here = node.is_some();
        if let Some(node) = node {
            node.notes.take(note.time, NoteKind::Event, &note.body);
        }
        is_here
    }

    fn wait(&mut self, wait: Wait) {
        if self.wait.is_none_or(|longest| longest.waited < wait.waited) {
            self.wait = Some(wait);
        }
    }

    /// The place of the path that is longer by a call of `function`.
    fn inside(&mut self, place: u32, function: FunctionId) -> u32 {
        if place == NO_ROOM {
            return NO_ROOM;
        }
        if let Some(known) = self.places.get(&(place, function)) {
            return *known;
        }
        if self.nodes.len() >= NODES {
            return NO_ROOM;
        }
        let new = self.nodes.len() as u32;
        self.places.insert((place, function), new);
        self.nodes[place as usize].inside.push(new);
        self.nodes.push(Node {
            function,
            ..Node::default()
        });
        new
    }

    /// The path at `place` with a call of `function`, if there is one.
    pub(crate) fn find(&self, place: u32, function: FunctionId) -> Option<u32> {
        self.places.get(&(place, function)).copied()
    }

    /// Adds the calls of another tree of the same function.
    fn add(&mut self, more: &Tree) {
        // A path stands behind the path that it continues.
        let mut places = vec![0; more.nodes.len()];
        for (at, node) in more.nodes.iter().enumerate() {
            let place = places[at];
            for &inside in &node.inside {
                places[inside as usize] = self.inside(place, more.nodes[inside as usize].function);
            }
            if let Some(sum) = self.nodes.get_mut(place as usize) {
                sum.calls += node.calls;
                sum.total = sum.total.saturating_add(node.total);
                sum.own = sum.own.saturating_add(node.own);
                sum.short_calls += node.short_calls;
                sum.short = sum.short.saturating_add(node.short);
            }
        }
    }
}

/// The place of the innermost open call of the span whose fields these are. A program may record fields of an outer
/// span while it is in an inner one.
fn place_of_span(tree: &Tree, innermost: u32, body: &[u8]) -> Option<u32> {
    let function = FunctionId(u32::from_le_bytes(*body.first_chunk()?));
    let mut place = innermost;
    while tree.nodes.get(place as usize)?.function != function {
        let around = tree
            .nodes
            .iter()
            .position(|node| node.inside.contains(&place));
        place = around? as u32;
    }
    Some(place)
}

/// Fields that a span got outside of its calls.
#[derive(Clone, Debug)]
struct LateFields {
    span: u64,
    time: Ticks,
    body: Vec<u8>,
}

/// Where an open call is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenPath {
    /// There is an open call. If there is none, the next call is an outermost one.
    is_call: bool,
    /// The path, inside of a call of the function.
    place: Option<u32>,
}

impl OpenPath {
    fn inside(place: Option<u32>) -> OpenPath {
        OpenPath {
            is_call: true,
            place,
        }
    }
}

/// Functions with outermost calls: a thread that made one, and whether others did, too.
type Outermost = HashMap<FunctionId, (ThreadId, bool)>;

fn note_outermost(outermost: &mut Outermost, function: FunctionId, thread: ThreadId) {
    let (first, has_others) = outermost.entry(function).or_insert((thread, false));
    *has_others |= *first != thread;
}

/// What the pass found.
#[derive(Debug)]
pub(crate) struct Trees {
    /// The slow calls that were found, each with its tree.
    pub(crate) slow: Vec<(SlowCall, Tree)>,
    /// All usual calls together, and how many they are.
    pub(crate) usual: Tree,
    pub(crate) usual_calls: u64,
    /// Some of the usual calls, by chance: thread, entry, exit.
    pub(crate) sample: Vec<(ThreadId, Ticks, Ticks)>,
    outermost: Outermost,
}

impl Trees {
    /// Functions that several threads call outermost, as the threads of a pool call its jobs.
    pub(crate) fn jobs(&self) -> HashSet<FunctionId> {
        let several = self.outermost.iter().filter(|(_, (_, others))| *others);
        several.map(|(function, _)| *function).collect()
    }
}

/// The pass.
pub(crate) struct TreePass<'a> {
    function: FunctionId,
    /// The slow calls, also those of other functions.
    slow: &'a HashMap<Stretch, SlowCall>,
    /// A call of at most this many ticks is usual.
    usual: u64,
    states: Option<&'a States>,
    thread: ThreadId,
    /// The call of each thread that is open.
    open: HashMap<ThreadId, Tree>,
    trees: Trees,
    /// Of spans of the function.
    late: Vec<LateFields>,
    /// The calls of `trees.sample`, with the largest hash on top.
    sample: BinaryHeap<(u64, ThreadId, Ticks, Ticks)>,
}

impl<'a> TreePass<'a> {
    pub(crate) fn new(
        function: FunctionId,
        slow: &'a HashMap<Stretch, SlowCall>,
        usual: u64,
    ) -> TreePass<'a> {
        TreePass {
            function,
            slow,
            usual,
            states: None,
            thread: ThreadId::default(),
            open: HashMap::new(),
            trees: Trees {
                slow: Vec::new(),
                usual: Tree::new(function),
                usual_calls: 0,
                sample: Vec::new(),
                outermost: HashMap::new(),
            },
            late: Vec::new(),
            sample: BinaryHeap::new(),
        }
    }

    /// One for a trace that may know its threads' states.
    pub(crate) fn with_states(self, states: Option<&'a States>) -> TreePass<'a> {
        TreePass { states, ..self }
    }

    /// The time of a call in which the thread did not run. `None`: the call is not inside a slow call, or the trace has
    /// no states.
    fn away(&self, start: Ticks, end: Ticks) -> Option<OffCpu> {
        let states = self.states?;
        let is_around =
            |slow: &Stretch| slow.thread == self.thread && slow.start <= start && end <= slow.end;
        let is_inside = self.slow.keys().any(is_around);
        is_inside.then(|| states.in_stretch(self.thread, start, end).into())
    }

    /// What all workers found together.
    pub(crate) fn gather(function: FunctionId, workers: Vec<TreePass<'_>>) -> Trees {
        let none = HashMap::new();
        let mut all = TreePass::new(function, &none, 0);
        let mut late = Vec::new();
        for worker in workers {
            late.extend(worker.late);
            all.trees.slow.extend(worker.trees.slow);
            all.trees.usual.add(&worker.trees.usual);
            all.trees.usual_calls += worker.trees.usual_calls;
            for (function, (thread, has_others)) in worker.trees.outermost {
                note_outermost(&mut all.trees.outermost, function, thread);
                if let Some((_, others)) = all.trees.outermost.get_mut(&function) {
                    *others |= has_others;
                }
            }
            for (hash, thread, start, end) in worker.sample {
                all.choose(hash, thread, start, end);
            }
        }
        let mut trees = all.trees;
        late.sort_by_key(|fields| fields.time);
        for fields in &late {
            let mut slow = trees.slow.iter_mut();
            let _ = slow.any(|(_, tree)| tree.take_late_fields(fields));
        }
        let sample = all.sample.into_sorted_vec();
        trees.sample = sample
            .into_iter()
            .map(|(_, thread, start, end)| (thread, start, end))
            .collect();
        trees
    }

    /// Keeps a call in the sample if its hash is among the smallest ones. So the sample does not depend on the number
    /// of cores.
    fn choose(&mut self, hash: u64, thread: ThreadId, start: Ticks, end: Ticks) {
        self.sample.push((hash, thread, start, end));
        if self.sample.len() > SAMPLE {
            self.sample.pop();
        }
    }
}

/// The same at each run, and on any number of cores.
fn hash(thread: ThreadId, start: Ticks) -> u64 {
    let mut hasher = DefaultHasher::new();
    (thread, start).hash(&mut hasher);
    hasher.finish()
}

impl Pass for TreePass<'_> {
    type Data = OpenPath;

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn entered(&mut self, function: FunctionId, caller: OpenPath) -> OpenPath {
        if !caller.is_call {
            note_outermost(&mut self.trees.outermost, function, self.thread);
        }
        let Some(place) = caller.place else {
            if function != self.function {
                return OpenPath::inside(None);
            }
            let tree = self.open.entry(self.thread);
            tree.or_insert_with(|| Tree::new(function)).clear();
            return OpenPath::inside(Some(0));
        };
        let tree = self.open.get_mut(&self.thread);
        let place = tree.map_or(NO_ROOM, |tree| tree.inside(place, function));
        OpenPath::inside(Some(place))
    }

    fn ended(&mut self, ended: &EndedCall<OpenPath>, _: bool) {
        let Some(place) = ended.call.data.place else {
            return;
        };
        let away = self.away(ended.call.start, ended.end).unwrap_or_default();
        let Some(tree) = self.open.get_mut(&self.thread) else {
            return;
        };
        if let Some(node) = tree.nodes.get_mut(place as usize) {
            node.away.add(&away);
            node.calls += 1;
            node.total = node.total.saturating_add(ended.total());
            node.own = node.own.saturating_add(ended.own());
        }
        if place != 0 {
            return;
        }
        let (thread, start, end) = (self.thread, ended.call.start, ended.end);
        if let Some((wait, begin)) = tree.blocked.take() {
            let waited = end.since(begin).0;
            tree.wait(Wait { waited, ..wait });
        }
        let slow = self.slow.get(&Stretch { thread, start, end });
        if let Some(slow) = slow.filter(|slow| slow.function == self.function) {
            self.trees.slow.push((*slow, tree.clone()));
        } else if !ended.clipped && ended.total() <= self.usual {
            self.trees.usual.add(tree);
            self.trees.usual_calls += 1;
            self.choose(hash(thread, start), thread, start, end);
        }
    }

    fn note(&mut self, caller: OpenPath, time: Ticks, kind: NoteKind, body: &[u8]) {
        if let Some(span) = span_of(kind, body).filter(|_| form_of(body) == Some(Form::End)) {
            let body = body.to_vec();
            let fields = LateFields { span, time, body };
            let inside = self
                .open
                .get_mut(&self.thread)
                .filter(|_| caller.place.is_some());
            let is_inside = inside.is_some_and(|tree| tree.take_late_fields(&fields));
            let name = self.function.0.to_le_bytes();
            if !is_inside && fields.body.starts_with(&name) {
                self.late.push(fields);
            }
            return;
        }
        let (Some(place), Some(tree)) = (caller.place, self.open.get_mut(&self.thread)) else {
            return;
        };
        let Some(Note::ThreadState {
            object,
            holder,
            name,
            state,
            reason,
            function,
            waited,
        }) = Note::decode(kind, body)
        else {
            return tree.take_note(place, time, kind, body);
        };
        let wait = Wait {
            object: Object::new(reason, name, object),
            waited,
            holder,
            function,
        };
        if state == thread_state::BLOCKED {
            tree.blocked = Some((wait, Ticks(time.0.saturating_sub(waited))));
        } else if state == thread_state::RUNNING && reason != 0 {
            tree.blocked = None;
            tree.wait(wait);
        }
    }

    fn short_calls(&mut self, caller: OpenPath, _: Ticks, calls: u64, ticks: u64) {
        let (Some(place), Some(tree)) = (caller.place, self.open.get_mut(&self.thread)) else {
            return;
        };
        if let Some(node) = tree.nodes.get_mut(place as usize) {
            node.short_calls += calls;
            node.short = node.short.saturating_add(ticks);
        }
    }
}
