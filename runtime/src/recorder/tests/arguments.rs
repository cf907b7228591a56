//! Arguments and results of calls, with times typed by hand, and the notes that a reader finds.
#![cfg(not(loom))]

use core::sync::atomic::Ordering::Relaxed;

use fdr_formats::notes::{NoteKind, RESULT};
use fdr_formats::ring::open_calls::OpenCalls;

use super::found::found_in;
use super::{FN_1, FN_2, Rig};
use crate::clock::Stamp;
use crate::recorder::EXIT;
use crate::recorder::arguments;
use crate::recorder::note::Note;
use crate::ring::layout::{ARGUMENTS, BUSY};
use crate::ring::open_calls;

const FN_3: u32 = 3 << 4;

/// A body with one number for the call of a function.
fn body(word: u32, place: u8, number: u64) -> [u64; 3] {
    [
        u64::from(word >> 4) | 1 << 32,
        7 | u64::from(place) << 40,
        number,
    ]
}

fn put(rig: &Rig, body: &[u64]) {
    let now = || Stamp {
        ticks: 1 << 40,
        cpu: 9,
    };
    let note = Note::new(NoteKind::Arguments as u8, body);
    arguments::write(rig.slot(), &note, now);
}

fn argument(rig: &Rig, word: u32) {
    put(rig, &body(word, 0, 1));
}

fn result(rig: &Rig, word: u32) {
    put(rig, &body(word, RESULT, 2));
}

/// A rig whose thread has made a record at 1 on CPU 0.
fn rig(threshold: u64) -> Rig {
    let rig = Rig::new(2, false);
    rig.write(FN_3, 1, 0);
    rig.set_threshold(threshold);
    rig
}

/// What a reader finds behind the first record.
fn found(rig: &Rig) -> Vec<String> {
    let mut events = found_in(&rig.read().0).events;
    assert_eq!(events.drain(..2).collect::<Vec<_>>(), ["cpu 0", "+3 at 1"]);
    events
}

#[test]
fn watched_calls_need_no_open_calls() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 100, 3);
    argument(&rig, FN_1);
    rig.write(FN_1 | EXIT, 110, 3);
    // No record has the time, because it is that of the entry.
    let wanted: &[u8] = &[
        0x10, 0, 0, 0, 0, 0, 0, 0, // entry of function 1
        0x0b, 32, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // CustomEvent
        b'f', b'd', b'r', 0, 1, 14, 0, 0, // the head of arguments
        1, 0, 0, 0, 1, 0, 0, 0, // of function 1, one field
        7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // the field
        0x12, 0, 0, 0, 10, 0, 0, 0, // exit, 10 ticks later
    ];
    assert_eq!(rig.records(), wanted);
}

#[test]
fn a_short_call_leaves_none() {
    let rig = rig(100);
    let nothing = rig.slot().cursor.load(Relaxed);
    for ticks in [1000, 1010, 1020] {
        rig.write(FN_1, ticks, 0);
        argument(&rig, FN_1);
        rig.write(FN_2, ticks + 1, 0);
        argument(&rig, FN_2);
        rig.write(FN_2 | EXIT, ticks + 2, 0);
        result(&rig, FN_1);
        rig.write(FN_1 | EXIT, ticks + 3, 0);
        assert_eq!(rig.slot().cursor.load(Relaxed), nothing);
    }
    // The notes of calls that have ended are of no other call.
    rig.write(FN_1, 2000, 0);
    assert_eq!(found(&rig), ["6 short, 9", "+1 at 2000"]);
    rig.write(FN_1 | EXIT, 3000, 0);
    assert_eq!(found(&rig), ["6 short, 9", "+1 at 2000", "-1 at 3000"]);
}

#[test]
fn a_long_call_publishes_them_with_the_entries() {
    let rig = rig(100);
    rig.write(FN_1, 1000, 0);
    argument(&rig, FN_1);
    rig.write(FN_2, 1010, 0);
    argument(&rig, FN_2);
    // A reader finds those of open calls, and nothing is published.
    let open = ["+1 at 1000", "note at 1000", "+2 at 1010", "note at 1010"];
    let before = rig.slot().cursor.load(Relaxed);
    assert_eq!(found(&rig), open);
    result(&rig, FN_2);
    assert_eq!(found(&rig), [&open[..], &["note at 1010"]].concat());
    assert_eq!(rig.slot().cursor.load(Relaxed), before);
    rig.write(FN_2 | EXIT, 1200, 0);
    result(&rig, FN_1);
    rig.write(FN_1 | EXIT, 1210, 0);
    let ends = ["note at 1010", "-2 at 1200", "note at 1200", "-1 at 1210"];
    assert_eq!(found(&rig), [&open[..], &ends[..]].concat());
    let (recorded, readable) = {
        let counts = rig.read().1;
        (counts.recorded, counts.readable)
    };
    assert_eq!((recorded, readable), (5, 5));
    assert!(!rig.open_calls().has_arguments());
}

