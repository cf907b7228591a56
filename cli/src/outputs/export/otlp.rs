//! Spans of OpenTelemetry, for Jaeger, Tempo and other receivers of OTLP. Each outermost call is a trace, the calls in it
//! are its spans. `otlp` is the protobuf message `TracesData`, which is also the body of a request to `/v1/traces`;
//! `otlp-json` has such messages as JSON, one a line. Both are written in parts of [`MAX_SPANS`] spans.
//!
//! Source of the messages: `opentelemetry/proto/trace/v1/trace.proto` of
//! github.com/open-telemetry/opentelemetry-proto, with the fields that are used.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::identity::Part;
use fdr_formats::{FunctionId, Losses};
use prost::Message;
use serde::{Serialize, Serializer};

use super::facts::{Facts, Lane};
use super::receiver::{Happening, HappeningKind, ReceivedCall, Receiver, UnrecordedCalls};
use super::value::{Value, Values};
use super::{Capabilities, Export, Make, Out, target};

const HOLDS: Capabilities = Capabilities {
    arguments: true,
    events: true,
    gaps: true,
    clipped: true,
    places: true,
    short: false,
    ..Capabilities::NONE
};

/// The message.
pub(super) const EXPORT: Export = Export {
    target: target("otlp", "OTLP traces", "otlp.pb"),
    holds: HOLDS,
    make: Make::Calls(|out, facts| Ok(Box::new(Spans::new(out, facts, binary)))),
};

/// The same as JSON.
pub(super) const JSON: Export = Export {
    target: target("otlp-json", "OTLP traces as JSON lines", "otlp.jsonl"),
    holds: HOLDS,
    make: Make::Calls(|out, facts| Ok(Box::new(Spans::new(out, facts, lines)))),
};

/// Spans of a part.
const MAX_SPANS: usize = 1000;
/// Events of a span, as OpenTelemetry limits them. The rest is counted.
const MAX_EVENTS: usize = 128;

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct TracesData {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hex")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hex")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hex")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "text")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "text")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
    #[prost(uint32, tag = "12")]
    dropped_events_count: u32,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "text")]
    time_unix_nano: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

/// Exactly one of the fields is set.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<String>,
    #[prost(bool, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    bool_value: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    int_value: Option<i64>,
    #[prost(double, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    double_value: Option<f64>,
}

/// JSON has ids as hexadecimal digits, and numbers of 64 bits as text.
fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits)
}

fn text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn number<S: Serializer>(number: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&number.unwrap_or_default())
}

type WriteMessage = fn(&mut Out, &TracesData) -> io::Result<()>;

fn binary(out: &mut Out, data: &TracesData) -> io::Result<()> {
    out.write_all(&data.encode_to_vec())
}

fn lines(out: &mut Out, data: &TracesData) -> io::Result<()> {
    serde_json::to_writer(&mut *out, data).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

struct Spans {
    out: Out,
    facts: Arc<Facts>,
    put: WriteMessage,
    resource: Resource,
    ready: Vec<Span>,
    /// The open calls of each thread.
    open: Vec<Vec<Open>>,
    /// What makes the ids of this trace other ones than those of another trace.
    seed: DefaultHasher,
    count: u64,
    /// What happened outside of calls.
    outside: u64,
    /// The start since 1970, or by the trace's clock.
    start_ns: u64,
}

#[derive(Default)]
struct Open {
    trace: u128,
    id: u64,
    start: u64,
    events: Vec<Event>,
    dropped: u32,
}

fn key(key: &str, value: AnyValue) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(value),
    }
}

fn any(value: &Value) -> AnyValue {
    let mut any = AnyValue::default();
    match value {
        Value::Unsigned(number) => match i64::try_from(*number) {
            Ok(number) => any.int_value = Some(number),
            Err(_) => any.string_value = Some(number.to_string()),
        },
        Value::Signed(number) => any.int_value = Some(*number),
        Value::Float(number) => any.double_value = Some(*number),
        Value::Truth(truth) => any.bool_value = Some(*truth),
        Value::Text(text) => any.string_value = Some(text.clone()),
    }
    any
}

fn attributes(values: &Values) -> Vec<KeyValue> {
    values
        .iter()
        .map(|(name, value)| key(name, any(value)))
        .collect()
}

