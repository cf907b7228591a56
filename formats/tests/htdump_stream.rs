//! HTDUMP streams of every kind that the format allows, built without the library's encoder: both byte
//! orders, every kind of field, klasses in any order and anew, labels before and after their mapping.

use crate::common::htdump::Stream;
use crate::common::{
    Event, ReadTrace, enter, exit, function, list, name_of, read, thread, write_pieces,
};
use fdr_formats::{Call, Edge, ThreadId, TraceInfo};

fn parse(stream: &Stream) -> ReadTrace {
    read(&stream.bytes).expect("a readable stream")
}

/// Whole files, in which nothing is wrong.
fn clean(stream: &Stream) -> ReadTrace {
    let read = parse(stream);
    assert_eq!(read.messages(), [""; 0]);
    read
}

fn names(read: &ReadTrace, thread: u64) -> Vec<(u64, String)> {
    let calls = read.log.calls(thread);
    let entries = calls.iter().filter(|call| call.edge == Edge::Entry);
    entries
        .map(|call| (call.time.0, name_of(read, call.function)))
        .collect()
}

fn at(time: u64, name: &str) -> (u64, String) {
    (time, name.to_owned())
}

#[test]
fn byte_orders_may_change_in_the_middle() {
    for big in [false, true] {
        let mut stream = Stream::new(big);
        stream.hawktracer().mapping(0x1122, "first");
        stream.call(1000, 500, 3, 0x1122);
        let read = clean(&stream);
        let word = if big { "big" } else { "little" };
        assert_eq!(
            read.info.format,
            format!("HawkTracer HTDUMP, {word}-endian")
        );
        assert_eq!(names(&read, 3), [at(1000, "first")]);

        // Klasses stay known over the change; records before it keep their order.
        stream.derived(9, "Mine", "HT_CallstackIntEvent", &["a"]);
        stream
            .header(9, 1600)
            .u64(10)
            .u32(3)
            .u64(0x1122)
            .u64(0x0102);
        stream.turn().mapping(0x3344, "second");
        stream.call(2000, 500, 3, 0x3344);
        stream
            .header(9, 3000)
            .u64(10)
            .u32(3)
            .u64(0x3344)
            .u64(0x0304);
        stream.turn().call(4000, 500, 3, 0x1122);
        let read = clean(&stream);
        assert_eq!(read.info.format, "HawkTracer HTDUMP, both byte orders");
        let wanted = [
            (1000, "first"),
            (1600, "first"),
            (2000, "second"),
            (3000, "second"),
            (4000, "first"),
        ];
        assert_eq!(names(&read, 3), wanted.map(|(time, name)| at(time, name)));
        let events = read.log.events(3).iter();
        let arguments: Vec<&Event> = events
            .filter(|event| matches!(event, Event::Argument(_)))
            .collect();
        assert_eq!(
            arguments,
            [&Event::Argument(0x0102), &Event::Argument(0x0304)]
        );
    }
}

#[test]
fn every_kind_and_size_of_field() {
    for big in [false, true] {
        let mut stream = Stream::new(big);
        stream
            .klass(20, "Inner", 1)
            .field(20, 3, 2, "int16_t", "deep");
        stream
            .klass(21, "All", 15)
            .field(21, 1, 24, "HT_Event", "base");
        for (kind, size, name) in [
            (3, 1, "i8"),
            (3, 2, "i16"),
            (3, 4, "i32"),
            (3, 8, "i64"),
            (99, 1, "u8"),
            (99, 2, "u16"),
            (99, 4, "u32"),
            (99, 8, "u64"),
            (4, 4, "float"),
            (5, 8, "double"),
            (6, 8, "pointer"),
            (2, 0, "text"),
            (77, 3, "odd"),
        ] {
            stream.field(21, kind, size, "type", name);
        }
        stream
            .field(21, 1, 2, "Inner", "inner")
            .field(21, 1, 24, "HT_Event", "whole");
        stream
            .header(21, 50)
            .u8(0xff)
            .u16(0xfffe)
            .u32(0xffff_fffd)
            .u64(u64::MAX - 3);
        stream
            .u8(1)
            .u16(0x0203)
            .u32(0x0405_0607)
            .u64(0x0809_0a0b_0c0d_0e0f);
        stream
            .u32(1.5f32.to_bits())
            .u64((-2.25f64).to_bits())
            .u64(0xbeef);
        stream
            .text("a \"b\"".as_bytes())
            .u8(1)
            .u8(2)
            .u8(0xab)
            .u16(0xfff6);
        stream.header(21, 51);
        let read = clean(&stream);
        let text = "All i8=-1 i16=-2 i32=-3 i64=-4 u8=1 u16=515 u32=67438087 \
                    u64=579005069656919567 float=1.5 double=-2.25 pointer=0xbeef \
                    text=\"a \\\"b\\\"\" odd=0x0102ab deep=-10 type=21 timestamp=51 id=7";
        assert_eq!(
            read.log.events(0),
            [Event::Custom(50, None, text.as_bytes().to_vec())]
        );
    }
}

