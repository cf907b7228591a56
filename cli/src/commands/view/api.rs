//! What the page asks of the server, and the answers. Pictures are arrays of numbers, because there are many of them;
//! all else is JSON.

use std::path::Path;
use std::sync::Arc;

use fdr_formats::identity::Part;
use fdr_formats::model::{FunctionKind, State};
use fdr_formats::{Clock, FunctionId, Ticks};
use serde::Serialize;
use serde_json::{Value, json};

use super::call_key::CallKey;
use super::curves::{self, CounterOf};
use super::details;
use super::ending::Ending;
use super::events;
use super::http::{Answer, Request};
use super::live::LiveTraces;
use super::page;
use super::paths::Flame;
use super::picture::Viewport;
use super::pyramid::OPEN;
use super::server::{Pages, WaitingPeer};
use super::survey;
use super::task_details;
use super::tasks::{self, TaskSelector, Tasks};
use super::viewed::{MarkedRange, ViewedTrace};
use super::wire;
use crate::tree::outline::Limits;
use crate::{trace, ui};

/// What the page shows of a call tree.
const TREE: Limits = Limits {
    least: 0.0005,
    most: Some(20_000),
};

/// Threads of one picture.
const MAX_THREADS: usize = 256;

/// Answers for what is shown.
pub(super) struct Api {
    pub(super) live_traces: LiveTraces,
}

/// What a page knows of all its traces.
#[derive(Serialize)]
pub(super) struct Info<'a> {
    version: &'static str,
    /// If the traces are of a running process, the number of the current snapshot.
    snapshot: Option<u64>,
    traces: Vec<TraceOf<'a>>,
}

/// What a page knows of a trace. Times are ticks since a moment near its beginning.
#[derive(Serialize)]
pub(super) struct TraceOf<'a> {
    pub(super) file: String,
    /// The file's name as a word of a shell. Empty: the trace is no file.
    pub(super) word: String,
    pub(super) format: &'a str,
    pub(super) program: &'a str,
    pub(super) process: Option<u64>,
    pub(super) reason: String,
    pub(super) ending: Option<Ending>,
    pub(super) frequency: u64,
    /// The moment from which ticks count, and the remainder that rounding needs, as text: 53 bits are too few.
    pub(super) base: String,
    pub(super) begin: f64,
    pub(super) end: f64,
    /// As text: 53 bits are too few.
    pub(super) begin_unix_ns: Option<String>,
    /// By how much times of day may be wrong, by the trace's own clock. `None`: it does not say.
    pub(super) unix_error_ns: Option<u64>,
    /// The boot of the machine; empty: not known.
    pub(super) boot: &'a str,
    pub(super) has_times: bool,
    pub(super) has_states: bool,
    pub(super) has_cpus: bool,
    /// How much was read; 1 is all.
    pub(super) progress: f64,
    pub(super) threads: Value,
    pub(super) functions: Vec<FunctionOf<'a>>,
    pub(super) moments: Value,
    pub(super) counters: Vec<CounterOf>,
    /// `None`: not all of the trace was read yet.
    pub(super) tasks: Option<tasks::Count>,
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct FunctionOf<'a> {
    id: u32,
    name: &'a str,
    file: &'a str,
    line: u32,
    is_called: bool,
    is_event: bool,
    untimed: bool,
}

