//! Ring files of threads that found no space for all of their region, put together by hand: such a thread
//! went round in fewer chunks.

use crate::common::ring::{CHUNK, REGION, REGIONS, Ring, SLOTS, chunk, counts};
use crate::common::{Chunk, ReadTrace, read};

/// A region of three chunks, of which two have space: a thread went round in those.
fn without_space() -> Ring {
    let mut ring = Ring::new();
    ring.u64(64, 3 * CHUNK as u64);
    ring.u32(72, 1);
    ring.u32(76, 1);
    let second = chunk(2000).enter(2, 5).exit(2, 5).exit(1, 10);
    let third = chunk(3000).enter(1, 1).enter(2, 1);
    ring.thread(0, &[(2, 7, second), (3, 10, third)], 0);
    ring.u32(SLOTS + 116, 2);
    ring
}

#[test]
fn threads_without_space_use_fewer_chunks() {
    let mut ring = without_space();
    // The file has nothing where there is no space.
    ring.0.truncate(REGIONS + 2 * CHUNK);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    assert_eq!(counts(&read, 0), [12, 5, 7, 0]);
}

#[test]
fn fewer_chunks_than_can_be_are_reported() {
    for (at, value) in [
        // Fewer have space than it goes round in; more than the region has; none.
        (SLOTS + 116, 1),
        (SLOTS + 32, 4),
        (SLOTS + 32, 0),
        // A chunk behind them is in use.
        (SLOTS + 128 + 2 * 24, 3),
    ] {
        let mut ring = without_space();
        ring.u32(at, value);
        let read = read(&ring.0).expect("a ring");
        let message = &read.diagnostics[0].what;
        assert!(message.contains("where they can't be"), "{at}: {message}");
        let [recorded, readable, overwritten, dropped] = counts(&read, 0);
        assert_eq!(recorded, readable + overwritten + dropped, "{at}");
    }
}

/// A thread with a region of two chunks, both of which were given: the second one in memory, for the disk had no more
/// space. The file ends after `space` bytes of the region.
fn second_in_memory(chunks: &[(u64, u64, Chunk)], space: usize) -> ReadTrace {
    let mut ring = Ring::new();
    ring.u32(76, 1);
    ring.thread(0, chunks, 0);
    ring.u32(SLOTS + 116, 2);
    let second = REGIONS + CHUNK;
    ring.0[second..second + CHUNK].fill(0);
    ring.0.truncate(REGIONS + space);
    read(&ring.0).expect("a ring")
}

#[test]
fn records_only_in_memory_are_reported() {
    let three = |at| chunk(at).enter(2, 5).exit(2, 5).exit(1, 10);
    let two = |at| chunk(at).enter(1, 1).enter(2, 1);
    // The chunk that has no place in the file is the newest, the oldest, and the newest again.
    for (chunks, wanted) in [
        (vec![(1, 0, three(2000)), (2, 3, two(3000))], [5, 3, 0, 2]),
        (vec![(2, 3, two(3000)), (3, 5, three(4000))], [8, 3, 3, 2]),
        (vec![(3, 5, three(4000)), (4, 8, two(5000))], [10, 3, 5, 2]),
    ] {
        for (space, problem) in [
            (
                CHUNK,
                "the file ends before this chunk's records: there was no space",
            ),
            // Another thread's region lies behind it.
            (REGION, "zeros instead of records: there was no space"),
            // The file system gave a part of it.
            (CHUNK + 4096, "zeros instead of records: there was no space"),
        ] {
            let read = second_in_memory(&chunks, space);
            assert_eq!(counts(&read, 0), wanted);
            let [diagnostic] = &read.diagnostics[..] else {
                panic!("{:?}", read.diagnostics);
            };
            assert_eq!(diagnostic.offset, (REGIONS + CHUNK) as u64);
            let message = &diagnostic.what;
            assert!(
                message.starts_with(&format!("thread 100: {problem}")),
                "{message}"
            );
            assert!(
                message.contains("only the process has them in memory"),
                "{message}"
            );
            let measured = read.log.calls(100);
            let measured = measured.iter().filter(|call| !call.synthetic).count();
            assert_eq!(measured as u64, wanted[1], "{message}");
        }
    }
}

#[test]
fn files_cut_within_a_chunk_end_there() {
    let first = chunk(2000).enter(2, 5).exit(2, 5).exit(1, 10);
    let mut ring = Ring::new();
    ring.u32(76, 1);
    ring.thread(0, &[(1, 0, first)], 0);
    // Of the third record there is a half.
    ring.0.truncate(REGIONS + 48 + 2 * 8 + 4);
    let read = read(&ring.0).expect("a ring");
    let message = &read.diagnostics[0].what;
    assert!(
        message.contains("the file ends here, and its records do not"),
        "{message}"
    );
    assert_eq!(counts(&read, 0), [3, 2, 0, 1]);
}
