//! Ring files, put together by hand from the documented layout. Must share nothing with the reader.
#![allow(dead_code, reason = "every test file uses a part of this")]

use fdr_formats::model::Counts;

use super::{Chunk, ReadTrace};

pub(crate) const CHUNK: usize = 64 * 1024;
pub(crate) const SLOTS: usize = 4096;
pub(crate) const STRIDE: usize = 256;
pub(crate) const FUNCTIONS: usize = 8192;
pub(crate) const REGIONS: usize = 65536;
pub(crate) const REGION: usize = 2 * CHUNK;
/// Bytes of the open calls of a slot, and where the functions are behind them.
const OPEN_CALLS: usize = 10_240;
const FUNCTIONS_BEHIND: usize = 16_384;
/// Bytes of totals without their rows, and of a row.
const TOTALS: usize = 65_536;
const ROW: usize = 2112;
/// Where the process had the file.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// A ring with two regions of two chunks.
pub(crate) struct Ring(pub(crate) Vec<u8>);

impl Ring {
    pub(crate) fn new() -> Ring {
        let mut ring = Ring(vec![0; REGIONS + 2 * REGION]);
        ring.0[..8].copy_from_slice(b"FDRRING\x01");
        ring.u32(8, 4242);
        let sizes = [BASE as usize, SLOTS, STRIDE, FUNCTIONS, 0, REGIONS, REGION];
        for (at, size) in sizes.into_iter().enumerate() {
            ring.u64(16 + 8 * at, size as u64);
        }
        ring.u32(72, 2);
        ring.u32(76, 2);
        ring.u64(80, 1000);
        ring.u64(96, 1_700_000_000_000_000_000);
        ring.u64(104, 1_000_000_000);
        ring.functions(&[(1, "app::one"), (2, "app::two")]);
        ring
    }

    /// One with open calls: of the first slot alone, because they are in the place of the others.
    pub(crate) fn with_open_calls() -> Ring {
        let mut ring = Ring::new();
        let table = ring.0[FUNCTIONS..FUNCTIONS + 64].to_vec();
        ring.0[FUNCTIONS..FUNCTIONS + 64].fill(0);
        ring.0[FUNCTIONS_BEHIND..FUNCTIONS_BEHIND + 64].copy_from_slice(&table);
        ring.u64(40, FUNCTIONS_BEHIND as u64);
        ring.u64(32, (STRIDE + OPEN_CALLS) as u64);
        ring.u32(72, 1);
        ring.u32(76, 1);
        ring.u64(232, STRIDE as u64);
        ring
    }

    /// The open calls of the first slot. `frames`: word, CPU, tick, calls without records and their ticks, of the
    /// thread itself first.
    pub(crate) fn open_calls(&mut self, published: u32, frames: &[(u32, u32, u64, u64, u64)]) {
        let at = SLOTS + STRIDE;
        self.u32(at, (frames.len() as u32 - 1) | published << 8);
        for (nth, &(word, cpu, tick, calls, ticks)) in frames.iter().enumerate() {
            let frame = at + 64 + 40 * nth;
            self.u32(frame, word);
            self.u32(frame + 4, cpu);
            self.u64(frame + 8, tick);
            self.u64(frame + 16, calls);
            self.u64(frame + 24, ticks);
        }
    }

    /// Totals for the only slot and for ended threads, of two rows each. Returns where they begin.
    pub(crate) fn totals(&mut self) -> [usize; 2] {
        let (first, size) = (self.0.len(), TOTALS + 2 * ROW);
        self.0.resize(first + 2 * size, 0);
        self.u64(256, first as u64);
        self.u64(264, size as u64);
        [first, first + size]
    }

    /// A row of totals: function, calls with and without a time, total, self, longest; and calls by length.
    pub(crate) fn row(
        &mut self,
        totals: usize,
        nth: usize,
        numbers: [u64; 6],
        lengths: &[(usize, u64)],
    ) {
        self.u32(totals, nth as u32 + 1);
        let row = totals + TOTALS + nth * ROW;
        for (at, number) in numbers.into_iter().enumerate() {
            self.u64(row + 8 * at, number);
        }
        for (class, calls) in lengths {
            self.u64(row + 64 + 8 * class, *calls);
        }
    }

    /// What is estimated of the function of the row, in the order of the fields, and how often it was found around.
    pub(crate) fn estimate(&mut self, totals: usize, nth: usize, numbers: [u64; 8], around: u64) {
        let row = totals + TOTALS + nth * ROW;
        for (at, number) in numbers.into_iter().enumerate() {
            self.u64(row + ROW - 64 + 8 * at, number);
        }
        self.u64(row + 48, around);
    }

    /// What recording takes.
    pub(crate) fn cost(&mut self, totals: usize, share: u64, budget: u64) {
        self.u64(totals + 24, share);
        self.u64(totals + 32, budget);
    }

    pub(crate) fn u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn functions(&mut self, list: &[(u32, &str)]) {
        let mut at = FUNCTIONS;
        for &(id, name) in list {
            let size = (16 + name.len()).next_multiple_of(8);
            self.u32(at, size as u32);
            self.u32(at + 4, id);
            self.u32(at + 12, name.len() as u32);
            self.0[at + 16..at + 16 + name.len()].copy_from_slice(name.as_bytes());
            at += size;
        }
        self.u64(48, (at - FUNCTIONS) as u64);
    }

    /// Thread `100 + slot`; `chunks` are its newest, with their numbers and the records before them.
    /// The last of them is open.
    pub(crate) fn thread(&mut self, slot: usize, chunks: &[(u64, u64, Chunk)], dropped: u64) {
        let at = SLOTS + slot * STRIDE;
        let region = REGIONS + slot * REGION;
        self.u64(at + 24, BASE + region as u64);
        self.u64(at + 32, 2);
        self.u64(at + 56, dropped);
        self.u32(at + 72, 3);
        self.u32(at + 76, 100 + slot as u32);
        self.u64(at + 80, 1);
        self.0[at + 96..at + 102].copy_from_slice(b"worker");
        for (number, first, Chunk(bytes)) in chunks {
            let index = (*number as usize - 1) % 2;
            let place = region + index * CHUNK;
            self.0[place..place + bytes.len()].copy_from_slice(bytes);
            let mark = at + 128 + index * 24;
            self.u64(mark, *number);
            self.u64(mark + 8, *first);
            let open = chunks.last().is_some_and(|last| last.0 == *number);
            self.u64(mark + 16, if open { 0 } else { bytes.len() as u64 });
            self.u64(at, BASE + (place + bytes.len()) as u64);
            self.u64(at + 40, *number);
        }
    }
}

pub(crate) fn chunk(tsc: u64) -> Chunk {
    Chunk::new(100, 3, tsc)
}

pub(crate) fn counts(read: &ReadTrace, thread: usize) -> [u64; 4] {
    let counts: Counts = read.info.threads[thread].counts.expect("counts");
    [
        counts.recorded,
        counts.readable,
        counts.overwritten,
        counts.dropped,
    ]
}
