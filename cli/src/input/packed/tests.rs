//! Compressed files: whole, cut, with flipped bits, with false sizes, and built to fill a disk or the memory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fdr_formats::bytes::FileBytes;

use super::archive::{self, Archive, End, probe as is_archive};
use super::inflate::Failure;
use super::pack::{FRAME, pack};
use super::unpack::{Limits, Unpacked, unpack};
use super::{Fault, most, plain_name};
use crate::output_file;

fn file(bytes: &[u8]) -> File {
    let mut file = output_file::unnamed().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn unpack_with(packed: &[u8], most: u64, jobs: usize) -> Result<(Vec<u8>, Option<Fault>), Failure> {
    let packed = FileBytes::new(file(packed)).unwrap();
    let out = output_file::unnamed().unwrap();
    let Unpacked { bytes, damage } = unpack(&packed, &out, Limits { most, jobs }, &|_| {})?;
    let mut plain = vec![0; usize::try_from(bytes).unwrap()];
    out.read_exact_at(&mut plain, 0).unwrap();
    assert_eq!(out.metadata().unwrap().len(), bytes);
    Ok((plain, damage))
}

/// The unpacked bytes up to the first damage, and that damage, if there is any.
fn unpacked(packed: &[u8]) -> (Vec<u8>, Option<Fault>) {
    let first = unpack_with(packed, 1 << 30, 3).unwrap();
    assert_eq!(unpack_with(packed, 1 << 30, 1).unwrap(), first);
    first
}

fn is_too_much(packed: &[u8], most: u64) -> bool {
    let all = [1, 3].map(|jobs| unpack_with(packed, most, jobs));
    let all = all.map(|done| matches!(done, Err(Failure::MemoryRefusal)));
    assert_eq!(all[0], all[1]);
    all[0]
}

/// Bytes that can be compressed, but not to nothing.
fn some_bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 & 0x3f
    };
    (0..count).map(|_| next()).collect()
}

/// A frame with a size and a checksum, as `pack` makes them.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    pack(bytes, &mut packed, 1, 1, &|_| {}).unwrap();
    packed
}

#[test]
fn what_is_packed_comes_back_whatever_its_size() {
    for size in [1, 1000, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME + 7] {
        let mut plain = some_bytes(size);
        // Zeros at the end and in the middle are not written.
        let half = size / 2;
        plain[half..]
            .iter_mut()
            .take(1 << 20)
            .for_each(|byte| *byte = 0);
        let mut first = Vec::new();
        for jobs in [1, 4] {
            let mut packed = Vec::new();
            let done = pack(&plain[..], &mut packed, 3, jobs, &|_| {}).unwrap();
            assert_eq!(
                (done.before, done.after),
                (size as u64, packed.len() as u64)
            );
            assert!(unpacked(&packed) == (plain.clone(), None), "{size}");
            // The same bytes, however many work at it.
            assert!(first.is_empty() || first == packed);
            first = packed;
        }
    }
    let mut packed = Vec::new();
    pack(&[][..], &mut packed, 3, 2, &|_| {}).unwrap();
    assert!(packed.is_empty());
}

#[test]
fn failing_readers_and_writers_end_packing() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    use super::PackFailure;
    let plain = some_bytes(3 * FRAME);
    for jobs in [1, 3] {
        let input = pack(plain.chain(Broken), std::io::sink(), 1, jobs, &|_| {});
        assert!(matches!(input, Err(PackFailure::Input(_))));
        let output = pack(&plain[..], Broken, 1, jobs, &|_| {});
        assert!(matches!(output, Err(PackFailure::Output(_))));
    }
}

#[test]
fn cut_files_give_all_before_the_cut() {
    let parts: Vec<Vec<u8>> = (0..4).map(|nth| some_bytes(700 + 10 * nth)).collect();
    let frames: Vec<Vec<u8>> = parts.iter().map(|part| frame(part)).collect();
    let (plain, packed) = (parts.concat(), frames.concat());
    let ends = |lists: &[Vec<u8>]| -> Vec<usize> {
        lists
            .iter()
            .scan(0, |sum, list| {
                *sum += list.len();
                Some(*sum)
            })
            .collect()
    };
    let (plain_ends, packed_ends) = (ends(&parts), ends(&frames));
    for cut in 1..packed.len() {
        let (found, damage) = unpacked(&packed[..cut]);
        assert!(plain.starts_with(&found), "{cut}");
        let whole = packed_ends.iter().rposition(|&end| end <= cut);
        let least = whole.map_or(0, |nth| plain_ends[nth]);
        assert!(found.len() >= least, "{cut}: {} of {least}", found.len());
        let begin = whole.map_or(0, |nth| packed_ends[nth]) as u64;
        let at_an_end = begin == cut as u64;
        assert_eq!(damage.is_none(), at_an_end, "{cut}: {damage:?}");
        assert!(damage.is_none_or(|fault| fault.offset >= begin), "{cut}");
    }
}

