//! CTF folders of the golden files: two made byte by byte by a script that shares nothing with the
//! library, one written by babeltrace2. Read completely, cut and flipped everywhere.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::common::ctf::{self, covers_all, list, read, read_whole};
use crate::common::{self, Event, Folder, ReadTrace, enter, exit};
use fdr_formats::model::Thread;
use fdr_formats::{ThreadId, Ticks};

fn golden(name: &str) -> PathBuf {
    common::golden_path("ctf").join(name)
}

/// The files of a golden folder.
fn files(name: &str) -> Vec<(String, Vec<u8>)> {
    let files = common::files(&golden(name)).into_iter();
    let file = |path: PathBuf| (common::file_name(&path), fs::read(&path).expect("a file"));
    files.map(file).collect()
}

const MAIN: u32 = 1;
const LEAF: u32 = 2;
/// First time of `compact`.
const BASE: u64 = 0x7_FFFF_FF00;

#[test]
fn files_per_cpu_with_threads_in_several() {
    let read = read_whole(&golden("compact"));
    assert_eq!(read.info.format, "CTF 1.8, little-endian, by lttng-ust");
    let names = read.names();
    assert_eq!(names, ["0x55d0c0ffee00", "0x55d0c0ffee40"]);
    let thread = |id| Thread {
        id: ThreadId(id),
        process: Some(4242),
        name: "worker".into(),
        ..Thread::default()
    };
    assert_eq!(read.info.threads, [thread(7), thread(8)]);
    assert_eq!(read.info.start, Some(Ticks(BASE)));
    assert_eq!(
        read.info.clock.anchor,
        Some((Ticks(0), 1_700_000_000_123_456_789))
    );
    assert!(
        read.info.clock.constant,
        "a clock of a declared rate is not in doubt"
    );
    let call = Event::Call;
    // The time of 27 bits begins anew between the first and the second exit.
    let wanted = [
        Event::Cpu(BASE, 0),
        call(enter(BASE, MAIN)),
        call(enter(BASE + 100, LEAF)),
        call(exit(BASE + 300, LEAF)),
        Event::Cpu(BASE + 400, 1),
        call(enter(BASE + 400, LEAF)),
        call(exit(BASE + 500, LEAF)),
        call(exit(BASE + 2000, MAIN)),
    ];
    assert_eq!(read.log.events(7), wanted);
    let work = "app:work: { state = \"busy\" = 5, load = 0.5, what = \"grün\", _parts_length = 3, \
                parts = [-1, 0, 300], at = { x = 1, y = [2, 3] } }";
    let wanted = [
        Event::Cpu(BASE + 10, 0),
        call(enter(BASE + 10, MAIN)),
        Event::Lost(3),
        call(exit(BASE + 1000, MAIN)),
        Event::Custom(BASE + 1200, None, work.as_bytes().to_vec()),
    ];
    assert_eq!(read.log.events(8), wanted);
    covers_all(&golden("compact"));
    let kinds: Vec<String> = list(&golden("compact"))
        .into_iter()
        .map(|line| line.2)
        .collect();
    let wanted = "Metadata Packet func_entry func_entry func_entry func_exit Padding Packet func_exit \
                  app:work Packet func_entry func_exit func_exit";
    assert_eq!(
        kinds.join(" ").replace("lttng_ust_cyg_profile:", ""),
        wanted
    );
}

