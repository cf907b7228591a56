//! The HTDUMP writer at its edges: odd names and payloads, empty traces, what comes late, receivers
//! that join late, outputs that fail.

use std::fs::File;
use std::io::{self, Write};

use crate::common::htdump::{begin, clean, function, spread, write};
use crate::common::{Event, Random, enter, exit, program, push, read, thread};
use fdr_formats::model::{Counts, Function};
use fdr_formats::writer::Output;
use fdr_formats::{Call, FunctionId, Thread, ThreadId, TraceInfo, registry};

const TARGETS: [&str; 2] = ["htdump", "htdump-be"];

#[test]
fn names_of_every_sort() {
    let names = [
        "plain::name",
        "λ → ü",
        "\"quoted\" \\ slash",
        "nul\0in it",
        "\u{1}\u{7f}\u{85}\r\n\t",
        "100 %41 %",
        "",
        "#5",
        "same",
        "same",
        &"long ".repeat(20_000),
        "' /",
    ];
    let mut info = TraceInfo {
        program: "pro\"gram\0".to_owned(),
        reason: "rea\\son".to_owned(),
        ..TraceInfo::default()
    };
    info.clock.name = "clock\n".to_owned();
    for (id, name) in (1..).zip(names) {
        info.functions.push(Function {
            file: format!("{name}.rs"),
            line: id * 3,
            ..function(id, name)
        });
    }
    let threads = names.map(|name| name.to_owned());
    let threads: Vec<_> = (1..)
        .zip(threads)
        .map(|(id, name)| {
            let call = [enter(100 * id, id as u32), exit(100 * id + 1, id as u32)];
            let thread = Thread {
                id: ThreadId(id),
                name,
                ..Thread::default()
            };
            (thread, call.map(Event::Call).to_vec())
        })
        .collect();
    for target in TARGETS {
        let (bytes, losses) = write(target, &info, &threads);
        assert!(losses.is_empty(), "{losses}");
        let read = clean(&bytes);
        assert_eq!(read.info.functions, info.functions);
        assert_eq!(
            (&read.info.program, &read.info.reason),
            (&info.program, &info.reason)
        );
        assert_eq!(read.info.clock.name, info.clock.name);
        for (found, (thread, events)) in read.info.threads.iter().zip(&threads) {
            assert_eq!(found, thread);
            assert_eq!(read.log.events(thread.id.0), events);
        }
    }
}

#[test]
fn payloads_of_any_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    let payloads: [&[u8]; 7] = [
        b"",
        b"text",
        b"%",
        b"%00",
        "λ\"\\".as_bytes(),
        &all,
        &all.repeat(4000),
    ];
    let events: Vec<Event> = (1..)
        .zip(payloads)
        .flat_map(|(time, data)| {
            [
                Event::Custom(10 * time, Some(u32::MAX), data.to_vec()),
                Event::Custom(10 * time + 1, None, data.to_vec()),
                Event::Typed(10 * time + 2, u16::MAX, data.to_vec()),
            ]
        })
        .collect();
    let threads = [(thread(1), events)];
    for target in TARGETS {
        let (bytes, losses) = write(target, &TraceInfo::default(), &threads);
        assert!(losses.is_empty(), "{losses}");
        assert_eq!(clean(&bytes).log.events(1), threads[0].1);
    }
}

#[test]
fn empty_traces_and_quiet_threads() {
    let (bytes, losses) = write("htdump", &TraceInfo::default(), &[]);
    let read = clean(&bytes);
    assert!(losses.is_empty() && read.log.threads.is_empty() && read.info.threads.is_empty());
    let threads = [
        (thread(1), vec![]),
        (
            thread(2),
            vec![Event::Call(enter(5, 1)), Event::Call(exit(6, 1))],
        ),
        (thread(3), vec![]),
    ];
    let (bytes, _) = write("htdump", &TraceInfo::default(), &threads);
    let read = clean(&bytes);
    let wanted = threads.map(|(thread, _)| thread);
    assert_eq!(read.info.threads, wanted);
    let is_known = |id: u64| read.log.threads.iter().any(|(thread, _)| thread.0 == id);
    assert!(
        [1, 2, 3].into_iter().all(is_known),
        "a sink is told of each thread"
    );
    // What comes before any thread has no place.
    let (mut writer, shared) = begin("htdump", &TraceInfo::default());
    writer.calls(&[enter(1, 1)]);
    push(&mut writer, &Event::Lost(3));
    assert!(writer.finish().expect("memory").is_empty());
    assert!(clean(&shared.bytes()).log.threads.is_empty());
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
    writer.functions(&[function(5, "five"), function(6, "six")]);
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
    let read = clean(&shared.bytes());
    assert_eq!(read.info.threads, [full]);
    assert_eq!(
        read.info.functions,
        [function(5, "five"), function(6, "six")]
    );
    assert_eq!(read.log.calls(1).len(), 6);
}

