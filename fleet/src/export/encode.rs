//! From batches of calls and events to files: one encoder for each core, each with files of its own. Ticks become
//! nanoseconds here.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, new_null_array,
};
use arrow::datatypes::DataType;
use fdr_formats::scale::Scale;
use fdr_formats::{Clock, FunctionId, Ticks, TraceInfo};

use super::columns::Rows;
use super::part::{Finished, Part};
use super::spans::{Batch, Calls, Event, Extra, Row};
use crate::keys::{Keys, clamp, function_key};
use crate::schema::{EVENTS, SPANS};
use crate::store::Store;

/// What all encoders of a trace share.
pub(crate) struct Shared<'a> {
    pub(crate) store: &'a Store,
    pub(crate) keys: &'a Keys,
    info: &'a TraceInfo,
    /// By the id, of small ids.
    functions: Vec<i64>,
    others: HashMap<u32, i64>,
    /// Added to the time of a tick.
    shift: i128,
}

/// Ids below this are in a list.
const DENSE: u32 = 1 << 20;

impl<'a> Shared<'a> {
    /// `first`: the first tick of the trace, where times begin if nothing says more.
    pub(crate) fn new(
        store: &'a Store,
        keys: &'a Keys,
        info: &'a TraceInfo,
        first: Ticks,
    ) -> Shared<'a> {
        let mut shared = Shared {
            store,
            keys,
            info,
            functions: Vec::new(),
            others: HashMap::new(),
            shift: shift_of(&info.clock, first),
        };
        for function in info.called() {
            let id = function.id.0;
            let key = shared.unknown(id);
            if id < DENSE {
                let least = id as usize + 1;
                if shared.functions.len() < least {
                    shared.functions.resize(least, 0);
                }
                shared.functions[id as usize] = key;
            } else {
                shared.others.insert(id, key);
            }
        }
        shared
    }

    /// The key of a function, computed.
    fn unknown(&self, id: u32) -> i64 {
        let function = self.info.function(FunctionId(id));
        let named = function.filter(|function| !function.name.is_empty());
        let name = named.map_or_else(
            || FunctionId(id).to_string(),
            |function| function.name.clone(),
        );
        let (file, line) = function.map_or(("", 0), |function| (&*function.file, function.line));
        function_key(&self.keys.program, &name, file, line)
    }

    fn function(&self, id: u32) -> i64 {
        let known = self
            .functions
            .get(id as usize)
            .copied()
            .filter(|key| *key != 0);
        known
            .or_else(|| self.others.get(&id).copied())
            .unwrap_or_else(|| self.unknown(id))
    }
}

/// Unix time less the time of a tick.
fn shift_of(clock: &Clock, first: Ticks) -> i128 {
    let (tick, unix) = clock.anchor.unwrap_or((first, 0));
    i128::from(unix) - i128::from(clock.nanos(tick).0)
}

/// Takes batches until there are no more. Returns the files.
pub(crate) fn run(
    shared: &Shared<'_>,
    batches: &Mutex<Receiver<Batch>>,
    stem: &str,
) -> Result<Vec<Finished>> {
    let partition = format!("date={}/host={}", shared.keys.date, shared.keys.host);
    let part = |table| Part::new(shared.store, table, &partition, stem.to_owned());
    let (mut spans, mut events) = (part(&SPANS), part(&EVENTS));
    let mut times = Times::new(shared);
    loop {
        let batch = batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match batch {
            Ok(Batch::Calls(calls)) => spans.write(&calls_batch(shared, &mut times, calls)?)?,
            Ok(Batch::Events(list)) => events.write(&events_batch(shared, &mut times, list)?)?,
            Err(_) => break,
        }
    }
    let mut finished = spans.finish()?;
    finished.extend(events.finish()?);
    Ok(finished)
}

/// Ticks to nanoseconds. Lengths have a scale of their own, because a scale is fast near earlier ticks.
struct Times {
    moments: Scale,
    clock: Clock,
    shift: i128,
}

impl Times {
    fn new(shared: &Shared<'_>) -> Times {
        Times {
            moments: Scale::new(shared.info.clock.frequency),
            clock: shared.info.clock.clone(),
            shift: shared.shift,
        }
    }

