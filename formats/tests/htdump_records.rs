//! Each record of HTDUMP that is written, against bytes typed by hand: HawkTracer's from its own files
//! and its document, ours from the tables in the module. Nothing here is made by the encoder.

use crate::common::{
    Event, call, enter, exit, function, hex, intact, list, synthetic, with_arguments, write_pieces,
};
use fdr_formats::bytes::ByteOrder;
use fdr_formats::htdump::record::{self, Builder, Header};
use fdr_formats::model::{Counts, Identity, Missing};
use fdr_formats::{Call, Clock, Edge, Thread, ThreadId, Ticks, TraceInfo};

/// Text and its zero byte, in hexadecimal.
fn text(text: &str) -> String {
    let digits = text.bytes().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>() + "00"
}

#[test]
fn headers_and_byte_orders() {
    let little = hex("05000000 0807060504030201 1817161514131211 ff");
    let big = hex("00000005 0102030405060708 1112131415161718 ff");
    let header = Header {
        klass: 5,
        time: 0x0102_0304_0506_0708,
        number: 0x1112_1314_1516_1718,
    };
    assert_eq!(Header::decode(&little, ByteOrder::Little), Some(header));
    assert_eq!(Header::decode(&big, ByteOrder::Big), Some(header));
    assert_eq!(Header::decode(&big[..19], ByteOrder::Big), None);
    let zeros = "00".repeat(20);
    assert_eq!(
        record::endianness(ByteOrder::Little).to_vec(),
        hex(&format!("{zeros}00"))
    );
    assert_eq!(
        record::endianness(ByteOrder::Big).to_vec(),
        hex(&format!("{zeros}01"))
    );
    for (order, bytes) in [(ByteOrder::Little, &little), (ByteOrder::Big, &big)] {
        let mut out = Vec::new();
        let _ = Builder::new(&mut out, order, header).u8(0xff);
        assert_eq!(&out, bytes);
    }
    let mut out = Vec::new();
    let _ = Builder::new(&mut out, ByteOrder::Big, header)
        .u32(1)
        .u64(2)
        .text("é");
    assert_eq!(out[20..], hex("00000001 0000000000000002 c3a9 00"));
}

#[test]
fn streams_are_recognised() {
    let zeros = "00".repeat(20);
    let order = |tail: &str| record::order(&hex(&format!("{zeros}{tail}")));
    assert_eq!(order("00 02000000 01"), Some(ByteOrder::Little));
    assert_eq!(order("01 00000002 01"), Some(ByteOrder::Big));
    // Only that, or cut behind it.
    assert_eq!(order("00"), Some(ByteOrder::Little));
    assert_eq!(order("01 0000"), Some(ByteOrder::Big));
    for tail in [
        "",
        "02 02000000",
        "00 00000000 00000000",
        "01 00000000 00000000",
    ] {
        assert_eq!(order(tail), None, "{tail}");
    }
    // A byte order with a time and a number of its own.
    let timed = |next: &str| record::order(&hex(&format!("00000000 01{} {next}", "00".repeat(15))));
    assert_eq!(timed("00 02000000"), Some(ByteOrder::Little));
    assert_eq!(timed("00 05000000"), None);
    // No byte order, but a klass.
    let klass = |id: &str| {
        record::order(&hex(&format!(
            "{id} {} 00000000 48545f4500",
            "11".repeat(16)
        )))
    };
    assert_eq!(klass("02000000"), Some(ByteOrder::Little));
    assert_eq!(klass("00000002"), Some(ByteOrder::Big));
    assert_eq!(klass("03000000"), None);
}

fn info() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            name: "rdtscp".to_owned(),
            error_ppm: Some(1.5),
            constant: true,
            anchor: Some((Ticks(0x0a), 0x0b)),
            ..Clock::default()
        },
        functions: vec![
            function(0x11, "plain", "a.rs", 7),
            function(0x12, "\"odd\" %", "", 0),
            function(0x13, "", "", 0),
        ],
        program: "p".to_owned(),
        process: Some(0x21),
        reason: "exit".to_owned(),
        dump: Some(0x22),
        missing: Missing {
            threads: 0x23,
            overwritten: 0x24,
            dropped: 0x25,
        },
        start: Some(Ticks(0x26)),
        end: Some(Ticks(0x27)),
        identity: Identity::from_bytes(b"h\0b\0i\x001.2\0k=v\0"),
        ..TraceInfo::default()
    }
}

fn events() -> Vec<Event> {
    let entry = Call {
        has_arguments: true,
        ..enter(0x102, 0x11)
    };
    vec![
        Event::Wall(0x31, 0x32),
        Event::Cpu(0x100, 0x33),
        Event::Call(synthetic(enter(0x101, 0x12))),
        Event::Call(entry),
        Event::Argument(0x34),
        Event::Argument(0x35),
        Event::Call(call(0x103, 0x11, Edge::TailExit)),
        Event::Lost(0x36),
        Event::Custom(0x104, Some(0x37), b"a\0\xff".to_vec()),
        Event::Custom(0x105, None, vec![]),
        Event::Typed(0x106, 0x38, b"b".to_vec()),
        Event::Call(exit(0x108, 0x12)),
        Event::Call(enter(0x109, 0x99)),
        Event::Call(exit(0x10b, 0x99)),
        with_arguments(enter(0x10c, 0x99)),
        Event::Argument(0x39),
        Event::Call(exit(0x10f, 0x99)),
    ]
}

