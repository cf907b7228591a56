//! The figures of an interval: the differences of two looks at a process. Each is a difference of sums over the whole
//! run, so no call is lost and no call is counted twice. A call that has not ended counts with the time that it has
//! taken. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use clap::ValueEnum;
use fdr_formats::lengths;
use fdr_formats::model::{Estimate, Figures, FunctionTotals, figures};
use fdr_formats::ring::{LiveThread, Reading};
use fdr_formats::tasks::of_name;
use fdr_formats::{FunctionId, Ticks, TraceInfo};
use serde::Serialize;

use super::reading::{OneRing, RingSample, Spent};
use super::states::FunctionStates;
use crate::report::names::name_of;
use crate::report::states::RowStates;

/// What a process did in an interval, and the sums of its whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Picture {
    pub(super) process: u32,
    pub(super) program: String,
    pub(super) interval_ns: u64,
    /// Why no further picture follows, in words. `None`: the process goes on.
    pub(super) over: Option<String>,
    /// Calls of all functions that ended in the interval, in a second.
    pub(super) calls_per_s: f64,
    /// The time that the functions' states are of. `None`: they are not known.
    pub(super) states_over_ns: Option<u64>,
    pub(super) functions: Vec<Row>,
    pub(super) threads: Vec<ThreadRow>,
}

/// A function, of all threads or of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) id: u32,
    pub(super) untimed: bool,
    /// Of the whole run, the calls that have ended.
    pub(super) calls: u64,
    pub(super) total_ns: u64,
    pub(super) self_ns: u64,
    pub(super) longest_ns: Option<u64>,
    pub(super) interval: Interval,
}

/// What a function did in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Interval {
    /// Those that ended.
    pub(super) calls: u64,
    pub(super) calls_per_s: f64,
    /// Of calls that ended and of those that did not, as far as they were within the interval.
    pub(super) total_ns: Option<u64>,
    pub(super) self_ns: Option<u64>,
    /// Of the calls that ended.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Of the calls with records, in the time that states are known of.
    pub(super) states: Option<RowStates>,
    /// The factor that turns a time in a state into the time in each second.
    #[serde(skip)]
    pub(super) states_per_second: f64,
    /// What a figure is multiplied with to be that of a second.
    #[serde(skip)]
    pub(super) per_second: f64,
}

impl Interval {
    /// Self time on a CPU, in a second.
    pub(super) fn running_a_second(&self) -> Option<u64> {
        self.states
            .map(|states| self.a_second(states.own.running_ns))
    }

    /// Self time of waiting, in a second.
    pub(super) fn waiting_a_second(&self) -> Option<u64> {
        self.states
            .map(|states| self.a_second(states.own.waiting_ns))
    }

    fn a_second(&self, in_state_ns: u64) -> u64 {
        (in_state_ns as f64 * self.states_per_second).round() as u64
    }
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ThreadRow {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) has_ended: bool,
    pub(super) calls_per_s: f64,
    /// In the interval, as the system counts; null: it does not say.
    pub(super) running_ns: Option<u64>,
    pub(super) ready_ns: Option<u64>,
    pub(super) waiting_ns: Option<u64>,
    /// The innermost call that has not ended, and for how long.
    pub(super) function: Option<String>,
    pub(super) open_ns: Option<u64>,
    pub(super) functions: Vec<Row>,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Self time
    #[default]
    #[value(name = "self")]
    Own,
    /// Self time on a CPU
    Running,
    /// Self time of waiting
    Waiting,
    /// Total time
    Total,
    /// Calls
    Calls,
    /// The length that 99 % of the calls do not exceed
    P99,
    /// Names
    Name,
}

impl Sort {
    const ALL: [Sort; 7] = [
        Sort::Own,
        Sort::Running,
        Sort::Waiting,
        Sort::Total,
        Sort::Calls,
        Sort::P99,
        Sort::Name,
    ];

    fn is_of_states(self) -> bool {
        matches!(self, Sort::Running | Sort::Waiting)
    }

    /// The next key that these figures have.
    pub(super) fn next(self, picture: &Picture) -> Sort {
        self.neighbour(Sort::ALL.into_iter(), picture)
    }

    pub(super) fn previous(self, picture: &Picture) -> Sort {
        self.neighbour(Sort::ALL.into_iter().rev(), picture)
    }

