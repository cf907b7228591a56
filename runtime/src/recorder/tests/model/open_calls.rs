//! The models of open calls and totals. A reader copies or counts a thread whose short calls leave no records, also
//! while the slot gets a new owner. Another reader reads a row of totals while it changes. A second rig makes the same
//! edges one by one. The first reader must find the state of the second rig after one of its edges.
//!
//! The function and the CPU of a frame are not modelled, because one load has both, and two stores. The tick behind
//! them is.

use super::super::found::found_in;
use super::checks::FORMER;
use super::*;
use crate::ring::layout::OpenCalls;
use crate::ring::model::SmallRing;
use crate::ring::{open_calls, totals};

const FN_3: u32 = 3 << 4;

/// An edge and its tick.
type Step = (u32, u64);

/// What a rig has made when a model begins, and what is made then.
#[derive(Clone, Copy)]
struct Scene {
    /// Records, each an entry.
    records: u64,
    /// Edges since then, with a threshold of 100 ticks.
    before: &'static [Step],
    /// Edges beside the reader.
    steps: &'static [Step],
}

/// Two calls without records are open. The inner one ends and is short. Then the next call of the same function begins.
const SHORT: Scene = Scene {
    records: 1,
    before: &[(FN_1, 1000), (FN_2, 1010)],
    steps: &[(FN_2 | EXIT, 1020), (FN_2, 1030)],
};

/// An open call without records ends and is kept: its entry is published, and its exit.
const KEPT: Scene = Scene {
    records: 1,
    before: &[(FN_1, 1000)],
    steps: &[(FN_1 | EXIT, 1200)],
};

/// The same where its entry begins a chunk.
const KEPT_IN_A_CHUNK: Scene = Scene {
    records: PER_CHUNK,
    ..KEPT
};

/// A call whose entry is published ends. A short call has ended inside, so a summary is published.
const SUMMED_UP: Scene = Scene {
    records: 1,
    before: &[
        (FN_1, 1000),
        (FN_3, 1100),
        (FN_3 | EXIT, 1300),
        (FN_3, 1400),
        (FN_3 | EXIT, 1403),
    ],
    steps: &[(FN_1 | EXIT, 1500)],
};

fn rig(scene: Scene) -> Rig {
    let rig = Rig::new(2, false);
    (1..=scene.records).for_each(|number| rig.write(FN_3, number, 0));
    rig.set_threshold(100);
    for &(word, ticks) in scene.before {
        rig.write(word, ticks, 0);
    }
    rig
}

/// Loom keeps what a count of the open calls looks at.
pub(super) fn watch_counts(calls: &OpenCalls) {
    for word in [&calls.open, &calls.publishing, &calls.next] {
        word.watch();
    }
}

/// Loom keeps what a copy looks at, as far as the second frame.
fn watch_open(calls: &OpenCalls) {
    watch_counts(calls);
    let [_, outer, inner, ..] = &calls.frames;
    for word in [
        &outer.ticks,
        &outer.short_calls,
        &outer.short_ticks,
        &inner.ticks,
    ] {
        word.watch();
    }
}

/// What a copy holds.
#[derive(Debug, PartialEq)]
struct State {
    edges: Vec<String>,
    counts: Counts,
    /// Calls that the copy's summaries tell of, and their ticks.
    short: (u64, u64),
}

impl State {
    fn from_snapshot(snapshot: &Snapshot) -> State {
        let counts = snapshot.counts;
        let parts = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
        assert_eq!(counts.recorded, parts, "{counts:?}");
        let chunks: Vec<Vec<u8>> = snapshot.chunks().map(<[u8]>::to_vec).collect();
        let (mut edges, mut short) = (Vec::new(), (0, 0));
        for event in found_in(&chunks).events {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            if let Some((calls, ticks)) = event.split_once(" short, ") {
                short.0 += number(calls);
                short.1 += number(ticks);
            } else if !event.starts_with("cpu") {
                edges.push(event);
            }
        }
        assert_eq!(edges.len() as u64, counts.readable);
        State {
            edges,
            counts,
            short,
        }
    }

