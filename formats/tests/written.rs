//! The suite that every target is stamped with: events, facts, names, payloads and times that were written are read
//! exactly; a full disk is an error; damaged files are read in part. `roundtrip.rs` has the conversions between targets,
//! and a format's own files have what is its own.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::symlink;

use fdr_formats::identity::Identity;
use fdr_formats::model::{Clock, Counts, Missing};
use fdr_formats::registry::targets;
use fdr_formats::writer::{Kind, Output, Target, Writer};
use fdr_formats::{Call, Edge, Error, Sink, Thread, Ticks, TraceInfo};

use crate::common::{
    Event, ReadTrace, Written, begin, call, cut_everywhere, enter, exit, feed, file_name, files,
    flip_everywhere, function, intact, klass_bytes, push, thread, with_arguments,
};
use crate::fuzz::folder::Folder;
use crate::fuzz::test_output::TestOutput;
use crate::notes_formats;
use crate::roundtrip::holds::Holds;
use crate::roundtrip::programs::{Program, restricted};

/// Everything that was written, and nothing else, was read.
fn assert_same(found: &ReadTrace, info: &TraceInfo, threads: &[(Thread, Vec<Event>)], case: &str) {
    assert_eq!(found.log.threads.len(), threads.len(), "{case}");
    for (thread, events) in threads {
        let known = found.info.threads.iter().find(|one| one.id == thread.id);
        assert_eq!(known, Some(thread), "{case}");
        if events.is_empty() {
            assert_eq!(found.log.calls(thread.id.0), [], "{case}");
        } else {
            assert_eq!(found.log.events(thread.id.0), events, "{case}");
        }
    }
    assert_same_facts(&found.info, info, case);
}

fn assert_same_facts(found: &TraceInfo, wanted: &TraceInfo, case: &str) {
    let mut functions = wanted.functions.clone();
    functions.sort_by_key(|function| function.id);
    assert_eq!(found.functions, functions, "{case}");
    assert_eq!(found.clock, wanted.clock, "{case}");
    assert_eq!(found.program, wanted.program, "{case}");
    assert_eq!(found.process, wanted.process, "{case}");
    assert_eq!(found.reason, wanted.reason, "{case}");
    assert_eq!(found.dump, wanted.dump, "{case}");
    assert_eq!(found.missing, wanted.missing, "{case}");
    assert_eq!(found.identity, wanted.identity, "{case}");
}

#[test]
fn some_programs_come_back() {
    programs_come_back(1..40);
}

mod the_rest {
    #[test]
    fn programs_come_back() {
        super::programs_come_back(40..200);
    }
}

/// Threads come one event after the other, in turns of several events, and one after the other.
fn programs_come_back(seeds: Range<u64>) {
    for target in targets() {
        let holds = Holds::for_target(target.name);
        for seed in seeds.clone() {
            let program = Program::whole(seed, holds);
            for piece in [1, 7, usize::MAX >> 1] {
                let case = format!("{}, program {seed} in pieces of {piece}", target.name);
                let written = Written::new(target, &program.info, |writer| {
                    program.push_to(writer, piece);
                });
                assert_eq!(written.losses.to_string(), "", "{case}");
                let found = written.whole();
                assert_same(&found, &program.info, &program.threads, &case);
            }
        }
    }
}

/// A thread of the process 4242, if a target holds that.
fn worker(target: &Target, id: u64) -> Thread {
    let holds = Holds::for_target(target.name);
    Thread {
        process: holds.processes.then_some(4242),
        ..thread(id)
    }
}

/// What a target holds of a thread that makes calls.
fn calls(target: &Target, calls: &[Call]) -> Vec<Event> {
    let begin = [Event::Wall(1, 2), Event::Cpu(calls[0].time.0, 3)];
    let calls = calls.iter().map(|&call| Event::Call(call));
    let events = begin.into_iter().chain(calls);
    restricted(events.collect(), Holds::for_target(target.name))
}

fn nested_calls(target: &Target) -> Vec<Event> {
    let nested = [enter(1000, 3), enter(1100, 9), exit(1200, 9), exit(1300, 3)];
    calls(target, &nested)
}

