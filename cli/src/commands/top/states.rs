//! How long functions were on a CPU and off it between two readings of a process, by the records of the threads and the
//! context switches in the ring. Only what was recorded since the last reading is copied.

use std::collections::{BTreeMap, HashMap};

use fdr_formats::model::Schedule;
use fdr_formats::ring::{Reading, Ring};
use fdr_formats::source::drive_parallel;
use fdr_formats::{FunctionId, Source, ThreadId, Ticks, TraceInfo};

use crate::report::all::engine_of;
use crate::report::engine::gather;
use crate::report::states::RowStates;
use crate::{selection, ui};

/// The chunks that are copied before the new ones, so that a call which began earlier has its entry.
const CHUNKS_BEFORE: u64 = 2;

/// The times of functions in states.
pub(super) type FunctionStates = BTreeMap<FunctionId, RowStates>;

/// The states of functions between two readings, of all threads together and of each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct StateTimes {
    /// How long that was.
    pub(super) over_ns: u64,
    pub(super) all: FunctionStates,
    pub(super) threads: HashMap<ThreadId, FunctionStates>,
}

/// How far an earlier reading came: the last moment of known states (or the start of the recording), and the newest
/// chunk of each slot.
#[derive(Clone, Debug)]
pub(super) struct Watermark {
    start: Ticks,
    until: Ticks,
    chunks: HashMap<u32, u64>,
}

impl Watermark {
    pub(super) fn new(info: &TraceInfo, reading: &Reading) -> Watermark {
        let start = info.start.unwrap_or_default();
        let threads = reading.threads.iter();
        Watermark {
            start,
            until: known_until(&info.schedule).unwrap_or(start),
            chunks: threads.map(|thread| (thread.slot, thread.chunk)).collect(),
        }
    }

    /// How many chunks of a slot are needed for what is new.
    fn chunks(&self, slot: u32, now: &Watermark) -> u64 {
        let before = self.chunks.get(&slot).copied().unwrap_or(0);
        let now = now.chunks.get(&slot).copied().unwrap_or(0);
        now.saturating_sub(before).saturating_add(CHUNKS_BEFORE)
    }
}

/// The last moment at which something is known.
fn known_until(schedule: &Schedule) -> Option<Ticks> {
    let switches = schedule.switches.iter();
    let of_all = switches.filter(|switch| switch.thread == ThreadId(0));
    of_all.map(|switch| switch.time).max()
}

/// The states from one look to the next one. `None`: the process does not record states, nothing is new, or another
/// recording has begun.
///
/// # Errors
/// Where the ring can't be copied.
pub(super) fn between(
    ring: &Ring,
    info: &TraceInfo,
    before: &Watermark,
    now: &Watermark,
) -> anyhow::Result<Option<StateTimes>> {
    if before.start != now.start || before.until >= now.until {
        return Ok(None);
    }
    let most = |slot| before.chunks(slot, now);
    let (source, _) = ring.newest_to_trace(info, &most)?;
    let source = selection::between(Box::new(source), before.until, now.until);
    times(&*source, before.until, now.until).map(Some)
}

fn times(source: &dyn Source, from: Ticks, until: Ticks) -> anyhow::Result<StateTimes> {
    let info = source.info();
    // A progress bar would stand in the table.
    let engines = drive_parallel(source, ui::jobs(), engine_of(source, true), &|_| {})?;
    let figures = gather(engines, true)?;
    let states_of = |functions: &BTreeMap<FunctionId, Box<_>>| {
        let each = functions.iter();
        let each = each.map(|(&id, stats)| (id, RowStates::new(&info.clock, stats)));
        each.collect::<FunctionStates>()
    };
    let threads = figures.threads.iter();
    Ok(StateTimes {
        over_ns: info.clock.nanos(until.since(from)).0,
        all: states_of(&figures.functions),
        threads: threads
            .map(|part| (part.thread.id, states_of(&part.functions)))
            .collect(),
    })
}
