//! Notes of a thread, with times typed by hand, and the bytes that a reader finds.

use core::sync::atomic::Ordering::Relaxed;

use fdr_formats::notes::{MAX_BYTES, NoteKind};

use super::found::found_in;
use super::{FN_1, FN_2, Rig};
use crate::clock::Stamp;
use crate::recorder::note::Note;
use crate::recorder::{EXIT, writer};
use crate::ring::counts;
use crate::ring::layout::{BUSY, CHUNK, STOPPED};
use crate::ring::record::{PREAMBLE, SINGLE};

fn note(rig: &Rig, body: &[u64], ticks: u64, cpu: u32) {
    let note = Note::new(NoteKind::Event as u8, body);
    writer::note(rig.slot(), &note, Stamp { ticks, cpu });
}

/// An event without fields, of the name 9.
const EVENT: [u64; 2] = [9, 0];

/// (recorded, readable, dropped), which the snapshot and the counts without one agree on.
fn counted(rig: &Rig) -> (u64, u64, u64) {
    let (_, found) = rig.read();
    let (_, without) = counts::count(rig.slot()).expect("counts");
    assert_eq!(found, without);
    (found.recorded, found.readable, found.dropped)
}

#[test]
fn a_note_is_a_custom_event() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 100, 3);
    note(&rig, &[0x0009_0000_0007, 1], 0x1_0000_0105, 3);
    rig.write(FN_1 | EXIT, 0x1_0000_0110, 3);
    let wanted: &[u8] = &[
        0x10, 0, 0, 0, 0, 0, 0, 0, // entry of function 1
        0x07, 0x05, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // TSCWrap
        0x0b, 24, 0, 0, 0, 0x05, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, // CustomEvent
        b'f', b'd', b'r', 0, 1, 12, 0, 0, // the head of an event
        7, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // its body
        0x12, 0, 0, 0, 0x0b, 0, 0, 0, // exit, 11 ticks later
    ];
    assert_eq!(rig.records(), wanted);
    assert_eq!(counted(&rig), (2, 2, 0));
}

#[test]
fn a_note_on_another_cpu_names_it() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 100, 3);
    note(&rig, &EVENT, 110, 4);
    rig.write(FN_1 | EXIT, 120, 4);
    let found = found_in(&rig.read().0);
    let wanted = ["cpu 3", "+1 at 100", "cpu 4", "note at 110", "-1 at 120"];
    assert_eq!(found.events, wanted);
}

#[test]
fn a_note_without_calls_is_read() {
    let rig = Rig::new(2, false);
    assert!(counts::is_empty(rig.slot()));
    note(&rig, &EVENT, 100, 3);
    assert!(!counts::is_empty(rig.slot()));
    assert_eq!(found_in(&rig.read().0).events, ["cpu 3", "note at 100"]);
    assert_eq!(counted(&rig), (0, 0, 0));
}

#[test]
fn a_note_without_room_opens_a_chunk() {
    // The most words of a body, and the bytes of a note with its tick.
    let body = [1; MAX_BYTES / 8];
    let whole = 16 + 24 + MAX_BYTES as u64;
    for (less, chunks) in [(0, 1), (1, 2)] {
        let rig = Rig::new(2, false);
        let records = (CHUNK as u64 - PREAMBLE - whole) / SINGLE + less;
        (0..records).for_each(|nth| rig.write(FN_1, 100 + nth, 3));
        note(&rig, &body, 100 + records, 3);
        rig.write(FN_2, 101 + records, 3);
        let (read, counts) = rig.read();
        assert_eq!(counts.readable, records + 1);
        let events = found_in(&read).events;
        let last = [
            format!("note at {}", 100 + records),
            format!("+2 at {}", 101 + records),
        ];
        assert_eq!(events[events.len() - 2..], last);
        // The record behind a full chunk opens one, too.
        assert_eq!(
            (read.len(), rig.slot().chunk.load(Relaxed)),
            (2, 2),
            "{chunks}"
        );
        let first = read[0].len() as u64;
        assert_eq!(
            first,
            CHUNK as u64 - if less == 0 { 0 } else { whole - SINGLE }
        );
        assert_eq!(counted(&rig), (records + 1, records + 1, 0));
    }
}

#[test]
fn a_note_that_is_too_large_is_dropped() {
    let rig = Rig::new(2, false);
    note(&rig, &[1; MAX_BYTES / 8 + 1], 100, 3);
    assert_eq!(counted(&rig), (1, 0, 1));
    rig.write(FN_1, 110, 3);
    assert_eq!(found_in(&rig.read().0).events, ["cpu 3", "+1 at 110"]);
}

#[test]
fn a_dropped_note_ends_a_full_ring() {
    let rig = Rig::new(2, true);
    let records = 2 * (CHUNK as u64 - PREAMBLE) / SINGLE - 4;
    (0..records).for_each(|nth| rig.write(FN_1, 100 + nth, 3));
    note(&rig, &EVENT, 200_000, 3);
    assert_eq!(rig.slot().full.load(Relaxed), STOPPED);
    rig.write(FN_1, 200_001, 3);
    assert_eq!(counted(&rig), (records + 2, records, 2));
}

#[test]
fn a_note_that_interrupts_a_record_is_dropped() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 100, 3);
    rig.slot().cpu.store(BUSY, Relaxed);
    // The slot is no thread's, so nothing counts the drop: what matters is that it stays as it is.
    let before = rig.records();
    note(&rig, &EVENT, 110, 3);
    assert_eq!(rig.records(), before);
    assert_eq!(rig.slot().cpu.load(Relaxed), BUSY);
}

#[test]
fn a_note_may_end_with_zeros() {
    let rig = Rig::new(2, false);
    let zeros = [9 | 1 << 48, 0, 4 << 32 | 16 << 48, 16, 0, 0];
    note(&rig, &zeros, 100, 3);
    let mut snapshot = rig.snapshot();
    assert!(snapshot.take(rig.slot()) && !snapshot.has_zeros);
    assert_eq!(found_in(&rig.read().0).events, ["cpu 3", "note at 100"]);
}

#[test]
fn a_note_has_a_later_handlers_time() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 100, 3);
    // The stamp was taken before.
    note(&rig, &EVENT, 90, 3);
    let wanted = ["cpu 3", "+1 at 100", "note at 100"];
    assert_eq!(found_in(&rig.read().0).events, wanted);
    assert_eq!(rig.slot().clock_steps.load(Relaxed), 0);
}

#[test]
fn a_note_brings_open_entries() {
    let rig = Rig::new(2, false);
    rig.write(FN_2, 1, 0);
    rig.set_threshold(100);
    for (word, ticks) in [
        (FN_1, 1000),
        (FN_2, 1010),
        (FN_2 | EXIT, 1020),
        (FN_2, 1030),
        (FN_1, 1040),
        (FN_1 | EXIT, 1045),
    ] {
        rig.write(word, ticks, 0);
    }
    note(&rig, &EVENT, 1050, 0);
    rig.write(FN_2 | EXIT, 1060, 0);
    rig.write(FN_1 | EXIT, 1070, 0);
    let wanted = [
        "cpu 0",
        "+2 at 1",
        "+1 at 1000",
        "1 short, 10",
        "+2 at 1030",
        "1 short, 5",
        "note at 1050",
        "-2 at 1060",
        "-1 at 1070",
    ];
    assert_eq!(found_in(&rig.read().0).events, wanted);
    assert_eq!(counted(&rig), (9, 5, 0));
}
