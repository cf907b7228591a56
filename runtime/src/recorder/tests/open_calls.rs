//! A thread whose short calls leave no records, with times typed by hand, and the records that a reader finds.

use core::sync::atomic::Ordering::Relaxed;

use super::super::open_calls::PREEMPTED;
use super::super::threshold;
use super::found::{ReaderLog, found_in};
use super::{FN_1, FN_2, PER_CHUNK, Rig};
use crate::clock::{self, Kind};
use crate::recorder::{CLOCK, EXIT};
use crate::ring::layout::{FRAMES, NO_CPU};
use crate::ring::totals;

const FN_3: u32 = 3 << 4;

fn found(rig: &Rig) -> ReaderLog {
    found_in(&rig.read().0)
}

/// A rig whose thread has made a record at 1 on CPU 0.
fn rig(threshold: u64) -> Rig {
    let rig = Rig::new(2, false);
    rig.write(FN_3, 1, 0);
    rig.set_threshold(threshold);
    rig
}

/// The counts of a snapshot and those without one agree. (recorded, readable, summarised)
fn counts(rig: &Rig) -> (u64, u64, u64) {
    let mut snapshot = rig.snapshot();
    assert!(snapshot.take(rig.slot()));
    let counts = snapshot.counts;
    let parts = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
    assert_eq!(counts.recorded, parts);
    assert_eq!(
        crate::ring::counts::count(rig.slot()).expect("counts").1,
        counts
    );
    (counts.recorded, counts.readable, counts.summarised)
}

#[test]
fn short_calls_are_summed_up_in_their_caller() {
    let rig = rig(100);
    for (word, ticks) in [
        (FN_1, 1000),
        (FN_2, 1010),
        (FN_2 | EXIT, 1050),
        (FN_2, 1060),
        (FN_3, 1062),
        (FN_3 | EXIT, 1065),
        (FN_2 | EXIT, 1070),
        (FN_1 | EXIT, 2000),
    ] {
        rig.write(word, ticks, 0);
    }
    let found = found(&rig);
    let events = [
        "cpu 0",
        "+3 at 1",
        "+1 at 1000",
        "3 short, 50",
        "-1 at 2000",
    ];
    assert_eq!(found.events, events);
    assert_eq!(found.own, [(1, 1000, 950)]);
    assert_eq!(counts(&rig), (9, 3, 6));
}

#[test]
fn a_long_call_brings_entries_around_it() {
    let rig = rig(100);
    for (word, ticks) in [
        (FN_1, 1000),
        (FN_3, 1001),
        (FN_3 | EXIT, 1003),
        (FN_2, 1010),
        (FN_3, 1020),
        (FN_3 | EXIT, 1120),
        (FN_2 | EXIT, 1125),
        (FN_3, 1130),
        (FN_3 | EXIT, 1131),
        (FN_1 | EXIT, 1140),
    ] {
        rig.write(word, ticks, 0);
    }
    let found = found(&rig);
    let events = [
        "cpu 0",
        "+3 at 1",
        "+1 at 1000",
        "1 short, 2",
        "+2 at 1010",
        "+3 at 1020",
        "-3 at 1120",
        "-2 at 1125",
        "1 short, 1",
        "-1 at 1140",
    ];
    assert_eq!(found.events, events);
    assert_eq!(found.own, [(3, 100, 100), (2, 115, 15), (1, 140, 22)]);
    assert_eq!(counts(&rig), (11, 7, 4));
}

#[test]
fn open_calls_are_found_by_whoever_looks() {
    let rig = rig(100);
    for (word, ticks) in [
        (FN_1, 1000),
        (FN_3, 1001),
        (FN_3 | EXIT, 1003),
        (FN_2, 1010),
    ] {
        rig.write(word, ticks, 0);
    }
    let before = found(&rig).events;
    assert_eq!(
        before,
        ["cpu 0", "+3 at 1", "+1 at 1000", "1 short, 2", "+2 at 1010"]
    );
    assert_eq!(counts(&rig), (5, 3, 2));
    // Nothing of it is published.
    let published = rig.slot().cursor.load(Relaxed) - rig.slot().base.load(Relaxed);
    assert_eq!(published, 48 + 8);
    rig.write(FN_2 | EXIT, 1011, 0);
    assert_eq!(
        found(&rig).events,
        ["cpu 0", "+3 at 1", "+1 at 1000", "2 short, 3"]
    );
}