    fn now(slot: &Slot) -> State {
        let mut snapshot = Snapshot::default();
        assert!(snapshot.take(slot));
        State::from_snapshot(&snapshot)
    }
}

/// What another rig holds after none of the steps, after the first, and so on.
fn states(scene: Scene) -> Vec<State> {
    let rig = rig(scene);
    let mut states = vec![State::now(rig.slot())];
    for &(word, ticks) in scene.steps {
        rig.write(word, ticks, 0);
        states.push(State::now(rig.slot()));
    }
    states
}

/// A rig that makes the steps on another thread.
fn steps(scene: Scene, watch: fn(&OpenCalls)) -> (Rig, loom::thread::JoinHandle<()>) {
    let rig = rig(scene);
    let slot = lasting(rig.slot());
    slot.cursor.watch();
    if scene.records == PER_CHUNK {
        slot.chunk.watch();
        chunk::place(slot, 2).mark.number.watch();
    }
    watch(rig.open_calls());
    let writer = loom::thread::spawn(move || {
        for &(word, ticks) in scene.steps {
            writer::write(slot, word, Stamp { ticks, cpu: 0 });
        }
    });
    (rig, writer)
}

/// A copy is of one moment. The summary may not have the short call that ended last, or not its ticks.
fn copy_beside(scene: Scene) {
    let states = states(scene);
    let (rig, writer) = steps(scene, watch_open);
    let mut snapshot = Snapshot::default();
    if snapshot.take(lasting(rig.slot())) && snapshot.has_open_calls() {
        let found = State::from_snapshot(&snapshot);
        let is_at = |at: &usize| {
            let state = &states[*at];
            let may_lack = *at > 0 && states[*at - 1].counts.summarised < state.counts.summarised;
            let before = &states[at.saturating_sub(1)];
            let fits =
                |found: u64, now: u64, before: u64| found == now || (may_lack && found == before);
            let has_short = fits(found.short.0, state.short.0, before.short.0)
                && fits(found.short.1, state.short.1, before.short.1);
            has_short && (&found.edges, found.counts) == (&state.edges, state.counts)
        };
        let is_one = (0..states.len()).any(|at| is_at(&at));
        assert!(is_one, "{found:?} of {states:?}");
    }
    writer.join().expect("the writer");
    assert_eq!(Some(&State::now(rig.slot())), states.last());
}

/// Counts are of one moment.
fn count_beside(scene: Scene) {
    let states = states(scene);
    let (rig, writer) = steps(scene, watch_counts);
    if let Some((_, counts)) = counts::count(lasting(rig.slot())) {
        let is = |state: &State| state.counts == counts;
        assert!(states.iter().any(is), "{counts:?} of {states:?}");
    }
    writer.join().expect("the writer");
    let (_, counts) = counts::count(rig.slot()).expect("nobody writes");
    assert_eq!(Some(counts), states.last().map(|state| state.counts));
}

pub(super) fn a_copy_beside_short_calls() {
    copy_beside(SHORT);
}

pub(super) fn a_copy_beside_a_kept_call() {
    copy_beside(KEPT);
}

pub(super) fn a_copy_beside_a_new_chunks_kept_call() {
    copy_beside(KEPT_IN_A_CHUNK);
}

pub(super) fn a_copy_beside_a_summary() {
    copy_beside(SUMMED_UP);
}

pub(super) fn a_count_beside_short_calls() {
    count_beside(SHORT);
}

pub(super) fn a_count_beside_a_kept_call() {
    count_beside(KEPT);
}

pub(super) fn a_count_beside_a_new_chunks_kept_call() {
    count_beside(KEPT_IN_A_CHUNK);
}

