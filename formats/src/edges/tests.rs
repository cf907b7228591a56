//! Spans become edges again: random programs go through `spans` and back. Runs are so short that most calls
//! are open at the end of one. Ties, disorder and overlaps. These tests must never depend on a format.

mod lanes;

use super::*;
use crate::model::ThreadId;
use crate::spans::{Span, Spans};

#[derive(Default)]
struct EdgeLog {
    calls: Vec<Vec<Call>>,
    marks: Vec<u64>,
    cpus: Vec<(u64, u32)>,
    /// How many calls there were before each CPU.
    marks_at: Vec<usize>,
    diagnostics: Vec<String>,
    now: usize,
    /// Numbers and names of the lanes, which are threads 3 and up here.
    lanes: Vec<(u64, String)>,
}

impl Sink for EdgeLog {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id.0 as usize;
        self.calls
            .resize(self.calls.len().max(self.now + 1), vec![]);
    }
    fn calls(&mut self, calls: &[Call]) {
        assert!(!calls.is_empty());
        self.calls[self.now].extend(calls);
    }
    fn mark(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::Argument { value } => self.marks.push(*value),
            Mark::Cpu { time, cpu } => {
                self.marks_at.push(self.calls[self.now].len());
                self.cpus.push((time.0, cpu.0));
            }
            other => panic!("{other:?}"),
        }
    }
    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic.to_string());
    }
}

/// Gives the offset of each item that it is asked for.
struct Offsets;

