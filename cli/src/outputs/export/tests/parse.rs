//! Readers of the exports for tests, by their formats' descriptions alone; and a trace made to order.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};

use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::writer::Output;
use fdr_formats::{Call, CpuId, Mark, Thread, ThreadId, Ticks, TraceInfo, registry};
use serde_json::Value;

use super::wire;

/// The figures of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) own: u64,
    /// Of outermost calls of it.
    pub(super) total: u64,
}

pub(super) type ByName = BTreeMap<String, Sums>;

/// What a reader of the format finds.
pub(super) fn sums(format: &str, bytes: &[u8]) -> ByName {
    match format {
        "chrome" => chrome(bytes),
        "folded" => folded(bytes),
        "csv" => of_csv(bytes),
        "firefox" => firefox(bytes),
        "otlp-json" => otlp_json(bytes),
        "perfetto" => wire::perfetto(bytes),
        "pprof" => wire::pprof(bytes),
        "otlp" => wire::otlp(bytes),
        other => panic!("no reader of {other}"),
    }
}

/// How a name is written in the format.
pub(super) fn as_written(format: &str, name: &str) -> String {
    let clean = crate::ui::clean(name).into_owned();
    match format {
        "folded" => clean.replace(';', ":"),
        "csv" if clean.trim_start().starts_with(['=', '+', '-', '@']) => format!("'{clean}"),
        "csv" => clean,
        _ => name.to_owned(),
    }
}

/// Calls of one thread that open and close.
#[derive(Default)]
pub(super) struct Stack {
    pub(super) open: Vec<(String, u64, u64)>,
    now: u64,
}

impl Stack {
    pub(super) fn open(&mut self, name: &str, at: u64) {
        assert!(at >= self.now, "{name} at {at}, after {}", self.now);
        self.now = at;
        self.open.push((name.to_owned(), at, 0));
    }

    /// The innermost one closes, and must be that.
    pub(super) fn close(&mut self, name: Option<&str>, at: u64, sums: &mut ByName) {
        assert!(at >= self.now, "{name:?} at {at}, after {}", self.now);
        self.now = at;
        let (own, start, children) = self.open.pop().expect("an open call");
        assert!(name.is_none_or(|name| name == own), "{name:?} closes {own}");
        let total = at - start;
        let is_outermost = self.open.iter().all(|(name, ..)| *name != own);
        if let Some((_, _, children)) = self.open.last_mut() {
            *children += total;
        }
        if own == "[short]" {
            return;
        }
        let sums = sums.entry(own).or_default();
        sums.calls += 1;
        sums.own += total - children;
        sums.total += total * u64::from(is_outermost);
    }
}

fn chrome(bytes: &[u8]) -> ByName {
    let all: Value = serde_json::from_slice(bytes).expect("JSON");
    // The text of a number, because a float would round it.
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let times: Vec<u64> = text
        .match_indices(",\"ts\":")
        .map(|(at, key)| {
            let rest = &text[at + key.len()..];
            let end = rest.find([',', '}']).expect("an end");
            let (micros, nanos) = rest[..end].split_once('.').expect("decimals");
            assert_eq!(nanos.len(), 3);
            micros.parse::<u64>().expect("µs") * 1000 + nanos.parse::<u64>().expect("ns")
        })
        .collect();
    let mut times = times.into_iter();
    let mut sums = ByName::new();
    let mut stacks: HashMap<u64, Stack> = HashMap::new();
    for event in all["traceEvents"].as_array().expect("events") {
        let phase = event["ph"].as_str().expect("a phase");
        if phase == "M" {
            continue;
        }
        let at = times.next().expect("a time");
        let micros = event["ts"].as_f64().expect("a number");
        assert!((micros * 1000.0 - at as f64).abs() < 0.01, "{micros} {at}");
        let stack = stacks
            .entry(event["tid"].as_u64().expect("a thread"))
            .or_default();
        match phase {
            "B" => stack.open(event["name"].as_str().expect("a name"), at),
            "E" => stack.close(event["name"].as_str(), at, &mut sums),
            "i" | "C" | "s" | "t" | "f" | "b" | "e" => {}
            other => panic!("{other}"),
        }
    }
    assert!(stacks.values().all(|stack| stack.open.is_empty()));
    assert_eq!(times.next(), None);
    sums
}

