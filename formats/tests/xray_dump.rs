//! `DumpWriter`: ring chunks typed by hand go in, the reader must give exactly their calls and the
//! synthetic ones that make them nest, flagged. Whether llvm-xray agrees is tested elsewhere.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::dump::{complete_info, counts};
use crate::common::{
    self, Chunk, CountingBytes, Event, ReadTrace, assert_nested, cut_everywhere, enter, exit,
    flip_everywhere, function, read, synthetic,
};
use fdr_formats::model::Counts;
use fdr_formats::xray::{BlockSummary, DumpSummary, DumpWriter, Version};
use fdr_formats::{Call, Thread, ThreadId, Ticks, TraceInfo, registry};

fn info() -> TraceInfo {
    let functions = vec![
        function(1, "demo::main", "src/lib.rs", 10),
        function(2, "<demo::Böx<T> as Trait>::\"go\"", "src/lib.rs", 20),
        function(3, "demo::leaf", "src/lib.rs", 0),
    ];
    complete_info(functions, "signal")
}

fn thread(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        process: None,
        name: name.into(),
        counts: Some(counts()),
        ..Thread::default()
    }
}

type DumpParts = (Vec<u8>, Vec<BlockSummary>, DumpSummary);

fn write(version: Version, threads: &[(Thread, Vec<Chunk>)]) -> DumpParts {
    let (mut file, info) = (Cursor::new(Vec::new()), info());
    let mut writer = DumpWriter::new(&mut file, version, &info).expect("memory can be written");
    let mut blocks = Vec::new();
    for (thread, chunks) in threads {
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| &*chunk.0).collect();
        blocks.push(
            writer
                .thread(thread, &chunks)
                .expect("memory can be written"),
        );
    }
    let summary = writer.finish().expect("memory can be written");
    assert_eq!(summary.bytes, file.get_ref().len() as u64);
    (file.into_inner(), blocks, summary)
}

/// Writes one thread in both versions, and reads it back without a complaint.
fn round(chunks: impl Fn() -> Vec<Chunk>) -> (ReadTrace, BlockSummary) {
    let both = [Version::V1, Version::V3].map(|version| {
        let (bytes, blocks, summary) = write(version, &[(thread(7, "main"), chunks())]);
        let read = read(&bytes).expect("readable");
        assert_eq!(read.diagnostics, [], "version {version:?}");
        assert_nested(&read.log.calls(7));
        assert_eq!(summary.records, blocks[0].readable);
        (read, blocks[0])
    });
    let [(version_1, first), (version_3, second)] = both;
    assert_eq!(
        (&version_1.log, first),
        (&version_3.log, second),
        "both versions hold the same"
    );
    (version_3, second)
}

#[test]
fn balanced_calls_are_copied_as_they_are() {
    let chunks = || {
        vec![
            Chunk::new(7, 2, 1000)
                .enter(1, 0)
                .enter(3, 5)
                .exit(3, 7)
                .exit(1, 1),
        ]
    };
    let (read, block) = round(chunks);
    let calls = [enter(1000, 1), enter(1005, 3), exit(1012, 3), exit(1013, 1)];
    assert_eq!(read.log.calls(7), calls);
    assert_eq!(
        block,
        BlockSummary {
            readable: 4,
            ..BlockSummary::default()
        }
    );
    let marks = &read.log.events(7)[..2];
    assert_eq!(
        marks,
        [Event::Wall(1_700_000_000, 5), Event::Cpu(1000, 2)],
        "no invented CPU"
    );
}

#[test]
fn the_file_explains_itself() {
    let chunks = || vec![Chunk::new(7, 0, 1000).enter(1, 0).exit(1, 9)];
    let (read, _) = round(chunks);
    let wanted = info();
    assert_eq!(read.info.functions, wanted.functions);
    assert_eq!(read.info.clock, wanted.clock);
    assert_eq!(
        (&read.info.program, &read.info.reason),
        (&wanted.program, &wanted.reason)
    );
    assert_eq!((read.info.process, read.info.dump), (Some(4242), Some(3)));
    assert_eq!(read.info.missing, wanted.missing);
    assert_eq!(read.info.start, Some(Ticks(900)));
    let thread = &read.info.threads[0];
    assert_eq!((thread.id, thread.name.as_str()), (ThreadId(7), "main"));
    let counts = thread.counts.expect("counts are in the file");
    assert_eq!((counts.recorded, counts.readable), (23, 2));
    assert_eq!((counts.overwritten, counts.dropped), (20, 1));
}

