//! Events through the Heph writer and back: random programs, files of XRay, threads in turns, losses,
//! substreams.

use crate::common::heph::{
    as_calls, call_events, complete_info, event, feed, intact, named, through, write, write_threads,
};
use crate::common::{
    Event, Random, ReadTrace, call, cut_everywhere, enter, exit, flip_everywhere, list, program,
    read, synthetic, thread,
};
use fdr_formats::model::Counts;
use fdr_formats::source::drive;
use fdr_formats::{Edge, Thread, Ticks, registry};

#[test]
fn random_programs_come_back() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut marks = 0;
    for round in 0..150 {
        let threads: Vec<_> = (0..1 + random.below(3))
            .map(|id| (thread(100 + id), strictly(program(&mut random))))
            .collect();
        let (bytes, losses) = write_threads(&complete_info(), &threads);
        let lost: Vec<_> = losses.iter().map(|(what, _)| what).collect();
        let known = "changes of CPU without a call before the next one: left out";
        assert!(lost.iter().all(|&what| what == known), "{losses}");
        let read = intact(&bytes);
        for (thread, events) in &threads {
            let wanted = as_calls(events);
            assert_eq!(read.log.events(thread.id.0), wanted, "round {round}");
            marks += wanted.len();
        }
    }
    assert!(marks > 10_000, "{marks}");
}

/// The program with times that only go forward, so that every event has one place.
fn strictly(mut events: Vec<Event>) -> Vec<Event> {
    let mut last = 0;
    for event in &mut events {
        let (Event::Cpu(time, _) | Event::Custom(time, _, _) | Event::Typed(time, _, _)) = event
        else {
            if let Event::Call(call) = event {
                last = call.time.0.max(last + 1);
                call.time = Ticks(last);
            }
            continue;
        };
        last = last.max(*time) + 1;
        *time = last;
    }
    events
}

#[test]
fn threads_in_turns_and_counts_at_the_end() {
    let mut random = Random(77);
    let programs: Vec<Vec<Event>> = (0..4).map(|_| strictly(program(&mut random))).collect();
    let (bytes, _) = write(&complete_info(), |writer| {
        let longest = programs.iter().map(Vec::len).max().unwrap_or(0);
        let mut at = 0;
        while at < longest {
            let step = 1 + random.below(5) as usize;
            for (id, events) in programs.iter().enumerate() {
                writer.thread(&named(id as u64, "turn"));
                // An argument stands at its call.
                let part = events.get(at..).unwrap_or(&[]);
                feed(writer, &part[..part.len().min(step)]);
            }
            at += step;
        }
        for id in 0..programs.len() as u64 {
            let counts = Some(Counts {
                recorded: id,
                ..Counts::default()
            });
            writer.thread(&Thread {
                counts,
                ..named(id, "turn")
            });
        }
    });
    let read = intact(&bytes);
    for (id, events) in programs.iter().enumerate() {
        assert_eq!(read.log.events(id as u64), as_calls(events), "thread {id}");
        let thread = &read.info.threads[id];
        assert_eq!(thread.counts.map(|counts| counts.recorded), Some(id as u64));
        assert_eq!(thread.name, "turn");
    }
}

#[test]
fn what_was_not_measured_stays_so() {
    let calls = [
        synthetic(enter(10, 3)),
        enter(11, 9),
        call(12, 9, Edge::TailExit),
        synthetic(call(13, 3, Edge::TailExit)),
        enter(14, 3),
        synthetic(exit(15, 3)),
    ];
    let read = through(&complete_info(), &[(named(1, ""), call_events(&calls))]);
    assert_eq!(read.log.calls(1), calls);
}

#[test]
fn calls_that_do_not_nest_are_made_to() {
    // An exit without entry; calls that are left open, until the moment of the dump.
    let calls = [exit(10, 3), enter(20, 9), enter(30, 3)];
    let info = complete_info();
    let Ticks(end) = info.end.expect("an end");
    let read = through(&info, &[(named(1, ""), call_events(&calls))]);
    let wanted = [
        synthetic(enter(10, 3)),
        exit(10, 3),
        enter(20, 9),
        enter(30, 3),
        synthetic(exit(end, 3)),
        synthetic(exit(end, 9)),
    ];
    assert_eq!(read.log.calls(1), wanted);
}

