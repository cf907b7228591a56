//! A replay as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::Ticks;
use fdr_formats::model::CpuId;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::states::States;
use serde::Serialize;
use serde_json::Value;

use super::Replay;
use super::lines::{CallLine, Line};
use super::nearest::{Kind, NearNote};
use crate::report::json;
use crate::report::names::{name_of, name_of_thread};
use crate::report::states::InStates;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Value,
    failed_thread: Option<u64>,
    around_ns: Option<u64>,
    calls: Vec<Call<'a>>,
    notes: Vec<Remark<'a>>,
    calls_not_shown: u64,
    notes_not_shown: u64,
    tasks: Option<Value>,
}

#[derive(Serialize)]
struct Call<'a> {
    thread: u64,
    thread_name: &'a str,
    function: Option<String>,
    id: u32,
    depth: usize,
    start_ns: u64,
    since_first_ns: i128,
    total_ns: u64,
    entered: bool,
    returned: bool,
    open: bool,
    untimed: bool,
    short_calls: Option<u64>,
    cpu: Option<u32>,
    cpu_at_exit: Option<u32>,
    states: Option<InStates>,
}

#[derive(Serialize)]
struct Remark<'a> {
    thread: u64,
    thread_name: &'a str,
    depth: usize,
    time_ns: u64,
    since_first_ns: i128,
    kind: &'static str,
    detail: String,
}

/// Writes all lines.
pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    replay: &Replay<'_>,
    states: Option<&States>,
    tasks: Option<Value>,
) -> anyhow::Result<()> {
    let info = replay.source.info();
    let (mut calls, mut notes) = (Vec::new(), Vec::new());
    for line in &replay.lines {
        match line {
            Line::Call(shown) => calls.push(call(replay, states, shown)),
            Line::Note(near_note, depth) => notes.push(remark(replay, near_note, *depth)),
        }
    }
    json::print(
        out,
        &Document {
            head: json::head(file, info),
            failed_thread: replay.failed.map(|thread| thread.0),
            around_ns: replay.around.map(|around| info.clock.nanos(around).0),
            calls,
            notes,
            calls_not_shown: replay.hidden,
            notes_not_shown: replay.notes_hidden,
            tasks,
        },
    )
}

fn call<'a>(replay: &Replay<'a>, states: Option<&States>, shown: &CallLine) -> Call<'a> {
    let info = replay.source.info();
    let call = &shown.call;
    let ns = |ticks: Ticks| info.clock.nanos(ticks).0;
    let spent = states.map(|states| {
        let known = states.in_stretch(call.thread, call.start, call.end);
        InStates::of_stretch(&info.clock, &known)
    });
    let number = |cpu: Option<CpuId>| cpu.map(|cpu| cpu.0);
    Call {
        thread: call.thread.0,
        thread_name: name_of_thread(info, call.thread),
        function: (call.kind == Kind::Call).then(|| name_of(info, call.function)),
        id: call.function.0,
        depth: shown.depth,
        start_ns: ns(call.start),
        since_first_ns: since(replay, call.start),
        total_ns: ns(Ticks(call.total)),
        entered: call.has_entry,
        returned: call.has_exit,
        open: call.is_open,
        untimed: call.untimed,
        short_calls: match call.kind {
            Kind::Short(calls) => Some(calls),
            Kind::Call => None,
        },
        cpu: number(call.cpus[0]),
        cpu_at_exit: number(call.cpus[1]),
        states: spent,
    }
}

fn remark<'a>(replay: &Replay<'a>, near_note: &NearNote, depth: usize) -> Remark<'a> {
    let info = replay.source.info();
    let kind = NoteKind::from_number(near_note.kind);
    let note = kind.and_then(|kind| Note::decode(kind, &near_note.body));
    Remark {
        thread: near_note.thread.0,
        thread_name: name_of_thread(info, near_note.thread),
        depth,
        time_ns: info.clock.nanos(near_note.time).0,
        since_first_ns: since(replay, near_note.time),
        kind: kind.map_or("", NoteKind::name),
        detail: note.map_or_else(String::new, |note| note.words(info).to_string()),
    }
}

fn since(replay: &Replay<'_>, time: Ticks) -> i128 {
    let clock = &replay.source.info().clock;
    let after = i128::from(clock.nanos(time.since(replay.begin)).0);
    after - i128::from(clock.nanos(replay.begin.since(time)).0)
}
