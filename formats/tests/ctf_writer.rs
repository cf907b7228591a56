//! Events of all kinds, written as CTF folders and read back. Each loss is reported, and the output has nothing that
//! makes other readers fail.

use std::fs;

use crate::common::ctf::{
    Folder, Pieces, covers_all, function, packets, read_whole, tell, write, writer,
};
use crate::common::{Event, EventLog, Random, enter, exit, program, synthetic, thread};
use fdr_formats::model::Counts;
use fdr_formats::source::drive;
use fdr_formats::{Clock, Function, Sink, Thread, TraceInfo, registry};

fn counts(overwritten: u64, dropped: u64) -> Counts {
    Counts {
        recorded: 10 + overwritten + dropped,
        readable: 10,
        overwritten,
        dropped,
        ..Counts::default()
    }
}

/// What `program` does not make: types, CPUs of events, losses, calls that were not measured.
fn spiced(random: &mut Random) -> Vec<Event> {
    let mut events = Vec::new();
    for event in program(random) {
        let time = match &event {
            Event::Call(call) => Some(call.time.0),
            Event::Cpu(time, _) | Event::Custom(time, ..) => Some(*time),
            _ => None,
        };
        events.push(event);
        let Some(time) = time.filter(|_| random.below(8) == 0) else {
            continue;
        };
        // An argument belongs to the call in front of it: nothing comes between.
        let Some(Event::Call(call)) = events.last() else {
            continue;
        };
        if call.has_arguments {
            continue;
        }
        let data: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
        events.push(match random.below(5) {
            0 => Event::Typed(time, random.next() as u16, data),
            1 => Event::Custom(time, Some(random.next() as u32), data),
            2 => Event::Lost(random.next() >> 8),
            3 => Event::Wall(random.next(), random.below(1_000_000) as u32),
            _ => Event::Call(synthetic(*call)),
        });
    }
    events
}

#[test]
fn random_programs_come_back() {
    for seed in 1..200 {
        let mut random = Random(seed);
        let info = TraceInfo {
            functions: (1..40).map(|id| function(id, &format!("f{id}"))).collect(),
            ..TraceInfo::default()
        };
        let pieces: Pieces = (1..=1 + random.below(4))
            .map(|id| (thread(id << 33 | id), spiced(&mut random)))
            .collect();
        let (folder, losses) = write(&info, &pieces);
        assert_eq!(losses.to_string(), "", "seed {seed}");
        let read = read_whole(folder.path());
        for (thread, events) in &pieces {
            assert_eq!(read.log.events(thread.id.0), events, "seed {seed}");
            packets(&folder.bytes(&format!("thread-{}", thread.id.0)));
        }
        let threads: Vec<&Thread> = pieces.iter().map(|(thread, _)| thread).collect();
        assert!(read.info.threads.iter().eq(threads), "seed {seed}");
        assert_eq!(read.info.functions, info.functions);
        if seed < 10 {
            covers_all(folder.path());
        }
    }
}

#[test]
fn threads_in_turns_and_counts_at_the_end() {
    let mut random = Random(7);
    let all: Vec<Vec<Event>> = (0..5).map(|_| spiced(&mut random)).collect();
    let folder = Folder::new();
    let mut writer = writer(&folder, &TraceInfo::default());
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    for from in (0..longest).step_by(10) {
        for (id, events) in all.iter().enumerate() {
            let piece = events.iter().skip(from).take(10).cloned().collect();
            tell(&mut writer, &[(thread(id as u64), piece)]);
        }
    }
    for id in 0..5 {
        writer.thread(&Thread {
            counts: Some(counts(id, 2 * id)),
            ..thread(id)
        });
    }
    // The thread comes again without them: they stay.
    writer.thread(&thread(3));
    writer.finish().expect("space");
    let read = read_whole(folder.path());
    for (id, events) in (0..).zip(&all) {
        assert_eq!(read.log.events(id), events, "thread {id}");
        let known = &read.info.threads[id as usize];
        assert_eq!(known.counts, Some(counts(id, 2 * id)));
        let bytes = folder.bytes(&format!("thread-{id}"));
        let marks: u64 = all[id as usize].iter().fold(0, |sum, event| match event {
            Event::Lost(records) => sum + records,
            _ => sum,
        });
        let discarded = packets(&bytes).last().map(|packet| packet.discarded);
        assert_eq!(discarded, Some(marks.max(3 * id)), "thread {id}");
    }
    covers_all(folder.path());
}