    fn neighbour(self, all: impl Iterator<Item = Sort> + Clone, picture: &Picture) -> Sort {
        let has_states = picture.states_over_ns.is_some();
        let after = all.cycle().skip_while(|sort| *sort != self).skip(1);
        let mut known = after.filter(|sort| has_states || !sort.is_of_states());
        known.next().unwrap_or_default()
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Sort::Own => "self",
            Sort::Running => "running",
            Sort::Waiting => "waiting",
            Sort::Total => "total",
            Sort::Calls => "calls",
            Sort::P99 => "p99",
            Sort::Name => "name",
        }
    }

    /// The largest first, and names from A on. Equal ones stand by name, so that they keep their places.
    pub(super) fn compare(self, one: &Row, other: &Row) -> Ordering {
        let key = |row: &Row| match self {
            Sort::Own => row.interval.self_ns,
            Sort::Running => row.interval.running_a_second(),
            Sort::Waiting => row.interval.waiting_a_second(),
            Sort::Total => row.interval.total_ns,
            Sort::Calls => Some(row.interval.calls),
            Sort::P99 => row.interval.p99_ns,
            Sort::Name => None,
        };
        // Rows that nothing happened to in the interval stand as in the whole run.
        let run = |row: &Row| match self {
            Sort::Name => 0,
            Sort::Calls => row.calls,
            Sort::Total => row.total_ns,
            Sort::Own | Sort::Running | Sort::Waiting | Sort::P99 => row.self_ns,
        };
        let by_key = key(other).cmp(&key(one));
        let by_run = run(other).cmp(&run(one));
        let by_name = one.name.cmp(&other.name);
        by_key
            .then(by_run)
            .then(by_name)
            .then(one.id.cmp(&other.id))
    }
}

/// What the calls of a function have taken until a moment.
#[derive(Clone, Debug, Default)]
struct Sum {
    /// Calls that have ended.
    ended: FunctionTotals,
    /// What the others have taken.
    total: u64,
    own: u64,
}

type Sums = BTreeMap<FunctionId, Sum>;

fn sum(sums: &mut Sums, function: FunctionId) -> &mut Sum {
    let new = || Sum {
        ended: FunctionTotals {
            function,
            ..FunctionTotals::default()
        },
        ..Sum::default()
    };
    sums.entry(function).or_insert_with(new)
}

fn add_ended(sums: &mut Sums, totals: &[FunctionTotals]) {
    for more in totals {
        sum(sums, more.function).ended.add(more);
    }
}

/// The sums of a thread.
fn of_thread(thread: &LiveThread, now: Option<Ticks>) -> Sums {
    let mut sums = Sums::new();
    add_ended(&mut sums, &thread.totals);
    let Some(now) = now.filter(|_| !thread.has_ended) else {
        return sums;
    };
    for (at, call) in thread.open.iter().enumerate() {
        let took = now.since(call.entered).0;
        let next = thread.open.get(at + 1);
        let next = next.map_or(0, |next| now.since(next.entered).0);
        let inside = call.inside.0.saturating_add(next);
        let sum = sum(&mut sums, call.function);
        sum.total = sum.total.saturating_add(took);
        sum.own = sum.own.saturating_add(took.saturating_sub(inside));
    }
    sums
}

/// The sums of all threads.
fn of_all(reading: &Reading) -> Sums {
    let mut sums = Sums::new();
    add_ended(&mut sums, &reading.ended);
    for thread in &reading.threads {
        for (function, more) in of_thread(thread, reading.now) {
            let sum = sum(&mut sums, function);
            sum.ended.add(&more.ended);
            sum.total = sum.total.saturating_add(more.total);
            sum.own = sum.own.saturating_add(more.own);
        }
    }
    sums
}

/// What is new in the sums of calls that ended.
fn since(now: &FunctionTotals, before: &FunctionTotals) -> FunctionTotals {
    let was = |class: u8| {
        let found = before.lengths.binary_search_by_key(&class, |known| known.0);
        found.map_or(0, |at| before.lengths[at].1)
    };
    let more = |(class, count): (u8, u64)| (class, count.saturating_sub(was(class)));
    let more = now.lengths.iter().copied().map(more);
    let lengths: Vec<(u8, u64)> = more.filter(|more| more.1 > 0).collect();
    let longest = match now.longest > before.longest {
        true => now.longest,
        // The upper end of the highest new class, but no more than the longest call of the whole run.
        false => lengths.last().map_or(Ticks(0), |last| {
            let end = lengths::shortest(usize::from(last.0) + 1) - 1;
            Ticks(end.min(now.longest.0))
        }),
    };
    FunctionTotals {
        function: now.function,
        calls: now.calls.saturating_sub(before.calls),
        untimed: now.untimed.saturating_sub(before.untimed),
        total: now.total.since(before.total),
        own: now.own.since(before.own),
        longest,
        lengths,
        nests: now.nests,
        estimate: now.estimate.as_deref().map(|now| {
            let before = before.estimate.as_deref().copied().unwrap_or_default();
            Box::new(since_estimate(now, &before))
        }),
    }
}