impl<'a> TraceOf<'a> {
    pub(super) fn new(viewed: &'a ViewedTrace) -> TraceOf<'a> {
        let info = viewed.info();
        let base = viewed.base();
        // This is the first thing read: if the progress is 1, all figures below are final.
        let progress = viewed.index.progress();
        let (begin, end) = viewed.index.span().unwrap_or((base, base));
        let last = info.end.map_or(end, |end_of_all| end_of_all.0.max(end));
        let failed = info.thread_of_reason();
        let threads = info.threads.iter().enumerate().map(|(nth, thread)| {
            let line = viewed.index.line(nth);
            let line = line.as_deref();
            let counts = thread.counts.unwrap_or_default();
            let depth = line.map_or(0, |line| {
                let rows = line.pyramid.level(0).rows.len();
                rows.max(line.open.len())
            });
            json!({
                "id": thread.id.0,
                "name": thread.name,
                "process": thread.process.or(info.process),
                "depth": depth,
                "calls": line.map_or(0, |line| line.calls),
                "first": line.and_then(|line| Some(viewed.relative(line.first?))),
                "last": viewed.relative(line.map_or(base, |line| line.last)),
                "overwritten": counts.overwritten,
                "dropped": counts.dropped,
                "has_failed": failed == Some(thread.id),
            })
        });
        let functions = info.functions.iter().map(|function| FunctionOf {
            id: function.id.0,
            name: &function.name,
            file: &function.file,
            line: function.line,
            is_called: function.is_called(),
            is_event: function.kind == FunctionKind::Event,
            untimed: function.untimed,
        });
        let mut lines = viewed.index.lines();
        let has_cpus = lines.any(|line| line.cpus.has_records());
        let moments = info
            .moments
            .iter()
            .map(|moment| json!({ "name": moment.name, "time": viewed.relative(moment.time.0) }));
        TraceOf {
            file: viewed.path.to_string_lossy().into_owned(),
            word: if viewed.is_file {
                ui::shell(&viewed.path)
            } else {
                String::new()
            },
            format: &info.format,
            program: &info.program,
            process: info.process,
            reason: trace::reason(info).into_owned(),
            ending: Ending::new(viewed),
            frequency: info.clock.frequency,
            base: base.to_string(),
            begin: viewed.relative(begin),
            end: viewed.relative(last),
            begin_unix_ns: info.clock.unix_nanos(Ticks(begin)).map(|ns| ns.to_string()),
            unix_error_ns: unix_error(&info.clock, [begin, last]),
            boot: info.identity.get(Part::Boot),
            has_times: !trace::is_timeless(info),
            has_states: viewed.states.is_some(),
            has_cpus,
            progress,
            threads: threads.collect(),
            functions: functions.collect(),
            moments: moments.collect(),
            counters: curves::of_trace(&viewed.index, info),
            tasks: viewed.tasks().map(Tasks::count),
            notes: notes(viewed, Words::All),
        }
    }
}

/// Which words the notes of a trace have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Also those of a reader, which may repeat bytes of the trace.
    All,
    /// Our own ones.
    Own,
}

/// The time of day was read once, in whole microseconds. From there on, the error of the clock's rate adds up.
fn unix_error(clock: &Clock, ends: [u64; 2]) -> Option<u64> {
    let (anchor, _) = clock.anchor?;
    let away = ends.map(|end| anchor.0.abs_diff(end)).into_iter().max()?;
    let of_rate = clock.nanos(Ticks(away)).0 as f64 * clock.error_ppm? / 1e6;
    let moved = clock.faults.wall_step_ns.unsigned_abs();
    Some((1_000 + of_rate.ceil() as u64).saturating_add(moved))
}

/// The warnings about a trace that a reader of its figures needs.
pub(super) fn notes(viewed: &ViewedTrace, words: Words) -> Vec<String> {
    let info = viewed.info();
    let mut notes = viewed.notes.clone();
    let trouble = viewed.index.trouble();
    let of_reader = |what: &dyn std::fmt::Display| match words {
        Words::All => format!(": {what}"),
        Words::Own => String::new(),
    };
    let errors = trouble.error.iter();
    notes.extend(errors.map(|error| format!("reading ended{}", of_reader(error))));
    if let Some(first) = trouble.diagnostics.first() {
        let count = trouble.diagnostics.len() as u64 + trouble.more;
        notes.push(format!(
            "the trace is damaged in {}, the first at byte {}{} (fdr verify lists them)",
            ui::things(count, "place"),
            first.offset,
            of_reader(&first.what)
        ));
    }
    notes.extend(trace::missing(&info.missing));
    notes.extend(crate::clock::notes(&info.clock));
    if trace::is_timeless(info) {
        notes.push("the trace has the order of its calls alone: each step is drawn as 1 ns".into());
    }
    let lines = viewed.index.lines();
    let (deep, signs) = lines.fold((0, 0), |(deep, signs), line| {
        let more = line.more_signs + line.counters.more + line.tasks.more + line.waits.more;
        (deep + line.pyramid.too_deep, signs + more)
    });
    if deep > 0 {
        let calls = ui::things(deep, "call");
        notes.push(format!("{calls} deeper than 1,000 others: not drawn"));
    }
    if signs > 0 {
        let count = ui::count(signs);
        notes.push(format!(
            "{count} events, waits, values of counters and polls of tasks more than a page can hold: not drawn"
        ));
    }
    notes
}

