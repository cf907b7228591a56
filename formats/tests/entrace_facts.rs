//! What ENTRACE files hold in addition to events: clock, program, threads, functions and their names. The writer
//! reports exactly what they can't hold. A full disk is an error.

use crate::common::entrace::{TARGETS, feed, function, read_own, round, write};
use crate::common::{Event, enter, exit, push, synthetic, thread};
use fdr_formats::model::{Counts, Missing};
use fdr_formats::registry::target;
use fdr_formats::writer::Output;
use fdr_formats::{Call, Clock, Thread, ThreadId, Ticks, TraceInfo};

fn facts() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency: 1_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(-0.125),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(77), 1_700_000_000_123_456_789)),
            ..Clock::default()
        },
        functions: vec![
            function(0, "a::b::zero", "src/zero.rs", 1),
            function(3, "never::called", "src/never.rs", 3),
            function(5, "twin", "src/twin.rs", 5),
            function(6, "twin", "src/twin.rs", 5),
            function(7, "", "", 0),
            function(8, "", "src/nameless.rs", 8),
            // A name that looks like the label of another one.
            function(9, "#11", "", 0),
            function(u32::MAX, "<T as a::B<c::D>>::last", "", u32::MAX),
        ],
        program: "a program".into(),
        process: Some(u64::MAX),
        reason: "signal 6".into(),
        dump: Some(0),
        missing: Missing {
            threads: 1,
            overwritten: 2,
            dropped: 3,
        },
        start: Some(Ticks(50)),
        end: Some(Ticks(5000)),
        ..TraceInfo::default()
    }
}

fn assert_same_facts(info: &TraceInfo, wanted: &TraceInfo, name: &str) {
    let mut functions = wanted.functions.clone();
    functions.sort_by_key(|function| function.id);
    assert_eq!(info.functions, functions, "{name}");
    assert_eq!(info.clock, wanted.clock);
    assert_eq!(
        (
            &info.program,
            info.process,
            &info.reason,
            info.dump,
            info.missing
        ),
        (
            &wanted.program,
            wanted.process,
            &wanted.reason,
            wanted.dump,
            wanted.missing
        )
    );
    assert_eq!(info.start, Some(Ticks(1)), "the earliest of all");
    assert_eq!(info.end, wanted.end);
}

#[test]
fn facts_come_back() {
    let wanted = facts();
    let counts = Counts {
        recorded: 6,
        readable: 5,
        overwritten: 4,
        dropped: 3,
        synthetic_entries: 2,
        synthetic_exits: u64::MAX,
        summarised: 0,
    };
    let first = Thread {
        id: ThreadId(u64::MAX),
        process: Some(0),
        name: "worker \u{1F980}".into(),
        counts: None,
        totals: Vec::new(),
        early_calls: Vec::new(),
    };
    let second = Thread {
        id: ThreadId(0),
        counts: Some(Counts::default()),
        ..Thread::default()
    };
    // 11 has no name and is not described.
    let ids = [0, 5, 6, 7, 8, 9, 11, u32::MAX];
    let calls: Vec<Call> = ids
        .iter()
        .zip(60u64..)
        .flat_map(|(&id, time)| [enter(time * 10, id), exit(time * 10 + 5, id)])
        .collect();
    for name in TARGETS {
        let write_all = |writer: &mut Box<dyn fdr_formats::Writer>| {
            writer.thread(&first);
            writer.calls(&calls[..4]);
            writer.thread(&second);
            writer.calls(&[enter(1, 2)]);
            // Its counts come at the end.
            writer.thread(&Thread {
                counts: Some(counts),
                ..first.clone()
            });
            writer.calls(&calls[4..]);
        };
        let (bytes, losses) = write(name, &wanted, write_all);
        assert!(losses.is_empty(), "{losses}");
        let found = read_own(&bytes);
        assert_same_facts(&found.info, &wanted, name);
        let first = Thread {
            counts: Some(counts),
            ..first.clone()
        };
        assert_eq!(found.info.threads, [first, second.clone()]);
        assert_eq!(found.log.calls(u64::MAX), calls, "{name}");
        // It is open until the moment of the dump.
        let Some(Ticks(end)) = wanted.end else {
            panic!("no end");
        };
        let open = [enter(1, 2), synthetic(exit(end, 2))];
        assert_eq!(found.log.calls(0), open, "{name}");
    }
}

#[test]
fn times_are_exact_and_unix_time_is_kept() {
    for frequency in [1, 32_768, 2_994_373_123, 5_000_000_000] {
        let info = TraceInfo {
            clock: Clock {
                frequency,
                anchor: Some((Ticks(9 * frequency), 1_600_000_000_000_000_000)),
                ..Clock::default()
            },
            ..TraceInfo::default()
        };
        let ticks = [0, 1, 2, 3, frequency / 3, 7 * frequency + 1];
        let calls = |time: fn(&Clock, u64) -> u64| -> Vec<Call> {
            let (down, up) = (ticks.iter(), ticks.iter().map(|tick| tick + 8 * frequency));
            let times = down.copied().chain(up).zip(0u32..);
            let depth = ticks.len() as u32;
            times
                .map(|(tick, nth)| {
                    let time = time(&info.clock, tick);
                    if nth < depth {
                        enter(time, nth + 1)
                    } else {
                        exit(time, 2 * depth - nth)
                    }
                })
                .collect()
        };
        let events: Vec<Event> = calls(|_, tick| tick).into_iter().map(Event::Call).collect();
        for name in TARGETS {
            let found = round(name, &info, &events);
            let wanted = calls(|clock, tick| clock.nanos(Ticks(tick)).0);
            assert_eq!(found.log.calls(7), wanted, "{frequency} Hz, {name}");
            let clock = &found.info.clock;
            assert_eq!(clock.frequency, 1_000_000_000);
            let unix = clock.unix_nanos(Ticks(10_000_000_000));
            assert_eq!(unix, Some(1_600_000_001_000_000_000), "{frequency} Hz");
        }
    }
}

