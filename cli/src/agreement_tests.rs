//! Do all commands say the same of a trace? Each is compared with the call stack of the formats, followed by itself, on
//! random traces with calls whose entries or exits are missing or were added, with gaps, and with clocks that jump.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use fdr_formats::bytes::FileBytes;
use fdr_formats::calls::{CallHandler, CallStack, EdgeStatus, Ended, Open, untimed};
use fdr_formats::pieces::Share;
use fdr_formats::source::{Record, drive};
use fdr_formats::tcstate::state::{At, Value};
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{
    Call, Diagnostic, Edge, Error, FunctionId, Mark, Nanos, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo, registry,
};

use crate::commands::flame::tests::sums_of;
use crate::commands::verify::checker::tests::missing_of;
use crate::input;
use crate::place::{self, Pending};
use crate::report::engine::{Engine, gather};
use crate::report::rows::{Key, Report, Selection};
use crate::testing::pieces::Random;

/// What is known of a function's calls: how many, how many of them clipped, ticks in them alone.
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
    found: Found,
}

#[derive(Default)]
struct Found {
    sums: Sums,
    missing: Missing,
    ended: bool,
}

impl CallHandler<()> for Found {
    fn missing(&mut self, _: FunctionId, _: fdr_formats::calls::Exit, _: Option<&()>) {}