/// A note of arguments for the call of function 2 that is open.
fn keep_note(calls: &OpenCalls, number: u64) {
    const FIELD: u64 = 7;
    let body = [2 | 1 << 32, FIELD, number];
    assert!(calls.keep_arguments(2, &calls.frames[2], &body));
}

/// The entries in a copy, and the bodies of its notes. `None`: it has no open calls.
fn with_notes(slot: &Slot) -> Option<(Vec<String>, Vec<Vec<u8>>)> {
    let mut snapshot = Snapshot::default();
    if !snapshot.take(slot) || !snapshot.has_open_calls() {
        return None;
    }
    let chunks: Vec<Vec<u8>> = snapshot.chunks().map(<[u8]>::to_vec).collect();
    let found = found_in(&chunks);
    let is_entry = |event: &String| event.starts_with('+');
    let entries = found.events.into_iter().filter(is_entry).collect();
    Some((entries, found.bodies))
}

/// A call that has a note ends and is short. The next one of its function gets a note, in the place of the first.
pub(super) fn a_copy_beside_a_note_of_arguments() {
    let make = |calls: &OpenCalls, slot: &Slot, step: usize| match step {
        0 => writer::write(
            slot,
            FN_2 | EXIT,
            Stamp {
                ticks: 1020,
                cpu: 0,
            },
        ),
        1 => writer::write(
            slot,
            FN_2,
            Stamp {
                ticks: 1030,
                cpu: 0,
            },
        ),
        _ => keep_note(calls, 8),
    };
    let begin = || {
        let rig = rig(SHORT);
        keep_note(rig.open_calls(), 5);
        rig
    };
    let other = begin();
    let mut states = vec![with_notes(other.slot())];
    for step in 0..3 {
        make(other.open_calls(), other.slot(), step);
        states.push(with_notes(other.slot()));
    }
    let rig = begin();
    let slot = lasting(rig.slot());
    slot.cursor.watch();
    watch_open(rig.open_calls());
    rig.open_calls().arguments.watch();
    // Head, tick, and the body.
    let words = &rig.open_calls().arguments_words[..5];
    words.iter().for_each(|word| word.watch());
    let writer = loom::thread::spawn(move || {
        let calls = open_calls::of_slot(slot).expect("open calls");
        (0..3).for_each(|step| make(calls, slot, step));
    });
    if let Some(found) = with_notes(slot) {
        let is_one = states.contains(&Some(found.clone()));
        assert!(is_one, "{found:?} of {states:?}");
    }
    writer.join().expect("the writer");
    let last = with_notes(slot);
    assert!(last.is_some() && Some(&last) == states.last(), "{last:?}");
}

/// A row beside its owner, who counts a second call: a reading that is exact is the row before or afterwards.
pub(super) fn a_row_beside_its_owner() {
    let rig = Rig::new(1, false);
    let row = totals::row_of(rig.totals(), 7, 0, || false);
    totals::count(row, 10, 0);
    for word in [&row.calls, &row.total, &row.own, &row.longest] {
        word.watch();
    }
    for ticks in [10, 300] {
        row.lengths[fdr_formats::lengths::class(ticks)].watch();
    }
    let owner = {
        let address = core::ptr::from_ref(row).expose_provenance();
        // SAFETY: the rig has the row until the owner has ended.
        let row = unsafe { &*core::ptr::with_exposed_provenance::<layout::Row>(address) };
        loom::thread::spawn(move || totals::count(row, 300, 100))
    };
    let mut copy = totals::Copy::EMPTY;
    let numbers = |copy: &totals::Copy| (copy.calls, copy.total, copy.own, copy.longest);
    if copy.read(row) {
        let found = numbers(&copy);
        assert!(
            found == (1, 10, 10, 10) || found == (2, 310, 210, 300),
            "{found:?}"
        );
    }
    owner.join().expect("the owner");
    assert!(copy.read(row));
    assert_eq!(numbers(&copy), (2, 310, 210, 300));
}

