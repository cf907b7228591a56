//! Drives the writer with times and CPUs typed by hand through every transition, and checks the
//! bytes that a reader would find. `stub` holds the assembly to the same.

mod arguments;
#[cfg(not(loom))]
mod clocks;
mod found;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod notes;
#[cfg(not(loom))]
mod open_calls;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stub;
mod tail;
#[cfg(not(loom))]
mod untimed;

use std::alloc::{Layout as Memory, alloc_zeroed, dealloc};

use core::sync::atomic::Ordering::Relaxed;

use super::{EXIT, writer};
use crate::clock::Stamp;
use crate::dump::snapshot::Snapshot;
use crate::ring::counts::{self, Counts};
use crate::ring::layout::{self, CHUNK, ChunkMark, OpenCalls, Row, Slot, Totals, state};
use crate::ring::record::{PAIR, PREAMBLE, SINGLE};

/// A slot, its marks and its region, without a ring file.
struct Rig {
    slot: *mut u8,
    region: *mut u8,
    open_calls: *mut u8,
    totals: *mut u8,
    slot_memory: Memory,
    region_memory: Memory,
}

const OPEN_CALLS: Memory = Memory::new::<OpenCalls>();
/// How many rows a rig's totals have.
const ROWS: usize = 4;
const TOTALS: Memory = Memory::new::<TotalsWithRows>();

#[repr(C)]
struct TotalsWithRows(Totals, [Row; ROWS]);

impl Rig {
    fn new(chunks: usize, full: bool) -> Rig {
        let marks = chunks * size_of::<ChunkMark>();
        let slot_memory = Memory::from_size_align(size_of::<Slot>() + marks, 128).unwrap();
        let region_memory = Memory::from_size_align(chunks * CHUNK, CHUNK).unwrap();
        // SAFETY: neither layout is empty.
        let (slot, region) = unsafe { (alloc_zeroed(slot_memory), alloc_zeroed(region_memory)) };
        // SAFETY: as above.
        let (open_calls, totals) = unsafe { (alloc_zeroed(OPEN_CALLS), alloc_zeroed(TOTALS)) };
        for memory in [slot, region, open_calls, totals] {
            memory.expose_provenance();
        }
        let rig = Rig {
            slot,
            region,
            open_calls,
            totals,
            slot_memory,
            region_memory,
        };
        let slot = rig.slot();
        slot.base.store(region.addr() as u64, Relaxed);
        slot.cursor.store(region.addr() as u64, Relaxed);
        slot.chunks.store(chunks as u64, Relaxed);
        slot.chunks_with_space.store(chunks as u32, Relaxed);
        slot.cpu.store(layout::NO_CPU, Relaxed);
        slot.full.store(u32::from(full), Relaxed);
        slot.tid.store(0x1234, Relaxed);
        slot.state.store(state::LIVE, Relaxed);
        rig.totals().rows.store(1, Relaxed);
        rig.totals().rows_with_space.store(ROWS as u32, Relaxed);
        let address = rig.totals.addr() as u64;
        rig.open_calls().totals.store(address, Relaxed);
        rig
    }

    fn slot(&self) -> &Slot {
        // SAFETY: zeroed memory of the right size and alignment is a valid slot.
        unsafe { &*self.slot.cast::<Slot>() }
    }

    fn open_calls(&self) -> &OpenCalls {
        // SAFETY: as above.
        unsafe { &*self.open_calls.cast::<OpenCalls>() }
    }

    fn totals(&self) -> &Totals {
        // SAFETY: as above.
        unsafe { &*self.totals.cast::<Totals>() }
    }

    /// From now on, calls that are shorter leave no records.
    fn set_threshold(&self, ticks: u64) {
        self.open_calls().threshold.store(ticks, Relaxed);
        let cpu = self.slot().cpu.load(Relaxed);
        self.open_calls().cpu.store(cpu, Relaxed);
        let address = self.open_calls.addr() as u64;
        self.slot().open_calls.store(address, Relaxed);
    }

    fn write(&self, word: u32, ticks: u64, cpu: u32) {
        writer::write(self.slot(), word, Stamp { ticks, cpu });
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::with_bytes(self.slot().chunks.load(Relaxed) as usize)
    }

    /// Everything that a reader finds, chunk by chunk, and the counts.
    fn read(&self) -> (Vec<Vec<u8>>, Counts) {
        let mut snapshot = self.snapshot();
        assert!(snapshot.take(self.slot()));
        (
            snapshot.chunks().map(<[u8]>::to_vec).collect(),
            snapshot.counts,
        )
    }