/// A trace that says everything of itself. Its first event is at tick 1000.
fn facts() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency: 1_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(-0.125),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(500), 1_700_000_000_000_000_500)),
            ..Clock::default()
        },
        functions: vec![
            function(3, "alpha::<Ünï as T>::f", "src/a.rs", 7),
            function(9, "beta", "", 0),
            function(5, "twin", "src/twin.rs", 5),
            function(6, "never called", "src/never.rs", u32::MAX),
        ]
        .into_iter()
        .chain((10..3000).map(|id| function(id, &format!("f{id}"), "", id)))
        .collect(),
        program: "prøgram".into(),
        process: Some(4242),
        reason: "signal 6".into(),
        dump: Some(2),
        missing: Missing {
            threads: 1,
            overwritten: u64::MAX,
            dropped: 3,
        },
        start: Some(Ticks(1000)),
        end: Some(Ticks(9000)),
        identity: Identity::from_bytes(b"h\0b\0i\x001.2\0k=v\0"),
        ..TraceInfo::default()
    }
}

#[test]
fn facts_come_back() {
    let counts = Counts {
        recorded: 20,
        readable: 4,
        overwritten: 11,
        dropped: 5,
        ..Counts::default()
    };
    for target in targets() {
        let known = worker(target, 7);
        // Its counts come at the end. A thread that comes again without them keeps them.
        let counted = Thread {
            counts: Some(counts),
            ..known.clone()
        };
        let idle = worker(target, 8);
        let events = nested_calls(target);
        let written = Written::new(target, &facts(), |writer| {
            feed(writer, &known, &events[..2]);
            writer.thread(&idle);
            feed(writer, &counted, &events[2..]);
            writer.thread(&known);
        });
        assert_eq!(written.losses.to_string(), "", "{}", target.name);
        let found = written.whole();
        let threads = [(counted, events), (idle, Vec::new())];
        assert_same(&found, &facts(), &threads, target.name);
        // Heph's facts have times of their own.
        if target.name != "heph" {
            assert_eq!(found.info.start, facts().start, "{}", target.name);
        }
        assert_eq!(found.info.end, facts().end, "{}", target.name);
    }
}

/// XRay's threads have 31 bits, Heph's 32.
#[test]
fn threads_of_64_bits_come_back() {
    let narrow = |target: &&Target| target.name.starts_with("xray") || target.name == "heph";
    for target in targets().filter(|target| !narrow(target)) {
        let ids = [
            0,
            5,
            u64::from(u32::MAX) - 1,
            u64::from(u32::MAX),
            1 << 40,
            (1 << 40) + 5,
            u64::MAX - 1,
        ];
        let threads = ids.map(|id| {
            let process = Some(u64::MAX - id);
            let thread = Thread {
                process,
                ..thread(id)
            };
            (thread, nested_calls(target))
        });
        let info = TraceInfo {
            process: Some(u64::MAX),
            ..facts()
        };
        let written = Written::of(target, &info, &threads);
        assert_eq!(written.losses.to_string(), "", "{}", target.name);
        assert_same(&written.whole(), &info, &threads, target.name);
    }
}

/// Names that could break a text, or be taken for something else.
pub(crate) const ODD_NAMES: [&str; 30] = [
    "",
    " ",
    "plain::name",
    "λ → ü 五 🦀 e\u{301}",
    "\"quoted\" \\back\\ 'slashed' /",
    "*/ /* ' %s {} ;",
    "nul\0in it",
    "\u{1}\u{1f}\u{7f}\u{85}\u{2028}\u{202e}",
    "\n\r\t\u{1b}[31m",
    "100 %41 %22 %",
    "::",
    ":::",
    "a::",
    "::a",
    "a<b::c",
    ">>::x",
    "<T as a::B<'_>>::c::{{closure}}#0",
    "#",
    "#0",
    "#01",
    "#3",
    "#77",
    "root",
    "fdr:trace",
    "fdr:custom",
    "stream 2, substream 7",
    "CallStack",
    "1",
    "same",
    "same",
];