/// What is new in the estimates.
fn since_estimate(now: &Estimate, before: &Estimate) -> Estimate {
    Estimate {
        missed: now.missed.saturating_sub(before.missed),
        total: now.total.since(before.total),
        own: now.own.since(before.own),
        sampled: now.sampled.saturating_sub(before.sampled),
        around: now.around.saturating_sub(before.around),
        ..*now
    }
}

/// The figures of all functions of some sums.
fn all_figures(
    info: &TraceInfo,
    ended: BTreeMap<FunctionId, FunctionTotals>,
) -> BTreeMap<FunctionId, Figures> {
    figures(&ended, &|id| {
        info.function(id).is_none_or(|function| !function.untimed)
    })
}

/// The states of functions, and the time that they are of.
type States<'a> = Option<(&'a FunctionStates, u64)>;

/// The rows of some sums, and how many calls ended.
fn rows(
    info: &TraceInfo,
    now: &Sums,
    before: &Sums,
    states: States<'_>,
    passed: Duration,
) -> (Vec<Row>, u64) {
    let (mut rows, mut calls) = (Vec::new(), 0_u64);
    let nothing = Sum::default();
    let ended = now.iter().map(|(id, sum)| (*id, sum.ended.clone()));
    let figures = all_figures(info, ended.collect());
    let new = now.iter().map(|(id, sum)| {
        let was = before.get(id).unwrap_or(&nothing);
        (*id, since(&sum.ended, &was.ended))
    });
    let new = all_figures(info, new.collect());
    for (id, sum) in now {
        let name = name_of(info, *id);
        // What is counted of tasks has a table of its own, in reports.
        if of_name(&name).is_some() {
            continue;
        }
        let was = before.get(id).unwrap_or(&nothing);
        let figures_in =
            |all: &BTreeMap<FunctionId, Figures>| all.get(id).copied().unwrap_or_default();
        let figures = [figures_in(&figures), figures_in(&new)];
        if figures[0].calls == 0 && sum.total == 0 {
            continue;
        }
        let mut row = row(info, name, sum, was, figures, passed);
        if let Some((states, over_ns)) = states.filter(|_| !row.untimed) {
            row.interval.states = Some(states.get(id).copied().unwrap_or_default());
            row.interval.states_per_second = rate(1, Duration::from_nanos(over_ns));
        }
        calls = calls.saturating_add(row.interval.calls);
        rows.push(row);
    }
    (rows, calls)
}

fn row(
    info: &TraceInfo,
    name: String,
    now: &Sum,
    before: &Sum,
    [figures, of_interval]: [Figures; 2],
    passed: Duration,
) -> Row {
    let id = now.ended.function;
    let function = info.function(id);
    let ns = |ticks: Ticks| info.clock.nanos(ticks).0;
    let new = since(&now.ended, &before.ended);
    let untimed = function.is_some_and(|function| function.untimed)
        || now.ended.calls == 0 && now.ended.untimed > 0;
    let timed = |ticks: Option<Ticks>| ticks.filter(|_| !untimed).map(ns);
    // The open calls were counted before with what they had taken then.
    let with_open = |ended: Ticks, open: u64, was: u64| {
        let sum = ended.0.saturating_add(open);
        Some(Ticks(sum.saturating_sub(was)))
    };
    let calls = of_interval.calls;
    Row {
        name,
        file: function.map_or_else(String::new, |function| function.file.clone()),
        line: function.map_or(0, |function| function.line),
        id: id.0,
        untimed,
        calls: figures.calls,
        total_ns: timed(Some(figures.total)).unwrap_or(0),
        self_ns: timed(Some(figures.own)).unwrap_or(0),
        longest_ns: timed(Some(now.ended.longest).filter(|_| now.ended.calls > 0)),
        interval: Interval {
            calls,
            calls_per_s: rate(calls, passed),
            total_ns: timed(with_open(of_interval.total, now.total, before.total)),
            self_ns: timed(with_open(of_interval.own, now.own, before.own)),
            p50_ns: timed(new.quantile(50)),
            p99_ns: timed(new.quantile(99)),
            per_second: rate(1, passed),
            ..Interval::default()
        },
    }
}

