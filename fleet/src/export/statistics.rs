//! The small tables of a trace: its functions, threads, process, host and losses, and the figures of `fdr report`.

use std::collections::BTreeMap;

use anyhow::Result;
use arrow::array::RecordBatch;
use fdr_cli::fleet::{FunctionRow, TraceFigures};
use fdr_formats::TraceInfo;
use fdr_formats::identity::Part;

use super::columns::{Rows, Value};
use super::lengths;
use super::spans::first_number;
use crate::keys::{Keys, clamp, function_key};
use crate::schema::{
    FUNCTION_LENGTHS, FUNCTION_STATS, FUNCTIONS, HOSTS, LOSSES, PROCESSES, THREADS, TRACES, Table,
};

/// The figures of calls with records, and those of the whole run.
const SCOPES: [&str; 2] = ["records", "run"];

/// All small tables of a trace.
pub(crate) fn tables(
    info: &TraceInfo,
    figures: &TraceFigures,
    keys: &Keys,
) -> Result<Vec<(&'static Table, RecordBatch)>> {
    let mut tables = Vec::new();
    let mut stats = Rows::new(&FUNCTION_STATS);
    let mut lengths = Rows::new(&FUNCTION_LENGTHS);
    let mut functions = BTreeMap::new();
    for (scope, rows) in SCOPES
        .into_iter()
        .zip([Some(&figures.functions), figures.whole.as_ref()])
    {
        for (key, row) in merged(rows.into_iter().flatten(), &keys.program) {
            function(&mut stats, &mut lengths, keys, scope, key, &row)?;
            functions.insert(key, row);
        }
    }
    // Functions that only spans or open calls name.
    for function in info.called() {
        let key = function_key(&keys.program, &function.name, &function.file, function.line);
        functions.entry(key).or_insert_with(|| FunctionRow {
            name: function.name.clone(),
            file: function.file.clone(),
            line: function.line,
            ..FunctionRow::default()
        });
    }
    let mut names = Rows::new(&FUNCTIONS);
    for (key, row) in functions {
        names.push([
            key.into(),
            keys.program.as_str().into(),
            row.name.as_str().into(),
            row.file.as_str().into(),
            (row.line as i32).into(),
        ])?;
    }
    tables.push((&FUNCTION_STATS, stats.batch()?));
    tables.push((&FUNCTION_LENGTHS, lengths.batch()?));
    tables.push((&FUNCTIONS, names.batch()?));
    tables.push((&THREADS, threads(info, figures, keys)?));
    tables.push((&LOSSES, losses(info, figures, keys)?));
    tables.push((&PROCESSES, process(info, keys)?));
    tables.push((&HOSTS, host(info)?));
    tables.push((&TRACES, trace(info, figures, keys)?));
    Ok(tables)
}

fn keyed(keys: &Keys) -> [Value; 2] {
    [keys.trace.as_str().into(), keys.process.as_str().into()]
}

fn number(number: u64) -> Value {
    clamp(number).into()
}

fn maybe(number: Option<u64>) -> Value {
    number.map(clamp).into()
}

