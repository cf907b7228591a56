//! Notes in the formats whose events have named values: any note there and back, names and texts that would break a
//! reader, tables of names, and damaged files.

use std::io::{Read as _, Seek, SeekFrom};

use crate::common::htdump::joined;
use crate::common::{self, Event, Random, ReadTrace, enter, exit, push, read, thread};
use crate::fuzz::test_output::TestOutput;
use crate::notes::{TEXT, random_note};
use fdr_formats::model::{Clock, FunctionKind};
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind, RESULT};
use fdr_formats::{Function, FunctionId, Sink, Source, ThreadId, TraceInfo, registry};

/// The targets that hold every note.
pub(crate) const HOLD: [&str; 9] = [
    "htdump",
    "htdump-be",
    "heph",
    "et",
    "iet",
    "iet-prefix",
    "et2",
    "iet2",
    "iet-prefix2",
];

pub(crate) fn table(names: &[(u32, &str, FunctionKind)]) -> TraceInfo {
    let function = |&(id, name, kind): &(u32, &str, FunctionKind)| Function {
        id: FunctionId(id),
        name: name.into(),
        file: format!("src/{id}.rs"),
        line: id,
        kind,
        ..Function::default()
    };
    TraceInfo {
        functions: names.iter().map(function).collect(),
        ..TraceInfo::default()
    }
}

pub(crate) fn event<'a>(
    name: u32,
    form: u8,
    level: u8,
    values: &[(u32, FieldValue<'a>)],
) -> Note<'a> {
    let field = |&(name, value): &(u32, FieldValue<'a>)| Field {
        name,
        place: 0,
        value,
    };
    Note::Event {
        name,
        form,
        level,
        span: 0,
        fields: values.iter().map(field).collect(),
    }
}

/// A task and a thread in states that no version has a word for.
pub(crate) fn odd_states(name: u32) -> [Note<'static>; 2] {
    let task = Note::Task {
        task: 1,
        parent: 2,
        by: 3,
        name,
        state: 77,
        counted: 3,
        elapsed: 1 << 40,
        busy: 1 << 33,
        polls: 12,
    };
    let thread = Note::ThreadState {
        object: 1,
        holder: 2,
        name,
        state: 77,
        reason: 88,
        function: 1,
        waited: 1 << 35,
    };
    [task, thread]
}

pub(crate) fn encoded(at: u64, note: &Note<'_>) -> Event {
    let body = note.encode().expect("a note within bounds");
    Event::Note(at, note.kind(), body)
}