#[test]
fn threads_of_more_than_32_bits_stay_apart() {
    let ids = [
        u64::from(u32::MAX),
        1 << 40,
        (1 << 40) + 5,
        5,
        u64::from(u32::MAX) - 1,
        u64::MAX,
    ];
    let threads = ids.map(|id| {
        let events = [enter(id % 1000, 1), exit(id % 1000 + 1, 1)];
        (thread(id), events.map(Event::Call).to_vec())
    });
    let (bytes, losses) = write("htdump", &TraceInfo::default(), &threads);
    assert!(losses.is_empty(), "{losses}");
    let read = clean(&bytes);
    for (thread, events) in &threads {
        assert_eq!(read.log.events(thread.id.0), events);
    }
    assert_eq!(read.info.threads.len(), ids.len());
}

#[test]
fn a_receiver_may_join_late() {
    let info = TraceInfo {
        functions: vec![function(1, "one")],
        program: "p".to_owned(),
        ..TraceInfo::default()
    };
    for target in TARGETS {
        let (mut writer, shared) = begin(target, &info);
        writer.thread(&thread(1));
        writer.functions(&[function(2, "two")]);
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
        let (whole, part) = (clean(&bytes), clean(&late));
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
        let names: Vec<&str> = both
            .info
            .functions
            .iter()
            .map(|function| &*function.name)
            .collect();
        assert_eq!(names, ["one", "two"]);
    }
}

#[test]
fn what_is_flushed_can_be_read() {
    let mut random = Random(5);
    let events = spread(program(&mut random));
    let (mut writer, shared) = begin("htdump", &TraceInfo::default());
    writer.thread(&thread(1));
    let mut last = 0;
    for event in &events {
        push(&mut writer, event);
        writer.flush().expect("memory is never full");
        let read = clean(&shared.bytes());
        assert!(read.log.count() >= last);
        last = read.log.count();
    }
    assert!(last > events.len() / 2, "{last} of {}", events.len());
}

/// Takes this many bytes, and then fails as a full disk does.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disks_are_errors_at_finish() {
    for room in [0, 100, 10_000, 200_000] {
        let target = registry::target("htdump").expect("a target");
        let output = Output::Stream(Box::new(Full(room)));
        let mut writer =
            (target.create)(output, &TraceInfo::default()).expect("nothing is written");
        writer.thread(&thread(1));
        for nth in 0..20_000 {
            writer.calls(&[enter(2 * nth, 1), exit(2 * nth + 1, 1)]);
        }
        writer.functions(&[function(7, "late")]);
        assert!(writer.flush().is_err(), "{room} bytes");
        let error = writer.finish().expect_err("the disk is full").to_string();
        assert_eq!(error, "no space left", "{room} bytes");
    }
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("a system with /dev/full");
    let target = registry::target("htdump").expect("a target");
    let writer =
        (target.create)(Output::File(full), &TraceInfo::default()).expect("nothing is written");
    assert!(writer.finish().is_err());
}

#[test]
fn synthetic_counts_and_function_zero() {
    let info = TraceInfo {
        functions: vec![function(0, "zero"), function(u32::MAX, "last")],
        ..TraceInfo::default()
    };
    let events = [
        enter(1, 0),
        enter(2, u32::MAX),
        exit(3, u32::MAX),
        exit(4, 0),
    ];
    let threads = [(thread(0), events.map(Event::Call).to_vec())];
    let (bytes, losses) = write("htdump", &info, &threads);
    assert!(losses.is_empty(), "{losses}");
    let read = clean(&bytes);
    assert_eq!(read.log.calls(0), events);
    assert_eq!(read.info.functions, info.functions);
    assert_eq!(
        read.info
            .function(FunctionId(0))
            .map(|function| &*function.name),
        Some("zero")
    );
}
