//! The reader beyond the golden files: big-endian files, version 1 as different programs wrote it,
//! damage and what is saved from it, and how much of a huge file is read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{
    self, CALL, END, Event, EventLog, ReadTrace, cut_everywhere, enter, exit, extents, file,
    flip_everywhere, header, hex, list, preamble, read,
};
use fdr_formats::bytes::ReadAt;
use fdr_formats::source::{drive, drive_parallel};
use fdr_formats::xray::XraySource;
use fdr_formats::{Sink, Source, ThreadId, Ticks};

fn golden(name: &str) -> Vec<u8> {
    common::golden(&format!("xray/{name}.fdr"))
}

/// A little-endian file turned into a big-endian one, field by field, by a table of its own.
fn big_endian(little: &[u8]) -> Vec<u8> {
    let version = little[0];
    let mut big = Vec::new();
    let swap = |big: &mut Vec<u8>, field: &[u8]| big.extend(field.iter().rev());
    for (from, to) in [(0, 2), (2, 4)] {
        swap(&mut big, &little[from..to]);
    }
    // Bits 0 and 1 become bits 31 and 30.
    big.extend([little[4].reverse_bits(), 0, 0, 0]);
    for (from, to) in [(8, 16), (16, 24), (24, 32)] {
        swap(&mut big, &little[from..to]);
    }
    let mut at = 32;
    while let Some(&first) = little.get(at) {
        if first & 1 == 0 {
            let word = u32::from_le_bytes(little[at..at + 4].try_into().expect("four bytes"));
            big.extend(((word >> 1 & 7) << 28 | word >> 4).to_be_bytes());
            swap(&mut big, &little[at + 4..at + 8]);
            at += 8;
            continue;
        }
        let fields: &[usize] = match first >> 1 {
            0 | 9 => &[4],
            1 => &[],
            2 => &[2, 8],
            3 | 6 | 7 => &[8],
            4 => &[8, 4],
            5 if version == 4 => &[4, 8, 2],
            5 if version == 5 => &[4, 4],
            5 => &[4, 8],
            _ => &[4, 4, 2],
        };
        big.push(0x80 | first >> 1);
        let mut field = at + 1;
        for size in fields {
            swap(&mut big, &little[field..field + size]);
            field += size;
        }
        big.resize(big.len() + at + 16 - field, 0);
        let payload = match first >> 1 {
            5 | 8 => usize::from(little[at + 1]),
            _ => 0,
        };
        big.extend(&little[at + 16..at + 16 + payload]);
        at += 16 + payload;
    }
    big
}

#[test]
fn big_endian_files_hold_the_same() {
    for name in [
        "v1-std", "v1-mt", "v2-std", "v3-mt", "v4-std", "v5-std", "v5-mt", "v1-tid32",
    ] {
        let little = golden(name);
        let big = big_endian(&little);
        assert_eq!(big.len(), little.len());
        let (first, second) = (
            read(&little).expect("readable"),
            read(&big).expect("readable"),
        );
        assert_eq!(first.log, second.log, "{name}");
        assert_eq!(second.diagnostics, [], "{name}");
        assert_eq!(first.info.clock, second.info.clock);
        assert!(second.info.format.ends_with("big-endian"));
    }
    cut_everywhere(&big_endian(&golden("v3-std")), 0, 1);
    flip_everywhere(&big_endian(&golden("v1-min")), 0, 1);
}

fn one_call_each(read: &ReadTrace, threads: &[u64]) {
    let found = read.thread_ids();
    assert_eq!(found, threads);
    for &thread in threads {
        let start = thread * 16;
        assert_eq!(
            read.log.calls(thread),
            [enter(start, 1), exit(start + 5, 1)]
        );
    }
}

