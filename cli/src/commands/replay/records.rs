//! `fdr replay --records`: one line for every record of the file, in the order of the file.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;

use fdr_formats::note_words;
use fdr_formats::notes::{Field, Note};
use fdr_formats::source::Record;
use fdr_formats::{Clock, Ticks, TraceInfo};
use serde::Serialize;

use super::Options;
use crate::commands::{Series, Status};
use crate::report::json;
use crate::report::json_field::JsonField;
use crate::selection::{self, Filtering};
use crate::{trace, ui};

/// A byte offset: `8000` or `0x1f40`.
pub(super) fn offset(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "a byte offset is a number, as 8000 or 0x1f40".to_owned())
}

/// Prints the records of each trace.
pub(super) fn run(options: &Options) -> anyhow::Result<Status> {
    options
        .traces
        .each(|trace, series| one(options, trace, series))
}

fn one(options: &Options, trace: &Path, series: &mut Series) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    let mut left = options.limit.unwrap_or(usize::MAX);
    let mut origin = selection::begin(&*source)?;
    let width = ui::columns().filter(|_| !options.json);
    ui::print(|out| {
        if !options.json {
            out.write_all(series.heading(trace).as_bytes())?;
        }
        let mut failure = None;
        let visited = source.records(&mut |record| {
            if let Some(time) = record.time {
                origin.get_or_insert(time);
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            if record.offset < options.offset.unwrap_or_default() {
                return ControlFlow::Continue(());
            }
            left -= 1;
            let info = source.info();
            let line = match options.json {
                true => json_line(record, trace, info, origin),
                false => line(record, &info.clock, origin),
            };
            let line = match width {
                Some(width) => fit(&line, width),
                None => line,
            };
            match writeln!(out, "{line}") {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        visited.map_err(|error| trace::about(trace, error))?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    })?;
    for diagnostic in source.diagnostics() {
        ui::complain(&format!("{}: {diagnostic}", ui::path(trace)));
    }
    Ok(Status::Done)
}

/// A record as JSON: see docs/json.md.
#[derive(Serialize)]
struct JsonRecord<'a> {
    file: &'a str,
    offset: u64,
    size: u64,
    thread: Option<u64>,
    time_ns: Option<u64>,
    since_first_ns: Option<i128>,
    function: Option<u32>,
    name: Option<&'a str>,
    kind: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<JsonField<'a>>>,
}

/// The level of an event, and the fields of a note.
fn note_of<'a>(
    record: &Record<'_>,
    info: &'a TraceInfo,
) -> (Option<Cow<'static, str>>, Option<Vec<JsonField<'a>>>) {
    let note = record
        .note
        .and_then(|(kind, body)| Note::decode(kind, body));
    let json = |fields: &[Field<'_>]| Some(JsonField::list(fields, info));
    match note {
        Some(Note::Event { level, fields, .. }) => (note_words::level(level), json(&fields)),
        Some(Note::Arguments { fields, .. }) => (None, json(&fields)),
        _ => (None, None),
    }
}

fn json_line(record: &Record<'_>, trace: &Path, info: &TraceInfo, origin: Option<Ticks>) -> String {
    let nanos = |ticks: Ticks| info.clock.nanos(ticks).0;
    let name = record.function.and_then(|id| info.function(id));
    let (level, fields) = note_of(record, info);
    json::line(&JsonRecord {
        file: &trace.to_string_lossy(),
        offset: record.offset,
        size: record.size,
        thread: record.thread.map(|thread| thread.0),
        time_ns: record.time.map(nanos),
        since_first_ns: record.time.zip(origin).map(|(time, origin)| {
            i128::from(nanos(time.since(origin))) - i128::from(nanos(origin.since(time)))
        }),
        function: record.function.map(|id| id.0),
        name: name.map(|function| function.name.as_str()),
        kind: record.kind,
        detail: record.detail,
        level,
        fields,
    })
}

/// A line for a terminal. Words that are wider than the terminal lose their middle.
fn fit(line: &str, width: usize) -> String {
    const INDENT: usize = 4;
    let most = width.saturating_sub(INDENT).max(1);
    let words: Vec<_> = line
        .split(' ')
        .map(|word| ui::shorten(word, most))
        .collect();
    ui::wrap(&words.join(" "), width, INDENT)
}

fn line(record: &Record<'_>, clock: &Clock, origin: Option<Ticks>) -> String {
    let thread = record
        .thread
        .map_or("-".into(), |thread| thread.to_string());
    let time = match (record.time, origin) {
        (Some(time), Some(origin)) if time >= origin => {
            format!("+{} ns", clock.nanos(time.since(origin)).0)
        }
        (Some(time), Some(origin)) => format!("-{} ns", clock.nanos(origin.since(time)).0),
        _ => "-".into(),
    };
    format!(
        "{:#010x} {:>4} B {thread:>8} {time:>16}  {:<13} {}",
        record.offset,
        record.size,
        ui::clean(record.kind),
        ui::clean(record.detail)
    )
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use fdr_formats::ThreadId;

    use super::*;

    #[test]
    fn offsets() {
        assert_eq!(offset("8000"), Ok(8000));
        assert_eq!(offset("0x1f40"), Ok(8000));
        assert_eq!(offset("0X1F40"), Ok(8000));
        assert!(offset("f").is_err());
        assert!(offset("0x").is_err());
    }

    #[test]
    fn wide_words_lose_their_middle() {
        let name = format!("a{}z", "::b".repeat(40));
        let text = fit(&format!("0x00000020   16 B  {name} end"), 30);
        assert!(
            text.lines().all(|line| line.chars().count() <= 30),
            "{text}"
        );
        assert!(text.contains("a::b") && text.contains("bz\n"), "{text}");
        assert_eq!(fit("short words", 30), "short words");
    }

    #[test]
    fn a_line_is_one_line() {
        let record = Record {
            offset: 32,
            size: 16,
            thread: Some(ThreadId(7)),
            time: Some(Ticks(1500)),
            function: None,
            edge: None,
            note: None,
            kind: "CustomEvent",
            detail: "\"a\nb\x1b[0m\"",
        };
        assert_eq!(
            line(&record, &Clock::default(), Some(Ticks(1000))),
            "0x00000020   16 B        7          +500 ns  CustomEvent   \"a\\nb\\u{1b}[0m\""
        );
    }
}
