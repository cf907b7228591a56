//! The events of process and functions byte for byte, in every form that was or may be written: a reader must take the
//! shorter form of older files, and ignore what newer ones append.

use crate::common::function;
use crate::common::hex;
use fdr_formats::bytes::ByteOrder;
use fdr_formats::identity::Identity;
use fdr_formats::model::{Counts, FunctionKind, Missing, Moment};
use fdr_formats::xray::payload::{
    Payload, decode, encode_functions, encode_identity, encode_moment, encode_process,
    encode_short_calls, encode_thread, encode_threshold,
};
use fdr_formats::{Function, FunctionId, Thread, Ticks, TraceInfo};

/// Tag, version 1, kind 4.
const HEAD: &str = "66647200 01 04 0000";
/// "demo" (4 bytes) and "exit" (4), process 4242, dump 3.
const FIXED: &str =
    "04000000 04000000 00000000 9210000000000000 0300000000000000 64656d6f 65786974";
/// 12 threads with 5000 records, 16,000 records without a place.
const MISSING: &str = "0c00000000000000 8813000000000000 803e000000000000";

const COUNTS: Missing = Missing {
    threads: 12,
    overwritten: 5000,
    dropped: 16_000,
};

fn process(program: &str, reason: &str, missing: Missing) -> Payload {
    Payload::Process {
        program: program.into(),
        reason: reason.into(),
        process: Some(4242),
        dump: Some(3),
        missing,
        end: None,
    }
}

fn read(bytes: &str) -> Option<Payload> {
    decode(&hex(bytes), ByteOrder::Little)
}

#[test]
fn what_is_missing_stands_behind_the_names() {
    let bytes = format!("{HEAD} 07000000 {FIXED} {MISSING}");
    let wanted = process("demo", "exit", COUNTS);
    assert_eq!(read(&bytes), Some(wanted.clone()));
    let info = TraceInfo {
        program: "demo".into(),
        reason: "exit".into(),
        process: Some(4242),
        dump: Some(3),
        missing: COUNTS,
        ..TraceInfo::default()
    };
    assert_eq!(encode_process(&info), hex(&bytes));
    // What a later version may append.
    assert_eq!(read(&format!("{bytes} ffffffffffffffff")), Some(wanted));
}

#[test]
fn short_calls_and_thresholds() {
    let sum = "66647200 01 09 0000 030000 3200000000";
    let short = Payload::ShortCalls {
        calls: 3,
        ticks: 50,
    };
    assert_eq!(read(sum), Some(short));
    assert_eq!(encode_short_calls(3, 50), hex(sum));
    // The higher bits of large numbers are in a second word.
    let many = "66647200 01 09 0000 050000 0700000000 010000 0200000000";
    assert_eq!(encode_short_calls((1 << 24) + 5, (2 << 40) + 7), hex(many));
    for (calls, ticks) in [
        (1 << 24, 0),
        (1, 1 << 40),
        ((1 << 48) - 1, u64::MAX),
        (0, 0),
    ] {
        let event = encode_short_calls(calls, ticks);
        let short = Payload::ShortCalls { calls, ticks };
        assert_eq!(decode(&event, ByteOrder::Little), Some(short));
    }
    let threshold = "66647200 01 0a 0000 4000000000000000";
    assert_eq!(read(threshold), Some(Payload::Threshold { ticks: 64 }));
    assert_eq!(encode_threshold(64), hex(threshold));
}

#[test]
fn identities_are_nul_terminated_texts() {
    let identity = Identity::from_bytes(b"h\0b\0i\x002.1\0k=v\0");
    // 14 bytes, 2 zeros.
    let bytes = "66647200 01 0b 0000 0e000000 00000000 6800 6200 6900 322e3100 6b3d7600 0000";
    assert_eq!(encode_identity(&identity), Some(hex(bytes)));
    assert_eq!(read(bytes), Some(Payload::Identity(identity.clone())));
    // A later version may append texts, and fields.
    let later =
        "66647200 01 0b 0000 11000000 00000000 6800 6200 6900 322e3100 6b3d7600 00 7a00 ffffffff";
    assert_eq!(read(later), Some(Payload::Identity(identity)));
    assert_eq!(encode_identity(&Identity::default()), None);
    let lies = "66647200 01 0b 0000 ffffffff 00000000 6800";
    assert_eq!(read(lies), None);
}

