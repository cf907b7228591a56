//! Do all commands say the same of a trace? Each command is compared with the formats' call stack on random traces.
//! These have calls without entry or exit, calls with synthetic edges, gaps, and clocks that jump.

use std::collections::BTreeMap;

use fdr_formats::bytes::FileBytes;
use fdr_formats::calls::{CallHandler, CallStack, EdgeStatus, Ended, Open, untimed};
use fdr_formats::pieces::Share;
use fdr_formats::source::drive;
use fdr_formats::tcstate::state::{At, Value};
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Losses, Mark, Nanos, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo, registry,
};

use crate::commands::flame::tests::sums_of;
use crate::commands::verify::checker::tests::missing_of;
use crate::input;
use crate::place::{self, Pending};
use crate::report::engine::{Engine, gather};
use crate::report::rows::{Key, Report, Selection};
use crate::testing::random_trace::RandomTrace;

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

/// Each trace as it is, and as the XRay writer balances it: with synthetic edges.
fn traces(least: u64) -> impl Iterator<Item = (u64, Box<dyn Source>)> {
    (1..=500).flat_map(move |seed| {
        let trace = RandomTrace::new(seed, least, 0);
        let xray = registry::targets().find(|target| target.name == "xray");
        let balanced = converted(&trace, xray.expect("XRay"), seed.is_multiple_of(2)).back;
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

/// A trace in another format, with what the format can't hold. Its folder, if it has one, is removed with it.
struct Converted {
    back: Box<dyn Source>,
    losses: Losses,
    _folder: Option<Pending>,
}

/// The trace in another format. `late`: the writer learns last when the trace ends, as that of a stream does.
fn converted(source: &dyn Source, target: &Target, late: bool) -> Converted {
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
        writer.finish().expect("a trace")
    };
    if target.kind == Kind::Folder {
        let folder = place::unnamed_folder().expect("a folder");
        let losses = write(Output::Folder(folder.temporary().to_owned()));
        let back = input::open(folder.temporary()).expect("a trace");
        return Converted {
            back,
            losses,
            _folder: Some(folder),
        };
    }
    let file = place::unnamed().expect("a file");
    let losses = write(Output::File(file.try_clone().expect("a file")));
    let bytes = FileBytes::new(file).expect("a file");
    Converted {
        back: registry::open(Box::new(bytes)).expect("a trace"),
        losses,
        _folder: None,
    }
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
            let Converted { back, _folder, .. } = converted(source, target, seed.is_multiple_of(2));
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

/// Some formats can't hold a time that is before the one that precedes it. Then the writer says so, and the calls are
/// those of the trace all the same; where it says nothing, their times are, too.
#[test]
fn conversions_of_clocks_that_go_back_tell_the_same_calls_or_what_they_changed() {
    let mut wrong = Vec::new();
    for target in registry::targets() {
        let (name, mut same, mut told) = (target.name, 0, 0);
        for (seed, source) in traces_that_go_back().step_by(2) {
            let source = &*source;
            let found = Reference::of(source).finish(source.info().end);
            if name == OTHER_RULE && found.missing.entries + found.missing.exits > 0 {
                continue;
            }
            let Converted {
                back,
                losses,
                _folder,
            } = converted(source, target, seed.is_multiple_of(2));
            let again = Reference::of(&*back).finish(back.info().end).sums;
            let nth = |sums: &Sums, nth: usize| -> Vec<u64> {
                sums.values().map(|sums| sums[nth]).collect()
            };
            let changed = |(what, _): (&str, u64)| what.contains("time") || what.contains("clock");
            // Trace Compass also leaves out a call that has no duration any more.
            let is_told = losses.iter().any(changed) || name == OTHER_RULE && !losses.is_empty();
            match is_told {
                true => told += 1,
                false => same += 1,
            }
            let is_counted = name != OTHER_RULE || !is_told;
            if back.info().end != source.info().end
                || is_counted && nth(&again, 0) != nth(&found.sums, 0)
                || !is_told && nth(&again, 2) != nth(&found.sums, 2)
            {
                let found = found.sums;
                wrong.push(format!(
                    "{name}, trace {seed}: {again:?}, not {found:?}: {losses}"
                ));
            }
        }
        // XRay and ENTRACE hold such times; others tell what they changed.
        match name.starts_with("xray") || name.contains("et") {
            true => assert_eq!((same, told), (250, 0), "{name}"),
            false => assert!(told >= 5, "{name}: {told} of {}", same + told),
        }
    }
    let first: Vec<_> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} {first:#?}", wrong.len());
}