    /// The only chunk's records behind the preamble.
    fn records(&self) -> Vec<u8> {
        let (chunks, _) = self.read();
        assert_eq!(chunks.len(), 1);
        chunks[0][PREAMBLE as usize..].to_vec()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with these layouts, and nothing borrows them any more.
        unsafe {
            dealloc(self.slot, self.slot_memory);
            dealloc(self.region, self.region_memory);
            dealloc(self.open_calls, OPEN_CALLS);
            dealloc(self.totals, TOTALS);
        }
    }
}

/// What the snapshot counts: nothing is forgotten, and nothing counted twice.
fn exact_counts(snapshot: &Snapshot) -> Counts {
    let counts = snapshot.counts;
    let sum = counts.readable + counts.overwritten + counts.dropped;
    assert_eq!(counts.recorded, sum, "{counts:?}");
    counts
}

const FN_1: u32 = 1 << 4;
const FN_2: u32 = 2 << 4;

#[test]
fn the_first_record_opens_a_chunk() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 0x0A0B_0C0D_0E0F, 3);
    let (chunks, counts) = rig.read();
    assert_eq!(
        counts,
        Counts {
            recorded: 1,
            readable: 1,
            overwritten: 0,
            dropped: 0,
            summarised: 0
        }
    );
    let [chunk] = chunks.as_slice() else {
        panic!("one chunk")
    };
    assert_eq!(chunk.len(), 56);
    assert_eq!(
        &chunk[..16],
        [0x01, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(chunk[16], 0x09, "WallTime");
    let seconds = u64::from_le_bytes(chunk[17..25].try_into().unwrap());
    let micros = u32::from_le_bytes(chunk[25..29].try_into().unwrap());
    assert!(
        seconds > 1_700_000_000 && micros < 1_000_000,
        "{seconds} {micros}"
    );
    assert_eq!(chunk[29..32], [0, 0, 0]);
    assert_eq!(
        chunk[32..48],
        [
            0x05, 3, 0, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(chunk[48..], [0x10, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn records_on_one_cpu_are_eight_bytes() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 0);
    rig.write(FN_2, 1007, 0);
    rig.write(FN_2 | EXIT, 1007 + 0x0102_0304, 0);
    assert_eq!(
        rig.records(),
        [
            [0x10, 0, 0, 0, 0, 0, 0, 0],
            [0x20, 0, 0, 0, 7, 0, 0, 0],
            [0x22, 0, 0, 0, 0x04, 0x03, 0x02, 0x01],
        ]
        .concat()
    );
}

#[test]
fn another_cpu_is_named_before_the_record() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 0);
    rig.write(FN_1 | EXIT, 1010, 0x102);
    assert_eq!(
        rig.records()[8..],
        [
            [0x05, 0x02, 0x01, 0xF2, 0x03, 0, 0, 0].as_slice(),
            &[0, 0, 0, 0, 0, 0, 0, 0],
            &[0x12, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat()
    );
    assert_eq!(rig.slot().clock_steps.load(Relaxed), 0);
}

#[test]
fn a_delta_over_32_bits_needs_a_wrap() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 0, 0);
    rig.write(FN_1 | EXIT, 0xFFFF_FFFF, 0);
    rig.write(FN_2, 0x1_FFFF_FFFF, 0);
    assert_eq!(
        rig.records()[8..],
        [
            [0x12, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF],
            [0x07, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0x20, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat()
    );
}

#[test]
fn a_late_cpu_change_needs_no_wrap() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 0, 0);
    rig.write(FN_2, 0x5_0000_0000, 1);
    assert_eq!(rig.records().len(), 8 + 16 + 8);
    assert_eq!(rig.records()[8], 0x05);
}

#[test]
fn an_earlier_stamp_gets_the_last_time() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 0);
    rig.write(FN_2, 990, 0);
    rig.write(FN_2 | EXIT, 1001, 0);
    assert_eq!(rig.records()[8..11], [0x05, 0, 0]);
    assert_eq!(rig.records()[11..19], 1000_u64.to_le_bytes());
    assert_eq!(
        rig.records()[24..],
        [[0x20, 0, 0, 0, 0, 0, 0, 0], [0x22, 0, 0, 0, 1, 0, 0, 0]].concat()
    );
    assert_eq!(
        rig.slot().clock_steps.load(Relaxed),
        0,
        "a handler came in between"
    );
    rig.write(FN_1 | EXIT, 500, 1);
    assert_eq!(rig.slot().clock_steps.load(Relaxed), 1, "two CPUs disagree");
    assert_eq!(rig.records()[40..43], [0x05, 1, 0]);
    assert_eq!(rig.records()[43..51], 1001_u64.to_le_bytes());
}

