//! meta.json: facts about the trace, and the parts of the trace that have no place in the history. This
//! file is this project's own addition to the proposal's files. It must never be needed: a folder without
//! it is read too.
//!
//! ```text
//! format, version {major, minor}   "tcstate", 1.0
//! start, end, unit, timestamp      of the history, of state.json; unit "ns"
//! files {types, tree, state, history}
//! program, process, reason, dump, begin, dump_time, host, boot_id, build_id, program_version, tags, missing {…}, clock {name, error_ppm, constant, nonstop,
//!                                  skew_ns, steps_back, ahead_ns, wall_step_ns,
//!                                  anchor {time, unix}}
//! states_anew [time, …]            times from which nothing was known of any thread's state: where the list of context
//!                                  switches begins, lost some, or ends; left out without any
//! threads [{id, process, name, counts {…}, wall [seconds, micros],
//!           first, last            times of its entries and exits; left out without any
//!           before                 frames that were open before `first`, entered 1 ns earlier
//!           after }]               frames that a writer closed at `last`; still open in the history
//! functions [{id, name, file, line,
//!             string             number of the string that stands for it
//!             listed }]          false: the trace has no such function, but calls of it
//! ```
//! Members that say nothing are left out. All times are in ns of the trace's clock, but for `unix`.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::facts::{self, Fact, Names};
use crate::identity::Part;
use crate::json::{Bad, Reader, Token, Value, push_text};
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
    pub(super) timestamp: Option<i64>,
    /// Clock, program and so on, in ticks of that clock; without threads.
    pub(super) info: TraceInfo,
    pub(super) threads: Vec<ThreadMeta>,
    /// The string of each function that has calls.
    pub(super) strings: Vec<(u32, FunctionId)>,
    /// The times from which nothing was known of any thread's state, in order.
    pub(super) anew: Vec<u64>,
}

/// The most of these times that are read. The recorder's ring holds fewer context switches.
const MOST_ANEW: usize = 1 << 18;

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

/// Takes a member about the trace.
fn take(fact: Fact, info: &mut TraceInfo, value: &Value) {
    let number = |int: i128| match fact {
        Fact::AheadNs | Fact::WallStepNs => i64::try_from(int).ok().map(facts::Value::Signed),
        _ => u64::try_from(int).ok().map(facts::Value::Number),
    };
    let value = match value {
        Value::Text(text) => Some(facts::Value::Text(text)),
        Value::Bool(flag) => Some(facts::Value::Flag(*flag)),
        Value::Int(int) if fact == Fact::ErrorPpm => Some(facts::Value::Float(*int as f64)),
        Value::Int(int) => number(*int),
        Value::Float(float) => Some(facts::Value::Float(*float)),
        Value::Null | Value::List(_) | Value::Object(_) => None,
    };
    if let Some(value) = value {
        fact.set(info, value);
    }
}

/// Takes the members about the trace from an object.
fn take_all(names: &Names, info: &mut TraceInfo, value: &Value) {
    for (fact, name) in names {
        if let Some(value) = value.get(name) {
            take(*fact, info, value);
        }
    }
}

/// An object that is being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn begin(out: &mut Vec<u8>) -> Object<'_> {
        out.push(b'{');
        Object { out, first: true }
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        push_text(self.out, name);
        self.out.push(b':');
        self.out
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            push_text(self.name(name), text);
        }
    }

    fn number(&mut self, name: &str, number: impl Into<i128>) {
        let number: i128 = number.into();
        self.name(name).extend(number.to_string().bytes());
    }

    /// Left out where it is 0.
    fn count(&mut self, name: &str, number: impl Into<i128>) {
        let number: i128 = number.into();
        if number != 0 {
            self.number(name, number);
        }
    }

    fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            self.name(name).extend_from_slice(b"true");
        }
    }

    fn facts(&mut self, info: &TraceInfo, names: &'static Names) {
        for (name, value) in facts::of(info, names) {
            match value {
                facts::Value::Text(text) => self.text(name, text),
                facts::Value::Number(number) => self.number(name, number),
                facts::Value::Signed(number) => self.number(name, number),
                facts::Value::Flag(flag) => self.flag(name, flag),
                facts::Value::Float(number) if number.is_finite() => {
                    self.name(name).extend(format!("{number:?}").bytes());
                }
                facts::Value::Float(_) => {}
            }
        }
    }

    fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::begin(self.name(name));
        fill(&mut object);
        object.end();
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