#[test]
fn calls_of_derived_klasses() {
    let mut stream = Stream::new(false);
    // Each is described before its base.
    stream.derived(30, "Third", "Second", &["c"]);
    stream.derived(31, "Second", "First", &["b"]);
    stream.derived(32, "First", "HT_CallstackIntEvent", &["a"]);
    stream.hawktracer().mapping(1, "one");
    stream
        .header(30, 100)
        .u64(10)
        .u32(1)
        .u64(1)
        .u64(11)
        .u64(12)
        .u64(13);
    // No label: the klass is the name.
    stream.derived(33, "Bare", "HT_CallstackBaseEvent", &[]);
    stream.header(33, 200).u64(10).u32(1);
    // Not only numbers; numbers of every kind.
    stream.derived(34, "Mixed", "HT_CallstackStringEvent", &["u"]);
    stream
        .field(34, 3, 4, "int32_t", "i")
        .field(34, 5, 8, "double", "d")
        .field(34, 6, 8, "void*", "p");
    stream
        .header(34, 300)
        .u64(10)
        .u32(1)
        .text(b"label")
        .u64(7)
        .u32(u32::MAX)
        .u64(0)
        .u64(9);
    // A field `flags` is an argument in any klass but ours.
    stream.derived(35, "Flagged", "HT_CallstackIntEvent", &["flags"]);
    stream.header(35, 400).u64(10).u32(1).u64(1).u64(3);
    let read = parse(&stream);
    let wanted = [
        at(100, "one"),
        at(200, "Bare"),
        at(300, "label"),
        at(400, "one"),
    ];
    assert_eq!(names(&read, 1), wanted);
    let events = read.log.events(1).iter();
    let arguments = events.filter_map(|event| match event {
        Event::Argument(value) => Some(*value),
        _ => None,
    });
    assert_eq!(
        arguments.collect::<Vec<_>>(),
        [11, 12, 13, 7, u64::MAX, 9, 3]
    );
    assert_eq!(
        read.log.calls(1)[6],
        Call {
            has_arguments: true,
            ..enter(400, 1)
        }
    );
    let what = "calls of klass Mixed have fields that are no numbers: d; left out";
    let offset = list(&stream.bytes)
        .into_iter()
        .find(|line| line.2 == "Mixed");
    let offset = offset.expect("it is listed").0;
    assert_eq!(read.messages(), [format!("at byte {offset}: {what}")]);
}