#[test]
fn odd_names_come_back() {
    for target in targets() {
        let holds = Holds::for_target(target.name);
        // XRay cuts texts at 64 KiB.
        let is_xray = target.name.starts_with("xray");
        let long = "é".repeat(if is_xray { 30_000 } else { 50_000 });
        for name in ODD_NAMES.into_iter().chain([&*long]) {
            let case = format!("{}: {name:.40?}", target.name);
            let mut info = facts();
            info.functions = vec![function(3, name, name, 7)];
            info.program = name.into();
            info.reason = name.into();
            info.clock.name = name.into();
            let named = Thread {
                name: name.into(),
                ..worker(target, 7)
            };
            let mut events = calls(target, &[enter(1000, 3), exit(1300, 3)]);
            if holds.custom && !name.is_empty() {
                let text = Event::Custom(1100, None, name.as_bytes().to_vec());
                events.insert(events.len() - 1, text);
            }
            let threads = [(named, events)];
            let written = Written::of(target, &info, &threads);
            assert_eq!(written.losses.to_string(), "", "{case}");
            assert_same(&written.whole(), &info, &threads, &case);
        }
    }
}

#[test]
fn alike_and_nameless_functions_stay_apart() {
    let functions = (1..).zip(ODD_NAMES);
    let mut info = facts();
    info.functions = functions
        .map(|(id, name)| function(id, name, "", 0))
        .collect();
    for target in targets() {
        let mut info = info.clone();
        match target.name {
            // A state has the names alone.
            "tcstate" => info.functions.truncate(ODD_NAMES.len() - 1),
            // Numbers have 28 bits, and 0 is none.
            "xray" | "xray1" => {}
            _ => {
                info.functions.push(function(0, "zero", "", 0));
                info.functions.push(function(u32::MAX, "last", "", 0));
            }
        }
        let described = info.functions.iter().map(|function| function.id.0);
        // The last two are not described. A state tells functions apart by their names.
        let others = if target.name == "tcstate" {
            [999, 1000]
        } else {
            [77, 1000]
        };
        let ids = described.chain(others);
        let called = ids.zip(100..).flat_map(|(id, nth)| {
            let time = 10 * nth;
            [enter(time, id), exit(time + 5, id)]
        });
        let called: Vec<Call> = called.collect();
        let threads = [(worker(target, 7), calls(target, &called))];
        let written = Written::of(target, &info, &threads);
        assert_eq!(written.losses.to_string(), "", "{}", target.name);
        assert_same(&written.whole(), &info, &threads, target.name);
    }
}

#[test]
fn nothing_is_a_trace_too() {
    for target in targets() {
        let info = TraceInfo::default();
        let written = Written::of(target, &info, &[]);
        assert_eq!(written.losses.to_string(), "", "{}", target.name);
        let found = written.whole();
        // XRay has its facts in a block, which is one of a thread.
        let facts = usize::from(target.name.starts_with("xray"));
        assert_eq!(found.info.threads.len(), facts, "{}", target.name);
        assert_eq!(found.info.clock.anchor, None, "{}", target.name);
        let mut events = found.log.threads.iter().flat_map(|(_, events)| events);
        let has_calls = events.any(|event| matches!(event, Event::Call(_)));
        assert!(!has_calls, "{}", target.name);

        let found = Written::of(target, &info, &[(thread(9), Vec::new())]).whole();
        assert_eq!(found.info.threads, [thread(9)], "{}", target.name);
        assert_eq!(found.log.calls(9), [], "{}", target.name);

        // Events before the first thread belong to no thread. XRay has them in that block.
        if facts > 0 {
            continue;
        }
        let written = Written::new(target, &info, |writer| {
            writer.calls(&[enter(1, 1)]);
            push(writer, &Event::Lost(3));
        });
        assert_eq!(written.whole().log.threads, [], "{}", target.name);
    }
}