impl Spans {
    fn new(out: Out, facts: &Arc<Facts>, put: WriteMessage) -> Spans {
        let mut values = Values::default();
        values.add("service.name", Value::Text(facts.title()));
        values.add("process.pid", Value::Unsigned(facts.process()));
        for (name, part) in [
            ("host.name", Part::Host),
            ("service.version", Part::Version),
        ] {
            let text = facts.info.identity.get(part);
            if !text.is_empty() {
                values.add(name, Value::Text(text.to_owned()));
            }
        }
        let mut seed = DefaultHasher::new();
        facts.info.identity.as_bytes().hash(&mut seed);
        (facts.info.process, facts.info.dump).hash(&mut seed);
        (facts.start_unix_ns(), facts.start_ns()).hash(&mut seed);
        Spans {
            out,
            put,
            resource: Resource {
                attributes: attributes(&values),
            },
            ready: Vec::new(),
            open: Vec::new(),
            seed,
            count: 0,
            outside: 0,
            start_ns: facts.start_unix_ns().unwrap_or(facts.start_ns()),
            facts: facts.clone(),
        }
    }

    /// An id that is not 0.
    fn id(&mut self) -> u64 {
        self.count += 1;
        let mut hasher = self.seed.clone();
        self.count.hash(&mut hasher);
        hasher.finish().max(1)
    }

    fn time(&self, at: u64) -> u64 {
        self.start_ns.saturating_add(at)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let data = TracesData {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(Scope {
                        name: "fdr".to_owned(),
                    }),
                    spans: std::mem::take(&mut self.ready),
                }],
            }],
        };
        (self.put)(&mut self.out, &data)
    }
}

impl Receiver for Spans {
    fn thread(&mut self, _: &Lane) -> io::Result<()> {
        self.open.push(Vec::new());
        Ok(())
    }

    fn entered(&mut self, lane: &Lane, _: FunctionId, at: u64) -> io::Result<()> {
        let id = self.id();
        let around = self.open.get(lane.at).and_then(|open| open.last());
        let trace = match around {
            Some(around) => around.trace,
            None => u128::from(self.id()) << 64 | u128::from(id),
        };
        if let Some(open) = self.open.get_mut(lane.at) {
            open.push(Open {
                trace,
                id,
                start: at,
                ..Open::default()
            });
        }
        Ok(())
    }

    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()> {
        let Some(open) = self.open.get_mut(lane.at) else {
            return Ok(());
        };
        let Some(own) = open.pop() else { return Ok(()) };
        let parent = open.last().map(|around| around.id.to_be_bytes().to_vec());
        let mut all = attributes(call.arguments);
        let number = |number: u64| any(&Value::Unsigned(number));
        all.push(key("thread.id", number(lane.id.0)));
        all.push(key("thread.name", any(&Value::Text(lane.name.clone()))));
        if let Some((file, line)) = self.facts.place(call.function) {
            all.push(key("code.file.path", any(&Value::Text(file.to_owned()))));
            all.push(key("code.line.number", number(line.into())));
        }
        all.push(key("fdr.self_ns", number(call.own)));
        if call.clipped {
            all.push(key("fdr.clipped", any(&Value::Truth(true))));
        }
        let mut values = call.arguments.iter();
        let status = values.find_map(|(name, value)| match value {
            Value::Text(message) if name == "error" => Some(Status {
                message: message.clone(),
                code: 2,
            }),
            _ => None,
        });
        // What bridges from `tracing` to OpenTelemetry name a span by.
        let named = call.arguments.iter().find_map(|(name, value)| match value {
            Value::Text(text) if name == "otel.name" => Some(text.clone()),
            _ => None,
        });
        let span = Span {
            trace_id: own.trace.to_be_bytes().to_vec(),
            span_id: own.id.to_be_bytes().to_vec(),
            parent_span_id: parent.unwrap_or_default(),
            name: named.unwrap_or_else(|| self.facts.name(call.function)),
            kind: 1,
            start_time_unix_nano: self.time(own.start),
            end_time_unix_nano: self.time(call.at),
            attributes: all,
            events: own.events,
            dropped_events_count: own.dropped,
            status,
        };
        self.ready.push(span);
        match self.ready.len() >= MAX_SPANS {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn short(&mut self, _: &Lane, _: &UnrecordedCalls) -> io::Result<()> {
        Ok(())
    }

    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let time_unix_nano = self.time(what.at);
        let open = self.open.get_mut(lane.at).and_then(|open| open.last_mut());
        if what.what == HappeningKind::Cpu {
            return Ok(());
        }
        let Some(open) = open else {
            self.outside += 1;
            return Ok(());
        };
        if open.events.len() >= MAX_EVENTS {
            open.dropped = open.dropped.saturating_add(1);
            return Ok(());
        }
        let mut all = attributes(what.values);
        all.push(key("type", any(&Value::Text(what.what.word().to_owned()))));
        open.events.push(Event {
            time_unix_nano,
            name: what.name.to_owned(),
            attributes: all,
        });
        Ok(())
    }

    fn losses(&self, losses: &mut Losses) {
        losses.add("events outside of calls: left out", self.outside);
        if self.facts.start_unix_ns().is_none() {
            let what = "clock without a time of day: its times stand for those since 1970";
            losses.add(what, 1);
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write()?;
        self.out.flush()
    }
}
