//! The state system: attributes in a tree, each with a timeline of values. It takes changes in order of time. Each
//! change ends an interval, which the state system gives out, as that of Trace Compass does.
//!
//! Its rules:
//! - Keys are dense, in the order of creation. The root is 0. A new attribute is null since the start of
//!   the history.
//! - A change to the value that an attribute has already is no change.
//! - A change ends the previous interval at the ns before. Of several changes in one ns, the last counts.
//!   The interval begins there even if its value is that of the previous interval.
//! - Intervals come sorted by (end, start, key).
//!
//! The attributes of a program: `Threads/<tid>/CallStack` is the depth (null if nothing is open).
//! `Threads/<tid>/CallStack/<n>` is the function that is open at depth n. `Threads/<tid>/Counters/<name>` is the last
//! value of a counter. `CPUs/<n>/Current_thread` is the thread that was last seen on the CPU. `schedule` has the
//! attributes of a program whose context switches are known.

use std::collections::{HashMap, HashSet};

use super::record::{Interval, Kind, Value, push_interval};
use super::strings::{Strings, label};
use super::thread_encoder::{Number, Op};
use crate::model::{FunctionId, ThreadId, TraceInfo};

/// The name of an attribute. A trace's attributes have no other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Word(&'static str),
    Number(u64),
    /// The name of the counter with that number.
    Counter(u32),
}

/// An attribute: its place in the tree, and its open interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) parent: u32,
    pub(super) name: Name,
    pub(super) kind: Kind,
    pub(super) since: i64,
    pub(super) value: Value,
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Nothing: the value is the same.
    Same,
    /// It ended an interval.
    Ended,
    /// The open interval replaced a change in the same ns.
    Replaced,
}

/// The state system.
#[derive(Debug)]
pub(super) struct Engine {
    start: i64,
    now: i64,
    attributes: Vec<Attribute>,
    /// Intervals that end in the ns before `now`.
    ended: Vec<Interval>,
    /// Encoded intervals; the caller takes them.
    pub(super) bytes: Vec<u8>,
    /// How many there have been.
    pub(super) intervals: u64,
}

impl Engine {
    /// A state system with a root, whose history begins at `start`.
    pub(super) fn new(start: i64) -> Engine {
        let mut engine = Engine {
            start,
            now: start,
            attributes: Vec::new(),
            ended: Vec::new(),
            bytes: Vec::new(),
            intervals: 0,
        };
        engine.create(0, Name::Word(""), Kind::None);
        engine
    }

    /// All attributes; the place of each is its key.
    pub(super) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// A new attribute; returns its key.
    pub(super) fn create(&mut self, parent: u32, name: Name, kind: Kind) -> u32 {
        let key = self.attributes.len() as u32;
        self.attributes.push(Attribute {
            parent,
            name,
            kind,
            since: self.start,
            value: Value::Null,
        });
        key
    }

    /// The next changes happen at `time`, which is not before an earlier one.
    #[inline]
    pub(super) fn advance(&mut self, time: i64) {
        if time > self.now {
            self.write_ended();
            self.now = time;
        }
    }

    #[inline]
    fn write_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        if ended.len() > 1 {
            // The ends are the same.
            ended.sort_unstable_by_key(|interval| (interval.start, interval.key));
        }
        for interval in ended.drain(..) {
            let attribute = self.attributes.get(interval.key as usize);
            let any = attribute.is_some_and(|attribute| attribute.kind == Kind::Any);
            push_interval(&mut self.bytes, &interval, any);
            self.intervals += 1;
        }
        self.ended = ended;
    }

    /// An attribute has this value now.
    #[inline]
    pub(super) fn set(&mut self, key: u32, value: Value) -> Change {
        let Some(attribute) = self.attributes.get_mut(key as usize) else {
            return Change::Same;
        };
        if attribute.value == value {
            return Change::Same;
        }
        let change = if attribute.since < self.now {
            self.ended.push(Interval {
                start: attribute.since,
                end: self.now - 1,
                key,
                value: attribute.value,
            });
            attribute.since = self.now;
            Change::Ended
        } else {
            Change::Replaced
        };
        attribute.value = value;
        change
    }

    /// Ends the history at `end`, not before the last change.
    pub(super) fn finish(&mut self, end: i64) {
        self.write_ended();
        for (key, attribute) in self.attributes.iter().enumerate() {
            self.ended.push(Interval {
                start: attribute.since,
                end,
                key: key as u32,
                value: attribute.value,
            });
        }
        self.write_ended();
    }
}

/// A thread that has attributes.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    /// Its states are known: its own value is its status.
    pub(super) has_status: bool,
    /// Its key (0: none yet).
    pub(super) own: u32,
    /// Key of `Current_cpu_rq` (0: none yet).
    pub(super) run_queue: u32,
    /// The place of the CPU on which it runs, by its states.
    pub(super) runs_on: Option<usize>,
    /// Keys of `CallStack` (0: none yet) and of its levels, from 1.
    stack: u32,
    levels: Vec<u32>,
    /// Key of `Counters` (0: none yet), and of its children by the numbers of their names.
    counters: u32,
    counter_of: HashMap<u32, u32>,
    depth: usize,
    cpu: Option<u32>,
    /// The place of the CPU in the list of CPUs, once it was looked up.
    place: Option<usize>,
    /// Whether its next change is the first one on this CPU, and the time of its previous move to a CPU.
    moved: bool,
    moved_at: Option<i64>,
}

