//! The report as JSON, for scripts. Times are integers in nanoseconds; `null` where no call of a
//! function was measured from its entry to its exit, and where the function is untimed.
//!
//! Names are exact. Characters that could act on a terminal are written as `\u` escapes. So are characters that could
//! end a script, because the text may be put into the script of a page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use fdr_formats::identity::{Identity, Part};
use fdr_formats::model::{Level, Missing, RecordingCost};
use fdr_formats::trigger::{CallEnd, Occurrence, Reason};
use fdr_formats::{Diagnostic, TraceInfo};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::events::{CounterRow, EventRow};
use super::function_rows::Row;
use super::moments::Moment;
use super::rows::{OpenRow, Report, ThreadRow};
use super::states::{Coarse, InStates};
use super::waits::{OpenWait, WaitRow};
use crate::ui;

/// Indented JSON in which nothing but printable characters occurs.
pub(crate) fn print<T: Serialize>(out: &mut dyn Write, value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    writeln!(out, "{}", printable(&text))?;
    Ok(())
}

/// Prints a document of one trace: what each of them begins with, and what it has.
pub(crate) fn print_of(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    document: Value,
) -> anyhow::Result<()> {
    let mut all = head(file, info);
    if let (Value::Object(all), Value::Object(document)) = (&mut all, document) {
        all.extend(document);
    }
    print(out, &all)
}

/// JSON on one line in which nothing but printable characters occurs.
pub(crate) fn line<T: Serialize>(value: &T) -> String {
    // Nothing that is printed here has a map without text for keys.
    let text = serde_json::to_string(value).unwrap_or_default();
    printable(&text).into_owned()
}

/// Writes all of a report.
pub(crate) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    report: &Report,
) -> anyhow::Result<()> {
    print(out, &Document::new(file, info, report))
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Value,
    reason: &'a str,
    clock: Value,
    has_times: bool,
    duration_ns: u64,
    records: u64,
    lost_records: u64,
    scope: &'static str,
    functions: &'a [Row],
    functions_not_shown: usize,
    whole_run: Option<&'a [Row]>,
    events: &'a [EventRow],
    counters: &'a [CounterRow],
    events_not_shown: usize,
    waits: &'a [WaitRow],
    waits_not_shown: usize,
    waiting: &'a [OpenWait],
    failed_thread: Option<u64>,
    trigger: Option<Value>,
    open_calls: &'a [OpenRow],
    marks: &'a [Moment],
    earlier_marks: u64,
    recording_cost: Option<Value>,
    window_note: Option<&'a str>,
    threads: Vec<Thread<'a>>,
    missing: Value,
    balance: Value,
    diagnostics: Value,
    diagnostics_not_shown: u64,
    clock_notes: &'a [String],
}

/// The cost of recording at the end of the trace, and the budget, in millionths of the program's CPU time.
fn cost(cost: RecordingCost) -> Value {
    json!({ "share": cost.share, "budget": cost.budget })
}

/// The trigger that made the trace, and the call that it waited for.
pub(crate) fn trigger(reason: Reason<'_>) -> Value {
    let call = reason.call();
    let what = match reason.occurrence {
        Occurrence::Other(words) => Some(words).filter(|words| !words.is_empty()),
        Occurrence::Call(_) => None,
    };
    json!({
        "text": reason.trigger,
        "what": what,
        "function": call.map(|call| call.function),
        "task": call.and_then(|call| call.task),
        "thread": call.map(|call| call.thread),
        "thread_name": call.map(|call| call.thread_name),
        "took_ns": call.map(|call| call.took_ns),
        "threshold_ns": reason.threshold_ns(),
        "begin_unix_ns": call.map(|call| call.begin_unix_ns),
        "returned": call.map(|call| call.end == CallEnd::Returned),
        "dropped": call.map(|call| call.end == CallEnd::Dropped),
    })
}

