//! The HTDUMP writer: where marks stand, calls that do not nest, losses, functions and threads that come late, and
//! receivers that join late.

use crate::common::{
    self, Event, begin, call, enter, exit, function, intact, push, read, synthetic, thread,
    write_pieces,
};
use fdr_formats::model::Counts;
use fdr_formats::{Call, Clock, Edge, Thread, ThreadId, TraceInfo};

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
    let (bytes, losses) = write_pieces("htdump", &TraceInfo::default(), &threads);
    assert!(losses.is_empty(), "{losses}");
    assert_eq!(intact(&bytes).log.events(1), threads[0].1);
}

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
fn parents_stand_before_their_children() {
    // 10 ticks are one ns: parent and child begin in the same one, and the next ends in it, too.
    let events = [
        enter(100, 1),
        enter(102, 2),
        enter(103, 3),
        exit(151, 3),
        exit(190, 2),
        exit(191, 1),
    ];
    let pieces = [(thread(1), events.map(Event::Call).to_vec())];
    let (bytes, _) = write_pieces("htdump", &clocked(10_000_000_000), &pieces);
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
    let (bytes, losses) = write_pieces("htdump", &TraceInfo::default(), &[(thread(1), events)]);
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
    assert_eq!(intact(&bytes).log.calls(1), wanted);
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
    let (bytes, losses) = write_pieces("htdump", &TraceInfo::default(), &[(thread(1), events)]);
    let wanted = "2 arguments that no entry stands before: left out; \
                  47 arguments after the 253rd of a call: left out; \
                  2 times before that of the thread's last event: moved up to that";
    assert_eq!(losses.to_string(), wanted);
    let read = intact(&bytes);
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
    let pieces = [(thread(1), events.map(Event::Call).to_vec())];
    let (bytes, losses) = write_pieces("htdump", &clocked(500_000_000), &pieces);
    assert_eq!(
        losses.to_string(),
        "1 times of 2^64 ns and more: moved there"
    );
    assert_eq!(
        intact(&bytes).log.calls(1),
        [enter(u64::MAX - 1, 1), exit(u64::MAX, 1)]
    );
}

#[test]
fn what_comes_late_is_held_too() {
    let (mut writer, shared) = begin("htdump", &TraceInfo::default());
    let nameless = Thread {
        id: ThreadId(1),
        ..Thread::default()
    };
    writer.thread(&nameless);
    writer.calls(&[enter(1, 5), exit(2, 5)]);
    // A name for a function that was called already, and one for another.
    writer.functions(&[function(5, "five", "", 0), function(6, "six", "", 0)]);
    writer.calls(&[enter(3, 5), enter(4, 6), exit(5, 6), exit(6, 5)]);
    let counts = Counts {
        recorded: 9,
        readable: 6,
        overwritten: 2,
        dropped: 1,
        ..Counts::default()
    };
    let full = Thread {
        process: Some(3),
        name: "late".to_owned(),
        counts: Some(counts),
        ..nameless.clone()
    };
    writer.thread(&full);
    writer.thread(&nameless);
    assert!(writer.finish().expect("memory").is_empty());
    let read = intact(&shared.bytes());
    assert_eq!(read.info.threads, [full]);
    assert_eq!(
        read.info.functions,
        [function(5, "five", "", 0), function(6, "six", "", 0)]
    );
    assert_eq!(read.log.calls(1).len(), 6);
}

#[test]
fn a_receiver_may_join_late() {
    let info = TraceInfo {
        functions: vec![function(1, "one", "", 0)],
        program: "p".to_owned(),
        ..TraceInfo::default()
    };
    for target in ["htdump", "htdump-be"] {
        let (mut writer, shared) = begin(target, &info);
        writer.thread(&thread(1));
        writer.functions(&[function(2, "two", "", 0)]);
        // Of what the first receiver has: not for the one who joins.
        writer.thread(&Thread {
            counts: Some(Counts::default()),
            ..thread(1)
        });
        let with = Call {
            has_arguments: true,
            ..enter(10, 1)
        };
        writer.calls(&[enter(5, 1), with]);
        push(&mut writer, &Event::Argument(1));
        writer.calls(&[exit(20, 1), enter(25, 9), exit(26, 9)]);
        writer.flush().expect("memory is never full");
        let before = shared.bytes().len();
        let mut late = writer.restart().expect("HTDUMP can be joined");
        assert_eq!(
            shared.bytes().len(),
            before,
            "a restart is for the one who joins"
        );
        let with = Call {
            has_arguments: true,
            ..enter(30, 2)
        };
        writer.calls(&[with]);
        push(&mut writer, &Event::Argument(2));
        writer.calls(&[exit(40, 2), enter(41, 9), exit(42, 9), exit(50, 1)]);
        writer.finish().expect("memory is never full");
        let bytes = shared.bytes();
        late.extend(&bytes[before..]);
        let (whole, part) = (intact(&bytes), intact(&late));
        assert_eq!(part.info.functions, whole.info.functions);
        assert_eq!(
            (&part.info.program, &part.info.threads),
            (&info.program, &vec![thread(1)])
        );
        let mut wanted = whole.log.events(1).to_vec();
        // Calls that ended before are not in the second stream. The outermost call is in it, because it was open.
        wanted.drain(1..6);
        assert_eq!(part.log.events(1), wanted);
        // The receiver's file may hold both: a stream cut off in a record, and what it got then.
        let mut both = bytes[..before - 7].to_vec();
        both.extend(&late);
        let both = read(&both).expect("readable");
        assert_eq!(both.diagnostics.len(), 1);
        assert!(
            both.diagnostics[0]
                .what
                .contains("where another stream begins")
        );
        assert_eq!(both.names(), ["one", "two"]);
    }
}
