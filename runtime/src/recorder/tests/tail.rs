//! Follows a slot while it is written. The records that are given must be those that were written, at their places, and
//! each missing record must be counted. The function of each record is the number of that record.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use fdr_formats::xray::ChunkDecoder;
use fdr_formats::{Call, Diagnostic, Mark, Sink, Thread};

use super::{CHUNK, Rig, writer};
use crate::clock::Stamp;
use crate::dump::tail::{Next, Tail};
use crate::ring::layout::Slot;

/// Takes calls whose functions must follow one another.
#[derive(Default)]
struct Numbers {
    next: u64,
}

impl Sink for Numbers {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            assert_eq!(u64::from(call.function.0), self.next);
            assert_eq!(call.time.0, time(self.next));
            self.next += 1;
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

/// When the record of that number is made: now and then after a long silence.
fn time(number: u64) -> u64 {
    number * 7 + number / 1000 * (1 << 33)
}

/// Makes the record of that number, on a CPU that changes now and then.
fn write(slot: &Slot, number: u64) {
    let stamp = Stamp {
        ticks: time(number),
        cpu: (number / 777 % 3) as u32,
    };
    writer::write(slot, (number as u32) << 4, stamp);
}

/// A follower of a slot, and what it has read so far.
struct Follower {
    tail: Tail,
    decoder: ChunkDecoder,
    numbers: Numbers,
    buffer: Box<[u8; CHUNK]>,
    lost: u64,
    read: u64,
}

impl Follower {
    fn new(slot: &Slot) -> Follower {
        Follower {
            tail: Tail::new(slot).expect("an owner"),
            decoder: ChunkDecoder::new(),
            numbers: Numbers::default(),
            buffer: Box::new([0; CHUNK]),
            lost: 0,
            read: 0,
        }
    }

    /// Reads the next part and checks it. False: there is no further part.
    fn step(&mut self, slot: &Slot, partial: bool) -> bool {
        match self.tail.next(slot, partial, &mut self.buffer) {
            Next::Part {
                bytes,
                first,
                lost,
                filled,
            } => {
                assert!(filled || partial);
                assert_eq!(first, self.numbers.next + lost);
                self.numbers.next = first;
                let count = self
                    .decoder
                    .decode(&self.buffer[..bytes], &mut self.numbers);
                assert_eq!(self.numbers.next, first + count);
                self.tail.took(first, count);
                self.lost += lost;
                self.read += count;
                true
            }
            Next::Nothing => false,
            Next::Other => panic!("the slot has one owner"),
        }
    }
}

#[test]
fn nothing_is_missed_where_the_reader_keeps_up() {
    let rig = Rig::new(4, false);
    let mut follower = Follower::new(rig.slot());
    assert!(!follower.step(rig.slot(), true));
    for number in 0..200_000 {
        write(rig.slot(), number);
        // Filled chunks at once, others now and then.
        if number % 501 == 0 {
            while follower.step(rig.slot(), number % 3 == 0) {}
        }
    }
    while follower.step(rig.slot(), true) {}
    assert_eq!((follower.read, follower.lost), (200_000, 0));
    assert_eq!(follower.decoder.unknown_bytes(), 0);
}

#[test]
fn an_unfilled_chunk_waits() {
    let rig = Rig::new(2, false);
    let mut follower = Follower::new(rig.slot());
    write(rig.slot(), 0);
    assert!(!follower.step(rig.slot(), false));
    assert!(follower.step(rig.slot(), true));
    assert!(!follower.step(rig.slot(), true));
    write(rig.slot(), 1);
    assert!(follower.step(rig.slot(), true));
    assert_eq!(follower.read, 2);
}

#[test]
fn what_was_overwritten_is_counted() {
    let rig = Rig::new(4, false);
    let mut follower = Follower::new(rig.slot());
    let mut number = 0;
    // From a part of the first chunk on, three times around the ring; again and again.
    for round in 1..=5 {
        for _ in 0..round * 10_000 + 123 {
            write(rig.slot(), number);
            number += 1;
        }
        while follower.step(rig.slot(), true) {}
        assert_eq!(follower.read + follower.lost, number);
    }
    assert!(follower.lost > 0 && follower.read > 20_000);
    assert_eq!(follower.decoder.unknown_bytes(), 0);
}

#[test]
fn beside_a_writer_at_full_speed() {
    const RECORDS: u64 = if cfg!(miri) { 20_000 } else { 3_000_000 };
    for chunks in [2, 3, 16] {
        let rig = Rig::new(chunks, false);
        let (over, slot) = (AtomicBool::new(false), rig.slot());
        let mut follower = Follower::new(slot);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..RECORDS {
                    write(slot, number);
                }
                over.store(true, Release);
            });
            while !over.load(Acquire) {
                follower.step(slot, true);
            }
            while follower.step(slot, true) {}
            // A join that sanitizers see; the scope's own end is inside std.
            writer.join().expect("the writer's end");
        });
        assert_eq!(follower.read + follower.lost, RECORDS);
        assert!(follower.read > 0);
        assert_eq!(follower.decoder.unknown_bytes(), 0);
    }
}

#[test]
fn another_owner_is_reported() {
    let rig = Rig::new(2, false);
    let mut follower = Follower::new(rig.slot());
    write(rig.slot(), 0);
    rig.slot().generation.fetch_add(1, Relaxed);
    let next = follower.tail.next(rig.slot(), true, &mut follower.buffer);
    assert_eq!(next, Next::Other);
    assert!(!follower.tail.is_of(rig.slot()));
}