impl Meta {
    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Vec::new();
        self.head(&mut text);
        text.pop();
        if !self.anew.is_empty() {
            text.extend_from_slice(b",\n\"states_anew\":[");
            for (nth, time) in self.anew.iter().enumerate() {
                let comma = if nth == 0 { "" } else { "," };
                text.extend(format!("{comma}{time}").bytes());
            }
            text.push(b']');
        }
        text.extend_from_slice(b",\n\"threads\":[");
        for (nth, thread) in self.threads.iter().enumerate() {
            text.extend_from_slice(if nth == 0 { b"\n" } else { b",\n" });
            thread.write(&mut text);
            out.write_all(&text)?;
            text.clear();
        }
        text.extend_from_slice(b"],\n\"functions\":[");
        let string_of: HashMap<_, _> = self.strings.iter().map(|&(n, id)| (id, n)).collect();
        let mut first = true;
        let mut write = |function: &Function, listed: bool| {
            text.extend_from_slice(if std::mem::take(&mut first) {
                b"\n"
            } else {
                b",\n"
            });
            let mut object = Object::begin(&mut text);
            object.number("id", function.id.0);
            object.text("name", &function.name);
            object.text("file", &function.file);
            object.count("line", function.line);
            object.flag("untimed", function.untimed);
            if let Some(&string) = string_of.get(&function.id) {
                object.number("string", string);
            }
            if !listed {
                object.name("listed").extend_from_slice(b"false");
            }
            object.end();
            let written = out.write_all(&text);
            text.clear();
            written
        };
        // Names of notes are left out with the notes.
        for function in self.info.called() {
            write(function, true)?;
        }
        for &(_, id) in &self.strings {
            if self.info.function(id).is_none() {
                let function = Function {
                    id,
                    ..Function::default()
                };
                write(&function, false)?;
            }
        }
        text.extend_from_slice(b"]}\n");
        out.write_all(&text)
    }

    fn head(&self, text: &mut Vec<u8>) {
        let mut object = Object::begin(text);
        object.text("format", "tcstate");
        object.object("version", |version| {
            version.number("major", 1);
            version.number("minor", 0);
        });
        let times = [
            ("start", self.start),
            ("end", self.end),
            ("timestamp", self.timestamp),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                object.number(name, time);
            }
        }
        object.text("unit", "ns");
        object.object("files", |files| {
            for (role, name) in super::FILES {
                files.text(role, name);
            }
        });
        let info = &self.info;
        object.facts(info, TRACE_NAMES);
        object.object("missing", |missing| missing.facts(info, MISSING_NAMES));
        object.object("clock", |clock| {
            clock.facts(info, CLOCK_NAMES);
            if info.clock.anchor.is_some() {
                clock.object("anchor", |anchor| anchor.facts(info, ANCHOR_NAMES));
            }
        });
        object.end();
    }

    /// Takes the members from the bytes. If they are damaged, takes the members before the damage, and
    /// reports it.
    pub(super) fn read(bytes: &[u8]) -> (Meta, Option<Bad>) {
        let mut meta = Meta::default();
        let damage = meta.fill(&mut Reader::new(bytes)).err();
        let functions = &mut meta.info.functions;
        functions.sort_by_key(|function| function.id);
        functions.dedup_by_key(|function| function.id);
        meta.anew.sort_unstable();
        meta.anew.dedup();
        (meta, damage)
    }

    fn fill(&mut self, reader: &mut Reader<'_>) -> Result<(), Bad> {
        if reader.next()? != Token::Object {
            let what = "it is no object";
            return Err(Bad { offset: 0, what });
        }
        loop {
            let name = match reader.next()? {
                Token::Key(name) => name,
                Token::Close => return reader.next().map(|_| ()),
                _ => continue,
            };
            if !matches!(&*name, "threads" | "functions" | "states_anew") {
                if let Some(value) = reader.value()? {
                    self.member(&name, &value);
                }
                continue;
            }
            if reader.next()? != Token::List {
                let what = "threads, functions and states_anew are lists";
                let offset = reader.offset();
                return Err(Bad { offset, what });
            }
            while let Some(value) = reader.value()? {
                if &*name == "states_anew" {
                    let time = value.int().filter(|_: &u64| self.anew.len() < MOST_ANEW);
                    self.anew.extend(time);
                } else if &*name == "threads" {
                    self.threads.extend(ThreadMeta::read(&value));
                } else if let Some(function) = function(&value) {
                    let string = member(&value, "string");
                    self.strings
                        .extend(string.map(|string| (string, function.id)));
                    if value.get("listed") != Some(&Value::Bool(false)) {
                        self.info.functions.push(function);
                    }
                }
            }
        }
    }

    fn member(&mut self, name: &str, value: &Value) {
        match name {
            "start" => self.start = value.int(),
            "end" => self.end = value.int(),
            "timestamp" => self.timestamp = value.int(),
            "missing" => take_all(MISSING_NAMES, &mut self.info, value),
            "clock" => {
                take_all(CLOCK_NAMES, &mut self.info, value);
                let anchor = value.get("anchor");
                let pair =
                    anchor.and_then(|pair| Some((member(pair, "time")?, member(pair, "unix")?)));
                self.info.clock.anchor = pair.map(|(time, unix)| (Ticks(time), unix));
            }
            _ => {
                if let Some(fact) = facts::named(TRACE_NAMES, name.as_bytes()) {
                    take(fact, &mut self.info, value);
                }
            }
        }
    }
}

