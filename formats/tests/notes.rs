//! Notes: each kind typed by hand, any note there and back, damaged ones, and which formats hold them.

use crate::common::{Event, Random, enter, exit, hex, intact, list};
use crate::notes_formats::{holds_notes, write, written_bytes};
use fdr_formats::bytes::ByteOrder;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{ERROR, Field, FieldValue, MAX_BYTES, MAX_FIELDS, Note, NoteKind, RESULT};
use fdr_formats::registry::targets;
use fdr_formats::xray::payload::{Payload, decode, encode_note};
use fdr_formats::{Function, FunctionId, TraceInfo};

/// A payload typed by hand is that note.
fn assert_bytes(note: &Note<'_>, bytes: &str) {
    let payload = hex(bytes);
    let kind = note.kind();
    let body = note.encode().expect("a note within bounds");
    assert_eq!(encode_note(kind, &body), payload, "{note:?}");
    assert_eq!(
        decode(&payload, ByteOrder::Little),
        Some(Payload::Note(kind))
    );
    // The order of the file does not matter.
    assert_eq!(decode(&payload, ByteOrder::Big), Some(Payload::Note(kind)));
    assert_eq!(Note::decode(kind, &payload[8..]).as_ref(), Some(note));
    // A later version may append fields.
    let longer = [&payload[8..], &[0xff; 8]].concat();
    assert_eq!(Note::decode(kind, &longer).as_ref(), Some(note));
}

fn field(name: u32, value: FieldValue<'_>) -> Field<'_> {
    Field {
        name,
        place: 0,
        value,
    }
}

fn event_note() -> Note<'static> {
    Note::Event {
        name: 0x0101,
        form: 1,
        level: 4,
        span: 0x22,
        fields: vec![
            field(3, FieldValue::Unsigned(0x1234)),
            field(4, FieldValue::Signed(-2)),
            field(5, FieldValue::Float(0.5)),
            field(6, FieldValue::Truth(true)),
            field(7, FieldValue::Text(b"abc", 3)),
            field(8, FieldValue::Bytes(&[1, 2, 3, 4, 5, 6, 7, 8], 0x100)),
            field(9, FieldValue::Address(0x7f00)),
        ],
    }
}

fn task_note() -> Note<'static> {
    Note::Task {
        task: 1,
        parent: 2,
        by: 3,
        name: 4,
        state: 5,
        counted: 1,
        elapsed: 6,
        busy: 7,
        polls: 8,
    }
}

fn arguments_note() -> Note<'static> {
    Note::Arguments {
        function: 0x0102,
        fields: vec![
            Field {
                place: 2,
                ..field(3, FieldValue::Unsigned(0x1234))
            },
            Field {
                place: RESULT,
                ..field(0, FieldValue::Text("ü".as_bytes(), 9))
            },
            Field {
                place: ERROR,
                ..field(0, FieldValue::Truth(false))
            },
        ],
    }
}

fn state_note() -> Note<'static> {
    Note::ThreadState {
        object: 0x10,
        holder: 0x4711,
        name: 6,
        state: 2,
        reason: 1,
        function: 3,
        waited: 0x1234,
    }
}

#[test]
fn each_kind_typed_by_hand() {
    assert_bytes(
        &event_note(),
        "66647200 01 0c 0000 01010000 01 04 07 00 2200000000000000 \
         03000000 00 00 0000 3412000000000000 04000000 01 00 0000 feffffffffffffff \
         05000000 02 00 0000 000000000000e03f 06000000 03 00 0000 0100000000000000 \
         07000000 04 00 0300 0300000000000000 6162630000000000 \
         08000000 05 00 0800 0001000000000000 0102030405060708 \
         09000000 06 00 0000 007f000000000000",
    );
    assert_bytes(
        &task_note(),
        "66647200 01 0d 0000 0100000000000000 0200000000000000 0300000000000000 04000000 05 01 0000 \
         0600000000000000 0700000000000000 0800000000000000",
    );
    assert_bytes(
        &arguments_note(),
        "66647200 01 0e 0000 02010000 03 000000 03000000 00 02 0000 3412000000000000 \
         00000000 04 ff 0200 0900000000000000 c3bc000000000000 \
         00000000 03 fe 0000 0000000000000000",
    );
    assert_bytes(
        &state_note(),
        "66647200 01 10 0000 1000000000000000 1147000000000000 06000000 02 01 0000 \
         03000000 00000000 3412000000000000",
    );
    let body = state_note().encode().expect("a note");
    let short = Note::ThreadState {
        object: 0x10,
        holder: 0x4711,
        name: 6,
        state: 2,
        reason: 1,
        function: 0,
        waited: 0,
    };
    assert_eq!(
        Note::decode(NoteKind::ThreadState, &body[..24]),
        Some(short)
    );
}

