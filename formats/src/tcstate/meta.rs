//! meta.json: facts about the trace, and the parts of the trace that have no place in the history. This file is this
//! project's own addition to the proposal's files.
//!
//! ```text
//! format, version {major, minor}   "tcstate", 1.0
//! start, end, unit, timestamp      of the history, of state.json; unit "ns"
//! files {types, tree, state, history}
//! program, process, reason, dump, begin, dump_time, host, boot_id, build_id, program_version, tags, missing {…}, clock {name, error_ppm, constant, nonstop,
//!                                  skew_ns, steps_back, ahead_ns, wall_step_ns,
//!                                  anchor {time, unix}}
//! threads [{id, process, name, counts {…}, wall [seconds, micros],
//!           first, last            times of its entries and exits; left out without any
//!           before                 frames that were open before `first`, entered 1 ns earlier
//!           after }]               frames that a writer closed at `last`; still open in the history
//! functions [{id, name, file, line,
//!             string             number of the string that stands for it
//!             listed }]          false: the trace has no such function, but calls of it
//! ```
//! Members that say nothing are left out. A file that is damaged is read as if it were not there. All times are in ns of the trace's clock, but for `unix`.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::facts::{self, Fact, Names};
use crate::identity::Part;
use crate::json::{Bad, int, parse};
use crate::model::{Counts, Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo};

/// The facts of a thread that the history has beside its calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ThreadMeta {
    pub(super) thread: Thread,
    pub(super) wall: Option<(u64, u32)>,
    pub(super) span: Option<(i64, i64)>,
    pub(super) before: u32,
    pub(super) after: u32,
}

/// meta.json.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    /// Clock, program and so on, in ticks of that clock; without threads.
    pub(super) info: TraceInfo,
    pub(super) threads: Vec<ThreadMeta>,
    /// The string of each function that has calls.
    pub(super) strings: Vec<(u32, FunctionId)>,
}

/// Members about the trace, in their order.
const TRACE_NAMES: &Names = &[
    (Fact::Program, "program"),
    (Fact::Reason, "reason"),
    (Fact::Process, "process"),
    (Fact::Dump, "dump"),
    (Fact::Start, "begin"),
    (Fact::End, "dump_time"),
    (Fact::Identity(Part::Host), "host"),
    (Fact::Identity(Part::Boot), "boot_id"),
    (Fact::Identity(Part::Build), "build_id"),
    (Fact::Identity(Part::Version), "program_version"),
    (Fact::Identity(Part::Tags), "tags"),
];
const MISSING_NAMES: &Names = &[
    (Fact::MissingThreads, "retired_threads"),
    (Fact::MissingOverwritten, "retired_records"),
    (Fact::MissingDropped, "unplaced_records"),
];
const CLOCK_NAMES: &Names = &[
    (Fact::ClockName, "name"),
    (Fact::ErrorPpm, "error_ppm"),
    (Fact::Constant, "constant"),
    (Fact::Nonstop, "nonstop"),
    (Fact::SkewNs, "skew_ns"),
    (Fact::StepsBack, "steps_back"),
    (Fact::AheadNs, "ahead_ns"),
    (Fact::WallStepNs, "wall_step_ns"),
];
const ANCHOR_NAMES: &Names = &[(Fact::AnchorTime, "time"), (Fact::AnchorUnix, "unix")];

