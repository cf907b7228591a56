//! The numbers that the reader gives to functions and threads.
//!
//! A function is found by its description and its number in the file. The neutral model has each function
//! id once.
//!
//! A thread is a pair of stream and substream, because the substreams of one stream overlap in time.
//! Substream 0 has the stream's number as its thread id. Any other substream has an id with bit 63 set. The
//! lower 32 bits are the stream. Above them is the substream if it has less than 30 bits. Otherwise bit 62
//! is set, and a running number is there. The thread's name, `stream 2, substream 7`, has both numbers in
//! full.

use std::collections::{BTreeMap, HashMap};

use super::facts::{self, FunctionFacts, ThreadFacts};
use super::rows;
use crate::function_numbers::FunctionNumbers;
use crate::model::{Function, FunctionId, FunctionKind, Thread, ThreadId};
use crate::text;

/// Ids from here down are for functions that one of our traces does not declare. The ids of other
/// formats end here too.
const HIGHEST: u32 = (1 << 28) - 1;

#[derive(Debug)]
struct Entry {
    function: Function,
    /// By `fdr:function`.
    declared: bool,
}

/// All functions so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    entries: BTreeMap<FunctionId, Entry>,
    /// The first function of each name, in the order of the file.
    by_name: HashMap<Box<[u8]>, FunctionId>,
    /// The function that a number means at the present place of the file.
    by_number: HashMap<u32, FunctionId>,
    used_numbers: u32,
    /// The numbers of functions in the file that mean another id here.
    renumbered: FunctionNumbers,
}

impl Names {
    /// The function of a call. `ours`: the trace declares its functions.
    #[inline]
    pub(super) fn call(&mut self, name: &[u8], number: Option<u32>, ours: bool) -> FunctionId {
        let known = match number {
            Some(number) => self.by_number.get(&number),
            None => self.by_name.get(name),
        };
        match known {
            Some(&id) => id,
            None => self.undeclared(name, number, ours),
        }
    }

    #[cold]
    fn undeclared(&mut self, name: &[u8], number: Option<u32>, ours: bool) -> FunctionId {
        let id = match number {
            Some(number) => self.place(number),
            None => self.free(ours),
        };
        match number {
            Some(number) => drop(self.by_number.insert(number, id)),
            None => drop(self.by_name.insert(name.into(), id)),
        }
        let mut name = facts::lossy(name);
        if number.is_some_and(|number| name == label(number)) {
            name.clear();
        }
        let function = Function {
            id,
            name,
            ..Function::default()
        };
        let declared = false;
        self.entries.insert(id, Entry { function, declared });
        id
    }

    /// A function is described. Returns a problem if its number had another function before.
    pub(super) fn declare(&mut self, offset: u64, facts: FunctionFacts) -> Option<String> {
        let FunctionFacts {
            id,
            name,
            file,
            line,
            untimed,
            kind,
        } = facts;
        let Some(number) = id else {
            return Some("a function without a number; it is skipped".into());
        };
        let mut problem = None;
        let adopted = self.by_name.get(name.as_bytes()).copied();
        let adopted = adopted.filter(|_| kind == FunctionKind::Calls);
        let adopted =
            adopted.filter(|id| self.entries.get(id).is_some_and(|entry| !entry.declared));
        let known = self.by_number.get(&number).copied().or(adopted);
        let id = match known.and_then(|id| self.entries.get(&id)) {
            None => self.place(number),
            Some(entry) if !entry.declared => entry.function.id,
            Some(Entry { function, .. }) => {
                if (&function.name, &function.file, function.line, function.kind)
                    == (&name, &file, line, kind)
                {
                    return None;
                }
                let id = self.free(true);
                problem = Some(format!(
                    "function #{number} is described as another one than before: it is #{} from \
                     here on",
                    id.0
                ));
                id
            }
        };
        if self
            .by_number
            .insert(number, id)
            .unwrap_or(FunctionId(number))
            != id
        {
            self.renumbered.change(offset, number.into(), id);
        }
        if !name.is_empty() && kind == FunctionKind::Calls {
            self.by_name.entry(name.as_bytes().into()).or_insert(id);
        }
        let function = Function {
            id,
            name,
            file,
            line,
            untimed,
            kind,
        };
        let declared = true;
        self.entries.insert(id, Entry { function, declared });
        problem
    }

