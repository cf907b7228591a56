//! Trace events in JSON, as `chrome://tracing` and Perfetto read them. Calls are pairs of `B` and `E`, in the order of
//! their thread, so that they nest whatever their times are. Times are microseconds with three decimals since the
//! trace's start. Arguments of a call stand at its `E`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::FunctionId;

use super::facts::{Facts, Lane};
use super::receiver::{Happening, HappeningKind, ReceivedCall, Receiver, StayNs, UnrecordedCalls};
use super::value::{Value, Values, json};
use super::{Capabilities, Export, Make, Out, target};

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("chrome", "Chrome trace events", "chrome.json"),
    holds: Capabilities {
        cpus: false,
        sums: false,
        places: false,
        ..Capabilities::ALL
    },
    make: Make::Calls(|out, facts| Ok(Box::new(Chrome::new(out, facts)?))),
};

struct Chrome {
    out: Out,
    facts: Arc<Facts>,
    /// As JSON.
    names: HashMap<FunctionId, String>,
    /// Tasks that have begun and not ended.
    tasks: HashSet<u64>,
}

/// Microseconds.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Chrome {
    fn new(mut out: Out, facts: &Arc<Facts>) -> io::Result<Chrome> {
        let info = &facts.info;
        let mut more = Values::default();
        more.add("exporter", Value::Text("fdr".into()));
        more.add("clock", Value::Text(info.clock.name.clone()));
        more.add("start_ns", Value::Unsigned(facts.start_ns()));
        if let Some(unix) = facts.start_unix_ns() {
            more.add("start_unix_ns", Value::Unsigned(unix));
        }
        more.add("reason", Value::Text(info.reason.clone()));
        write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[\n\
             {{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
            more.json(),
            facts.process(),
            json(&facts.title()),
        )?;
        Ok(Chrome {
            out,
            facts: facts.clone(),
            names: HashMap::new(),
            tasks: HashSet::new(),
        })
    }

    /// An event up to its other fields.
    fn event(&mut self, lane: &Lane, phase: char, at: u64) -> io::Result<()> {
        write!(
            self.out,
            ",\n{{\"ph\":\"{phase}\",\"pid\":{},\"tid\":{},\"ts\":{}",
            lane.process,
            lane.number,
            Micros(at)
        )
    }

    /// The edge of a call, up to its arguments. Speedscope wants the name at both edges.
    fn edge(&mut self, lane: &Lane, phase: char, function: FunctionId, at: u64) -> io::Result<()> {
        self.event(lane, phase, at)?;
        let facts = &self.facts;
        let name = self.names.entry(function);
        let name = name.or_insert_with(|| json(&facts.name(function)));
        write!(self.out, ",\"name\":{name}")
    }

    /// A step of a task: an arrow from the step before.
    fn flow(&mut self, lane: &Lane, at: u64, task: u64, ended: bool) -> io::Result<()> {
        let is_new = self.tasks.insert(task);
        if ended {
            self.tasks.remove(&task);
        }
        let phase = match (is_new, ended) {
            (true, true) => return Ok(()),
            (true, false) => 's',
            (false, false) => 't',
            (false, true) => 'f',
        };
        self.event(lane, phase, at)?;
        let bind = if phase == 'f' { ",\"bp\":\"e\"" } else { "" };
        write!(
            self.out,
            ",\"cat\":\"task\",\"name\":\"task\",\"id\":{task}{bind}}}"
        )
    }
}

impl Receiver for Chrome {
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        for (name, argument, value) in [
            ("thread_name", "name", json(&lane.name)),
            ("thread_sort_index", "sort_index", lane.at.to_string()),
        ] {
            write!(
                self.out,
                ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{name}\",\"args\":{{\"{argument}\":{value}}}}}",
                lane.process, lane.number,
            )?;
        }
        Ok(())
    }

    fn entered(&mut self, lane: &Lane, function: FunctionId, at: u64) -> io::Result<()> {
        self.edge(lane, 'B', function, at)?;
        self.out.write_all(b"}")
    }

    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()> {
        self.edge(lane, 'E', call.function, call.at)?;
        if !call.clipped && call.arguments.is_empty() {
            return self.out.write_all(b"}");
        }
        let mut arguments = call.arguments.clone();
        if call.clipped {
            arguments.add("clipped", Value::Truth(true));
        }
        write!(self.out, ",\"args\":{}}}", arguments.json())
    }

    fn short(&mut self, lane: &Lane, short: &UnrecordedCalls) -> io::Result<()> {
        self.event(lane, 'B', short.from)?;
        let calls = short.calls;
        write!(
            self.out,
            ",\"cat\":\"short\",\"name\":\"[short]\",\"args\":{{\"calls\":{calls}}}}}"
        )?;
        self.event(lane, 'E', short.until)?;
        self.out
            .write_all(b",\"cat\":\"short\",\"name\":\"[short]\"}")
    }

    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let (phase, more) = match what.what {
            HappeningKind::Cpu => return Ok(()),
            HappeningKind::Counter => ('C', String::new()),
            HappeningKind::Moment => ('i', ",\"s\":\"g\"".to_owned()),
            _ => ('i', ",\"s\":\"t\"".to_owned()),
        };
        self.event(lane, phase, what.at)?;
        write!(
            self.out,
            "{more},\"cat\":\"{}\",\"name\":{},\"args\":{}}}",
            what.what.word(),
            json(what.name),
            what.values.json()
        )?;
        if let HappeningKind::Task { id, ended } = what.what {
            self.flow(lane, what.at, id, ended)?;
        }
        Ok(())
    }

    fn stayed(&mut self, lane: &Lane, stay: &StayNs) -> io::Result<()> {
        let cpu = stay.cpu.map_or(String::new(), |cpu| {
            format!(",\"args\":{{\"cpu\":{}}}", cpu.0)
        });
        for (phase, at) in [('b', stay.from), ('e', stay.until)] {
            self.event(lane, phase, at)?;
            write!(
                self.out,
                ",\"cat\":\"state\",\"id\":{},\"name\":\"{}\"{cpu}}}",
                lane.number,
                stay.state.name()
            )?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