/// Rows by key: two functions of one name, file and line are one.
fn merged<'a>(
    rows: impl Iterator<Item = &'a FunctionRow>,
    program: &str,
) -> BTreeMap<i64, FunctionRow> {
    let mut all: BTreeMap<i64, FunctionRow> = BTreeMap::new();
    for row in rows {
        let key = function_key(program, &row.name, &row.file, row.line);
        let Some(sum) = all.get_mut(&key) else {
            all.insert(key, row.clone());
            continue;
        };
        for (sum, more) in [
            (&mut sum.calls, row.calls),
            (&mut sum.clipped, row.clipped),
            (&mut sum.counted, row.counted),
            (&mut sum.total_ns, row.total_ns),
            (&mut sum.self_ns, row.self_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        sum.untimed &= row.untimed;
        sum.min_ns = sum.min_ns.into_iter().chain(row.min_ns).min();
        sum.max_ns = sum.max_ns.max(row.max_ns);
        sum.states_ns = match (sum.states_ns, row.states_ns) {
            (Some(one), Some(other)) => Some([0, 1, 2].map(|at| one[at].saturating_add(other[at]))),
            (one, other) => one.or(other),
        };
        sum.lengths.extend_from_slice(&row.lengths);
    }
    all
}

fn function(
    stats: &mut Rows,
    lengths: &mut Rows,
    keys: &Keys,
    scope: &str,
    key: i64,
    row: &FunctionRow,
) -> Result<()> {
    let [trace, process] = keyed(keys);
    let states = |place: usize| maybe(row.states_ns.map(|states| states[place]));
    stats.push([
        trace.clone(),
        process.clone(),
        scope.into(),
        key.into(),
        number(row.calls),
        number(row.clipped),
        number(row.counted),
        row.untimed.into(),
        number(row.total_ns),
        number(row.self_ns),
        maybe(row.min_ns),
        maybe(row.max_ns),
        states(0),
        states(1),
        states(2),
    ])?;
    let mut buckets: BTreeMap<i32, u64> = BTreeMap::new();
    for (ns, calls) in &row.lengths {
        *buckets.entry(lengths::bucket(*ns)).or_default() += calls;
    }
    for (bucket, calls) in buckets {
        lengths.push([
            trace.clone(),
            process.clone(),
            scope.into(),
            key.into(),
            bucket.into(),
            lengths::middle(bucket).into(),
            number(calls),
        ])?;
    }
    Ok(())
}

fn threads(info: &TraceInfo, figures: &TraceFigures, keys: &Keys) -> Result<RecordBatch> {
    let mut rows = Rows::new(&THREADS);
    for thread in &figures.threads {
        let [trace, process] = keyed(keys);
        let first = first_number(thread.counts.as_ref());
        let found = clamp(thread.records).saturating_add(clamp(thread.lost));
        let unix = |tick| info.clock.unix_nanos(tick);
        rows.push([
            trace,
            process,
            number(thread.id),
            thread.name.as_str().into(),
            maybe(thread.window.and_then(|(first, _)| unix(first))),
            maybe(thread.window.and_then(|(_, last)| unix(last))),
            first.into(),
            first.saturating_add(found).into(),
            number(thread.records),
        ])?;
    }
    rows.batch()
}

fn losses(info: &TraceInfo, figures: &TraceFigures, keys: &Keys) -> Result<RecordBatch> {
    let mut rows = Rows::new(&LOSSES);
    for thread in &figures.threads {
        let [trace, process] = keyed(keys);
        let counts = thread.counts.as_ref();
        rows.push([
            trace,
            process,
            number(thread.id),
            maybe(counts.map(|counts| counts.recorded)),
            number(thread.records),
            maybe(counts.map(|counts| counts.overwritten)),
            maybe(counts.map(|counts| counts.dropped)),
            maybe(counts.map(|counts| counts.summarised)),
            number(thread.lost),
            number(thread.breaks),
            number(thread.short_calls),
            number(thread.short_ns),
            maybe(None),
        ])?;
    }
    // Of threads that are not in the trace.
    let missing = &info.missing;
    let [trace, process] = keyed(keys);
    let all = missing.overwritten.saturating_add(missing.dropped);
    rows.push([
        trace,
        process,
        maybe(None),
        number(all),
        number(0),
        number(missing.overwritten),
        number(missing.dropped),
        number(0),
        number(0),
        number(0),
        number(0),
        number(0),
        number(missing.threads),
    ])?;
    rows.batch()
}

fn process(info: &TraceInfo, keys: &Keys) -> Result<RecordBatch> {
    let mut rows = Rows::new(&PROCESSES);
    let part = |part| Value::from(info.identity.get(part));
    let [trace, process] = keyed(keys);
    rows.push([
        trace,
        process,
        keys.program.as_str().into(),
        maybe(info.process),
        part(Part::Host),
        part(Part::Boot),
        maybe(info.clock.anchor.map(|(_, unix)| unix)),
        part(Part::Build),
        part(Part::Version),
        part(Part::Tags),
    ])?;
    rows.batch()
}

fn host(info: &TraceInfo) -> Result<RecordBatch> {
    let mut rows = Rows::new(&HOSTS);
    rows.push([
        info.identity.get(Part::Host).into(),
        info.identity.get(Part::Boot).into(),
        info.clock.name.as_str().into(),
        number(info.clock.frequency),
    ])?;
    rows.batch()
}

fn trace(info: &TraceInfo, figures: &TraceFigures, keys: &Keys) -> Result<RecordBatch> {
    let mut rows = Rows::new(&TRACES);
    let [trace, process] = keyed(keys);
    let damage = figures.damage.as_ref();
    rows.push([
        trace,
        process,
        maybe(info.dump),
        info.reason.as_str().into(),
        info.format.as_str().into(),
        keys.window.map(|(start, _)| start).into(),
        keys.window.map(|(_, end)| end).into(),
        figures.whole.is_some().into(),
        damage
            .map(|(count, first)| format!("{count}: {first}"))
            .into(),
    ])?;
    rows.batch()
}