#[test]
fn version_1_is_read_in_both_layouts() {
    let (preamble_1, preamble_2) = (preamble(1, 16), preamble(2, 32));
    let junk = "aa".repeat(24);
    let fixed = [
        &preamble_1,
        CALL,
        END,
        &*junk,
        &preamble_2,
        CALL,
        END,
        &junk,
    ];
    let dense = [&preamble_1, CALL, END, &*preamble_2, CALL, END];
    let tool_fill = format!("0b 08000000 {} {}", "00".repeat(11), "00".repeat(8));
    let filled = [
        &preamble_1,
        CALL,
        END,
        &*tool_fill,
        &preamble_2,
        CALL,
        END,
        &tool_fill,
    ];
    let repeated = [
        &preamble_1,
        CALL,
        END,
        &*junk,
        &header(1, 104),
        &preamble_2,
        CALL,
        END,
        &junk,
    ];
    for (size, blocks) in [
        (104, &fixed[..]),
        (104, &filled),
        (104, &repeated),
        // No size, a size that is wrong, and the size of the whole data section.
        (0, &dense),
        (7000, &dense),
        (160, &dense),
        (0, &fixed),
    ] {
        let head = header(1, size);
        let parts: Vec<&str> = std::iter::once(&*head)
            .chain(blocks.iter().copied())
            .collect();
        let read = read(&file(&parts)).expect("readable");
        one_call_each(&read, &[1, 2]);
        let skipped_gaps = usize::from(size == 0 && blocks.len() == fixed.len());
        assert_eq!(
            read.diagnostics.len(),
            skipped_gaps,
            "{size}: {:?}",
            read.diagnostics
        );
    }
}

#[test]
fn a_buffer_without_its_end_is_reported() {
    let read = read(&file(&[&header(1, 0), &preamble(1, 16), CALL])).expect("readable");
    one_call_each(&read, &[1]);
    assert_eq!(read.diagnostics.len(), 1);
    assert_eq!(read.diagnostics[0].offset, 96);
}

#[test]
fn blocks_behind_damage_are_found() {
    let (preamble_1, preamble_2) = (preamble(1, 16), preamble(2, 32));
    let (head, right) = (header(3, 0), extents(64));
    let second = [&right, &preamble_2, CALL].map(|part| part as &str);
    let cases: [(&str, &[&str], u64); 4] = [
        ("extents too long", &[&extents(100), &preamble_1, CALL], 112),
        (
            "extents out of the file",
            &[&extents(1 << 40), &preamble_1, CALL],
            112,
        ),
        (
            "junk between blocks",
            &[&right, &preamble_1, CALL, "ee ee ee"],
            112,
        ),
        (
            "junk at the start",
            &["ee ee ee", &right, &preamble_1, CALL],
            32,
        ),
    ];
    for (case, first, offset) in cases {
        let parts = [&[&*head], first, &second].concat();
        let read = read(&file(&parts)).expect("readable");
        one_call_each(&read, &[1, 2]);
        let offsets = read.offsets();
        assert_eq!(offsets, [offset], "{case}: {:?}", read.diagnostics);
    }
    // Alike, but no wall-clock time has that many microseconds.
    let alike = preamble(9, 16).replace(" 00000000 000000", " ffffffff 000000");
    let parts = [
        &*head,
        "ee",
        &right,
        &alike,
        CALL,
        &right,
        &preamble_1,
        CALL,
    ];
    one_call_each(&read(&file(&parts)).expect("readable"), &[1]);
    // Extents that are too short lose the rest of their own block only.
    let short = extents(56);
    let parts = [&*head, &short, &preamble_1, CALL, &right, &preamble_2, CALL];
    let read = read(&file(&parts)).expect("readable");
    assert_eq!(read.log.calls(1), [enter(16, 1)]);
    assert_eq!(read.log.calls(2).len(), 2);
}