#[test]
fn big_endian_bits_and_exits_without_function() {
    let found = read(&golden("big")).expect("a trace");
    assert_eq!(found.info.format, "CTF 1.8, big-endian");
    assert_eq!(found.info.clock.frequency, 2_000_000_000);
    assert_eq!(found.info.clock.name, "tsc");
    assert_eq!(
        found.info.clock.anchor,
        Some((Ticks(0), 1_600_000_000_500_000_000))
    );
    let bits = "bits: { low = -2, high = 4660, swapped = 258 }";
    let wanted = [
        Event::Call(enter(1000, MAIN)),
        Event::Call(enter(1500, LEAF)),
        Event::Custom(1600, None, bits.as_bytes().to_vec()),
        Event::Call(exit(2000, LEAF)),
        Event::Call(exit(3000, MAIN)),
    ];
    assert_eq!(found.info.threads[0].name, "stream");
    assert_eq!(found.log.events(1), wanted);
    let messages = found.messages();
    let wanted = "at byte 216: of stream: an exit of nothing that is open; it is left out";
    assert_eq!(messages, [wanted]);
    covers_all(&golden("big"));
    let kinds: Vec<String> = list(&golden("big"))
        .into_iter()
        .map(|line| line.2)
        .collect();
    assert_eq!(kinds[..3], ["MetadataPacket", "MetadataPacket", "Packet"]);
}

#[test]
fn what_babeltrace2_wrote_is_what_we_had_written() {
    let theirs = read_whole(&golden("babeltrace2"));
    let ours = read_whole(&golden("ours"));
    assert_eq!(theirs.log, ours.log);
    assert!(ours.log.count() > 50, "{}", ours.log.count());
    assert_eq!(theirs.info.threads, ours.info.threads);
    assert_eq!(theirs.info.functions, ours.info.functions);
    assert_eq!(theirs.info.clock, ours.info.clock);
    assert_eq!(theirs.info.missing, ours.info.missing);
    let origin = |info: &fdr_formats::TraceInfo| (info.program.clone(), info.process, info.dump);
    assert_eq!(origin(&theirs.info), origin(&ours.info));
    covers_all(&golden("babeltrace2"));
}

/// Does something with a folder in which one file is other than it was, for every file and place.
fn damaged(name: &str, mut damage: impl FnMut(&Folder, &str, &[u8])) {
    let files = files(name);
    let folder = Folder::new();
    for (name, bytes) in &files {
        folder.put(name, bytes);
    }
    for (name, bytes) in &files {
        damage(&folder, name, bytes);
        folder.put(name, bytes);
    }
}

/// Events in words: functions by name, because numbers are given in the order of what is found.
fn in_words(read: &ReadTrace, thread: ThreadId) -> Vec<String> {
    let found = read.log.threads.iter().find(|(id, _)| *id == thread);
    let events = found.map_or(&[][..], |(_, events)| events);
    let word = |event: &Event| match event {
        Event::Call(call) => {
            let function = read.info.function(call.function);
            let name = function.map_or("", |function| &function.name);
            format!("{} {:?} {name}", call.time, call.edge)
        }
        other => format!("{other:?}"),
    };
    events.iter().map(word).collect()
}

/// Cuts each file before every `step`th byte.
fn cut_everywhere(name: &str, step: usize) {
    let whole = read(&golden(name)).expect("a trace");
    damaged(name, |folder, file, bytes| {
        let cut = folder.patch(file);
        for end in (0..bytes.len()).rev().step_by(step) {
            cut.set_len(end as u64).expect("a file");
            let Ok(part) = read(folder.path()) else {
                assert_eq!(file, "metadata", "cut at byte {end}");
                continue;
            };
            // Without metadata, events mean something else; without facts, names are missing.
            if file == "metadata" || file == "facts" {
                continue;
            }
            for (thread, _) in &part.log.threads {
                let (all, some) = (in_words(&whole, *thread), in_words(&part, *thread));
                // One file of several that share a thread: what is missing is in the middle, and
                // where it changed the CPU is seen later.
                let events = some.iter().filter(|event| !event.starts_with("Cpu"));
                let mut rest = all.iter();
                for event in events {
                    let found = rest.any(|known| known == event);
                    assert!(found, "{file} cut at byte {end}: {event} in {some:#?}");
                }
                assert!(name == "compact" || all.starts_with(&some), "{file}, {end}");
            }
            covers_all(folder.path());
        }
    });
}

