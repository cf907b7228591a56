//! The state of a trace at a time. A state history is looked up. The state of any other trace is made from its events.
//! Both give the same attributes, in a different order. Memory is the call stacks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::index::Index;
use super::names;
use super::record;
use super::scan::Scanner;
use super::schedule::{Since, StatesAt};
use super::strings::label;
use super::thread_encoder::{Number, Op, StateLosses, ThreadEncoder};
use crate::bytes::FileBytes;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Clock, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::Sink;
use crate::snapshot_json;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(String),
}

/// An attribute and its value at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The names from the root to it.
    pub path: Vec<String>,
    /// The time since when it has the value, in ns; `None` if unknown.
    pub since: Option<i64>,
    /// The value.
    pub value: Value,
}

/// The state at a time. A parent comes before its children; the root is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The time, in ns of the trace's clock.
    pub time: i64,
    /// All attributes that the trace ever has.
    pub attributes: Vec<Attribute>,
}

impl State {
    /// Writes Trace Compass's own snapshot, for an analysis of that name and version. The snapshot
    /// states values only since its own time.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_snapshot(
        &self,
        out: &mut dyn std::io::Write,
        ssid: &str,
        version: u32,
    ) -> std::io::Result<()> {
        let time = self.time;
        let head = snapshot_json::Head {
            ssid,
            version,
            time,
        };
        let attributes = self.attributes.iter().map(|attribute| {
            let value = match &attribute.value {
                Value::Null => snapshot_json::Value::Null,
                Value::Int(value) => snapshot_json::Value::Int(*value),
                Value::Double(value) => snapshot_json::Value::Double(*value),
                // It has no type for them.
                Value::Bool(value) => snapshot_json::Value::Int((*value).into()),
                Value::Text(value) => snapshot_json::Value::Text(value),
            };
            snapshot_json::Attribute {
                path: &attribute.path,
                start: time,
                value,
            }
        });
        snapshot_json::write(out, &head, attributes)
    }
}

/// Looks a state up. The attributes come in the order of their keys.
pub(super) fn of_history(
    bytes: &FileBytes,
    index: &Index,
    mut intervals: Scanner<'_>,
    time: i64,
) -> Result<State, Error> {
    let mut found: Vec<Option<(i64, record::Value)>> = vec![None; index.tree.keys() as usize];
    let mut texts: HashMap<u32, String> = HashMap::new();
    while let Some(piece) = intervals.next()? {
        let Some(interval) = piece.interval else {
            continue;
        };
        if interval.start <= time && time <= interval.end {
            found[interval.key as usize] = Some((interval.start, interval.value));
            if let record::Value::Text(number) = interval.value {
                texts.insert(number, String::new());
            }
        }
    }
    names::each(bytes, index.strings, &mut |string| {
        if let Some(text) = texts.get_mut(&string.number) {
            string.text.clone_into(text);
        }
        true
    })?;
    let value = |value: record::Value| match value {
        record::Value::Text(number) => Value::Text(texts.get(&number).cloned().unwrap_or_default()),
        value => plain(value),
    };
    let attributes = found.into_iter().enumerate().skip(1);
    let attributes = attributes.map(|(key, found)| Attribute {
        path: index.tree.path(key as u32),
        since: found.map(|(since, _)| since),
        value: found.map_or(Value::Null, |(_, found)| value(found)),
    });
    Ok(State {
        time,
        attributes: attributes.collect(),
    })
}

/// A level of a call stack: the open function, and the time since when. `None`: since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    since: Option<i64>,
    function: Option<FunctionId>,
}

/// A time, and the turn in which it came.
type Moment = (i64, u64);
/// By CPU: the thread last seen there, and the time.
type Cpus = BTreeMap<u32, Option<(Moment, ThreadId)>>;

#[derive(Debug, Default)]
struct ThreadAttributes {
    id: ThreadId,
    encoder: ThreadEncoder,
    /// It has attributes.
    has_attributes: bool,
    /// Depth of the stack at the time, and the time since when.
    depth: usize,
    since: Option<i64>,
    /// Depth after all events so far.
    reached: usize,
    levels: Vec<Level>,
    /// Its counters: the time since when each has its value, and the value. `None`: not yet at that time.
    counters: Vec<(FunctionId, Option<(i64, Number)>)>,
    counter_of: HashMap<FunctionId, usize>,
    cpu: Option<u32>,
    /// Its last event until the time.
    last: Option<Moment>,
}

/// A sink that finds the state at a time.
#[derive(Debug)]
pub struct StateAtTime {
    time: i64,
    scale: Scale,
    threads: Vec<ThreadAttributes>,
    thread_of: HashMap<ThreadId, usize>,
    now: usize,
    turn: u64,
    cpus: Cpus,
    state_losses: StateLosses,
}