/// A CPU that has attributes.
#[derive(Debug)]
pub(super) struct Cpu {
    /// Its key.
    pub(super) own: u32,
    /// The threads that run there, by their states.
    pub(super) running: u32,
    /// Key of `Current_thread` (0: none yet).
    current: u32,
    /// Whether the value means that a thread came to this CPU.
    arrival: bool,
}

/// The state system of a program.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) engine: Engine,
    pub(super) threads: Vec<Thread>,
    pub(super) threads_key: u32,
    pub(super) cpus: Vec<Cpu>,
    cpu_of: HashMap<u32, usize>,
    cpus_key: u32,
    pub(super) strings: Strings,
    /// The names of counters.
    counters: Vec<String>,
    counter_of: HashMap<String, u32>,
    /// The CPUs with a status of their own, which states whether a thread runs there.
    status_cpus: HashSet<u32>,
    /// Changes of CPU that the state does not have, or has too late.
    pub(super) lost_cpu_changes: u64,
}

impl Builder {
    /// A state whose history begins at `start`. Each thread comes with whether its states are known. `status_cpus` are
    /// the CPUs on which threads with known states run at some time.
    pub(super) fn new(
        start: i64,
        threads: impl Iterator<Item = (ThreadId, bool)>,
        status_cpus: HashSet<u32>,
    ) -> Builder {
        let thread = |(id, has_status)| Thread {
            id,
            has_status,
            ..Thread::default()
        };
        Builder {
            engine: Engine::new(start),
            threads: threads.map(thread).collect(),
            threads_key: 0,
            cpus: Vec::new(),
            cpu_of: HashMap::new(),
            cpus_key: 0,
            strings: Strings::default(),
            counters: Vec::new(),
            counter_of: HashMap::new(),
            status_cpus,
            lost_cpu_changes: 0,
        }
    }

    /// The key of a CPU that has one.
    pub(super) fn cpu_key(&self, number: u32) -> Option<u32> {
        let place = self.cpu_of.get(&number)?;
        Some(self.cpus[*place].own)
    }

    /// The name of a counter.
    pub(super) fn counter_name(&self, number: u32) -> &str {
        self.counters.get(number as usize).map_or("", |name| name)
    }

    /// A change of a thread, not before an earlier one.
    #[inline]
    pub(super) fn change(&mut self, thread: usize, time: i64, op: Op, info: &TraceInfo) {
        self.engine.advance(time);
        let engine = &mut self.engine;
        match op {
            Op::Cpu(cpu) => {
                let thread = &mut self.threads[thread];
                (thread.cpu, thread.moved) = (Some(cpu), true);
                thread.place = None;
                return;
            }
            // This does not tell where the counter's thread runs.
            Op::Counter(name, number) => return self.counter(thread, name, number, info),
            Op::Seen => {
                let thread = &mut self.threads[thread];
                if thread.stack == 0 {
                    begin(thread, engine, &mut self.threads_key);
                }
            }
            Op::Push(function) => {
                let string = self.strings.number_of_function(function, info);
                let thread = &mut self.threads[thread];
                thread.depth += 1;
                if thread.levels.len() < thread.depth {
                    grow(thread, engine, &mut self.threads_key);
                }
                engine.set(thread.stack, Value::Int(thread.depth as i64));
                engine.set(thread.levels[thread.depth - 1], Value::Text(string));
            }
            Op::Pop => {
                let thread = &mut self.threads[thread];
                let Some(&level) = thread.levels.get(thread.depth.wrapping_sub(1)) else {
                    return;
                };
                thread.depth -= 1;
                let depth = match thread.depth {
                    0 => Value::Null,
                    depth => Value::Int(depth as i64),
                };
                engine.set(level, Value::Null);
                engine.set(thread.stack, depth);
            }
        }
        self.set_current_thread(thread, time);
    }

    /// Sets the value of a counter.
    #[cold]
    fn counter(&mut self, thread: usize, name: FunctionId, number: Number, info: &TraceInfo) {
        let name = info.function(name).map_or_else(|| name.to_string(), label);
        let next = self.counters.len() as u32;
        let number_of_name = *self.counter_of.entry(name.clone()).or_insert(next);
        if number_of_name == next {
            self.counters.push(name);
        }
        let thread = &mut self.threads[thread];
        if thread.stack == 0 {
            begin(thread, &mut self.engine, &mut self.threads_key);
        }
        if thread.counters == 0 {
            let word = Name::Word("Counters");
            thread.counters = self.engine.create(thread.own, word, Kind::None);
        }
        let (engine, parent) = (&mut self.engine, thread.counters);
        let key = *thread.counter_of.entry(number_of_name).or_insert_with(|| {
            let name = Name::Counter(number_of_name);
            engine.create(parent, name, Kind::Any)
        });
        engine.set(key, number.value());
    }