fn folded(bytes: &[u8]) -> ByName {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let mut sums = ByName::new();
    for line in text.lines() {
        let (path, own) = line.rsplit_once(' ').expect("a time");
        let path = path.strip_suffix(";[open]").unwrap_or(path);
        let name = path.rsplit(';').next().expect("a name");
        if name != "[short]" {
            sums.entry(name.to_owned()).or_default().own += own.parse::<u64>().expect("ns");
        }
    }
    sums
}

fn firefox(bytes: &[u8]) -> ByName {
    let all: Value = serde_json::from_slice(bytes).expect("JSON");
    let mut sums = ByName::new();
    for thread in all["threads"].as_array().expect("threads") {
        let column = |table: &str, name: &str| {
            let table = &thread[table];
            let column = table[name].as_array().expect("a column");
            assert_eq!(table["length"], column.len());
            column.clone()
        };
        let ns = |ms: &Value| (ms.as_f64().expect("ms") * 1e6).round() as u64;
        let number = |value: &Value| value.as_u64().expect("a place") as usize;
        let (prefix, frame) = (
            column("stackTable", "prefix"),
            column("stackTable", "frame"),
        );
        let (func, names) = (column("frameTable", "func"), column("funcTable", "name"));
        let texts = thread["stringArray"].as_array().expect("texts");
        let name = |stack: usize| {
            let name = &names[number(&func[number(&frame[stack])])];
            texts[number(name)].as_str().expect("a name").to_owned()
        };
        let (stacks, weights) = (column("samples", "stack"), column("samples", "weight"));
        let times = column("samples", "timeDeltas");
        let mut before = 0;
        for ((stack, weight), delta) in stacks.iter().zip(&weights).zip(&times) {
            // A sample lasts until the next one.
            assert!(ns(delta) == before || before == 0, "{delta} after {before}");
            before = ns(weight);
            let mut at = stack.as_u64();
            let mut names = Vec::new();
            while let Some(stack) = at {
                let own = name(stack as usize);
                if own != "[short]" && !names.contains(&own) {
                    let sums = sums.entry(own.clone()).or_default();
                    sums.total += ns(weight);
                    sums.own += ns(weight) * u64::from(names.is_empty());
                }
                names.push(own);
                at = prefix[stack as usize].as_u64();
                assert!(at.is_none_or(|at| at < stack), "callers come first");
            }
        }
    }
    sums
}

/// A span: its id, the id of the one around it, its name, its whole time and its own.
pub(super) type Span = (Vec<u8>, Vec<u8>, String, u64, u64);

/// The sums of spans.
pub(super) fn of_spans(spans: &[Span]) -> ByName {
    let by_id: HashMap<&[u8], &Span> = spans.iter().map(|span| (&span.0[..], span)).collect();
    assert_eq!(by_id.len(), spans.len(), "each has an id of its own");
    let mut sums = ByName::new();
    for (_, parent, name, total, own) in spans {
        let mut at = by_id.get(&parent[..]);
        assert!(parent.is_empty() || at.is_some());
        let mut is_outermost = true;
        while let Some((_, parent, around, ..)) = at {
            is_outermost &= around != name;
            at = by_id.get(&parent[..]);
        }
        let sums = sums.entry(name.clone()).or_default();
        sums.calls += 1;
        sums.own += own;
        sums.total += total * u64::from(is_outermost);
    }
    sums
}

fn otlp_json(bytes: &[u8]) -> ByName {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let mut spans = Vec::new();
    for line in text.lines() {
        let data: Value = serde_json::from_str(line).expect("JSON");
        let part = &data["resourceSpans"][0]["scopeSpans"][0]["spans"];
        for span in part.as_array().expect("spans") {
            let text = |field: &str| span[field].as_str().expect("a text");
            let time = |field: &str| text(field).parse::<u64>().expect("ns");
            assert_eq!(text("traceId").len(), 32);
            let attributes = span["attributes"].as_array().expect("attributes");
            let own = attributes.iter().find(|pair| pair["key"] == "fdr.self_ns");
            let own = own.expect("its own time")["value"]["intValue"]
                .as_str()
                .expect("a number");
            spans.push((
                text("spanId").as_bytes().to_vec(),
                text("parentSpanId").as_bytes().to_vec(),
                text("name").to_owned(),
                time("endTimeUnixNano") - time("startTimeUnixNano"),
                own.parse().expect("ns"),
            ));
        }
    }
    of_spans(&spans)
}

