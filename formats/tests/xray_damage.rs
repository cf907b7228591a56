//! Damaged XRay files: how the reader finds their blocks, at which offset it reports damage, and that the listing and
//! the decoder see the same records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{CALL, CountingBytes, END, extents, file, header, hex, list, preamble, read};
use fdr_formats::registry;

/// Asserts how much of a file is read to open it, and how many threads are found.
fn opens_cheaply(case: &str, bytes: Vec<u8>, threads: usize) {
    let size = bytes.len() as u64;
    let count = Arc::new(AtomicU64::new(0));
    let bytes = CountingBytes(bytes, Arc::clone(&count));
    let source = registry::open(Box::new(bytes)).expect("readable");
    assert_eq!(source.lanes(), threads, "{case}");
    let read = count.load(Ordering::Relaxed);
    assert!(
        read <= 3 * size,
        "{case}: {read} bytes of {size} were read, {:.1} times the file",
        read as f64 / size as f64
    );
}

#[test]
fn tiny_blocks_are_read_few_times() {
    const BLOCKS: usize = 10_000;
    let preamble_1 = preamble(1, 16);
    let many = |head: String, block: &[&str]| {
        let mut bytes = hex(&head);
        bytes.extend(file(block).repeat(BLOCKS));
        bytes
    };
    let blocks = [
        ("one byte short", extents(63)),
        ("one byte long", extents(65)),
        ("far too long", extents(100_000)),
        ("out of the file", extents(1 << 40)),
    ];
    for (case, extents) in blocks {
        let bytes = many(header(3, 0), &[&extents, &preamble_1, CALL]);
        opens_cheaply(case, bytes, 1);
    }
    for size in [0, 64, 50, 100_000, 1 << 40] {
        let bytes = many(header(1, size), &[&preamble_1, END]);
        opens_cheaply(&format!("buffers of {size} bytes"), bytes, 1);
    }
    // Nothing in it is a block: extents that lead nowhere.
    let bytes = many(header(3, 0), &[&extents(50), &END.repeat(3)]);
    opens_cheaply("no blocks", bytes, 0);
}

#[test]
fn unlisted_problems_are_counted() {
    let mut bytes = hex(&header(3, 0));
    bytes.extend(file(&[&extents(63), &preamble(1, 16), CALL]).repeat(300));
    let source = registry::open(Box::new(bytes)).expect("readable");
    let diagnostics = source.diagnostics();
    assert_eq!(diagnostics.len(), 101);
    // One byte is skipped after every block but the last, which leaves the file.
    assert!(
        diagnostics[100].what.starts_with("200 more"),
        "{:?}",
        diagnostics[100]
    );
    assert_eq!(diagnostics[100].offset, diagnostics[99].offset);
}

/// A custom event with this payload.
fn event(payload: &str) -> String {
    let bytes = hex(payload).len();
    format!("0b {bytes:02x}000000 1000000000000000 000000 {payload}")
}

#[test]
fn damaged_events_are_reported_once() {
    // Kind 2, thread, that ends early.
    let damaged = event("66647200 01 02 0000 0000000000000000");
    let synthetic = event("66647200 01 06 0000");
    let cases = [
        ("in the head", [&damaged, CALL], 96),
        ("among the calls", [CALL, &damaged], 112),
        ("of single records", [CALL, &synthetic], 112),
    ];
    for (case, records, offset) in cases {
        let extents = extents(48 + hex(&records.concat()).len() as u64);
        let parts = [&*header(3, 0), &extents, &preamble(1, 16)];
        let read = read(&file(&[&parts[..], &records].concat())).expect("readable");
        let offsets = read.offsets();
        assert_eq!(offsets, [offset], "{case}: {:?}", read.diagnostics);
        assert_eq!(read.log.calls(1).len(), 2, "{case}");
    }
}

#[test]
fn events_without_time_are_reported_at_records() {
    let start = "01 01000000 0000000000000000000000";
    // Version 5: both have a time relative to the running base, which is not there.
    let custom = format!("0b 04000000 05000000 {} 61626364", "00".repeat(7));
    let typed = format!("11 04000000 05000000 0100 {} 61626364", "00".repeat(5));
    for event in [custom, typed] {
        let parts = [&*header(5, 0), &extents(36), start, &event];
        let read = read(&file(&parts)).expect("readable");
        let offsets = read.offsets();
        assert_eq!(offsets, [64], "{:?}", read.diagnostics);
    }
}

#[test]
fn payloads_of_cut_blocks_are_no_records() {
    let preamble_1 = preamble(1, 16);
    let event = format!("0b 40000000 1000000000000000 000000 {CALL}{CALL}");
    for (version, head) in [(3, extents(48 + 16 + 16 + 64)), (1, String::new())] {
        let bytes = file(&[&header(version, 0), &head, &preamble_1, CALL, &event]);
        let at = bytes.len() as u64 - 32;
        let lines = list(&bytes);
        let lines: Vec<_> = lines
            .iter()
            .map(|(offset, size, kind, _)| (*offset, *size, &**kind))
            .collect();
        let wanted = [
            (at - 32, 8, "Entry"),
            (at - 24, 8, "Exit"),
            (at - 16, 16, "CustomEvent"),
            (at, 32, "Cut"),
        ];
        assert_eq!(&lines[lines.len() - 4..], wanted, "version {version}");
        let read = read(&bytes).expect("readable");
        assert_eq!(read.log.calls(1).len(), 2, "as it is decoded");
    }
    // In a whole block the event's size is wrong, and records go on behind it.
    let bytes = file(&[&header(3, 0), &extents(112), &preamble_1, CALL, &event]);
    assert_eq!(
        list(&bytes).iter().filter(|line| line.2 == "Entry").count(),
        3
    );
    assert_eq!(read(&bytes).expect("readable").log.calls(1).len(), 6);
    // Cut just behind the record: no line without bytes.
    let mut bytes = file(&[&header(3, 0), &extents(112), &preamble_1, CALL, &event]);
    bytes.truncate(bytes.len() - 32);
    assert_eq!(list(&bytes).last().expect("lines").2, "CustomEvent");
}

#[test]
fn functions_listed_twice_are_kept_once() {
    let function = |name: &str| {
        format!(
            "66647200 01 01 0000 01000000 00000000 \
             05000000 00000000 01000000 00000000 {name} 000000"
        )
    };
    let events: String = ["61", "62", "63"]
        .map(|name| event(&function(name)))
        .concat();
    let extents = extents(48 + hex(&events).len() as u64);
    let parts = [&*header(3, 0), &extents, &preamble(1, 16), &events];
    let read = read(&file(&parts)).expect("readable");
    assert_eq!(read.diagnostics, []);
    let names = read.names();
    assert_eq!(names, ["a"]);
}
