//! `crash_dump`: its files are those of `DumpWriter`, byte for byte, whatever is in the chunks; it allocates
//! nothing, and says so where it can't write.

use std::io::Cursor;

use crate::common::dump::{complete_info, counts};
use crate::common::{Chunk, Random, function, read};
use crate::fuzz::alloc::Counting;
use fdr_formats::xray::crash_dump::{self, CrashThread, CrashWriter, Room};
use fdr_formats::xray::{BlockSummary, DumpWriter, Version};
use fdr_formats::{Thread, ThreadId, Ticks, TraceInfo};

fn info() -> TraceInfo {
    let functions = vec![
        function(1, "demo::main", "src/lib.rs", 1),
        function(2, "<Böx<T>>::\"go\"", "src/lib.rs", 2),
    ];
    TraceInfo {
        end: Some(Ticks(3000)),
        ..complete_info(functions, "crash: SIGSEGV at 0x10 in thread 7 (main)")
    }
}

type Lanes = Vec<(u32, &'static str, Vec<Vec<u8>>)>;

/// Every other thread has ended.
fn has_ended(id: u32) -> bool {
    id % 2 == 0
}

type DumpParts = (Vec<u8>, Vec<BlockSummary>);

fn by_dump_writer(info: &TraceInfo, lanes: &Lanes) -> DumpParts {
    let mut file = Cursor::new(Vec::new());
    let mut writer = DumpWriter::new(&mut file, Version::V3, info).expect("memory");
    let mut blocks = Vec::new();
    for (id, name, chunks) in lanes {
        let thread = Thread {
            id: ThreadId(u64::from(*id)),
            process: None,
            name: (*name).to_owned(),
            counts: Some(counts()),
            ..Thread::default()
        };
        let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        let block = writer.thread_with_gaps(&thread, &chunks, &[], has_ended(*id));
        blocks.push(block.expect("memory"));
    }
    writer.finish().expect("memory");
    (file.into_inner(), blocks)
}

/// The same by the other way, which may allocate nothing from the first byte to the last.
fn by_bare_writer(info: &TraceInfo, lanes: &Lanes, size: usize) -> DumpParts {
    let tables = crash_dump::functions(&info.functions, info.start.expect("a start"));
    let longest = lanes.iter().map(|lane| lane.2.iter().map(Vec::len).sum());
    let mut memory = vec![0; Room::size(longest.max().unwrap_or(0))];
    let mut room = Room::new(&mut memory);
    let mut file = Vec::with_capacity(size);
    let mut blocks = Vec::with_capacity(lanes.len());
    Counting::restart();
    file.extend_from_slice(&crash_dump::header(info));
    let pieces = [tables.as_slice()].into_iter();
    let mut writer = CrashWriter::new(info, &info.reason, pieces);
    for (id, name, chunks) in lanes {
        let thread = CrashThread {
            id: *id,
            name,
            counts: counts(),
            ended: has_ended(*id),
            early_calls: &[],
        };
        let mut out = |bytes: &[u8]| {
            file.extend_from_slice(bytes);
            true
        };
        let chunks = chunks.iter().map(Vec::as_slice);
        let block = writer.thread(&thread, chunks, &mut room, &mut out);
        blocks.push(block.expect("the room is large enough"));
    }
    let (at, extent) = crash_dump::extent(file.len() as u64, lanes.len() as u64);
    file[at as usize..][..extent.len()].copy_from_slice(&extent);
    assert_eq!(Counting::peak(), 0, "something was allocated");
    (file, blocks)
}

fn compare(lanes: &Lanes) -> DumpParts {
    let info = info();
    let (expected, blocks) = by_dump_writer(&info, lanes);
    let (file, bare_blocks) = by_bare_writer(&info, lanes, expected.len());
    assert_eq!(bare_blocks, blocks);
    assert_eq!(file.len(), expected.len());
    let differs = file.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
    assert_eq!(read(&file).expect("readable").diagnostics, []);
    (file, blocks)
}

/// Chunks of one thread, not long enough for the clock to jump: calls that nest or do not, moves to other CPUs, long silences; and now and then a
/// chunk that is cut, that has no head, or that ends in what was never written.
fn chunks(random: &mut Random, thread: u32, damaged: bool) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let mut tsc = 1000 + random.below(1000);
    for _ in 0..random.below(4) {
        let mut chunk = Chunk::new(thread, random.below(8) as u16, tsc);
        for _ in 0..random.below(60) {
            let (id, delta) = (1 + random.below(4) as u32, random.below(50) as u32);
            tsc += u64::from(delta);
            chunk = match random.below(16) {
                0 => {
                    tsc += random.below(1 << 20);
                    chunk.wrap(tsc)
                }
                1 => chunk.cpu(random.below(8) as u16, tsc),
                2..9 => chunk.enter(id, delta),
                _ => chunk.exit(id, delta),
            };
        }
        tsc += 100;
        let mut bytes = chunk.0;
        if damaged {
            match random.below(6) {
                0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.extend([0; 24]),
                2 => bytes[[0, 1, 16, 32][random.below(4) as usize]] ^= 1 << random.below(8),
                _ => {}
            }
        }
        chunks.push(bytes);
    }
    chunks
}

