//! The states of threads, as [`crash_dump`](super::crash_dump) writes them: in payloads of many rows, in memory that the
//! caller gives. Nothing is allocated. Async-signal-safe.

use super::chunk_scan::RING;
use super::payload;
use super::record::{self, METADATA_SIZE, Record, RecordTime};
use crate::model::{Sample, Switch, Ticks};

/// Writes context switches to `place`, ready to be written with the first block. Returns how many bytes of
/// `place` are used. Switches without room are left out. So readers take the states after the last switch as
/// unknown. Async-signal-safe.
pub fn switches(all: &mut dyn Iterator<Item = Switch>, start: Ticks, place: &mut [u8]) -> usize {
    let mut row = |to: &mut [u8]| {
        let switch = all.next();
        switch.map(|switch| to.copy_from_slice(&payload::switch_row(&switch)))
    };
    rows(payload::SWITCHES, SWITCH_BYTES, &mut row, start, place)
}

/// Samples, in the same way. Async-signal-safe.
pub fn samples(all: &mut dyn Iterator<Item = Sample>, start: Ticks, place: &mut [u8]) -> usize {
    let mut row = |to: &mut [u8]| {
        let sample = all.next();
        sample.map(|sample| to.copy_from_slice(&payload::sample_row(&sample)))
    };
    rows(payload::SAMPLES, SAMPLE_BYTES, &mut row, start, place)
}

/// Writes payloads with rows of `size` bytes, until there are no more rows or no more room.
fn rows(
    kind: u8,
    size: usize,
    next: &mut dyn FnMut(&mut [u8]) -> Option<()>,
    start: Ticks,
    place: &mut [u8],
) -> usize {
    let mut used = 0;
    loop {
        let Some(room) = place.get_mut(used + ROWS_HEAD..) else {
            return used;
        };
        let mut rows = 0;
        for row in room.chunks_exact_mut(size).take(BATCH) {
            if next(row).is_none() {
                break;
            }
            rows += 1;
        }
        if rows == 0 {
            return used;
        }
        put_head(
            kind,
            rows * size,
            rows as u32,
            start,
            place.get_mut(used..).unwrap_or(&mut []),
        );
        used += ROWS_HEAD + rows * size;
    }
}

/// The head of a payload about states. `bytes` bytes follow it.
fn put_head(kind: u8, bytes: usize, rows: u32, start: Ticks, place: &mut [u8]) {
    let event = Record::Custom {
        size: (SCHEDULE_HEAD + bytes) as i32,
        when: RecordTime::Absolute(start.0),
        cpu: None,
    };
    let metadata = record::encode_metadata(&event, RING);
    let words = payload::schedule_head(kind, rows);
    for (to, from) in [(0, &metadata[..]), (METADATA_SIZE, &words[..])] {
        if let Some(to) = place.get_mut(to..to + from.len()) {
            to.copy_from_slice(from);
        }
    }
}

/// The bytes of modules, as a ring has them, as one payload. Async-signal-safe.
pub fn modules(bytes: &[u8], start: Ticks, place: &mut [u8]) -> usize {
    let Some(room) = place.get_mut(ROWS_HEAD..ROWS_HEAD + bytes.len()) else {
        return 0;
    };
    if bytes.is_empty() {
        return 0;
    }
    room.copy_from_slice(bytes);
    put_head(
        payload::MODULES,
        bytes.len(),
        bytes.len() as u32,
        start,
        place,
    );
    ROWS_HEAD + bytes.len()
}

/// Bytes of a payload about states before its rows, and with the record around it.
const SCHEDULE_HEAD: usize = 16;
const ROWS_HEAD: usize = METADATA_SIZE + SCHEDULE_HEAD;
/// Bytes of a row.
const SWITCH_BYTES: usize = 16;
const SAMPLE_BYTES: usize = 24;
/// The most rows of a payload.
const BATCH: usize = 2048;

/// The maximum size of `count` [`switches`] and [`samples`] together with `modules` bytes of [`modules`].
#[must_use]
pub const fn states_bytes(count: usize, modules: usize) -> usize {
    count * SAMPLE_BYTES + (count / BATCH + 3) * ROWS_HEAD + modules
}
