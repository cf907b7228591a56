//! What a command holds of a small file, whatever is in it: at most half a gigabyte, as the system counts it. Where
//! that is not enough, the command refuses the file, and says what grew and which option allows it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::the_rest::memory_support::{self, SHAPES, Shape, raw, ring, shape_called, write};
use fdr_formats::registry::{target, targets};
use fdr_tests::support::folder::Folder;

/// What a command may hold of any of these files, in MiB.
const MAX: u64 = 512;

/// How a command ended.
#[derive(Debug)]
struct CommandOutcome {
    code: i32,
    /// The most that it held at a time.
    mib: u64,
    stderr: String,
}

impl CommandOutcome {
    fn refused(&self) -> bool {
        self.code == 2 && self.stderr.contains("--max-memory allows more")
    }
}

/// Runs the tool in a folder; `@` stands for the file.
fn fdr(folder: &Folder, words: &str, file: &Path) -> CommandOutcome {
    let report = folder.join("peak");
    let file = file.to_str().expect("UTF-8");
    let arguments = words.split(' ').map(|word| word.replace('@', file));
    let output = Command::new(env!("CARGO_BIN_EXE_peak"))
        .arg(&report)
        .arg(fdr_tests::tool())
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .expect("the tool runs");
    let text = fs::read_to_string(report).expect("its end");
    let (code, kib) = text.trim().split_once(' ').expect("two numbers");
    let ended = CommandOutcome {
        code: code.parse().expect("a code"),
        mib: kib.parse::<u64>().expect("a size") / 1024,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    println!(
        "{:4} MiB, code {}: {words} ({file}) {}",
        ended.mib, ended.code, ended.stderr
    );
    ended
}

/// The same, held to the limit: it does its work, or refuses the file by name.
fn held(folder: &Folder, words: &str, file: &Path) -> CommandOutcome {
    let ended = fdr(folder, words, file);
    assert!(ended.mib <= MAX, "{words}: {ended:?}");
    let named = ended.stderr.contains(file.to_str().expect("UTF-8"));
    let refused = ended.refused() && named;
    assert!(ended.code < 2 || refused, "{words}: {ended:?}");
    ended
}

/// As [`held`], of a file that must not be refused.
fn done(folder: &Folder, words: &str, file: &Path) {
    let ended = held(folder, words, file);
    assert!(ended.code < 2, "{words}: {ended:?}");
}

fn written(folder: &Folder, shape: Shape, format: &str) -> std::path::PathBuf {
    let path = folder.join(&format!("{}.{format}", shape.name));
    write(shape, target(format).expect("a target"), &path);
    path
}

#[test]
fn commands_hold_little_of_small_files() {
    let folder = Folder::new("memory-commands");
    for shape in SHAPES {
        let path = written(&folder, shape, "xray");
        for words in [
            "report @",
            "report --json --per-thread @",
            "report --csv @",
            "info --functions @",
            "records --limit 1000 @",
            "verify @",
            "flame --per-thread @",
            "state @",
            "pack @ -o packed.zst --force",
            "unpack packed.zst -o unpacked --force",
            "convert @ --to heph -o out --force",
            "convert @ --to et -o out --force",
            "convert @ --to htdump -o out --force",
            "convert @ --to xray1 -o out --force",
        ] {
            done(&folder, words, &path);
        }
        fs::remove_file(folder.join("out")).expect("a trace");
        done(&folder, "convert @ --to ctf -o folder --force", &path);
        fs::remove_dir_all(folder.join("folder")).expect("a trace");
        done(&folder, "convert @ --to tcstate -o folder --force", &path);
        fs::remove_dir_all(folder.join("folder")).expect("a trace");
    }
}

#[test]
fn every_format_is_read_in_little_memory() {
    let folder = Folder::new("memory-formats");
    // One version and byte order of each.
    let first = |name: &str| ["heph", "htdump", "et", "iet", "tcstate", "ctf"].contains(&name);
    for target in targets().filter(|target| first(target.name)) {
        for name in ["entries", "paths", "turns"] {
            let path = written(&folder, shape_called(name), target.name);
            for words in ["report @", "flame @", "convert @ --to xray -o out --force"] {
                done(&folder, words, &path);
            }
        }
    }
}

/// Half a gigabyte of zeros in a few kilobytes: each nine are an entry of its own.
#[test]
fn packed_streams_of_zeros_are_refused() {
    let folder = Folder::new("memory-zeros");
    let (stream, packed) = (folder.join("zeros.iet"), folder.join("zeros.zst"));
    fs::write(&stream, b"\0ENTRACE\x01\x01").expect("a file");
    let file = fs::OpenOptions::new().write(true).open(&stream);
    file.and_then(|file| file.set_len(512 << 20))
        .expect("a file with a hole");
    let words = format!("pack @ -o {} --force", packed.display());
    done(&folder, &words, &stream);
    fs::remove_file(&stream).expect("removed");
    assert!(fs::metadata(&packed).expect("a file").len() < 64 << 10);
    assert!(held(&folder, "report @", &packed).refused());
}

/// A million functions of one call each, which pack to a few hundred kilobytes.
#[test]
fn a_report_of_a_million_functions_is_bounded() {
    let folder = Folder::new("memory-functions");
    let (trace, packed) = (folder.join("functions.fdr"), folder.join("functions.zst"));
    raw(&trace, 1, |_| (1..=1 << 20).map(|id| (id, 0)));
    let words = format!("pack @ -o {} --force", packed.display());
    done(&folder, &words, &trace);
    for words in [
        "report @",
        "report --json --per-thread @",
        "verify @",
        "flame @",
    ] {
        held(&folder, words, &packed);
    }
    // With a larger bound, the command succeeds.
    let ended = fdr(&folder, "report --max-memory 4G @", &packed);
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// The longest table that a ring may have: 64 MiB, of 24 bytes for each function.
#[test]
fn a_ring_of_many_functions_is_bounded() {
    let folder = Folder::new("memory-ring");
    let path = folder.join("many.fdr-ring");
    ring(&path, (64 << 20) / 24);
    for words in [
        "report @",
        "info --functions @",
        "records --limit 10 @",
        "verify @",
        "map @ -o map.elf --force",
        "convert @ --to heph -o out --force",
        "recover @ -o recovered --force",
        "recover @ -o recovered --to et --force",
        "pack @ -o packed.zst --force",
    ] {
        held(&folder, words, &path);
    }
    held(&folder, "report @", &folder.join("packed.zst"));
    // As large as programs get.
    ring(&path, 1 << 18);
    for words in [
        "report @",
        "map @ -o map.elf --force",
        "recover @ -o recovered --force",
        "recover @ -o recovered --to et --force",
    ] {
        done(&folder, words, &path);
    }
}

/// A map has an entry for each id up to the largest, whether the trace names it or not.
#[test]
fn a_map_of_the_largest_id_is_bounded() {
    let folder = Folder::new("memory-map");
    let path = folder.join("largest.fdr-ring");
    ring(&path, 0);
    memory_support::name(&path, &[1, (1 << 22) - 1]);
    done(&folder, "map @ -o map.elf --force", &path);
    // An entry is 64 bytes.
    let map = fs::metadata(folder.join("map.elf")).expect("a map");
    assert!(map.len() > 64 * ((1 << 22) - 1));
}

/// A row is small as figures and large as text: the table is never all text.
#[test]
fn a_table_of_many_functions_takes_little() {
    let folder = Folder::new("memory-table");
    let path = written(&folder, shape_called("entries"), "xray");
    for words in ["report @", "report --per-thread @"] {
        let ended = held(&folder, words, &path);
        assert!(ended.code == 0 && ended.mib < 250, "{words}: {ended:?}");
    }
}

/// Threads with a million open calls each: only one thread's calls are open at a time.
#[test]
fn open_calls_of_ended_threads_are_freed() {
    let folder = Folder::new("memory-open");
    let trace = folder.join("open.fdr");
    raw(&trace, 8, |_| (0..1 << 20).map(|nth| (1 + nth % 3, 0)));
    for words in ["flame @", "report @", "verify @"] {
        let ended = held(&folder, words, &trace);
        // The calls of one thread take 30 MiB or more.
        assert!(ended.code < 2 && ended.mib < 160, "{words}: {ended:?}");
    }
}

/// Frames that want the largest window, of which few bytes make much.
#[test]
fn large_windows_are_taken_one_at_a_time() {
    const BLOCKS: u32 = 1024;
    let folder = Folder::new("memory-windows");
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x80, 17 << 3];
    frame.extend((BLOCKS << 17).to_le_bytes());
    for nth in 1..=BLOCKS {
        // One byte, 128 Ki times; the last is marked.
        let head = (128 << 10) << 3 | 1 << 1 | u32::from(nth == BLOCKS);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(7);
    }
    let packed = folder.join("windows.zst");
    fs::write(&packed, frame.repeat(8)).expect("a file");
    let ended = fdr(&folder, "report @", &packed);
    assert!(ended.mib <= MAX, "{ended:?}");
    assert!(ended.stderr.contains("not a trace file"), "{ended:?}");
}

#[test]
fn refusals_name_file_cause_and_option() {
    let folder = Folder::new("memory-refusal");
    let path = written(&folder, shape_called("entries"), "xray");
    let ended = fdr(&folder, "report --max-memory 32M @", &path);
    let text = format!(
        "fdr: {}: the figures of functions and threads would take more memory than the 32.0 MiB that are \
         allowed; --max-memory allows more, as in --max-memory 4G\n",
        path.display()
    );
    assert_eq!((ended.code, ended.stderr), (2, text));
    let output = Command::new(fdr_tests::tool())
        .args(["report", "--help"])
        .output();
    let help = output.expect("the tool runs").stdout;
    assert!(String::from_utf8_lossy(&help).contains("--max-memory <SIZE>"));
}
