//! Every kind of record of a CTF folder, typed by hand: what the writer makes of each event, and what
//! the reader makes of those bytes. Shares nothing with the encoder.

use crate::common::ctf::{packets, read_whole, write};
use crate::common::{Event, Folder, call, enter, exit, function, hex, synthetic, with_arguments};
use fdr_formats::model::{Counts, Identity, Missing};
use fdr_formats::{Clock, Edge, Thread, ThreadId, Ticks, TraceInfo};

fn info() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency: 1_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(0.5),
            constant: true,
            nonstop: false,
            anchor: Some((Ticks(5), 1_700_000_000_000_000_007)),
            ..Clock::default()
        },
        functions: vec![function(1, "a", "a.rs", 3), function(9, "é", "", 0)],
        program: "prog".into(),
        process: Some(4242),
        reason: "exit".into(),
        dump: Some(2),
        end: Some(Ticks(0x20)),
        identity: Identity::from_bytes(b"h\0b\0i\x001.2\0k=v\0"),
        missing: Missing {
            threads: 1,
            overwritten: 2,
            dropped: 3,
        },
        ..TraceInfo::default()
    }
}

fn worker() -> Thread {
    Thread {
        id: ThreadId(0x1_0000_0007),
        process: None,
        name: "wörker".into(),
        counts: Some(Counts {
            recorded: 30,
            readable: 20,
            overwritten: 7,
            dropped: 3,
            synthetic_entries: 1,
            synthetic_exits: 0,
            summarised: 0,
        }),
        ..Thread::default()
    }
}

fn events() -> Vec<Event> {
    vec![
        Event::Wall(0x0102_0304, 0x0708),
        Event::Cpu(0x10, 3),
        Event::Call(synthetic(enter(0x10, 1))),
        with_arguments(enter(0x11, 9)),
        Event::Argument(0xdead_beef),
        Event::Argument(7),
        Event::Custom(0x12, None, b"hi".to_vec()),
        Event::Custom(0x12, Some(5), vec![]),
        Event::Typed(0x13, 0x0201, vec![0xff]),
        Event::Lost(6),
        Event::Call(call(0x14, 9, Edge::TailExit)),
        Event::Call(exit(0x15, 1)),
    ]
}