#[test]
fn frames_open_before_and_after_get_synthetic_records() {
    let chunks = || {
        vec![
            Chunk::new(7, 0, 1000)
                .exit(3, 0)
                .exit(2, 4)
                .enter(3, 6)
                .enter(2, 1),
        ]
    };
    let (read, block) = round(chunks);
    let wanted: [Call; 8] = [
        synthetic(enter(1000, 2)),
        synthetic(enter(1000, 3)),
        exit(1000, 3),
        exit(1004, 2),
        enter(1010, 3),
        enter(1011, 2),
        synthetic(exit(1011, 2)),
        synthetic(exit(1011, 3)),
    ];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!(
        (
            block.readable,
            block.synthetic_entries,
            block.synthetic_exits
        ),
        (4, 2, 2)
    );
    let counts = read.info.threads[0].counts.expect("counts are in the file");
    assert_eq!((counts.synthetic_entries, counts.synthetic_exits), (2, 2));
}

#[test]
fn a_lost_exit_closes_the_calls_inside() {
    let chunks = || {
        vec![
            Chunk::new(7, 0, 1000)
                .enter(1, 0)
                .enter(2, 1)
                .enter(3, 1)
                .exit(1, 10)
                .enter(3, 1),
        ]
    };
    let (read, block) = round(chunks);
    let wanted = [
        enter(1000, 1),
        enter(1001, 2),
        enter(1002, 3),
        synthetic(exit(1002, 3)),
        synthetic(exit(1002, 2)),
        exit(1012, 1),
        enter(1013, 3),
        synthetic(exit(1013, 3)),
    ];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!((block.synthetic_entries, block.synthetic_exits), (0, 3));
}

#[test]
fn a_lost_entry_damages_one_place_only() {
    let chunks = || {
        vec![
            Chunk::new(7, 0, 1000)
                .enter(1, 0)
                .exit(3, 2)
                .enter(2, 1)
                .exit(2, 1)
                .exit(1, 1),
        ]
    };
    let (read, block) = round(chunks);
    let wanted = [
        enter(1000, 1),
        synthetic(enter(1000, 3)),
        exit(1002, 3),
        enter(1003, 2),
        exit(1004, 2),
        exit(1005, 1),
    ];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!((block.synthetic_entries, block.synthetic_exits), (1, 0));
}

#[test]
fn repairs_in_a_later_chunk_stay_there() {
    let chunks = || {
        vec![
            Chunk::new(7, 0, 1000).enter(1, 0).enter(2, 1),
            Chunk::new(7, 1, 2000).exit(1, 0).enter(1, 1).exit(3, 1),
            Chunk::new(7, 1, 3000).exit(1, 5),
        ]
    };
    let (read, block) = round(chunks);
    let wanted = [
        enter(1000, 1),
        enter(1001, 2),
        synthetic(exit(2000, 2)),
        exit(2000, 1),
        enter(2001, 1),
        synthetic(enter(2001, 3)),
        exit(2002, 3),
        exit(3005, 1),
    ];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!(
        (
            block.readable,
            block.synthetic_entries,
            block.synthetic_exits
        ),
        (6, 1, 1)
    );
}

#[test]
fn chunks_become_one_block_and_times_go_on() {
    let chunks = || {
        vec![
            Chunk::new(7, 0, 1000)
                .enter(1, 0)
                .cpu(3, 5000)
                .exit(1, 2)
                .wrap(1 << 33)
                .enter(2, 1),
            Chunk::new(7, 3, (1 << 33) + 100).exit(2, 0),
        ]
    };
    let (read, _) = round(chunks);
    let far = 1u64 << 33;
    let wanted = [
        enter(1000, 1),
        exit(5002, 1),
        enter(far + 1, 2),
        exit(far + 100, 2),
    ];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!(read.log.threads.len(), 1);
    let cpus = read
        .log
        .events(7)
        .iter()
        .filter(|event| matches!(event, Event::Cpu(..)));
    let cpus: Vec<&Event> = cpus.collect();
    assert_eq!(
        cpus,
        [
            &Event::Cpu(1000, 0),
            &Event::Cpu(5000, 3),
            &Event::Cpu(far + 100, 3)
        ]
    );
}

