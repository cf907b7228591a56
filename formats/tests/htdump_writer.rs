//! The HTDUMP writer: what is read back from random programs and from traces of XRay, times, threads that take turns,
//! and losses that are reported.

use std::fs;
use std::path::Path;

use crate::common::htdump::{begin, clean, joined, spread, write};
use crate::common::{
    self, Event, Random, ReadTrace, call, enter, exit, program, push, read, synthetic, thread,
};
use fdr_formats::source::drive;
use fdr_formats::{Call, Clock, Edge, Thread, ThreadId, Ticks, TraceInfo, registry};

const TARGETS: [&str; 2] = ["htdump", "htdump-be"];

fn clocked(frequency: u64) -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency,
            ..Clock::default()
        },
        ..TraceInfo::default()
    }
}

#[test]
fn random_programs_come_back_as_they_were() {
    for seed in 1..60u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let threads = [7, 8, 1 << 33];
        let threads = threads.map(|id| (thread(id), spread(program(&mut random))));
        for target in TARGETS {
            let (bytes, losses) = write(target, &TraceInfo::default(), &threads);
            assert!(losses.is_empty(), "seed {seed}: {losses}");
            let read = clean(&bytes);
            let wanted: Vec<Thread> = threads.iter().map(|(thread, _)| thread.clone()).collect();
            assert_eq!(read.info.threads, wanted);
            assert_eq!(
                read.info.functions,
                [],
                "seed {seed}: no function has a name"
            );
            let mut found = joined(&read.log);
            found.sort_by_key(|(id, _)| *id);
            for ((thread, events), (id, found)) in threads.iter().zip(found) {
                assert_eq!((thread.id, events), (id, &found), "seed {seed}");
            }
        }
    }
}

#[test]
fn threads_may_come_in_turns() {
    let mut random = Random(77);
    let programs = [1, 2, 3].map(|id| (thread(id), spread(program(&mut random))));
    let (mut writer, shared) = begin("htdump", &TraceInfo::default());
    let mut rests = programs
        .clone()
        .map(|(thread, events)| (thread, events.into_iter()));
    loop {
        let mut any = false;
        for (thread, rest) in &mut rests {
            writer.thread(thread);
            let mut count = 1 + random.below(5);
            for event in rest.by_ref() {
                push(&mut writer, &event);
                any = true;
                // Arguments stay with their call, because another thread's event between them would end the call's
                // arguments.
                count = count.saturating_sub(1);
                if count == 0 && !matches!(event, Event::Argument(_)) && !wants_arguments(&event) {
                    break;
                }
            }
        }
        if !any {
            break;
        }
    }
    let losses = writer.finish().expect("memory is never full");
    assert!(losses.is_empty(), "{losses}");
    let read = clean(&shared.bytes());
    let wanted: Vec<_> = programs
        .map(|(thread, events)| (thread.id, events))
        .to_vec();
    assert_eq!(joined(&read.log), wanted);
}

fn wants_arguments(event: &Event) -> bool {
    matches!(event, Event::Call(call) if call.has_arguments)
}

/// Everything of a source as HTDUMP, read again.
fn converted(bytes: &[u8]) -> (ReadTrace, ReadTrace, String) {
    let source = registry::open(Box::new(bytes.to_vec())).expect("readable");
    let (mut writer, shared) = begin("htdump", source.info());
    drive(&*source, &mut writer, &|_| {}).expect("readable");
    let losses = writer.finish().expect("memory is never full");
    let read_back = clean(&shared.bytes());
    (
        read(bytes).expect("readable"),
        read_back,
        losses.to_string(),
    )
}

fn xray(name: &str) -> Vec<u8> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/xray"));
    let path = folder.join(name).with_extension("fdr");
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn xray_traces_come_through() {
    for name in [
        "v1-min",
        "v1-std",
        "v1-tid32",
        "v2-std",
        "v3-mt",
        "v3-mt-epoch",
        "v3-std",
        "v4-std",
        "v5-std",
        "v5-mt",
        "llvm19-demo-v5",
    ] {
        let (original, found, losses) = converted(&xray(name));
        assert_eq!(losses, "", "{name}");
        assert_eq!(joined(&found.log), without_repeats(&original), "{name}");
        assert_eq!(found.info.threads, original.info.threads, "{name}");
        assert_eq!(found.info.process, original.info.process, "{name}");
        assert_eq!(found.info.start, original.info.start, "{name}");
        assert_eq!(found.info.clock, original.info.clock, "{name}");
    }
}

/// The events of each thread, without CPUs that the thread is on already.
fn without_repeats(read: &ReadTrace) -> Vec<(ThreadId, Vec<Event>)> {
    let mut threads = joined(&read.log);
    for (_, events) in &mut threads {
        let mut now = None;
        events.retain(|event| match *event {
            Event::Cpu(_, cpu) => now.replace(cpu) != Some(cpu),
            _ => true,
        });
    }
    threads
}

#[test]
fn marks_keep_their_side_of_entries() {
    let events = vec![
        Event::Wall(1, 2),
        Event::Custom(10, None, b"before".to_vec()),
        Event::Typed(10, 1, b"before".to_vec()),
        Event::Call(enter(10, 1)),
        Event::Custom(10, None, b"after".to_vec()),
        Event::Lost(3),
        Event::Wall(3, 4),
        Event::Typed(10, 1, b"after".to_vec()),
        Event::Call(exit(20, 1)),
        Event::Lost(5),
        Event::Cpu(20, 6),
        Event::Call(enter(20, 1)),
        Event::Call(exit(30, 1)),
    ];
    let threads = [(thread(1), events)];
    let (bytes, losses) = write("htdump", &TraceInfo::default(), &threads);
    assert!(losses.is_empty(), "{losses}");
    assert_eq!(clean(&bytes).log.events(1), threads[0].1);
}