/// What each document of one trace begins with.
pub(crate) fn head(file: &str, info: &TraceInfo) -> Value {
    json!({
        "file": file,
        "format": info.format,
        "program": info.program,
        "process": info.process,
        "identity": identity(&info.identity),
    })
}

/// Whom the trace is of; `null` for what it does not say.
fn identity(identity: &Identity) -> Value {
    let part = |part| Some(identity.get(part)).filter(|text| !text.is_empty());
    json!({
        "host": part(Part::Host),
        "boot_id": part(Part::Boot),
        "build_id": part(Part::Build),
        "version": part(Part::Version),
        "tags": identity.tags().collect::<BTreeMap<_, _>>(),
    })
}

impl<'a> Document<'a> {
    fn new(file: &'a str, info: &'a TraceInfo, report: &'a Report) -> Document<'a> {
        Document {
            head: head(file, info),
            reason: &info.reason,
            clock: clock(info),
            has_times: !report.timeless,
            duration_ns: report.duration_ns,
            records: report.records(),
            lost_records: report.lost(),
            scope: match report.is_whole || report.has_all {
                true => "whole_run",
                false => "records",
            },
            functions: &report.rows,
            functions_not_shown: report.hidden,
            whole_run: match report.is_whole {
                true => Some(&report.rows),
                false => report.whole.as_ref().map(|whole| whole.rows.as_slice()),
            },
            events: &report.events.events,
            counters: &report.events.counters,
            events_not_shown: report.events.hidden,
            waits: &report.waits.rows,
            waits_not_shown: report.waits.hidden,
            waiting: &report.waits.open,
            failed_thread: info.failed_thread().map(|thread| thread.0),
            trigger: info.trigger().map(trigger),
            open_calls: &report.open,
            marks: &report.moments.list,
            earlier_marks: report.moments.earlier,
            recording_cost: report.recording_cost.map(cost),
            window_note: report.window_note.as_deref(),
            threads: report.threads.iter().map(Thread::new).collect(),
            missing: missing(&report.missing),
            balance: json!({
                "clipped_calls": report.clipped,
                "exits_without_entry": report.flaws.missing_entries,
                "entries_without_exit": report.flaws.missing_exits + report.flaws.open,
            }),
            diagnostics: diagnostics(&report.diagnostics),
            diagnostics_not_shown: report.more_diagnostics,
            clock_notes: &report.clock_notes,
        }
    }
}

/// The word for how the calls of a function were recorded in the end.
pub(crate) fn level_in_words(level: Level) -> &'static str {
    match level {
        Level::Timed => "timed",
        Level::Counted => "counted",
        Level::LookedAt => "looked_at",
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let timed = |ns: u64| (!self.untimed).then_some(ns);
        let mut row = serializer.serialize_struct("Row", 22)?;
        row.serialize_field("name", &self.name)?;
        row.serialize_field("file", &self.file)?;
        row.serialize_field("line", &self.line)?;
        row.serialize_field("id", &self.id)?;
        row.serialize_field("calls", &self.calls)?;
        row.serialize_field("clipped", &self.clipped)?;
        row.serialize_field("untimed", &self.untimed)?;
        row.serialize_field("counted", &self.counted)?;
        row.serialize_field("level", level_in_words(self.level))?;
        row.serialize_field("calls_error", &self.calls_error)?;
        row.serialize_field("error_ns", &self.error_ns)?;
        row.serialize_field("nests", &self.nests)?;
        row.serialize_field("of_records", &self.of_records)?;
        row.serialize_field("total_ns", &timed(self.total_ns))?;
        row.serialize_field("self_ns", &timed(self.self_ns))?;
        row.serialize_field("min_ns", &self.min_ns)?;
        row.serialize_field("mean_ns", &self.mean_ns)?;
        row.serialize_field("p50_ns", &self.p50_ns)?;
        row.serialize_field("p90_ns", &self.p90_ns)?;
        row.serialize_field("p99_ns", &self.p99_ns)?;
        row.serialize_field("max_ns", &self.max_ns)?;
        row.serialize_field("states", &self.states)?;
        row.end()
    }
}