#[test]
fn damaged_records_are_skipped_and_reported() {
    let preamble_1 = preamble(1, 16);
    let huge = format!("0b ffffff7f {}", "00".repeat(11));
    let empty = format!("0b 00000000 {}", "00".repeat(11));
    let negative = format!("11 ffffffff {}", "00".repeat(11));
    let unknown = format!("7f {}", "00".repeat(15));
    let argument = format!("05 0100 1000000000000000 0000000000 0d {}", "00".repeat(15));
    let cases = [
        (&*huge, 1),
        (&empty, 1),
        (&negative, 1),
        (&unknown, 1),
        ("1e000000 00000000", 1),
        (&argument, 1),
        (&preamble_1, 1),
        (END, 1),
        (&*extents(5), 1),
    ];
    for (record, diagnostics) in cases {
        let bytes = hex(record).len() as u64;
        let parts = [
            &*header(3, 0),
            &extents(64 + bytes),
            &preamble_1,
            record,
            CALL,
        ];
        let read = read(&file(&parts)).expect("readable");
        assert_eq!(read.log.calls(1), [enter(16, 1), exit(21, 1)], "{record}");
        assert_eq!(
            read.diagnostics.len(),
            diagnostics,
            "{record}: {:?}",
            read.diagnostics
        );
        assert!(read.diagnostics[0].offset >= 96, "{:?}", read.diagnostics);
    }
}

#[test]
fn calls_without_a_time_are_not_invented() {
    let timeless = "01 01000000 0000000000000000000000 09 0100000000000000 00000000 000000";
    let parts = [&*header(2, 0), &extents(48), timeless, CALL];
    let alone = read(&file(&parts)).expect("readable");
    assert_eq!(alone.log.calls(1), []);
    assert_eq!(alone.diagnostics.len(), 2);
    // A block does not go on with the time of the one before it.
    let parts = [
        &*header(2, 0),
        &extents(64),
        &preamble(1, 16),
        CALL,
        &extents(48),
        timeless,
        CALL,
    ];
    let read = read(&file(&parts)).expect("readable");
    assert_eq!(read.log.calls(1), [enter(16, 1), exit(21, 1)]);
    assert_eq!(read.diagnostics.len(), 2);
}

#[test]
fn a_frequency_of_zero_is_reported() {
    let mut bytes = golden("v3-std");
    bytes[8..16].fill(0);
    let read = read(&bytes).expect("readable");
    assert_eq!(read.info.clock.frequency, 1_000_000_000);
    assert_eq!(read.diagnostics.len(), 1);
    assert_eq!(read.diagnostics[0].offset, 8);
}

#[test]
fn diagnostics_do_not_flood() {
    let unknown = format!("7f {}", "00".repeat(15)).repeat(5000);
    let parts = [
        &*header(3, 0),
        &extents(48 + 80_000),
        &preamble(1, 16),
        &unknown,
    ];
    let read = read(&file(&parts)).expect("readable");
    assert_eq!(read.diagnostics.len(), 101);
    assert!(read.diagnostics[100].what.starts_with("4900 more"));
    // Told at the last problem that is listed.
    assert_eq!(read.diagnostics[100].offset, read.diagnostics[99].offset);
    assert_eq!(read.diagnostics[100].offset, 96 + 99 * 16);
}

#[test]
fn monstrous_events_are_kept_in_part() {
    const MIB: usize = 1 << 20;
    for (size, size_kept) in [(3 * MIB, 3 * MIB), (17 * MIB, 16 * MIB)] {
        let event: String = (size as u32)
            .to_le_bytes()
            .map(|byte| format!("{byte:02x}"))
            .concat();
        let event = format!("0b {event} 1100000000000000 000000");
        let extents = extents(48 + 16 + 16 + size as u64);
        let mut bytes = file(&[&header(3, 0), &extents, &preamble(1, 16), &event]);
        bytes.resize(bytes.len() + size, b'x');
        bytes.extend(hex(CALL));
        let read = read(&bytes).expect("readable");
        let data = read.log.events(1).iter().find_map(|event| match event {
            Event::Custom(17, None, data) => Some(data.len()),
            _ => None,
        });
        assert_eq!(data, Some(size_kept));
        assert_eq!(read.log.calls(1).len(), 2);
        assert_eq!(read.diagnostics.len(), usize::from(size_kept < size));
        assert_eq!(list(&bytes).len(), 8);
    }
}

