//! Dense streams: whole, as `fdr pack --dense` makes them; compressed again by other programs; cut, damaged, out of
//! order; and built to fill a disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use fdr_formats::bytes::FileBytes;
use fdr_formats::dense::{BLOCK, Encoder, Head};

use super::blocks::{unpack_frames, unpack_stream};
use super::pack::{Way, pack};
use super::unpack::{Failure, Limits, Unpacked};
use super::{Fault, in_words, unpack_in_two};
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
        assert!(by(zstd_in_two, &other, limits).unwrap() == (plain.clone(), None));
        // Damage of the compressed file is told, not what came of it.
        let cut = &other[..other.len() - 1];
        let (intact, fault) = by(zstd_in_two, cut, limits).unwrap();
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
        assert_eq!(fault.offset, offset, "{fault:?}");
    }
}

#[test]
fn what_follows_the_last_block_is_told_with_its_place() {
    let plain = calls(BLOCK + 500);
    let one = packed(&plain);
    let end = one.len() as u64;
    for behind in [packed(&plain), packed(&[]), one.clone()] {
        let both = [&one[..], &behind].concat();
        let (bytes, fault) = frames(&both);
        let fault = fault.unwrap();
        assert!(bytes == plain && fault.offset == end, "{fault:?}");
        assert!(fault.what.contains("follows the last block"), "{fault:?}");
        let (bytes, fault) = stream(&within(&both));
        let end = within(&one).len() as u64;
        assert!(bytes == plain && fault.unwrap().offset == end);
    }
}

#[test]
fn a_frame_behind_a_block_that_holds_none_is_damage() {
    let plain = calls(BLOCK);
    let first = {
        let mut block = Vec::new();
        Encoder::new().block(0, &plain, &mut block);
        zstd::bulk::compress(&block, 1).unwrap()
    };
    // A size of 4 MiB and more than a head; none; and one that is right of what is no block.
    let oversized = zstd::bulk::compress(&vec![0; BLOCK + 33], 1).unwrap();
    let unsized_one = zstd::stream::encode_all(&[7; 100][..], 1).unwrap();
    let other = zstd::bulk::compress(&[7; 100], 1).unwrap();
    // As large as a number goes: what is declared is never allowed.
    let lying = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &[0xff; 8], &[1, 0, 0]].concat();
    for behind in [oversized, unsized_one, other, lying] {
        let (bytes, fault) = frames(&[&first[..], &behind].concat());
        let fault = fault.unwrap();
        assert!(bytes == plain, "{fault:?}");
        assert_eq!(fault.offset, first.len() as u64, "{fault:?}");
        assert!(fault.what.contains("no block"), "{fault:?}");
        // In front, it tells that the file was made by another.
        let failure = by(unpack_frames, &behind, Limits { most: ANY, jobs: 2 });
        assert!(matches!(failure, Err(Failure::NotBlocks)));
    }
}

#[test]
fn damage_of_the_stream_within_is_not_taken_for_that_of_the_file() {
    let plain = calls(3 * BLOCK + 500);
    let dense = within(&packed(&plain));
    let second = 32 + Head::parse(&dense).unwrap().body;
    let third = second + 32 + Head::parse(&dense[second..]).unwrap().body;
    let limits = Limits { most: ANY, jobs: 2 };
    let two = |stream: &[u8], cut: usize| {
        let other = zstd::stream::encode_all(stream, 1).unwrap();
        let (bytes, fault) = by(zstd_in_two, &other[..other.len() - cut], limits).unwrap();
        (bytes, fault.unwrap())
    };
    let mut bad = dense.clone();
    bad[third - 1] ^= 1;
    // Damaged in the second block, and cut far behind it or not at all.
    for cut in [0, 1] {
        let (bytes, fault) = two(&bad, cut);
        assert!(bytes == plain[..BLOCK], "{fault:?}");
        assert_eq!((fault.offset, fault.within), (second as u64, true));
        let text = in_words(&fault);
        let place = format!("stream within is damaged in what begins at its byte {second}: ");
        assert!(text.contains(&place), "{text}");
    }
    // Cut alone: the one frame of the file is at fault.
    let (_, fault) = two(&dense, 1);
    assert_eq!((fault.offset, fault.within), (0, false), "{fault:?}");
    assert!(in_words(&fault).starts_with("the compressed data"));
    // Complete within, with damage behind.
    let behind = [&zstd::bulk::compress(&dense, 1).unwrap()[..], b"garbage"].concat();
    let (bytes, fault) = by(zstd_in_two, &behind, limits).unwrap();
    let fault = fault.unwrap();
    assert!(bytes == plain && !fault.within, "{fault:?}");
    assert_eq!(fault.offset, behind.len() as u64 - 7);
}

#[test]
fn a_cut_frame_of_several_blocks_gives_the_whole_ones() {
    let plain = calls(3 * BLOCK);
    let dense = within(&packed(&plain));
    assert!(dense.len() < BLOCK);
    let one = zstd::bulk::compress(&dense, 1).unwrap();
    let failure = by(
        unpack_frames,
        &one[..one.len() - 1],
        Limits { most: ANY, jobs: 2 },
    );
    assert!(matches!(failure, Err(Failure::NotBlocks)));
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

/// Of a file of zstd's.
fn zstd_in_two(
    packed: &FileBytes,
    out: &File,
    limits: Limits,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    unpack_in_two(None, packed, out, limits, progress)
}