    /// The number itself as id, if no function has that id.
    fn place(&mut self, number: u32) -> FunctionId {
        let id = FunctionId(number);
        if self.entries.contains_key(&id) {
            self.free(true)
        } else {
            id
        }
    }

    /// A free id. Traces of other programs have no numbers for functions, so there it is the lowest free id.
    fn free(&mut self, ours: bool) -> FunctionId {
        loop {
            let id = FunctionId(if ours {
                HIGHEST.wrapping_sub(self.used_numbers)
            } else {
                self.used_numbers + 1
            });
            self.used_numbers += 1;
            if !self.entries.contains_key(&id) {
                return id;
            }
        }
    }

    /// The functions that have a name or a place, sorted by id.
    pub(super) fn finish(self) -> (Vec<Function>, FunctionNumbers) {
        let known = self
            .entries
            .into_values()
            .filter(|entry| entry.declared || !entry.function.name.is_empty());
        (known.map(|entry| entry.function).collect(), self.renumbered)
    }
}

/// The label of a function without a name.
pub(super) fn label(number: u32) -> String {
    format!("#{number}")
}

const SUBSTREAM: u64 = 1 << 63;
const NUMBERED: u64 = SUBSTREAM | 1 << 62;
const SUBSTREAM_BITS: u32 = 30;

/// The counter of a stream.
#[derive(Clone, Copy, Debug)]
struct Counter {
    next: u32,
    /// Where its last event is.
    offset: u64,
    /// When that ended, in ticks.
    end: u64,
    /// Whether a diagnostic has reported that times go back.
    reported: bool,
}

/// The conclusion from an event's number about earlier events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    None,
    /// This many events are missing since the event that ended then.
    Missing {
        events: u32,
        expected: u32,
        end: u64,
        /// Where the last event is.
        offset: u64,
    },
    /// The counter goes back, for the first time; this is the expected number.
    Back(u32),
}

/// Streams, substreams and their threads.
#[derive(Debug, Default)]
pub(super) struct Streams {
    counters: Vec<Counter>,
    counter_of: HashMap<u32, usize>,
    /// The stream of the last event, and its counter.
    current: Option<(u32, usize)>,
    lanes: HashMap<(u32, u64), usize>,
    /// The threads of rows, by the stream and the number that the rows have.
    rows: HashMap<(u32, u32), usize>,
    ids: HashMap<ThreadId, usize>,
    pub(super) threads: Vec<Thread>,
    numbered: u64,
    last: Option<((u32, u64), usize)>,
}

impl Streams {
    /// Notes an event's number. `skipped`: this many numbers in front of it are unused.
    #[inline]
    pub(super) fn count(&mut self, stream: u32, counter: u32, skipped: u32, at: (u64, u64)) -> Gap {
        let (offset, end) = at;
        let next = Counter {
            next: counter.wrapping_add(1),
            offset,
            end,
            reported: false,
        };
        let place = match self.current {
            Some((current, place)) if current == stream => place,
            _ => {
                let place = *self.counter_of.entry(stream).or_insert(self.counters.len());
                self.current = Some((stream, place));
                place
            }
        };
        let Some(last) = self.counters.get_mut(place) else {
            self.counters.push(next);
            return Gap::None;
        };
        let before = std::mem::replace(
            last,
            Counter {
                reported: last.reported,
                ..next
            },
        );
        let expected = before.next.wrapping_add(skipped);
        match counter.wrapping_sub(expected) as i32 {
            0 => Gap::None,
            missing @ 1.. => Gap::Missing {
                events: missing as u32,
                expected,
                end: before.end,
                offset: before.offset,
            },
            _ if before.reported => Gap::None,
            _ => {
                last.reported = true;
                Gap::Back(expected)
            }
        }
    }

