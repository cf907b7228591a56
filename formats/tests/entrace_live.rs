//! ENTRACE streams that somebody reads while they are written: what has gone out at which moment, calls
//! that are sent before their end, and readers that join in the middle.

use crate::common::entrace::{Memory, STREAMS, feed, function, stream};
use crate::common::{
    self, Event, Random, Read, assert_nested, call, enter, exit, list, program, read, synthetic,
    thread,
};
use fdr_formats::model::Counts;
use fdr_formats::{Call, Edge, FunctionId, Thread, TraceInfo, Writer};

fn info() -> TraceInfo {
    TraceInfo {
        functions: vec![
            function(1, "a::outer", "src/a.rs", 1),
            function(2, "a::inner", "src/a.rs", 2),
        ],
        program: "live".into(),
        ..TraceInfo::default()
    }
}

/// What a reader has got so far; none of it may be wrong.
fn so_far(memory: &Memory) -> Read {
    let read = read(&memory.bytes()).expect("a stream");
    assert_eq!(read.diagnostics, []);
    read
}

fn calls(read: &Read, thread: u64) -> Vec<Call> {
    let known = read.kept.threads.iter().any(|(id, _)| id.0 == thread);
    if known {
        read.kept.calls(thread)
    } else {
        Vec::new()
    }
}

fn exits(bytes: &[u8]) -> usize {
    list(bytes)
        .iter()
        .filter(|line| line.3.contains(" fdr:exit "))
        .count()
}

#[test]
fn calls_go_out_when_they_have_ended() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        writer.flush().expect("memory");
        let begun = so_far(&memory);
        assert_eq!(
            (&*begun.info.program, begun.info.functions.len()),
            ("live", 2)
        );
        writer.thread(&thread(7));
        let mut wanted = Vec::new();
        for round in 0..2000 {
            let pair = [enter(10 * round, 1), exit(10 * round + 5, 1)];
            writer.calls(&pair);
            wanted.extend(pair);
        }
        // Whole buffers have gone without being asked for.
        let gone = calls(&so_far_cut(&memory), 7);
        assert!(
            gone.len() > 1000 && wanted.starts_with(&gone),
            "{name}: {}",
            gone.len()
        );
        writer.flush().expect("memory");
        assert_eq!(calls(&so_far(&memory), 7), wanted);
        assert_eq!(exits(&memory.bytes()), 0, "each entry had its duration");
        writer.finish().expect("memory");
    }
}

/// The same, where the last entry may be cut.
fn so_far_cut(memory: &Memory) -> Read {
    read(&memory.bytes()).expect("a stream")
}

#[test]
fn a_flush_sends_open_calls_too_and_their_ends_follow() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        writer.thread(&thread(7));
        let mut wanted = vec![enter(1, 1), enter(2, 2), exit(3, 2), enter(4, 2)];
        writer.calls(&wanted);
        writer.flush().expect("memory");
        // `outer` and the second `inner` are open.
        assert_eq!(calls(&so_far(&memory), 7), wanted);
        assert_eq!(exits(&memory.bytes()), 0);
        let rest = [
            exit(5, 2),
            enter(6, 2),
            exit(7, 2),
            exit(8, 1),
            enter(9, 2),
            exit(9, 2),
        ];
        writer.calls(&rest);
        wanted.extend(rest);
        writer.flush().expect("memory");
        assert_eq!(calls(&so_far(&memory), 7), wanted);
        assert_eq!(exits(&memory.bytes()), 2, "of the two that were sent open");
        writer.finish().expect("memory");
    }
}

