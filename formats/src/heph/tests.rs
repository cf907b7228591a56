//! One packet of each kind and one attribute of each type, typed by hand from the document's tables, decoded and
//! encoded.

use super::event_parts::{FactPlaces, Parts};
use super::names::{self, Gap, Names, Streams};
use super::record::{self, Bad, Event, EventPacket, EventPosition, Kind, Metadata, Value, head};
use super::tables::Functions;
use crate::model::{Function, FunctionId, Thread, ThreadId};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

const EPOCH: &str = "75d11d4d 00000017 0005 65706f6368 165845e9 1214ec90";
/// Size 46; stream 1, number 2, substream 3, from 4 to 5 ns, `main`.
const PLAIN: &str = "c1fc1fb7 0000002e 00000001 00000002 0000000000000003 0000000000000004 \
                     0000000000000005 0004 6d61696e";
/// `main` with every type of attribute, each named by one letter.
const TYPES: &str = "c1fc1fb7 0000009c 00000001 00000002 0000000000000003 0000000000000004 \
                     0000000000000005 0004 6d61696e \
                     0001 61 01 0000000000000007 \
                     0001 62 02 fffffffffffffffe \
                     0001 63 03 4004000000000000 \
                     0001 64 04 0002 c3a9 \
                     0001 65 81 0002 0000000000000001 0000000000000002 \
                     0001 66 82 0001 ffffffffffffffff \
                     0001 67 83 0001 405edd2f1a9fbe77 \
                     0001 68 84 0002 0001 78 0000 \
                     0000 81 0000";

const PLACE: EventPosition = EventPosition {
    stream: 1,
    counter: 2,
    substream: 3,
    start: 4,
    end: 5,
};

#[test]
fn a_metadata_packet() {
    let packet = hex(EPOCH);
    assert_eq!(head(&packet), Some((Kind::Metadata, 23)));
    let metadata = Metadata::decode(&packet).expect("an epoch");
    assert_eq!(metadata.name, b"epoch");
    assert_eq!(metadata.epoch(), Some(1_610_113_734_118_010_000));
    assert_eq!(record::epoch(1_610_113_734_118_010_000), packet);
    let unknown = hex("75d11d4d 0000000c 0001 78 79");
    let metadata = Metadata::decode(&unknown).expect("an option");
    assert_eq!((metadata.name, metadata.value), (&b"x"[..], &b"y"[..]));
    assert_eq!(metadata.epoch(), None);
    let long = hex("75d11d4d 0000000c 0003 78 79");
    assert_eq!(Metadata::decode(&long), None, "the name leaves the packet");
}

#[test]
fn sizes_that_can_not_be_right() {
    for bad in [
        "75d11d4d 00000009",
        "c1fc1fb7 00000029",
        "c1fc1fb8 0000002e",
        "c1fc1fb7 0000",
    ] {
        assert_eq!(head(&hex(bad)), None, "{bad}");
    }
    assert_eq!(head(&hex("75d11d4d 0000000a")), Some((Kind::Metadata, 10)));
    assert_eq!(
        head(&hex("c1fc1fb7 ffffffff")),
        Some((Kind::Event, u32::MAX))
    );
}

#[test]
fn an_event_packet() {
    let packet = hex(PLAIN);
    assert_eq!(head(&packet), Some((Kind::Event, 46)));
    let event = Event::decode(&packet).expect("an event");
    let Event {
        stream,
        counter,
        substream,
        start,
        end,
        ..
    } = event;
    let place = EventPosition {
        stream,
        counter,
        substream,
        start,
        end,
    };
    assert_eq!(place, PLACE);
    assert_eq!(event.description, b"main");
    assert_eq!(event.attributes().count(), 0);
    let mut encoded = vec![9];
    EventPacket::begin(&mut encoded, PLACE, "main").end();
    assert_eq!(encoded[1..], packet);
    let mut long = packet;
    long[41] = 5;
    assert_eq!(Event::decode(&long), None, "the text leaves the packet");
}

#[test]
fn attributes_of_every_type() {
    let packet = hex(TYPES);
    assert_eq!(head(&packet), Some((Kind::Event, packet.len() as u32)));
    let event = Event::decode(&packet).expect("an event");
    let attributes: Vec<_> = event.attributes().map(|all| all.expect("whole")).collect();
    let names: Vec<&[u8]> = attributes.iter().map(|attribute| attribute.name).collect();
    assert_eq!(names.concat(), b"abcdefgh");
    let values: Vec<Value<'_>> = attributes.iter().map(|attribute| attribute.value).collect();
    let scalars = [
        Value::Unsigned(7),
        Value::Signed(-2),
        Value::Float(2.5),
        Value::Text("é".as_bytes()),
    ];
    assert_eq!(values[..4], scalars);
    assert!(matches!(values[4], Value::Unsigneds(all) if all.iter().eq([1, 2])));
    assert!(matches!(values[5], Value::Signeds(all) if all.iter().eq([u64::MAX])));
    let float = 123.456f64.to_bits();
    assert!(matches!(values[6], Value::Floats(all) if all.iter().eq([float])));
    assert!(matches!(values[7], Value::Texts(all) if all.iter().eq([&b"x"[..], b""])));
    assert!(matches!(values[8], Value::Unsigneds(all) if all.iter().len() == 0));
}