impl ThreadMeta {
    fn write(&self, text: &mut Vec<u8>) {
        let mut object = Object::begin(text);
        object.number("id", self.thread.id.0);
        object.text("name", &self.thread.name);
        if let Some(process) = self.thread.process {
            object.number("process", process);
        }
        if let Some(counts) = &self.thread.counts {
            object.object("counts", |object| {
                for (nth, (name, count)) in facts::of_counts(counts).into_iter().enumerate() {
                    // The first two members show that there are counts.
                    match nth < 2 {
                        true => object.number(name, count),
                        false => object.count(name, count),
                    }
                }
            });
        }
        if let Some((seconds, micros)) = self.wall {
            object
                .name("wall")
                .extend(format!("[{seconds},{micros}]").bytes());
        }
        if let Some((first, last)) = self.span {
            object.number("first", first);
            object.number("last", last);
        }
        object.count("before", self.before);
        object.count("after", self.after);
        object.end();
    }

    /// `None`: it has no number.
    fn read(value: &Value) -> Option<ThreadMeta> {
        let counts = value.get("counts").map(|counts| {
            let mut all = Some(Counts::default());
            for (name, _) in facts::of_counts(&Counts::default()) {
                let count = member(counts, name).unwrap_or(0);
                facts::set_count(&mut all, name.as_bytes(), count);
            }
            all.unwrap_or_default()
        });
        let wall = value.get("wall").map(Value::list);
        let wall = wall.and_then(|wall| Some((wall.first()?.int()?, wall.get(1)?.int()?)));
        Some(ThreadMeta {
            thread: Thread {
                id: ThreadId(member(value, "id")?),
                process: member(value, "process"),
                name: text_of(value, "name"),
                counts,
                totals: Vec::new(),
                early_calls: Vec::new(),
            },
            wall,
            span: member(value, "first").zip(member(value, "last")),
            before: member(value, "before").unwrap_or(0),
            after: member(value, "after").unwrap_or(0),
        })
    }
}

fn function(value: &Value) -> Option<Function> {
    Some(Function {
        id: FunctionId(member(value, "id")?),
        name: text_of(value, "name"),
        file: text_of(value, "file"),
        line: member(value, "line").unwrap_or(0),
        untimed: value.get("untimed") == Some(&Value::Bool(true)),
        what: Default::default(),
    })
}

fn member<T: TryFrom<i128>>(value: &Value, name: &str) -> Option<T> {
    value.get(name).and_then(Value::int)
}

fn text_of(value: &Value, name: &str) -> String {
    let text = value.get(name).and_then(Value::text);
    text.unwrap_or_default().to_owned()
}