#[test]
fn xray_files_come_back_through_heph() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/xray");
    for name in [
        "v1-std",
        "v3-std",
        "v5-std",
        "v3-mt",
        "v5-mt",
        "v3-mt-epoch",
        "llvm19-demo-v5",
    ] {
        let bytes = std::fs::read(format!("{folder}/{name}.fdr")).expect("a golden file");
        let xray = read(&bytes).expect("readable");
        let source = registry::open(Box::new(bytes)).expect("readable");
        let (bytes, losses) = write(source.info(), |writer| {
            drive(&*source, writer, &|_| {}).expect("bytes in memory");
        });
        let heph = intact(&bytes);
        if name != "llvm19-demo-v5" {
            assert!(losses.is_empty(), "{name}: {losses}");
        }
        for (thread, events) in &xray.log.threads {
            let mut wanted = as_calls(events);
            // A thread's first events may be at one time: there, a custom event has no place of its own.
            if name == "v3-mt-epoch" {
                wanted.retain(
                    |event| !matches!(event, Event::Custom(_, _, data) if data == b"epoch"),
                );
            }
            let found = heph.log.events(thread.0);
            let found: Vec<_> = found
                .iter()
                .filter(|event| !matches!(event, Event::Custom(_, _, data) if data == b"epoch"))
                .cloned()
                .collect();
            assert_eq!(found, wanted, "{name}, thread {thread}");
        }
        assert_eq!(heph.info.functions, xray.info.functions);
        assert_eq!(heph.info.start, xray.info.start, "{name}");
    }
}

#[test]
fn losses_have_their_place_and_skip_numbers() {
    let mut events = vec![Event::Lost(1)];
    events.extend(call_events(&[enter(10, 3), enter(20, 9)]));
    events.push(Event::Lost(4));
    events.extend(call_events(&[exit(30, 9)]));
    events.extend([Event::Lost(u64::MAX), Event::Lost(7)]);
    events.extend(call_events(&[exit(40, 3)]));
    events.push(Event::Lost(1 << 31));
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert_eq!(read.log.events(1), events);
}

#[test]
fn threads_that_no_stream_can_have() {
    let ids = [
        1 << 40,
        u64::from(u32::MAX),
        u64::from(u32::MAX - 1),
        u64::from(u32::MAX - 2),
        u64::MAX,
        0,
    ];
    let calls = call_events(&[enter(10, 3), exit(20, 3)]);
    let threads: Vec<_> = ids.map(|id| (named(id, "n"), calls.clone())).to_vec();
    let (bytes, losses) = write_threads(&complete_info(), &threads);
    // 2^40 takes the stream of u32::MAX - 1, the facts that of u32::MAX.
    let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [5], "{losses}");
    let read = intact(&bytes);
    let found: Vec<u64> = read.info.threads.iter().map(|thread| thread.id.0).collect();
    assert_eq!(found, ids);
    for id in ids {
        assert_eq!(read.log.calls(id).len(), 2, "{id}");
    }
}

#[test]
fn streams_and_substreams_come_back() {
    let places = [(2, 0), (2, 7), (2, u64::MAX), (9, 1 << 40), (3, 1)];
    let mut bytes = Vec::new();
    let mut counters = [0; 10];
    for (stream, substream) in places {
        let counter = counters[stream as usize];
        counters[stream as usize] += 1;
        bytes.extend(event((stream, counter, substream), (10, 20), b"work", &[]));
    }
    let first = intact(&bytes);
    let source = registry::open(Box::new(bytes)).expect("a trace");
    let (again, losses) = write(source.info(), |writer| {
        drive(&*source, writer, &|_| {}).expect("bytes in memory");
    });
    assert!(losses.is_empty(), "{losses}");
    let lines = list(&again);
    let lines: Vec<&str> = lines.iter().map(|line| &*line.3).collect();
    for (stream, substream) in places {
        let place = format!("stream={stream} ");
        let sub = format!(" substream={substream} start=10 ns");
        let found = lines
            .iter()
            .any(|line| line.starts_with(&place) && line.contains(&sub));
        assert!(found, "{place}{sub}: {lines:#?}");
    }
    let second = intact(&again);
    let sorted = |read: &ReadTrace| {
        let mut threads = read.info.threads.clone();
        threads.sort_by_key(|thread| thread.id);
        threads
    };
    assert_eq!(sorted(&first), sorted(&second));
}

sampled! { written_files_survive_cuts_and_flips }

fn written_files_survive_cuts_and_flips(step: usize) {
    let events = [
        Event::Wall(1, 2),
        Event::Cpu(10, 1),
        Event::Call(enter(20, 3)),
        Event::Custom(25, None, vec![0xff; 9]),
        Event::Call(enter(30, 77)),
        Event::Lost(3),
        Event::Call(exit(40, 77)),
        Event::Call(exit(50, 3)),
    ];
    let (bytes, _) = write_threads(
        &complete_info(),
        &[(named(1 << 40, "main"), events.to_vec())],
    );
    flip_everywhere(&bytes, step);
    // The thread's number is known once its description is whole.
    let described = list(&bytes)
        .iter()
        .position(|line| line.3.contains("fdr:thread"));
    let calls = list(&bytes)[described.expect("a thread") + 1].0 as usize;
    cut_everywhere(&bytes, 8, step);
    assert!(read(&bytes[..calls]).expect("readable").log.count() == 0);
}