/// A call of function 1 with these notes inside, one each microsecond.
pub(crate) fn around(notes: &[Note<'_>]) -> Vec<Event> {
    let mut events = vec![Event::Call(enter(1000, 1))];
    let notes = (2..).zip(notes);
    events.extend(notes.map(|(at, note)| encoded(1000 * at, note)));
    events.push(Event::Call(exit(9_000_000, 1)));
    events
}

/// The bytes of a trace with one thread; what was lost, and what other readers have trouble with.
pub(crate) fn write(
    target: &str,
    info: &TraceInfo,
    events: &[Event],
) -> (TestOutput, String, String) {
    let target = registry::target(target).expect("a target of that name");
    let place = TestOutput::new(target.kind).expect("a place");
    let output = place.output().expect("a place");
    let mut writer = (target.create)(output, info).expect("a writer");
    writer.thread(&thread(7));
    events.iter().for_each(|event| push(&mut writer, event));
    let losses = writer.finish().expect("a trace");
    let notes: Vec<String> = losses
        .notes()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    (place, losses.to_string(), notes.join("; "))
}

/// The events of thread 7.
fn events_of(source: &dyn Source) -> Vec<Event> {
    let mut log = common::EventLog::default();
    fdr_formats::source::drive(source, &mut log, &|_| {}).expect("a readable trace");
    let threads = joined(&log).into_iter();
    let mut of_thread = threads.filter(|(id, _)| *id == ThreadId(7));
    of_thread.next().expect("thread 7").1
}

/// Writes these and reads them again: they are the same, and nothing was lost.
fn comes_back(target: &str, info: &TraceInfo, events: &[Event]) {
    let (place, losses, _) = write(target, info, events);
    assert_eq!(losses, "", "{target}");
    let source = place.open().expect("a trace of our own");
    assert_eq!(source.diagnostics(), [], "{target}");
    let found = events_of(&*source);
    for (at, (found, wanted)) in found.iter().zip(events).enumerate() {
        assert_eq!(found, wanted, "{target}: event {at}");
    }
    assert_eq!(found.len(), events.len(), "{target}");
    assert_eq!(source.info().functions, info.functions, "{target}");
}

#[test]
fn any_note_comes_back() {
    let mut random = Random(3);
    let notes: Vec<Note<'_>> = (0..1500).map(|_| random_note(&mut random, TEXT)).collect();
    for target in HOLD {
        comes_back(target, &TraceInfo::default(), &around(&notes));
    }
}

#[test]
fn a_body_of_a_later_version_comes_back() {
    let note = event(2, 0, 3, &[(3, FieldValue::Unsigned(7))]);
    let mut body = note.encode().expect("a note");
    body.extend([1; 8]);
    let mut events = around(&[]);
    events.insert(1, Event::Note(2000, NoteKind::Event, body));
    for target in HOLD {
        comes_back(target, &TraceInfo::default(), &events);
    }
}

pub(crate) const HOSTILE: [&str; 22] = [
    "HT_StringMappingEvent",
    "FDR_TraceEvent",
    "HT_Event",
    "fdr:more",
    "fdr:custom",
    "name",
    "label",
    "duration",
    "thread_id",
    "timestamp",
    "base",
    "id",
    "of",
    "tid",
    "start_ns",
    "\"; }; \\",
    "a\0b\nc\r\t\u{1b}[2J",
    "\u{202e}txt.exe\u{2066}",
    "</script><script>alert(1)</script>",
    "_value_length",
    "ä ö",
    "",
];

#[test]
fn names_and_texts_are_unambiguous() {
    let long = "n\"\\\u{1b};\n".repeat(2_000);
    let all: Vec<&str> = HOSTILE.into_iter().chain([&long[..]]).collect();
    let mut names = vec![(1, "app::run", FunctionKind::Calls)];
    let with = |from: u32, what| {
        (from..)
            .zip(all.clone())
            .map(move |(id, name)| (id, name, what))
    };
    names.extend(with(2, FunctionKind::Event));
    names.extend(with(102, FunctionKind::Name));
    let info = table(&names);
    let text = b"</x>\0\"\\\xff\xfe\x1b[2J 100 % %41";
    let kib = [b'%'; 1024];
    let mut notes = Vec::new();
    for nth in 0..all.len() as u32 {
        let values = [
            (102 + nth, FieldValue::Text(text, text.len() as u64)),
            (102 + nth, FieldValue::Text(b"\x1b[2J\"\\\n", 7)),
            (102 + nth, FieldValue::Text(&kib, 1 << 40)),
            (102 + nth, FieldValue::Bytes(text, 1 << 60)),
            (0, FieldValue::Float(f64::NEG_INFINITY)),
            (0, FieldValue::Float(f64::from_bits(0x7ff4_0000_0000_0001))),
            (0, FieldValue::Float(f64::NAN)),
            (0, FieldValue::Float(-0.0)),
            (0, FieldValue::Signed(i64::MIN)),
            (0, FieldValue::Unsigned(u64::MAX)),
            (0, FieldValue::Address(7)),
            (102 + nth, FieldValue::Truth(nth % 2 == 0)),
        ];
        notes.push(event(2 + nth, 0, 200, &values));
        notes.push(event(2 + nth, 9, 0, &[]));
        notes.push(Note::Arguments {
            function: 1,
            fields: vec![Field {
                name: 102 + nth,
                place: RESULT,
                value: FieldValue::Truth(true),
            }],
        });
        notes.extend(odd_states(2 + nth));
    }
    for target in HOLD {
        comes_back(target, &info, &around(&notes));
    }
}

#[test]
fn task_times_use_the_formats_units() {
    let task = |elapsed, busy| Note::Task {
        task: 1,
        parent: 0,
        by: 0,
        name: 1,
        state: 4,
        counted: 3,
        elapsed,
        busy,
        polls: 12,
    };
    let info = TraceInfo {
        clock: Clock {
            frequency: 2_000_000_000,
            ..Clock::default()
        },
        ..TraceInfo::default()
    };
    for target in HOLD.into_iter().chain(["ctf"]) {
        let events = [
            Event::Call(enter(2000, 1)),
            encoded(6000, &task(4000, 2000)),
            Event::Call(exit(8000, 1)),
        ];
        let (place, losses, _) = write(target, &info, &events);
        assert_eq!(losses, "");
        let source = place.open().expect("a trace of our own");
        let wanted = [
            Event::Call(enter(1000, 1)),
            encoded(3000, &task(2000, 1000)),
            Event::Call(exit(4000, 1)),
        ];
        let found = events_of(&*source);
        let found: Vec<Event> = found
            .into_iter()
            .filter(|event| !matches!(event, Event::Cpu(..)))
            .collect();
        assert_eq!(found, wanted, "{target}");
    }
}

/// A few notes of all kinds, with their names.
pub(crate) fn few() -> (TraceInfo, Vec<Event>) {
    let info = table(&[
        (1, "app::run", FunctionKind::Calls),
        (2, "app::accepted", FunctionKind::Event),
        (3, "id", FunctionKind::Name),
        (4, "path", FunctionKind::Name),
        (5, "app::queue", FunctionKind::Event),
    ]);
    let accepted = [
        (3, FieldValue::Unsigned(7)),
        (4, FieldValue::Text(b"/tmp/a", 6)),
        (0, FieldValue::Signed(-2)),
        (0, FieldValue::Float(0.5)),
        (0, FieldValue::Truth(true)),
    ];
    let notes = [
        Note::Arguments {
            function: 1,
            fields: vec![Field {
                name: 3,
                place: 0,
                value: FieldValue::Unsigned(9),
            }],
        },
        event(2, 0, 3, &accepted),
        event(5, 3, 0, &[(0, FieldValue::Unsigned(12))]),
        Note::Task {
            task: 9,
            parent: 0,
            by: 0,
            name: 1,
            state: 4,
            counted: 0,
            elapsed: 5,
            busy: 4,
            polls: 3,
        },
        Note::ThreadState {
            object: 1,
            holder: 2,
            name: 3,
            state: 2,
            reason: 1,
            function: 1,
            waited: 6,
        },
    ];
    (info, around(&notes))
}

fn bytes_of(place: &TestOutput) -> Vec<u8> {
    match place {
        TestOutput::Bytes(bytes) => bytes.lock().expect("no writer panicked").clone(),
        TestOutput::File(file) => {
            let mut file = file.try_clone().expect("a file");
            file.seek(SeekFrom::Start(0)).expect("a file");
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("a file");
            bytes
        }
        TestOutput::Folder(_) => panic!("a folder"),
    }
}

/// Flips each byte from `from` on: nothing panics, no flood of problems, and no event out of nothing.
fn flips(target: &str, bytes: &[u8], from: usize, step: usize, wanted: &ReadTrace) {
    let mut bytes = bytes.to_vec();
    for at in (from..bytes.len()).step_by(step) {
        for mask in [0x01, 0x80, 0xff] {
            bytes[at] ^= mask;
            if let Ok(read) = read(&bytes) {
                let most = wanted.log.count() + 40;
                assert!(read.log.count() <= most, "{target}: byte {at}");
                assert!(read.diagnostics.len() <= 20, "{target}: byte {at}");
                common::list(&bytes);
            }
            bytes[at] ^= mask;
        }
    }
}

sampled! { damaged_notes_are_read_in_part }

fn damaged_notes_are_read_in_part(step: usize) {
    let (info, events) = few();
    for target in ["htdump-be", "heph", "et", "iet-prefix2"] {
        let (place, losses, _) = write(target, &info, &events);
        assert_eq!(losses, "");
        let bytes = bytes_of(&place);
        let whole = read(&bytes).expect("a trace");
        // Before it are the klasses of every HTDUMP.
        let lines = common::list(&bytes);
        let from = lines.iter().find(|line| line.2 == "HT_SystemInfoEvent");
        let from = from.map_or(0, |line| line.0 as usize);
        flips(target, &bytes, from, step, &whole);
        let wanted = events
            .iter()
            .filter(|event| matches!(event, Event::Note(..)));
        let wanted: Vec<&Event> = wanted.collect();
        for end in (from.max(1)..bytes.len()).step_by(step) {
            let Ok(part) = read(&bytes[..end]) else {
                continue;
            };
            let threads = part.log.threads.iter();
            let notes = threads.flat_map(|(_, events)| events);
            let notes: Vec<&Event> = notes
                .filter(|event| matches!(event, Event::Note(..)))
                .collect();
            assert!(
                wanted.starts_with(&notes),
                "{target}: cut at byte {end}: {notes:?}"
            );
        }
    }
}

/// The bytes of a stream.
pub(crate) fn written_bytes(place: &TestOutput) -> Vec<u8> {
    let TestOutput::Bytes(bytes) = place else {
        panic!("a stream");
    };
    bytes.lock().expect("no writer panicked").clone()
}