/// A signal handler runs after the record has tested the CPU and before it marks the slot as busy. The handler fills
/// the chunk. The interrupted record must then not write behind the end of the chunk.
#[test]
fn a_handler_may_fill_the_chunk() {
    let rig = Rig::new(2, false);
    for at in 0..PER_CHUNK {
        rig.write(FN_1, 1000 + at, 0);
    }
    // The interrupted record had found the CPU to be 0; here is what it finds once it is busy.
    assert_eq!(rig.slot().last_high.load(Relaxed), layout::NO_HIGH);
    assert_eq!(rig.slot().cpu.load(Relaxed), 0);
    rig.write(FN_2, 900, 0);
    rig.write(FN_2 | EXIT, 50_000, 0);
    let (chunks, counts) = rig.read();
    assert_eq!([chunks[0].len(), chunks[1].len()], [CHUNK, 64]);
    assert_eq!(counts.recorded, PER_CHUNK + 2);
    assert_eq!(chunks[1][35..43], (1000 + PER_CHUNK - 1).to_le_bytes());
}

#[test]
fn a_clock_that_was_reset_is_believed() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 0x10_0000_0000, 0);
    rig.write(FN_2, 77, 0);
    rig.write(FN_2 | EXIT, 80, 0);
    assert_eq!(rig.slot().clock_steps.load(Relaxed), 1);
    assert_eq!(rig.records()[8..12], [0x05, 0, 0, 77]);
    assert_eq!(rig.records()[32..], [0x22, 0, 0, 0, 3, 0, 0, 0]);
}

/// Records that fill a chunk to its last byte.
const PER_CHUNK: u64 = (CHUNK as u64 - PREAMBLE) / SINGLE;