/// The members of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Members {
    format: String,
    version: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "is_default")]
    start: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    end: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    timestamp: Option<i64>,
    unit: String,
    files: BTreeMap<String, String>,
    /// About the trace.
    #[serde(flatten)]
    trace: Map<String, Value>,
    missing: Map<String, Value>,
    clock: Map<String, Value>,
    threads: Vec<ThreadMembers>,
    functions: Vec<FunctionMembers>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ThreadMembers {
    id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    process: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    counts: Option<BTreeMap<String, u64>>,
    #[serde(default, skip_serializing_if = "is_default")]
    wall: Option<(u64, u32)>,
    #[serde(default, skip_serializing_if = "is_default")]
    first: Option<i64>,
    #[serde(default, skip_serializing_if = "is_default")]
    last: Option<i64>,
    #[serde(default, skip_serializing_if = "is_default")]
    before: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    after: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct FunctionMembers {
    id: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    file: String,
    #[serde(default, skip_serializing_if = "is_default")]
    line: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    untimed: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    string: Option<u32>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    listed: bool,
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The facts with these names, as members.
fn facts_of(info: &TraceInfo, names: &'static Names) -> Map<String, Value> {
    let facts = facts::values(info, names).filter_map(|(name, value)| {
        let value = match value {
            facts::Value::Text(text) => text.into(),
            facts::Value::Number(number) => number.into(),
            facts::Value::Signed(number) => number.into(),
            facts::Value::Flag(flag) => flag.into(),
            // JSON has no word for a number that is not finite.
            facts::Value::Float(number) => Value::Number(serde_json::Number::from_f64(number)?),
        };
        Some((name.to_owned(), value))
    });
    facts.collect()
}

/// Takes the facts with these names from members. A member of another type is left out.
fn take_facts(info: &mut TraceInfo, names: &Names, members: &Map<String, Value>) {
    for (name, value) in members {
        let Some(fact) = facts::named(names, name.as_bytes()) else {
            continue;
        };
        let value = match value {
            Value::String(text) => Some(facts::Value::Text(text)),
            Value::Bool(flag) => Some(facts::Value::Flag(*flag)),
            Value::Number(_) => match fact {
                Fact::ErrorPpm => value.as_f64().map(facts::Value::Float),
                Fact::AheadNs | Fact::WallStepNs => int(value).map(facts::Value::Signed),
                _ => int(value).map(facts::Value::Number),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        if let Some(value) = value {
            fact.set(info, value);
        }
    }
}

impl Meta {
    /// Writes the file.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let info = &self.info;
        let string_of: HashMap<_, _> = self.strings.iter().map(|&(n, id)| (id, n)).collect();
        let function = |function: &Function, listed| FunctionMembers {
            id: function.id.0,
            name: function.name.clone(),
            file: function.file.clone(),
            line: function.line,
            untimed: function.untimed,
            string: string_of.get(&function.id).copied(),
            listed,
        };
        let unlisted = |&(_, id): &(u32, FunctionId)| {
            let bare = Function {
                id,
                ..Function::default()
            };
            info.function(id).is_none().then(|| function(&bare, false))
        };
        // Names of notes are left out with the notes.
        let functions = info.called().map(|known| function(known, true));
        let mut clock = facts_of(info, CLOCK_NAMES);
        if info.clock.anchor.is_some() {
            let anchor = facts_of(info, ANCHOR_NAMES);
            clock.insert("anchor".into(), anchor.into());
        }
        let members = Members {
            format: "tcstate".into(),
            version: [("major".into(), 1), ("minor".into(), 0)].into(),
            start: self.start,
            end: self.end,
            timestamp: self.end,
            unit: "ns".into(),
            files: super::FILES
                .map(|(role, name)| (role.into(), name.into()))
                .into(),
            missing: facts_of(info, MISSING_NAMES),
            clock,
            threads: self.threads.iter().map(ThreadMeta::members).collect(),
            functions: functions
                .chain(self.strings.iter().filter_map(unlisted))
                .collect(),
            trace: facts_of(info, TRACE_NAMES),
        };
        serde_json::to_writer(&mut *out, &members)?;
        out.write_all(b"\n")
    }

    /// Reads the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Meta, Bad> {
        let members: Members = parse(bytes)?;
        let mut info = TraceInfo::default();
        take_facts(&mut info, TRACE_NAMES, &members.trace);
        take_facts(&mut info, MISSING_NAMES, &members.missing);
        take_facts(&mut info, CLOCK_NAMES, &members.clock);
        let anchor = members.clock.get("anchor");
        let pair = anchor.and_then(|pair| Some((int(pair.get("time")?)?, int(pair.get("unix")?)?)));
        info.clock.anchor = pair.map(|(time, unix)| (Ticks(time), unix));
        let mut strings = Vec::new();
        for function in members.functions {
            let id = FunctionId(function.id);
            strings.extend(function.string.map(|string| (string, id)));
            if function.listed {
                info.functions.push(Function {
                    id,
                    name: function.name,
                    file: function.file,
                    line: function.line,
                    untimed: function.untimed,
                    kind: Default::default(),
                });
            }
        }
        info.functions.sort_by_key(|function| function.id);
        info.functions.dedup_by_key(|function| function.id);
        Ok(Meta {
            start: members.start,
            end: members.end,
            threads: members
                .threads
                .into_iter()
                .map(ThreadMeta::of_members)
                .collect(),
            strings,
            info,
        })
    }
}

impl ThreadMeta {
    fn members(&self) -> ThreadMembers {
        let counts = self.thread.counts.as_ref().map(|counts| {
            let counts = facts::of_counts(counts).into_iter();
            let counts = counts.filter(|(_, count)| *count != 0);
            counts
                .map(|(name, count)| (name.to_owned(), count))
                .collect()
        });
        let (first, last) = self.span.unzip();
        ThreadMembers {
            id: self.thread.id.0,
            process: self.thread.process,
            name: self.thread.name.clone(),
            counts,
            wall: self.wall,
            first,
            last,
            before: self.before,
            after: self.after,
        }
    }

    fn of_members(members: ThreadMembers) -> ThreadMeta {
        let counts = members.counts.map(|counts| {
            let mut all = Some(Counts::default());
            for (name, count) in counts {
                facts::set_count(&mut all, name.as_bytes(), count);
            }
            all.unwrap_or_default()
        });
        ThreadMeta {
            thread: Thread {
                id: ThreadId(members.id),
                process: members.process,
                name: members.name,
                counts,
                ..Thread::default()
            },
            wall: members.wall,
            span: members.first.zip(members.last),
            before: members.before,
            after: members.after,
        }
    }
}
