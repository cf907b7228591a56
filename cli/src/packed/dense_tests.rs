//! Dense streams as `fdr pack --dense` makes them and as they come: whole, compressed anew by others, cut,
//! damaged, out of order, and made to fill a disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use fdr_formats::bytes::FileBytes;
use fdr_formats::dense::{BLOCK, Encoder};

use super::blocks::{unpack_frames, unpack_stream};
use super::pack::{Way, pack};
use super::unpack::{Failure, Limits, Unpacked};
use super::{Fault, unpack_in_two};
use crate::place;

type Unpacks = fn(&FileBytes, &File, Limits, &(dyn Fn(u64) + Sync)) -> Result<Unpacked, Failure>;
type Done = Result<(Vec<u8>, Option<Fault>), Failure>;

fn file(bytes: &[u8]) -> File {
    let mut file = place::unnamed().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// By that way, on so many threads.
fn by(way: Unpacks, packed: &[u8], limits: Limits) -> Done {
    let packed = FileBytes::new(file(packed)).unwrap();
    let out = place::unnamed().unwrap();
    let Unpacked { bytes, damage } = way(&packed, &out, limits, &|_| {})?;
    let mut plain = vec![0; usize::try_from(bytes).unwrap()];
    out.read_exact_at(&mut plain, 0).unwrap();
    assert_eq!(out.metadata().unwrap().len(), bytes);
    Ok((plain, damage))
}

const ANY: u64 = 1 << 40;

/// One thread and three give the same.
fn frames(packed: &[u8]) -> (Vec<u8>, Option<Fault>) {
    let on = |jobs| by(unpack_frames, packed, Limits { most: ANY, jobs }).unwrap();
    let first = on(3);
    assert!(on(1) == first);
    first
}

fn stream(stream: &[u8]) -> (Vec<u8>, Option<Fault>) {
    let on = |jobs| by(unpack_stream, stream, Limits { most: ANY, jobs }).unwrap();
    let first = on(3);
    assert!(on(1) == first);
    first
}

/// Calls that nest, with a time that changes.
fn calls(bytes: usize) -> Vec<u8> {
    let word = |nth: u64| (40 + nth % 11) << 32 | (1 + nth / 2 % 5) << 4 | (nth % 2) << 1;
    let mut calls: Vec<u8> = (0..bytes as u64 / 8 + 1)
        .flat_map(|nth| word(nth).to_le_bytes())
        .collect();
    calls.truncate(bytes);
    calls
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let (mut packed, way) = (
        Vec::new(),
        Way {
            level: 1,
            dense: true,
        },
    );
    let done = pack(plain, &mut packed, way, 2, &|_| {}).unwrap();
    assert_eq!(done.before, plain.len() as u64);
    assert_eq!(done.after, packed.len() as u64);
    packed
}

/// The stream within.
fn within(packed: &[u8]) -> Vec<u8> {
    zstd::stream::decode_all(packed).unwrap()
}

#[test]
fn what_is_packed_comes_back_whatever_its_size() {
    for size in [0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
        let mut plain = calls(size);
        // Zeros are not written.
        let half = size / 2;
        plain[half..]
            .iter_mut()
            .take(1 << 20)
            .for_each(|byte| *byte = 0);
        let packed = packed(&plain);
        assert!(frames(&packed) == (plain.clone(), None), "{size}");
        let dense = within(&packed);
        assert!(dense.len() < size / 2 || size < 10_000, "{size}");
        assert!(stream(&dense) == (plain, None), "{size}");
    }
}

#[test]
fn what_others_compressed_anew_is_read_in_two_steps() {
    let plain = calls(2 * BLOCK + 500);
    let dense = within(&packed(&plain));
    let one = zstd::bulk::compress(&dense, 1).unwrap();
    let streamed = zstd::stream::encode_all(&dense[..], 1).unwrap();
    let many: Vec<u8> = dense
        .chunks(100_000)
        .flat_map(|part| zstd::bulk::compress(part, 1).unwrap())
        .collect();
    let limits = Limits { most: ANY, jobs: 2 };
    for other in [one, streamed, many] {
        let failure = by(unpack_frames, &other, limits);
        assert!(matches!(failure, Err(Failure::NotBlocks)));
        assert!(by(unpack_in_two, &other, limits).unwrap() == (plain.clone(), None));
        // Damage of the compressed file is told, not what came of it.
        let cut = &other[..other.len() - 1];
        let (intact, fault) = by(unpack_in_two, cut, limits).unwrap();
        assert!(plain.starts_with(&intact) && intact.len() % BLOCK == 0);
        assert!(fault.unwrap().what.contains("the file ends within"));
    }
}

#[test]
fn a_cut_stream_is_read_up_to_the_block() {
    let plain = calls(2 * BLOCK + 500);
    let dense = within(&packed(&plain));
    let mut starts = vec![0];
    while let Some(&start) = starts.last()
        && start < dense.len()
    {
        let head = fdr_formats::dense::Head::parse(&dense[start..]).unwrap();
        starts.push(start + 32 + head.body);
    }
    assert_eq!(starts.len(), 4);
    let near = |at: usize| at.saturating_sub(40)..(at + 40).min(dense.len());
    for end in starts.iter().flat_map(|&start| near(start)) {
        let whole = starts.iter().filter(|&&start| start <= end).count() - 1;
        let (intact, fault) = stream(&dense[..end]);
        assert!(intact == plain[..whole * BLOCK], "{end}");
        let fault = fault.unwrap();
        assert_eq!(fault.offset, starts[whole] as u64, "{fault:?}");
        let at_start = starts.contains(&end);
        assert_eq!(at_start, fault.what.contains("last block"), "{fault:?}");
    }
}

#[test]
fn cut_and_damaged_frames_are_told_where_they_begin() {
    let plain = calls(2 * BLOCK + 500);
    let parts: Vec<Vec<u8>> = plain
        .chunks(BLOCK)
        .enumerate()
        .map(|(nth, part)| {
            let mut block = Vec::new();
            Encoder::new().block((nth * BLOCK) as u64, part, &mut block);
            zstd::bulk::compress(&block, 1).unwrap()
        })
        .collect();
    let whole = parts.concat();
    assert!(frames(&whole) == (plain.clone(), None));
    let begins = |nth: usize| parts[..nth].concat().len() as u64;
    for (damaged, offset, intact) in [
        (&whole[..whole.len() - 1], begins(2), 2 * BLOCK),
        (&whole[..begins(2) as usize], begins(2), 2 * BLOCK),
        (&whole[..begins(2) as usize - 1], begins(1), BLOCK),
        (&[&parts[0][..], &parts[2]].concat(), begins(1), BLOCK),
        (&[&parts[1][..], &parts[2]].concat(), 0, 0),
        (&[&whole[..], b"garbage"].concat(), begins(3), plain.len()),
        (&[&whole[..], &parts[1]].concat(), begins(3), plain.len()),
    ] {
        let (bytes, fault) = frames(damaged);
        assert!(bytes == plain[..intact], "{intact}");
        let fault = fault.unwrap();
        // A block too many is told at the one before, too.
        let wanted = [offset, begins(2)].contains(&fault.offset);
        assert!(wanted, "{offset}: {fault:?}");
    }
}

#[test]
fn no_more_is_written_than_was_allowed() {
    let mut zeros = Vec::new();
    let mut bomb = Vec::new();
    for nth in 0..40 {
        Encoder::new().block(nth * BLOCK as u64, &vec![0; BLOCK], &mut zeros);
        bomb.extend(zstd::bulk::compress(&zeros, 1).unwrap());
    }
    for jobs in [1, 3] {
        let most = 20 * BLOCK as u64;
        let done = by(unpack_frames, &bomb, Limits { most, jobs });
        assert!(matches!(done, Err(Failure::TooMuch)));
        let done = by(unpack_stream, &within(&bomb), Limits { most, jobs });
        assert!(matches!(done, Err(Failure::TooMuch)));
    }
}
