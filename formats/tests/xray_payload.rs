//! The process event byte for byte, in every form that was or may be written: a reader must take the
//! shorter form of older files, and ignore what newer ones append.
mod common;

use common::hex;
use fdr_formats::TraceInfo;
use fdr_formats::bytes::ByteOrder;
use fdr_formats::model::Missing;
use fdr_formats::xray::payload::{Payload, decode, encode_process};

/// Tag, version 1, kind 4.
const HEAD: &str = "66647200 01 04 0000";
/// "demo" (4 bytes) and "exit" (4), process 4242, dump 3.
const FIXED: &str =
    "04000000 04000000 00000000 9210000000000000 0300000000000000 64656d6f 65786974";
/// 12 threads with 5000 records, 16,000 records without a place.
const MISSING: &str = "0c00000000000000 8813000000000000 803e000000000000";

const COUNTS: Missing = Missing {
    retired_threads: 12,
    retired_records: 5000,
    unplaced_records: 16_000,
};

fn process(program: &str, reason: &str, missing: Missing) -> Payload {
    Payload::Process {
        program: program.into(),
        reason: reason.into(),
        process: Some(4242),
        dump: Some(3),
        missing,
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
