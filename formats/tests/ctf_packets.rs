//! The packets of CTF stream files, as other readers walk them: Trace Compass ends a stream, without a word, at a
//! packet that holds no event, unless the packet is the stream's first. Packets and events are taken apart here by
//! hand.

use crate::common::ctf::{self, Packet, packets, taken_apart, tell, write, writer};
use crate::common::{Event, Folder, Random, enter, exit, push, thread};
use fdr_formats::model::Counts;
use fdr_formats::source::drive;
use fdr_formats::writer::Output;
use fdr_formats::{Edge, Sink, Thread, TraceInfo, registry};

/// An event off its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PacketEvent {
    class: u8,
    time: u64,
    /// Of calls.
    function: u32,
}

/// The events of a packet, one after the other, by the layout that `metadata` tells.
fn events_of(packet: &Packet) -> Vec<PacketEvent> {
    let bytes = &packet.events;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let class = bytes[at];
        let time = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().expect("8 bytes"));
        // Process, thread, and a name up to a zero byte.
        let name = &bytes[at + 17..];
        let zero = name.iter().position(|byte| *byte == 0).expect("a name");
        at += 17 + zero + 1;
        let size = match class {
            0 | 1 => 9,
            2 => 4 + 8 * word(at) as usize,
            3 => 12 + word(at + 8) as usize,
            4 => 6 + word(at + 2) as usize,
            5 => 8,
            6 => 12,
            7 => 0,
            other => panic!("class {other} at byte {at}"),
        };
        let function = if class < 2 { word(at) } else { 0 };
        found.push(PacketEvent {
            class,
            time,
            function,
        });
        at += size;
    }
    assert_eq!(at, bytes.len(), "the last event ends with the packet");
    found
}

/// The calls that a reader sees that ends a stream at an empty packet.
fn calls_of_trace_compass(packets: &[Packet]) -> usize {
    let empty = |(at, packet): &(usize, &Packet)| *at > 0 && packet.events.is_empty();
    let end = packets.iter().enumerate().find(empty);
    let end = end.map_or(packets.len(), |(at, _)| at);
    let calls = packets[..end].iter().flat_map(events_of);
    calls.filter(|event| event.class < 2).count()
}

/// Asserts what every reader needs of a stream; returns its packets.
fn whole(bytes: &[u8], wanted: &[Event], case: &str) -> Vec<Packet> {
    let packets = packets(bytes);
    let mut last = 0;
    let mut found = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let events = events_of(packet);
        for event in &events {
            assert!(
                last.max(packet.begin) <= event.time && event.time <= packet.end,
                "{case}: packet {at}: {event:?} after {last} in {}..={}",
                packet.begin,
                packet.end
            );
            last = event.time;
        }
        found.extend(events.into_iter().filter(|event| event.class < 2));
    }
    let calls = wanted.iter().filter_map(|event| match event {
        Event::Call(call) => Some(PacketEvent {
            class: u8::from(call.edge != Edge::Entry),
            time: call.time.0,
            function: call.function.0,
        }),
        _ => None,
    });
    assert!(found.iter().copied().eq(calls), "{case}: calls are missing");
    let cpus = wanted.iter().filter_map(|event| match event {
        Event::Cpu(time, cpu) => Some((*time, *cpu)),
        _ => None,
    });
    let changes = packets.iter().filter(|packet| packet.cpu_seen == 1);
    let changes = changes.map(|packet| (packet.begin, packet.cpu));
    assert!(changes.eq(cpus), "{case}: changes of CPU are missing");
    packets
}

fn info(program: &str) -> TraceInfo {
    TraceInfo {
        program: program.into(),
        ..TraceInfo::default()
    }
}

/// A thread that is named as its program.
fn nameless(id: u64) -> Thread {
    Thread {
        name: String::new(),
        ..thread(id)
    }
}

/// `count` call events, 10 ns apart, with a change of the CPU before every `period`th event.
fn steady(count: u64, period: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for at in 0..count {
        if at % period == 0 {
            events.push(Event::Cpu(10 * at, (at / period % 4) as u32));
        }
        let call = if at % 2 == 0 { enter } else { exit };
        events.push(Event::Call(call(10 * at, 1)));
    }
    events
}