#[test]
fn calls_left_by_a_jump_keep_entries() {
    let rig = rig(100);
    for (word, ticks) in [
        (FN_1, 1000),
        (FN_2, 1010),
        (FN_3, 1020),
        (FN_1 | EXIT, 1030),
        // Entered before there was a threshold, and never entered.
        (FN_3 | EXIT, 1040),
        (FN_2 | EXIT, 1050),
    ] {
        rig.write(word, ticks, 0);
    }
    let events = [
        "cpu 0",
        "+3 at 1",
        "+1 at 1000",
        "+2 at 1010",
        "+3 at 1020",
        "-1 at 1030",
        "-3 at 1040",
        "-2 at 1050",
    ];
    assert_eq!(found(&rig).events, events);
    assert_eq!(counts(&rig), (7, 7, 0));
}

#[test]
fn calls_that_are_too_deep_leave_their_records() {
    let rig = rig(u64::MAX);
    let deep = FRAMES as u64 + 50;
    for at in 0..deep {
        rig.write(FN_1, 1000 + at, 0);
    }
    for at in 0..deep {
        rig.write(FN_1 | EXIT, 9000 + at, 0);
    }
    let found = found(&rig);
    // All of them were published when the first of them was too deep.
    assert_eq!(counts(&rig), (1 + 2 * deep, 1 + 2 * deep, 0));
    assert_eq!(found.own.len() as u64, deep);
    assert!(found.stack.open().len() == 1);
    assert_eq!(rig.open_calls().open().0, 0);
    assert_eq!(rig.open_calls().deeper.load(Relaxed), 0);
}

#[test]
fn a_record_names_the_cpu_of_its_moment() {
    let rig = rig(100);
    for (word, ticks, cpu) in [
        (FN_1, 1000, 5),
        (FN_2, 1001, 6),
        (FN_2 | EXIT, 1002, 7),
        (FN_1 | EXIT, 2000, 7),
    ] {
        rig.write(word, ticks, cpu);
    }
    let events = [
        "cpu 0",
        "+3 at 1",
        "cpu 5",
        "+1 at 1000",
        "1 short, 1",
        "cpu 7",
        "-1 at 2000",
    ];
    assert_eq!(found(&rig).events, events);
}

/// (function, calls, calls without a time, total, self, longest) of each row, and its lengths.
type Row = ((u32, u64, u64, u64, u64, u64), Vec<(usize, u64)>);

fn rows(rig: &Rig) -> Vec<Row> {
    let mut copy = totals::Copy::EMPTY;
    let rows = totals::rows(rig.totals());
    let rows = rows.map(|row| {
        let _ = copy.read(row);
        let lengths = copy.lengths.into_iter().enumerate();
        let numbers = (
            copy.function,
            copy.calls,
            copy.untimed,
            copy.total,
            copy.own,
            copy.longest,
        );
        (numbers, lengths.filter(|length| length.1 > 0).collect())
    });
    rows.filter(|((_, calls, untimed, ..), _)| calls + untimed > 0)
        .collect()
}

#[test]
fn each_call_is_counted() {
    for threshold in [0, 100] {
        let rig = rig(threshold);
        for (word, ticks) in [
            (FN_1, 1000),
            (FN_2, 1010),
            (FN_2 | EXIT, 1020),
            (FN_2, 1100),
            (FN_3, 1110),
            (FN_3 | EXIT, 1111),
            (FN_2 | EXIT, 1300),
            (FN_1 | EXIT, 2000),
        ] {
            rig.write(word, ticks, 0);
        }
        let expected = [
            ((2, 2, 0, 210, 209, 200), vec![(0, 1), (10, 1)]),
            ((3, 1, 0, 1, 1, 1), vec![(0, 1)]),
            ((1, 1, 0, 1000, 790, 1000), vec![(24, 1)]),
        ];
        assert_eq!(rows(&rig), expected);
    }
}