fn thread() -> Thread {
    Thread {
        id: ThreadId(0x41),
        process: Some(0x42),
        name: "t\n".to_owned(),
        counts: Some(Counts {
            recorded: 0x43,
            readable: 0x44,
            overwritten: 0x45,
            dropped: 0x46,
            synthetic_entries: 0x47,
            synthetic_exits: 0x48,
            summarised: 0,
        }),
        ..Thread::default()
    }
}

fn u8(value: u8) -> String {
    format!("{value:02x}")
}

fn u32(value: u32) -> String {
    format!("{value:08x}")
}

fn u64(value: u64) -> String {
    format!("{value:016x}")
}

/// The name, the time, and what stands behind the header, in big-endian.
type TypedRecord = (&'static str, u64, String);

/// Ours and HawkTracer's records before the first event.
fn typed_records_of_trace() -> Vec<TypedRecord> {
    let ppm = "3ff8000000000000";
    vec![
        ("HT_SystemInfoEvent", 0, "000b00".to_owned()),
        // Known: process, dump, clock's error, anchor, constant, not nonstop, start, end.
        (
            "FDR_TraceEvent",
            0,
            u32(0xdf)
                + &text("p")
                + &text("exit")
                + &u64(0x21)
                + &u64(0x22)
                + &u64(0x23)
                + &u64(0x24)
                + &u64(0x25)
                + &text("rdtscp")
                + ppm
                + &u64(0x0a)
                + &u64(0x0b)
                + &u64(0x26)
                + &u64(0x27)
                + &text("h")
                + &text("b")
                + &text("i")
                + &text("1.2")
                + &text("k=v"),
        ),
        // Known: listed.
        (
            "FDR_FunctionEvent",
            0,
            u64(0x11) + &u32(0x11) + &u32(1) + "00" + &text("a.rs") + &u32(7),
        ),
        ("HT_StringMappingEvent", 0, u64(0x11) + &text("plain")),
        // Known: listed, named.
        (
            "FDR_FunctionEvent",
            0,
            u64(0x12) + &u32(0x12) + &u32(3) + &text("%22odd%22 %25") + "00" + &u32(0),
        ),
        ("HT_StringMappingEvent", 0, u64(0x12) + &text("'odd' %")),
        (
            "FDR_FunctionEvent",
            0,
            u64(0x13) + &u32(0x13) + &u32(3) + "00" + "00" + &u32(0),
        ),
        ("HT_StringMappingEvent", 0, u64(0x13) + &text("#19")),
        // Known: process, counts.
        (
            "FDR_ThreadEvent",
            0,
            u32(0x41)
                + &u64(0x41)
                + &u32(3)
                + &u64(0x42)
                + &text("t%0a")
                + &u64(0x43)
                + &u64(0x44)
                + &u64(0x45)
                + &u64(0x46)
                + &u64(0x47)
                + &u64(0x48),
        ),
    ]
}

fn typed_records_of_events() -> Vec<TypedRecord> {
    vec![
        (
            "FDR_WallEvent",
            0,
            u32(0x41) + "00" + &u64(0x31) + &u32(0x32),
        ),
        ("FDR_CpuEvent", 0x100, u32(0x41) + &u32(0x33)),
        // Duration, thread, label, flags: tail exit, arguments.
        (
            "FDR_FlaggedCallEvent2",
            0x102,
            u64(1) + &u32(0x41) + &u64(0x11) + &u32(4) + &u64(0x34) + &u64(0x35),
        ),
        ("FDR_LostEvent", 0x103, u32(0x41) + "00" + &u64(0x36)),
        (
            "FDR_CustomEvent",
            0x104,
            u32(0x41) + "00" + &u32(1) + &u32(0x37) + &text("a%00%ff"),
        ),
        (
            "FDR_CustomEvent",
            0x105,
            u32(0x41) + "00" + &u32(0) + &u32(0) + "00",
        ),
        (
            "FDR_TypedEvent",
            0x106,
            u32(0x41) + "00" + &u32(0x38) + &text("b"),
        ),
        // The entry was not measured.
        (
            "FDR_FlaggedCallEvent0",
            0x101,
            u64(7) + &u32(0x41) + &u64(0x12) + &u32(1),
        ),
        // In no table.
        (
            "FDR_FunctionEvent",
            0,
            u64(0x99) + &u32(0x99) + &u32(0) + "0000" + &u32(0),
        ),
        ("HT_StringMappingEvent", 0, u64(0x99) + &text("#153")),
        (
            "HT_CallstackIntEvent",
            0x109,
            u64(2) + &u32(0x41) + &u64(0x99),
        ),
        (
            "FDR_CallEvent1",
            0x10c,
            u64(3) + &u32(0x41) + &u64(0x99) + &u64(0x39),
        ),
    ]
}

#[test]
fn every_record_that_is_written() {
    let (bytes, losses) = write_pieces("htdump-be", &info(), &[(thread(), events())]);
    assert!(losses.is_empty(), "{losses}");
    let known = |kind: &str| {
        !matches!(
            kind,
            "HT_EventKlassInfoEvent" | "HT_EventKlassFieldInfoEvent"
        )
    };
    let lines: Vec<_> = list(&bytes)
        .into_iter()
        .filter(|line| known(&line.2))
        .collect();
    let (first, rest) = lines.split_first().expect("a byte order");
    assert_eq!(
        (first.0, first.1, &*first.2),
        (0, 21, "HT_EndiannessInfoEvent")
    );
    let wanted = [typed_records_of_trace(), typed_records_of_events()].concat();
    for ((offset, size, kind, detail), (name, time, body)) in rest.iter().zip(&wanted) {
        assert_eq!(kind, name, "{detail}");
        let record = &bytes[*offset as usize..(*offset + *size) as usize];
        assert_eq!(record[4..12], time.to_be_bytes(), "time of {name}");
        assert_eq!(record[20..], hex(body), "{name}: {detail}");
    }
    assert_eq!(rest.len(), wanted.len());
    assert_eq!(intact(&bytes).log.events(0x41), events());
    // Numbers count all records from 0.
    let numbers = list(&bytes).into_iter().map(|(offset, ..)| {
        let number = &bytes[offset as usize + 12..offset as usize + 20];
        u64::from_be_bytes(number.try_into().expect("8 bytes"))
    });
    assert!(numbers.eq(0..list(&bytes).len() as u64));
}

#[test]
fn every_klass_is_announced_as_hawktracer_does_it() {
    let (bytes, _) = write_pieces("htdump-be", &info(), &[(thread(), events())]);
    // Number, name, number of fields.
    let klasses = [
        (0, "HT_EndiannessInfoEvent", 2),
        (1, "HT_Event", 3),
        (2, "HT_EventKlassInfoEvent", 4),
        (3, "HT_EventKlassFieldInfoEvent", 6),
        (4, "HT_CallstackBaseEvent", 3),
        (5, "HT_CallstackIntEvent", 2),
        (6, "HT_CallstackStringEvent", 2),
        (7, "HT_StringMappingEvent", 3),
        (8, "HT_SystemInfoEvent", 4),
        (9, "FDR_TraceEvent", 20),
        (10, "FDR_ThreadEvent", 12),
        (11, "FDR_FunctionEvent", 7),
        (12, "FDR_CpuEvent", 3),
        (13, "FDR_WallEvent", 5),
        (14, "FDR_LostEvent", 4),
        (15, "FDR_CustomEvent", 6),
        (16, "FDR_TypedEvent", 5),
        (322, "FDR_FlaggedCallEvent2", 4),
        (320, "FDR_FlaggedCallEvent0", 2),
        (65, "FDR_CallEvent1", 2),
    ];
    let lines = list(&bytes);
    let body = |line: &(u64, u64, String, String)| {
        bytes[line.0 as usize + 20..(line.0 + line.1) as usize].to_vec()
    };
    let announced = lines
        .iter()
        .filter(|line| line.2 == "HT_EventKlassInfoEvent")
        .map(body);
    let wanted =
        klasses.map(|(id, name, fields)| hex(&(format!("{id:08x}") + &text(name) + &u8(fields))));
    assert_eq!(announced.collect::<Vec<_>>(), wanted);
    // Some fields of each kind: klass, type, name, size, kind.
    let fields: Vec<Vec<u8>> = lines
        .iter()
        .filter(|line| line.2 == "HT_EventKlassFieldInfoEvent")
        .map(body)
        .collect();
    for (klass, type_name, name, size, kind) in [
        (0, "HT_Event", "base", 24, 1u8),
        (1, "HT_EventKlass*", "klass", 8, 6),
        (2, "HT_EventKlassId", "info_klass_id", 4, 99),
        (3, "const char*", "field_type", 8, 2),
        (4, "HT_ThreadId", "thread_id", 4, 99),
        (5, "HT_CallstackBaseEvent", "base", 40, 1),
        (5, "HT_CallstackEventLabel", "label", 8, 99),
        (8, "uint8_t", "version_patch", 1, 99),
        (322, "HT_CallstackIntEvent", "base", 48, 1),
        (322, "uint32_t", "flags", 4, 99),
        (322, "uint64_t", "argument2", 8, 99),
        (15, "const char*", "payload", 8, 2),
    ] {
        let field = format!("{klass:08x}")
            + &text(type_name)
            + &text(name)
            + &format!("{size:016x}")
            + &u8(kind);
        assert!(fields.contains(&hex(&field)), "{name} of klass {klass}");
    }
    assert_eq!(
        fields.len(),
        klasses
            .iter()
            .map(|(_, _, fields)| usize::from(*fields))
            .sum::<usize>()
    );
}