#[test]
fn klasses_that_change_and_come_again() {
    let mut stream = Stream::new(false);
    stream.hawktracer().mapping(1, "one");
    stream.derived(40, "Mine", "HT_CallstackIntEvent", &["a"]);
    stream.header(40, 100).u64(10).u32(1).u64(1).u64(5);
    // A late client gets the klasses again. They are the same, so nothing changes.
    stream
        .hawktracer()
        .derived(40, "Mine", "HT_CallstackIntEvent", &["a"]);
    stream.header(40, 200).u64(10).u32(1).u64(1).u64(6);
    // Another klass of that number, and another base.
    stream.derived(40, "Other", "HT_CallstackIntEvent", &["x", "y"]);
    stream.header(40, 300).u64(10).u32(1).u64(1).u64(7).u64(8);
    stream.field(40, 99, 1, "uint8_t", "y");
    stream.header(40, 400).u64(10).u32(1).u64(1).u64(9).u8(10);
    let read = clean(&stream);
    let arguments: Vec<Event> = [5, 6, 7, 8, 9, 10].map(Event::Argument).to_vec();
    let events = read.log.events(1).iter();
    let found = events.filter(|event| matches!(event, Event::Argument(_)));
    assert_eq!(found.cloned().collect::<Vec<_>>(), arguments);
    let kinds: Vec<String> = list(&stream.bytes).into_iter().map(|line| line.2).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "Mine").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| *kind == "Other").count(), 2);
}

#[test]
fn identifiers_that_change_their_meaning() {
    let mut stream = Stream::new(true);
    stream
        .hawktracer()
        .mapping(1, "one")
        .mapping(2, "same")
        .mapping(3, "same");
    stream
        .call(100, 10, 1, 1)
        .call(200, 10, 1, 2)
        .call(300, 10, 1, 3);
    stream
        .mapping(1, "uno")
        .call(400, 10, 1, 1)
        .named(500, 10, 1, "same");
    stream
        .mapping(1, "one")
        .call(600, 10, 1, 1)
        .mapping(1, "one")
        .call(700, 10, 1, 1);
    let read = clean(&stream);
    let labels = ["one", "same", "same", "uno", "same", "one", "one"];
    let wanted: Vec<_> = labels
        .iter()
        .zip(1..)
        .map(|(name, nth)| at(nth * 100, name))
        .collect();
    assert_eq!(names(&read, 1), wanted);
    assert_eq!(read.info.functions.len(), 3, "{:?}", read.info.functions);
}

#[test]
fn two_traces_in_one_file_keep_their_functions() {
    let trace = |name: &str, file: &str, time| {
        let info = TraceInfo {
            functions: vec![function(1, name, file, 0)],
            ..TraceInfo::default()
        };
        let events = [enter(time, 1), exit(time + 5, 1)].map(Event::Call);
        write_pieces("htdump", &info, &[(thread(1), events.to_vec())]).0
    };
    let traces = [
        trace("one", "a.rs", 10),
        trace("two", "b.rs", 20),
        // The same program again, and one that differs in the label alone.
        trace("two", "b.rs", 30),
        trace("three", "b.rs", 40),
    ];
    let read = read(&traces.concat()).expect("a readable stream");
    assert_eq!(read.messages(), [""; 0]);
    let wanted = [at(10, "one"), at(20, "two"), at(30, "two"), at(40, "three")];
    assert_eq!(names(&read, 1), wanted);
    let functions = read.info.functions.iter();
    let files: Vec<&str> = functions.map(|function| &*function.file).collect();
    assert_eq!(files, ["a.rs", "b.rs", "b.rs"]);
}

#[test]
fn labels_without_a_mapping_are_their_numbers() {
    let mut stream = Stream::new(false);
    stream.hawktracer();
    let offset = stream.bytes.len();
    stream
        .call(100, 10, 1, 77)
        .call(200, 10, 1, 1 << 40)
        .call(300, 10, 1, 77);
    let read = parse(&stream);
    let wanted = [at(100, "77"), at(200, "1099511627776"), at(300, "77")];
    assert_eq!(names(&read, 1), wanted);
    let wanted = format!(
        "at byte {offset}: no string is mapped to label 77, nor to 1 more: their numbers stand for \
         them"
    );
    assert_eq!(read.messages(), [wanted]);
}