#[test]
fn payloads_of_any_bytes_and_sizes() {
    let all: Vec<u8> = (0..=255).collect();
    let long = "ö".repeat(100_000);
    let texts = ["text", "%", "%00", "nul\0", "λ\"\\", &long];
    let mut payloads: Vec<Vec<u8>> = texts.map(|text| text.into()).to_vec();
    payloads.extend([1, 7, 8, 9, 255, 65_535, 65_536, 600_001].map(|size| {
        let bytes = all.iter().rev().cycle().take(size);
        bytes.copied().collect()
    }));
    for target in targets() {
        let holds = Holds::for_target(target.name);
        let mut payloads = payloads.clone();
        // XRay has no event without bytes.
        if !target.name.starts_with("xray") {
            payloads.push(Vec::new());
        }
        let mut events = nested_calls(target);
        for (time, data) in (1..).zip(payloads) {
            let time = 2000 + 10 * time;
            events.push(Event::Custom(time, Some(time as u32), data.clone()));
            events.push(Event::Custom(time + 1, None, data.clone()));
            events.push(Event::Typed(time + 2, u16::MAX - time as u16, data));
        }
        let threads = [(worker(target, 7), restricted(events, holds))];
        let written = Written::of(target, &facts(), &threads);
        assert_eq!(written.losses.to_string(), "", "{}", target.name);
        // The events are too long for a message.
        assert!(
            written.whole().log.events(7) == threads[0].1,
            "{}: a payload is another one",
            target.name
        );
    }
}

/// Ticks of any rate as ns, rounded to the nearest, and the Unix time of one of them. XRay has ticks.
#[test]
fn times_are_exact_in_nanoseconds() {
    const SECOND: u64 = 1_000_000_000;
    let frequencies = [
        1,
        3,
        32_768,
        1_000_000,
        24_000_000,
        SECOND,
        2_899_999_123,
        2_994_373_123,
        5 * SECOND,
        10 * SECOND,
    ];
    let in_ns = targets().filter(|target| !target.name.starts_with("xray"));
    for (target, frequency) in in_ns.flat_map(|target| frequencies.map(|rate| (target, rate))) {
        let case = format!("{} at {frequency} Hz", target.name);
        let nanos = |ticks: u64| {
            let doubled = 2 * u128::from(ticks) * u128::from(SECOND);
            let rounded = (doubled / u128::from(frequency)).div_ceil(2);
            u64::try_from(rounded).expect("a time that 64 bits hold")
        };
        // Each call is inside of the one before. Some begin in the same ns, and end in the same ns.
        let entries = [0, 1, 2, 3, 7, 1000, 123_456_789, 2_000_000_000];
        let exits = entries.map(|tick| tick + 5_000_000_000);
        let edges = |time: &dyn Fn(u64) -> u64| -> Vec<Event> {
            let down = entries.iter().zip(1..);
            let down = down.map(|(&tick, id)| enter(time(tick), id));
            let up = exits.iter().zip((1..=8).rev());
            let up = up.map(|(&tick, id)| exit(time(tick), id));
            down.chain(up).map(Event::Call).collect()
        };
        let unix = 1_600_000_000 * SECOND;
        let info = TraceInfo {
            clock: Clock {
                frequency,
                anchor: Some((Ticks(123), unix)),
                ..Clock::default()
            },
            ..TraceInfo::default()
        };
        let threads = [(thread(7), edges(&|tick| tick))];
        let written = Written::of(target, &info, &threads);
        assert_eq!(written.losses.to_string(), "", "{case}");
        let found = written.whole();
        assert_eq!(found.log.events(7), edges(&nanos), "{case}");
        assert_eq!(found.info.clock.frequency, SECOND, "{case}");
        let found = found.info.clock.unix_nanos(Ticks(nanos(123)));
        assert_eq!(found, Some(unix), "{case}");
    }
}

/// Takes this many bytes, and then fails as a full disk does.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes much to that output; the error of the writer.
fn error_of(target: &Target, output: Output) -> Error {
    let writer = match (target.create)(output, &facts()) {
        Ok(writer) => writer,
        Err(error) => return error,
    };
    let mut writer: Box<dyn Writer> = writer;
    for nth in 0..20_000 {
        if nth % 10_000 == 0 {
            writer.thread(&thread(nth));
        }
        writer.calls(&[enter(2000 + 2 * nth, 3), exit(2001 + 2 * nth, 3)]);
    }
    writer.functions(&[function(30, "late", "", 0)]);
    if target.kind == Kind::Stream {
        assert!(writer.flush().is_err(), "{}", target.name);
    }
    let finished = writer.finish();
    finished.map(|_| ()).expect_err("the disk is full")
}