#[test]
fn a_full_chunk_is_followed_by_another() {
    let rig = Rig::new(3, false);
    for at in 0..PER_CHUNK {
        rig.write(FN_1, 1000 + at, 0);
    }
    assert_eq!(rig.read().0.len(), 1);
    rig.write(FN_2, 9_000_000, 0);
    let (chunks, counts) = rig.read();
    assert_eq!(counts.recorded, PER_CHUNK + 1);
    assert_eq!([chunks[0].len(), chunks[1].len()], [CHUNK, 56]);
    assert_eq!(chunks[1][32..35], [0x05, 0, 0]);
    assert_eq!(chunks[1][35..43], 9_000_000_u64.to_le_bytes());
    assert_eq!(chunks[1][48..], [0x20, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn pairs_without_room_open_a_chunk() {
    for (short_by, chunks) in [(0, 2), (1, 2), (2, 2), (3, 1)] {
        let rig = Rig::new(2, false);
        for _ in 0..PER_CHUNK - short_by {
            rig.write(FN_1, 1000, 0);
        }
        rig.write(FN_2, 1000, 7);
        let (read, counts) = rig.read();
        assert_eq!(read.len(), chunks, "short by {short_by}");
        assert_eq!(counts.readable, PER_CHUNK - short_by + 1);
        assert_eq!(
            read[0].len() as u64,
            CHUNK as u64 - SINGLE * short_by + if chunks == 1 { PAIR + SINGLE } else { 0 }
        );
    }
}

#[test]
fn the_ring_keeps_the_newest_records() {
    let rig = Rig::new(3, false);
    let total = 10 * PER_CHUNK + 5;
    for at in 0..total {
        rig.write(FN_1, at, 0);
    }
    let (chunks, counts) = rig.read();
    assert_eq!(chunks.len(), 3);
    assert_eq!(counts.readable, 2 * PER_CHUNK + 5);
    assert_eq!(counts.overwritten, 8 * PER_CHUNK);
    assert_eq!(counts.recorded, total);
    let oldest = u64::from_le_bytes(chunks[0][35..43].try_into().unwrap());
    assert_eq!(oldest, 8 * PER_CHUNK, "time of the first record kept");
    assert_eq!(counts::count(rig.slot()).unwrap().1, counts);
}

/// As if a program had cut the ring's file short and made it longer again before any thread touched it.
#[test]
fn chunks_of_zeros_count_as_overwritten() {
    let made = 7 * PER_CHUNK + 5;
    // The eighth chunk is the newest, and the fourth in its place: zeros from a byte on, and what is left then.
    for (from, to, wanted) in [
        // The oldest but one, whole; the end of it; its last record.
        (CHUNK, 2 * CHUNK, PER_CHUNK + 5),
        (CHUNK + 4096, 2 * CHUNK, PER_CHUNK + 5),
        (2 * CHUNK - 16, 2 * CHUNK, PER_CHUNK + 5),
        // All from the oldest on; the newest alone.
        (0, 3 * CHUNK, 5),
        (3 * CHUNK, 4 * CHUNK, 0),
        // None.
        (0, 0, 3 * PER_CHUNK + 5),
    ] {
        let rig = Rig::new(4, false);
        for at in 0..made {
            rig.write(FN_1, at, 0);
        }
        // SAFETY: inside the region, which no other code uses.
        unsafe { rig.region.add(from).write_bytes(0, to - from) };
        let mut snapshot = rig.snapshot();
        assert!(snapshot.take(rig.slot()));
        assert_eq!(snapshot.has_zeros, to > 0, "{from}..{to}");
        let counts = snapshot.counts;
        assert_eq!(counts.readable, wanted, "{from}..{to}");
        assert_eq!(counts.recorded, counts.readable + counts.overwritten);
        assert_eq!(counts.recorded, made, "{from}..{to}");
    }
}

#[test]
fn a_full_ring_keeps_the_oldest_records() {
    let rig = Rig::new(2, true);
    for at in 0..3 * PER_CHUNK {
        rig.write(FN_1, at, 0);
    }
    let (chunks, counts) = rig.read();
    assert_eq!(chunks.len(), 2);
    let expected = Counts {
        recorded: 3 * PER_CHUNK,
        readable: 2 * PER_CHUNK,
        overwritten: 0,
        dropped: PER_CHUNK,
        summarised: 0,
    };
    assert_eq!(counts, expected);
    assert_eq!(counts::count(rig.slot()).unwrap().1, expected);
}

#[test]
fn a_full_ring_takes_nothing_more() {
    let rig = Rig::new(2, true);
    for at in 0..2 * PER_CHUNK - 1 {
        rig.write(FN_1, at, 0);
    }
    rig.write(FN_1, 1 << 20, 1);
    rig.write(FN_1, (1 << 20) + 1, 0);
    let (_, counts) = rig.read();
    assert_eq!((counts.readable, counts.dropped), (2 * PER_CHUNK - 1, 2));
}

#[test]
fn counts_are_exact_with_metadata_in_between() {
    let rig = Rig::new(2, false);
    let total = 5 * PER_CHUNK;
    let mut ticks = 0;
    for at in 0..total {
        ticks += if at % 100 == 0 { 0x2_0000_0000 } else { 3 };
        rig.write(FN_1, ticks, (at / 37 % 4) as u32);
    }
    let (chunks, counts) = rig.read();
    assert_eq!(counts.recorded, total);
    assert_eq!(counts.readable + counts.overwritten, total);
    let walked: u64 = chunks
        .iter()
        .map(|chunk| {
            let (mut at, mut count) = (0, 0);
            while at < chunk.len() {
                let function = chunk[at] & 1 == 0;
                count += u64::from(function);
                at += if function { 8 } else { 16 };
            }
            assert_eq!(at, chunk.len());
            count
        })
        .sum();
    assert_eq!(walked, counts.readable);
    assert_eq!(counts::count(rig.slot()).unwrap().1, counts);
}

#[test]
fn a_reader_beside_a_writer_finds_unbroken_records() {
    let rig = Rig::new(4, false);
    let address = rig.slot.expose_provenance();
    let reading = std::sync::atomic::AtomicBool::new(true);
    /// Ends the writer, also if the reader fails.
    struct End<'a>(&'a std::sync::atomic::AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(false, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // SAFETY: the rig outlives the scope; slots are made of atomics.
            let slot = unsafe { &*core::ptr::with_exposed_provenance::<Slot>(address) };
            let mut ticks = 0;
            while reading.load(Relaxed) {
                ticks += 1;
                writer::write(slot, FN_1, Stamp { ticks, cpu: 0 });
            }
        });
        let end = End(&reading);
        let mut snapshot = rig.snapshot();
        for _ in 0..if cfg!(interpreted) { 10 } else { 200 } {
            if !snapshot.take(rig.slot()) {
                continue;
            }
            let counts = exact_counts(&snapshot);
            // Record number n was made at tick n: an absolute time, then steps of one.
            let mut expected = counts.overwritten;
            for chunk in snapshot.chunks() {
                let first = u64::from_le_bytes(chunk[35..43].try_into().unwrap());
                assert_eq!(first, expected + 1);
                // A chunk that was just opened has no record yet.
                for record in chunk[PREAMBLE as usize..].chunks(8).skip(1) {
                    assert_eq!(record, [0x10, 0, 0, 0, 1, 0, 0, 0]);
                }
                expected += (chunk.len() as u64 - PREAMBLE) / 8;
            }
            assert_eq!(expected, counts.readable + counts.overwritten);
        }
        drop(end);
        // A join that sanitizers see; the scope's own end is inside std.
        writer.join().expect("the writer's end");
    });
}