/// Hands events over as readers do: calls in batches, each of which ends at a mark.
fn push_in_batches(sink: &mut dyn Sink, thread: &Thread, events: &[Event], most: usize) {
    sink.thread(thread);
    let mut batch = Vec::new();
    for event in events {
        let Event::Call(call) = event else {
            if !batch.is_empty() {
                sink.calls(&batch);
                batch.clear();
            }
            push(sink, event);
            continue;
        };
        batch.push(*call);
        if batch.len() == most {
            sink.calls(&batch);
            batch.clear();
        }
    }
    if !batch.is_empty() {
        sink.calls(&batch);
    }
}

fn write_in_batches(program: &str, events: &[Event], most: usize) -> Folder {
    let folder = Folder::new();
    let mut writer = writer(&folder, &info(program));
    push_in_batches(&mut writer, &nameless(1), events, most);
    writer.finish().expect("space");
    folder
}

#[test]
fn five_letter_programs_keep_all_calls() {
    let events = steady(40_000, 8186);
    let folder = write_in_batches("hello", &events, 512);
    let bytes = folder.bytes("thread-1");
    assert_eq!(calls_of_trace_compass(&taken_apart(&bytes)), 40_000);
    whole(&bytes, &events, "hello");
}

#[test]
fn a_converted_trace_keeps_all_of_its_calls() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("ctf-packets-{}.fdr", std::process::id()));
    for period in [1, 3, 57, 8186] {
        let events = steady(40_000, period);
        let target = registry::target("xray").expect("the target");
        let file = std::fs::File::create(&path).expect("space");
        let mut writer = (target.create)(Output::File(file), &info("hello")).expect("space");
        tell(&mut writer, &[(nameless(1), events.clone())]);
        writer.finish().expect("space");
        let source = registry::open_path(&path).expect("a trace");
        let folder = Folder::new();
        let mut writer = ctf::writer(&folder, source.info());
        drive(&*source, &mut writer, &|_| {}).expect("a readable trace");
        writer.finish().expect("space");
        let bytes = folder.bytes("thread-1");
        assert_eq!(
            calls_of_trace_compass(&taken_apart(&bytes)),
            40_000,
            "a change of CPU every {period} events"
        );
        let packets = taken_apart(&bytes);
        assert!(packets.len() as u64 >= 40_000 / period, "{}", packets.len());
    }
    std::fs::remove_file(&path).expect("the trace");
}

sampled! { every_packet_has_an_event }

fn every_packet_has_an_event(step: usize) {
    for letters in (0..=16).step_by(step) {
        let program = &"sixteen_letters_"[..letters];
        for period in [1, 2, 5, 7, 11, 19, 61, 407, 744, 1021, 1637, 4093] {
            let events = steady(12_000, period);
            for most in [1, 64, 512] {
                let folder = write_in_batches(program, &events, most);
                let case = format!("{letters} letters, a change every {period}, batches of {most}");
                whole(&folder.bytes("thread-1"), &events, &case);
            }
        }
    }
}

/// Calls with marks of all kinds between them, losses and changes of CPU often one after the other.
fn marked(random: &mut Random, count: u64) -> Vec<Event> {
    let (mut events, mut time) = (Vec::new(), 0);
    for _ in 0..count {
        time += random.below(3);
        let data = vec![7; random.below(300) as usize];
        events.push(match random.below(40) {
            0..3 => Event::Cpu(time, random.below(8) as u32),
            3 => Event::Lost(random.below(3)),
            4 => Event::Custom(time, None, data),
            5 => Event::Typed(time, 3, data),
            6 => Event::Wall(time, 5),
            7 => Event::Argument(time),
            8 => Event::Break(time),
            at if at % 2 == 0 => Event::Call(enter(time, 1)),
            _ => Event::Call(exit(time, 1)),
        });
    }
    events
}