#[test]
fn full_disks_are_errors() {
    for target in targets() {
        let name = target.name;
        if target.kind == Kind::Folder {
            let written = Written::of(target, &facts(), &[(thread(0), nested_calls(target))]);
            let TestOutput::Folder(folder) = &written.place else {
                panic!("no folder");
            };
            for file in files(folder.path()).iter().map(|path| file_name(path)) {
                let folder = Folder::new().expect("a folder");
                symlink("/dev/full", folder.path().join(&file)).expect("a link");
                let output = Output::Folder(folder.path().to_owned());
                let error = error_of(target, output).to_string();
                assert!(error.contains(&file), "{name}: {error}");
                assert!(error.contains("No space left"), "{name}: {error}");
            }
            continue;
        }
        let full = File::options().read(true).write(true).open("/dev/full");
        let output = Output::File(full.expect("a device that is always full"));
        let error = error_of(target, output);
        assert!(matches!(error, Error::Io(_)), "{name}: {error}");
        if target.kind == Kind::Stream {
            for room in [0, 100, 10_000, 70_000, 200_000] {
                let output = Output::Stream(Box::new(Full(room)));
                let error = error_of(target, output);
                assert!(matches!(error, Error::Io(_)), "{name}: {error}");
            }
        }
    }
}

#[test]
fn outputs_of_another_kind_are_refused() {
    for target in targets() {
        let refuses = |output| (target.create)(output, &facts()).is_err();
        if target.kind == Kind::Folder {
            let file = File::open("/dev/null").expect("a file");
            assert!(refuses(Output::File(file)), "{}", target.name);
        } else {
            let folder = Folder::new().expect("a folder");
            let folder = Output::Folder(folder.path().to_owned());
            assert!(refuses(folder), "{}", target.name);
        }
        if target.kind != Kind::Stream {
            let stream = Output::Stream(Box::new(Vec::new()));
            assert!(refuses(stream), "{}", target.name);
        }
    }
}

/// One event of each kind that a target holds, with notes.
fn every_event(target: &Target) -> Vec<Event> {
    let events = vec![
        Event::Wall(1, 2),
        Event::Cpu(1010, 1),
        with_arguments(enter(1020, 3)),
        Event::Argument(7),
        Event::Argument(u64::MAX),
        Event::Custom(1025, None, vec![0xff; 9]),
        Event::Custom(1026, Some(1), b"a\0b".to_vec()),
        Event::Call(enter(1030, 77)),
        Event::Lost(3),
        Event::Typed(1035, 6, b"t".to_vec()),
        Event::Cpu(1040, 2),
        Event::Call(call(1040, 77, Edge::TailExit)),
        Event::Call(exit(1050, 3)),
    ];
    let mut events = restricted(events, Holds::for_target(target.name));
    // The others have the same bytes in another order.
    if ["xray", "heph", "htdump-be", "et", "iet-prefix2"].contains(&target.name) {
        let (_, notes) = notes_formats::few();
        events.extend(notes);
    }
    events
}

#[test]
fn what_is_flushed_can_be_read() {
    for target in targets().filter(|target| target.kind == Kind::Stream) {
        let program = Program::whole(5, Holds::for_target(target.name));
        let (mut writer, shared) = begin(target.name, &program.info);
        let (mut last, mut all) = (0, 0);
        for (thread, events) in &program.threads {
            writer.thread(thread);
            all += events.len();
            for event in events {
                push(&mut writer, event);
                writer.flush().expect("memory is never full");
                let count = intact(&shared.bytes()).log.count();
                assert!(count >= last, "{}", target.name);
                last = count;
            }
        }
        assert!(last > all / 2, "{}: {last} of {all}", target.name);
    }
}

sampled! { damaged_files_are_read_in_part }

/// Formats whose traces are folders have suites of their own, for each of their files.
fn damaged_files_are_read_in_part(step: usize) {
    let (names, _) = notes_formats::few();
    let info = TraceInfo {
        functions: names.functions,
        process: Some(5),
        ..TraceInfo::default()
    };
    let of_files = |target: &&Target| target.kind != Kind::Folder && target.name != "htdump";
    for target in targets().filter(of_files) {
        println!("{}", target.name);
        let threads = [(thread(7), every_event(target))];
        let bytes = Written::of(target, &info, &threads).bytes();
        // Golden files of HTDUMP are damaged in their klasses, too. That takes long.
        let from = klass_bytes(&bytes);
        cut_everywhere(&bytes, from, step);
        flip_everywhere(&bytes, from, step);
    }
}