#[test]
fn odd_names_come_back() {
    let long = "long::".repeat(17_000);
    let names = [
        "ünï::cödé",
        "\"quotes\" \\ back\\slashes",
        "NUL\0in it",
        "\x01\x1f\x7f\u{85}",
        "\n\r\t",
        "::",
        ":::",
        "a::",
        "::a",
        "a<b::c",
        ">>::x",
        "#",
        "#0",
        "#01",
        "root",
        "fdr:trace",
        " ",
        &long,
    ];
    let functions: Vec<_> = names
        .iter()
        .zip(1u32..)
        .map(|(name, id)| function(id, name, name, id))
        .collect();
    let info = TraceInfo {
        functions,
        program: long.clone(),
        reason: "\0".into(),
        ..TraceInfo::default()
    };
    let calls: Vec<Call> = (1..=names.len() as u32)
        .flat_map(|id| {
            [
                enter(u64::from(id) * 10, id),
                exit(u64::from(id) * 10 + 1, id),
            ]
        })
        .collect();
    for name in TARGETS {
        let (bytes, losses) = write(name, &info, |writer| {
            writer.thread(&Thread {
                name: long.clone(),
                ..thread(7)
            });
            writer.calls(&calls);
        });
        assert!(losses.is_empty(), "{losses}");
        let found = read_own(&bytes);
        assert_eq!(found.info.functions, info.functions, "{name}");
        assert_eq!(found.info.program, long);
        assert_eq!(found.info.reason, "\0");
        assert_eq!(found.info.threads[0].name, long);
        assert_eq!(found.log.calls(7), calls, "{name}");
    }
}

#[test]
fn nothing_is_written_right_too() {
    for name in TARGETS {
        let (bytes, losses) = write(name, &TraceInfo::default(), |_| {});
        assert!(losses.is_empty(), "{losses}");
        let found = read_own(&bytes);
        assert_eq!(found.info.threads, []);
        assert_eq!((found.log.count(), found.info.start), (0, None));

        let (bytes, _) = write(name, &TraceInfo::default(), |writer| {
            writer.thread(&thread(9))
        });
        let found = read_own(&bytes);
        assert_eq!(found.info.threads, [thread(9)]);
        assert_eq!(found.log.threads, [(ThreadId(9), Vec::new())]);

        // Without a thread, events have no place.
        let (bytes, _) = write(name, &TraceInfo::default(), |writer| {
            writer.calls(&[enter(1, 1)]);
            push(writer, &Event::Lost(1));
        });
        assert_eq!(read_own(&bytes).log.count(), 0);
    }
}

#[test]
fn losses_are_reported_exactly() {
    for name in TARGETS {
        let events = [
            Event::Argument(1),
            Event::Call(enter(1, 1)),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Argument(3),
            Event::Cpu(3, 1),
            Event::Cpu(3, 2),
            Event::Cpu(4, 3),
            Event::Custom(5, None, vec![b'x'; 16 << 20]),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        let (bytes, losses) = write(name, &TraceInfo::default(), |writer| {
            feed(writer, 7, &events)
        });
        let wanted = "2 arguments without a call that can still take them: left out; \
                      3 changes of CPU without a call before the next one: left out; \
                      1 events with payloads of nearly 16 MiB and more: left out";
        let mut found: Vec<String> = losses.to_string().split("; ").map(Into::into).collect();
        let mut wanted: Vec<&str> = wanted.split("; ").collect();
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{name}");
        let read = read_own(&bytes);
        let wanted = [
            Event::Call(Call {
                has_arguments: true,
                ..enter(1, 1)
            }),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        assert!(read.log.events(7) == wanted, "{name}");
    }
}

#[test]
fn calls_keep_all_arguments_an_entry_holds() {
    for name in ["et", "iet-prefix2"] {
        let mut events = vec![Event::Call(Call {
            has_arguments: true,
            ..enter(1, 1)
        })];
        events.extend((0..70_000).map(Event::Argument));
        events.push(Event::Call(exit(2, 1)));
        let info = TraceInfo::default();
        let (bytes, losses) = write(name, &info, |writer| feed(writer, 7, &events));
        let found = read_own(&bytes);
        let arguments = found.log.events(7).len() - 2;
        assert!(arguments > 65_000, "{arguments}");
        let lost = 70_000 - arguments;
        let wanted = format!("{lost} arguments without a call that can still take them: left out");
        assert_eq!(losses.to_string(), wanted);
        assert!(found.log.events(7)[..=arguments] == events[..=arguments]);
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for name in TARGETS {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = Output::File(full.expect("the system has /dev/full"));
        let target = target(name).expect("a target");
        let mut writer = (target.create)(output, &TraceInfo::default()).expect("a writer");
        writer.thread(&thread(1));
        for round in 0..1000 {
            writer.calls(&[enter(2 * round, 1), exit(2 * round + 1, 1)]);
        }
        let error = writer.finish().expect_err("no room").to_string();
        assert!(error.contains("No space left"), "{name}: {error}");
    }
}

#[test]
fn targets_refuse_unfit_outputs() {
    for name in TARGETS {
        let folder = Output::Folder(std::env::temp_dir());
        let create = target(name).expect("a target").create;
        assert!(create(folder, &TraceInfo::default()).is_err(), "{name}");
        let stream = Output::Stream(Box::new(Vec::new()));
        let begun = create(stream, &TraceInfo::default());
        assert!(begun.is_err(), "{name}");
    }
}
