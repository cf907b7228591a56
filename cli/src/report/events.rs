//! What a trace says of its events and counters: counted by the engine, and as rows for the outputs. Spans are calls,
//! so their fields are no events here.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashSet};
use std::io;

use fdr_formats::note_words;
use fdr_formats::notes::{FieldValue, Form, Note, NoteKind};
use fdr_formats::{Clock, FunctionId, ThreadId, Ticks, TraceInfo};
use serde::{Serialize, Serializer};

use super::names::{name_of, place_of};
use super::query::Selection;
use super::stats::OTHERS;
use crate::memory;

/// The most names of events and of counters that have rows of their own. All further names are one row.
const MAX_NAMES: usize = 1 << 16;

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

impl Number {
    fn from_value(value: &FieldValue<'_>) -> Option<Number> {
        match *value {
            FieldValue::Unsigned(number) | FieldValue::Address(number) => {
                Some(Number::Whole(number.into()))
            }
            FieldValue::Signed(number) => Some(Number::Whole(number.into())),
            FieldValue::Truth(truth) => Some(Number::Whole(truth.into())),
            FieldValue::Float(number) => Some(Number::Float(number)).filter(|_| !number.is_nan()),
            _ => None,
        }
    }

    pub(crate) fn as_float(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    fn order(&self, other: &Number) -> Ordering {
        match (self, other) {
            (Number::Whole(one), Number::Whole(other)) => one.cmp(other),
            _ => self.as_float().total_cmp(&other.as_float()),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Number::Whole(number) => serializer.serialize_i128(number),
            Number::Float(number) => serializer.serialize_f64(number),
        }
    }
}

/// What is known of the notes with one name.
#[derive(Clone, Debug, Default)]
struct Stats {
    count: u64,
    /// The first and the last of them.
    times: Option<(Ticks, Ticks)>,
    threads: HashSet<ThreadId>,
    level: u8,
    /// Of a counter, those of its values that are numbers.
    values: Option<Values>,
}

#[derive(Clone, Copy, Debug)]
struct Values {
    count: u64,
    min: Number,
    max: Number,
    /// The sum of the whole numbers, and that of the others.
    whole: i128,
    sum: f64,
    last: (Ticks, Number),
}

impl Values {
    fn new(time: Ticks, number: Number) -> Values {
        let (whole, sum) = match number {
            Number::Whole(number) => (number, 0.0),
            Number::Float(number) => (0, number),
        };
        Values {
            count: 1,
            min: number,
            max: number,
            whole,
            sum,
            last: (time, number),
        }
    }

    fn mean(&self) -> f64 {
        (self.whole as f64 + self.sum) / self.count as f64
    }

    fn join(&mut self, more: &Values) {
        self.count += more.count;
        self.whole = self.whole.saturating_add(more.whole);
        self.sum += more.sum;
        if more.min.order(&self.min).is_lt() {
            self.min = more.min;
        }
        if more.max.order(&self.max).is_gt() {
            self.max = more.max;
        }
        if more.last.0 >= self.last.0 {
            self.last = more.last;
        }
    }
}

impl Stats {
    fn reach(&mut self, first: Ticks, last: Ticks) {
        let (from, to) = self.times.unwrap_or((first, last));
        self.times = Some((from.min(first), to.max(last)));
    }

    fn value(&mut self, more: &Values) {
        match &mut self.values {
            Some(values) => values.join(more),
            values => *values = Some(*more),
        }
    }

    fn join(&mut self, more: &Stats) {
        self.count += more.count;
        self.level = self.level.max(more.level);
        self.threads.extend(&more.threads);
        if let Some((first, last)) = more.times {
            self.reach(first, last);
        }
        if let Some(values) = &more.values {
            self.value(values);
        }
    }
}

/// The events and counters of a trace, or of a worker's share of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    events: BTreeMap<FunctionId, Stats>,
    counters: BTreeMap<FunctionId, Stats>,
}

impl Events {
    /// Counts a note, if it is an event or a value of a counter.
    pub(super) fn see(&mut self, thread: ThreadId, time: Ticks, kind: NoteKind, body: &[u8]) {
        if kind != NoteKind::Event {
            return;
        }
        let Some(Note::Event {
            name,
            form,
            level,
            fields,
            ..
        }) = Note::decode(kind, body)
        else {
            return;
        };
        let (list, number) = match Form::from_number(form) {
            Some(Form::Begin | Form::End) => return,
            Some(Form::Counter) => {
                let number = fields
                    .first()
                    .and_then(|field| Number::from_value(&field.value));
                (&mut self.counters, number)
            }
            Some(Form::Instant) | None => (&mut self.events, None),
        };
        let stats = entry(list, FunctionId(name));
        stats.count += 1;
        stats.level = stats.level.max(level);
        stats.reach(time, time);
        stats.threads.insert(thread);
        if let Some(number) = number {
            stats.value(&Values::new(time, number));
        }
    }