#[test]
fn copies_have_calls_that_are_being_published() {
    let rig = rig(100);
    let copy = || {
        let mut bytes = [0; open_calls::SIZE];
        let cursor = open_calls::copy(rig.slot(), rig.open_calls(), &mut bytes);
        (bytes, cursor.expect("nobody changes them"))
    };
    rig.write(FN_1, 1000, 0);
    argument(&rig, FN_1);
    rig.write(FN_2, 1010, 0);
    argument(&rig, FN_2);
    let (before, cursor) = copy();
    rig.write(FN_2 | EXIT, 1200, 0);
    // It reads the word of counts before the calls are published, and the arguments after that.
    let (mut torn, later) = copy();
    torn[..8].copy_from_slice(&before[..8]);
    let one = OpenCalls::decode(&before, cursor).expect("open calls");
    let other = OpenCalls::decode(&torn, later).expect("open calls");
    assert_eq!((one.unpublished(), other.unpublished()), (2, 2));
    assert_eq!(one.lasting(&one).unpublished(), 2);
    assert_eq!(one.lasting(&other).unpublished(), 0);
}

#[test]
fn calls_of_one_tick_have_their_own_arguments() {
    let rig = rig(100);
    rig.write(FN_1, 1000, 0);
    result(&rig, FN_1);
    rig.write(FN_1 | EXIT, 1000, 0);
    rig.write(FN_1, 1000, 0);
    result(&rig, FN_1);
    rig.write(FN_1 | EXIT, 2000, 0);
    let wanted = ["1 short, 0", "+1 at 1000", "note at 1000", "-1 at 2000"];
    assert_eq!(found(&rig), wanted);
}

#[test]
fn a_call_without_an_entry_has_none() {
    let rig = rig(100);
    argument(&rig, FN_1);
    rig.write(FN_1, 1000, 0);
    argument(&rig, FN_2);
    rig.write(FN_1 | EXIT, 2000, 0);
    assert_eq!(found(&rig), ["+1 at 1000", "-1 at 2000"]);
    rig.slot().cpu.store(BUSY, Relaxed);
    // The slot is no thread's, so nothing counts the drop.
    argument(&rig, FN_1);
    assert_eq!(rig.slot().cpu.load(Relaxed), BUSY);
}

#[test]
fn too_many_arguments_publish_all() {
    let rig = rig(u64::MAX);
    let each = 2 + 3;
    let most = (ARGUMENTS / each) as u64;
    for at in 0..most {
        rig.write(FN_1, 1000 + at, 0);
        argument(&rig, FN_1);
    }
    let before = rig.slot().cursor.load(Relaxed);
    let notes = |rig: &Rig| {
        found(rig)
            .iter()
            .filter(|event| event.starts_with("note"))
            .count()
    };
    assert_eq!(notes(&rig) as u64, most);
    rig.write(FN_1, 5000, 0);
    assert_eq!(rig.slot().cursor.load(Relaxed), before);
    argument(&rig, FN_1);
    assert_eq!(
        rig.open_calls().open(),
        (most as usize + 1, most as usize + 1)
    );
    assert_eq!(notes(&rig) as u64, most + 1);
    // One that is too large for the place is written behind its entry.
    rig.write(FN_2, 6000, 0);
    put(&rig, &[&body(FN_2, 0, 1)[..], &[1; ARGUMENTS]].concat());
    assert_eq!(found(&rig).last().expect("a note"), "note at 6000");
}

#[test]
fn a_moved_entry_keeps_its_note() {
    use crate::ring::layout::CHUNK;
    use crate::ring::record::{PREAMBLE, SINGLE};
    // The records before leave room for the entry alone.
    for left in [1, 4, 7] {
        let rig = Rig::new(3, false);
        let records = (CHUNK as u64 - PREAMBLE) / SINGLE - left;
        (0..records).for_each(|nth| rig.write(FN_3, 1 + nth, 0));
        rig.set_threshold(100);
        let from = 1 + records;
        rig.write(FN_1, from, 0);
        argument(&rig, FN_1);
        rig.write(FN_1 | EXIT, from + 500, 0);
        let (chunks, counts) = rig.read();
        assert_eq!((chunks.len(), counts.recorded), (2, records + 2));
        assert_eq!(counts.recorded, counts.readable);
        let events = found_in(&chunks).events;
        let at = [format!("+1 at {from}"), format!("note at {from}")];
        assert!(events.windows(2).any(|two| two == at), "{left}");
    }
}