/// What is known of the traces. `snapshot`: its number, of a process that runs.
pub(super) fn info_of<'a>(
    traces: impl Iterator<Item = TraceOf<'a>>,
    snapshot: Option<u64>,
) -> Info<'a> {
    Info {
        version: env!("CARGO_PKG_VERSION"),
        snapshot,
        traces: traces.collect(),
    }
}

impl Api {
    fn trace(&self, request: &Request) -> Result<Arc<ViewedTrace>, Answer> {
        let nth = number::<usize>(request, "trace")?.unwrap_or(0);
        let (traces, snapshot) = self.live_traces.traces();
        let wanted = number::<u64>(request, "snapshot")?;
        if wanted.is_some() && wanted != snapshot {
            let why = "another page has taken a newer snapshot: load this page anew\n";
            return Err(Answer::text(409, why));
        }
        let trace = traces.get(nth).cloned();
        trace.ok_or_else(|| Answer::text(404, "no such trace\n"))
    }

    fn info(&self) -> Result<Answer, Answer> {
        let (traces, snapshot) = self.live_traces.traces();
        let traces = traces.iter().map(|viewed| TraceOf::new(viewed));
        to_json(&info_of(traces, snapshot))
    }

    fn snapshot(&self) -> Result<Answer, Answer> {
        self.live_traces.renew().map_err(failed)?;
        self.info()
    }

    fn lanes(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let viewport = viewport(&viewed, request)?;
        let found = numbers(request, "found")?.into_iter().collect();
        let mut threads: Vec<usize> = numbers(request, "threads")?;
        threads.truncate(MAX_THREADS);
        let mut body = Vec::new();
        for (thread, picture) in threads
            .iter()
            .zip(viewed.pictures(&threads, viewport, &found))
        {
            wire::put(&mut body, &viewed, *thread, &picture.map_err(failed)?);
        }
        Ok(Answer::bytes(body))
    }

    fn curves(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let viewport = viewport(&viewed, request)?;
        let mut body = Vec::new();
        let curves = curves::curves(&viewed.index, viewed.info(), viewport);
        wire::put_curves(&mut body, &viewed, &curves);
        Ok(Answer::bytes(body))
    }

    fn tasks(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let viewport = viewport(&viewed, request)?;
        let mut body = Vec::new();
        let lanes = numbers::<usize>(request, "lanes")?.into_iter();
        if let Some(tasks) = viewed.tasks() {
            for lane in lanes.take(MAX_THREADS) {
                wire::put(&mut body, &viewed, lane, &tasks.picture(lane, viewport));
            }
        }
        Ok(Answer::bytes(body))
    }

    fn task(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let at = viewed.tick(float(request, "at")?);
        let wanted = match number(request, "task")? {
            Some(task) => TaskSelector::Id(task),
            None => TaskSelector::At(number(request, "lane")?.unwrap_or(0), at),
        };
        viewed.wait();
        let found = viewed
            .tasks()
            .and_then(|tasks| task_details::details(&viewed, tasks, wanted, at));
        to_json(&found.ok_or_else(|| Answer::text(404, "no such task\n"))?)
    }

    fn event(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let names = numbers(request, "names")?.into_iter().collect();
        let thread = number(request, "thread")?.unwrap_or(0);
        let found = events::at(&viewed, thread, viewed.tick(float(request, "at")?), &names);
        to_json(&found.map_err(failed)?)
    }

    fn table(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let report = self.trace(request)?.report(&marked(request)?, asker);
        report.map(Answer::json).map_err(failed)
    }

    fn tree(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let tree = self.trace(request)?;
        let tree = tree.outline(&marked(request)?, TREE, asker);
        tree.map(Answer::json).map_err(failed)
    }

    fn slow(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let slow = self.trace(request)?.slow(&marked(request)?, asker);
        slow.map(Answer::json).map_err(failed)
    }

    fn why(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let why = viewed.why(meant(&viewed, request)?, asker);
        why.map(Answer::json).map_err(failed)
    }

