//! `profile.proto`, gzipped, as Go's pprof, Pyroscope and Parca read it: for each path of calls how many there were and
//! the ns that its last function spent by itself. The message is written in parts, because a reader joins the parts of
//! a message that follow one another.
//!
//! Source of the message: `proto/profile.proto` of github.com/google/pprof.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::facts::Facts;
use super::paths::Folded;
use super::{Capabilities, Export, Make, Out, target};
use crate::tree::call_tree::{Label, Node};

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("pprof", "pprof", "pb.gz"),
    holds: Capabilities {
        places: true,
        ..super::paths::HOLDS
    },
    make: Make::Paths(write),
};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

/// Both are places in the table of texts.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Tag>,
}

#[derive(Clone, PartialEq, Message)]
struct Tag {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

/// The texts before those of the trace.
const TEXTS: [&str; 7] = ["", "calls", "count", "time", "nanoseconds", "state", "open"];
const TIME: ValueType = ValueType { kind: 3, unit: 4 };

/// Functions that have been written, and the number of texts so far.
struct Tables<'a> {
    facts: &'a Facts,
    locations: HashMap<Label, u64>,
    texts: i64,
}

impl Tables<'_> {
    fn text(&mut self, text: String, part: &mut Profile) -> i64 {
        part.string_table.push(text);
        self.texts += 1;
        self.texts - 1
    }

    /// The number of a function's place. A function that is new goes into the part.
    fn location(&mut self, label: Label, part: &mut Profile) -> u64 {
        if let Some(&known) = self.locations.get(&label) {
            return known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(label, id);
        let name = self.text(super::paths::name(self.facts, label), part);
        let (file, line) = match label {
            Label::Function(function) => self.facts.place(function).unwrap_or_default(),
            _ => ("", 0),
        };
        let filename = match file {
            "" => 0,
            file => self.text(file.to_owned(), part),
        };
        part.function.push(Function {
            id,
            name,
            // If `system_name` were the name, too, Go's pprof would take the name for one of C++, and cut out the text
            // in angle brackets. Then all methods of a trait would be one function.
            system_name: 0,
            filename,
            start_line: line.into(),
        });
        part.location.push(Location {
            id,
            line: vec![Line {
                function_id: id,
                line: line.into(),
            }],
        });
        id
    }
}

fn write(out: &mut Out, facts: &Facts, folded: &Folded) -> anyhow::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    let calls = ValueType { kind: 1, unit: 2 };
    put(
        &mut out,
        &Profile {
            sample_type: vec![calls, TIME],
            string_table: TEXTS.map(str::to_owned).to_vec(),
            time_nanos: facts.start_unix_ns().unwrap_or_default() as i64,
            duration_nanos: facts.ns(facts.end) as i64,
            period_type: Some(TIME),
            period: 1,
            default_sample_type: TIME.kind,
            ..Profile::default()
        },
    )?;
    let mut tables = Tables {
        facts,
        locations: HashMap::new(),
        texts: TEXTS.len() as i64,
    };
    let nodes: Vec<&Node> = folded.tree.nodes().map(|(_, node)| node).collect();
    for node in &nodes {
        if node.own == 0 && node.calls == 0 {
            continue;
        }
        let mut part = Profile::default();
        let mut sample = Sample {
            value: vec![node.calls as i64, facts.length(node.own) as i64],
            ..Sample::default()
        };
        let mut at = *node;
        if at.label == Label::Open {
            sample.label.push(Tag { key: 5, text: 6 });
            at = nodes[at.caller.index()];
        }
        while at.label != Label::Root {
            let location = tables.location(at.label, &mut part);
            sample.location_id.push(location);
            at = nodes[at.caller.index()];
        }
        part.sample.push(sample);
        put(&mut out, &part)?;
    }
    out.finish()?;
    Ok(())
}

fn put(out: &mut impl Write, part: &Profile) -> io::Result<()> {
    out.write_all(&part.encode_to_vec())
}
