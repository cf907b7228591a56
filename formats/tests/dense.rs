//! The dense stream: whatever bytes there are come back as they were; what is damaged is told, wherever
//! that is; and nothing is taken on trust.

use std::fs;
use std::path::Path;

use crate::common::{self, Random, hex};
use crate::fuzz::alloc::Counting;
use fdr_formats::dense::{BLOCK, Decoder, Encoder, Fault, HEAD, Head, LARGEST, probe};

fn encode(offset: u64, plain: &[u8]) -> Vec<u8> {
    let mut block = vec![1, 2, 3];
    Encoder::new().block(offset, plain, &mut block);
    assert!(block.len() <= HEAD + plain.len() && probe(&block));
    block
}

fn decode(block: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut plain = vec![1, 2, 3];
    let done = Decoder::new().block(block, &mut plain);
    assert!(done.is_ok() || plain.is_empty());
    done.map(|head| {
        assert_eq!((head.plain, head.body), (plain.len(), block.len() - HEAD));
        plain
    })
}

fn comes_back(plain: &[u8]) -> usize {
    let block = encode(7 << 30, plain);
    assert!(
        decode(&block) == Ok(plain.to_vec()),
        "{} bytes",
        plain.len()
    );
    block.len()
}

/// The golden XRay files: of all versions and byte orders, whole and cut.
fn goldens() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray");
    let paths = fs::read_dir(folder).expect("golden files");
    let paths = paths.map(|entry| entry.expect("a readable folder").path());
    let files = paths.filter(|path| path.extension() == Some("fdr".as_ref()));
    files
        .map(|path| fs::read(path).expect("a readable file"))
        .collect()
}

/// Calls that nest, of some functions, with odd records between them, as many as fill the bytes.
fn trace(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut trace = hex(&common::header(3, 0));
    let mut open = Vec::new();
    while trace.len() < bytes {
        let delta = match random.below(50) {
            0 => random.next() as u32,
            1 => 0xfeff + random.below(3) as u32,
            _ => 40 + random.below(8) as u32,
        };
        let word = match (random.below(1000), open.pop()) {
            (0, _) => {
                trace.extend(
                    [0x05]
                        .into_iter()
                        .chain((0..15).map(|_| random.next() as u8)),
                );
                continue;
            }
            // A custom event whose payload ends anywhere.
            (1, _) => {
                let size = random.below(40) as u8;
                trace.extend([0x0b, size].into_iter().chain([0; 14]));
                trace.extend((0..size).map(|_| random.next() as u8));
                continue;
            }
            // No record at all.
            (2, _) => {
                trace.extend((0..random.below(20)).map(|_| random.next() as u8));
                continue;
            }
            (3, _) => (random.next() as u32) & !9,
            (4..500, Some(function)) => function << 4 | [2_u32, 2, 2, 4][random.below(4) as usize],
            (_, back) => {
                open.extend(back);
                let function = 1 + random.below(9) as u32;
                open.push(function);
                function << 4 | [0_u32, 0, 0, 6][random.below(4) as usize]
            }
        };
        trace.extend(word.to_le_bytes());
        trace.extend(delta.to_le_bytes());
    }
    trace.truncate(bytes);
    trace
}

#[test]
fn golden_files_come_back_cut_at_every_byte() {
    let files = goldens();
    assert!(files.len() > 10);
    for file in files {
        let file = &file[..file.len().min(1200)];
        for end in 0..=file.len() {
            comes_back(&file[..end]);
        }
        for start in 0..24 {
            comes_back(file.get(start..).unwrap_or(&[]));
        }
    }
}

