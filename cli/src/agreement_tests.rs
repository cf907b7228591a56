//! Do all commands say the same of a trace? Each command is compared with the formats' call stack on random traces.
//! These have calls without entry or exit, calls with synthetic edges, gaps, clocks that jump, and short calls without
//! records.

mod conversions;

use std::collections::BTreeMap;

use fdr_formats::calls::{CallHandler, CallStack, EdgeStatus, EndedCall, OpenCall, untimed};
use fdr_formats::source::drive;
use fdr_formats::tcstate::state::{StateAtTime, Value};
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Mark, Nanos, Sink, Source, Thread, ThreadId, Ticks,
    registry,
};

use self::conversions::converted;
use crate::commands::verify::checker::tests::missing_of;
use crate::report::engine::{Engine, gather};
use crate::report::function_rows::Row;
use crate::report::query::{Key, Selection};
use crate::report::rows::Report;
use crate::tally::Tally;
use crate::testing::random_trace::RandomTrace;
use crate::tree::tests::{short_of, sums_of};

/// The figures of a function's calls: their number, the number of clipped ones, and the ticks in the function itself.
type Sums = BTreeMap<u32, [u64; 3]>;

/// Calls with a missing edge: entries, exits of calls around which another one ended, exits at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) entries: u64,
    pub(crate) exits: u64,
    pub(crate) open: u64,
}

/// The call stack, followed by itself.
#[derive(Default)]
struct Reference {
    threads: BTreeMap<ThreadId, CallStack>,
    current: ThreadId,
    found: TraceSums,
    /// Short calls are passed over, as by formats that can't hold them.
    without_short: bool,
}

#[derive(Default)]
struct TraceSums {
    sums: Sums,
    missing: Missing,
    /// Calls without records, and the ticks that they took.
    short: [u64; 2],
    ended: bool,
}

impl CallHandler<()> for TraceSums {
    fn missing(&mut self, _: FunctionId, _: fdr_formats::calls::Exit, _: Option<&()>) {}

    fn ended(&mut self, ended: EndedCall<()>, _: &mut [OpenCall<()>]) {
        let sums = self.sums.entry(ended.call.function.0).or_default();
        sums[0] += 1;
        sums[1] += u64::from(ended.clipped);
        sums[2] += ended.own();
        self.missing.entries += u64::from(ended.call.entry() == EdgeStatus::Missing);
        if ended.exit == EdgeStatus::Missing {
            let exits = match self.ended {
                true => &mut self.missing.open,
                false => &mut self.missing.exits,
            };
            *exits += 1;
        }
    }
}

impl Reference {
    fn read(source: &dyn Source) -> Reference {
        Reference::follow(source, false)
    }

    fn follow(source: &dyn Source, without_short: bool) -> Reference {
        let mut reference = Reference {
            without_short,
            ..Reference::default()
        };
        let untimed = untimed(source.info());
        assert!(untimed.is_empty());
        drive(source, &mut reference, &|_| {}).expect("readable");
        reference
    }

    /// What is open at the end: functions, outermost first.
    fn open(&self) -> BTreeMap<u64, Vec<u32>> {
        let open = |stack: &CallStack| stack.open().iter().map(|open| open.function.0).collect();
        let threads = self.threads.iter().map(|(id, stack)| (id.0, open(stack)));
        threads
            .filter(|(_, open): &(u64, Vec<u32>)| !open.is_empty())
            .collect()
    }

    /// Calls that are open last until `end`, the moment of the dump.
    fn finish(mut self, end: Option<Ticks>) -> TraceSums {
        self.found.ended = true;
        for stack in self.threads.values_mut() {
            stack.finish(end, &mut self.found);
        }
        self.found
    }
}

impl Sink for Reference {
    fn thread(&mut self, thread: &Thread) {
        self.current = thread.id;
    }

