//! A checksum of a block's bytes as they are in the trace. It shows damage, and that a block came back
//! unchanged. It must never be taken for a proof against forgery.
//!
//! Four lanes take the words of 8 bytes in turn. Zeros fill up the last word. With each word, a lane
//! becomes (lane ^ word) * [`FACTOR`], turned left by 29 bits. The lanes, the number of bytes and the
//! offset go through a fifth lane in the same way. Its halves are combined by exclusive or.

use crate::bytes::groups;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const LANES: usize = 4;

fn step(lane: u64, word: u64) -> u64 {
    (lane ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

/// Of these bytes, which begin at that place in the trace.
pub(super) fn sum(bytes: &[u8], offset: u64) -> u32 {
    let mut lanes = [1, 2, 3, 4];
    let mut add = |group: [u8; 8 * LANES]| {
        for (lane, word) in lanes.iter_mut().zip(groups(&group)) {
            *lane = step(*lane, u64::from_le_bytes(word));
        }
    };
    groups(bytes).for_each(&mut add);
    let rest = bytes.chunks_exact(8 * LANES).remainder();
    let mut last = [0; 8 * LANES];
    if let Some(place) = last.get_mut(..rest.len()) {
        place.copy_from_slice(rest);
        add(last);
    }
    let all = [bytes.len() as u64, offset];
    let whole = lanes.into_iter().chain(all).fold(0, step);
    (whole ^ whole >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn any_bit_and_any_length_counts() {
        for size in [0, 1, 7, 8, 31, 32, 33, 100] {
            let mut bytes: Vec<u8> = (0..size).map(|nth| (nth as u8).wrapping_mul(7)).collect();
            let whole = sum(&bytes, 0);
            assert_ne!(whole, sum(&bytes, 4 << 20));
            for bit in 0..8 * size {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(&bytes, 0), whole, "bit {bit} of {size} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.push(0);
            assert_ne!(sum(&bytes, 0), whole);
            bytes.truncate(size.saturating_sub(1));
            assert!(size == 0 || sum(&bytes, 0) != whole);
        }
    }
}
