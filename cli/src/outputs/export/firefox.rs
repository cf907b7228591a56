//! The processed profile format of the Firefox Profiler, version 55. A sample is a stretch of time in which the calls of
//! a thread stay the same: its weight is that time in ms, with six decimals. So the profiler's call tree has the self
//! times of the report, and its stack chart has each call. (The crate for this format has whole numbers as weights, and
//! keeps all samples in memory.)
//!
//! Source: `docs-developer/processed-profile-format.md` and `CHANGELOG-formats.md` of github.com/firefox-devtools/profiler.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::{FunctionId, Losses};
use serde_json::json;

use super::facts::{Facts, Lane};
use super::receiver::{ReceivedCall, Receiver, UnrecordedCalls};
use super::spool::Spool;
use super::value;
use super::{Capabilities, Export, Make, Out, target};
use crate::memory;

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("firefox", "Firefox Profiler", "firefox.json"),
    holds: Capabilities {
        places: true,
        ..Capabilities::NONE
    },
    make: Make::Calls(|out, facts| Ok(Box::new(Samples::new(out, facts)))),
};

/// The most paths of a thread. Calls on further paths count for their caller.
const MAX_PATHS: usize = 1 << 18;

struct Samples {
    out: Out,
    facts: Arc<Facts>,
    lanes: Vec<Thread>,
    /// For each thread the texts of three columns: stacks, times, weights.
    spool: Spool,
}

/// A thread on its way.
#[derive(Default)]
struct Thread {
    lane: Lane,
    /// Caller and function of each path, and where each is.
    stacks: Vec<(Option<usize>, usize)>,
    by_path: HashMap<(Option<usize>, Option<FunctionId>), usize>,
    functions: Vec<Option<FunctionId>>,
    by_id: HashMap<Option<FunctionId>, usize>,
    open: Vec<usize>,
    /// Until when samples are written, and from when on.
    now: Option<u64>,
    first: u64,
    samples: u64,
    /// The time of the last sample.
    before: u64,
    /// Calls on paths beyond the limit.
    others: u64,
}

/// Milliseconds.
struct Millis(u64);

impl Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl Thread {
    /// The path of a function below the innermost open call.
    fn stack(&mut self, function: Option<FunctionId>) -> usize {
        let caller = self.open.last().copied();
        if let Some(&known) = self.by_path.get(&(caller, function)) {
            return known;
        }
        if let Some(caller) = caller.filter(|_| self.stacks.len() >= MAX_PATHS) {
            self.others += 1;
            return caller;
        }
        let next = self.functions.len();
        let at = *self.by_id.entry(function).or_insert(next);
        if at == next {
            self.functions.push(function);
        }
        self.stacks.push((caller, at));
        self.by_path
            .insert((caller, function), self.stacks.len() - 1);
        self.stacks.len() - 1
    }
}

impl Samples {
    fn new(out: Out, facts: &Arc<Facts>) -> Samples {
        Samples {
            out,
            facts: facts.clone(),
            lanes: Vec::new(),
            spool: Spool::default(),
        }
    }

    /// Time passes, in the calls that are open.
    fn pass(&mut self, at: usize, until: u64) -> io::Result<()> {
        let Some(thread) = self.lanes.get_mut(at) else {
            return Ok(());
        };
        let from = *thread.now.get_or_insert(until);
        if until <= from {
            return Ok(());
        }
        if thread.samples == 0 {
            thread.first = from;
            thread.before = 0;
        }
        let comma = if thread.samples > 0 { "," } else { "" };
        let stack = thread
            .open
            .last()
            .map_or("null".to_owned(), usize::to_string);
        let columns = [
            format!("{comma}{stack}"),
            format!("{comma}{}", Millis(from - thread.before)),
            format!("{comma}{}", Millis(until - from)),
        ];
        thread.samples += 1;
        thread.before = from;
        thread.now = Some(until);
        for (column, text) in columns.iter().enumerate() {
            self.spool.add(3 * at + column, text.as_bytes())?;
        }
        Ok(())
    }

    fn enter(&mut self, at: usize, function: Option<FunctionId>, time: u64) -> io::Result<()> {
        self.pass(at, time)?;
        if let Some(thread) = self.lanes.get_mut(at) {
            let stack = thread.stack(function);
            thread.open.push(stack);
        }
        memory::check()
    }

    fn leave(&mut self, at: usize, time: u64) -> io::Result<()> {
        self.pass(at, time)?;
        if let Some(thread) = self.lanes.get_mut(at) {
            thread.open.pop();
        }
        Ok(())
    }
}

