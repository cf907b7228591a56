//! Checks a trace or a ring as `fdr verify` does. The reader must have no complaint, times must never go back, calls
//! must nest, and counts must agree with the records.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::{Counts, Level};
use fdr_formats::source::{Source, drive};
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo, registry,
};
use fdr_tests::support::course::STRAND_WORD;
use fdr_tests::support::script::FUNCTIONS;

use crate::notes::{Names, ThreadNotes};

/// Functions that are in no script have the numbers behind those that are.
const OTHERS: [&str; 3] = ["outer", "inner", "strand"];
pub(crate) const OUTER: u8 = 2 * FUNCTIONS.len() as u8;
pub(crate) const INNER: u8 = OUTER + 2;
pub(crate) const STRAND: u8 = INNER + 2;
const _: () = assert!(STRAND == STRAND_WORD);
/// The number of functions that no check knows by name.
const ANY: u8 = STRAND + 2;

/// All of a trace.
pub(crate) struct DecodedTrace {
    pub(crate) info: TraceInfo,
    pub(crate) lanes: Vec<Lane>,
}

/// One thread of it.
#[derive(Clone, Default)]
pub(crate) struct Lane {
    pub(crate) id: ThreadId,
    pub(crate) name: String,
    pub(crate) counts: Counts,
    /// Measured edges in the words of a script.
    pub(crate) edges: Vec<u8>,
    /// How often it changed its CPU, the beginnings of chunks among it.
    pub(crate) cpus: u64,
    /// How many calls left no records, each time before the edge of that place.
    pub(crate) short: Vec<(usize, u64)>,
    /// How many calls of each function have ended, in the words of a script.
    pub(crate) ended: BTreeMap<u8, u64>,
    /// How many calls have no time: those that were only counted are among them.
    pub(crate) untimed: u64,
    /// Some calls of the program left nothing: a function was only looked at for a while.
    pub(crate) misses_calls: bool,
    /// Its notes.
    pub(crate) notes: ThreadNotes,
    synthetic: [u64; 2],
    /// How many calls were open all the time.
    early: u64,
    open: Vec<FunctionId>,
    last: Ticks,
}