#[test]
fn threads_come_whole_and_in_order() {
    let mut stream = Stream::new(false);
    stream.hawktracer().mapping(1, "f");
    for nth in 0..3000 {
        stream.call(10 * nth, 5, (nth % 3) as u32, 1);
    }
    // Around all calls of thread 1, and last in the file, as a program's main function is.
    stream.call(5, 40_000, 1, 1);
    let read = clean(&stream);
    let threads: Vec<ThreadId> = read.info.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(threads, [0, 1, 2].map(ThreadId));
    let threads = read.log.threads;
    for (id, events) in &threads {
        let times: Vec<u64> = events
            .iter()
            .map(|event| match event {
                Event::Call(call) => call.time.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(times.is_sorted(), "thread {id}");
        assert_eq!(events.len(), if id.0 == 1 { 2002 } else { 2000 });
    }
    let (first, last) = (&threads[1].1[0], &threads[1].1[2001]);
    assert_eq!(
        (first, last),
        (&Event::Call(enter(5, 1)), &Event::Call(exit(40_005, 1)))
    );
}

#[test]
fn late_and_outlasting_calls_are_nested() {
    let mut stream = Stream::new(false);
    stream.hawktracer().mapping(1, "f");
    let offset = stream.bytes.len();
    stream.call(u64::MAX - 5, 100, 1, 1);
    stream.call(10, 10, 2, 1).call(15, 10, 2, 1);
    stream.call(14, 2, 2, 1).call(40, 5, 2, 1);
    let read = parse(&stream);
    assert_eq!(
        read.log.calls(1),
        [enter(u64::MAX - 5, 1), exit(u64::MAX, 1)]
    );
    // Two calls that overlap are no damage: one of them is on a lane of its own.
    let calls = |thread| read.log.calls(thread);
    let wanted = [
        enter(10, 1),
        enter(14, 1),
        exit(16, 1),
        exit(20, 1),
        enter(40, 1),
        exit(45, 1),
    ];
    assert_eq!(calls(2), wanted);
    let lane = &read.info.threads[2];
    assert_eq!(lane.name, "thread 2, overlap 1");
    assert_eq!(calls(lane.id.0), [enter(15, 1), exit(25, 1)]);
    let wanted = format!("at byte {offset}: a call ends after 2^64 ns: its end is moved there");
    assert_eq!(read.messages(), [wanted]);
}

#[test]
fn streams_without_byte_order_are_read() {
    for big in [false, true] {
        let mut stream = Stream::new(big);
        stream.hawktracer().mapping(1, "f").call(10, 5, 1, 1);
        let read = read(&stream.bytes[21..]).expect("recognised by HawkTracer's klasses");
        assert_eq!(names(&read, 1), [at(10, "f")]);
        let word = if big { "big" } else { "little" };
        let what = format!(
            "at byte 0: the stream does not begin with its byte order: taken for {word}-endian"
        );
        assert_eq!(read.messages(), [what]);
    }
}

#[test]
fn klasses_of_hawktracers_that_were_not_announced() {
    let mut stream = Stream::new(false);
    stream.klass(100, "X", 0);
    let offset = stream.bytes.len();
    stream.mapping(1, "f").call(10, 5, 1, 1).call(20, 5, 1, 1);
    let read = parse(&stream);
    assert_eq!(names(&read, 1), [at(10, "f"), at(20, "f")]);
    let wanted = [
        format!(
            "at byte {offset}: klass 7 was not announced: read as HawkTracer's HT_StringMappingEvent"
        ),
        format!(
            "at byte {}: klass 5 was not announced: read as HawkTracer's HT_CallstackIntEvent",
            offset + 30
        ),
    ];
    assert_eq!(read.messages(), wanted);
}

#[test]
fn long_texts() {
    let mut stream = Stream::new(false);
    stream.hawktracer();
    // Longer than what is read at a time, and longer than that by a factor.
    let lengths = [0, 1, 500, 511, 512, 262_143, 262_144, 300_000, 3_000_000];
    for (nth, length) in lengths.into_iter().enumerate() {
        stream.named(100 * nth as u64, 10, 1, &"x".repeat(length));
        stream.named(100 * nth as u64 + 20, 10, 1, "between");
    }
    let read = clean(&stream);
    let mut found: Vec<usize> = names(&read, 1).iter().map(|(_, name)| name.len()).collect();
    found.retain(|&length| length != "between".len());
    assert_eq!(found, lengths);
}
