//! The CPU time of the threads: how much of it is in traced calls, and how much no traced call explains.

use std::path::Path;

use fdr_formats::calls::EndedCall;
use fdr_formats::model::{Cause, Level, Schedule, State};
use fdr_formats::states::{StateCursor, States};
use fdr_formats::{FunctionId, Source, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::query::ticks;
use super::samples::Sampled;
use crate::report::rows::Report;
use crate::stacks::{self, Pass};
use crate::symbols::Symbols;
use crate::trace;

/// The share of the CPU time in no traced call from which it is worth a line.
const MIN_NOTABLE: f64 = 0.1;
/// If the functions whose calls leave no records took more than this share of the time in no traced call, this time is
/// not known.
const MAX_COUNTED: f64 = 0.1;
/// The least share of the time in no traced call for the thread that is named.
const MIN_OF_THREAD: f64 = 0.5;

/// The CPU time of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuTime {
    /// In the order of their numbers.
    pub(crate) threads: Vec<ThreadTime>,
    /// The samples of CPU time in no traced call.
    pub(crate) samples: Sampled,
}

/// The CPU time of a thread in ticks, as far as its states are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    pub(crate) thread: ThreadId,
    pub(crate) running: u64,
    /// Of it, in traced calls.
    pub(crate) in_calls: u64,
}

impl CpuTime {
    /// Of a trace that is read as a whole. `None`: the time in no traced call is not known.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(crate) fn of_trace(
        trace: &Path,
        source: &dyn Source,
        states: &States,
        report: &Report,
    ) -> anyhow::Result<Option<CpuTime>> {
        let samples = samples_by_thread(&source.info().schedule);
        let passes = stacks::run(source, || InCallsPass::new(states, &samples));
        let passes = passes.map_err(|error| trace::about(trace, error))?;
        let calls = InCallsPass::gather(passes);
        let last = calls.values().map(|found| found.last).max();
        let until = source.info().end.max(last).unwrap_or_default();
        let mut found = CpuTime::default();
        let mut outside = Vec::new();
        for thread in states.threads() {
            let Some(is_cut) = is_cut(source, report, thread) else {
                continue;
            };
            let in_calls = calls.get(&thread);
            let from = match (is_cut, in_calls.and_then(|found| found.first)) {
                (false, _) => Ticks(0),
                // The calls before that time are overwritten.
                (true, Some(first)) => first,
                (true, None) => continue,
            };
            let running = states.in_stretch(thread, from, until).spent.running.0;
            let in_records = in_calls.map_or(0, |found| found.running.saturating_add(found.short));
            found.threads.push(ThreadTime {
                thread,
                running,
                in_calls: in_records.min(running),
            });
            let all = samples.get(&thread).map_or(&[][..], Vec::as_slice);
            for (nth, &(time, address)) in all.iter().enumerate() {
                if from <= time && in_calls.is_none_or(|found| !found.samples.contains(&nth)) {
                    outside.push(address);
                }
            }
        }
        let mut symbols = Symbols::new(&source.info().schedule.modules);
        let places = outside.into_iter().map(|address| symbols.place(address));
        found.samples = Sampled::from_places(places);
        let counted = ticks(&source.info().clock, counted_ns(report));
        let is_known = counted as f64 <= MAX_COUNTED * found.outside() as f64;
        Ok((found.running() > 0 && is_known).then_some(found))
    }

    pub(crate) fn running(&self) -> u64 {
        self.threads.iter().map(|thread| thread.running).sum()
    }

    pub(crate) fn in_calls(&self) -> u64 {
        self.threads.iter().map(|thread| thread.in_calls).sum()
    }

    pub(crate) fn outside(&self) -> u64 {
        self.threads.iter().map(ThreadTime::outside).sum()
    }

    /// Whether the time in no traced call is worth a line.
    pub(crate) fn is_notable(&self) -> bool {
        self.outside() as f64 > MIN_NOTABLE * self.running() as f64
    }

    /// The thread that has most of the time in no traced call.
    pub(crate) fn with_most_outside(&self) -> Option<ThreadId> {
        let most = self.threads.iter().max_by_key(|thread| thread.outside())?;
        let least = MIN_OF_THREAD * self.outside() as f64;
        (most.outside() as f64 > least).then_some(most.thread)
    }
}

impl ThreadTime {
    fn outside(&self) -> u64 {
        self.running - self.in_calls
    }
}

/// Whether older records of a thread are overwritten. `None`: other records are missing, too, so that its time in calls
/// is not known.
fn is_cut(source: &dyn Source, report: &Report, thread: ThreadId) -> Option<bool> {
    let Some(row) = report.threads.iter().find(|row| row.id == thread.0) else {
        // A thread that made no traced call; or its ring is used by another thread now.
        return (source.info().missing.threads == 0).then_some(false);
    };
    let dropped = row.counts.map_or(0, |counts| counts.dropped);
    (row.lost == 0 && dropped == 0).then_some(row.is_cut)
}

