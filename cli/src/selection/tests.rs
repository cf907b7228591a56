//! The selected part of random traces: no call is lost at an edge of the part, and the calls in it
//! are balanced.

use fdr_formats::filter::Filter;
use fdr_formats::{Call, Edge, FunctionId, Source, ThreadId, Ticks, source};

use super::source::Selected;
use super::{ResolvedSelection, first_tick};
use crate::report::engine::{Engine, gather};
use crate::testing::{MemoryTrace, entry, exit};

/// A generator of numbers, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// Calls of one thread that nest, from tick 100 on; some are still open at its end.
fn random_calls(random: &mut Random) -> Vec<Call> {
    let (mut calls, mut open, mut time) = (Vec::new(), Vec::new(), 100);
    for _ in 0..random.below(60) {
        time += random.below(10);
        match open.last() {
            Some(&function) if random.below(2) == 0 => {
                open.pop();
                calls.push(exit(time, function));
            }
            _ => {
                let function = 1 + random.below(4) as u32;
                open.push(function);
                calls.push(entry(time, function));
            }
        }
    }
    if random.below(2) == 0 {
        while let Some(function) = open.pop() {
            time += random.below(10);
            calls.push(exit(time, function));
        }
    }
    calls
}

fn random_trace(seed: u64) -> MemoryTrace {
    let mut random = Random(seed);
    let lanes: Vec<Vec<Call>> = (0..3).map(|_| random_calls(&mut random)).collect();
    let lanes: Vec<(u64, &[Call])> = (7..).zip(lanes.iter().map(Vec::as_slice)).collect();
    MemoryTrace::new(&lanes)
}

/// Total and self time of each function, in ticks.
fn times(source: &dyn Source) -> Vec<(u32, u64, u64)> {
    let mut engine = Engine::new(source, false);
    source::drive(source, &mut engine, &|_| {}).unwrap();
    let figures = gather(vec![engine], false).unwrap();
    let functions = figures.functions.iter();
    functions
        .map(|(id, stats)| (id.0, stats.total, stats.own))
        .filter(|(_, total, own)| total + own > 0)
        .collect()
}

/// Takes down what a sink gets.
#[derive(Default)]
struct Log(Vec<(ThreadId, Call)>, ThreadId);

impl fdr_formats::Sink for Log {
    fn thread(&mut self, thread: &fdr_formats::Thread) {
        self.1 = thread.id;
    }

    fn calls(&mut self, calls: &[Call]) {
        self.0.extend(calls.iter().map(|call| (self.1, *call)));
    }