/// Calls as they ended, each with its time and depth: a call is outermost if no call of its function is around it.
#[derive(Default)]
struct EndedCalls {
    /// Of each depth, the calls that wait for the one around them.
    waiting: Vec<Vec<(String, u64)>>,
}

impl EndedCalls {
    /// The sums of calls in which no other call of their function is.
    fn add(&mut self, name: &str, depth: usize, total: u64) {
        if self.waiting.len() <= depth + 1 {
            self.waiting.resize_with(depth + 2, Vec::new);
        }
        let mut inside = std::mem::take(&mut self.waiting[depth + 1]);
        inside.retain(|(known, _)| known != name);
        self.waiting[depth].extend(inside);
        self.waiting[depth].push((name.to_owned(), total));
    }

    fn finish(self, sums: &mut ByName) {
        for (name, total) in self.waiting.into_iter().flatten() {
            sums.entry(name).or_default().total += total;
        }
    }
}

fn of_calls(calls: impl Iterator<Item = (u64, String, usize, u64, u64)>) -> ByName {
    let mut sums = ByName::new();
    let mut threads: HashMap<u64, EndedCalls> = HashMap::new();
    for (thread, name, depth, total, own) in calls {
        threads.entry(thread).or_default().add(&name, depth, total);
        let sums = sums.entry(name).or_default();
        sums.calls += 1;
        sums.own += own;
    }
    for ended in threads.into_values() {
        ended.finish(&mut sums);
    }
    sums
}

fn of_csv(bytes: &[u8]) -> ByName {
    let mut reader = csv::Reader::from_reader(bytes);
    let rows: Vec<HashMap<String, String>> = reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect();
    of_calls(rows.iter().filter(|row| row["type"] == "call").map(|row| {
        let number = |column: &str| row[column].parse::<u64>().expect("a number");
        (
            number("thread"),
            row["name"].clone(),
            number("depth") as usize,
            number("total_ns"),
            number("self_ns"),
        )
    }))
}

/// Facts of a trace that is made to order.
pub(super) fn xray() -> TraceInfo {
    TraceInfo::default()
}

/// A step of a thread.
pub(super) enum Step {
    Call(Call),
    Mark(Mark<'static>),
    Note(Ticks, NoteKind, Vec<u8>),
}

impl Step {
    pub(super) fn note(time: u64, note: &Note<'_>) -> Step {
        let body = note.encode().expect("a note");
        Step::Note(Ticks(time), note.kind(), body)
    }
}

/// What makes a trace of steps.
pub(super) trait TraceWriter {
    /// An XRay trace of thread 7 on CPU 3.
    fn write(&self, thread: &str, steps: &[Step]) -> Vec<u8>;
}

impl TraceWriter for TraceInfo {
    fn write(&self, thread: &str, steps: &[Step]) -> Vec<u8> {
        let target = registry::target("xray").expect("XRay");
        let file = tempfile::tempfile().expect("a file");
        let mut copy = file.try_clone().expect("the same file");
        let mut writer = (target.create)(Output::File(file), self).expect("begun");
        writer.thread(&Thread {
            id: ThreadId(7),
            name: thread.to_owned(),
            ..Thread::default()
        });
        writer.mark(&Mark::Cpu {
            time: Ticks(1000),
            cpu: CpuId(3),
        });
        for step in steps {
            match step {
                Step::Call(call) => writer.calls(&[*call]),
                Step::Mark(mark) => writer.mark(mark),
                Step::Note(time, kind, body) => writer.mark(&Mark::Note {
                    time: *time,
                    kind: *kind,
                    body,
                }),
            }
        }
        writer.finish().expect("written");
        let mut bytes = Vec::new();
        copy.rewind().expect("a file");
        copy.read_to_end(&mut bytes).expect("readable");
        bytes
    }
}