    /// The thread of a stream and substream: its place in `threads`.
    #[inline]
    pub(super) fn lane(&mut self, stream: u32, substream: u64) -> usize {
        let key = (stream, substream);
        match self.last {
            Some((last, lane)) if last == key => lane,
            _ => {
                let row = || self.rows.get(&(stream, rows::thread(substream)?));
                let known = self.lanes.get(&key).or_else(row).copied();
                let lane = known.unwrap_or_else(|| self.begin(key, None));
                self.last = Some((key, lane));
                lane
            }
        }
    }

    /// A new thread. `id`: the id that `fdr:thread` states.
    fn begin(&mut self, key: (u32, u64), id: Option<u64>) -> usize {
        let (stream, substream) = key;
        let lane = self.threads.len();
        let id = id.or(derived(stream, substream));
        let id = id.unwrap_or_else(|| self.number(stream));
        let taken = self.ids.contains_key(&ThreadId(id));
        let id = ThreadId(if taken { self.number(stream) } else { id });
        self.ids.insert(id, lane);
        self.lanes.insert(key, lane);
        let name = if substream == 0 {
            String::new()
        } else {
            name(stream, substream)
        };
        self.threads.push(Thread {
            id,
            name,
            ..Thread::default()
        });
        lane
    }

    /// An id that no thread has.
    fn number(&mut self, stream: u32) -> u64 {
        loop {
            let number = self.numbered & ((1 << SUBSTREAM_BITS) - 1);
            self.numbered += 1;
            let id = NUMBERED | number << 32 | u64::from(stream);
            if !self.ids.contains_key(&ThreadId(id)) {
                return id;
            }
        }
    }

    /// A thread is described. Returns the fault of the description.
    pub(super) fn describe(&mut self, facts: ThreadFacts) -> Option<String> {
        let Some(stream) = facts.stream else {
            return Some("a thread without a stream; it is skipped".into());
        };
        let key = (stream, facts.substream);
        let mut problem = None;
        let lane = match self.lanes.get(&key) {
            Some(&lane) => lane,
            None => self.begin(key, facts.thread),
        };
        if let Some(id) = facts.thread.map(ThreadId) {
            let before = self.threads[lane].id;
            let owner = *self.ids.entry(id).or_insert(lane);
            if owner == lane {
                if before != id {
                    self.ids.remove(&before);
                }
                self.threads[lane].id = id;
            } else {
                problem = Some(format!(
                    "stream {stream} has the thread id {id} of another one; it is {before} here"
                ));
            }
        }
        if let Some(number) = facts.rows.and_then(rows::thread) {
            self.rows.insert((stream, number), lane);
        }
        let thread = &mut self.threads[lane];
        thread.process = facts.process.or(thread.process);
        thread.counts = facts.counts.or(thread.counts);
        if let Some(name) = facts.name {
            thread.name = name;
        }
        problem
    }
}

/// The thread id of a stream and substream without a stated id. `None`: a running number is part of the
/// id.
pub(super) fn derived(stream: u32, substream: u64) -> Option<u64> {
    if substream == 0 {
        return Some(stream.into());
    }
    let fits = substream >> SUBSTREAM_BITS == 0;
    fits.then_some(SUBSTREAM | substream << 32 | u64::from(stream))
}

/// The label of a substream without a name.
fn name(stream: u32, substream: u64) -> String {
    format!("stream {stream}, substream {substream}")
}

/// Stream and substream of a thread that was read from a file with substreams.
pub(super) fn numbers(thread: &Thread) -> Option<(u32, u64)> {
    if thread.id.0 & SUBSTREAM == 0 {
        return None;
    }
    let numbers = thread.name.strip_prefix("stream ")?;
    let (stream, substream) = numbers.split_once(',')?;
    let substream = text::number(substream.strip_prefix(" substream ")?)?;
    let stream = u32::try_from(text::number(stream)?).ok()?;
    let same = name(stream, substream) == thread.name && thread.id.0 as u32 == stream;
    (same && substream != 0).then_some((stream, substream))
}