#[test]
fn random_chunks_give_the_same_bytes() {
    let mut random = Random(7);
    for _ in 0..300 {
        let mut lanes = Lanes::new();
        for nth in 0..1 + random.below(3) as u32 {
            lanes.push((7 + nth, "worker", chunks(&mut random, 7 + nth, false)));
        }
        compare(&lanes);
    }
}

#[test]
fn damaged_chunks_give_the_same_bytes() {
    let mut random = Random(8);
    let info = info();
    for _ in 0..500 {
        let lanes = vec![(7, "", chunks(&mut random, 7, true))];
        let (expected, blocks) = by_dump_writer(&info, &lanes);
        let (file, bare_blocks) = by_bare_writer(&info, &lanes, expected.len());
        let differs = file.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!((file.len(), differs), (expected.len(), None), "{lanes:?}");
        assert_eq!(bare_blocks, blocks, "{lanes:?}");
    }
}

#[test]
fn every_repair_is_there() {
    // Before the block, left by a jump, lost, and open at the end; over two chunks.
    let lanes: Lanes = vec![(
        7,
        "main",
        vec![
            Chunk::new(7, 1, 1000)
                .exit(2, 5)
                .exit(1, 5)
                .enter(1, 5)
                .enter(2, 5)
                .enter(3, 5)
                .0,
            Chunk::new(7, 1, 2000).exit(1, 5).enter(1, 5).exit(4, 5).0,
        ],
    )];
    let (_, blocks) = compare(&lanes);
    let expected = BlockSummary {
        readable: 8,
        synthetic_entries: 3,
        synthetic_exits: 3,
        discarded_bytes: 0,
    };
    assert_eq!(blocks, [expected]);
}

#[test]
fn full_rings_fit_the_stated_room() {
    let mut chunk = Chunk::new(7, 1, 1000);
    for _ in 0..8000 {
        chunk = chunk.enter(1, 1);
    }
    let lanes: Lanes = vec![(7, "deep", vec![chunk.0])];
    assert_eq!(compare(&lanes).1[0].synthetic_exits, 8000);
}

#[test]
fn small_rooms_and_full_disks_are_reported() {
    let (info, chunk) = (info(), Chunk::new(7, 1, 1000).enter(1, 5).0);
    let thread = CrashThread {
        id: 7,
        name: "main",
        counts: counts(),
        ended: false,
        early_calls: &[],
    };
    let write = |numbers: usize, most: usize| {
        let mut memory = vec![0; numbers];
        let mut writer = CrashWriter::new(&info, "", std::iter::empty());
        let (mut taken, mut offered) = (0, 0);
        let mut out = |bytes: &[u8]| {
            offered += 1;
            taken += bytes.len();
            taken <= most
        };
        let chunks = [chunk.as_slice()].into_iter();
        let block = writer.thread(&thread, chunks, &mut Room::new(&mut memory), &mut out);
        (block.is_some(), offered)
    };
    let enough = Room::size(chunk.len());
    assert_eq!(write(enough - 3, usize::MAX), (false, 0));
    let (whole, parts) = write(enough, usize::MAX);
    assert!(whole && parts > 8, "{parts} parts");
    for part in 0..parts {
        // Refused at the first byte of some part: nothing more is given.
        let (whole, offered) = write(enough, part);
        assert!(!whole && offered <= parts, "{offered} of {parts}");
    }
}
