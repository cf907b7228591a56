//! A trace or a ring whose records have the words of scripts. It is checked as `fdr verify` does. The reader must have
//! no complaint, times must never go back, calls must nest, and counts must agree with the records.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::{Counts, Level};
use fdr_formats::{Diagnostic, FunctionId, ThreadId, TraceInfo};
use fdr_tests::support::course::STRAND_WORD;
use fdr_tests::support::script::FUNCTIONS;
use fdr_tests::support::trace::{self, Trace};

use crate::notes::{Names, ThreadNotes};

/// The number of functions that no check knows by name.
const ANY: u8 = STRAND_WORD + 2;

/// All of a trace.
pub(crate) struct DecodedTrace {
    pub(crate) info: TraceInfo,
    pub(crate) lanes: Vec<Lane>,
    /// Calls may be neither counted nor recorded, so a thread may have nothing.
    pub(crate) misses_calls: bool,
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
    /// Ends of calls that were added.
    closed: u64,
    /// How many calls were open all the time.
    early: u64,
}

/// The number of each function in scripts; the name's last part is what counts.
fn words(info: &TraceInfo) -> BTreeMap<FunctionId, u8> {
    let word = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        let number = FUNCTIONS.iter().position(|known| *known == last);
        match number {
            Some(number) => 2 * number as u8,
            None if last == "strand" => STRAND_WORD,
            None => ANY,
        }
    };
    let functions = info.functions.iter();
    functions
        .map(|function| (function.id, word(&function.name)))
        .collect()
}

/// Reads a file.
pub(crate) fn decode_trace(path: &Path) -> DecodedTrace {
    decode_trace_except(path, |_| false)
}

/// The same where the reader may have something to say that is true.
pub(crate) fn decode_trace_except(
    path: &Path,
    is_true: impl Fn(&Diagnostic) -> bool,
) -> DecodedTrace {
    let Trace { info, threads } = Trace::read_except(path, is_true);
    let (words, names) = (words(&info), Names::new(&info));
    let mut lanes: Vec<Lane> = Vec::new();
    for thread in &threads {
        let mut lane = Lane::new(thread, &names, &words);
        let mut known = info.threads.iter();
        let known = known.find(|known| known.id == lane.id);
        for totals in known.iter().flat_map(|known| &known.totals) {
            let word = words.get(&totals.function).copied().unwrap_or(ANY);
            *lane.ended.entry(word).or_default() += totals.calls + totals.untimed;
            lane.untimed += totals.untimed;
        }
        // A trace of nothing has a thread of nothing.
        if lane.counts.recorded > 0 || !lane.edges.is_empty() || lane.untimed > 0 {
            lane.check(thread);
            lanes.push(lane);
        }
    }
    let estimates = info.missing_totals.iter();
    let mut estimates = estimates.filter_map(|totals| totals.estimate.as_deref());
    // A process that ends without a dump may have missed calls since the last estimate.
    let misses_calls =
        estimates.any(|estimate| estimate.missed > 0 || estimate.level == Level::LookedAt);
    for lane in &mut lanes {
        lane.misses_calls = misses_calls;
    }
    DecodedTrace {
        info,
        lanes,
        misses_calls,
    }
}

impl Lane {
    fn new(lane: &trace::Lane, names: &Names, words: &BTreeMap<FunctionId, u8>) -> Lane {
        let word = |edge: &u32| {
            let function = words.get(&FunctionId(edge >> 1));
            let function = function.unwrap_or_else(|| panic!("function {} has no name", edge >> 1));
            function + (edge & 1) as u8
        };
        let mut notes = ThreadNotes::default();
        for (place, _, kind, body) in &lane.notes {
            notes.take(*place, (*kind, body), names, words);
        }
        Lane {
            id: lane.thread.id,
            name: lane.thread.name.clone(),
            counts: lane.thread.counts.unwrap_or_default(),
            edges: lane.edges.iter().map(word).collect(),
            cpus: lane.cpus,
            short: lane.short.clone(),
            notes,
            closed: lane.synthetic[1],
            early: lane.early,
            ..Lane::default()
        }
    }

    fn check(&self, lane: &trace::Lane) {
        let name = &self.name;
        let _ = lane.checked_counts();
        assert_eq!(lane.lost, 0, "{name}: records are lost between others");
        assert!(
            lane.open.is_empty(),
            "{name}: {} calls are open",
            lane.open.len()
        );
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
        (self.closed, open + self.early)
    }

    /// Records that were committed, and those of calls that left none.
    pub(crate) fn made(&self) -> u64 {
        self.counts.overwritten + self.counts.readable + self.counts.summarised
    }
}