    fn call(&self, request: &Request) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let details = details::of_call(&viewed, meant(&viewed, request)?);
        to_json(&details.map_err(failed)?)
    }

    fn survey(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let viewed = self.trace(request)?;
        let functions: Vec<u32> = numbers(request, "functions")?;
        let functions = functions.into_iter().map(FunctionId).collect();
        let at = match request.query.contains_key("start") {
            true => Some(meant(&viewed, request)?),
            false => None,
        };
        to_json(
            &survey::of_functions(&viewed, &functions, at, &marked(request)?, asker)
                .map_err(failed)?,
        )
    }

    fn flame(&self, request: &Request, asker: WaitingPeer<'_>) -> Result<Answer, Answer> {
        let by = request.query.get("by").map_or("time", String::as_str);
        let state = State::ALL.into_iter().find(|state| state.name() == by);
        let paths = self.trace(request)?.paths(&marked(request)?, state, asker);
        to_json(&Flame::new(&paths.map_err(failed)?))
    }
}

impl Pages for Api {
    fn beat(&self) -> &'static [u8] {
        match self.live_traces.are_files_replaced() {
            true => b"r",
            false => b".",
        }
    }

    fn answer(&self, path: &str, request: &Request, asker: WaitingPeer<'_>) -> Answer {
        let answer = match path {
            "" => Ok(Answer::page(page::served())),
            "api/info" => self.info(),
            "api/snapshot" => self.snapshot(),
            "api/lanes" => self.lanes(request),
            "api/tasks" => self.tasks(request),
            "api/task" => self.task(request),
            "api/curves" => self.curves(request),
            "api/table" => self.table(request, asker),
            "api/flame" => self.flame(request, asker),
            "api/event" => self.event(request),
            "api/tree" => self.tree(request, asker),
            "api/slow" => self.slow(request, asker),
            "api/call" => self.call(request),
            "api/survey" => self.survey(request, asker),
            "api/why" => self.why(request, asker),
            _ => Err(Answer::text(404, "not here\n")),
        };
        answer.unwrap_or_else(|answer| answer)
    }
}

/// An answer of JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Answer, Answer> {
    let text = serde_json::to_vec(value);
    text.map(Answer::json)
        .map_err(|error| Answer::text(500, format!("{error}\n")))
}

fn failed(error: anyhow::Error) -> Answer {
    Answer::text(500, format!("{error:#}\n"))
}

fn bad(name: &str) -> Answer {
    Answer::text(400, format!("{name} is no number\n"))
}

/// A value that may be left out.
pub(super) fn number<T: std::str::FromStr>(
    request: &Request,
    name: &str,
) -> Result<Option<T>, Answer> {
    let text = request.query.get(name).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|_| bad(name)))
        .transpose()
}

pub(super) fn float(request: &Request, name: &str) -> Result<f64, Answer> {
    let value = number::<f64>(request, name)?.filter(|value| value.is_finite());
    value.ok_or_else(|| bad(name))
}

/// Numbers, comma between.
fn numbers<T: std::str::FromStr>(request: &Request, name: &str) -> Result<Vec<T>, Answer> {
    let text = request.query.get(name).map_or("", String::as_str);
    let words = text.split(',').filter(|word| !word.is_empty());
    let numbers = words.map(|word| word.parse().map_err(|_| bad(name)));
    numbers.collect()
}

/// The stretch that a picture is asked of.
fn viewport(viewed: &ViewedTrace, request: &Request) -> Result<Viewport, Answer> {
    let (from, to) = (
        viewed.tick(float(request, "from")?),
        viewed.tick(float(request, "to")?),
    );
    // So a picture never has more than a screen can show.
    let least = to.saturating_sub(from) / 20_000;
    let pixel = float(request, "pixel")?.max(0.0) as u64;
    let pixel = pixel.max(least);
    Ok(Viewport { from, to, pixel })
}

/// The call that a request is about.
fn meant(viewed: &ViewedTrace, request: &Request) -> Result<CallKey, Answer> {
    let need = |name: &str| number::<u32>(request, name)?.ok_or_else(|| bad(name));
    let (start, end) = (
        viewed.tick(float(request, "start")?),
        viewed.tick(float(request, "end")?),
    );
    Ok(CallKey {
        thread: need("thread")? as usize,
        depth: need("depth")? as usize,
        start,
        end: end.max(start),
        function: need("function")?,
        is_open: need("flags")? & OPEN != 0,
    })
}

/// The stretch and the threads that a request is about.
pub(super) fn marked(request: &Request) -> Result<MarkedRange, Answer> {
    Ok(MarkedRange {
        from_ns: number(request, "from_ns")?,
        to_ns: number(request, "to_ns")?,
        threads: numbers(request, "threads")?,
    })
}

/// The name of a trace, for a title.
pub(super) fn title(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    ui::clean(&name.to_string_lossy()).into_owned()
}