#[test]
fn the_types_that_are_written() {
    let wanted = "0001 61 01 0000000000000007 0001 63 03 4004000000000000 0001 64 04 0002 c3a9 \
                  0001 65 81 0002 0000000000000001 0000000000000002 0001 66 02 fffffffffffffffe";
    let mut encoded = Vec::new();
    let mut packet = EventPacket::begin(&mut encoded, PLACE, "main");
    packet.number("a", 7);
    packet.float("c", 2.5);
    packet.text("d", "é");
    packet.numbers("e", &[1, 2]);
    packet.numbers("none", &[]);
    packet.signed("f", -2);
    packet.end();
    assert_eq!(encoded[46..], hex(wanted));
    assert_eq!(encoded[4..8], (encoded.len() as u32).to_be_bytes());
}

#[test]
fn long_payloads_go_on_in_further_events() {
    let mut encoded = Vec::new();
    let mut places = FactPlaces::default();
    let mut parts = Parts::begin(&mut encoded, PLACE, "main", &mut places);
    // 46 bytes; 46 + 55 = 101 do not fit 128 with 40 more.
    parts.text("a", &"x".repeat(49));
    parts.text("b", &"é".repeat(17));
    parts.number("c", 7);
    parts.end();
    let wanted = format!(
        "c1fc1fb7 0000007f 00000001 00000002 0000000000000003 0000000000000004 \
         0000000000000005 0004 6d61696e 0001 61 04 0031 {} 0001 62 04 0014 {} \
         c1fc1fb7 0000005f ffffffff 00000000 0000000000000000 0000000000000005 \
         0000000000000005 0008 6664723a6d6f7265 0002 6f66 01 0000000100000002 \
         0001 62 04 000e {} 0001 63 01 0000000000000007",
        "78".repeat(49),
        "c3a9".repeat(10),
        "c3a9".repeat(7),
    );
    assert_eq!(encoded, hex(&wanted));
}

#[test]
fn facts_are_a_microsecond_apart() {
    let mut places = FactPlaces::default();
    let mut next = |earliest| {
        let place = places.next(earliest);
        assert_eq!(place.start, place.end);
        (place.counter, place.start)
    };
    assert_eq!(next(10), (0, 10));
    assert_eq!(next(10), (1, 1010));
    assert_eq!(next(5000), (2, 5000));
    assert_eq!(next(7), (3, 6000));
}

#[test]
fn elided_names_keep_begin_hash_and_end() {
    let mut functions = Functions::default();
    let name = "my_app::tokens::<impl Stem for Word>::stem";
    let mut declare = |id: u32, name: &str| {
        functions.declare(&Function {
            id: FunctionId(id),
            name: name.into(),
            ..Function::default()
        })
    };
    assert!(declare(1, name) && declare(2, &name.replace("Word", "Text")));
    assert!(declare(3, &"é𝄞".repeat(20)));
    let label = functions.label(FunctionId(1));
    assert_eq!(label.within(42), name);
    let elided = label.within(30).to_owned();
    assert_eq!(elided.len(), 30);
    assert!(elided.starts_with("my_app~"), "{elided}");
    assert!(elided.ends_with("~or Word>::stem"), "{elided}");
    assert_eq!(label.within(15).len(), 15);
    assert_eq!(label.within(30), elided);
    let other = functions.label(FunctionId(2)).within(15).to_owned();
    assert_ne!(functions.label(FunctionId(1)).within(15), other);
    for room in 15..120 {
        assert!(functions.label(FunctionId(3)).within(room).len() <= room);
    }
}

#[test]
fn damaged_attributes_end_the_list_where_they_stand() {
    // Name and type in front of the value; the value's own place for arrays.
    let cases = [
        ("0001 61 00 0000000000000007", Some(0x00)),
        ("0001 61 05 0000000000000007", Some(0x05)),
        ("0001 61 80 0000", Some(0x80)),
        ("0001 61 85 0000", Some(0x85)),
        ("0001 61 01 00000000000007", None),
        ("0001 61 04 0003 7878", None),
        ("0001 61 81 0002 0000000000000001", None),
        ("0001 61 84 0002 0001 78", None),
        ("0005 61", None),
        ("00", None),
        ("0001 61", None),
    ];
    for (damaged, kind) in cases {
        let mut packet = hex(PLAIN);
        packet.extend(hex("0001 7a 01 0000000000000007"));
        packet.extend(hex(damaged));
        let event = Event::decode(&packet).expect("an event");
        let found: Vec<_> = event.attributes().collect();
        assert_eq!(found.len(), 2, "{damaged}");
        assert!(found[0].is_ok());
        assert_eq!(found[1], Err(Bad { at: 12, kind }), "{damaged}");
    }
}