#[test]
fn an_empty_thread_keeps_its_name_and_counts() {
    let (read, block) = round(Vec::new);
    assert_eq!(block, BlockSummary::default());
    assert_eq!(read.log.calls(7), []);
    assert_eq!(read.info.threads[0].name, "main");
    assert_eq!(
        read.info.threads[0].counts.map(|counts| counts.dropped),
        Some(1)
    );
    assert_eq!(
        read.log.events(7),
        [Event::Wall(1_700_000_000, 0)],
        "from the clock's anchor"
    );
}

#[test]
fn torn_chunks_are_cut_and_counted() {
    let torn = || {
        let mut cut = Chunk::new(7, 0, 1000).enter(1, 0).exit(1, 3);
        cut.0.extend([0; 24]);
        let mut half = Chunk::new(7, 0, 2000).enter(1, 0).exit(1, 4);
        half.0.extend([0x10, 0, 0]);
        vec![cut, Chunk(vec![0xee; 100]), Chunk(vec![1, 2, 3]), half]
    };
    let (read, block) = round(torn);
    let wanted = [enter(1000, 1), exit(1003, 1), enter(2000, 1), exit(2004, 1)];
    assert_eq!(read.log.calls(7), wanted);
    assert_eq!(block.discarded_bytes, 24 + 100 + 3 + 3);
}

#[test]
fn records_that_are_zeros_count_as_overwritten() {
    let cut = || {
        let mut cut = Chunk::new(7, 0, 1000).enter(1, 0).exit(1, 3);
        cut.0.extend([0; 16]);
        vec![cut.enter(1, 0)]
    };
    let (read, block) = round(cut);
    assert_eq!(block.readable, 2);
    let counts = read.info.threads[0].counts.expect("counts");
    // 23 were recorded, 1 dropped.
    assert_eq!((counts.readable, counts.overwritten), (2, 20));
    let written = write(
        Version::V3,
        &[(
            Thread {
                counts: Some(Counts {
                    recorded: 26,
                    readable: 5,
                    ..self::counts()
                }),
                ..thread(7, "main")
            },
            cut(),
        )],
    );
    let counts = common::read(&written.0).expect("readable").info.threads[0].counts;
    let counts = counts.expect("counts");
    assert_eq!((counts.recorded, counts.readable), (26, 2));
    assert_eq!((counts.overwritten, counts.dropped), (23, 1));
}

#[test]
fn several_threads_of_unlike_length() {
    for version in [Version::V1, Version::V3] {
        let long = (0..5000).fold(Chunk::new(1, 0, 1000), |chunk, _| {
            chunk.enter(1, 1).exit(1, 1)
        });
        let threads = [
            (thread(1, "long"), vec![long]),
            (thread(2, "short"), vec![Chunk::new(2, 1, 950).enter(2, 0)]),
            (thread(3, "empty"), vec![]),
            (thread(4, "stray"), vec![Chunk::new(4, 1, 960).exit(3, 0)]),
        ];
        let (bytes, _, summary) = write(version, &threads);
        assert_eq!((summary.threads, summary.records), (4, 10_002));
        let read = read(&bytes).expect("readable");
        assert_eq!(read.diagnostics, []);
        let names: Vec<&str> = read
            .info
            .threads
            .iter()
            .map(|thread| &*thread.name)
            .collect();
        assert_eq!(names, ["long", "short", "empty", "stray"]);
        let counts = [1, 2, 3, 4].map(|thread| read.log.calls(thread).len());
        assert_eq!(counts, [10_000, 2, 0, 2]);
    }
}

#[test]
fn dumps_without_threads_still_have_facts() {
    for version in [Version::V1, Version::V3] {
        let (bytes, _, summary) = write(version, &[]);
        assert_eq!((summary.threads, summary.records), (0, 0));
        let read = read(&bytes).expect("readable");
        assert_eq!(read.diagnostics, []);
        assert_eq!(read.info.functions.len(), 3);
        assert_eq!(read.log.count(), 1, "the wall-clock time alone");
    }
}