#[test]
fn blocks_of_a_thread_are_time_ordered() {
    let blocks = [9u8, 2, 5].map(|tsc| format!("{}{}{CALL}", extents(64), preamble(1, tsc)));
    let parts = [&header(3, 0), &*blocks[0], &blocks[1], &blocks[2]];
    let read = read(&file(&parts)).expect("readable");
    assert_eq!(read.info.start, Some(Ticks(2)));
    let times = read.log.times(1);
    assert_eq!(times, [2, 7, 5, 10, 9, 14]);
}

#[test]
fn parallel_decoding_gives_the_same() {
    let source = XraySource::open(Box::new(golden("llvm19-demo-v5"))).expect("readable");
    let (mut log, done) = (EventLog::default(), AtomicU64::new(0));
    let progress = |bytes| _ = done.fetch_add(bytes, Ordering::Relaxed);
    drive(&source, &mut log, &progress).expect("readable");
    let lanes = (0..source.lanes())
        .map(|lane| source.lane_bytes(lane))
        .sum::<u64>();
    assert_eq!(
        done.into_inner(),
        lanes,
        "progress ends at the sum of all lanes"
    );
    let many = drive_parallel(&source, 3, EventLog::default, &|_| {}).expect("readable");
    let mut threads: Vec<(ThreadId, Vec<Event>)> =
        many.into_iter().flat_map(|log| log.threads).collect();
    threads.sort_by_key(|(id, _)| *id);
    log.threads.sort_by_key(|(id, _)| *id);
    assert_eq!(threads, log.threads);
}

/// A file of 100 GB that exists nowhere: 100 blocks, in which the same call repeats.
struct Huge {
    read: Arc<AtomicU64>,
    head: Vec<u8>,
    block: Vec<u8>,
    call: Vec<u8>,
}

const BLOCK: u64 = 1_000_000_000;

impl ReadAt for Huge {
    fn size(&self) -> u64 {
        32 + 100 * BLOCK
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        for (at, byte) in (offset..).zip(buffer.iter_mut()) {
            let Some(place) = at.checked_sub(32) else {
                *byte = self.head[at as usize];
                continue;
            };
            let within = (place % BLOCK) as usize;
            *byte = match self.block.get(within) {
                // The thread is the number of the block.
                Some(_) if within == 17 => (place / BLOCK) as u8,
                Some(byte) => *byte,
                None => self.call[within % self.call.len()],
            };
        }
        Ok(buffer.len())
    }
}

#[test]
fn a_file_of_100_gigabytes_opens_at_once() {
    let count = Arc::new(AtomicU64::new(0));
    let huge = Huge {
        read: Arc::clone(&count),
        head: hex(&header(3, 0)),
        block: hex(&[extents(BLOCK - 16), preamble(0, 16)].concat()),
        call: hex(CALL),
    };
    let source = XraySource::open(Box::new(huge)).expect("readable");
    assert_eq!(source.diagnostics(), []);
    let threads: Vec<u64> = source
        .info()
        .threads
        .iter()
        .map(|thread| thread.id.0)
        .collect();
    assert_eq!(threads, (0..100).collect::<Vec<u64>>());
    assert_eq!(source.lane_bytes(99), BLOCK - 16);
    let read = count.load(Ordering::Relaxed);
    assert!(read < 2 << 20, "{read} bytes were read to open the file");
}

#[test]
fn a_sink_may_be_anything() {
    // The trait stays usable as an object, as writers and reports are handed about.
    let mut log = EventLog::default();
    let sink: &mut dyn Sink = &mut log;
    let source = XraySource::open(Box::new(golden("v1-min"))).expect("readable");
    source.decode(0, sink, &|_| {}).expect("readable");
    assert_eq!(log.calls(101).len(), 2);
}