    fn moment(&mut self, tick: u64) -> i64 {
        let time = i128::from(self.moments.nanos(Ticks(tick)).0) + self.shift;
        time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn length(&self, ticks: u64) -> i64 {
        let frequency = self.clock.frequency;
        // The same rule without a wide division, where the product fits.
        match ticks
            .checked_mul(1_000_000_000)
            .and_then(|product| product.checked_add(frequency / 2))
        {
            Some(product) if frequency > 0 => clamp(product / frequency),
            _ => clamp(self.clock.nanos(Ticks(ticks)).0),
        }
    }
}

/// What few calls have, by the place of the row. There is a column only if a call has a value for it.
#[derive(Default)]
struct ExtraColumns {
    running: Option<Vec<Option<i64>>>,
    waiting: Option<Vec<Option<i64>>>,
    tasks: Option<Vec<Option<i64>>>,
    arguments: Option<Vec<Option<String>>>,
}

impl ExtraColumns {
    /// The columns, with room for `count` rows.
    fn new(times: &Times, extras: Vec<(u32, Extra)>, count: usize) -> ExtraColumns {
        let mut columns = ExtraColumns::default();
        for (place, extra) in extras {
            let place = place as usize;
            if place >= count {
                continue;
            }
            if let Some((ran, waited)) = extra.states {
                set(&mut columns.running, place, count, times.length(ran));
                set(&mut columns.waiting, place, count, times.length(waited));
            }
            if let Some(task) = extra.task {
                set(&mut columns.tasks, place, count, task as i64);
            }
            if let Some(text) = extra.arguments {
                set(&mut columns.arguments, place, count, text);
            }
        }
        columns
    }
}

fn set<T: Clone>(column: &mut Option<Vec<Option<T>>>, place: usize, count: usize, value: T) {
    column.get_or_insert_with(|| vec![None; count])[place] = Some(value);
}

/// The values of a column for the calls that have ended. Calls that are still open are rows of a later batch.
fn whole<T, A>(rows: &[Row], column: Option<Vec<Option<T>>>, kind: &DataType) -> ArrayRef
where
    A: FromIterator<Option<T>> + Array + 'static,
{
    let Some(column) = column else {
        return new_null_array(kind, rows.iter().filter(|row| row.is_whole).count());
    };
    let whole = column.into_iter().zip(rows).filter(|(_, row)| row.is_whole);
    Arc::new(whole.map(|(value, _)| value).collect::<A>())
}

fn calls_batch(shared: &Shared<'_>, times: &mut Times, calls: Calls) -> Result<RecordBatch> {
    let Calls { mut rows, extras } = calls;
    let extra = ExtraColumns::new(times, extras, rows.len());
    let longs = |column| whole::<i64, Int64Array>(&rows, column, &DataType::Int64);
    let (running, waiting) = (longs(extra.running), longs(extra.waiting));
    let tasks = longs(extra.tasks);
    let arguments = whole::<String, StringArray>(&rows, extra.arguments, &DataType::Utf8);
    rows.retain(|row| row.is_whole);
    let count = rows.len();
    let text = |text: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
            text, count,
        )))
    };
    let number = |of: &dyn Fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let truth = |of: fn(&Row) -> bool| -> ArrayRef {
        let truths = rows.iter().map(|row| Some(of(row)));
        Arc::new(truths.collect::<BooleanArray>())
    };
    let starts = Int64Array::from_iter_values(rows.iter().map(|row| times.moment(row.start)));
    let depths = Int32Array::from_iter_values(rows.iter().map(|row| row.depth as i32));
    let cpus = rows.iter().map(|row| (row.cpu >= 0).then_some(row.cpu));
    let times = &*times;
    let columns: Vec<ArrayRef> = vec![
        text(&shared.keys.trace),
        text(&shared.keys.process),
        number(&|row| clamp(row.tid)),
        number(&|row| row.seq),
        Arc::new(rows.iter().map(|row| row.parent).collect::<Int64Array>()),
        number(&|row| shared.function(row.function)),
        Arc::new(starts),
        number(&|row| times.length(row.total)),
        number(&|row| times.length(row.own)),
        running,
        waiting,
        Arc::new(depths),
        Arc::new(cpus.collect::<Int32Array>()),
        truth(|row| row.clipped),
        truth(|row| row.synthetic),
        tasks,
        arguments,
    ];
    RecordBatch::try_new(SPANS.schema(), columns).context("rows of spans")
}

fn events_batch(shared: &Shared<'_>, times: &mut Times, events: Vec<Event>) -> Result<RecordBatch> {
    let mut rows = Rows::new(&EVENTS);
    for event in events {
        rows.push([
            shared.keys.trace.as_str().into(),
            shared.keys.process.as_str().into(),
            clamp(event.tid).into(),
            event.seq.into(),
            event.nth.into(),
            times.moment(event.time).into(),
            event.name.as_str().into(),
            event.form.as_str().into(),
            event.level.into(),
            event.fields.into(),
        ])?;
    }
    rows.batch()
}