/// The last 60 bytes of a packet's head, without UUID: stream, instance, times, bits, number, losses.
fn head(
    stream: &str,
    instance: &str,
    times: [u8; 2],
    bytes: u16,
    rest: [u8; 2],
    cpu: &str,
) -> String {
    let word = |value: u64| -> String {
        let bytes = value.to_le_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let bits = word(u64::from(bytes) * 8);
    let [begin, end] = times.map(|time| word(time.into()));
    let [number, lost] = rest.map(|number| word(number.into()));
    format!("{stream} {instance} {begin} {end} {bits} {bits} {number} {lost} {cpu}")
}

#[test]
fn a_threads_file_has_these_bytes() {
    let (folder, losses) = write(&info(), &[(worker(), events())]);
    assert_eq!(losses.to_string(), "");
    let bytes = folder.bytes("thread-4294967303");
    let uuid = &bytes[4..20];
    // Process 4242, a number of the thread's own, for its own has 33 bits, and its name up to a zero.
    let context = "92100000 ffffff7f 77c3b6726b6572 00";
    let (stream, instance) = ("00000000", "0700000001000000");
    let time = |low: u8| format!("{low:02x}00000000000000 {context}");
    let parts = [
        // 10 records are lost before the first event by the counts: between two packets.
        head(stream, instance, [0x10, 0x10], 85, [0, 0], "ffffffff 00"),
        // A wall time has no CPU.
        head(
            stream,
            instance,
            [0x10, 0x10],
            85 + 37,
            [1, 10],
            "ffffffff 00",
        ),
        format!("06 {} 0403020100000000 08070000", time(0x10)),
        head(
            stream,
            instance,
            [0x10, 0x15],
            85 + 322,
            [2, 10],
            "03000000 01",
        ),
        format!("00 {} 01000000 00000000 01", time(0x10)),
        format!("00 {} 09000000 01000000 04", time(0x11)),
        format!(
            "02 {} 02000000 efbeadde00000000 0700000000000000",
            time(0x11)
        ),
        format!("03 {} ffffffffffffffff 02000000 6869", time(0x12)),
        format!("03 {} 0500000000000000 00000000", time(0x12)),
        format!("04 {} 0102 01000000 ff", time(0x13)),
        // The counts hold these 6 already: no packet begins.
        format!("05 {} 0600000000000000", time(0x13)),
        format!("01 {} 09000000 01000000 02", time(0x14)),
        format!("01 {} 01000000 00000000 00", time(0x15)),
    ];
    let mut wanted = Vec::new();
    for part in &parts {
        let part = hex(part);
        if part.len() == 65 {
            wanted.extend(hex("c11ffcc1"));
            wanted.extend(uuid);
        }
        wanted.extend(part);
    }
    assert_eq!(bytes, wanted);
    let metadata = folder.text("metadata");
    let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let stated = metadata
        .split('"')
        .find(|text| text.replace('-', "") == uuid);
    assert!(stated.is_some(), "{uuid} in {metadata}");
    let read = read_whole(folder.path());
    assert_eq!(read.log.events(0x1_0000_0007), events());
}

#[test]
fn the_file_of_facts_has_these_bytes() {
    let (folder, _) = write(&info(), &[(worker(), events())]);
    let bytes = folder.bytes("facts");
    let time = "1000000000000000";
    let trace = format!(
        "00 {time} 04000000 70726f67 04000000 65786974 06000000 726474736370 1f \
         9210000000000000 0200000000000000 0100000000000000 0200000000000000 0300000000000000 \
         00ca9a3b00000000 000000000000e03f 01 00 0500000000000000 07002a36fe9c9717 \
         2000000000000000 01000000 68 01000000 62 01000000 69 03000000 312e32 03000000 6b3d76"
    );
    let functions = format!(
        "01 {time} 01000000 03000000 01000000 61 04000000 612e7273 \
         01 {time} 09000000 00000000 02000000 c3a9 00000000"
    );
    let thread = format!(
        "02 {time} 0700000001000000 02 0000000000000000 07000000 77c3b6726b6572 \
         1e00000000000000 1400000000000000 0700000000000000 0300000000000000 \
         0100000000000000 0000000000000000"
    );
    let packets = packets(&bytes);
    assert_eq!(packets.len(), 1);
    let packet = &packets[0];
    assert_eq!(
        (packet.begin, packet.cpu, packet.discarded),
        (0x10, u32::MAX, 0)
    );
    assert_eq!(packet.events, hex(&(trace + &functions + &thread)));

    let read = read_whole(folder.path());
    let wanted = info();
    assert_eq!(read.info.clock, wanted.clock);
    assert_eq!(read.info.functions, wanted.functions);
    assert_eq!(read.info.threads, [worker()]);
    assert_eq!(read.info.missing, wanted.missing);
    assert_eq!(read.info.identity, wanted.identity);
    let facts = (
        &*read.info.program,
        &*read.info.reason,
        read.info.process,
        read.info.dump,
    );
    assert_eq!(facts, ("prog", "exit", Some(4242), Some(2)));
    assert_eq!(read.info.start, Some(Ticks(0x10)));
    assert_eq!(read.info.end, Some(Ticks(0x20)));
}

#[test]
fn trace_compass_gets_names_and_first_calls() {
    let (folder, _) = write(
        &info(),
        &[(
            worker(),
            vec![
                Event::Call(exit(20, 9)),
                Event::Call(enter(21, 1)),
                Event::Call(exit(22, 1)),
                Event::Call(exit(23, 1)),
            ],
        )],
    );
    let names = folder.text(".fdr-functions.txt");
    assert_eq!(names, "0000000000000001 T a\n0000000000000009 T é\n");
    let state = ".tc-states/org.eclipse.linuxtools.lttng2.ust.analysis.callstack.snapshot.json";
    let state = String::from_utf8(folder.bytes(state)).expect("UTF-8");
    let start = 1_700_000_000_000_000_002i64 + 20;
    let attribute = |quark: u32, path: &str, value: &str| {
        format!(
            r#"{{"Path":[{path}],"Value":{{"start":{start},"end":-9223372036854775808,"quark":{quark},{value}}}}}"#
        )
    };
    let thread = r#""Processes","4242","wörker-2147483647""#;
    let typed = |kind: &str, value: u32| format!(r#""type":"java.lang.{kind}","value":{value}"#);
    let attributes = [
        attribute(0, r#""Processes""#, r#""type":"null""#),
        attribute(1, r#""Processes","4242""#, &typed("Integer", 4242)),
        attribute(2, thread, &typed("Long", 2_147_483_647)),
        attribute(3, &format!(r#"{thread},"CallStack""#), &typed("Integer", 2)),
        attribute(
            4,
            &format!(r#"{thread},"CallStack","1""#),
            &typed("Long", 1),
        ),
        attribute(
            5,
            &format!(r#"{thread},"CallStack","2""#),
            &typed("Long", 9),
        ),
    ];
    let wanted = format!(
        r#"{{"snapshot_format_version":1,"ssid":"org.eclipse.linuxtools.lttng2.ust.analysis.callstack","snapshot_version":3,"timestamp":0,"attributes":[{}],"fEndTime":{start},"fStartTime":{start}}}"#,
        attributes.join(",")
    );
    assert_eq!(state, wanted);
}

#[test]
fn empty_facts_make_no_file() {
    let nested = vec![Event::Call(enter(1, 1)), Event::Call(exit(2, 1))];
    let (folder, _) = write(&TraceInfo::default(), &[(worker(), nested)]);
    assert!(!folder.has(".tc-states"), "every call has its entry");
    assert!(!folder.has(".fdr-functions.txt"), "no function has a name");
    let _: &Folder = &folder;
}
