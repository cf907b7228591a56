//! Records without times of their own: which words they leave unchanged, where they can't be made, and that nothing is
//! lost between them and timed records. The tests of `stub` check the same of the assembly.

use super::*;

impl Rig {
    /// As `recorder::untimed` does it; the stamp is what the clock would say where it is read.
    fn untimed(&self, word: u32, ticks: u64, cpu: u32) {
        if !writer::write_untimed(self.slot(), word) {
            self.write(word, ticks, cpu);
        }
    }
}

/// A stamp that must not be looked at.
const NEVER: u64 = 1 << 60;

#[test]
fn untimed_records_have_no_ticks() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 3);
    rig.untimed(FN_2, NEVER, 0);
    rig.untimed(FN_2 | EXIT, NEVER, 0);
    rig.write(FN_1 | EXIT, 1005, 3);
    assert_eq!(
        rig.records(),
        [
            [0x10, 0, 0, 0, 0, 0, 0, 0],
            [0x20, 0, 0, 0, 0, 0, 0, 0],
            [0x22, 0, 0, 0, 0, 0, 0, 0],
            [0x12, 0, 0, 0, 5, 0, 0, 0],
        ]
        .concat()
    );
    assert_eq!(rig.slot().cpu.load(Relaxed), 3);
    assert_eq!(rig.slot().clock_steps.load(Relaxed), 0);
}

#[test]
fn one_that_opens_a_chunk_has_a_time() {
    let rig = Rig::new(3, false);
    assert!(!writer::write_untimed(rig.slot(), FN_2), "no record before");
    assert_eq!(rig.slot().cpu.load(Relaxed), layout::NO_CPU);
    rig.untimed(FN_2, 1000, 4);
    for _ in 1..PER_CHUNK {
        rig.untimed(FN_2, NEVER, 0);
    }
    assert_eq!(rig.read().0.len(), 1);
    assert!(!writer::write_untimed(rig.slot(), FN_2), "a full chunk");
    assert_eq!(rig.slot().cpu.load(Relaxed), 4, "the slot as it was");
    rig.untimed(FN_2, 5000, 1);
    rig.write(FN_1, 5003, 1);
    let (chunks, counts) = rig.read();
    assert_eq!(
        (counts.recorded, counts.readable),
        (PER_CHUNK + 2, PER_CHUNK + 2)
    );
    assert_eq!(chunks[0].len(), CHUNK);
    assert_eq!(
        chunks[0][33..43],
        [&[4, 0][..], &1000_u64.to_le_bytes()].concat()
    );
    assert!(
        chunks[0][PREAMBLE as usize..]
            .chunks(8)
            .all(|record| record == [0x20, 0, 0, 0, 0, 0, 0, 0])
    );
    assert_eq!(
        chunks[1][33..43],
        [&[1, 0][..], &5000_u64.to_le_bytes()].concat()
    );
    assert_eq!(
        chunks[1][48..],
        [[0x20, 0, 0, 0, 0, 0, 0, 0], [0x10, 0, 0, 0, 3, 0, 0, 0]].concat()
    );
}

#[test]
fn an_untimed_record_may_fill_a_chunk() {
    let rig = Rig::new(2, false);
    for at in 0..PER_CHUNK - 1 {
        rig.write(FN_1, 1000 + at, 0);
    }
    rig.untimed(FN_2, NEVER, 0);
    assert_eq!(rig.slot().last_high.load(Relaxed), layout::NO_HIGH);
    rig.write(FN_2 | EXIT, 50_000, 0);
    let (chunks, counts) = rig.read();
    assert_eq!([chunks[0].len(), chunks[1].len()], [CHUNK, 56]);
    assert_eq!(counts.recorded, PER_CHUNK + 1);
    assert_eq!(chunks[1][35..43], 50_000_u64.to_le_bytes());
}

#[test]
fn an_interrupting_untimed_record_is_dropped() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 0);
    rig.slot().cpu.store(layout::BUSY, Relaxed);
    assert!(!writer::write_untimed(rig.slot(), FN_2));
    assert_eq!(
        rig.slot().cpu.load(Relaxed),
        layout::BUSY,
        "the interrupted record's to end"
    );
    assert_eq!(rig.records().len(), 8);
}

/// A handler's record comes before an untimed one, and has moved the time: it is not taken back.
#[test]
fn times_go_on_where_a_handler_has_recorded() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1000, 0);
    rig.write(FN_2, 1700, 1);
    rig.untimed(FN_2, NEVER, 0);
    // The interrupted code's record, stamped before the handler's.
    rig.write(FN_1 | EXIT, 1600, 0);
    assert_eq!(
        rig.records()[24..40],
        [[0x20, 0, 0, 0, 0, 0, 0, 0], [0x20, 0, 0, 0, 0, 0, 0, 0]].concat()
    );
    assert_eq!(rig.records()[40..43], [0x05, 0, 0]);
    assert_eq!(rig.records()[43..51], 1700_u64.to_le_bytes());
}

#[test]
fn a_full_ring_takes_none_and_counts_all() {
    let rig = Rig::new(2, true);
    for _ in 0..2 * PER_CHUNK - 1 {
        rig.untimed(FN_1, 1000, 0);
    }
    // Has room for itself, and not for the CPU that it needs.
    rig.write(FN_1, 2000, 1);
    rig.untimed(FN_1, 2000, 0);
    rig.untimed(FN_1, 2000, 0);
    let (_, counts) = rig.read();
    assert_eq!((counts.readable, counts.dropped), (2 * PER_CHUNK - 1, 3));
    assert_eq!(counts::count(rig.slot()).unwrap().1, counts);
}

#[test]
fn counts_are_exact_whatever_comes_in_between() {
    let rig = Rig::new(3, false);
    let total = 9 * PER_CHUNK + 3;
    let mut ticks = 0;
    for at in 0..total {
        ticks += if at % 100 == 0 { 0x2_0000_0000 } else { 3 };
        let cpu = (at / 37 % 4) as u32;
        match at % 7 {
            0 | 3 => rig.write(FN_1, ticks, cpu),
            _ => rig.untimed(FN_2, ticks, cpu),
        }
    }
    let (_, counts) = rig.read();
    assert_eq!(counts.recorded, total);
    assert_eq!(counts.readable + counts.overwritten, total);
    assert_eq!(counts::count(rig.slot()).unwrap().1, counts);
}
