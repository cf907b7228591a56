//! Events of all kinds, written as CTF folders and read back. Each loss is reported, and the output has nothing that
//! makes other readers fail.

use crate::common::ctf::{packets, read_whole, write};
use crate::common::{Event, enter, exit, function, thread};
use crate::written::ODD_NAMES;
use fdr_formats::model::Counts;
use fdr_formats::{Thread, TraceInfo};

fn counts(overwritten: u64, dropped: u64) -> Counts {
    Counts {
        recorded: 10 + overwritten + dropped,
        readable: 10,
        overwritten,
        dropped,
        ..Counts::default()
    }
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
fn a_thread_without_packets_has_no_file() {
    let (folder, _) = write(&TraceInfo::default(), &[(thread(4), vec![])]);
    assert!(
        !folder.has("thread-4"),
        "a file without a packet is none to other readers"
    );
    // Marks without any time.
    let marks = vec![Event::Wall(1, 2), Event::Lost(3), Event::Argument(4)];
    let (folder, _) = write(&TraceInfo::default(), &[(thread(4), marks.clone())]);
    assert_eq!(read_whole(folder.path()).log.events(4), marks);
}

#[test]
fn a_function_is_a_line_of_the_map() {
    for name in ODD_NAMES.into_iter().filter(|name| !name.is_empty()) {
        let info = TraceInfo {
            functions: vec![function(3, name, "", 0)],
            ..TraceInfo::default()
        };
        let events = [enter(1, 3), exit(2, 3)].map(Event::Call).to_vec();
        let (folder, _) = write(&info, &[(thread(1), events)]);
        let map = folder.text(".fdr-functions.txt");
        assert_eq!(map.lines().count(), 1, "{map:?}");
    }
}