    fn calls(&mut self, calls: &[Call]) {
        let stack = self.threads.entry(self.current).or_default();
        for call in calls {
            match call.edge {
                Edge::Entry => stack.enter(call, ()),
                _ => drop(stack.exit(call, &mut self.found)),
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let stack = self.threads.entry(self.current).or_default();
        match mark {
            Mark::Lost { .. } => stack.lose(),
            Mark::Break { .. } => stack.doubt(),
            Mark::ShortCalls { time, calls, ticks } if !self.without_short => {
                let ticks = stack.short_calls(*time, *ticks);
                let short = &mut self.found.short;
                *short = [short[0] + calls, short[1] + ticks];
            }
            _ => {}
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// What `fdr report` says.
fn report_of(source: &dyn Source, per_thread: bool) -> Report {
    let mut engine = Engine::new(source, per_thread);
    drive(source, &mut engine, &|_| {}).expect("readable");
    let figures = gather(vec![engine], per_thread).expect("memory");
    let all = Selection {
        filter: None,
        sort: Key::Own,
        reverse: false,
        limit: None,
        per_thread,
    };
    let mut report = Report::new(source.info(), figures, &all).expect("a report");
    if per_thread {
        report.show_whole(source.info(), &all).expect("memory");
    }
    report
}

fn reported(source: &dyn Source) -> (Sums, Missing, (u64, u64)) {
    let report = report_of(source, false);
    let sums = |row: &Row| (row.id, [row.calls, row.clipped, row.self_ns]);
    let missing = Missing {
        entries: report.flaws.missing_entries,
        exits: report.flaws.missing_exits,
        open: report.flaws.open,
    };
    (
        report.rows.iter().map(sums).collect(),
        missing,
        report.short(),
    )
}

/// Ticks of the reference in ns, as reports round them.
fn in_nanos(source: &dyn Source, sums: &Sums) -> Sums {
    let clock = &source.info().clock;
    let nanos = |(&id, &[calls, clipped, own]): (&u32, &[u64; 3])| {
        let Nanos(own) = clock.nanos(fdr_formats::Ticks(own));
        (id, [calls, clipped, own])
    };
    sums.iter().map(nanos).collect()
}

/// Each trace as it is, and as the XRay writer balances it: with synthetic edges. Of these, one in `step` is made.
fn traces(least: u64, step: usize) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    as_they_are_and_balanced(step, move |seed| RandomTrace::new(seed, least, 0))
}

/// The same with short calls without records, totals and counts.
fn traces_with_short_calls(
    least: u64,
    step: usize,
) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    as_they_are_and_balanced(step, move |seed| RandomTrace::with_short_calls(seed, least))
}

fn as_they_are_and_balanced(
    step: usize,
    make: impl Fn(u64) -> RandomTrace,
) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    (0..1000).step_by(step).map(move |nth: u64| {
        let seed = 1 + nth / 2;
        let trace = make(seed);
        if nth.is_multiple_of(2) {
            return (seed, Box::new(trace) as Box<dyn Source>);
        }
        let xray = registry::targets().find(|target| target.name == "xray");
        let balanced = converted(&trace, xray.expect("XRay"), seed.is_multiple_of(2)).back;
        (seed, balanced)
    })
}

/// Traces whose clocks go back, as they are. One in `step` is made.
fn traces_that_go_back(step: usize) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    (1..=500).step_by(step).map(|seed| {
        let trace = RandomTrace::new(seed, 0, 1 + seed % 100);
        (seed, Box::new(trace) as Box<dyn Source>)
    })
}

#[test]
fn report_flame_verify_and_state_agree() {
    commands_agree(traces(0, 1));
}

#[test]
fn they_agree_where_clocks_go_back() {
    commands_agree(traces_that_go_back(1));
}

#[test]
fn they_agree_on_calls_without_records() {
    commands_agree(traces_with_short_calls(0, 1));
}

fn commands_agree(traces: impl Iterator<Item = (u64, Box<dyn Source>)>) {
    let (mut odd, mut open_ones, mut lasting) = (0, 0, 0);
    for (seed, source) in traces {
        let source = &*source;
        let reference = Reference::read(source);
        let open = reference.open();
        let latest = reference.threads.values().map(CallStack::latest).max();
        lasting += u64::from(!open.is_empty() && source.info().end > latest);
        let found = reference.finish(source.info().end);
        odd += u64::from(found.missing.entries + found.missing.exits > 0);
        let (sums, missing, (short_calls, short_ns)) = reported(source);
        let [calls, ticks] = found.short;
        assert_eq!(short_calls, calls, "report, trace {seed}");
        assert!(
            short_ns.abs_diff(source.info().clock.nanos(Ticks(ticks)).0) <= 2,
            "report, trace {seed}: one rounding for each of two threads"
        );
        assert_eq!(short_of(source), ticks, "flame, trace {seed}");
        let tally = Tally::count(source).expect("readable");
        assert_eq!(tally.marks().short_calls, calls, "info, trace {seed}");
        assert_eq!(sums, in_nanos(source, &found.sums), "report, trace {seed}");
        assert_eq!(missing, found.missing, "report, trace {seed}");
        // A path without time of its own has no line.
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        own.extend(found.sums.iter().map(|(&id, sums)| (id, sums[2])));
        own.retain(|_, &mut own| own > 0);
        assert_eq!(sums_of(source), own, "flame, trace {seed}");
        // `verify` reports no missing edge that a gap explains.
        let judged = missing_of(source);
        if !has_gap(source) {
            assert_eq!(judged, found.missing, "verify, trace {seed}");
        }
        assert!(
            judged.entries <= found.missing.entries,
            "verify, trace {seed}"
        );
        let mut at = StateAtTime::new(i64::MAX, source.info());
        drive(source, &mut at, &|_| {}).expect("readable");
        if !has_synthetic(source) {
            open_ones += u64::from(!open.is_empty());
            assert_eq!(
                states(&at.finish(source.info())),
                open,
                "state, trace {seed}"
            );
        }
    }
    assert!(
        odd > 300 && open_ones > 300 && lasting > 80,
        "{odd} {open_ones} {lasting}"
    );
}

/// Figures of the whole run: calls, only counted ones, total, self time and the standard error in ns, by function.
type WholeRun = BTreeMap<u32, [u64; 5]>;

fn by_function(rows: &[Row]) -> WholeRun {
    let figures = |row: &Row| {
        let error = row.error_ns.unwrap_or_default();
        (
            row.id,
            [row.calls, row.counted, row.total_ns, row.self_ns, error],
        )
    };
    rows.iter().map(figures).collect()
}

/// The figures of all threads together, and those of each thread. `None`: the trace has no such figures.
fn whole_run(source: &dyn Source) -> Option<(WholeRun, Vec<WholeRun>)> {
    let report = report_of(source, true);
    let threads = report.threads.iter();
    let threads = threads.map(|thread| by_function(thread.rows.as_deref().unwrap_or_default()));
    let threads = threads.collect();
    report
        .is_whole
        .then(|| (by_function(&report.rows), threads))
}

#[test]
fn whole_run_agrees_with_threads_and_json() {
    let (mut estimated, mut compared) = (0, 0);
    for (seed, source) in traces_with_short_calls(0, 1) {
        let Some((all, threads)) = whole_run(&*source) else {
            continue;
        };
        compared += 1;
        let mut sums: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for (id, figures) in threads.iter().flatten() {
            let sum = sums.entry(*id).or_default();
            *sum = [sum[0] + figures[0], sum[1] + figures[1]];
        }
        for (id, figures) in &all {
            // If no call of a function has a time on one thread, the function looks untimed on that thread.
            assert_eq!(figures[0], sums[id][0], "trace {seed}, function {id}");
            assert!(figures[1] >= sums[id][1], "trace {seed}, function {id}");
            estimated += u64::from(figures[1] > 0);
        }
        // JSON has both, and takes the second from the same totals.
        let report = report_of(&*source, false);
        let whole = report.whole.as_ref().expect("a whole run");
        assert_eq!(by_function(&whole.rows), all, "trace {seed}");
    }
    assert!(estimated > 1000 && compared > 900, "{estimated} {compared}");
}

/// Open functions by thread, as a state has them.
fn states(state: &fdr_formats::tcstate::state::State) -> BTreeMap<u64, Vec<u32>> {
    let mut threads: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for attribute in &state.attributes {
        let path: Vec<&str> = attribute.path.iter().map(String::as_str).collect();
        if let (["Threads", id, "CallStack", _], Value::Text(name)) = (&path[..], &attribute.value)
        {
            let id = id.parse().expect("a number");
            let function = name.trim_start_matches('#').parse().expect("a function");
            threads.entry(id).or_default().push(function);
        }
    }
    threads
}

/// Whether something of that kind is in a trace.
struct EventPredicate(fn(&Mark<'_>) -> bool, fn(&Call) -> bool, bool);

impl Sink for EventPredicate {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        self.2 |= calls.iter().any(self.1);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.2 |= (self.0)(mark);
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

fn has(source: &dyn Source, mark: fn(&Mark<'_>) -> bool, call: fn(&Call) -> bool) -> bool {
    let mut has = EventPredicate(mark, call, false);
    drive(source, &mut has, &|_| {}).expect("readable");
    has.2
}

fn has_gap(source: &dyn Source) -> bool {
    has(source, |mark| matches!(mark, Mark::Lost { .. }), |_| false)
}

fn has_synthetic(source: &dyn Source) -> bool {
    has(source, |_| false, |call| call.synthetic)
}