#[test]
fn notes_have_words() {
    // Names of the table, and numbers where it has none. A name that could be taken for another thing is a text.
    let functions = [(3, "id"), (4, "a task"), (5, "a b"), (6, "app::LOCK")];
    let functions = functions.map(|(id, name)| Function {
        id: FunctionId(id),
        name: name.to_owned(),
        ..Function::default()
    });
    let info = TraceInfo {
        functions: functions.to_vec(),
        ..TraceInfo::default()
    };
    let words = [event_note(), task_note(), arguments_note(), state_note()]
        .map(|note| note.words(&info).to_string());
    assert_eq!(
        words,
        [
            "#257 (begin of a span, warning, span 34)  id=4660 \"a task\"=-2 \"a b\"=0.5 app::LOCK=true \
             #7=\"abc\" #8=0x0102030405060708 (of 256 bytes) #9=0x7f00",
            "1 a task dropped  parent=2  by=3  polls=8 busy=7 ticks elapsed=6 ticks",
            "#258  id=4660 result=\"ü\" (of 9 bytes) error=false",
            "blocked (lock)  app::LOCK  object=0x10  holder=18193 in id  waited=4660 ticks",
        ]
    );
}

fn random_field<'a>(random: &mut Random, bytes: &'a [u8]) -> Field<'a> {
    let number = random.next();
    let text = &bytes[..random.below(1 + bytes.len() as u64) as usize];
    let value = match random.below(8) {
        0 => FieldValue::Unsigned(number),
        1 => FieldValue::Signed(number as i64),
        2 => FieldValue::Float(number as f64),
        3 => FieldValue::Truth(number % 2 == 0),
        4 => FieldValue::Text(text, number),
        5 => FieldValue::Bytes(text, number),
        6 => FieldValue::Address(number),
        _ => FieldValue::Other(7 + random.below(200) as u8, number, text),
    };
    Field {
        name: random.next() as u32,
        place: random.next() as u8,
        value,
    }
}

pub(crate) fn random_note<'a>(random: &mut Random, bytes: &'a [u8]) -> Note<'a> {
    let (long, other, short) = (random.next(), random.next(), random.next() as u32);
    let (first_byte, second_byte) = (random.next() as u8, random.next() as u8);
    match random.below(4) {
        0 => Note::Event {
            name: short,
            form: first_byte,
            level: second_byte,
            span: long,
            fields: (0..random.below(20))
                .map(|_| random_field(random, bytes))
                .collect(),
        },
        1 => Note::Task {
            task: long | 1,
            parent: other,
            by: random.next(),
            name: short,
            state: first_byte,
            counted: second_byte,
            elapsed: random.next(),
            busy: random.next(),
            polls: random.next(),
        },
        2 => Note::Arguments {
            function: short,
            fields: (0..random.below(20))
                .map(|_| random_field(random, bytes))
                .collect(),
        },
        _ => Note::ThreadState {
            object: long,
            holder: other,
            name: short,
            state: first_byte,
            reason: second_byte,
            function: short,
            waited: other,
        },
    }
}

pub(crate) const TEXT: &[u8] =
    b"0123456789 \xff\x00\n text of any bytes, up to eighty of them or so, \xf0\x9f\xa6\x80 here";

