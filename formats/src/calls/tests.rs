//! Calls that nest and calls that do not. A line stands for a call: its function, entry, exit and own ticks, the status
//! of entry and exit (`m` measured, `s` synthetic, `-` missing), and `!` if it is clipped.

use super::*;
use crate::model::FunctionId;

fn enter(time: u64, function: u32) -> Call {
    Call::entry(Ticks(time), FunctionId(function))
}

fn exit(time: u64, function: u32) -> Call {
    Call::exit(Ticks(time), FunctionId(function))
}

fn line(ended: &EndedCall<()>) -> String {
    let known = |known| match known {
        EdgeStatus::Measured => 'm',
        EdgeStatus::Synthetic => 's',
        EdgeStatus::Missing => '-',
    };
    let call = &ended.call;
    format!(
        "{} {}..{} {} {}{}{}",
        call.function.0,
        call.start.0,
        ended.end.0,
        ended.own(),
        known(call.entry()),
        known(ended.exit),
        if ended.clipped { "!" } else { "" }
    )
}

/// What happens on a thread.
enum Event {
    Call(Call),
    Lose,
    Doubt,
}

fn follow(stack: &mut CallStack, events: &[Event]) -> Vec<String> {
    let mut lines = Vec::new();
    for event in events {
        match event {
            Event::Call(call) => stack.call(call, |ended| lines.push(line(&ended))),
            Event::Lose => stack.lose(),
            Event::Doubt => stack.doubt(),
        }
    }
    lines
}

fn lines_of(events: &[Event], end: Option<u64>) -> Vec<String> {
    let mut stack = CallStack::new();
    let mut lines = follow(&mut stack, events);
    stack.finish(end.map(Ticks), &mut |ended, _: &mut [OpenCall<()>]| {
        lines.push(line(&ended));
    });
    lines
}

fn lines(calls: &[Call]) -> Vec<String> {
    let events: Vec<Event> = calls.iter().map(|&call| Event::Call(call)).collect();
    lines_of(&events, None)
}

#[test]
fn calls_that_nest() {
    let calls = [
        enter(0, 1),
        enter(10, 2),
        enter(12, 1),
        exit(15, 1),
        exit(40, 2),
        enter(50, 2),
        exit(70, 2),
        exit(100, 1),
    ];
    assert_eq!(
        lines(&calls),
        [
            "1 12..15 3 mm",
            "2 10..40 27 mm",
            "2 50..70 20 mm",
            "1 0..100 50 mm"
        ]
    );
}

#[test]
fn outer_exits_end_inner_calls_before() {
    let calls = [enter(1, 1), enter(2, 2), enter(5, 3), exit(9, 1)];
    assert_eq!(
        lines(&calls),
        ["3 5..5 0 m-!", "2 2..5 3 m-!", "1 1..9 5 mm"]
    );
}

#[test]
fn early_calls_surround_all_later_calls() {
    let calls = [enter(5, 1), exit(8, 1), exit(20, 2), exit(30, 3)];
    assert_eq!(
        lines(&calls),
        ["1 5..8 3 mm", "2 5..20 12 -m!", "3 5..30 10 -m!"]
    );
}

#[test]
fn stray_exits_begin_with_the_edge_before() {
    let calls = [
        enter(0, 1),
        enter(4, 2),
        exit(6, 2),
        exit(10, 9),
        exit(50, 1),
    ];
    assert_eq!(
        lines(&calls),
        ["2 4..6 2 mm", "9 6..10 4 -m!", "1 0..50 44 mm"]
    );
}

/// The caller of a call without an entry may have made short calls in the same stretch of time.
#[test]
fn self_times_never_fall_below_zero() {
    for later in [
        exit(200, 7),
        Call {
            synthetic: true,
            ..enter(105, 7)
        },
    ] {
        let (mut log, mut window) = (CallLog::default(), Window::default());
        let mut stack = CallStack::new();
        stack.run(&mut window, &mut log, &[enter(100, 1)]);
        assert_eq!(stack.short_calls(Ticks(190), 90), 90);
        let mut calls = vec![later];
        if later.edge == Edge::Entry {
            calls.push(exit(200, 7));
        }
        calls.extend([
            exit(200, 1),
            enter(210, 2),
            exit(211, 2),
            enter(220, 2),
            exit(221, 2),
        ]);
        stack.run(&mut window, &mut log, &calls);
        assert!(log.lines.contains(&"1 100 0".to_owned()), "{:?}", log.lines);
    }
}