#[test]
fn numbers_of_a_stream() {
    let mut streams = Streams::default();
    let mut count = |stream, counter, skipped| streams.count(stream, counter, skipped, (10, 99));
    assert_eq!(
        count(1, u32::MAX - 1, 0),
        Gap::None,
        "it may begin anywhere"
    );
    assert_eq!(count(1, u32::MAX, 0), Gap::None);
    assert_eq!(count(2, 7, 0), Gap::None);
    assert_eq!(count(1, 0, 0), Gap::None, "it wraps");
    let missing = |events, expected| Gap::Missing {
        events,
        expected,
        end: 99,
        offset: 10,
    };
    assert_eq!(count(1, 4, 0), missing(3, 1));
    assert_eq!(count(1, 8, 3), Gap::None, "three were left out");
    assert_eq!(count(1, 15, 4), missing(2, 13));
    assert_eq!(count(1, 3, 0), Gap::Back(16));
    assert_eq!(count(1, 4, 0), Gap::None);
    assert_eq!(count(1, 4, 0), Gap::None, "reported once");
    assert_eq!(count(2, 8, 0), Gap::None);
}

#[test]
fn substreams_have_ids_that_lead_back() {
    let mut streams = Streams::default();
    let pairs = [
        (2, 0),
        (2, 7),
        (3, 7),
        (2, u64::MAX),
        (2, 1 << 40),
        (u32::MAX, 1),
    ];
    let lanes = pairs.map(|(stream, substream)| streams.lane(stream, substream));
    assert_eq!(lanes, [0, 1, 2, 3, 4, 5]);
    assert_eq!(streams.lane(2, 7), 1);
    assert_eq!(streams.threads[0].id, ThreadId(2));
    assert_eq!(streams.threads[1].id, ThreadId(1 << 63 | 7 << 32 | 2));
    for (lane, pair) in pairs.into_iter().enumerate().skip(1) {
        let thread = &streams.threads[lane];
        assert_eq!(names::numbers(thread), Some(pair), "{thread:?}");
        let others = streams.threads.iter().filter(|other| other.id == thread.id);
        assert_eq!(others.count(), 1);
    }
    for (id, name) in [
        (2, "stream 2, substream 7"),
        (1 << 63 | 7 << 32 | 2, "stream 2, substream 07"),
        (1 << 63 | 7 << 32 | 2, "stream 2, substream 0"),
        (1 << 63 | 7 << 32 | 3, "stream 2, substream 7"),
    ] {
        let thread = Thread {
            id: ThreadId(id),
            name: name.into(),
            ..Thread::default()
        };
        assert_eq!(names::numbers(&thread), None, "{name}");
    }
}

#[test]
fn functions_have_one_id_each() {
    let facts = |id, name: &str, line| super::facts::FunctionFacts {
        id: Some(id),
        name: name.into(),
        file: String::new(),
        line,
        untimed: false,
        kind: Default::default(),
    };
    let mut names = Names::default();
    assert_eq!(names.declare(0, facts(5, "a", 1)), None);
    assert_eq!(names.declare(0, facts(5, "a", 1)), None, "again");
    assert_eq!(names.declare(0, facts(6, "a", 2)), None, "of the same name");
    assert_eq!(names.call(b"a", None, true), FunctionId(5));
    assert_eq!(names.call(b"a", Some(6), true), FunctionId(6));
    assert_eq!(names.call(b"#9", Some(9), true), FunctionId(9));
    let unknown = names.call(b"b", None, true);
    assert_eq!(unknown, FunctionId((1 << 28) - 1));
    assert_eq!(
        names.declare(0, facts(8, "b", 3)),
        None,
        "it is the one that was called"
    );
    assert_eq!(names.call(b"b", Some(8), true), unknown);
    let message = names.declare(90, facts(5, "other", 1)).expect("a change");
    assert!(message.contains("#5"), "{message}");
    let other = names.call(b"other", None, true);
    assert_eq!(names.call(b"a", Some(5), true), other);
    assert_eq!(names.call(b"a", None, true), FunctionId(5));
    assert!(
        names
            .declare(0, super::facts::FunctionFacts::default())
            .is_some()
    );
    let (all, renumbered) = names.finish();
    let all: Vec<_> = all
        .iter()
        .map(|one| (one.id.0, &*one.name, one.line))
        .collect();
    let (b, second) = (unknown.0, other.0);
    assert_eq!(
        all,
        [(5, "a", 1), (6, "a", 2), (second, "other", 1), (b, "b", 3)]
    );
    let at = [(90, 5), (91, 5), (91, 6), (91, 8), (91, 77)];
    let ids = at.map(|(offset, number)| renumbered.at(offset, number).map(|id| id.0));
    assert_eq!(ids, [None, Some(second), None, Some(b), None]);
    let mut foreign = Names::default();
    assert_eq!(foreign.call(b"x", None, false), FunctionId(1));
    assert_eq!(foreign.call(b"y", None, false), FunctionId(2));
    assert_eq!(foreign.call(b"x", None, false), FunctionId(1));
}