    /// A CPU's place in the list.
    pub(super) fn cpu(&mut self, number: u32) -> usize {
        let Builder {
            engine,
            cpus,
            cpus_key,
            status_cpus,
            ..
        } = self;
        *self.cpu_of.entry(number).or_insert_with(|| {
            if *cpus_key == 0 {
                *cpus_key = engine.create(0, Name::Word("CPUs"), Kind::None);
            }
            let name = Name::Number(number.into());
            cpus.push(Cpu {
                own: engine.create(*cpus_key, name, kind(status_cpus.contains(&number))),
                running: 0,
                current: 0,
                arrival: false,
            });
            cpus.len() - 1
        })
    }

    /// The place of a CPU that has a current thread.
    #[cold]
    fn current(&mut self, number: u32) -> usize {
        let place = self.cpu(number);
        let cpu = &mut self.cpus[place];
        if cpu.current == 0 {
            let word = Name::Word("Current_thread");
            cpu.current = self.engine.create(cpu.own, word, Kind::Int);
        }
        place
    }

    /// The thread runs on its CPU now.
    #[inline]
    fn set_current_thread(&mut self, thread: usize, time: i64) {
        let known = &self.threads[thread];
        let place = match (known.place, known.cpu) {
            (Some(place), _) => place,
            (None, Some(cpu)) => self.current(cpu),
            (None, None) => return,
        };
        let thread = &mut self.threads[thread];
        thread.place = Some(place);
        let cpu = &mut self.cpus[place];
        // A number above 2^63 becomes a negative one, and comes back unchanged.
        let change = self.engine.set(cpu.current, Value::Int(thread.id.0 as i64));
        if change == Change::Replaced && cpu.arrival {
            // The arrival of another thread in the same ns is lost.
            self.lost_cpu_changes += 1;
        }
        if change != Change::Same {
            cpu.arrival = thread.moved;
        }
        if std::mem::take(&mut thread.moved) {
            let twice = thread.moved_at.replace(time) == Some(time);
            self.lost_cpu_changes += u64::from(change == Change::Same || twice);
        }
    }
}

/// Makes sure that a thread has a key.
pub(super) fn own(thread: &mut Thread, engine: &mut Engine, threads: &mut u32) {
    if *threads == 0 {
        *threads = engine.create(0, Name::Word("Threads"), Kind::None);
    }
    if thread.own == 0 {
        let (name, kind) = (Name::Number(thread.id.0), kind(thread.has_status));
        thread.own = engine.create(*threads, name, kind);
    }
}

/// The type of the own value of a thread or a CPU.
fn kind(has_status: bool) -> Kind {
    match has_status {
        true => Kind::Int,
        false => Kind::None,
    }
}

/// One more level of a thread's call stack.
#[cold]
fn grow(thread: &mut Thread, engine: &mut Engine, threads: &mut u32) {
    if thread.stack == 0 {
        begin(thread, engine, threads);
    }
    let name = Name::Number(thread.levels.len() as u64 + 1);
    thread
        .levels
        .push(engine.create(thread.stack, name, Kind::Text));
}

/// The attributes of a thread that is seen for the first time.
#[cold]
fn begin(thread: &mut Thread, engine: &mut Engine, threads: &mut u32) {
    own(thread, engine, threads);
    thread.stack = engine.create(thread.own, Name::Word("CallStack"), Kind::Int);
}

#[cfg(test)]
mod tests {
    use super::super::record::decode_interval;
    use super::*;

    #[test]
    fn changes_become_intervals() {
        let mut engine = Engine::new(10);
        let a = engine.create(0, Name::Word("a"), Kind::Int);
        assert_eq!(
            engine.set(a, Value::Int(1)),
            Change::Replaced,
            "null since the start"
        );
        engine.advance(12);
        let b = engine.create(0, Name::Number(7), Kind::Int);
        assert_eq!(engine.set(b, Value::Int(5)), Change::Ended);
        assert_eq!(engine.set(a, Value::Int(1)), Change::Same);
        assert_eq!(engine.set(a, Value::Null), Change::Ended);
        assert_eq!(engine.set(a, Value::Int(1)), Change::Replaced);
        engine.advance(15);
        assert_eq!(engine.set(b, Value::Null), Change::Ended);
        engine.finish(20);
        let kinds: Vec<Kind> = engine.attributes().iter().map(|one| one.kind).collect();
        let (mut found, mut rest) = (Vec::new(), &engine.bytes[..]);
        while !rest.is_empty() {
            let (interval, size) = decode_interval(rest, &kinds).expect("an interval");
            found.push((interval.start, interval.end, interval.key, interval.value));
            rest = &rest[size..];
        }
        let wanted = [
            (10, 11, 1, Value::Int(1)),
            (10, 11, 2, Value::Null),
            (12, 14, 2, Value::Int(5)),
            (10, 20, 0, Value::Null),
            // The same value in another interval, because there was a change in between.
            (12, 20, 1, Value::Int(1)),
            (15, 20, 2, Value::Null),
        ];
        assert_eq!(found, wanted);
    }
}