/// The clock of a trace.
pub(crate) fn clock(info: &TraceInfo) -> Value {
    let clock = &info.clock;
    json!({
        "name": clock.name,
        "frequency_hz": clock.frequency,
        "error_ppm": clock.error_ppm.filter(|ppm| ppm.is_finite()),
        "constant": clock.constant,
        "nonstop": clock.nonstop,
        "skew_ns": clock.faults.skew_ns,
        "steps_back": clock.faults.steps_back,
        "ahead_ns": clock.faults.ahead_ns,
        "wall_step_ns": clock.faults.wall_step_ns,
    })
}

/// A thread; what the recorder counted is `null` where the trace does not say it.
#[derive(Serialize)]
pub(crate) struct Thread<'a> {
    id: u64,
    name: &'a str,
    process: Option<u64>,
    duration_ns: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    self_ns: Option<u64>,
    records: u64,
    synthetic_records: u64,
    lost_records: u64,
    clock_breaks: u64,
    recorded: Option<u64>,
    readable: Option<u64>,
    overwritten: Option<u64>,
    dropped: Option<u64>,
    summarised: Option<u64>,
    short_calls: u64,
    short_ns: u64,
    states: Option<InStates>,
    coarse: Option<Coarse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<&'a [Row]>,
}

impl Thread<'_> {
    pub(crate) fn new(row: &ThreadRow) -> Thread<'_> {
        Thread {
            id: row.id,
            name: &row.name,
            process: row.process,
            duration_ns: row.duration_ns,
            first_ns: row.window_ns.map(|(first, _)| first),
            last_ns: row.window_ns.map(|(_, last)| last),
            self_ns: row.rows.as_ref().map(|_| row.self_ns),
            records: row.records,
            synthetic_records: row.synthetic,
            lost_records: row.lost,
            clock_breaks: row.breaks,
            recorded: row.counts.map(|counts| counts.recorded),
            readable: row.counts.map(|counts| counts.readable),
            overwritten: row.counts.map(|counts| counts.overwritten),
            dropped: row.counts.map(|counts| counts.dropped),
            summarised: row.counts.map(|counts| counts.summarised),
            short_calls: row.short_calls,
            short_ns: row.short_ns,
            states: row.states.spent,
            coarse: row.states.coarse,
            functions: row.rows.as_deref(),
        }
    }
}

/// Records of threads that are not in the trace.
pub(crate) fn missing(missing: &Missing) -> Value {
    json!({
        "dropped": missing.dropped,
        "overwritten": missing.overwritten,
        "threads": missing.threads,
    })
}

/// What is wrong in the trace, and where.
pub(crate) fn diagnostics(diagnostics: &[Diagnostic]) -> Value {
    let problem = |found: &Diagnostic| json!({ "offset": found.offset, "what": found.what });
    diagnostics.iter().map(problem).collect()
}

/// JSON with more escapes than JSON requires. These characters are only in its texts, so the structure stays the same.
fn printable(json: &str) -> Cow<'_, str> {
    let is_unfit = |(at, character): (usize, char)| {
        let ends_script = character == '<' && json[at + 1..].starts_with(['/', '!']);
        let is_space = character == '\n';
        ((ui::is_unsafe(character) && !is_space) || ends_script).then_some((at, character))
    };
    let (mut text, mut done) = (String::new(), 0);
    for (at, character) in json.char_indices().filter_map(is_unfit) {
        text.push_str(&json[done..at]);
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
        done = at + character.len_utf8();
    }
    match done {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(text + &json[done..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_harmless() {
        let name = "a\u{9b}2J\u{7f}\u{202e}b\"\\\n\x1bé\u{e0041}";
        let mut out = Vec::new();
        print(&mut out, &[name]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "[\n  \"a\\u009b2J\\u007f\\u202eb\\\"\\\\\\n\\u001bé\\udb40\\udc41\"\n]\n"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name]);
    }
}