#[test]
fn moments_are_tick_number_and_name() {
    let moment = Moment {
        number: 33,
        time: Ticks(0x102),
        name: "größe".into(),
    };
    // 7 bytes, 1 zero.
    let bytes =
        "66647200 01 0f 0000 0201000000000000 2100000000000000 07000000 00000000 6772c3b6c39f65 00";
    assert_eq!(encode_moment(&moment), hex(bytes));
    assert_eq!(read(bytes), Some(Payload::Moment(moment.clone())));
    // A later version may append fields.
    let later = format!("{bytes} ffffffffffffffff");
    assert_eq!(read(&later), Some(Payload::Moment(moment)));
    let lies = "66647200 01 0f 0000 0201000000000000 2100000000000000 ffffffff 00000000 67";
    assert_eq!(read(lies), None);
}

#[test]
fn summarised_records_stand_behind_the_latest_tick() {
    let counts = Counts {
        recorded: 21,
        readable: 3,
        overwritten: 2,
        dropped: 4,
        summarised: 12,
        ..Counts::default()
    };
    let numbers = "1500000000000000 0300000000000000 0200000000000000 0400000000000000";
    let bytes = format!(
        "66647200 01 02 0000 07000000 01000000 {numbers} 78 00000000000000 0900000000000000 0c00000000000000"
    );
    let thread = Thread {
        name: "x".into(),
        counts: Some(counts),
        ..Thread::default()
    };
    let wanted = Payload::Thread {
        name: "x".into(),
        counts: Some(counts),
        latest: Some(Ticks(9)),
    };
    assert_eq!(encode_thread(&thread, Some(Ticks(9))), hex(&bytes));
    assert_eq!(read(&bytes), Some(wanted));
}

#[test]
fn names_are_filled_up_to_eight_bytes() {
    // "demos" and "exit": 9 bytes, 7 zeros.
    let bytes = format!(
        "{HEAD} 07000000 05000000 04000000 00000000 9210000000000000 0300000000000000 \
         64656d6f73 65786974 00000000000000 {MISSING}"
    );
    assert_eq!(read(&bytes), Some(process("demos", "exit", COUNTS)));
}

#[test]
fn the_older_form_says_nothing_of_it() {
    let old = process("demo", "exit", Missing::default());
    assert_eq!(read(&format!("{HEAD} 03000000 {FIXED}")), Some(old.clone()));
    let longer = format!("{HEAD} 03000000 {FIXED} {MISSING}");
    assert_eq!(read(&longer), Some(old), "without its bit, it is not read");
}

#[test]
fn an_event_that_is_cut_is_damaged() {
    let whole = hex(&format!("{HEAD} 07000000 {FIXED} {MISSING}"));
    for end in 4..whole.len() {
        assert_eq!(decode(&whole[..end], ByteOrder::Little), None, "{end}");
    }
    // Lengths of 2^32 - 1 bytes each.
    let hostile = FIXED.replacen("04000000 04000000", "ffffffff ffffffff", 1);
    assert_eq!(read(&format!("{HEAD} 07000000 {hostile} {MISSING}")), None);
}

/// Tag, version 1, kind 1.
const FUNCTIONS_HEAD: &str = "66647200 01 01 0000";
/// Functions 1, "a" in "x.rs":7, 2, "bc" without a place, and 9, which has no name: 7 bytes of texts.
const THREE: &str = "01000000 07000000 01000000 04000000 61 782e7273 \
                     02000000 00000000 02000000 00000000 6263 \
                     09000000 00000000 00000000 00000000";

/// The three, of which those at these places are untimed.
fn three(untimed: &[usize]) -> Vec<Function> {
    let mut list = vec![
        function(1, "a", "x.rs", 7),
        function(2, "bc", "", 0),
        function(9, "", "", 0),
    ];
    untimed.iter().for_each(|&at| list[at].untimed = true);
    list
}

