//! Notes in every format that holds them: any note there and back, names and texts that would break a reader, tables
//! of names, and units of time.

use crate::common::{self, Event, Random, Written, enter, exit, thread};
use crate::notes::{TEXT, random_note};
use fdr_formats::model::{Clock, FunctionKind};
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind, RESULT};
use fdr_formats::registry::targets;
use fdr_formats::writer::Target;
use fdr_formats::{Function, FunctionId, TraceInfo};

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

/// Whether a target holds every note. A state history holds none but samples of counters.
pub(crate) fn holds_notes(target: &Target) -> bool {
    target.name != "tcstate"
}

/// A trace with thread 7 alone.
pub(crate) fn write(target: &str, info: &TraceInfo, events: &[Event]) -> Written {
    Written::of(
        common::target(target),
        info,
        &[(thread(7), events.to_vec())],
    )
}

/// The bytes of a trace with thread 7 alone, of which nothing is lost.
pub(crate) fn written_bytes(target: &str, info: &TraceInfo, events: &[Event]) -> Vec<u8> {
    let written = write(target, info, events);
    assert_eq!(written.losses.to_string(), "", "{target}");
    written.bytes()
}

/// What other readers have trouble with.
pub(crate) fn troubles(written: &Written) -> String {
    let notes = written.losses.notes();
    let notes: Vec<String> = notes
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    notes.join("; ")
}

/// Writes these and reads them again: they are the same, and nothing was lost.
fn comes_back(target: &Target, info: &TraceInfo, events: &[Event]) {
    let written = write(target.name, info, events);
    assert_eq!(written.losses.to_string(), "", "{}", target.name);
    let read = written.whole();
    let found = read.log.events(7);
    // XRay begins a thread with its time of day and its CPU.
    let begins = |event: &&Event| matches!(event, Event::Wall(..) | Event::Cpu(..));
    let found = &found[found.iter().take_while(begins).count()..];
    for (at, (found, wanted)) in found.iter().zip(events).enumerate() {
        assert_eq!(found, wanted, "{}: event {at}", target.name);
    }
    assert_eq!(found.len(), events.len(), "{}", target.name);
    assert_eq!(read.info.functions, info.functions, "{}", target.name);
}

#[test]
fn any_note_comes_back() {
    let mut random = Random(3);
    let notes: Vec<Note<'_>> = (0..1500).map(|_| random_note(&mut random, TEXT)).collect();
    for target in targets().filter(|target| holds_notes(target)) {
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
    // CTF describes the fields of each event.
    let as_bytes = |target: &&Target| holds_notes(target) && target.name != "ctf";
    for target in targets().filter(as_bytes) {
        comes_back(target, &TraceInfo::default(), &events);
    }
}

pub(crate) const HOSTILE: [&str; 27] = [
    "HT_StringMappingEvent",
    "lttng_ust_cyg_profile:func_entry",
    "fdr:note",
    "\"; }; event { name = \"x",
    "event",
    "value",
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
    let long = "n\"\\\u{1b};\n".repeat(9_000);
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
    for target in targets().filter(|target| holds_notes(target)) {
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
    let has_ns = |target: &&Target| holds_notes(target) && !target.name.starts_with("xray");
    for target in targets().filter(has_ns) {
        let events = [
            Event::Call(enter(2000, 1)),
            encoded(6000, &task(4000, 2000)),
            Event::Call(exit(8000, 1)),
        ];
        let written = write(target.name, &info, &events);
        assert_eq!(written.losses.to_string(), "");
        let wanted = [
            Event::Call(enter(1000, 1)),
            encoded(3000, &task(2000, 1000)),
            Event::Call(exit(4000, 1)),
        ];
        let found = written.whole().log;
        let found = found.filtered(7, |event| !matches!(event, Event::Cpu(..)));
        assert_eq!(found, wanted, "{}", target.name);
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