#[test]
fn no_flipped_bit_changes_what_is_given() {
    let parts: Vec<Vec<u8>> = (0..3).map(|nth| some_bytes(100 + nth)).collect();
    let (plain, packed) = (
        parts.concat(),
        parts
            .iter()
            .flat_map(|part| frame(part))
            .collect::<Vec<u8>>(),
    );
    let mut whole = 0;
    for at in 0..packed.len() {
        for bit in 0..8 {
            let mut flipped = packed.clone();
            flipped[at] ^= 1 << bit;
            match unpack_with(&flipped, 1 << 20, 2) {
                Ok((found, damage)) => {
                    assert!(plain.starts_with(&found), "{at}.{bit}");
                    // All may be there, and something besides: a checksum that no head speaks of any more.
                    assert!(damage.is_some() || found.len() == plain.len(), "{at}.{bit}");
                    whole += usize::from(damage.is_none());
                }
                // A size that was made enormous.
                Err(Failure::MemoryRefusal) => {}
                Err(other) => panic!("{at}.{bit}: {other:?}"),
            }
        }
    }
    // The format has bits of no meaning.
    assert!(whole < 10, "{whole}");
}

#[test]
fn sizes_that_lie_are_found_out() {
    // A single segment of 200 bytes: its size is the byte at 5.
    let packed = frame(&some_bytes(200));
    assert_eq!(packed[5], 200);
    for size in [0, 199, 201, 255] {
        let mut lying = packed.clone();
        lying[5] = size;
        let (found, damage) = unpacked(&[lying, packed.clone()].concat());
        assert_eq!(
            (found.len(), damage.map(|fault| fault.offset)),
            (0, Some(0)),
            "{size}"
        );
    }
}

#[test]
fn a_bomb_is_refused() {
    let mega = frame(&vec![1; 1 << 20]);
    assert!(mega.len() < 100, "{}", mega.len());
    let bomb = mega.repeat(20);
    assert!(is_too_much(&bomb, 19 << 20));
    assert!(!is_too_much(&bomb, 20 << 20));
    // One frame, whose head does not say how much it holds.
    let streamed = zstd::stream::encode_all(&vec![1; 20 << 20][..], 1).unwrap();
    assert!(is_too_much(&streamed, (20 << 20) - 1));
    assert!(!is_too_much(&streamed, 20 << 20));
    // A head that says too much, with nothing behind it.
    let head = [
        &[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..],
        &u64::MAX.to_le_bytes(),
        &[1, 0, 0],
    ]
    .concat();
    assert!(is_too_much(&head, 1 << 40));
    assert!(most(100) < most(1 << 30) && most(u64::MAX) == u64::MAX);
}

#[test]
fn a_window_of_gigabytes_is_not_made() {
    // Window 2^41, no size; one last block of nothing.
    let packed = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0];
    let (found, damage) = unpacked(&packed);
    assert!(found.is_empty());
    let what = damage.expect("damage").what;
    assert!(what.contains("memory"), "{what}");
}

#[test]
fn skippable_and_empty_frames_are_skipped() {
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let empty = zstd::bulk::compress(&[], 1).unwrap();
    let plain = some_bytes(300);
    let packed = [
        &skipped[..],
        &frame(&plain),
        &empty,
        &skipped,
        &frame(&plain),
        &skipped,
    ]
    .concat();
    assert_eq!(unpacked(&packed), ([&plain[..], &plain].concat(), None));
}

/// A folder that is gone at the end of the test.
fn folder() -> output_file::Pending {
    output_file::unnamed_folder().unwrap()
}