#[test]
fn a_call_is_not_waited_for_too_long() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        writer.thread(&thread(7));
        let mut wanted = vec![enter(0, 1)];
        for round in 1..20_000 {
            wanted.extend([enter(10 * round, 2), exit(10 * round + 5, 2)]);
        }
        // One by one, and all at once.
        let (single, many) = wanted.split_at(3000);
        single.iter().for_each(|call| writer.calls(&[*call]));
        writer.calls(many);
        let gone = calls(&so_far_cut(&memory), 7).len();
        assert!(
            gone > wanted.len() - 4000,
            "{name}: {gone} of {}",
            wanted.len()
        );
        writer.calls(&[exit(1_000_000, 1)]);
        wanted.push(exit(1_000_000, 1));
        writer.finish().expect("memory");
        assert_eq!(calls(&so_far(&memory), 7), wanted);
        assert_eq!(exits(&memory.bytes()), 1);
    }
}

#[test]
fn payloads_are_not_waited_for_too_long() {
    let (mut writer, memory) = stream("iet-prefix2", &info());
    writer.thread(&thread(7));
    writer.calls(&[enter(0, 1)]);
    for time in 1..100 {
        common::push(&mut writer, &Event::Custom(time, None, vec![b'x'; 100_000]));
    }
    let gone = memory.bytes().len();
    assert!(gone > 99 * 100_000 - 700_000, "only {gone} bytes have gone");
    writer.finish().expect("memory");
    assert_eq!(so_far(&memory).kept.events(7).len(), 100);
}

#[test]
fn random_programs_come_back_whenever_they_are_flushed() {
    for seed in 1..60 {
        let mut random = Random(seed);
        let events = program(&mut random);
        // Changes of CPU are kept apart: see the round trips.
        let events: Vec<Event> = events
            .into_iter()
            .filter(|event| !matches!(event, Event::Cpu(..)))
            .collect();
        for name in STREAMS {
            let (mut writer, memory) = stream(name, &info());
            let mut fed = 0;
            while fed < events.len() {
                let until = (fed + random.below(20) as usize).min(events.len());
                feed(&mut writer, 7, &events[fed..until]);
                fed = until;
                if random.below(2) == 0 {
                    writer.flush().expect("memory");
                    let found = so_far(&memory);
                    let found = found.kept.events(7);
                    // Of a call with arguments, these may still come.
                    assert!(events[..fed].starts_with(found), "seed {seed}, {name}");
                    let waits = matches!(events[..fed].last(), Some(Event::Call(call)) if call.has_arguments)
                        || matches!(events[..fed].last(), Some(Event::Argument(_)));
                    assert!(
                        found.len() == fed || waits,
                        "seed {seed}, {name}: {} of {fed}",
                        found.len()
                    );
                }
            }
            let losses = writer.finish().expect("memory");
            assert_eq!(losses.to_string(), "", "seed {seed}, {name}");
            assert_eq!(
                so_far(&memory).kept.events(7),
                events,
                "seed {seed}, {name}"
            );
        }
    }
}

#[test]
fn edges_that_are_missing_do_not_hold_up_the_stream() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        writer.thread(&thread(7));
        let wanted = [
            exit(1, 2),
            enter(2, 1),
            enter(3, 2),
            enter(4, 2),
            exit(5, 1),
            synthetic(exit(6, 2)),
            call(7, 1, Edge::TailExit),
            synthetic(enter(8, 2)),
            synthetic(call(9, 2, Edge::TailExit)),
        ];
        for call in wanted {
            writer.calls(&[call]);
            writer.flush().expect("memory");
        }
        assert_eq!(calls(&so_far(&memory), 7), wanted, "{name}");
        writer.finish().expect("memory");
    }
}

#[test]
fn functions_and_threads_come_in_the_middle() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        feed(&mut writer, 7, &[Event::Call(enter(1, 1))]);
        writer.functions(&[
            function(5, "late::comer", "src/late.rs", 5),
            function(1, "a::outer", "", 0),
        ]);
        feed(
            &mut writer,
            8,
            &[Event::Call(enter(2, 5)), Event::Call(exit(3, 5))],
        );
        feed(&mut writer, 7, &[Event::Call(exit(4, 1))]);
        writer.finish().expect("memory");
        let found = so_far(&memory);
        assert_eq!(found.info.threads, [thread(7), thread(8)]);
        let wanted = [
            &info().functions[..],
            &[function(5, "late::comer", "src/late.rs", 5)],
        ]
        .concat();
        assert_eq!(found.info.functions, wanted);
        assert_eq!(calls(&found, 7), [enter(1, 1), exit(4, 1)]);
        assert_eq!(calls(&found, 8), [enter(2, 5), exit(3, 5)]);
    }
}