struct Collect {
    words: BTreeMap<FunctionId, u8>,
    names: Names,
    lanes: Vec<Lane>,
    wrong: Vec<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Collect {
    fn call(&mut self, call: &Call) {
        let Some(lane) = self.lanes.last_mut() else {
            return self.wrong.push("a call before any thread".into());
        };
        if call.time < lane.last {
            let Lane { name, last, .. } = lane;
            self.wrong
                .push(format!("{name}: time {last} goes back to {}", call.time));
        }
        lane.last = call.time;
        let exit = call.edge != Edge::Entry;
        if !exit {
            lane.open.push(call.function);
        } else if lane.open.pop() != Some(call.function) {
            let Lane { name, edges, .. } = lane;
            let (place, function) = (edges.len(), call.function);
            self.wrong.push(format!(
                "{name}: exit of function {function}, which is not the last entered, after {place} records"
            ));
        }
        if call.synthetic {
            lane.synthetic[usize::from(exit)] += 1;
        } else if let Some(word) = self.words.get(&call.function) {
            lane.edges.push(word + u8::from(exit));
        } else {
            self.wrong
                .push(format!("function {} has no name", call.function));
        }
    }
}

impl Sink for Collect {
    fn thread(&mut self, thread: &Thread) {
        if self.lanes.last().is_none_or(|lane| lane.id != thread.id) {
            self.lanes.push(Lane::default());
        }
        if let Some(lane) = self.lanes.last_mut() {
            lane.id = thread.id;
            lane.name.clone_from(&thread.name);
            lane.counts = thread.counts.unwrap_or(lane.counts);
            lane.early = lane.early.max(thread.early_calls.len() as u64);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        calls.iter().for_each(|call| self.call(call));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        match (mark, self.lanes.last_mut()) {
            (Mark::Lost { records }, _) => self
                .wrong
                .push(format!("{records} records lost between others")),
            (Mark::Cpu { .. }, Some(lane)) => lane.cpus += 1,
            (Mark::ShortCalls { calls, .. }, Some(lane)) => {
                lane.short.push((lane.edges.len(), *calls));
            }
            (Mark::Note { kind, body, .. }, Some(lane)) => {
                let place = lane.edges.len();
                let taken = lane
                    .notes
                    .take(place, (*kind, body), &self.names, &self.words);
                let name = &lane.name;
                let wrong = taken.err().map(|why| format!("{name}: {why}"));
                self.wrong.extend(wrong);
            }
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// The number of each function in scripts; the name's last part is what counts.
fn words(info: &TraceInfo) -> BTreeMap<FunctionId, u8> {
    let known = || FUNCTIONS.iter().chain(&OTHERS);
    let word = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        known().position(|known| *known == last)
    };
    let functions = info.functions.iter();
    functions
        .map(|function| (function.id, word(&function.name)))
        .map(|(id, known)| (id, known.map_or(ANY, |place| 2 * place as u8)))
        .collect()
}

/// Looks at a file.
pub(crate) fn decode_trace(path: &Path) -> Result<DecodedTrace, String> {
    decode_trace_except(path, &|_| false)
}

/// The same where the reader may have something to say that is true.
pub(crate) fn decode_trace_except(
    path: &Path,
    is_true: &dyn Fn(&Diagnostic) -> bool,
) -> Result<DecodedTrace, String> {
    let name = path.display();
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let source: Box<dyn Source> = registry::open_path(path).map_err(|error| failed(&error))?;
    let mut collect = Collect {
        words: words(source.info()),
        names: Names::new(source.info()),
        lanes: Vec::new(),
        wrong: Vec::new(),
        diagnostics: Vec::new(),
    };
    drive(&*source, &mut collect, &|_| {}).map_err(|error| failed(&error))?;
    let Collect {
        mut lanes,
        mut wrong,
        diagnostics,
        ..
    } = collect;
    let words = words(source.info());
    let estimates = source.info().missing_totals.iter();
    let mut estimates = estimates.filter_map(|totals| totals.estimate.as_deref());
    // A process that ends without a dump may have missed calls since the last estimate.
    let misses_calls =
        estimates.any(|estimate| estimate.missed > 0 || estimate.level == Level::LookedAt);
    for lane in &mut lanes {
        lane.misses_calls = misses_calls;
        let mut threads = source.info().threads.iter();
        let thread = threads.find(|thread| thread.id == lane.id);
        for totals in thread.iter().flat_map(|thread| &thread.totals) {
            let word = words.get(&totals.function).copied().unwrap_or(ANY);
            *lane.ended.entry(word).or_default() += totals.calls + totals.untimed;
            lane.untimed += totals.untimed;
        }
    }
    // A trace of nothing has a thread of nothing.
    lanes.retain(|lane| lane.counts.recorded > 0 || !lane.edges.is_empty() || lane.untimed > 0);
    let diagnostics = diagnostics.iter().chain(source.diagnostics());
    let diagnostics = diagnostics.filter(|diagnostic| !is_true(diagnostic));
    wrong.extend(diagnostics.map(|diagnostic| format!("{diagnostic:?}")));
    wrong.extend(lanes.iter().filter_map(Lane::wrong));
    match wrong.first() {
        None => Ok(DecodedTrace {
            info: source.info().clone(),
            lanes,
        }),
        Some(first) => Err(format!("{name}: {} findings: {first}", wrong.len())),
    }
}

impl Lane {
    fn wrong(&self) -> Option<String> {
        let Lane { name, counts, .. } = self;
        let sum = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
        let synthetic = [counts.synthetic_entries, counts.synthetic_exits];
        let (open, there) = (self.open.len(), self.edges.len() as u64);
        let agrees = sum == counts.recorded
            && counts.readable == there
            && synthetic == self.synthetic
            && open == 0;
        let synthetic = self.synthetic;
        (!agrees).then(|| {
            format!("{name}: {counts:?}, but {there} records, {synthetic:?} synthetic, {open} open")
        })
    }

    /// The thread's number, from its name.
    pub(crate) fn number(&self) -> Option<usize> {
        self.name.strip_prefix('n')?.parse().ok()
    }

    /// Calls whose end was added, and calls that are open after the last record.
    pub(crate) fn open_at_the_end(&self) -> (u64, u64) {
        let step = |open: u64, edge: &u8| match edge % 2 {
            0 => open + 1,
            _ => open.saturating_sub(1),
        };
        let open = self.edges.iter().fold(0, step);
        (self.synthetic[1], open + self.early)
    }

    /// The same without the records of handlers.
    pub(crate) fn without_handlers(&self) -> Lane {
        let mut own = self.clone();
        let is_own = |edge: &u8| !(OUTER..STRAND).contains(edge);
        own.edges.retain(is_own);
        // How many records of the thread's own come before each.
        let mut before = vec![0];
        for edge in &self.edges {
            let last = before.last().copied().unwrap_or(0);
            before.push(last + usize::from(is_own(edge)));
        }
        for (place, _) in &mut own.notes.planned {
            *place = before.get(*place).copied().unwrap_or(0);
        }
        own
    }

    /// Records that were committed, and those of calls that left none.
    pub(crate) fn made(&self) -> u64 {
        self.counts.overwritten + self.counts.readable + self.counts.summarised
    }
}