/// The owner takes a new row. A reader that sees the row also sees the row's function.
pub(super) fn rows_beside_their_owner() {
    let rig = Rig::new(1, false);
    let totals = rig.totals();
    totals.rows.watch();
    let second = totals::rows(totals).next().map(core::ptr::from_ref);
    let second = second.expect("the first row").wrapping_add(1);
    // SAFETY: a rig has four rows.
    unsafe { &*second }.function.watch();
    let address = core::ptr::from_ref(totals).expose_provenance();
    let owner = loom::thread::spawn(move || {
        // SAFETY: the rig has them until the owner has ended.
        let totals = unsafe { &*core::ptr::with_exposed_provenance::<layout::Totals>(address) };
        totals::count_untimed(totals::row_of(totals, 7, 0, || false));
    });
    let functions = totals::rows(totals).map(|row| row.function.load(Relaxed));
    let functions: Vec<u32> = functions.collect();
    assert!(functions == [0] || functions == [0, 7], "{functions:?}");
    owner.join().expect("the owner");
}

/// A ring of one slot, and the memory of its totals. The slot's owner is in function 3, and from now on makes short
/// calls.
pub(super) fn owned() -> (SmallRing, Rig, &'static Slot, &'static OpenCalls) {
    let (small, memory) = (SmallRing::keeping(1), Rig::new(1, false));
    let slot = small.ring.claim().expect("the first");
    let calls = small.ring.open_calls_of(slot).expect("open calls");
    calls.totals.store(memory.totals.addr() as u64, Relaxed);
    open_calls::begin(slot, calls);
    slot.tid.store(FORMER, Relaxed);
    writer::write(slot, FN_3, Stamp { ticks: 1, cpu: 0 });
    calls.threshold.store(100, Relaxed);
    (small, memory, slot, calls)
}

/// The same, but the owner has ended, with two more calls open.
fn ended(watch: fn(&OpenCalls)) -> (SmallRing, Rig, &'static Slot) {
    let (small, memory, slot, calls) = owned();
    let write = |(word, ticks)| writer::write(slot, word, Stamp { ticks, cpu: 0 });
    [(FN_1, 1000), (FN_2, 1010)].into_iter().for_each(write);
    small.ring.end(slot);
    for word in [
        &slot.cursor,
        &slot.chunk,
        &slot.generation,
        &slot.open_calls,
    ] {
        word.watch();
    }
    for word in [&slot.state, &slot.tid] {
        word.watch();
    }
    chunk::place(slot, 1).mark.number.watch();
    watch(calls);
    (small, memory, slot)
}

/// Another thread takes the slot.
fn takes(small: &SmallRing) -> loom::thread::JoinHandle<()> {
    let ring = small.ring;
    loom::thread::spawn(move || assert!(ring.claim().is_some()))
}

pub(super) fn a_copy_of_open_calls_that_change_hands() {
    let (small, _memory, slot) = ended(watch_open);
    let other = takes(&small);
    let mut snapshot = Snapshot::default();
    if snapshot.take(slot) {
        let state = State::from_snapshot(&snapshot);
        match snapshot.owner.tid {
            FORMER => assert_eq!(state.edges, ["+3 at 1", "+1 at 1000", "+2 at 1010"]),
            _ => assert!(state.edges.is_empty(), "{state:?}"),
        }
    }
    other.join().expect("the other thread");
    assert_eq!(small.ring.missing().overwritten, 3);
}

pub(super) fn a_count_of_open_calls_that_change_hands() {
    let (small, _memory, slot) = ended(watch_counts);
    let other = takes(&small);
    if let Some((owner, counts)) = counts::count(slot) {
        let recorded = counts.recorded;
        match owner.tid {
            FORMER => assert_eq!(recorded, 3),
            _ => assert_eq!(recorded, 0, "{counts:?}"),
        }
    }
    other.join().expect("the other thread");
}
