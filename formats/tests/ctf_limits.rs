//! Limits of CTF folders: times that readers refuse, names and payloads that are too long, more
//! threads than files may be open. What is cut is counted.

use std::fs;

use crate::common::ctf::{read_whole, write, writer};
use crate::common::{self, Event, Folder, call, enter, exit, thread};
use fdr_formats::{Clock, Edge, Sink, Thread, ThreadId, Ticks, TraceInfo, registry};

#[test]
fn times_are_exact_and_never_go_back() {
    let clock = Clock {
        frequency: 3_000_000_000,
        anchor: Some((Ticks(6_000_000_001), 1_700_000_000_500_000_000)),
        ..Clock::default()
    };
    let info = TraceInfo {
        clock,
        ..TraceInfo::default()
    };
    let call = |time, edge| Event::Call(call(time, 1, edge));
    let events = vec![
        call(6_000_000_000, Edge::Entry),
        call(6_000_000_005, Edge::Exit),
        call(6_000_000_004, Edge::Entry),
        Event::Cpu(3, 1),
        call(u64::MAX, Edge::Exit),
    ];
    let (folder, losses) = write(&info, &[(thread(1), events)]);
    // 1.67 ns and 1.33 ns are 2 ns and 1 ns: a tick back is a time back.
    let wanted = "2 times before the thread's event before: made the same, for readers refuse them";
    assert_eq!(losses.to_string(), wanted);
    let read = read_whole(folder.path());
    let call = |time, edge| Event::Call(common::call(time, 1, edge));
    let wanted = [
        call(2_000_000_000, Edge::Entry),
        call(2_000_000_002, Edge::Exit),
        call(2_000_000_002, Edge::Entry),
        Event::Cpu(2_000_000_002, 1),
        call(u64::MAX / 3, Edge::Exit),
    ];
    assert_eq!(read.log.events(1), wanted);
    let clock = read.info.clock;
    assert_eq!(clock.frequency, 1_000_000_000);
    assert_eq!(
        clock.anchor,
        Some((Ticks(2_000_000_000), 1_700_000_000_500_000_000))
    );
    let metadata = folder.text("metadata");
    assert!(
        metadata.contains("offset_s = 1699999998;\n\toffset = 500000000;"),
        "{metadata}"
    );
}

#[test]
fn times_beyond_64_bits_are_counted() {
    let calls = |times: [u64; 2]| {
        let [entry, exit] = times;
        vec![
            Event::Call(enter(entry, 1)),
            Event::Call(common::exit(exit, 1)),
        ]
    };
    let clock = |frequency, anchor| TraceInfo {
        clock: Clock {
            frequency,
            anchor,
            ..Clock::default()
        },
        ..TraceInfo::default()
    };
    let most = i64::MAX as u64 - 1;
    let cases = [
        (clock(1_000_000_000, None), [5, u64::MAX], [5, most], 1),
        (clock(1, None), [9, 1 << 40], [9_000_000_000, most], 1),
        (
            clock(1_000_000_000, Some((Ticks(0), most - 1_999_999_999))),
            [7, 3_000_000_000],
            [7, 1_999_999_999],
            1,
        ),
        // The clock's zero is 100 ns before 1970.
        (
            clock(1_000_000_000, Some((Ticks(200), 100))),
            [200, 300],
            [200, 300],
            0,
        ),
    ];
    for (info, times, wanted, late) in cases {
        let (folder, losses) = write(&info, &[(thread(1), calls(times))]);
        let count = losses.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(count, late, "{losses}");
        let read = read_whole(folder.path());
        assert_eq!(read.log.events(1), calls(wanted));
    }
    let far = clock(1_000_000_000, Some((Ticks(0), u64::MAX)));
    let (folder, losses) = write(&far, &[(thread(1), calls([1, 2]))]);
    assert!(
        losses
            .to_string()
            .starts_with("1 anchors of the clock over 292 years"),
        "{losses}"
    );
    let anchor = read_whole(folder.path()).info.clock.anchor;
    assert_eq!(anchor, Some((Ticks(0), u64::MAX)), "our own reader has it");
}

#[test]
fn oversized_and_misplaced_values_are_reported() {
    let long = vec![7; (8 << 20) + 1];
    let events = vec![
        Event::Custom(1, None, long.clone()),
        Event::Typed(2, 3, long.clone()),
        Event::Cpu(3, u32::MAX),
        Event::Custom(4, None, long[1..].to_vec()),
    ];
    let long_name = Thread {
        name: "n".repeat((1 << 20) + 1),
        ..thread(1)
    };
    let (folder, losses) = write(&TraceInfo::default(), &[(long_name, events)]);
    let found: Vec<_> = losses.iter().collect();
    let wanted = [
        ("names over 1 MiB: cut to that", 1),
        ("payloads over 8 MiB: cut to that", 2),
        (
            "changes to CPU 4294967295, which stands for none: left out",
            1,
        ),
    ];
    assert_eq!(found, wanted);
    let read = read_whole(folder.path());
    let cut = &long[1..];
    let wanted = [
        Event::Custom(1, None, cut.to_vec()),
        Event::Typed(2, 3, cut.to_vec()),
        Event::Custom(4, None, cut.to_vec()),
    ];
    assert!(read.log.events(1) == wanted);
    assert_eq!(read.info.threads[0].name.len(), 1 << 20);
}

#[test]
fn a_thousand_threads_have_one_open_file() {
    let folder = Folder::new();
    let mut writer = writer(&folder, &TraceInfo::default());
    let calls: Vec<_> = (0..3000)
        .flat_map(|time| [enter(time, 1), exit(time, 1)])
        .collect();
    for id in 0..1000 {
        writer.thread(&thread(id));
        writer.calls(&calls[..if id % 100 == 0 { calls.len() } else { 10 }]);
    }
    let open = fs::read_dir("/proc/self/fd").expect("open files");
    let ours = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let ours = ours.filter(|path| path.starts_with(folder.path())).count();
    assert_eq!(ours, 1, "files are spilled in turns");
    writer.finish().expect("space");
    let source = registry::open_path(folder.path()).expect("a trace");
    assert_eq!(source.lanes(), 1000);
    let read = read_whole(folder.path());
    assert_eq!(read.log.events(999).len(), 10);
    assert_eq!(read.log.events(900).len(), 6000);
    assert_eq!(read.info.threads[17].id, ThreadId(17));
}

#[test]
fn the_reserved_thread_number_is_changed() {
    let calls = vec![Event::Call(enter(1, 1)), Event::Call(exit(2, 1))];
    let (folder, losses) = write(&TraceInfo::default(), &[(thread(u64::MAX), calls.clone())]);
    assert!(
        losses
            .to_string()
            .starts_with("1 threads number 18446744073709551615"),
        "{losses}"
    );
    assert_eq!(read_whole(folder.path()).log.events(u64::MAX - 1), calls);
}
