//! CSV: one row for each call when it ends, and for each other event. `docs/exports.md` has the columns. Texts are as in
//! the CSV of `fdr report`: no spreadsheet takes one for a formula.

use std::io;
use std::sync::Arc;

use fdr_formats::calls::EdgeStatus;

use super::facts::{Facts, Lane};
use super::receiver::{Happening, ReceivedCall, Receiver, StayNs, UnrecordedCalls};
use super::value::Values;
use super::{Capabilities, Export, Make, Out, target};
use crate::report::csv::harmless;

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("csv", "CSV", "csv"),
    holds: Capabilities::ALL,
    make: Make::Calls(|out, facts| Ok(Box::new(Rows::new(out, facts)?))),
};

/// The columns.
const HEAD: [&str; 19] = [
    "type",
    "process",
    "thread",
    "thread_name",
    "name",
    "file",
    "line",
    "start_ns",
    "end_ns",
    "total_ns",
    "self_ns",
    "depth",
    "clipped",
    "entry",
    "exit",
    "untimed",
    "cpu",
    "calls",
    "values",
];

/// The word for an edge that was not measured.
fn edge(status: EdgeStatus) -> Option<&'static str> {
    match status {
        EdgeStatus::Measured => None,
        EdgeStatus::Synthetic => Some("synthetic"),
        EdgeStatus::Missing => Some("missing"),
    }
}

struct Rows {
    out: csv::Writer<Out>,
    facts: Arc<Facts>,
}

/// A row; what is not set is empty.
#[derive(Default)]
struct Row<'a> {
    kind: &'a str,
    lane: Option<&'a Lane>,
    name: &'a str,
    place: Option<(&'a str, u32)>,
    start: Option<u64>,
    end: Option<u64>,
    total: Option<u64>,
    own: Option<u64>,
    depth: Option<u64>,
    clipped: Option<bool>,
    entry: &'a str,
    exit: &'a str,
    untimed: Option<bool>,
    cpu: Option<u64>,
    calls: Option<u64>,
    values: Option<&'a Values>,
}

impl Rows {
    fn new(out: Out, facts: &Arc<Facts>) -> io::Result<Rows> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(HEAD)?;
        Ok(Rows {
            out,
            facts: facts.clone(),
        })
    }
}

fn put(out: &mut csv::Writer<Out>, row: &Row<'_>) -> io::Result<()> {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let truth = |truth: Option<bool>| match truth {
        Some(true) => "true",
        _ => "",
    };
    let place = row.place;
    let (process, thread) = (
        row.lane.map(|lane| lane.process),
        row.lane.map(|lane| lane.id.0),
    );
    let fields: [&str; 19] = [
        row.kind,
        &number(process),
        &number(thread),
        &harmless(row.lane.map_or("", |lane| &lane.name)),
        &harmless(row.name),
        &harmless(place.map_or("", |(file, _)| file)),
        &number(place.map(|(_, line)| line.into())),
        &number(row.start),
        &number(row.end),
        &number(row.total),
        &number(row.own),
        &number(row.depth),
        truth(row.clipped),
        row.entry,
        row.exit,
        truth(row.untimed),
        &number(row.cpu),
        &number(row.calls),
        &row.values.map(Values::json).unwrap_or_default(),
    ];
    out.write_record(fields).map_err(io::Error::from)
}

impl Receiver for Rows {
    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()> {
        let name = self.facts.name(call.function);
        let row = Row {
            kind: "call",
            lane: Some(lane),
            name: &name,
            place: self.facts.place(call.function),
            start: Some(call.start),
            end: Some(call.end),
            total: Some(call.total),
            own: Some(call.own),
            depth: Some(call.depth as u64),
            clipped: Some(call.clipped),
            entry: edge(call.entry).unwrap_or_default(),
            exit: edge(call.exit).unwrap_or_default(),
            untimed: Some(call.untimed),
            cpu: call.cpu.map(|cpu| cpu.0.into()),
            values: (!call.arguments.is_empty()).then_some(call.arguments),
            ..Row::default()
        };
        put(&mut self.out, &row)
    }

    fn short(&mut self, lane: &Lane, short: &UnrecordedCalls) -> io::Result<()> {
        let row = Row {
            kind: "short",
            lane: Some(lane),
            start: Some(short.from),
            end: Some(short.until),
            total: Some(short.until - short.from),
            calls: Some(short.calls),
            ..Row::default()
        };
        put(&mut self.out, &row)
    }

    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let row = Row {
            kind: what.what.word(),
            lane: what.what.thread(lane).map(|_| lane),
            name: what.name,
            start: Some(what.at),
            values: Some(what.values),
            ..Row::default()
        };
        put(&mut self.out, &row)
    }

    fn stayed(&mut self, lane: &Lane, stay: &StayNs) -> io::Result<()> {
        let row = Row {
            kind: "state",
            lane: Some(lane),
            name: stay.state.name(),
            start: Some(stay.from),
            end: Some(stay.until),
            total: Some(stay.until - stay.from),
            cpu: stay.cpu.map(|cpu| cpu.0.into()),
            ..Row::default()
        };
        put(&mut self.out, &row)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