impl Details for Offsets {
    fn push(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error> {
        let value = item.offset;
        sink.mark(&Mark::Argument { value });
        Ok(())
    }
}

fn nest(items: &[(usize, Item)]) -> (EdgeLog, Plan) {
    let mut planner = Planner::default();
    for (thread, item) in items {
        planner.add(*thread, item);
    }
    let mut plan = planner.finish();
    let thread = |id| Thread {
        id: ThreadId(id),
        ..Thread::default()
    };
    let mut threads = vec![thread(0), thread(1), thread(2)];
    let mut log = EdgeLog::default();
    if plan.may_overlap() {
        let mut counter = LaneCounter::new(&plan);
        for (thread, item) in items {
            counter.add(*thread, item).expect("nothing is read");
        }
        let counts = counter.finish().expect("nothing is read");
        plan.add_lanes(&counts, &mut threads);
        for (at, thread) in threads.iter_mut().enumerate().skip(3) {
            log.lanes.push((thread.id.0, thread.name.clone()));
            // The place of what it is given.
            thread.id = ThreadId(at as u64);
        }
    }
    let mut sorter = EdgeSorter::new(&plan, &threads);
    for (thread, item) in items {
        let added = sorter.add(*thread, item, &mut log, &mut Offsets);
        added.expect("offsets can be counted");
    }
    let finished = sorter.finish(&mut log, &mut Offsets);
    finished.expect("offsets can be counted");
    (log, plan)
}

fn item(start: u64, end: u64, function: u32) -> Item {
    Item {
        start: Ticks(start),
        end: Ticks(end),
        what: ItemContent::Span {
            function: FunctionId(function),
            flags: 0,
            cpu: None,
            exit_cpu: None,
            arguments: false,
        },
        offset: 0,
    }
}

fn item_of(span: &Span, offset: u64) -> Item {
    Item {
        start: span.start,
        end: span.end,
        what: ItemContent::Span {
            function: span.function,
            flags: span.flags,
            cpu: span.cpu,
            exit_cpu: span.exit_cpu,
            arguments: false,
        },
        offset,
    }
}

/// `+1` enters function 1, `-1` leaves it.
fn edges(calls: &[Call]) -> Vec<(u64, i64)> {
    let signed = |call: &Call| {
        let function = i64::from(call.function.0);
        match call.edge {
            Edge::Entry => function,
            Edge::Exit | Edge::TailExit => -function,
        }
    };
    calls
        .iter()
        .map(|call| (call.time.0, signed(call)))
        .collect()
}

/// Untimed calls have the time of the record before. A call without length contains no call without length, because a
/// file does not show whether the second one is inside the first or behind it. If a call begins together with its
/// caller, the file does not show whether a call without length at the tick of its end is inside it or behind it. The
/// program has such calls only inside.
fn untimed_program(mut random: u64) -> Vec<Call> {
    let mut next = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    let (mut time, mut open, mut calls) = (1, Vec::new(), Vec::new());
    for _ in 0..400 {
        let function = 1 + next(5) as u32;
        match next(5) {
            0 => {
                time += next(3);
                calls.push(Call::entry(Ticks(time), FunctionId(function)));
                open.push((time, function));
            }
            1 => {
                let Some((start, function)) = open.pop() else {
                    continue;
                };
                time += next(2) + u64::from(time == start);
                calls.push(Call::exit(Ticks(time), FunctionId(function)));
                // If the caller has the same start, no call without length may follow at this tick.
                time += u64::from(open.last().is_some_and(|&(begin, _)| begin == start));
            }
            _ => {
                calls.push(Call::entry(Ticks(time), FunctionId(function)));
                calls.push(Call::exit(Ticks(time), FunctionId(function)));
            }
        }
    }
    while let Some((_, function)) = open.pop() {
        time += 1;
        calls.push(Call::exit(Ticks(time), FunctionId(function)));
    }
    calls
}

#[test]
fn untimed_siblings_stay_siblings() {
    for seed in 1..200u64 {
        let calls = untimed_program(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut spans = Spans::default();
        let mut items = Vec::new();
        spans.thread(ThreadId(0));
        for call in &calls {
            spans.call(call, &mut |span| items.push((0, item_of(span, 0))));
        }
        let (log, plan) = nest(&items);
        assert_eq!(edges(&log.calls[0]), edges(&calls), "seed {seed}");
        assert!(plan.lanes.iter().all(|&(_, count)| count == 0));
    }
}

/// A random program of three threads, each with its calls in order.
fn program(mut random: u64) -> Vec<Vec<Call>> {
    let mut next = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    (0..3)
        .map(|_| {
            let (mut time, mut open, mut calls) = (next(50), Vec::new(), Vec::new());
            let mut edge = |time: u64, function: u32, edge: Edge, tail: bool| {
                calls.push(Call {
                    time: Ticks(time),
                    function: FunctionId(function),
                    edge: if tail { Edge::TailExit } else { edge },
                    synthetic: time % 7 == 0,
                    has_arguments: false,
                });
            };
            for _ in 0..next(400) {
                time += 1 + next(9);
                if next(2) == 0 || open.is_empty() {
                    open.push(1 + next(5) as u32);
                    edge(time, open[open.len() - 1], Edge::Entry, false);
                } else if let Some(function) = open.pop() {
                    edge(time, function, Edge::Exit, time % 5 == 0);
                }
            }
            while let Some(function) = open.pop() {
                time += 1;
                edge(time, function, Edge::Exit, false);
            }
            calls
        })
        .collect()
}

#[test]
fn random_programs_come_back_as_they_were() {
    let mut early = 0;
    for seed in 1..200u64 {
        let threads = program(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut spans = Spans::default();
        let mut items = Vec::new();
        let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
        for place in 0..longest {
            for (thread, calls) in threads.iter().enumerate() {
                let Some(call) = calls.get(place) else {
                    continue;
                };
                spans.thread(ThreadId(thread as u64));
                spans.call(call, &mut |span| items.push((thread, item_of(span, 0))));
            }
        }
        let (log, plan) = nest(&items);
        for (thread, calls) in threads
            .iter()
            .enumerate()
            .filter(|(_, calls)| !calls.is_empty())
        {
            assert_eq!(&log.calls[thread], calls, "seed {seed}, thread {thread}");
        }
        assert_eq!(log.diagnostics, [""; 0]);
        early += plan
            .threads
            .iter()
            .map(|runs| runs.early.len())
            .sum::<usize>();
    }
    assert!(
        early > 1000,
        "the runs of the test are to be shorter than its calls"
    );
}

#[test]
fn any_order_of_the_file_will_do() {
    let mut items: Vec<_> = (0..100u64)
        .map(|nth| (0, item(nth * 10, nth * 10 + 5, 1)))
        .collect();
    items.push((0, item(0, 2000, 2)));
    let (sorted, _) = nest(&items);
    items.reverse();
    let (reversed, _) = nest(&items);
    let mut wanted = vec![(0, 2)];
    wanted.extend((0..100).flat_map(|nth| [(nth * 10, 1), (nth * 10 + 5, -1)]));
    wanted.push((2000, -2));
    assert_eq!(edges(&sorted.calls[0]), wanted);
    assert_eq!(edges(&reversed.calls[0]), wanted);
}

#[test]
fn distant_ends_draw_nothing_into_runs() {
    // In order of entry, and with an end that is damaged.
    let mut items = vec![(0, item(0, u64::MAX, 9))];
    items.extend((1..100u64).map(|nth| (0, item(nth * 10, nth * 10 + 5, 1))));
    let (log, plan) = nest(&items);
    assert_eq!(plan.threads[0].early.len(), 0);
    let mut wanted = vec![(0, 9)];
    wanted.extend((1..100).flat_map(|nth| [(nth * 10, 1), (nth * 10 + 5, -1)]));
    wanted.push((u64::MAX, -9));
    assert_eq!(edges(&log.calls[0]), wanted);
}

#[test]
fn parents_of_equal_start_are_found_behind_runs() {
    let mut items: Vec<_> = (0..7u64)
        .map(|nth| (0, item(nth * 10, nth * 10 + 5, 1)))
        .collect();
    items.extend([(0, item(100, 105, 1)), (0, item(100, 110, 2))]);
    let (log, _) = nest(&items);
    assert_eq!(log.diagnostics, [""; 0]);
    let wanted = [(100, 2), (100, 1), (105, -1), (110, -2)];
    assert_eq!(edges(&log.calls[0])[14..], wanted);
}

#[test]
fn ties_are_broken_by_length_and_by_place() {
    // A sibling that begins where the other ends; a child without length at its parent's end.
    let items = [
        (0, item(1, 3, 1)),
        (0, item(3, 5, 2)),
        (0, item(8, 8, 4)),
        (0, item(6, 8, 3)),
        (0, item(6, 9, 5)),
    ];
    let wanted = [
        (1, 1),
        (3, -1),
        (3, 2),
        (5, -2),
        (6, 5),
        (6, 3),
        (8, 4),
        (8, -4),
        (8, -3),
        (9, -5),
    ];
    assert_eq!(edges(&nest(&items).0.calls[0]), wanted);
}

#[test]
fn arguments_follow_entries_and_marks_keep_places() {
    let mark = |time, offset| Item {
        what: ItemContent::Mark,
        offset,
        ..item(time, time, 0)
    };
    let with = |cpu, offset| Item {
        what: ItemContent::Span {
            function: FunctionId(1),
            flags: 0,
            cpu: Some(CpuId(cpu)),
            exit_cpu: Some(CpuId(7)),
            arguments: true,
        },
        offset,
        ..item(10 * offset, 10 * offset + 5, 1)
    };
    let before = |time, offset| Item {
        what: ItemContent::MarkBefore,
        ..mark(time, offset)
    };
    let items = [
        (0, mark(3, 90)),
        (0, with(7, 1)),
        (0, mark(20, 93)),
        (0, before(20, 92)),
        (0, with(6, 2)),
        (0, mark(24, 91)),
    ];
    let (log, _) = nest(&items);
    assert_eq!(log.marks, [90, 1, 92, 2, 93, 91]);
    assert_eq!(log.cpus, [(10, 7), (20, 6), (25, 7)]);
}

#[test]
fn cpus_stand_between_exits_and_the_entry() {
    let cpu = |time, cpu| Item {
        what: ItemContent::Cpu(CpuId(cpu)),
        ..item(time, time, 0)
    };
    // The first call ended before the thread moved, the other's end is after that.
    let items = [
        (0, cpu(1, 4)),
        (0, item(2, 5, 2)),
        (0, cpu(5, 6)),
        (0, cpu(6, 6)),
        (0, item(1, 5, 1)),
        (0, item(5, 9, 3)),
    ];
    let (log, _) = nest(&items);
    assert_eq!(log.cpus, [(1, 4), (5, 6)]);
    assert_eq!(log.marks_at, [0, 3]);
    let wanted = [(1, 1), (2, 2), (5, -2), (5, -1), (5, 3), (9, -3)];
    assert_eq!(edges(&log.calls[0]), wanted);
}

#[test]
fn calls_without_length_keep_their_place() {
    // Of two siblings with the same begin, one has no length. Around both is a call whose entry was added.
    let mut around = item(50, 60, 2);
    if let ItemContent::Span { flags, .. } = &mut around.what {
        *flags = flags::ENTRY_SYNTHETIC;
    }
    let items = [
        (0, item(10, 10, 1)),
        (0, item(10, 20, 2)),
        (0, item(20, 20, 1)),
        (0, item(20, 20, 3)),
        (0, item(30, 40, 2)),
        (0, item(30, 30, 1)),
        (0, item(50, 50, 1)),
        (0, around),
        (0, item(70, 90, 2)),
        (0, item(70, 70, 1)),
        (0, item(70, 80, 3)),
    ];
    let wanted = [
        (10, 1),
        (10, -1),
        (10, 2),
        (20, -2),
        (20, 1),
        (20, -1),
        (20, 3),
        (20, -3),
        (30, 2),
        (30, 1),
        (30, -1),
        (40, -2),
        (50, 2),
        (50, 1),
        (50, -1),
        (60, -2),
        (70, 2),
        (70, 1),
        (70, -1),
        (70, 3),
        (80, -3),
        (90, -2),
    ];
    assert_eq!(edges(&nest(&items).0.calls[0]), wanted);
}