#[test]
fn open_calls_last_until_the_dump() {
    let calls = [enter(1, 1), enter(4, 2)];
    assert_eq!(lines(&calls), ["2 4..4 0 m-!", "1 1..4 3 m-!"]);
    let events = calls.map(Event::Call);
    assert_eq!(lines_of(&events, Some(9)), ["2 4..9 5 m-!", "1 1..9 3 m-!"]);
    // A moment is ignored unless it is behind the records.
    assert_eq!(lines_of(&events, Some(2)), ["2 4..4 0 m-!", "1 1..4 3 m-!"]);
}

#[test]
fn calls_over_gaps_and_breaks_are_clipped() {
    for doubt in [Event::Lose, Event::Doubt] {
        let events = [
            Event::Call(enter(0, 1)),
            doubt,
            Event::Call(enter(10, 2)),
            Event::Call(exit(11, 2)),
            Event::Call(exit(20, 1)),
        ];
        assert_eq!(lines_of(&events, None), ["2 10..11 1 mm", "1 0..20 19 mm!"]);
    }
}

#[test]
fn behind_a_gap_calls_begin_with_exits() {
    let events = [
        Event::Call(enter(0, 1)),
        Event::Call(exit(1, 1)),
        Event::Lose,
        Event::Call(exit(100, 2)),
        Event::Call(exit(103, 3)),
    ];
    let wanted = ["1 0..1 1 mm", "2 100..100 0 -m!", "3 100..103 3 -m!"];
    assert_eq!(lines_of(&events, None), wanted);
}

#[test]
fn what_a_writer_added_is_reported() {
    let synthetic = |call| Call {
        synthetic: true,
        ..call
    };
    let calls = [
        synthetic(enter(1, 1)),
        enter(2, 2),
        synthetic(exit(3, 2)),
        exit(4, 1),
    ];
    assert_eq!(lines(&calls), ["2 2..3 1 ms!", "1 1..4 2 sm!"]);
}

#[test]
fn untimed_calls_are_as_long_as_callees() {
    let mut stack = CallStack::new().with_untimed([FunctionId(2)].into_iter().collect());
    let calls = [
        enter(0, 1),
        enter(10, 2),
        enter(20, 3),
        exit(25, 3),
        exit(40, 2),
        exit(100, 1),
    ];
    let lines = follow(&mut stack, &calls.map(Event::Call));
    assert_eq!(lines, ["3 20..25 5 mm", "2 10..40 0 mm", "1 0..100 95 mm"]);
}

/// Pseudo-random numbers.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Keeps a line for each event.
#[derive(Default)]
struct CallLog {
    lines: Vec<String>,
    plain: usize,
}

impl CallHandler<()> for CallLog {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&()>) {}

    fn ended(&mut self, ended: EndedCall<()>, _: &mut [OpenCall<()>]) {
        let (total, own) = (ended.total(), ended.own());
        let clipped = if ended.clipped { "!" } else { "" };
        self.lines
            .push(format!("{} {total} {own}{clipped}", ended.call.function.0));
    }
}

impl FastPath<()> for CallLog {
    fn root(&self) {}

    fn step(&mut self, plain: OrdinaryEdge<()>) -> Option<()> {
        // It imitates a user that must learn of each function first.
        if plain.exit == 0 && plain.total % 64 == 63 {
            return None;
        }
        if plain.exit != 0 {
            let (total, own) = (plain.total, plain.total - plain.children);
            self.lines
                .push(format!("{} {total} {own}", plain.function.0));
        }
        self.plain += 1;
        Some(())
    }

    fn entered(&mut self, _: FunctionId, _: &[OpenCall<()>]) {}
}