#[test]
fn times_are_exact_in_ns_whatever_the_clock() {
    for frequency in [
        1,
        3,
        1_000_000,
        24_000_000,
        1_000_000_000,
        2_899_999_123,
        5_000_000_000,
    ] {
        let ticks: Vec<u64> = vec![0, 1, 2, 7, 1000, 123_456_789, 18_000_000_000];
        let times = |ticks: u64| {
            let exact = (u128::from(ticks) * 1_000_000_000 * 2 + u128::from(frequency))
                / (2 * u128::from(frequency));
            u64::try_from(exact).expect("in range")
        };
        let mut info = clocked(frequency);
        info.clock.anchor = Some((Ticks(123), 1_700_000_000_000_000_000));
        info.start = Some(Ticks(7));
        let events: Vec<Event> = ticks
            .iter()
            .flat_map(|&tick| [Event::Call(enter(tick, 1)), Event::Call(exit(tick, 1))])
            .collect();
        let (bytes, losses) = write("htdump-be", &info, &[(thread(1), events)]);
        assert!(losses.is_empty(), "{losses}");
        let read = clean(&bytes);
        let found: Vec<u64> = read.log.calls(1).iter().map(|call| call.time.0).collect();
        let wanted: Vec<u64> = ticks.iter().flat_map(|&tick| [times(tick); 2]).collect();
        assert_eq!(found, wanted, "{frequency} Hz");
        let clock = &read.info.clock;
        assert_eq!(clock.frequency, 1_000_000_000);
        assert_eq!(
            clock.anchor,
            Some((Ticks(times(123)), 1_700_000_000_000_000_000))
        );
        assert_eq!(read.info.start, Some(Ticks(times(7))));
    }
}

#[test]
fn calls_in_one_nanosecond_stay_nested() {
    // 10 ticks are one ns: parent and child begin in the same one, and the next ends in it, too.
    let events = [
        enter(100, 1),
        enter(102, 2),
        enter(103, 3),
        exit(151, 3),
        exit(190, 2),
        exit(191, 1),
    ];
    let (bytes, _) = write(
        "htdump",
        &clocked(10_000_000_000),
        &[(thread(1), events.map(Event::Call).to_vec())],
    );
    let order = |events: &[Call]| -> Vec<(u32, Edge)> {
        events
            .iter()
            .map(|call| (call.function.0, call.edge))
            .collect()
    };
    assert_eq!(order(&clean(&bytes).log.calls(1)), order(&events));
    // In the file the parent stands before its children, as viewers need it.
    let lines = common::list(&bytes).into_iter();
    let labels: Vec<String> = lines
        .filter(|line| line.2 == "HT_CallstackIntEvent")
        .map(|line| line.3.rsplit(' ').nth(1).expect("a function").to_owned())
        .collect();
    assert_eq!(labels, ["function=#1", "function=#2", "function=#3"]);
}

#[test]
fn unnested_calls_are_nested_and_flagged() {
    let events = vec![
        Event::Call(exit(10, 1)),
        Event::Call(enter(20, 2)),
        Event::Call(enter(30, 3)),
        Event::Call(call(40, 2, Edge::TailExit)),
        Event::Call(synthetic(enter(50, 4))),
        Event::Call(enter(60, 5)),
    ];
    let (bytes, losses) = write("htdump", &TraceInfo::default(), &[(thread(1), events)]);
    assert!(losses.is_empty(), "{losses}");
    let wanted = [
        synthetic(enter(10, 1)),
        exit(10, 1),
        enter(20, 2),
        enter(30, 3),
        synthetic(exit(30, 3)),
        call(40, 2, Edge::TailExit),
        synthetic(enter(50, 4)),
        enter(60, 5),
        synthetic(exit(60, 5)),
        synthetic(exit(60, 4)),
    ];
    assert_eq!(clean(&bytes).log.calls(1), wanted);
}

#[test]
fn losses_are_reported_exactly() {
    let entry = Call {
        has_arguments: true,
        ..enter(10, 1)
    };
    let mut events = vec![Event::Argument(1), Event::Call(entry)];
    events.extend((0..300).map(Event::Argument));
    events.extend([
        Event::Call(exit(20, 1)),
        Event::Argument(2),
        Event::Custom(15, None, vec![1]),
    ]);
    events.extend([Event::Call(enter(12, 2)), Event::Call(exit(30, 2))]);
    let (bytes, losses) = write("htdump", &TraceInfo::default(), &[(thread(1), events)]);
    let wanted = "2 arguments that no entry stands before: left out; \
                  47 arguments after the 253rd of a call: left out; \
                  2 times before that of the thread's last event: moved up to that";
    assert_eq!(losses.to_string(), wanted);
    let read = clean(&bytes);
    let found = read.log.events(1);
    let arguments: Vec<Event> = (0..253).map(Event::Argument).collect();
    assert_eq!(found[1..254], arguments);
    let wanted = [
        Event::Call(exit(20, 1)),
        Event::Custom(20, None, vec![1]),
        Event::Call(enter(20, 2)),
        Event::Call(exit(30, 2)),
    ];
    assert_eq!(found[254..], wanted);
    // Beyond what 64 bits of ns hold.
    let events = [enter(u64::MAX / 2, 1), exit(u64::MAX - 1, 1)];
    let (bytes, losses) = write(
        "htdump",
        &clocked(500_000_000),
        &[(thread(1), events.map(Event::Call).to_vec())],
    );
    assert_eq!(
        losses.to_string(),
        "1 times of 2^64 ns and more: moved there"
    );
    assert_eq!(
        clean(&bytes).log.calls(1),
        [enter(u64::MAX - 1, 1), exit(u64::MAX, 1)]
    );
}
