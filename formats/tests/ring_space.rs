//! Ring files of threads that found no space for all of their region, put together by hand: such a thread
//! went round in fewer chunks.
mod common;
#[path = "common/ring.rs"]
mod parts;

use common::read;
use parts::{CHUNK, REGIONS, Ring, SLOTS, chunk, counts};

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
fn a_thread_without_space_went_round_in_fewer_chunks() {
    let mut ring = without_space();
    // The file has nothing where there is no space.
    ring.0.truncate(REGIONS + 2 * CHUNK);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    assert_eq!(counts(&read, 0), [12, 5, 7, 0]);
}

#[test]
fn fewer_chunks_than_can_be_are_told() {
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
        let told = &read.diagnostics[0].what;
        assert!(told.contains("where they can't be"), "{at}: {told}");
        let [recorded, readable, overwritten, dropped] = counts(&read, 0);
        assert_eq!(recorded, readable + overwritten + dropped, "{at}");
    }
}
