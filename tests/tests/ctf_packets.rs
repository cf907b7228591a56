//! The stream files of CTF folders that `fdr convert` writes of a real program. Packets are read here by hand. Trace
//! Compass silently ends a stream at a packet without events, unless that packet is the first.

use std::fs;
use std::path::Path;

use fdr_formats::registry;
use fdr_formats::source::drive;
use fdr_formats::writer::Output;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

/// Bytes in front of a packet's first event.
const HEAD: usize = 85;

/// Entries and exits of a stream file of threads; asserts what readers give up at.
fn edges(path: &Path) -> u64 {
    let bytes = fs::read(path).expect("a stream file");
    let name = path.display();
    let word = |at: usize| {
        let bytes = bytes[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("8 bytes"))
    };
    let half = |at: usize| word(at) as u32 as usize;
    let (mut start, mut last, mut packets, mut edges) = (0, 0, 0, 0);
    while start < bytes.len() {
        let (begin, end) = (word(start + 32), word(start + 40));
        let (content, size) = (word(start + 48), word(start + 56));
        assert!(content <= size && content % 8 == 0, "{name}: byte {start}");
        assert!(last <= begin && begin <= end, "{name}: byte {start}");
        assert_eq!(word(start + 64), packets, "{name}: byte {start}");
        last = begin;
        let (mut at, until) = (start + HEAD, start + (content / 8) as usize);
        assert!(
            packets == 0 || at < until,
            "{name}: packet {packets} at byte {start} is its head alone"
        );
        while at < until {
            let (class, time) = (bytes[at], word(at + 1));
            assert!(last <= time && time <= end, "{name}: byte {at}");
            last = time;
            // Class, time, process, thread, and a name up to a zero byte.
            let name_size = bytes[at + 17..].iter().position(|byte| *byte == 0);
            at += 17 + name_size.expect("a name") + 1;
            edges += u64::from(class < 2);
            at += match class {
                0 | 1 => 9,
                2 => 4 + 8 * half(at),
                3 => 12 + half(at + 8),
                4 => 6 + half(at + 2),
                5 => 8,
                6 => 12,
                7 => 0,
                class => panic!("{name}: class {class} at byte {at}"),
            };
        }
        assert_eq!(at, until, "{name}: the last event ends with the packet");
        last = end;
        packets += 1;
        start += (size / 8) as usize;
    }
    assert!(packets > 0, "{name}");
    edges
}

fn all_edges(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_thread = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("a name");
        name.to_string_lossy().starts_with("thread-")
    };
    paths.filter(is_thread).map(|path| edges(&path)).sum()
}

/// Records two waves of four threads, which make 30,000 calls each. Returns the number of their records.
fn record(folder: &Folder, variables: &str, out: &str) -> u64 {
    let _ = Program::named("streamer", folder)
        .set(variables)
        .env("FDR_OUT", out)
        .args(&["counts", "4", "30000", "waves", "2"])
        .run()
        .ok();
    let text = fs::read_to_string(folder.join("counts")).expect("its counts");
    let last = facts::all(&text, "wave").pop().expect("a wave");
    facts::number(&last[2])
}

/// The edges of the folder that a trace becomes.
fn converted(folder: &Folder) -> u64 {
    let source = registry::open_path(&folder.join("trace.fdr")).expect("a trace");
    let target = registry::target("ctf").expect("the target");
    let path = folder.join("trace.ctf");
    fs::create_dir(&path).expect("a folder");
    let output = Output::Folder(path.clone());
    let mut writer = (target.create)(output, source.info()).expect("space");
    drive(&*source, &mut *writer, &|_| {}).expect("a readable trace");
    writer.finish().expect("space");
    all_edges(&path)
}

#[test]
fn a_conversion_is_whole() {
    for mode in ["ring", "full", "stream"] {
        let folder = Folder::new("ctf-packets");
        let variables = format!("FDR=1 FDR_KEEP=0 FDR_BUFFER=4M FDR_MEMORY=256M FDR_MODE={mode}");
        let records = record(&folder, &variables, "trace.fdr");
        assert_eq!(converted(&folder), records, "{mode}");
    }
}

#[test]
fn a_conversion_with_losses_is_whole() {
    for mode in ["ring", "full"] {
        let folder = Folder::new("ctf-packets-losses");
        let variables = format!("FDR=1 FDR_KEEP=0 FDR_BUFFER=128K FDR_MODE={mode}");
        let records = record(&folder, &variables, "trace.fdr");
        let edges = converted(&folder);
        assert!(0 < edges && edges < records, "{mode}: {edges} of {records}");
    }
}