#[test]
fn deep_and_crossing_stacks_end_soon_and_balanced() {
    // Two stacks that take turns on one thread, as coroutines do.
    let turns = (0..1000).fold(Chunk::new(7, 0, 1000).enter(1, 0), |chunk, _| {
        chunk.enter(2, 1).enter(3, 1).exit(2, 1).exit(3, 1)
    });
    let (read, block) = round(|| vec![Chunk(turns.0.clone())]);
    assert_eq!(block.readable, 4001);
    assert_eq!(
        (block.synthetic_entries, block.synthetic_exits),
        (1000, 1001)
    );
    assert_eq!(read.log.calls(7).len(), 4001 + 2001);
    // 100,000 calls deep, then exits of a function that none of them is.
    let deep = (0..100_000).fold(Chunk::new(7, 0, 1000), |chunk, _| chunk.enter(1, 1));
    let deep = (0..1000).fold(deep, |chunk, _| chunk.exit(2, 1));
    let (_, block) = round(|| vec![Chunk(deep.0.clone())]);
    assert_eq!(
        (block.synthetic_entries, block.synthetic_exits),
        (1000, 100_000)
    );
}

sampled! { dumps_survive_cuts_and_flips }

fn dumps_survive_cuts_and_flips(step: usize) {
    for version in [Version::V1, Version::V3] {
        let chunk = Chunk::new(7, 0, 1000)
            .exit(3, 0)
            .enter(1, 2)
            .enter(2, 1)
            .exit(1, 4);
        let other = Chunk::new(8, 1, 950)
            .enter(2, 3)
            .cpu(2, 2000)
            .exit(2, 1)
            .wrap(1 << 40);
        let threads = [(thread(7, "a"), vec![chunk]), (thread(8, "b"), vec![other])];
        let (bytes, _, _) = write(version, &threads);
        cut_everywhere(&bytes, 0, step);
        flip_everywhere(&bytes, 0, step);
    }
}

#[test]
fn a_start_that_is_too_late_is_reported() {
    let (_, _, summary) = write(
        Version::V3,
        &[(thread(7, "a"), vec![Chunk::new(7, 0, 899)])],
    );
    assert_eq!(
        summary
            .losses
            .iter()
            .map(|(_, count)| count)
            .collect::<Vec<_>>(),
        [1]
    );
    let (_, _, summary) = write(
        Version::V3,
        &[(thread(7, "a"), vec![Chunk::new(7, 0, 900)])],
    );
    assert!(summary.losses.is_empty());
}

#[test]
fn times_that_tools_round_are_losses() {
    let large = 1u64 << 53;
    let chunks = [
        (0, Chunk::new(7, 0, large - 1)),
        (1, Chunk::new(7, 0, large)),
        (1, Chunk::new(7, 0, 1000).wrap(large)),
        (1, Chunk::new(7, 0, large - 1).enter(1, 0).exit(1, 1)),
    ];
    for (wanted, chunk) in chunks {
        let (_, _, summary) = write(Version::V3, &[(thread(7, "a"), vec![chunk])]);
        assert_eq!(summary.losses.iter().count(), wanted);
    }
}

#[test]
fn opening_reads_heads_only() {
    for version in [Version::V1, Version::V3] {
        let long = || {
            (0..50_000).fold(Chunk::new(1, 0, 1000), |chunk, _| {
                chunk.enter(1, 1).exit(1, 1)
            })
        };
        let threads = [1, 2].map(|id| {
            (
                thread(id, "long"),
                vec![Chunk::new(id as u32, 0, 1000), long()],
            )
        });
        let (bytes, _, _) = write(version, &threads);
        let count = Arc::new(AtomicU64::new(0));
        let source =
            registry::open(Box::new(CountingBytes(bytes, Arc::clone(&count)))).expect("readable");
        assert_eq!(source.lanes(), 2);
        let read = count.load(Ordering::Relaxed);
        assert!(
            read < 50_000,
            "{read} bytes of 1.6 MB were read to open {version:?}"
        );
    }
}