    /// Adds those of another share.
    pub(super) fn join(&mut self, more: &Events) {
        let lists = [
            (&mut self.events, &more.events),
            (&mut self.counters, &more.counters),
        ];
        for (list, more) in lists {
            for (&name, stats) in more {
                entry(list, name).join(stats);
            }
        }
    }
}

/// The entry of a name. If there are too many names: the entry of all others.
fn entry(list: &mut BTreeMap<FunctionId, Stats>, name: FunctionId) -> &mut Stats {
    let name = match list.len() < MAX_NAMES || list.contains_key(&name) {
        true => name,
        false => OTHERS,
    };
    list.entry(name).or_default()
}

/// An event with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventRow {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) location: EventLocation,
    pub(crate) level: Option<String>,
    pub(crate) count: u64,
    /// In a second of the trace.
    pub(crate) rate: Option<f64>,
}

/// A counter with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CounterRow {
    pub(crate) name: String,
    #[serde(flatten)]
    location: EventLocation,
    pub(crate) samples: u64,
    pub(crate) min: Option<Number>,
    pub(crate) mean: Option<f64>,
    pub(crate) max: Option<Number>,
    pub(crate) last: Option<Number>,
}

/// Both as rows: those with the most notes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventRows {
    pub(crate) events: Vec<EventRow>,
    pub(crate) counters: Vec<CounterRow>,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
}

impl EventRows {
    /// The rows of a trace whose calls reach from `first` to `last`.
    ///
    /// # Errors
    /// Where they take too much memory.
    pub(super) fn new(
        info: &TraceInfo,
        found: &Events,
        calls: Option<(Ticks, Ticks)>,
        selection: &Selection,
    ) -> io::Result<EventRows> {
        let all = found.events.values().chain(found.counters.values());
        let times = all.filter_map(|stats| stats.times).chain(calls);
        let times = times.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let (first, last) = times.unwrap_or_default();
        let mut rows = EventRows::default();
        for (name, id, stats) in sorted(info, &found.events, selection)? {
            rows.events.push(EventRow {
                name,
                location: EventLocation::new(info, id, first, &stats),
                level: note_words::level(stats.level).map(|level| level.into_owned()),
                count: stats.count,
                rate: rate(&info.clock, stats.count, last.since(first)),
            });
        }
        for (name, id, stats) in sorted(info, &found.counters, selection)? {
            let values = stats.values;
            rows.counters.push(CounterRow {
                name,
                location: EventLocation::new(info, id, first, &stats),
                samples: stats.count,
                min: values.map(|values| values.min),
                mean: values.map(|values| values.mean()),
                max: values.map(|values| values.max),
                last: values.map(|values| values.last.1),
            });
        }
        if let Some(limit) = selection.limit {
            let all = rows.events.len() + rows.counters.len();
            rows.events.truncate(limit);
            rows.counters.truncate(limit);
            rows.hidden = all - rows.events.len() - rows.counters.len();
        }
        Ok(rows)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.counters.is_empty()
    }
}

/// Events in a second. `None`: the trace has no length.
fn rate(clock: &Clock, count: u64, length: Ticks) -> Option<f64> {
    let ns = clock.nanos(length).0;
    (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}

/// Where an event or a counter is in the source, when it was since the first record of the trace, and on how many
/// threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventLocation {
    file: String,
    line: u32,
    id: u32,
    first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) threads: usize,
}

impl EventLocation {
    fn new(info: &TraceInfo, id: FunctionId, begin: Ticks, stats: &Stats) -> EventLocation {
        let (file, line) = place_of(info, id);
        let since = |time: Ticks| info.clock.nanos(time.since(begin)).0;
        let (first, last) = stats.times.unwrap_or((begin, begin));
        EventLocation {
            file,
            line,
            id: id.0,
            first_ns: since(first),
            last_ns: since(last),
            threads: stats.threads.len(),
        }
    }
}

/// Those that the filter names, with their names, those with the most notes first. Sites with one name are one row,
/// because a counter may change in several places. The row has the place of the first.
fn sorted(
    info: &TraceInfo,
    list: &BTreeMap<FunctionId, Stats>,
    selection: &Selection,
) -> io::Result<Vec<(String, FunctionId, Stats)>> {
    let mut named: BTreeMap<String, (FunctionId, Stats)> = BTreeMap::new();
    for (&id, stats) in list {
        memory::check()?;
        let name = name_of(info, id);
        let filter = selection.filter.as_ref();
        if filter.is_none_or(|filter| filter.matches(&name)) {
            let row = named.entry(name).or_insert_with(|| (id, Stats::default()));
            row.1.join(stats);
        }
    }
    let rows = named.into_iter();
    let mut rows: Vec<_> = rows.map(|(name, (id, stats))| (name, id, stats)).collect();
    // Those with the same count stay in the order of their names.
    rows.sort_by_key(|(_, _, stats)| Reverse(stats.count));
    Ok(rows)
}
