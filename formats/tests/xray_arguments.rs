//! Numeric arguments as XRay's own records: the entry and its arguments typed by hand, which notes have them, and that
//! further conversions change nothing.

use crate::common::{Event, enter, exit, hex, intact, read, thread, with_arguments, write_pieces};
use crate::notes_formats::encoded;
use fdr_formats::TraceInfo;
use fdr_formats::notes::{ERROR, Field, FieldValue, Note, RESULT};

fn note(function: u32, values: &[(u8, FieldValue<'static>)]) -> Note<'static> {
    let field = |&(place, value): &(u8, FieldValue<'static>)| Field {
        name: 3,
        place,
        value,
    };
    Note::Arguments {
        function,
        fields: values.iter().map(field).collect(),
    }
}

fn write(events: &[Event]) -> Vec<u8> {
    let pieces = [(thread(7), events.to_vec())];
    let (bytes, losses) = write_pieces("xray", &TraceInfo::default(), &pieces);
    assert!(losses.is_empty(), "{losses}");
    bytes
}

/// The calls, arguments and notes of a file.
fn events_of(bytes: &[u8]) -> Vec<Event> {
    let log = intact(bytes).log;
    log.filtered(7, |event| {
        !matches!(event, Event::Wall(..) | Event::Cpu(..))
    })
}

const ALL: [(u8, FieldValue<'static>); 8] = [
    (0, FieldValue::Unsigned(0x1122)),
    (1, FieldValue::Text(b"path", 4)),
    (2, FieldValue::Signed(-2)),
    (3, FieldValue::Float(0.5)),
    (4, FieldValue::Truth(true)),
    (5, FieldValue::Address(0x7f00)),
    (RESULT, FieldValue::Unsigned(8)),
    (ERROR, FieldValue::Unsigned(9)),
];

#[test]
fn numbers_stand_behind_their_entry() {
    let (outer, inner) = (note(1, &ALL), note(2, &ALL[..1]));
    let events = [
        // The first entry of a thread, and a later one.
        Event::Call(enter(1000, 1)),
        encoded(1001, &outer),
        Event::Call(enter(1010, 2)),
        encoded(1011, &inner),
        Event::Call(exit(1020, 2)),
        Event::Call(exit(1030, 1)),
    ];
    let bytes = write(&events);
    let wanted = [
        with_arguments(enter(1000, 1)),
        Event::Argument(0x1122),
        Event::Argument(-2_i64 as u64),
        Event::Argument(1),
        Event::Argument(0x7f00),
        encoded(1001, &outer),
        with_arguments(enter(1010, 2)),
        Event::Argument(0x1122),
        encoded(1011, &inner),
        Event::Call(exit(1020, 2)),
        Event::Call(exit(1030, 1)),
    ];
    assert_eq!(events_of(&bytes), wanted);
    // Function 1, entry with arguments, no ticks later; then kind 6 and the value, four times; then a custom event.
    let records = hex("16000000 00000000 \
         0d 2211000000000000 00000000000000 0d feffffffffffffff 00000000000000 \
         0d 0100000000000000 00000000000000 0d 007f000000000000 00000000000000 0b");
    let found = bytes.windows(records.len()).filter(|at| *at == records);
    assert_eq!(found.count(), 1);
    // Written again, nothing is added.
    assert_eq!(write(&events_of(&bytes)), bytes);
}

#[test]
fn other_notes_leave_the_entry_as_it_is() {
    let numbers = note(2, &ALL[..1]);
    let texts = note(2, &ALL[1..2]);
    let result = note(2, &ALL[6..]);
    let of_another = note(1, &ALL);
    let begin = [Event::Call(enter(1000, 1)), Event::Call(enter(1010, 2))];
    let end = [Event::Call(exit(1020, 2)), Event::Call(exit(1030, 1))];
    let between = [
        vec![encoded(1011, &texts)],
        vec![encoded(1011, &result)],
        vec![encoded(1011, &of_another)],
        // Something else came after the entry.
        vec![encoded(1011, &texts), encoded(1012, &numbers)],
        vec![Event::Cpu(1011, 3), encoded(1012, &numbers)],
        vec![Event::Lost(4), encoded(1012, &numbers)],
    ];
    for between in between {
        let events = [&begin[..], &between, &end].concat();
        let found = events_of(&write(&events));
        let wanted: Vec<Event> = events
            .into_iter()
            .filter(|event| !matches!(event, Event::Cpu(..)))
            .collect();
        assert_eq!(found, wanted);
    }
    // Arguments that the source has are kept, and stay alone.
    let own = [
        with_arguments(enter(1000, 2)),
        Event::Argument(5),
        encoded(1001, &numbers),
        Event::Call(exit(1020, 2)),
    ];
    assert_eq!(events_of(&write(&own)), own);
}

#[test]
fn held_entries_are_written_in_place() {
    // Threads in turns, each left behind an entry; then the end.
    let turn = |(time, id): (u64, u64)| {
        let entries = [enter(time, 1), enter(time + 1, 2)];
        (thread(id), entries.map(Event::Call).to_vec())
    };
    let mut pieces = [(1000, 1), (2000, 2), (3000, 1), (4000, 2)]
        .map(turn)
        .to_vec();
    // The innermost call of thread 1 is not the one that came last.
    let numbers = note(2, &ALL[..1]);
    pieces.push((thread(1), vec![encoded(5000, &numbers)]));
    let (bytes, _) = write_pieces("xray", &TraceInfo::default(), &pieces);
    let read = read(&bytes).expect("a trace");
    for id in [1, 2] {
        let entries = read.log.calls(id).into_iter();
        let entries = entries.filter(|call| call.edge == fdr_formats::Edge::Entry);
        let entries: Vec<(u64, u32, bool)> = entries
            .map(|call| (call.time.0, call.function.0, call.has_arguments))
            .collect();
        let from = 1000 * id;
        let wanted = [(from, 1), (from + 1, 2), (from + 2000, 1), (from + 2001, 2)];
        assert_eq!(
            entries,
            wanted.map(|(time, function)| (time, function, false))
        );
    }
}