#[test]
fn making_records_is_not_the_callers_time() {
    let own_of_caller = || {
        let rig = rig(10);
        let kind = Kind::from_raw(CLOCK.load(Relaxed));
        let now = clock::read(kind).ticks;
        for (word, ticks) in [
            (FN_1, now - 1_000),
            (FN_2, now - 900),
            // Its records are made now, which is 400 ticks later at least.
            (FN_2 | EXIT, now - 400),
            (FN_1 | EXIT, now + PREEMPTED),
        ] {
            rig.write(word, ticks, 0);
        }
        let numbers = rows(&rig).into_iter().map(|row| row.0);
        let mut own = numbers.filter(|numbers| numbers.0 == 1);
        own.next().expect("the caller's row").4
    };
    let with_all = 1_000 + PREEMPTED - 500;
    // If the thread is preempted in between, no time is left out. The same holds if a test beside this one chooses
    // another clock.
    let mut tries = (0..1_000).map(|_| own_of_caller());
    let own = tries
        .find(|own| *own != with_all)
        .expect("time is left out");
    assert!((with_all - PREEMPTED..=with_all - 400).contains(&own));
}

#[test]
fn functions_without_a_row_share_one() {
    let rig = rig(0);
    for number in 1..=20 {
        let word = (number + 10) << 4;
        rig.write(word, 1000 * u64::from(number), 0);
        rig.write(word | EXIT, 1000 * u64::from(number) + 16, 0);
    }
    // An id for which no index has a place.
    rig.write(1 << 27, 50_000, 0);
    rig.write(1 << 27 | EXIT, 50_016, 0);
    let rows = rows(&rig);
    let own = u64::from(rig.totals().rows_with_space.load(Relaxed)) - 1;
    assert_eq!(rows.len() as u64, own + 1);
    assert_eq!(
        rows[0].0,
        (0, 21 - own, 0, 16 * (21 - own), 16 * (21 - own), 16)
    );
    assert!(rows[1..].iter().all(|row| row.0.1 == 1));
}

#[test]
fn too_deep_calls_are_counted_untimed() {
    let rig = rig(0);
    for at in 0..FRAMES as u64 + 49 {
        rig.write(FN_1, 1000 + at, 0);
    }
    for at in 0..FRAMES as u64 + 49 {
        rig.write(FN_1 | EXIT, 9000 + at, 0);
    }
    let calls = FRAMES as u64 - 1;
    let (numbers, _) = &rows(&rig)[0];
    assert_eq!((numbers.0, numbers.1, numbers.2), (1, calls, 50));
}

#[test]
fn large_counts_take_several_summaries() {
    let rig = rig(u64::MAX);
    rig.write(FN_1, 1000, 0);
    let root = &rig.open_calls().frames[1];
    root.short_calls.store(3 << 24, Relaxed);
    root.short_ticks.store(5 << 40, Relaxed);
    rig.set_threshold(1);
    rig.write(FN_1 | EXIT, 2000, 0);
    let sums = found(&rig).events;
    let sums = sums.iter().filter_map(|event| event.split_once(" short, "));
    let sums = sums.map(|(calls, ticks)| (calls.parse::<u64>(), ticks.parse::<u64>()));
    let sums: Vec<(u64, u64)> = sums
        .map(|(a, b)| (a.expect("calls"), b.expect("ticks")))
        .collect();
    assert_eq!(sums.iter().map(|sum| sum.0).sum::<u64>(), 3 << 24);
    assert_eq!(sums.iter().map(|sum| sum.1).sum::<u64>(), 5 << 40);
}

#[test]
fn summaries_fill_and_overwrite_chunks() {
    let rig = Rig::new(3, false);
    rig.write(FN_1, 1, 0);
    rig.set_threshold(100);
    let calls = 5 * PER_CHUNK;
    for at in 0..calls {
        let from = 1000 + at * 1000;
        for (word, ticks) in [
            (FN_1, from),
            (FN_2, from + 1),
            (FN_2 | EXIT, from + 2),
            (FN_1 | EXIT, from + 500),
        ] {
            rig.write(word, ticks, (at % 7 / 6) as u32);
        }
    }
    let found = found(&rig);
    let (recorded, readable, summarised) = counts(&rig);
    assert_eq!((recorded, summarised), (1 + 4 * calls, 2 * calls));
    let edges = found
        .events
        .iter()
        .filter(|event| event.starts_with(['+', '-']));
    assert_eq!(edges.count() as u64, readable);
    // Each call has its summary between its edges.
    assert!(
        found.own.iter().skip(1).all(|own| *own == (1, 500, 499)),
        "{:?}",
        &found.own[..3]
    );
}