/// A new reader joins: what it gets.
fn join(writer: &mut Box<dyn Writer>, memory: &Memory) {
    let begin = writer.restart().expect("a stream can be joined");
    *memory.0.lock().expect("no panic") = begin;
}

#[test]
fn a_reader_that_joins_gets_the_open_calls_again() {
    for name in STREAMS {
        let (mut writer, memory) = stream(name, &info());
        writer.functions(&[function(3, "late::comer", "", 0)]);
        writer.thread(&thread(7));
        writer.calls(&[
            enter(1, 1),
            enter(2, 2),
            exit(3, 2),
            enter(4, 2),
            enter(5, 3),
        ]);
        writer.thread(&thread(8));
        writer.calls(&[enter(1, 3), exit(2, 3)]);
        // Of what the first reader has: not for the one who joins.
        writer.thread(&Thread {
            counts: Some(Counts::default()),
            ..thread(8)
        });
        writer.flush().expect("memory");
        join(&mut writer, &memory);
        let found = so_far(&memory);
        assert_eq!(found.info.functions.len(), 3);
        assert_eq!(found.info.threads, [thread(7), thread(8)]);
        assert_eq!(
            calls(&found, 7),
            [enter(1, 1), enter(4, 2), enter(5, 3)],
            "{name}"
        );
        assert_eq!(calls(&found, 8), []);
        writer.thread(&thread(7));
        writer.calls(&[exit(6, 3), exit(7, 2), enter(8, 2), exit(9, 2), exit(10, 1)]);
        writer.finish().expect("memory");
        let wanted = [
            enter(1, 1),
            enter(4, 2),
            enter(5, 3),
            exit(6, 3),
            exit(7, 2),
            enter(8, 2),
            exit(9, 2),
            exit(10, 1),
        ];
        assert_eq!(calls(&so_far(&memory), 7), wanted, "{name}");
    }
}

#[test]
fn readers_that_join_at_any_moment_get_all_that_comes_after() {
    for seed in 1..40 {
        let mut random = Random(seed);
        let all: Vec<Call> = program(&mut random)
            .into_iter()
            .filter_map(|event| match event {
                Event::Call(call) => Some(Call {
                    has_arguments: false,
                    ..call
                }),
                _ => None,
            })
            .collect();
        for name in STREAMS {
            let (mut writer, memory) = stream(name, &info());
            writer.thread(&thread(7));
            let joins = random.below(all.len() as u64 + 1) as usize;
            let flushed = random.below(joins as u64 + 1) as usize;
            writer.calls(&all[..flushed]);
            writer.flush().expect("memory");
            writer.calls(&all[flushed..joins]);
            join(&mut writer, &memory);
            writer.calls(&all[joins..]);
            writer.finish().expect("memory");
            let found = calls(&so_far(&memory), 7);
            assert_nested(&found);
            // All edges that came after the reader, and the entries of what was open then.
            assert!(
                found.ends_with(&all[joins..]),
                "seed {seed}, {name}: {found:?}"
            );
            let mut open: Vec<FunctionId> = Vec::new();
            for call in &all[..joins] {
                if call.edge == Edge::Entry {
                    open.push(call.function)
                } else {
                    open.pop().expect("nested");
                }
            }
            let before = &found[..found.len() - (all.len() - joins)];
            let entered: Vec<FunctionId> = before.iter().fold(Vec::new(), |mut stack, call| {
                if call.edge == Edge::Entry {
                    stack.push(call.function)
                } else {
                    stack.pop().expect("nested");
                }
                stack
            });
            assert_eq!(entered, open, "seed {seed}, {name}");
        }
    }
}
