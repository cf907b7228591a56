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
use crate::json::push_text;
use crate::model::{Function, FunctionId, Thread, TraceInfo};

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

/// Members about the trace, in their order.
pub(super) const TRACE_NAMES: &Names = &[
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
pub(super) const MISSING_NAMES: &Names = &[
    (Fact::MissingThreads, "retired_threads"),
    (Fact::MissingOverwritten, "retired_records"),
    (Fact::MissingDropped, "unplaced_records"),
];
pub(super) const CLOCK_NAMES: &Names = &[
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
}