fn encoded(functions: &[Function]) -> Vec<u8> {
    let mut batches: Vec<Vec<u8>> = encode_functions(functions).collect();
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

#[test]
fn functions_with_times_are_written_as_ever() {
    let bytes = hex(&format!("{FUNCTIONS_HEAD} 03000000 00000000 {THREE} 00"));
    assert_eq!(encoded(&three(&[])), bytes);
    let read = decode(&bytes, ByteOrder::Little);
    assert_eq!(read, Some(Payload::Functions(three(&[]))));
}

#[test]
fn untimed_functions_stand_behind_all_by_their_places() {
    let list = "02000000 00000000 02000000 00000000";
    let bytes = hex(&format!(
        "{FUNCTIONS_HEAD} 03000000 01000000 {THREE} 00 {list}"
    ));
    assert_eq!(encoded(&three(&[0, 2])), bytes);
    let wanted = Some(Payload::Functions(three(&[0, 2])));
    assert_eq!(decode(&bytes, ByteOrder::Little), wanted);
    // Without the bit, as an older reader takes it.
    let mut older = bytes.clone();
    older[12] = 0;
    let read = decode(&older, ByteOrder::Little);
    assert_eq!(read, Some(Payload::Functions(three(&[]))));
    // Cut in the list, or a place that no function has: damaged. The last four bytes are padding.
    for end in 72..bytes.len() - 4 {
        assert_eq!(decode(&bytes[..end], ByteOrder::Little), None, "{end}");
    }
    let mut beyond = bytes.clone();
    beyond[80] = 3;
    assert_eq!(decode(&beyond, ByteOrder::Little), None);
    // 2^32 - 1 untimed ones.
    let mut hostile = bytes;
    hostile[72..76].fill(0xFF);
    assert_eq!(decode(&hostile, ByteOrder::Little), None);
}

#[test]
fn functions_without_calls_stand_last_by_place() {
    let mut functions = three(&[1]);
    (functions[0].kind, functions[2].kind) = (FunctionKind::Event, FunctionKind::Name);
    let untimed = "01000000 01000000";
    let named = "02000000 00000001 02000002";
    let bytes = hex(&format!(
        "{FUNCTIONS_HEAD} 03000000 03000000 {THREE} 00 {untimed} {named} 00000000"
    ));
    assert_eq!(encoded(&functions), bytes);
    let read = |bytes: &[u8]| decode(bytes, ByteOrder::Little);
    assert_eq!(read(&bytes), Some(Payload::Functions(functions.clone())));
    // As a reader takes it that does not know the bit.
    let mut older = bytes.clone();
    older[12] = 1;
    assert_eq!(read(&older), Some(Payload::Functions(three(&[1]))));
    // Without untimed functions the list is the first one.
    functions[1].untimed = false;
    let alone = hex(&format!(
        "{FUNCTIONS_HEAD} 03000000 02000000 {THREE} 00 {named} 00000000"
    ));
    assert_eq!(encoded(&functions), alone);
    assert_eq!(read(&alone), Some(Payload::Functions(functions)));
    // A place that no function has, and 2^32 - 1 of them.
    let mut beyond = alone.clone();
    beyond[76] = 3;
    assert_eq!(read(&beyond), None);
    let mut hostile = alone;
    hostile[72..76].fill(0xFF);
    assert_eq!(read(&hostile), None);
}

#[test]
fn every_batch_has_its_own_untimed_functions() {
    let function = |id: u32| Function {
        id: FunctionId(id),
        name: "n".repeat(1 + id as usize % 90),
        untimed: id % 7 == 3,
        ..Function::default()
    };
    let all: Vec<Function> = (1..3000).map(function).collect();
    let (mut read, mut batches) = (Vec::new(), 0);
    for batch in encode_functions(&all) {
        match decode(&batch, ByteOrder::Little) {
            Some(Payload::Functions(functions)) => read.extend(functions),
            other => panic!("{other:?}"),
        }
        batches += 1;
    }
    assert!(batches > 3 && read == all, "{batches} batches");
}

#[test]
fn dump_moments_stand_behind_missing_counts() {
    // Bit 3, and tick 0x0102030405.
    let bytes = format!("{HEAD} 0f000000 {FIXED} {MISSING} 0504030201000000");
    let end = Some(Ticks(0x01_0203_0405));
    let info = TraceInfo {
        program: "demo".into(),
        reason: "exit".into(),
        process: Some(4242),
        dump: Some(3),
        missing: COUNTS,
        end,
        ..TraceInfo::default()
    };
    assert_eq!(encode_process(&info), hex(&bytes));
    let Some(Payload::Process { end: read, .. }) = read(&bytes) else {
        panic!("not read");
    };
    assert_eq!(read, end);
    // The bit without the number.
    let cut = format!("{HEAD} 0f000000 {FIXED} {MISSING}");
    assert_eq!(self::read(&cut), None);
}