impl StateAtTime {
    /// For a time in ns of the trace's clock.
    #[must_use]
    pub fn new(time: i64, info: &TraceInfo) -> StateAtTime {
        StateAtTime {
            time,
            scale: Scale::new(info.clock.frequency),
            threads: Vec::new(),
            thread_of: HashMap::new(),
            now: 0,
            turn: 0,
            cpus: BTreeMap::new(),
            state_losses: StateLosses::default(),
        }
    }

    /// The state, after all events. `info` has the names of the functions.
    #[must_use]
    pub fn finish(mut self, info: &TraceInfo) -> State {
        let moment = StatesAt::new(info, self.time);
        let mut list = AttributeList {
            start: self.start(info, &moment),
            attributes: Vec::new(),
        };
        for known in &mut self.threads {
            note(&mut self.cpus, known);
        }
        self.list_threads(info, &moment, &mut list);
        self.list_cpus(&moment, &mut list);
        State {
            time: self.time,
            attributes: list.attributes,
        }
    }

    /// The time at which the history begins.
    fn start(&self, info: &TraceInfo, moment: &StatesAt) -> Option<i64> {
        let begin = info.start.map(|start| nanos(&info.clock, start));
        let first = self
            .threads
            .iter()
            .filter_map(|known| Some(known.encoder.first? - i64::from(known.encoder.before > 0)));
        let threads = self.threads.iter();
        let counted = threads.filter_map(|known| Some(known.encoder.counted?.0));
        first.chain(counted).chain(begin).chain(moment.first).min()
    }

    /// The threads with calls or counters, then those of which only states are known.
    fn list_threads(&self, info: &TraceInfo, moment: &StatesAt, list: &mut AttributeList) {
        let with_attributes = || self.threads.iter().filter(|known| known.has_attributes);
        if with_attributes().next().is_some() || !moment.threads.is_empty() {
            list.push(&["Threads"], None, Value::Null);
        }
        for known in with_attributes() {
            list.push_thread(info, known, moment.threads.get(&known.id));
        }
        let with_calls: HashSet<ThreadId> = with_attributes().map(|known| known.id).collect();
        let others = moment.threads.iter();
        for (id, [own, cpu]) in others.filter(|(id, _)| !with_calls.contains(id)) {
            let id = id.to_string();
            list.push(&["Threads", &id], own.0, plain(own.1));
            let path = ["Threads", &id, "Current_cpu_rq"];
            list.push(&path, cpu.0, plain(cpu.1));
        }
    }

    fn list_cpus(&self, moment: &StatesAt, list: &mut AttributeList) {
        let known = self.cpus.keys().chain(moment.cpus.keys());
        let cpus: BTreeSet<u32> = known.copied().collect();
        if !cpus.is_empty() {
            list.push(&["CPUs"], None, Value::Null);
        }
        for number in cpus {
            let cpu = number.to_string();
            let status = moment.cpus.get(&number).copied();
            let (since, status) = status.unwrap_or((None, record::Value::Null));
            list.push(&["CPUs", &cpu], since, plain(status));
            let Some(last) = self.cpus.get(&number) else {
                continue;
            };
            let path = ["CPUs", &cpu, "Current_thread"];
            match last {
                // The CPU's previous thread is forgotten.
                Some((_, thread)) => {
                    list.push_since(&path, None, Value::Int(thread.0 as i64));
                }
                None => list.push(&path, None, Value::Null),
            }
        }
    }
}

/// Attributes in the order of their keys.
struct AttributeList {
    /// The time since when an attribute without a time of its own has its value.
    start: Option<i64>,
    attributes: Vec<Attribute>,
}

impl AttributeList {
    fn push(&mut self, path: &[&str], since: Option<i64>, value: Value) {
        self.push_since(path, since.or(self.start), value);
    }

    fn push_since(&mut self, path: &[&str], since: Option<i64>, value: Value) {
        let path = path.iter().map(|&name| name.to_owned()).collect();
        self.attributes.push(Attribute { path, since, value });
    }

    /// A thread with calls or counters, and with its states if they are known.
    fn push_thread(
        &mut self,
        info: &TraceInfo,
        known: &ThreadAttributes,
        states: Option<&[Since; 2]>,
    ) {
        let id = known.id.to_string();
        let (since, status) = states.map_or((None, record::Value::Null), |[own, _]| *own);
        self.push(&["Threads", &id], since, plain(status));
        if let Some([_, (since, cpu)]) = states {
            let path = ["Threads", &id, "Current_cpu_rq"];
            self.push(&path, *since, plain(*cpu));
        }
        let depth = match known.depth {
            0 => Value::Null,
            depth => Value::Int(depth as i64),
        };
        self.push(&["Threads", &id, "CallStack"], known.since, depth);
        for (level, frame) in (1_u64..).zip(&known.levels) {
            let value = match frame.function {
                Some(id) => Value::Text(match info.function(id) {
                    Some(function) => label(function),
                    None => id.to_string(),
                }),
                None => Value::Null,
            };
            let path = ["Threads", &id, "CallStack", &level.to_string()];
            self.push(&path, frame.since, value);
        }
        if !known.counters.is_empty() {
            self.push(&["Threads", &id, "Counters"], None, Value::Null);
        }
        for (name, (since, value)) in known.counters(info) {
            let path = ["Threads", &id, "Counters", &name];
            self.push(&path, since, value);
        }
    }
}

