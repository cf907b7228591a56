//! Records as words: XRay FDR, little-endian, 8 or 16 bytes. Layout only.
//!
//! Source: the XRay FDR document and LLVM's readers. Byte 0 of a metadata record is kind << 1 | 1;
//! reserved bytes are zero.
//!
//! | record | bytes |
//! | --- | --- |
//! | function | 0: u32 id << 4 \| action << 1; 4: u32 ticks since the record before |
//! | NewBuffer | 0: 0x01; 1: i32 thread |
//! | NewCPUId | 0: 0x05; 1: u16 cpu; 3: u64 ticks |
//! | TSCWrap | 0: 0x07; 1: u64 ticks |
//! | WallTime | 0: 0x09; 1: u64 seconds; 9: u32 microseconds |
//! | CustomEvent | 0: 0x0b; 1: i32 bytes of the payload; 5: u64 ticks; 16: the payload |
//!
//! The payloads are those of `fdr_formats::xray::payload`. Their head has 8 bytes. The body behind the head has 8
//! bytes, or those of a note.

use fdr_formats::xray::payload;

#[cfg(not(target_endian = "little"))]
compile_error!("chunks are XRay buffers as they lie in memory, written little-endian only");

/// A metadata record.
pub(crate) type Pair = [u64; 2];
/// Bytes of a [`Pair`].
pub(crate) const PAIR: u64 = 16;
/// Bytes of a custom event with a payload of 8 bytes behind its head.
pub(crate) const EVENT: u64 = 32;
/// Bytes of a custom event before the body of its payload.
pub(crate) const EVENT_HEAD: u64 = 24;
/// Bytes of a function record.
pub(crate) const SINGLE: u64 = 8;
/// What every chunk begins with: NewBuffer, WallTime, NewCPUId.
pub(crate) const PREAMBLE: u64 = 3 * PAIR;

/// A function record. `word` is the low half, `delta` the ticks since the record before.
#[inline(always)]
pub(crate) fn function(word: u32, delta: u32) -> u64 {
    u64::from(word) | u64::from(delta) << 32
}

pub(crate) fn new_buffer(tid: u32) -> Pair {
    [0x01 | u64::from(tid) << 8, 0]
}

pub(crate) fn new_cpu(cpu: u32, ticks: u64) -> Pair {
    [
        0x05 | u64::from(cpu & 0xFFFF) << 8 | ticks << 24,
        ticks >> 40,
    ]
}

pub(crate) fn tsc_wrap(ticks: u64) -> Pair {
    [0x07 | ticks << 8, ticks >> 56]
}

/// The wall-clock time. `nanos` counts from the Unix epoch.
pub(crate) fn wall_time(nanos: u64) -> Pair {
    let (seconds, micros) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1000);
    [0x09 | seconds << 8, seconds >> 56 | micros << 8]
}

/// A summary: `calls` calls left no records since the last record, and took `short_ticks` ticks.
pub(crate) fn summary(calls: u64, short_ticks: u64, ticks: u64) -> [u64; 4] {
    event(ticks, payload::SHORT_CALLS, calls | short_ticks << 24)
}

/// From here on, calls shorter than the threshold leave no records.
pub(crate) fn threshold(threshold: u64, ticks: u64) -> [u64; 4] {
    event(ticks, payload::THRESHOLD, threshold)
}

fn event(ticks: u64, kind: u8, body: u64) -> [u64; 4] {
    let [a, b, head] = event_head(ticks, kind, 8);
    [a, b, head, body]
}

/// A custom event up to the body of its payload. The body has `body` bytes.
pub(crate) fn event_head(ticks: u64, kind: u8, body: u64) -> [u64; 3] {
    let size = EVENT_HEAD - PAIR + body;
    let [a, b] = [0x0b | size << 8 | ticks << 40, ticks >> 24];
    [a, b, u64::from_le_bytes(payload::head(kind))]
}

/// The tick from which the next record counts, if these are the first words of a record and the record before has the
/// tick `last`. The tick of a custom event is its own.
pub(crate) fn tick(first: u64, second: u64, last: u64) -> u64 {
    match first as u8 {
        even if even & 1 == 0 => last.wrapping_add(first >> 32),
        0x05 => first >> 24 | second << 40,
        0x07 => first >> 8 | second << 56,
        _ => last,
    }
}

/// Words of the record that begins with this word.
#[inline]
pub(crate) fn words(first: u64) -> usize {
    match first as u8 {
        even if even & 1 == 0 => 1,
        0x0b => 2 + (first >> 8) as u32 as usize / 8,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pair: Pair) -> Vec<u8> {
        pair.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn records_are_the_documents_bytes() {
        assert_eq!(
            function(0x0000_0052, 0x1234_5678).to_le_bytes(),
            [0x52, 0, 0, 0, 0x78, 0x56, 0x34, 0x12]
        );
        assert_eq!(
            bytes(new_buffer(0x0102_0304)),
            [
                0x01, 0x04, 0x03, 0x02, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(
            bytes(new_cpu(0x0A0B, 0x1122_3344_5566_7788)),
            [
                0x05, 0x0B, 0x0A, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(
            bytes(tsc_wrap(0x1122_3344_5566_7788)),
            [
                0x07, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(
            bytes(wall_time(0x0102_0304 * 1_000_000_000 + 999_999_123)),
            [
                0x09, 0x04, 0x03, 0x02, 0x01, 0, 0, 0, 0, 0x3F, 0x42, 0x0F, 0, 0, 0, 0
            ]
        );
    }
}