#[test]
fn golden_traces_of_xray_come_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/xray");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("golden files") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        if !name.ends_with(".fdr") {
            continue;
        }
        let source = registry::open_path(&path).expect("a trace");
        let mut wanted = EventLog::default();
        drive(&*source, &mut wanted, &|_| {}).expect("readable");
        let made = Folder::new();
        let mut writer = writer(&made, source.info());
        drive(&*source, &mut writer, &|_| {}).expect("readable");
        let losses = writer.finish().expect("space");
        assert_eq!(losses.to_string(), "", "{name}");
        let read = read_whole(made.path());
        assert_eq!(read.log.threads, wanted.threads, "{name}");
        let info = source.info();
        assert_eq!(read.info.threads, info.threads, "{name}");
        assert_eq!(read.info.functions, info.functions, "{name}");
        assert_eq!(read.info.clock, info.clock, "{name}");
        assert_eq!(read.info.process, info.process, "{name}");
        count += 1;
    }
    assert!(count >= 10, "{count} golden files");
}

#[test]
fn losses_are_between_packets_and_counted_once() {
    let lost = |id, known| Thread {
        counts: known,
        ..thread(id)
    };
    let run = |time| [Event::Call(enter(time, 1)), Event::Call(exit(time + 1, 1))];
    let events = |marks: &[u64]| -> Vec<Event> {
        let part = |(at, mark): (usize, &u64)| {
            let time = 10 * at as u64;
            // A record that counts none stands for a break of the clock.
            let lost = match *mark {
                0 => Event::Break(time + 1),
                mark => Event::Lost(mark),
            };
            run(time).into_iter().chain([lost])
        };
        marks
            .iter()
            .enumerate()
            .flat_map(part)
            .chain(run(1000))
            .collect()
    };
    let pieces = [
        (lost(1, None), events(&[3, 0, 4])),
        // The counts are of the marks' records, and of more.
        (lost(2, Some(counts(5, 1))), events(&[2])),
        (lost(3, Some(counts(1, 0))), events(&[2])),
        (lost(4, Some(counts(8, 0))), vec![]),
        (lost(5, None), vec![Event::Lost(9)]),
    ];
    let (folder, losses) = write(&TraceInfo::default(), &pieces);
    assert_eq!(losses.to_string(), "");
    let discarded = |id: u64| -> Vec<u64> {
        let packets = packets(&folder.bytes(&format!("thread-{id}")));
        packets.iter().map(|packet| packet.discarded).collect()
    };
    assert_eq!(discarded(1), [0, 3, 7]);
    assert_eq!(discarded(2), [0, 6]);
    assert_eq!(discarded(3), [0, 1, 2]);
    assert_eq!(discarded(4), [0, 8]);
    assert_eq!(discarded(5), [0, 9]);
    let read = read_whole(folder.path());
    for (thread, events) in &pieces {
        assert_eq!(read.log.events(thread.id.0), events, "thread {}", thread.id);
    }
}