/// The estimated time of functions some of whose calls leave no records.
fn counted_ns(report: &Report) -> u64 {
    let whole = report.whole.as_ref().map(|whole| &whole.rows);
    let rows = whole.unwrap_or(&report.rows).iter();
    let counted = rows.filter(|row| row.counted > 0 || row.level != Level::Timed);
    counted.map(|row| row.self_ns).sum()
}

/// When each sample was taken, and its address.
type SamplesByThread = HashMap<ThreadId, Vec<(Ticks, u64)>>;

/// The samples of CPU time in order of time.
fn samples_by_thread(schedule: &Schedule) -> SamplesByThread {
    let mut by_thread = SamplesByThread::new();
    for sample in schedule
        .samples
        .iter()
        .filter(|sample| sample.cause == Cause::Time)
    {
        let samples = by_thread.entry(sample.thread).or_default();
        samples.push((sample.time, sample.address));
    }
    by_thread
        .values_mut()
        .for_each(|samples| samples.sort_unstable());
    by_thread
}

/// What the outermost calls of a thread have.
#[derive(Clone, Debug)]
struct InCalls {
    cursor: StateCursor,
    first: Option<Ticks>,
    last: Ticks,
    running: u64,
    /// The time of short calls that are in no other call. It counts as time on a CPU.
    short: u64,
    /// The places of the samples inside of calls, and that of the first sample behind them.
    samples: HashSet<usize>,
    next: usize,
}

impl InCalls {
    fn see(&mut self, start: Ticks, end: Ticks) {
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = self.last.max(end);
    }

    /// An outermost call.
    fn add(&mut self, start: Ticks, end: Ticks, samples: &[(Ticks, u64)]) {
        self.see(start, end);
        self.cursor.reach(start);
        let stay = self.cursor.current();
        self.running += match (stay.until >= end, stay.state) {
            (true, Some(State::Running)) => end.since(start).0,
            (true, _) => 0,
            (false, _) => self.cursor.in_stretch(start, end).spent.running.0,
        };
        while let Some((time, _)) = samples.get(self.next).filter(|(time, _)| *time <= end) {
            if *time >= start {
                self.samples.insert(self.next);
            }
            self.next += 1;
        }
    }

    fn join(&mut self, more: InCalls) {
        self.first = [self.first, more.first].into_iter().flatten().min();
        self.last = self.last.max(more.last);
        self.running += more.running;
        self.short = self.short.saturating_add(more.short);
        self.samples.extend(more.samples);
    }
}

/// The pass over the outermost calls.
struct InCallsPass<'a> {
    states: &'a States,
    samples: &'a SamplesByThread,
    threads: HashMap<ThreadId, InCalls>,
    thread: ThreadId,
}

impl<'a> InCallsPass<'a> {
    fn new(states: &'a States, samples: &'a SamplesByThread) -> InCallsPass<'a> {
        InCallsPass {
            states,
            samples,
            threads: HashMap::new(),
            thread: ThreadId::default(),
        }
    }

    fn gather(passes: Vec<InCallsPass<'_>>) -> HashMap<ThreadId, InCalls> {
        let mut threads: HashMap<ThreadId, InCalls> = HashMap::new();
        for (thread, found) in passes.into_iter().flat_map(|pass| pass.threads) {
            match threads.get_mut(&thread) {
                Some(known) => known.join(found),
                None => drop(threads.insert(thread, found)),
            }
        }
        threads
    }

    fn current(&mut self) -> &mut InCalls {
        let states = self.states;
        self.threads.entry(self.thread).or_insert_with(|| InCalls {
            cursor: states.cursor(self.thread),
            first: None,
            last: Ticks(0),
            running: 0,
            short: 0,
            samples: HashSet::default(),
            next: 0,
        })
    }
}

impl Pass for InCallsPass<'_> {
    /// Whether there is an open call.
    type Data = bool;

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn entered(&mut self, _: FunctionId, _: bool) -> bool {
        true
    }

    fn ended(&mut self, ended: &EndedCall<bool>, _: bool) {
        if ended.depth == 0 {
            let samples = self.samples.get(&self.thread);
            let samples = samples.map_or(&[][..], Vec::as_slice);
            self.current().add(ended.call.start, ended.end, samples);
        }
    }

    fn short_calls(&mut self, is_inside: bool, time: Ticks, _: u64, ticks: u64) {
        if !is_inside {
            let found = self.current();
            found.see(time, time);
            found.short = found.short.saturating_add(ticks);
        }
    }
}
