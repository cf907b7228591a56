//! Changed zstd frames without a checksum. So the changes reach the decoder behind the checksum. It gives other bytes or
//! reports damage, and never gives more bytes than it may. The changes are the same each time.

use std::fs::File;
use std::io::Write;

use fdr_formats::bytes::FileBytes;

use super::inflate::Failure;
use super::unpack::{Limits, Unpacked, unpack};
use crate::output_file;

const MAX: u64 = 1 << 20;

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Changes up to three bytes, or cuts, or doubles a part.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        match self.below(10) {
            0 => bytes.truncate(self.below(bytes.len())),
            1 => {
                let from = self.below(bytes.len());
                let part = bytes[from..].to_vec();
                bytes.extend(part);
            }
            _ => {
                for _ in 0..=self.below(3) {
                    // Heads decide most.
                    let most = [40.min(bytes.len()), bytes.len()][self.below(2)];
                    let at = self.below(most);
                    bytes[at] = match self.below(3) {
                        0 => self.below(256) as u8,
                        1 => bytes[at] ^ 1 << self.below(8),
                        _ => [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                    };
                }
            }
        }
    }
}

/// Calls that nest.
fn calls(count: u64) -> Vec<u8> {
    let call = |nth: u64| (nth * 37 % 5000) << 32 | (nth / 2 % 3 + 1) << 4 | (nth % 2) << 1;
    (0..count).flat_map(|nth| call(nth).to_le_bytes()).collect()
}

fn file(bytes: &[u8]) -> FileBytes {
    let mut file = output_file::unnamed().unwrap();
    file.write_all(bytes).unwrap();
    FileBytes::new(file).unwrap()
}

/// How often a changed file gave other bytes without a report of damage, and how often damage was reported.
#[derive(Debug, Default)]
struct MutationCounts {
    other: u32,
    damaged: u32,
}

/// Unpacks many changes of some bytes.
fn change_each(
    whole: &[u8],
    plain: u64,
    mut mend: impl FnMut(&mut Vec<u8>),
    unpack: impl Fn(&FileBytes, &File, Limits) -> Result<Unpacked, Failure>,
) -> MutationCounts {
    let (mut random, mut counts) = (Random(7), MutationCounts::default());
    for _ in 0..3000 {
        let mut changed = whole.to_vec();
        random.change(&mut changed);
        mend(&mut changed);
        let out = output_file::unnamed().unwrap();
        let limits = Limits { most: MAX, jobs: 2 };
        match unpack(&file(&changed), &out, limits) {
            Ok(unpacked) => {
                assert!(unpacked.bytes <= MAX);
                assert_eq!(out.metadata().unwrap().len(), unpacked.bytes);
                counts.damaged += u32::from(unpacked.damage.is_some());
                let other = unpacked.damage.is_none() && unpacked.bytes <= plain;
                counts.other += u32::from(other && changed != whole);
            }
            Err(Failure::MemoryRefusal) => counts.damaged += 1,
            Err(failure) => panic!("{failure:?}"),
        }
    }
    counts
}

#[test]
fn frames_without_checksums_are_unpacked_or_damaged() {
    let plain = calls(2000);
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    let whole = [frame(&plain[..9000]), frame(&plain[9000..])].concat();
    let counts = change_each(
        &whole,
        plain.len() as u64,
        |_| {},
        |packed, out, limits| unpack(packed, out, limits, &|_| {}),
    );
    assert!(counts.other > 300 && counts.damaged > 300, "{counts:?}");
}