fn of_100(seed: &mut u64, many: u64) -> bool {
    next(seed) % 100 < many
}

/// Random calls whose stack first grows and then shrinks, and the time of the last edge. The numbers are percentages:
/// `odd` edges are exits of any function, `synthetic` edges are marked as such, before `back` edges the time goes back,
/// and `up` edges of the first half are entries.
fn random_calls(seed: &mut u64, [odd, synthetic, back, up]: [u64; 4]) -> (u64, Vec<Call>) {
    let (mut time, mut open) = (1000, Vec::new());
    let calls = (0..1500)
        .map(|nth| {
            time += next(seed) % 9;
            if of_100(seed, back) {
                time -= next(seed) % 90;
            }
            let function = 1 + (next(seed) % 5) as u32;
            // Up, then down.
            let is_up = of_100(seed, if nth < 800 { up } else { 100 - up });
            let left = if is_up { None } else { open.pop() };
            let call = match left {
                _ if of_100(seed, odd) => exit(time, function),
                Some(left) => exit(time, left),
                None => {
                    open.push(function);
                    enter(time, function)
                }
            };
            Call {
                synthetic: of_100(seed, synthetic),
                ..call
            }
        })
        .collect();
    (time, calls)
}

#[test]
fn the_fast_path_equals_the_slow_path() {
    let (mut seed, mut plain, mut all) = (11, 0, 0);
    for round in 0..600 {
        // In 100 calls, some edges are missing or were added, and some times go back. Stacks grow beyond
        // the window.
        let [odd, synthetic, back, up] = [
            [0, 0, 0, 50],
            [3, 2, 0, 50],
            [0, 1, 2, 50],
            [0, 0, 0, 80],
            [1, 0, 0, 97],
        ][round % 5];
        let (time, calls) = random_calls(&mut seed, [odd, synthetic, back, up]);
        let untimed: Untimed = match round % 3 {
            0 => Untimed::default(),
            _ => [2, 4].map(FunctionId).into_iter().collect(),
        };
        let stack = || CallStack::new().with_untimed(untimed.clone());
        let (mut slow, mut fast) = (stack(), stack());
        let (mut wanted, mut found) = (CallLog::default(), CallLog::default());
        let (mut window, mut rest) = (Window::default(), &calls[..]);
        while !rest.is_empty() {
            let (some, more) = rest.split_at(rest.len().min(1 + next(&mut seed) as usize % 700));
            fast.run(&mut window, &mut found, some);
            for call in some {
                match call.edge {
                    Edge::Entry => slow.enter(call, ()),
                    _ => drop(slow.exit(call, &mut wanted)),
                }
            }
            match next(&mut seed) % 8 {
                0 => [&mut slow, &mut fast].map(CallStack::doubt),
                1 => [&mut slow, &mut fast].map(CallStack::lose),
                2 | 3 => {
                    // Now and then they end behind the next edge, or too many ticks are stated.
                    let next_edge = more.first().map_or(time, |call| call.time.0);
                    let wrong = if of_100(&mut seed, 4) { 20 } else { 0 };
                    let ticks =
                        next_edge.saturating_sub(slow.previous_edge().map_or(0, |edge| edge.0));
                    let until = Ticks(next_edge + wrong);
                    [&mut slow, &mut fast].map(|stack| {
                        stack.short_calls(until, ticks + wrong);
                    })
                }
                _ => [(), ()],
            };
            rest = more;
        }
        for (stack, log) in [(&mut slow, &mut wanted), (&mut fast, &mut found)] {
            stack.finish(Some(Ticks(5000)), log);
        }
        assert_eq!(
            (
                fast.first(),
                fast.latest(),
                fast.measured(),
                fast.synthetic()
            ),
            (
                slow.first(),
                slow.latest(),
                slow.measured(),
                slow.synthetic()
            )
        );
        assert_eq!(found.lines, wanted.lines, "round {round}");
        (plain, all) = (plain + found.plain, all + calls.len());
    }
    assert!(plain * 2 > all, "{plain} of {all}");
}