    fn mark(&mut self, _: &fdr_formats::Mark<'_>) {}

    fn diagnostic(&mut self, _: fdr_formats::Diagnostic) {}
}

fn calls_of(source: &dyn Source) -> Vec<(ThreadId, Call)> {
    let mut log = Log::default();
    source::drive(source, &mut log, &|_| {}).unwrap();
    log.0
}

fn select(seed: u64, chosen: ResolvedSelection) -> Selected {
    Selected::new(Box::new(random_trace(seed)), chosen)
}

#[test]
fn adjacent_windows_add_up_to_the_whole() {
    for seed in 0..500 {
        let whole = times(&random_trace(seed));
        for at in [0, 100, 107, 150, 200, 333, 1000] {
            let left = ResolvedSelection {
                to: Some(Ticks(at)),
                ..ResolvedSelection::default()
            };
            let right = ResolvedSelection {
                from: Some(Ticks(at)),
                ..ResolvedSelection::default()
            };
            let mut sum: Vec<(u32, u64, u64)> = Vec::new();
            // A thread that ends before the window, with open calls, has them open to its end only.
            for part in [times(&select(seed, left)), times(&select(seed, right))] {
                for (id, total, own) in part {
                    match sum.iter_mut().find(|known| known.0 == id) {
                        Some(known) => (known.1, known.2) = (known.1 + total, known.2 + own),
                        None => sum.push((id, total, own)),
                    }
                }
            }
            sum.sort_unstable();
            if all_closed(seed) {
                assert_eq!(sum, whole, "seed {seed}, at {at}");
            }
        }
    }
}

fn all_closed(seed: u64) -> bool {
    let mut open = 0_i64;
    for (_, call) in calls_of(&random_trace(seed)) {
        open += if call.edge == Edge::Entry { 1 } else { -1 };
    }
    open == 0
}

#[test]
fn windows_are_balanced_and_complete() {
    for seed in 0..300 {
        let all = calls_of(&random_trace(seed));
        for (from, to) in [(100, 140), (120, 121), (130, 130), (150, 500)] {
            let chosen = ResolvedSelection {
                from: Some(Ticks(from)),
                to: Some(Ticks(to)),
                ..ResolvedSelection::default()
            };
            let selected = calls_of(&select(seed, chosen));
            let inside = |call: &Call| (from..=to).contains(&call.time.0);
            let wanted: Vec<_> = all
                .iter()
                .filter(|(_, call)| inside(call))
                .copied()
                .collect();
            let measured = selected.iter().filter(|(_, call)| !call.synthetic);
            assert_eq!(measured.copied().collect::<Vec<_>>(), wanted, "seed {seed}");
            for thread in 7..10 {
                let mut open: Vec<FunctionId> = Vec::new();
                for (_, call) in selected.iter().filter(|(id, _)| id.0 == thread) {
                    assert!(inside(call), "seed {seed}: {call:?}");
                    match call.edge {
                        Edge::Entry => open.push(call.function),
                        _ => assert_eq!(open.pop(), Some(call.function), "seed {seed}"),
                    }
                }
                assert!(open.is_empty(), "seed {seed}: {open:?}");
            }
        }
    }
}

#[test]
fn calls_around_a_window_are_in_it() {
    let calls = [entry(100, 1), entry(110, 2), exit(900, 2), exit(910, 1)];
    let trace = MemoryTrace::new(&[(7, &calls)]);
    let chosen = ResolvedSelection {
        from: Some(Ticks(200)),
        to: Some(Ticks(300)),
        ..ResolvedSelection::default()
    };
    let selected = Selected::new(Box::new(trace), chosen);
    let calls: Vec<_> = calls_of(&selected)
        .into_iter()
        .map(|(_, call)| call)
        .collect();
    let synthetic = crate::testing::synthetic;
    assert_eq!(
        calls,
        [entry(200, 1), entry(200, 2), exit(300, 2), exit(300, 1)].map(synthetic)
    );
    assert_eq!(times(&selected), [(1, 100, 0), (2, 100, 100)]);
}

#[test]
fn inside_means_a_function_and_its_callees() {
    let calls = [
        entry(100, 1),
        entry(110, 2),
        entry(120, 3),
        exit(130, 3),
        exit(140, 2),
        entry(150, 3),
        exit(160, 3),
        // The exit of this one is missing: it ends with its caller.
        entry(170, 2),
        entry(175, 4),
        exit(180, 4),
        exit(190, 1),
        entry(195, 4),
        exit(200, 4),
    ];
    let selected_calls = |within: &[&str], filter: Option<&str>| {
        let chosen = ResolvedSelection {
            within: within
                .iter()
                .map(|glob| Filter::parse(glob).unwrap())
                .collect(),
            filter: filter.map(|glob| Filter::parse(glob).unwrap()),
            ..ResolvedSelection::default()
        };
        let trace = MemoryTrace::new(&[(7, &calls)]);
        let calls = calls_of(&Selected::new(Box::new(trace), chosen));
        let calls = calls.into_iter().map(|(_, call)| call);
        let tell = |call: Call| (call.time.0, call.function.0, call.edge == Edge::Entry);
        calls.map(tell).collect::<Vec<_>>()
    };
    let inside = selected_calls(&["#2"], None);
    let wanted = [
        (110, 2, true),
        (120, 3, true),
        (130, 3, false),
        (140, 2, false),
        (170, 2, true),
        (175, 4, true),
        (180, 4, false),
        (180, 2, false),
    ];
    assert_eq!(inside, wanted);
    assert_eq!(
        selected_calls(&["#2"], Some("#3")),
        [(120, 3, true), (130, 3, false)]
    );
    let all_but = selected_calls(&[], Some("-#3,-#4"));
    assert_eq!(all_but.len(), 5, "{all_but:?}");
    assert_eq!(selected_calls(&["#9"], None), []);
}

#[test]
fn times_become_ticks_by_their_scale() {
    for frequency in [1, 1000, 999_999_937, 1_000_000_000, 2_995_200_000, 1 << 40] {
        let clock = fdr_formats::Clock {
            frequency,
            ..Default::default()
        };
        for nanos in [1, 2, 999, 1_000_000, 1_000_000_000] {
            let tick = first_tick(nanos, &clock);
            assert!(
                i128::from(clock.nanos(tick).0) >= nanos,
                "{frequency} {nanos}"
            );
            let before = Ticks(tick.0.saturating_sub(1));
            assert!(
                tick.0 == 0 || i128::from(clock.nanos(before).0) < nanos,
                "{frequency} {nanos}"
            );
        }
    }
}

/// Gives its sink the same events each time.
struct Events(fdr_formats::TraceInfo, Vec<Event>);

enum Event {
    Call(Call),
    Short(u64, u64),
}

impl Source for Events {
    fn info(&self) -> &fdr_formats::TraceInfo {
        &self.0
    }

