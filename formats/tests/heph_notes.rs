//! Notes in Heph, typed by hand; packets that Heph's own converter takes; and the substreams of tasks.

use crate::common::{
    Event, Random, enter, exit, hex, intact, list, named, read, thread, write_pieces,
};
use crate::notes::{TEXT, random_note};
use crate::notes_formats::{HOSTILE, around, encoded, event, few, table, written_bytes};
use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{FieldValue, Note};

#[test]
fn what_is_written_is_typed_by_hand() {
    let (info, _) = few();
    let note = event(5, 3, 0, &[(0, FieldValue::Signed(-2))]);
    let packet = hex(
        // Magic, size; stream 7, its first event, no substream; begins and ends at 2000 ns.
        "c1fc1fb7 00000064 00000007 00000000 0000000000000000 00000000000007d0 00000000000007d0 \
         000a 6170703a3a7175657565 \
         0008 6664723a6e6f7465 04 0013 3530303030303330632e313030303030303030 \
         0005 76616c7565 02 fffffffffffffffe",
    );
    let bytes = written_bytes("heph", &info, &around(&[note]));
    let found = bytes.windows(packet.len()).filter(|at| *at == packet);
    assert_eq!(found.count(), 1, "{}", list(&bytes)[9].3);
    // A name of notes says what it is: 1 the name of an event.
    let attribute = hex("0004 77686174 01 0000000000000001");
    let found = bytes.windows(attribute.len()).filter(|at| *at == attribute);
    assert_eq!(found.count(), 2, "two names of events");
    // And the packet alone is the note.
    let read = read(&packet).expect("a packet");
    let note = event(5, 3, 0, &[(0, FieldValue::Signed(-2))]);
    assert_eq!(read.log.events(7), [encoded(2000, &note)]);
    assert_eq!(read.diagnostics, []);
}

#[test]
fn no_packet_is_longer_than_heph_takes() {
    let mut names = vec![(1, "app::run", FunctionKind::Calls)];
    let long = "x".repeat(100);
    let hostile = HOSTILE.into_iter().chain([&long[..]]);
    let hostile: Vec<&str> = hostile.collect();
    names.extend(
        (2..)
            .zip(hostile.clone())
            .map(|(id, name)| (id, name, FunctionKind::Event)),
    );
    let info = table(&names);
    let text = [b'a'; 1024];
    let mut random = Random(9);
    let mut notes: Vec<Note<'_>> = (0..300).map(|_| random_note(&mut random, TEXT)).collect();
    for nth in 0..hostile.len() as u32 {
        let values = [
            (2 + nth, FieldValue::Text(&text, 1 << 20)),
            (2 + nth, FieldValue::Unsigned(1)),
            (2 + nth, FieldValue::Float(0.5)),
        ];
        notes.push(event(2 + nth, 0, 1, &values));
    }
    let bytes = written_bytes("heph", &info, &around(&notes));
    let lines = list(&bytes);
    assert!(lines.len() > 1000);
    for (offset, size, kind, detail) in lines {
        assert!(size <= 128, "{kind} at {offset} has {size} bytes: {detail}");
        assert!(!detail.contains("=["), "no arrays: {detail}");
    }
}

fn task(id: u64) -> Note<'static> {
    Note::Task {
        task: id,
        parent: 1,
        by: 0,
        name: 1,
        state: 2,
        counted: 0,
        elapsed: 5,
        busy: 4,
        polls: 3,
    }
}

#[test]
fn a_task_is_a_substream_of_its_thread() {
    let (info, _) = few();
    let events = around(&[task(9), task(1 << 40)]);
    let bytes = written_bytes("heph", &info, &events);
    let lines = list(&bytes);
    let of_tasks: Vec<&str> = lines
        .iter()
        .map(|line| line.3.as_str())
        .filter(|line| line.contains("task app::run"))
        .collect();
    assert_eq!(of_tasks.len(), 2);
    assert!(of_tasks[0].starts_with("stream=7 counter=0 substream=9 start=2000 ns end=2000 ns"));
    assert!(of_tasks[1].contains(" substream=1099511627776 "));
    // They are no threads of their own.
    let read = read(&bytes).expect("a trace");
    assert_eq!(read.info.threads, [thread(7)]);
    assert_eq!(read.log.events(7), events);
}

#[test]
fn tasks_on_substreams_come_back() {
    // As the reader names the thread of stream 2, substream 7.
    let own = named(1 << 63 | 7 << 32 | 2, "stream 2, substream 7");
    let events = [
        Event::Call(enter(1000, 1)),
        encoded(3000, &task(7)),
        encoded(5000, &task(8)),
        Event::Call(exit(9000, 1)),
    ];
    let pieces = [(own.clone(), events.to_vec())];
    let (bytes, losses) = write_pieces("heph", &TraceInfo::default(), &pieces);
    assert_eq!(losses.to_string(), "");
    let read = intact(&bytes);
    assert_eq!(read.info.threads.len(), 1, "{:?}", read.info.threads);
    assert_eq!(read.log.events(own.id.0), events);
}

#[test]
fn appended_traces_keep_their_own_names() {
    let (info, events) = few();
    let first = written_bytes("heph", &info, &events);
    let other = table(&[(2, "other::accepted", FunctionKind::Event)]);
    let notes = [event(2, 0, 0, &[(0, FieldValue::Unsigned(1))])];
    let second = written_bytes("heph", &other, &around(&notes));
    let both = [first, second].concat();
    let read = read(&both).expect("two traces");
    let id = |name: &str| {
        let mut functions = read.info.functions.iter();
        let found = functions.find(|function| function.name == name);
        found.expect("a name").id.0
    };
    assert_eq!(id("app::accepted"), 2);
    let wanted = event(id("other::accepted"), 0, 0, &[(0, FieldValue::Unsigned(1))]);
    let Event::Note(_, kind, body) = encoded(0, &wanted) else {
        panic!("a note");
    };
    let mut all = read.log.threads.iter().flat_map(|(_, events)| events);
    let is_it = |event: &Event| matches!(event, Event::Note(_, other, found) if *other == kind && *found == body);
    assert!(all.any(is_it), "{:?}", read.log.threads);
}

#[test]
fn damaged_attributes_are_shown_as_they_are() {
    let (info, _) = few();
    let note = event(5, 3, 0, &[(0, FieldValue::Signed(-2))]);
    let bytes = written_bytes("heph", &info, &around(&[note]));
    let at = bytes.windows(9).position(|at| at == b"50000030c");
    let at = at.expect("the word of the class");
    for (digit, what) in [(b'x', "no word"), (b'0', "another kind")] {
        let mut bytes = bytes.clone();
        bytes[at + 8] = digit;
        let read = read(&bytes).expect("a trace");
        let text = match digit {
            b'x' => "fdr:note=\"50000030x.100000000\" value=-2",
            _ => "fdr:note=\"500000300.100000000\" value=-2",
        };
        let wanted = Event::Custom(2000, None, text.as_bytes().to_vec());
        assert!(
            read.log.events(7).contains(&wanted),
            "{what}: {:?}",
            read.log.events(7)
        );
    }
}