fn archive(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    Archive::from_folder(folder, OsStr::new("app.ctf"))
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn extract(archive: &[u8], folder: &Path) -> anyhow::Result<End> {
    archive::extract(archive, archive.len() as u64, folder, "out")
}

#[test]
fn a_folder_comes_back_from_its_archive() {
    let (from, to) = (folder(), folder());
    let files = [
        ("metadata", 0),
        ("a", 1),
        (".hidden", 511),
        ("thread 7", 512),
        ("ä", 100_000),
    ];
    for (name, size) in files {
        fs::write(from.temporary().join(name), some_bytes(size)).unwrap();
    }
    let bytes = archive(from.temporary());
    assert!(is_archive(&bytes) && bytes.len().is_multiple_of(512));
    let end = extract(&bytes, to.temporary()).unwrap();
    assert_eq!(end, End::Whole);
    for (name, size) in files {
        assert!(
            fs::read(to.temporary().join(name)).unwrap() == some_bytes(size),
            "{name}"
        );
    }
    assert_eq!(fs::read_dir(to.temporary()).unwrap().count(), files.len());
    // Cut anywhere, it says so.
    for cut in (0..bytes.len() - 1024).step_by(97) {
        let to = folder();
        let end = extract(&bytes[..cut], to.temporary()).unwrap();
        assert_eq!(end, End::CutOff, "{cut}");
    }
}

#[test]
fn an_archive_makes_files_in_its_folder_alone() {
    let from = folder();
    fs::write(from.temporary().join("x"), "content").unwrap();
    let good = archive(from.temporary());
    let with = |name: &[u8], kind: u8| {
        let mut bytes = good.clone();
        bytes[..100].fill(0);
        bytes[..name.len()].copy_from_slice(name);
        bytes[156] = kind;
        bytes[148..156].fill(b' ');
        let sum: u32 = bytes[..512].iter().map(|&byte| u32::from(byte)).sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let inner = folder();
        let to = inner.temporary().join("to");
        fs::create_dir(&to).unwrap();
        let done = extract(&bytes, &to).is_ok_and(|end| end == End::Whole);
        assert_eq!(fs::read_dir(inner.temporary()).unwrap().count(), 1);
        (done, fs::read_dir(&to).unwrap().count())
    };
    assert_eq!(with(b"./app.ctf/metadata", b'0'), (true, 1));
    assert_eq!(with(b"app.ctf/metadata", 0), (true, 1));
    // The folders of a name are not made, nor gone up to.
    assert_eq!(with(b"../../metadata", b'0'), (true, 1));
    assert_eq!(with(b"app.ctf", b'5'), (true, 0));
    for name in [&b"app/.."[..], b"..", b".", b"app/", b""] {
        assert_eq!(with(name, b'0'), (false, 0), "{name:?}");
    }
    // Links, devices, pipes.
    for kind in [b'1', b'2', b'3', b'4', b'6', b'S'] {
        assert_eq!(with(b"x", kind), (false, 0));
    }
    let mut flipped = good.clone();
    flipped[0] ^= 1;
    assert!(extract(&flipped, folder().temporary()).is_err());
    // A size beyond the archive's end.
    let mut bytes = good;
    bytes[124..136].copy_from_slice(b"77777777777\0");
    assert!(extract(&bytes, folder().temporary()).is_err());
}

#[test]
fn cut_archives_lose_only_the_end() {
    let from = folder();
    fs::write(from.temporary().join("a"), some_bytes(600)).unwrap();
    fs::write(from.temporary().join("b"), some_bytes(600)).unwrap();
    let bytes = archive(from.temporary());
    let done = |bytes: &[u8], cut| {
        let to = folder();
        let done = super::extract(
            &file(bytes),
            to.temporary(),
            super::Destination::Temporary,
            cut,
        );
        (done.is_ok(), fs::read_dir(to.temporary()).unwrap().count())
    };
    assert_eq!(done(&bytes, false), (true, 2));
    assert_eq!(done(&bytes[..2300], false), (false, 2));
    assert_eq!(done(&bytes[..2300], true), (true, 2));
    assert_eq!(done(&bytes[..700], true), (true, 1));
    // Damage is damage, and a file that can't be made is no cut.
    let mut flipped = bytes.clone();
    flipped[1536] ^= 1;
    assert_eq!(done(&flipped, true), (false, 1));
    let to = folder();
    fs::create_dir(to.temporary().join("b")).unwrap();
    let error = super::extract(
        &file(&bytes[..2300]),
        to.temporary(),
        super::Destination::Temporary,
        true,
    )
    .unwrap_err();
    assert!(error.to_string().ends_with(" folder): b"), "{error}");
}

#[test]
fn a_thread_that_panics_ends_the_packing() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let left = self.0.checked_sub(1);
            self.0 = left.expect("panics on purpose");
            Ok(buffer.len().min(1 << 20))
        }
    }
    for jobs in [1, 3] {
        for reads in [0, 5, 23] {
            let packing = || pack(Broken(reads), std::io::sink(), 1, jobs, &|_| {});
            let done = std::panic::catch_unwind(packing);
            assert!(!matches!(done, Ok(Ok(_))), "{jobs} threads, {reads} reads");
        }
    }
}

#[test]
fn nested_folders_are_not_packed() {
    let from = folder();
    fs::create_dir(from.temporary().join("inner")).unwrap();
    let error = Archive::from_folder(from.temporary(), OsStr::new("x"))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is no regular file"), "{error}");
}

#[test]
fn a_name_says_what_is_packed() {
    let plain =
        |name: &str| plain_name(Path::new(name)).map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(plain("a/app.fdr.zst").as_deref(), Some("a/app.fdr"));
    assert_eq!(plain("app.ctf.tar.zst").as_deref(), Some("app.ctf"));
    assert_eq!(plain("app.fdr"), None);
    assert_eq!(plain(".zst"), None);
    assert_eq!(plain(".tar.zst"), None);
}