#[test]
fn without_a_threshold_every_call_leaves_records() {
    let rig = rig(100);
    for (word, ticks) in [(FN_1, 10), (FN_2, 11), (FN_2 | EXIT, 12), (FN_2, 13)] {
        rig.write(word, ticks, 0);
    }
    assert_eq!(threshold::end_threshold(rig.open_calls()), Some(0));
    assert_eq!(threshold::end_threshold(rig.open_calls()), None, "once");
    for (word, ticks) in [
        (FN_2 | EXIT, 14),
        (FN_3, 15),
        (FN_3 | EXIT, 15),
        (FN_1 | EXIT, 16),
    ] {
        rig.write(word, ticks, 0);
    }
    assert_eq!(
        found(&rig).events,
        [
            "cpu 0",
            "+3 at 1",
            "+1 at 10",
            "1 short, 1",
            "+2 at 13",
            "-2 at 14",
            "+3 at 15",
            "-3 at 15",
            "-1 at 16"
        ]
    );
    assert_eq!(counts(&rig), (9, 7, 2));
}

#[test]
fn the_threshold_follows_what_the_ring_holds() {
    let rig = Rig::new(4, false);
    rig.write(FN_1, 1000, 0);
    let (slot, calls) = (rig.slot(), rig.open_calls());
    let keep = 1_000_000;
    let mut now = 1000;
    // Opens a chunk `ticks` after the last one, and returns the threshold after that.
    let mut open = |ticks: u64| {
        now += ticks;
        let stamp = crate::clock::Stamp { ticks: now, cpu: 0 };
        let next = slot.chunk.load(Relaxed) + 1;
        // The chunk's preamble, as the writer leaves it.
        for _ in 0..PER_CHUNK {
            rig.write(FN_1, now, 0);
        }
        assert_eq!(slot.chunk.load(Relaxed), next);
        threshold::adjust_for(slot, Some(calls), keep, next, 4, stamp)
    };
    assert_eq!(
        [open(10), open(10), open(10)],
        [0; 3],
        "the ring is not full"
    );
    assert_eq!([open(10), open(10), open(10)], [128, 256, 512]);
    // The last chunk has more than half of its share of the time.
    assert_eq!([open(170_000), open(200_000)], [768, 976]);
    // Slow enough, but the ring does not hold enough yet.
    assert_eq!([open(340_000), open(340_000)], [976; 2]);
    assert_eq!([open(300_000), open(300_000)], [976; 2], "nearly enough");
    assert_eq!([open(340_000), open(340_000)], [976; 2], "just enough");
    assert_eq!([open(1_340_000), open(1_340_000)], [488, 244]);
    assert_eq!(open(10), 244, "filled fast, but the ring holds enough");
    assert_eq!([open(10), open(10)], [244, 488]);
    // Of calls that are longer than a thousandth of that time, a ring holds enough.
    assert_eq!([open(10), open(10)], [976; 2]);
    for _ in 0..20 {
        open(2_000_000);
    }
    assert_eq!(open(2_000_000), 0);
    assert_ne!(slot.cpu.load(Relaxed), NO_CPU);
}

#[test]
fn recursion_is_noted_at_the_first_end() {
    for threshold in [0, 100] {
        let rig = rig(threshold);
        for (word, ticks) in [
            (FN_1, 1000),
            (FN_2, 1010),
            (FN_1, 1020),
            (FN_1 | EXIT, 1030),
            (FN_2 | EXIT, 1040),
            (FN_1 | EXIT, 1050),
        ] {
            rig.write(word, ticks, 0);
        }
        let nests = |function| {
            let row = totals::existing_row_of(rig.totals(), function);
            assert_eq!(totals::calls(row).0, function);
            row.nests.load(Relaxed)
        };
        assert_eq!((nests(1), nests(2)), (1, 0), "{threshold}");
    }
}