/// A thread was last seen on its CPU.
fn note(cpus: &mut Cpus, known: &mut ThreadAttributes) {
    let Some(cpu) = known.cpu else { return };
    let last = cpus.entry(cpu).or_default();
    let when = known.last.take();
    if let Some(when) = when.filter(|&when| last.is_none_or(|(other, _)| other <= when)) {
        *last = Some((when, known.id));
    }
}

impl ThreadAttributes {
    /// A push or a pop. After `until`, it only shows that the level exists.
    #[inline]
    fn change(&mut self, op: Op, time: i64, until: i64) {
        let (level, function) = match op {
            Op::Push(function) => {
                self.reached += 1;
                (self.reached - 1, Some(function))
            }
            Op::Pop => {
                self.reached = self.reached.saturating_sub(1);
                (self.reached, None)
            }
            Op::Seen | Op::Cpu(_) | Op::Counter(..) => return,
        };
        if self.levels.len() <= level {
            self.levels.resize(level + 1, Level::default());
        }
        if time <= until {
            let since = Some(time);
            (self.depth, self.since) = (self.reached, since);
            self.levels[level] = Level { since, function };
        }
    }
}

impl ThreadAttributes {
    fn counter(&mut self, name: FunctionId, number: Number, time: i64, until: i64) {
        let next = self.counters.len();
        let at = *self.counter_of.entry(name).or_insert(next);
        if at == next {
            self.counters.push((name, None));
        }
        let last = &mut self.counters[at].1;
        // Not a number is no value that it had.
        let is_same = last.is_some_and(|(_, value)| value == number) && !is_nan(number);
        if time <= until && !is_same {
            *last = Some((time, number));
        }
    }

    /// The counters by name. Of several with one name, the one that changed last has the value.
    fn counters(&self, info: &TraceInfo) -> Vec<(String, (Option<i64>, Value))> {
        let mut named: Vec<(String, (Option<i64>, Value))> = Vec::new();
        let mut place_of = HashMap::new();
        for (id, last) in &self.counters {
            let name = match info.function(*id) {
                Some(function) => label(function),
                None => id.to_string(),
            };
            let value = match last {
                None => (None, Value::Null),
                Some((since, number)) => (Some(*since), plain(number.value())),
            };
            let next = named.len();
            match named.get_mut(*place_of.entry(name.clone()).or_insert(next)) {
                Some((_, known)) if known.0 <= value.0 => *known = value,
                Some(_) => {}
                None => named.push((name, value)),
            }
        }
        named
    }
}

fn is_nan(number: Number) -> bool {
    matches!(number.value(), record::Value::Double(number) if number.is_nan())
}

/// A value that is no text.
fn plain(value: record::Value) -> Value {
    match value {
        record::Value::Null | record::Value::Text(_) => Value::Null,
        record::Value::Int(value) => Value::Int(value),
        record::Value::Double(value) => Value::Double(value),
        record::Value::Bool(value) => Value::Bool(value),
    }
}

impl Sink for StateAtTime {
    fn thread(&mut self, thread: &Thread) {
        let next = self.threads.len();
        self.now = *self.thread_of.entry(thread.id).or_insert(next);
        self.turn += 1;
        if self.now == next {
            self.threads.push(ThreadAttributes {
                id: thread.id,
                ..ThreadAttributes::default()
            });
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        let (cpus, until, turn) = (&mut self.cpus, self.time, self.turn);
        let mut lane = std::mem::take(&mut known.encoder);
        for call in calls {
            lane.call(
                call,
                &mut self.scale,
                &mut self.state_losses,
                &mut |time, op| {
                    if let Op::Cpu(cpu) = op {
                        note(cpus, known);
                        cpus.entry(cpu).or_default();
                        (known.cpu, known.last) = (Some(cpu), None);
                        return;
                    }
                    known.has_attributes = true;
                    known.change(op, time, until);
                    if time <= until {
                        known.last = Some((time, turn));
                    }
                },
            );
        }
        known.encoder = lane;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(known) = self.threads.get_mut(self.now) else {
            return;
        };
        match *mark {
            Mark::Cpu { cpu, .. } => known.encoder.cpu(cpu, &mut self.state_losses),
            Mark::Note { time, kind, body } => {
                let note = (time, kind, body);
                let counter = known
                    .encoder
                    .note(note, &mut self.scale, &mut self.state_losses);
                if let Some((time, name, number)) = counter {
                    known.has_attributes = true;
                    known.counter(name, number, time, self.time);
                }
            }
            _ => {}
        }
    }

    fn diagnostic(&mut self, _diagnostic: Diagnostic) {}
}

fn nanos(clock: &Clock, ticks: Ticks) -> i64 {
    i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX)
}