/// `count` events within the time `passed`, as a number for each second.
fn rate(count: u64, passed: Duration) -> f64 {
    let seconds = passed.as_secs_f64();
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// How long a thread ran, was ready and waited. `None`: the system did not say.
fn states(now: Option<&Spent>, before: Option<&Spent>, passed: u64) -> Option<[u64; 3]> {
    let (now, before) = (now?, before?);
    let running = now.running_ns.saturating_sub(before.running_ns);
    // The system counts in steps, and the looks are not at the very moments of its counting.
    let running = running.min(passed);
    let ready = now.ready_ns.saturating_sub(before.ready_ns);
    let ready = ready.min(passed - running);
    Some([running, ready, passed - running - ready])
}

fn thread_row(
    info: &TraceInfo,
    (thread, now): (&LiveThread, Option<Ticks>),
    before: &Sums,
    (states, of_functions): (Option<[u64; 3]>, States<'_>),
    passed: Duration,
) -> ThreadRow {
    let now_sums = of_thread(thread, now);
    let (functions, calls) = rows(info, &now_sums, before, of_functions, passed);
    let innermost = thread.open.last().filter(|_| !thread.has_ended);
    let open = innermost.zip(now);
    ThreadRow {
        id: thread.id.0,
        name: info.whole_thread_name(&thread.name).to_owned(),
        has_ended: thread.has_ended,
        calls_per_s: rate(calls, passed),
        running_ns: states.map(|states| states[0]),
        ready_ns: states.map(|states| states[1]),
        waiting_ns: states.map(|states| states[2]),
        function: innermost.map(|call| name_of(info, call.function)),
        open_ns: open.map(|(call, now)| info.clock.nanos(now.since(call.entered)).0),
        functions,
    }
}

/// The difference of two looks at a process. Where a ring is new, all of it is.
pub(super) fn between(process: u32, before: &RingSample, now: &RingSample) -> Picture {
    let passed = now.at.saturating_duration_since(before.at);
    let passed_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    let mut picture = Picture {
        process,
        interval_ns: passed_ns,
        over: now.over.clone(),
        ..Picture::default()
    };
    for (at, ring) in now.rings.iter().enumerate() {
        let OneRing {
            info,
            reading,
            states: known_states,
        } = ring;
        let known_states = known_states.as_ref();
        picture.states_over_ns = picture
            .states_over_ns
            .max(known_states.map(|known| known.over_ns));
        if picture.program.is_empty() {
            picture.program.clone_from(&info.program);
        }
        let known = before.rings.get(at);
        let known = known.filter(|known| known.info.start == info.start);
        let was = known
            .map(|known| of_all(&known.reading))
            .unwrap_or_default();
        let of_functions = known_states.map(|known| (&known.all, known.over_ns));
        let (rows, calls) = rows(info, &of_all(reading), &was, of_functions, passed);
        picture.functions.extend(rows);
        picture.calls_per_s += rate(calls, passed);
        let threads = known.into_iter().flat_map(|known| {
            let now = known.reading.now;
            let threads = known.reading.threads.iter();
            threads.map(move |thread| ((thread.slot, thread.generation), (thread, now)))
        });
        let threads: HashMap<_, _> = threads.collect();
        for thread in &reading.threads {
            let was = threads.get(&(thread.slot, thread.generation));
            let was = was.map_or_else(Sums::new, |(thread, now)| of_thread(thread, *now));
            let [one, other] = [now, before].map(|look| look.spent.get(&thread.id.0));
            let states = states(one, other, passed_ns).filter(|_| !thread.has_ended);
            let none = FunctionStates::new();
            let of_functions = known_states.map(|known| {
                let of_thread = known.threads.get(&thread.id);
                (of_thread.unwrap_or(&none), known.over_ns)
            });
            let states = (states, of_functions);
            let row = thread_row(info, (thread, reading.now), &was, states, passed);
            // A thread that has ended stays for one interval.
            if !row.has_ended || row.calls_per_s > 0.0 {
                picture.threads.push(row);
            }
        }
    }
    picture
}
