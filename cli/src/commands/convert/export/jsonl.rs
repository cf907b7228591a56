//! JSON lines: one line for the trace, one for each thread, and one for each call when it ends and for each other
//! event. `docs/exports.md` has the fields.

use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::calls::EdgeStatus;
use serde::Serialize;

use super::facts::{Facts, Lane};
use super::receiver::{Happening, Left, Receiver, Short, StayNs};
use super::value::Values;
use super::{Export, Holds, Make, Out, target};

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("jsonl", "JSON lines", "jsonl"),
    holds: Holds::ALL,
    make: Make::Calls(|out, facts| Ok(Box::new(Lines::new(out, facts)?))),
};

struct Lines {
    out: Out,
    facts: Arc<Facts>,
}

/// A line. Fields that a line has no use for are left out.
#[derive(Default, Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    self_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    untimed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<&'a Values>,
}

/// The word for an edge that was not measured.
pub(super) fn edge(status: EdgeStatus) -> Option<&'static str> {
    match status {
        EdgeStatus::Measured => None,
        EdgeStatus::Synthetic => Some("synthetic"),
        EdgeStatus::Missing => Some("missing"),
    }
}

impl Lines {
    fn new(mut out: Out, facts: &Arc<Facts>) -> io::Result<Lines> {
        let info = &facts.info;
        let head = Line {
            kind: "trace",
            program: Some(&info.program),
            reason: Some(&info.reason),
            process: info.process,
            clock: Some(&info.clock.name),
            clock_ns: Some(facts.start_ns()),
            unix_ns: facts.start_unix_ns(),
            ..Line::default()
        };
        put(&mut out, &head)?;
        Ok(Lines {
            out,
            facts: facts.clone(),
        })
    }
}

fn put(out: &mut Out, line: &Line<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

impl Receiver for Lines {
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        let line = Line {
            kind: "thread",
            thread: Some(lane.id.0),
            thread_name: Some(&lane.name),
            process: Some(lane.process),
            ..Line::default()
        };
        put(&mut self.out, &line)
    }

    fn left(&mut self, lane: &Lane, call: &Left<'_>) -> io::Result<()> {
        let name = self.facts.name(call.function);
        let place = self.facts.place(call.function);
        let line = Line {
            kind: "call",
            thread: Some(lane.id.0),
            name: Some(&name),
            file: place.map(|(file, _)| file),
            line: place.map(|(_, line)| line),
            start_ns: Some(call.start),
            end_ns: Some(call.end),
            total_ns: Some(call.total),
            self_ns: Some(call.own),
            depth: Some(call.depth),
            clipped: call.clipped,
            entry: edge(call.entry),
            exit: edge(call.exit),
            untimed: call.untimed,
            cpu: call.cpu.map(|cpu| cpu.0),
            values: (!call.arguments.is_empty()).then_some(call.arguments),
            ..Line::default()
        };
        put(&mut self.out, &line)
    }

    fn short(&mut self, lane: &Lane, short: &Short) -> io::Result<()> {
        let line = Line {
            kind: "short",
            thread: Some(lane.id.0),
            start_ns: Some(short.from),
            end_ns: Some(short.until),
            total_ns: Some(short.until - short.from),
            calls: Some(short.calls),
            ..Line::default()
        };
        put(&mut self.out, &line)
    }

    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let line = Line {
            kind: what.what.word(),
            thread: what.what.thread(lane),
            name: (!what.name.is_empty()).then_some(what.name),
            start_ns: Some(what.at),
            values: Some(what.values),
            ..Line::default()
        };
        put(&mut self.out, &line)
    }

    fn stayed(&mut self, lane: &Lane, stay: &StayNs) -> io::Result<()> {
        let line = Line {
            kind: "state",
            thread: Some(lane.id.0),
            name: Some(stay.state.name()),
            start_ns: Some(stay.from),
            end_ns: Some(stay.until),
            total_ns: Some(stay.until - stay.from),
            cpu: stay.cpu.map(|cpu| cpu.0),
            ..Line::default()
        };
        put(&mut self.out, &line)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