#[test]
fn packets_end_at_cpu_changes_and_limits() {
    let mut events = vec![Event::Cpu(5, 2)];
    for time in 5..5000 {
        events.push(Event::Call(enter(time, 1)));
        events.push(Event::Call(exit(time, 1)));
    }
    events.extend([
        Event::Cpu(5000, 3),
        Event::Cpu(5001, 3),
        Event::Cpu(5002, 4),
    ]);
    let (folder, _) = write(&TraceInfo::default(), &[(thread(1), events.clone())]);
    let packets = packets(&folder.bytes("thread-1"));
    let kinds: Vec<(u32, u8)> = packets
        .iter()
        .map(|packet| (packet.cpu, packet.cpu_seen))
        .collect();
    let full = kinds.len() - 4;
    assert_eq!(kinds[0], (2, 1));
    assert!(full >= 8, "{full} packets that follow a full one");
    assert!(
        kinds[1..=full].iter().all(|kinds| *kinds == (2, 0)),
        "{kinds:?}"
    );
    assert_eq!(kinds[full + 1..], [(3, 1), (3, 1), (4, 1)]);
    assert!(packets.iter().all(|packet| packet.size < 33 * 1024));
    assert!(packets[..full].iter().all(|packet| packet.size > 32 * 1024));
    assert_eq!(read_whole(folder.path()).log.events(1), events);
}

#[test]
fn odd_names_come_back() {
    let long = "ä".repeat(50_000);
    let names = [
        "",
        "plain",
        "<T as a::B<'_>>::c::{{closure}}#0",
        "\"quoted\" \\back\\ */ /* ' %s {} ;",
        "nul \0 in the middle",
        "\n\t\r\u{7f}\u{85}\u{2028}",
        "日本語 🦀 e\u{301}",
        &*long,
    ];
    for name in names {
        let info = TraceInfo {
            functions: vec![Function {
                file: format!("{name}.rs"),
                line: 7,
                ..function(3, name)
            }],
            program: name.into(),
            reason: name.into(),
            clock: Clock {
                name: name.into(),
                ..Clock::default()
            },
            ..TraceInfo::default()
        };
        let named = Thread {
            name: name.into(),
            ..thread(1)
        };
        let events = vec![Event::Call(enter(1, 3)), Event::Call(exit(2, 3))];
        let (folder, losses) = write(&info, &[(named.clone(), events.clone())]);
        assert_eq!(losses.to_string(), "", "{name:.40}");
        let read = read_whole(folder.path());
        assert_eq!(read.info.functions, info.functions);
        assert_eq!(read.info.threads, [named]);
        assert_eq!(read.info.program, name);
        assert_eq!(read.info.reason, name);
        assert_eq!(read.info.clock.name, name);
        assert_eq!(read.log.events(1), events);
        if !name.is_empty() {
            let map = String::from_utf8(folder.bytes(".fdr-functions.txt")).expect("UTF-8");
            assert_eq!(map.lines().count(), 1, "{map:.80?}");
        }
    }
}

#[test]
fn nothing_is_a_trace_too() {
    let (folder, losses) = write(&TraceInfo::default(), &[]);
    assert_eq!(losses.to_string(), "");
    let read = read_whole(folder.path());
    assert_eq!((read.info.threads.len(), read.log.count()), (0, 0));
    covers_all(folder.path());

    let (folder, _) = write(&TraceInfo::default(), &[(thread(4), vec![])]);
    let read = read_whole(folder.path());
    assert_eq!(read.info.threads, [thread(4)]);
    assert_eq!(read.log.events(4), []);
    assert!(
        !folder.has("thread-4"),
        "a file without a packet is none to other readers"
    );

    // Marks without any time.
    let marks = vec![Event::Wall(1, 2), Event::Lost(3), Event::Argument(4)];
    let (folder, _) = write(&TraceInfo::default(), &[(thread(4), marks.clone())]);
    assert_eq!(read_whole(folder.path()).log.events(4), marks);

    // Events before the first thread belong to no thread, so they are not written.
    let made = Folder::new();
    let mut writer = writer(&made, &TraceInfo::default());
    writer.calls(&[enter(1, 1)]);
    writer.finish().expect("space");
    assert_eq!(read_whole(made.path()).log.count(), 0);
}