/// Flips bits of every `step`th byte.
fn flip_everywhere(name: &str, most: usize, step: usize) {
    let all: usize = files(name).iter().map(|file| file.1.len()).sum();
    let (mut errors, mut reads) = (0, 0);
    damaged(name, |folder, file, bytes| {
        // The threads of our folder are much alike.
        if matches!(file, "thread-102" | "thread-103") {
            return;
        }
        let flipped = folder.patch(file);
        for (place, byte) in bytes.iter().enumerate().step_by(step) {
            let put = |byte: u8| flipped.write_all_at(&[byte], place as u64).expect("a file");
            // A text is long, and its flips are much alike.
            let masks: &[u8] = match file {
                "metadata" if place % 2 == 0 => &[0x01],
                "metadata" => &[0x40],
                _ => &[0x01, 0x08, 0x40, 0xff],
            };
            for mask in masks {
                put(byte ^ mask);
                match read(folder.path()) {
                    Ok(read) => {
                        reads += 1;
                        assert!(read.log.count() <= all, "{file}, byte {place}");
                        assert!(read.diagnostics.len() <= most, "{file}, byte {place}");
                        if place % 5 == 0 {
                            covers_all(folder.path());
                        }
                    }
                    Err(_) => {
                        assert_eq!(file, "metadata", "byte {place}");
                        errors += 1;
                    }
                }
            }
            put(*byte);
        }
    });
    assert!(
        errors > 100 / step && reads > 100 / step,
        "{errors} errors, {reads} readable"
    );
}

sampled! {
    a_folder_of_files_per_cpu_cut
    a_big_endian_folder_cut
    a_folder_of_ours_cut
    a_folder_of_files_per_cpu_flipped
    a_big_endian_folder_flipped
    a_folder_of_ours_flipped
}

fn a_folder_of_files_per_cpu_cut(step: usize) {
    cut_everywhere("compact", step);
}

fn a_big_endian_folder_cut(step: usize) {
    cut_everywhere("big", step);
}

fn a_folder_of_ours_cut(step: usize) {
    cut_everywhere("ours", step);
}

fn a_folder_of_files_per_cpu_flipped(step: usize) {
    flip_everywhere("compact", 12, step);
}

fn a_big_endian_folder_flipped(step: usize) {
    flip_everywhere("big", 8, step);
}

fn a_folder_of_ours_flipped(step: usize) {
    flip_everywhere("ours", 24, step);
}

#[test]
fn damage_costs_one_packet() {
    let whole = read_whole(&golden("ours"));
    let path = golden("ours");
    let source = fs::read(path.join("thread-101")).expect("a file");
    let starts: Vec<usize> = ctf::packets(&source)
        .iter()
        .scan(0, |at, packet| {
            let start = *at;
            *at += packet.size as usize;
            Some(start)
        })
        .collect();
    assert!(starts.len() >= 3, "{starts:?}");
    let folder = Folder::new();
    for (name, bytes) in files("ours") {
        folder.put(&name, &bytes);
    }
    let all = whole.log.events(101);
    for (nth, start) in starts.iter().enumerate() {
        // Magic number, size of the packet, class of the first event.
        for (offset, message) in [
            (0, "no packet begins here"),
            (57, "packet"),
            (85, "an event"),
        ] {
            let mut bytes = source.clone();
            let Some(byte) = bytes.get_mut(start + offset) else {
                continue;
            };
            *byte ^= 0x77;
            folder.put("thread-101", &bytes);
            let read = read(folder.path()).expect("a trace");
            let found = read.log.events(101);
            let place = format!("packet {nth}, byte {offset}");
            assert!(found.iter().all(|event| all.contains(event)), "{place}");
            if nth + 1 < starts.len() {
                assert_eq!(found.last(), all.last(), "{place}");
            }
            let messages = read.messages();
            let messages = messages.join("\n");
            assert!(
                messages.contains(message) && messages.contains("of thread-101"),
                "{place}: {messages}"
            );
            // All other threads are as they were.
            assert_eq!(read.log.events(102), whole.log.events(102), "{place}");
        }
    }
}