    fn ended(&mut self, ended: Ended<()>, _: &mut [Open<()>]) {
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
    fn of(source: &dyn Source) -> Reference {
        let mut reference = Reference::default();
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
    fn finish(mut self, end: Option<Ticks>) -> Found {
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
            _ => {}
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// What `fdr report` says.
fn reported(source: &dyn Source) -> (Sums, Missing) {
    let mut engine = Engine::new(source, false, Share::Lanes);
    drive(source, &mut engine, &|_| {}).expect("readable");
    let figures = gather(vec![engine], false).expect("memory");
    let all = Selection {
        filter: None,
        sort: Key::Own,
        reverse: false,
        limit: None,
        per_thread: false,
    };
    let report = Report::new(source.info(), figures, &all).expect("a report");
    let sums = |row: &crate::report::rows::Row| (row.id, [row.calls, row.clipped, row.self_ns]);
    let missing = Missing {
        entries: report.flaws.missing_entries,
        exits: report.flaws.missing_exits,
        open: report.flaws.open,
    };
    (report.rows.iter().map(sums).collect(), missing)
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

/// A trace in memory, of two threads.
struct RandomTrace {
    info: TraceInfo,
    threads: Vec<Vec<Event>>,
}

#[derive(Clone, Copy)]
enum Event {
    Call(Call),
    Mark(Mark<'static>),
}

impl RandomTrace {
    /// Of five functions; the odder, the more edges are missing. Times are whole microseconds, of which Heph's are.
    /// `least`: so many are between two events at least. `back`: of 1,000 events, before so many the clock goes back.
    fn new(seed: u64, least: u64, back: u64) -> RandomTrace {
        let mut random = Random::new(seed);
        let odd = [0, 5, 30, 100][seed as usize % 4];
        let threads = (0..2).map(|_| {
            let (mut time, mut open, mut events) = (1_000_000, Vec::new(), Vec::new());
            for _ in 0..random.below(300) {
                time += (least + random.below(9)) * 1000;
                if back > 0 && random.below(1000) < back {
                    time -= random.below(40) * 1000;
                }
                let function = 1 + random.below(5) as u32;
                match random.below(1000) {
                    nth if nth < odd => {
                        let exit = Call::exit(Ticks(time), FunctionId(function));
                        events.push(Event::Call(exit));
                    }
                    nth if nth < 2 * odd => drop(open.pop()),
                    nth if nth < 2 * odd + odd / 5 => {
                        events.push(Event::Mark(Mark::Lost { records: 1 + nth }));
                    }
                    nth if nth < 2 * odd + odd / 3 => {
                        events.push(Event::Mark(Mark::Break { time: Ticks(time) }));
                    }
                    nth if nth.is_multiple_of(2) && !open.is_empty() => {
                        let left = open.pop().map_or(1, |left| left);
                        let exit = Call::exit(Ticks(time), FunctionId(left));
                        events.push(Event::Call(exit));
                    }
                    _ => {
                        open.push(function);
                        let entry = Call::entry(Ticks(time), FunctionId(function));
                        events.push(Event::Call(entry));
                    }
                }
            }
            events
        });
        let threads: Vec<_> = threads.collect();
        let thread = |id| Thread {
            id: ThreadId(id),
            ..Thread::default()
        };
        RandomTrace {
            info: TraceInfo {
                threads: (1..=threads.len() as u64).map(thread).collect(),
                // Before the end of some threads' records: these last longer.
                end: (!seed.is_multiple_of(3)).then(|| Ticks(1_000_000 + seed % 7 * 300_000)),
                ..TraceInfo::default()
            },
            threads,
        }
    }
}

impl Source for RandomTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        self.threads.len()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        self.threads[lane].len() as u64
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        _progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        sink.thread(&self.info.threads[lane]);
        for event in &self.threads[lane] {
            match event {
                Event::Call(call) => sink.calls(&[*call]),
                Event::Mark(mark) => sink.mark(mark),
            }
        }
        Ok(())
    }

    fn records(&self, _visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}

/// Each trace as it is, and as the XRay writer balances it: with synthetic edges.
fn traces(least: u64) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    (1..=500).flat_map(move |seed| {
        let trace = RandomTrace::new(seed, least, 0);
        let xray = registry::targets().find(|target| target.name == "xray");
        let (balanced, _) = converted(&trace, xray.expect("XRay"), seed.is_multiple_of(2));
        [(seed, Box::new(trace) as Box<dyn Source>), (seed, balanced)]
    })
}

/// Traces whose clocks go back, as they are.
fn traces_that_go_back() -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    (1..=500).map(|seed| {
        let trace = RandomTrace::new(seed, 0, 1 + seed % 100);
        (seed, Box::new(trace) as Box<dyn Source>)
    })
}

#[test]
fn report_flame_verify_and_state_agree() {
    commands_agree(traces(0));
}

#[test]
fn they_agree_where_clocks_go_back() {
    commands_agree(traces_that_go_back());
}

fn commands_agree(traces: impl Iterator<Item = (u64, Box<dyn Source>)>) {
    let (mut odd, mut open_ones, mut lasting) = (0, 0, 0);
    for (seed, source) in traces {
        let source = &*source;
        let reference = Reference::of(source);
        let open = reference.open();
        let latest = reference.threads.values().map(CallStack::latest).max();
        lasting += u64::from(!open.is_empty() && source.info().end > latest);
        let found = reference.finish(source.info().end);
        odd += u64::from(found.missing.entries + found.missing.exits > 0);
        let (sums, missing) = reported(source);
        assert_eq!(sums, in_nanos(source, &found.sums), "report, trace {seed}");
        assert_eq!(missing, found.missing, "report, trace {seed}");
        // A path without time of its own has no line.
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        own.extend(found.sums.iter().map(|(&id, sums)| (id, sums[2])));
        own.retain(|_, &mut own| own > 0);
        assert_eq!(sums_of(source), own, "flame, trace {seed}");
        // What is explained by a gap is no violation.
        let judged = missing_of(source);
        if !has_gap(source) {
            assert_eq!(judged, found.missing, "verify, trace {seed}");
        }
        assert!(
            judged.entries <= found.missing.entries,
            "verify, trace {seed}"
        );
        let mut at = At::new(i64::MAX, source.info());
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
struct Has(fn(&Mark<'_>) -> bool, fn(&Call) -> bool, bool);

impl Sink for Has {
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
    let mut has = Has(mark, call, false);
    drive(source, &mut has, &|_| {}).expect("readable");
    has.2
}

fn has_gap(source: &dyn Source) -> bool {
    has(source, |mark| matches!(mark, Mark::Lost { .. }), |_| false)
}

fn has_synthetic(source: &dyn Source) -> bool {
    has(source, |_| false, |call| call.synthetic)
}

/// The trace in another format. `late`: the writer learns last when the trace ends, as that of a stream does.
fn converted(
    source: &dyn Source,
    target: &Target,
    late: bool,
) -> (Box<dyn Source>, Option<Pending>) {
    let end = source.info().end;
    let info = TraceInfo {
        end: end.filter(|_| !late),
        ..source.info().clone()
    };
    let write = |output| {
        let mut writer = (target.create)(output, &info).expect("a writer");
        drive(source, &mut *writer, &|_| {}).expect("readable");
        if let Some(end) = end.filter(|_| late) {
            writer.end(end);
        }
        writer.finish().expect("a trace");
    };
    if target.kind == Kind::Folder {
        let folder = place::unnamed_folder().expect("a folder");
        write(Output::Folder(folder.temporary().to_owned()));
        let back = input::open(folder.temporary()).expect("a trace");
        return (back, Some(folder));
    }
    let file = place::unnamed().expect("a file");
    write(Output::File(file.try_clone().expect("a file")));
    let bytes = FileBytes::new(file).expect("a file");
    (registry::open(Box::new(bytes)).expect("a trace"), None)
}

/// Trace Compass leaves out what has no entry, and ends calls inside with the exit itself.
const OTHER_RULE: &str = "tcstate";
/// Their record is a whole call. One that begins together with the call around it stands behind that, and behind the
/// marks in between: it is clipped as well.
const OF_WHOLE_CALLS: [&str; 2] = ["heph", "htdump"];

#[test]
fn conversions_read_back_tell_the_same_calls() {
    for target in registry::targets() {
        let (name, mut compared) = (target.name, 0);
        for (seed, source) in traces(1).step_by(5) {
            let source = &*source;
            let found = Reference::of(source).finish(source.info().end);
            let whole = found.missing.entries + found.missing.exits == 0;
            let whole = whole && !has(source, |_| true, |call| call.synthetic);
            if name == OTHER_RULE && !whole {
                continue;
            }
            compared += 1;
            let (back, _folder) = converted(source, target, seed.is_multiple_of(2));
            assert_eq!(back.info().end, source.info().end, "{name}, trace {seed}");
            let again = Reference::of(&*back).finish(back.info().end).sums;
            let (mut again, mut wanted) = (again, found.sums);
            if OF_WHOLE_CALLS.iter().any(|format| name.starts_with(format)) {
                let fewer = |(id, sums): (&u32, &[u64; 3])| sums[1] < wanted[id][1];
                assert!(!again.iter().any(fewer), "{name}, trace {seed}");
                for sums in again.values_mut().chain(wanted.values_mut()) {
                    sums[1] = 0;
                }
            }
            assert_eq!(again, wanted, "{name}, trace {seed}");
        }
        let least = if name == OTHER_RULE { 5 } else { 200 };
        assert!(compared >= least, "{name}: {compared}");
    }
}