#[test]
fn flipped_files_come_back() {
    let mut file = trace(&mut Random(5), 1200);
    for bit in 0..8 * file.len() {
        file[bit / 8] ^= 1 << (bit % 8);
        comes_back(&file);
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn random_traces_and_random_bytes_come_back() {
    for seed in 1..40 {
        let mut random = Random(seed);
        let size = random.below(200_000) as usize;
        let made = trace(&mut random, size);
        comes_back(&made);
        // Between other bytes, at any alignment.
        let noise: Vec<u8> = (0..random.below(5000))
            .map(|_| random.next() as u8)
            .collect();
        comes_back(&noise);
        comes_back(&[&noise, &made[..], &noise].concat());
    }
}

#[test]
fn blocks_of_every_size_come_back_and_stand_for_themselves() {
    let whole = trace(&mut Random(9), BLOCK);
    comes_back(&whole);
    let nested =
        (0..BLOCK as u64 / 8).map(|nth| (40 << 32) | ((nth / 2 % 5 + 1) << 4) | ((nth % 2) << 1));
    let nested: Vec<u8> = nested.flat_map(u64::to_le_bytes).collect();
    let packed = comes_back(&nested);
    assert!(packed < BLOCK / 2, "{packed} bytes");
    comes_back(&whole[1..]);
    assert_eq!(comes_back(&[]), HEAD);
    assert!(comes_back(&vec![0; BLOCK]) < BLOCK / 2);
    assert_eq!(comes_back(&vec![0xff; BLOCK]), LARGEST);
    // The same encoder and decoder, one block after the other: none knows of another.
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let (mut block, mut plain) = (Vec::new(), Vec::new());
    for nth in 0..3 {
        let part = &whole[nth * 1000..][..500_000];
        encoder.block(nth as u64, part, &mut block);
        assert!(block == encode(nth as u64, part));
        assert!(decoder.block(&encode(0, &whole), &mut plain).is_ok());
        assert_eq!(
            decoder.block(&block, &mut plain).map(|head| head.offset),
            Ok(nth as u64)
        );
        assert!(plain == part);
    }
}

#[test]
fn a_deep_recursion_and_strange_exits_come_back() {
    let word = |function: u32, action: u32, delta: u32| {
        (u64::from(delta) << 32 | u64::from(function << 4 | action << 1)).to_le_bytes()
    };
    let down = (0..20_000).flat_map(|nth| word(nth % 7, 0, nth));
    let up = (0..20_000).rev().flat_map(|nth| word(nth % 7, 1, 40));
    let strangers = (0..1000).flat_map(|nth| word(0x0fff_ffff - nth, 1 + nth % 2, u32::MAX - nth));
    comes_back(
        &down
            .clone()
            .chain(up)
            .chain(strangers.clone())
            .collect::<Vec<u8>>(),
    );
    comes_back(&strangers.chain(down).collect::<Vec<u8>>());
}

/// A block by hand: two calls that nest, and three bytes.
#[test]
fn a_block_is_laid_out_as_it_is_written_down() {
    let trace = hex("70000000 2a000000 72000000 00000100 a0a1a2");
    let many = trace.repeat(3000);
    let block = encode(0x0102_0304_0506, &many);
    assert_eq!(
        &block[..16],
        hex("4644524445 4e5301 060504030201 0000").as_slice()
    );
    assert_eq!(block[16..20], (19 * 3000_u32).to_le_bytes());
    assert_eq!(block[20..24], (block.len() as u32 - 32).to_le_bytes());
    assert_eq!(block[24..28], [1, 0, 0, 0]);
    let size = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let (calls, surprises, long) = (size(32), size(36), size(40));
    // The bytes behind each pair put the next ones out of step.
    assert!(
        calls >= 2 && surprises >= 2 && long >= 1,
        "{calls} {surprises} {long}"
    );
    let small = encode(0, &trace);
    assert_eq!(small[24..28], [0; 4]);
    assert!(small[HEAD..] == trace);
}

#[test]
fn a_block_that_is_cut_is_refused_wherever_that_is() {
    for plain in [
        trace(&mut Random(3), 9_000),
        b"no record of any kind".to_vec(),
    ] {
        let block = encode(0, &plain);
        for end in 0..block.len() {
            assert!(decode(&block[..end]).is_err(), "{end} of {}", block.len());
        }
        let longer = [&block[..], &[0]].concat();
        assert_eq!(decode(&longer).expect_err("a byte too many").offset, 20);
    }
}

#[test]
fn a_flipped_bit_is_told_wherever_it_is() {
    let plain = trace(&mut Random(11), 9_000);
    let mut block = encode(0, &plain);
    let mut held = 0;
    for bit in 0..8 * block.len() {
        block[bit / 8] ^= 1 << (bit % 8);
        let flipped = decode(&block);
        match flipped {
            Err(fault) => assert!(fault.offset < block.len() && !fault.what.is_empty()),
            Ok(same) => {
                assert!(same == plain, "bit {bit} changes what comes back");
                held += 1;
            }
        }
        block[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(held < block.len() / 10, "{held}");
    let told = |at: usize, bit: u8| {
        let mut flipped = block.clone();
        flipped[at] ^= bit;
        decode(&flipped).expect_err("a damaged head")
    };
    assert_eq!(told(0, 1).what, "no block of a dense stream");
    assert!(told(7, 2).what.contains("another version"));
    assert_eq!(told(10, 1).offset, 28);
    assert!(told(19, 1).what.contains("4 MiB"));
    assert!(told(24, 2).what.contains("kind"));
    assert_eq!(told(28, 1).offset, 28);
}

/// With the checksum made right again, changes reach the decoder: what is decoded comes back as it is.
#[test]
fn changed_blocks_are_decoded_or_refused_beneath_their_checksum() {
    let call = |nth: u64| (nth * 37 % 5000) << 32 | (nth / 2 % 3 + 1) << 4 | (nth % 2) << 1;
    let plain: Vec<u8> = (0..2000).flat_map(|nth| call(nth).to_le_bytes()).collect();
    let plain = [&plain[..], b"no record", &plain[..800]].concat();
    let whole = encode(1 << 22, &plain);
    assert_eq!(whole[24], 1, "columns");
    let mut random = Random(23);
    let (mut decoded, mut others, mut refused) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut block = whole.clone();
        for _ in 0..1 + random.below(3) {
            // The sizes of the columns and their runs decide most.
            let most = [60, 200, block.len()][random.below(3) as usize];
            let at = HEAD + random.below((most - HEAD) as u64) as usize;
            block[at] = match random.below(3) {
                0 => random.next() as u8,
                1 => block[at] ^ 1 << random.below(8),
                _ => [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            };
        }
        match Decoder::new().seal(&mut block) {
            Ok(()) => {
                let changed = decode(&block).expect("a sealed block");
                comes_back(&changed);
                decoded += 1;
                others += u32::from(changed != plain);
            }
            Err(fault) => {
                assert!(fault.offset < block.len() && !fault.what.is_empty());
                refused += 1;
            }
        }
    }
    assert!(
        others > 2000 && refused > 2000,
        "{decoded} decoded, {others} of them others, {refused} refused"
    );
    let mut same = whole.clone();
    same[28] ^= 1;
    assert_eq!(Decoder::new().seal(&mut same), Ok(()));
    assert!(same == whole);
}

#[test]
fn no_number_is_taken_on_trust() {
    const LIMIT: usize = 1 << 20;
    let block = encode(0, &trace(&mut Random(13), 9_000));
    let claims: [&[u8]; 6] = [
        &[0xff; 4],
        &[0, 0, 0, 0x40],
        &[0xff, 0xff, 0xff, 0x7f],
        &[0, 0, 0x40, 0],
        &[0xff, 0xff, 0x3f, 0],
        &[0xff; 12],
    ];
    let mut decoder = Decoder::new();
    let mut plain = Vec::new();
    for (nth, claim) in claims.into_iter().enumerate() {
        for at in (0..block.len() - claim.len()).filter(|at| *at < 100 || at % 7 == nth) {
            let mut changed = block.clone();
            changed[at..at + claim.len()].copy_from_slice(claim);
            // Also the body's size alone, which nothing follows.
            for end in [block.len(), at + claim.len()] {
                Counting::restart();
                let _ = decoder.block(&changed[..end], &mut plain);
                let _ = Head::parse(&changed[..end]);
                plain = Vec::new();
                let peak = Counting::peak();
                assert!(peak < LIMIT, "changed at byte {at}: {peak} bytes held");
            }
        }
    }
}

#[test]
fn memory_is_a_block_and_little_more() {
    let (whole, mut block, mut plain) = (trace(&mut Random(17), BLOCK), Vec::new(), Vec::new());
    Counting::restart();
    Encoder::new().block(0, &whole, &mut block);
    let packing = Counting::peak();
    assert!(packing < 4 * BLOCK, "{packing} bytes");
    Counting::restart();
    assert!(Decoder::new().block(&block, &mut plain).is_ok());
    let unpacking = Counting::peak();
    assert!(unpacking < BLOCK + (1 << 20), "{unpacking} bytes");
}

#[test]
#[should_panic(expected = "more than a block")]
fn more_than_a_block_is_the_callers_fault() {
    Encoder::new().block(0, &vec![0; BLOCK + 1], &mut Vec::new());
}