    fn diagnostics(&self) -> &[fdr_formats::Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        1
    }

    fn lane_bytes(&self, _lane: usize) -> u64 {
        1
    }

    fn decode(
        &self,
        _lane: usize,
        sink: &mut dyn fdr_formats::Sink,
        _progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), fdr_formats::Error> {
        for event in &self.1 {
            match event {
                Event::Call(call) => sink.calls(&[*call]),
                &Event::Short(time, calls) => sink.mark(&fdr_formats::Mark::ShortCalls {
                    time: Ticks(time),
                    calls,
                    ticks: 1,
                }),
            }
        }
        Ok(())
    }

    fn records(
        &self,
        _visit: &mut dyn FnMut(&source::Record<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<(), fdr_formats::Error> {
        Ok(())
    }
}

/// Short calls made by function 1, by function 2 inside it, by function 3 beside it, and outside of all calls.
#[test]
fn short_calls_belong_to_their_callers() {
    let events = || {
        vec![
            Event::Call(entry(100, 1)),
            Event::Short(110, 1),
            Event::Call(entry(120, 2)),
            Event::Short(130, 10),
            Event::Call(exit(140, 2)),
            Event::Call(exit(150, 1)),
            Event::Short(160, 100),
            Event::Call(entry(170, 3)),
            Event::Short(180, 1000),
            Event::Call(exit(190, 3)),
        ]
    };
    let filter = |glob: &str| Filter::parse(glob).unwrap();
    for (within, shown, from, wanted) in [
        (None, None, None, 1111),
        (None, None, Some(125), 1110),
        (Some("#1"), None, None, 11),
        (Some("#2"), None, None, 10),
        (Some("#3"), None, None, 1000),
        (Some("#7"), None, None, 0),
        (None, Some("#1"), None, 1),
        (Some("#1"), Some("#2"), None, 10),
        (None, Some("#7"), None, 0),
    ] {
        let chosen = ResolvedSelection {
            within: within.map(filter).into_iter().collect(),
            filter: shown.map(filter),
            from: from.map(Ticks),
            ..ResolvedSelection::default()
        };
        let message = format!("{chosen:?}");
        let trace = Events(fdr_formats::TraceInfo::default(), events());
        let part = Selected::new(Box::new(trace), chosen);
        let tally = crate::tally::Tally::count(&part).unwrap();
        assert_eq!(tally.marks().short_calls, wanted, "{message}");
    }
}