#[test]
fn notes_come_back_and_bytes_are_untrusted() {
    let mut random = Random(19);
    for _ in 0..20_000 {
        let note = random_note(&mut random, TEXT);
        let body = note.encode().expect("a note within bounds");
        assert!(body.len() % 8 == 0 && body.len() <= MAX_BYTES);
        assert_eq!(Note::decode(note.kind(), &body).as_ref(), Some(&note));
        // Cut, flipped, and taken for another kind: never a panic, and what is read can be written.
        let mut damaged = body[..random.below(1 + body.len() as u64) as usize].to_vec();
        if let Some(last) = damaged.len().checked_sub(1) {
            let at = random.below(1 + last as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
        }
        for kind in NoteKind::ALL {
            if let Some(read) = Note::decode(kind, &damaged) {
                let again = read.encode().expect("what was read is within bounds");
                // A number that is no number is not equal to itself.
                let read_again = Note::decode(kind, &again).map(|note| format!("{note:?}"));
                assert_eq!(read_again, Some(format!("{read:?}")));
            }
        }
    }
}

#[test]
fn notes_have_bounds() {
    let many = |count: usize, text: &'static [u8]| Note::Event {
        name: 1,
        form: 0,
        level: 0,
        span: 0,
        fields: vec![field(1, FieldValue::Text(text, 0)); count],
    };
    assert!(many(MAX_FIELDS, b"").encode().is_some());
    assert!(many(MAX_FIELDS + 1, b"").encode().is_none());
    assert!(many(1, &[b'x'; MAX_BYTES - 32]).encode().is_some());
    assert!(many(1, &[b'x'; MAX_BYTES - 31]).encode().is_none());
    assert!(many(1, &[b'x'; 1 << 17]).encode().is_none());
    let nobody = Note::Task {
        task: 0,
        parent: 0,
        by: 0,
        name: 0,
        state: 0,
        counted: 0,
        elapsed: 0,
        busy: 0,
        polls: 0,
    };
    assert!(nobody.encode().is_none());
    for (kind, bytes) in [
        (
            NoteKind::Task,
            "0000000000000000 00000000000000000000000000000000 00000000 00000000 \
             000000000000000000000000000000000000000000000000",
        ),
        // More fields than there are, and than there may be.
        (
            NoteKind::Event,
            "01000000 00 00 02 00 0000000000000000 01000000 00 00 0000 0000000000000000",
        ),
        (NoteKind::Event, "01000000 00 00 ff 00 0000000000000000"),
        // A text that leaves the note.
        (
            NoteKind::Arguments,
            "01000000 01 000000 01000000 04 00 ffff 0300000000000000 6162630000000000",
        ),
        (
            NoteKind::Arguments,
            "01000000 02 000000 01000000 00 00 0000 0300000000000000",
        ),
        (NoteKind::Arguments, "01000000 ff 000000"),
        (NoteKind::ThreadState, "0000000000000000 0000000000000000"),
        (NoteKind::ThreadState, ""),
    ] {
        assert_eq!(Note::decode(kind, &hex(bytes)), None, "{bytes}");
    }
    for kind in NoteKind::ALL {
        assert_eq!(Note::decode(kind, &[1; MAX_BYTES + 8]), None);
    }
}

/// A thread's calls with notes between them.
fn events() -> Vec<Event> {
    let mut random = Random(7);
    let mut events = vec![Event::Call(enter(1000, 1))];
    for at in 1..40 {
        let note = random_note(&mut random, TEXT);
        let body = note.encode().expect("a note within bounds");
        events.push(Event::Call(enter(1000 + 20 * at, 2)));
        events.push(Event::Note(1005 + 20 * at, note.kind(), body));
        events.push(Event::Call(exit(1010 + 20 * at, 2)));
    }
    events.push(Event::Call(exit(3000, 1)));
    events
}

#[test]
fn xray_keeps_notes_and_their_places() {
    for target in ["xray1", "xray"] {
        let bytes = written_bytes(target, &TraceInfo::default(), &events());
        let read = intact(&bytes);
        // XRay begins a thread with its time of day and its CPU.
        let begins = |event: &&Event| matches!(event, Event::Wall(..) | Event::Cpu(..));
        let found = read.log.events(7);
        let found = &found[found.iter().take_while(begins).count()..];
        assert_eq!(found, events());
        // And again, from what was read.
        let again = written_bytes(target, &TraceInfo::default(), found);
        assert_eq!(again, bytes);
        let notes = list(&bytes).into_iter().filter(|(.., detail)| {
            NoteKind::ALL
                .iter()
                .any(|kind| detail.contains(&format!("fdr {}: ", kind.name())))
        });
        assert_eq!(notes.count(), 39);
    }
}

#[test]
fn other_formats_report_notes_as_lost() {
    let function = |(id, kind)| Function {
        id: FunctionId(id),
        name: format!("{kind:?} {id}"),
        kind,
        ..Function::default()
    };
    let kinds = [
        FunctionKind::Calls,
        FunctionKind::Calls,
        FunctionKind::Event,
        FunctionKind::Name,
    ];
    let info = TraceInfo {
        functions: (1..).zip(kinds).map(function).collect(),
        ..TraceInfo::default()
    };
    for target in targets().filter(|target| !holds_notes(target)) {
        let written = write(target.name, &info, &events());
        let losses = written.losses.to_string();
        assert!(losses.contains("39 notes"), "{}: {losses}", target.name);
        let names = ["Calls 1", "Calls 2"];
        assert_eq!(written.whole().names(), names, "{}", target.name);
    }
}