#[test]
fn no_packet_is_empty() {
    for seed in 1..300 {
        let mut random = Random(seed);
        let count = random.below(9000);
        let mut events = marked(&mut random, count);
        let time = 3 * count;
        for _ in 0..random.below(4) {
            events.push(Event::Cpu(time, random.below(3) as u32));
        }
        if random.below(3) == 0 {
            events.push(Event::Lost(random.below(2)));
        }
        let folder = Folder::new();
        let mut writer = writer(&folder, &info("hello"));
        let part = 1 + random.below(5000) as usize;
        for part in events.chunks(part) {
            push_in_batches(&mut writer, &nameless(1), part, 512);
        }
        let lost = counts(random.below(2) * 50_000);
        writer.thread(&Thread {
            counts: Some(lost),
            ..nameless(1)
        });
        writer.finish().expect("space");
        if !folder.has("thread-1") {
            assert!(events.is_empty() && lost.overwritten == 0, "seed {seed}");
            continue;
        }
        let case = format!("seed {seed}");
        let packets = whole(&folder.bytes("thread-1"), &events, &case);
        let marks: u64 = events.iter().fold(0, |sum, event| match event {
            Event::Lost(records) => sum + records,
            _ => sum,
        });
        let discarded = packets.last().map(|packet| packet.discarded);
        assert_eq!(discarded, Some(marks.max(lost.overwritten)), "{case}");
        assert!(
            packets.is_sorted_by_key(|packet| packet.discarded),
            "{case}"
        );
        assert_eq!(packets[0].discarded, 0, "babeltrace2 counts from the first");
    }
}

fn counts(overwritten: u64) -> Counts {
    Counts {
        recorded: 10 + overwritten,
        readable: 10,
        overwritten,
        ..Counts::default()
    }
}

#[test]
fn heads_without_events_get_one() {
    let calls = [Event::Call(enter(5, 1)), Event::Call(exit(6, 1))];
    let cpus = [Event::Cpu(7, 2), Event::Cpu(7, 3), Event::Cpu(9, 2)];
    let lost = Thread {
        counts: Some(counts(77)),
        ..nameless(1)
    };
    let summaries = |folder: &Folder, events: &[Event], case| -> Vec<(u32, u64, Vec<u8>)> {
        let packets = whole(&folder.bytes("thread-1"), events, case);
        let classes = |packet: &Packet| events_of(packet).iter().map(|event| event.class).collect();
        let summary = |packet: &Packet| (packet.cpu, packet.discarded, classes(packet));
        packets.iter().map(summary).collect()
    };
    let none = u32::MAX;

    // Losses that are known at the end alone: after all events, in a packet of their own.
    let folder = Folder::new();
    let mut writer = writer(&folder, &info("hello"));
    push_in_batches(&mut writer, &nameless(1), &calls, 512);
    writer.thread(&lost);
    writer.finish().expect("space");
    let wanted = [(none, 0, vec![0, 1]), (none, 77, vec![7])];
    assert_eq!(summaries(&folder, &calls, "losses at the end"), wanted);

    // Changes of CPU at the end, then losses: the last change and the losses are one packet.
    let folder = Folder::new();
    let mut writer = ctf::writer(&folder, &info("hello"));
    let events = [&calls[..], &cpus].concat();
    push_in_batches(&mut writer, &nameless(1), &events, 512);
    writer.thread(&lost);
    writer.finish().expect("space");
    let wanted = [
        (none, 0, vec![0, 1]),
        (2, 0, vec![7]),
        (3, 0, vec![7]),
        (2, 77, vec![7]),
    ];
    assert_eq!(
        summaries(&folder, &events, "changes and losses at the end"),
        wanted
    );

    // A loss right after a change of CPU is in the packet that the change begins.
    let events = [&calls[..], &cpus[..1], &[Event::Lost(4)], &calls_at(8)].concat();
    let (folder, _) = write(&info("hello"), &[(nameless(1), events.clone())]);
    let wanted = [(none, 0, vec![0, 1]), (2, 4, vec![5, 0, 1])];
    assert_eq!(summaries(&folder, &events, "a change, then losses"), wanted);

    // Nothing but losses: only the stream's first packet is empty, for babeltrace2.
    let (folder, _) = write(&info("hello"), &[(lost, vec![])]);
    let wanted = [(none, 0, vec![]), (none, 77, vec![7])];
    assert_eq!(summaries(&folder, &[], "nothing but losses"), wanted);
    assert_eq!(ctf::read_whole(folder.path()).log.count(), 0);
}

fn calls_at(time: u64) -> [Event; 2] {
    [Event::Call(enter(time, 1)), Event::Call(exit(time + 1, 1))]
}
