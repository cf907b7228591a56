//! Files made by other programs or by hand to the byte, read completely. The expected contents come from their makers
//! and from llvm-xray, not from this library.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common::{
    self, Event, ReadTrace, assert_covers, call, cut_everywhere, enter, exit, file_name,
    file_sizes, files, flip_everywhere, list, list_source, read_source,
};
use fdr_formats::registry::{FORMATS, Format, Opener, open_path};
use fdr_formats::{Call, Edge, ThreadId, Ticks};

fn golden(name: &str) -> Vec<u8> {
    common::golden(&format!("xray/{name}.fdr"))
}

fn read_golden(name: &str) -> ReadTrace {
    common::read_golden(&format!("xray/{name}.fdr"))
}

/// The golden traces of a format, in the order of their names: files, or folders but for `vectors`, which has another
/// purpose.
pub(crate) fn traces(format: &Format) -> Vec<PathBuf> {
    let folder = common::golden_path(format.name);
    if matches!(format.opener, Opener::Folder { .. }) {
        let entries = fs::read_dir(&folder).expect("a readable folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut folders: Vec<PathBuf> = paths
            .filter(|path| path.is_dir() && !path.ends_with("vectors"))
            .collect();
        folders.sort();
        return folders;
    }
    // Text that explains the files, and what makes them.
    let is_trace = |path: &PathBuf| {
        path.extension()
            .is_none_or(|end| end != "md" && end != "py")
    };
    files(&folder).into_iter().filter(is_trace).collect()
}

#[test]
fn every_format_has_golden_files_and_knows_them() {
    for format in FORMATS {
        let traces = traces(format);
        assert!(!traces.is_empty(), "{} has no golden trace", format.name);
        for path in traces {
            let name = path.display().to_string();
            let is_known = match format.opener {
                Opener::File { probe, .. } => {
                    let bytes = fs::read(&path).expect("a readable file");
                    probe(&bytes[..bytes.len().min(64)])
                }
                Opener::Folder { probe, .. } => probe(&path),
            };
            assert!(is_known, "{name} is not recognised");
            let source = open_path(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            let read = read_source(&*source);
            let is_head = path.ends_with("seed_metadata_only.heph");
            assert!(read.log.count() > 0 || is_head, "{name} gives no event");
            if format.name == "ring" {
                continue;
            }
            let sizes = match format.opener {
                Opener::File { .. } => vec![fs::metadata(&path).expect("a file").len()],
                Opener::Folder { .. } => file_sizes(&path),
            };
            assert_covers(&list_source(&*source), &sizes, &name);
        }
    }
}

sampled! { golden_files_survive_cuts_and_flips }

/// Formats whose traces are folders, and the ring, have suites of their own.
fn golden_files_survive_cuts_and_flips(step: usize) {
    let of_files = |format: &&Format| matches!(format.opener, Opener::File { .. });
    let of_files = FORMATS.iter().filter(of_files);
    for format in of_files.filter(|format| format.name != "ring") {
        for path in traces(format) {
            // The other files of HTDUMP begin with the same klasses.
            let klasses = ["min_klasses_le.htdump", "base_after_derived.htdump"];
            if format.name == "htdump" && !klasses.contains(&&*file_name(&path)) {
                continue;
            }
            println!("{}", path.display());
            let bytes = fs::read(&path).expect("a readable file");
            // The rest of a long file says nothing that its first part does not.
            let part = &bytes[..bytes.len().min(2000)];
            cut_everywhere(part, 0, step);
            flip_everywhere(&part[..part.len().min(700)], 0, step);
        }
    }
}

/// What every `std` file and each thread of every `mt` file does, from `start` on.
fn standard(start: u64) -> Vec<Call> {
    let far = start + 10_000_000_000;
    vec![
        enter(start, 1),
        enter(start + 100, 2),
        exit(start + 300, 2),
        Call {
            has_arguments: true,
            ..enter(start + 400, 3)
        },
        exit(start + 900, 3),
        enter(start + 1000, 4),
        call(start + 1500, 4, Edge::TailExit),
        enter(start + 1500, 5),
        exit(start + 1700, 5),
        exit(start + 2000, 1),
        enter(far + 10, 1),
        exit(far + 110, 1),
    ]
}

fn marks(read: &ReadTrace, thread: u64) -> Vec<Event> {
    let events = read.log.events(thread).iter();
    events
        .filter(|event| !matches!(event, Event::Call(_)))
        .cloned()
        .collect()
}

#[test]
fn one_thread_in_every_version() {
    for version in 1..=5 {
        let read = read_golden(&format!("v{version}-std"));
        assert_eq!(read.diagnostics, [], "version {version}");
        assert_eq!(
            read.info.format,
            format!("XRay FDR, version {version}, little-endian")
        );
        assert_eq!(read.info.clock.frequency, 1_000_000_000);
        assert!(read.info.clock.constant && read.info.clock.nonstop);
        assert_eq!(read.info.start, Some(Ticks(1_000_000)));
        assert_eq!(read.info.process, (version >= 3).then_some(4242));
        assert_eq!(
            read.log.calls(101),
            standard(1_000_000),
            "version {version}"
        );
        let cpu = (version == 4).then_some(1);
        let mut wanted = vec![
            Event::Wall(1, 0),
            Event::Cpu(1_000_000, 0),
            Event::Argument(0xdead_beef),
            Event::Argument(7),
            Event::Cpu(1_001_000, 1),
            Event::Custom(1_002_100, cpu, b"hello".to_vec()),
        ];
        if version == 5 {
            wanted.push(Event::Typed(1_002_200, 3, b"typed!".to_vec()));
        }
        assert_eq!(marks(&read, 101), wanted, "version {version}");
    }
}

#[test]
fn several_threads() {
    for name in ["v1-mt", "v3-mt", "v5-mt", "v3-mt-epoch"] {
        let read = read_golden(name);
        assert_eq!(read.diagnostics, [], "{name}");
        let threads: Vec<ThreadId> = read.info.threads.iter().map(|thread| thread.id).collect();
        assert_eq!(threads, [101, 102, 103].map(ThreadId), "{name}");
        for (thread, start) in [(101, 1_005_000), (102, 1_000_000), (103, 1_009_000)] {
            assert_eq!(read.log.calls(thread), standard(start), "{name}");
        }
        assert_eq!(read.info.start, Some(Ticks(1_000_000)));
    }
    let epoch = Event::Custom(1_000_000, None, b"epoch".to_vec());
    let wanted = [
        Event::Wall(1, 5),
        Event::Cpu(1_000_000, 0),
        epoch,
        Event::Cpu(1_005_000, 0),
    ];
    assert_eq!(marks(&read_golden("v3-mt-epoch"), 101)[..4], wanted);
}

#[test]
fn smallest_and_unbalanced_files() {
    let start = 1_000_000;
    let cases: [(&str, u64, &[Call]); 4] = [
        ("v1-min", 101, &[enter(start, 1), exit(start + 500, 1)]),
        ("v1-tid32", 0x12345, &[enter(start, 1), exit(start + 5, 1)]),
        ("v1-open", 101, &[enter(start, 1), enter(start + 1, 2)]),
        (
            "v1-strayexit",
            101,
            &[exit(start, 1), enter(start + 1, 2), exit(start + 2, 2)],
        ),
    ];
    for (name, thread, calls) in cases {
        let read = read_golden(name);
        assert_eq!(read.diagnostics, [], "{name}");
        assert_eq!(read.log.calls(thread), calls, "{name}");
    }
}

#[test]
fn cut_files_are_read_up_to_the_cut() {
    for (name, intact, wanted) in [("v1-trunc", 12, [273, 261]), ("v3-trunc", 10, [272, 261])] {
        let read = read_golden(name);
        assert_eq!(read.log.calls(101), standard(1_000_000)[..intact], "{name}");
        let offsets = read.offsets();
        assert_eq!(offsets, wanted, "{name}: {:?}", read.diagnostics);
    }
    let message = read_golden("v3-trunc").diagnostics[0].to_string();
    let wanted = "at byte 272: the block at byte 32 should have 245 bytes, \
                  but the file ends 21 bytes before that";
    // 32 + 16 + 245 - 272 = 21
    assert_eq!(message, wanted);
}

#[test]
fn a_file_of_llvms_own_runtime() {
    let read = read_golden("llvm19-demo-v5");
    assert_eq!(read.diagnostics, []);
    let records: Vec<usize> = [17886, 17887, 17888, 17889]
        .map(|thread| read.log.calls(thread).len())
        .to_vec();
    assert_eq!(records, [294, 286, 286, 286]);
    let (mut entries, mut edges, mut arguments) = (BTreeMap::new(), [0; 3], 0);
    for (_, events) in &read.log.threads {
        let mut last = Ticks(0);
        for event in events {
            match event {
                Event::Call(call) => {
                    assert!(call.time >= last, "time goes back at {call:?}");
                    last = call.time;
                    edges[call.edge as usize] += 1;
                    if call.edge == Edge::Entry {
                        *entries.entry(call.function.0).or_insert(0) += 1;
                    }
                }
                Event::Argument(_) => arguments += 1,
                _ => {}
            }
        }
    }
    assert_eq!((edges, arguments), ([576, 330, 246], 80));
    let wanted = [
        (1, 240),
        (2, 80),
        (3, 80),
        (4, 80),
        (5, 80),
        (7, 4),
        (8, 3),
        (10, 3),
        (11, 3),
        (12, 3),
    ];
    assert_eq!(entries, BTreeMap::from(wanted));
    let main = read.log.calls(17886);
    assert_eq!(main[0], enter(1_795_162_926_077_335_999, 8));
    assert_eq!(main[293].function.0, 7);
    assert_eq!(read.info.process, Some(17886));
}

#[test]
fn the_listing_names_every_record() {
    let kinds: Vec<String> = list(&golden("v3-std"))
        .into_iter()
        .map(|line| line.2)
        .collect();
    let wanted = "Header BufferExtents NewBuffer WallTime Pid NewCPUId Entry Entry Exit EntryArgs \
                  CallArgument CallArgument Exit NewCPUId Entry TailExit Entry Exit Exit \
                  CustomEvent TSCWrap Entry Exit";
    assert_eq!(kinds.join(" "), wanted);
}
