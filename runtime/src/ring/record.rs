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

#[cfg(not(target_endian = "little"))]
compile_error!("chunks are XRay buffers as they lie in memory, written little-endian only");

/// A metadata record.
pub(crate) type Pair = [u64; 2];
/// Bytes of a [`Pair`].
pub(crate) const PAIR: u64 = 16;
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