impl Receiver for Samples {
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        self.lanes.push(Thread {
            lane: lane.clone(),
            ..Thread::default()
        });
        Ok(())
    }

    fn entered(&mut self, lane: &Lane, function: FunctionId, at: u64) -> io::Result<()> {
        self.enter(lane.at, Some(function), at)
    }

    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()> {
        self.leave(lane.at, call.at)
    }

    fn short(&mut self, lane: &Lane, short: &UnrecordedCalls) -> io::Result<()> {
        self.enter(lane.at, None, short.from)?;
        self.leave(lane.at, short.until)
    }

    fn losses(&self, losses: &mut Losses) {
        let others = self.lanes.iter().map(|thread| thread.others).sum();
        losses.add(
            "calls on paths beyond the first 262,144 of their thread: count as their callers",
            others,
        );
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Samples {
            mut out,
            facts,
            lanes,
            mut spool,
        } = *self;
        let meta = json!({
            "version": 24,
            "preprocessedProfileVersion": 55,
            "product": facts.title(),
            "processType": 0,
            "interval": 0.000_001,
            "startTime": facts.start_unix_ns().unwrap_or_default() as f64 / 1e6,
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
            "debug": false,
            "symbolicated": true,
            "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
            "sampleUnits": {"eventDelay": "ms", "threadCPUDelta": "ns", "time": "ms"},
            "pausedRanges": [],
            "usesOnlyOneStackType": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
        });
        write!(
            out,
            "{{\"meta\":{},\"libs\":[],\"pages\":[],\"profilerOverhead\":[],\"counters\":[],\n\"threads\":[",
            value::json(&meta)
        )?;
        let mut comma = "\n";
        for (at, thread) in lanes.iter().enumerate() {
            write!(
                out,
                "{comma}{{\"samples\":{{\"length\":{},\"weightType\":\"tracing-ms\"",
                thread.samples
            )?;
            for (column, name) in ["stack", "timeDeltas", "weight"].iter().enumerate() {
                write!(out, ",\"{name}\":[")?;
                spool.write(3 * at + column, &mut out)?;
                out.write_all(b"]")?;
            }
            out.write_all(b"}")?;
            tables(&mut out, &facts, thread, at == 0)?;
            comma = ",\n";
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}

/// A list as JSON, an item for each of something.
fn list<T>(all: &[T], item: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = all.iter().map(item).collect();
    format!("[{}]", items.join(","))
}

/// What follows the samples of a thread.
fn tables(out: &mut Out, facts: &Facts, thread: &Thread, is_first: bool) -> io::Result<()> {
    let mut texts: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        texts.push(value::json(text));
        (texts.len() - 1).to_string()
    };
    let (mut names, mut files, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for function in &thread.functions {
        let name = function.map_or("[short]".to_owned(), |id| facts.name(id));
        names.push(add(&name));
        let place = function.and_then(|id| facts.place(id));
        files.push(place.map_or("null".to_owned(), |(file, _)| add(file)));
        lines.push(place.map_or("null".to_owned(), |(_, line)| line.to_string()));
    }
    let count = thread.functions.len();
    let all = |text: &str| format!("[{}]", vec![text; count].join(","));
    let numbers: Vec<usize> = (0..count).collect();
    write!(
        out,
        ",\n\"stackTable\":{{\"length\":{},\"prefix\":{},\"frame\":{}}}",
        thread.stacks.len(),
        list(&thread.stacks, |(caller, _)| caller
            .map_or("null".into(), |at| at.to_string())),
        list(&thread.stacks, |(_, function)| function.to_string()),
    )?;
    write!(
        out,
        ",\n\"frameTable\":{{\"length\":{count},\"address\":{},\"inlineDepth\":{},\"category\":{},\
         \"subcategory\":{},\"func\":{},\"nativeSymbol\":{},\"innerWindowID\":{},\"line\":{},\"column\":{}}}",
        all("-1"),
        all("0"),
        all("0"),
        all("0"),
        list(&numbers, usize::to_string),
        all("null"),
        all("0"),
        all("null"),
        all("null"),
    )?;
    write!(
        out,
        ",\n\"funcTable\":{{\"length\":{count},\"name\":[{}],\"isJS\":{},\"relevantForJS\":{},\"resource\":{},\
         \"fileName\":[{}],\"lineNumber\":[{}],\"columnNumber\":{}}}",
        names.join(","),
        all("false"),
        all("false"),
        all("-1"),
        files.join(","),
        lines.join(","),
        all("null"),
    )?;
    let lane = &thread.lane;
    let rest = json!({
        "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []},
        "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "name": lane.title(),
        "isMainThread": is_first,
        "processType": "default",
        "processName": facts.title(),
        "pid": lane.process.to_string(),
        "tid": lane.number.to_string(),
        "pausedRanges": [],
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": thread.first as f64 / 1e6,
        "unregisterTime": null,
        "showMarkersInTimeline": false,
    });
    let rest = value::json(&rest);
    let rest = rest.strip_prefix('{').unwrap_or(&rest);
    write!(out, ",\n\"stringArray\":[{}],\n{rest}", texts.join(","))
}
