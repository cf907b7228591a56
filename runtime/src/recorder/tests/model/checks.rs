//! The models. Each begins with a ring that is so full that the interesting moment comes next. The ring is filled
//! before loom observes it. Then two threads run at once. A model must state exactly which results are allowed.

use super::*;
use crate::dump::tail::{Next, Tail};
use crate::ring::model::SmallRing;

/// Records of two full chunks.
const TWO_CHUNKS: u64 = 2 * PER_CHUNK;

/// A rig of two chunks with this many records.
fn rig(records: u64) -> Rig {
    rig_of(2, records)
}

fn rig_of(chunks: usize, records: u64) -> Rig {
    let rig = Rig::new(chunks, false);
    (1..=records).for_each(|number| make(rig.slot(), number));
    rig
}

/// The writer overwrites the older of two full chunks while both are copied. The copy must have all of the newer chunk.
/// Of the older chunk it has the old records, or none.
pub(super) fn a_copy_beside_a_writer_that_wraps() {
    let rig = rig(TWO_CHUNKS);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, TWO_CHUNKS + 1));
    let mut snapshot = Snapshot::default();
    assert!(snapshot.take(slot), "the newer chunk is there all the time");
    assert!((TWO_CHUNKS..=TWO_CHUNKS + 1).contains(&assert_unbroken(&snapshot)));
    writer.join().expect("the writer");
    assert!(snapshot.take(slot));
    assert_eq!(assert_unbroken(&snapshot), TWO_CHUNKS + 1);
}

/// A slot of three chunks, of which two have space and are full.
fn rig_without_space() -> Rig {
    let rig = rig_of(3, 0);
    rig.slot().chunks_with_space.store(2, Relaxed);
    (1..=TWO_CHUNKS).for_each(|number| make(rig.slot(), number));
    watch(rig.slot());
    rig.slot().chunks.watch();
    rig
}

/// The writer finds no space for the third chunk, and overwrites the first, while both are copied.
pub(super) fn a_copy_beside_a_writer_without_space() {
    let rig = rig_without_space();
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, TWO_CHUNKS + 1));
    let mut snapshot = Snapshot::default();
    assert!(
        snapshot.take(slot),
        "the second chunk is there all the time"
    );
    assert!((TWO_CHUNKS..=TWO_CHUNKS + 1).contains(&assert_unbroken(&snapshot)));
    writer.join().expect("the writer");
    assert!(snapshot.take(slot));
    assert_eq!(assert_unbroken(&snapshot), TWO_CHUNKS + 1);
    assert_eq!(snapshot.counts.overwritten, PER_CHUNK);
}

/// The same for a count.
pub(super) fn a_count_beside_a_writer_without_space() {
    let rig = rig_without_space();
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, TWO_CHUNKS + 1));
    if let Some((_, counts)) = counts::count(slot) {
        assert_eq!(counts.recorded, counts.readable + counts.overwritten);
        assert!([0, PER_CHUNK].contains(&counts.overwritten), "{counts:?}");
        assert!((TWO_CHUNKS..=TWO_CHUNKS + 1).contains(&counts.recorded));
    }
    writer.join().expect("the writer");
    let (_, counts) = counts::count(slot).expect("nobody writes");
    assert_eq!(
        (counts.recorded, counts.overwritten),
        (TWO_CHUNKS + 1, PER_CHUNK)
    );
}

/// The writer goes on in the chunk that is copied.
pub(super) fn a_copy_beside_a_writer_in_its_chunk() {
    let rig = rig(1);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, 2));
    let mut snapshot = Snapshot::default();
    assert!(snapshot.take(slot));
    assert!((1..=2).contains(&assert_unbroken(&snapshot)));
    writer.join().expect("the writer");
}

/// The same for a record without a time.
pub(super) fn a_copy_beside_an_untimed_writer() {
    let rig = rig(1);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || {
        assert!(writer::write_untimed(slot, FN_2), "it is like the last one");
    });
    let mut snapshot = Snapshot::default();
    assert!(snapshot.take(slot));
    let counts = exact_counts(&snapshot);
    let chunk = snapshot.chunks().next().expect("a chunk");
    let both = [FN_1, FN_2]
        .map(|word| u64::from(word).to_le_bytes())
        .concat();
    assert_eq!(
        chunk[PREAMBLE as usize..],
        both[..8 * counts.readable as usize]
    );
    assert!((1..=2).contains(&counts.readable));
    writer.join().expect("the writer");
}

/// The first record of all.
pub(super) fn a_copy_beside_a_writer_that_begins() {
    let rig = rig(0);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, 1));
    let mut snapshot = Snapshot::default();
    assert!(snapshot.take(slot));
    assert!(assert_unbroken(&snapshot) <= 1);
    writer.join().expect("the writer");
}

/// Counts without a copy, while metadata is written before a record, and while a chunk is opened.
fn a_count_beside_a_writer_after(before: u64) {
    let rig = rig(before);
    // Metadata in the middle: the chunk's share of it is not the preamble alone.
    make_on(rig.slot(), before + 1, 1);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make_on(slot, before + 2, 2));
    if let Some((_, counts)) = counts::count(slot) {
        assert_eq!(counts.recorded, counts.readable, "nothing is lost here");
        let range = before + 1..=before + 2;
        assert!(range.contains(&counts.recorded), "{counts:?}");
    }
    writer.join().expect("the writer");
    let (_, counts) = counts::count(slot).expect("nobody writes");
    assert_eq!(counts.recorded, before + 2);
}

pub(super) fn a_count_beside_metadata() {
    a_count_beside_a_writer_after(1);
}

pub(super) fn a_count_beside_a_new_chunk() {
    a_count_beside_a_writer_after(PER_CHUNK - 4);
}

/// Counts while the oldest chunk, which was overwritten before, is overwritten once more.
pub(super) fn a_count_beside_a_writer_that_wraps() {
    const MADE: u64 = 3 * PER_CHUNK;
    let rig = rig(MADE);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, MADE + 1));
    if let Some((_, counts)) = counts::count(slot) {
        assert_eq!(counts.recorded, counts.readable + counts.overwritten);
        let overwritten = [MADE - TWO_CHUNKS, MADE - PER_CHUNK];
        assert!(overwritten.contains(&counts.overwritten), "{counts:?}");
        assert!((MADE..=MADE + 1).contains(&counts.recorded), "{counts:?}");
    }
    writer.join().expect("the writer");
}

/// Follows the slot while it is overwritten: every part is what was written at its place, and what is
/// missing was counted.
pub(super) fn a_tail_beside_a_writer_that_wraps() {
    let rig = rig(TWO_CHUNKS);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, TWO_CHUNKS + 1));
    let mut tail = Tail::new(slot).expect("an owner");
    let mut before = 0;
    follow(&mut tail, slot, &mut before);
    writer.join().expect("the writer");
    (0..3).for_each(|_| follow(&mut tail, slot, &mut before));
    assert_eq!(before, TWO_CHUNKS + 1);
}

/// One step, checked: `before` records come before it, read or lost.
fn follow(tail: &mut Tail, slot: &Slot, before: &mut u64) {
    let mut buffer = [0; CHUNK];
    let (bytes, first, lost) = match tail.next(slot, true, &mut buffer) {
        Next::Part {
            bytes, first, lost, ..
        } => (bytes, first, lost),
        Next::Nothing => return,
        Next::Other => panic!("the slot has one owner"),
    };
    assert_eq!(first, *before + lost);
    let mut part = &buffer[..bytes];
    if part[0] & 1 == 1 {
        assert_eq!(part[35..43], (first + 1).to_le_bytes());
        part = &part[PREAMBLE as usize..];
    }
    for (record, number) in part.chunks(8).zip(first + 1..) {
        assert_eq!(record[..4], ((number as u32) << 4).to_le_bytes());
    }
    let count = part.len() as u64 / SINGLE;
    tail.took(first, count);
    *before = first + count;
}

/// The only chunk, full, is overwritten while it is copied, counted and followed. (Real regions have two
/// at least; so the newest is overwritten soonest.)
pub(super) fn a_copy_of_the_only_chunk() {
    let (rig, writer) = overwritten();
    let slot = lasting(rig.slot());
    let mut snapshot = Snapshot::default();
    if snapshot.take(slot) {
        assert!((PER_CHUNK..=PER_CHUNK + 1).contains(&assert_unbroken(&snapshot)));
    }
    writer.join().expect("the writer");
}

pub(super) fn a_count_of_the_only_chunk() {
    let (rig, writer) = overwritten();
    if let Some(committed) = committed(rig.slot()) {
        assert!(
            (PER_CHUNK..=PER_CHUNK + 1).contains(&committed),
            "{committed}"
        );
    }
    writer.join().expect("the writer");
}

pub(super) fn a_tail_of_the_only_chunk() {
    let (rig, writer) = overwritten();
    let slot = lasting(rig.slot());
    let mut tail = Tail::new(slot).expect("an owner");
    let mut before = 0;
    follow(&mut tail, slot, &mut before);
    writer.join().expect("the writer");
    (0..2).for_each(|_| follow(&mut tail, slot, &mut before));
    assert_eq!(before, PER_CHUNK + 1);
}

fn overwritten() -> (Rig, loom::thread::JoinHandle<()>) {
    let rig = rig_of(1, PER_CHUNK);
    watch(rig.slot());
    let slot = lasting(rig.slot());
    let writer = loom::thread::spawn(move || make(slot, PER_CHUNK + 1));
    (rig, writer)
}

/// The former owner of a slot, as the kernel counts: no thread has this number.
pub(super) const FORMER: u32 = 0x7FFF_FFF0;

/// A ring of one slot, whose owner made three records and ended.
fn ended() -> (SmallRing, &'static Slot) {
    let small = SmallRing::new(1);
    let slot = small.ring.claim().expect("the first");
    slot.tid.store(FORMER, Relaxed);
    (1..=3).for_each(|number| make(slot, number));
    small.ring.end(slot);
    watch_one_chunk(slot);
    (small, slot)
}

/// Another thread takes the only slot, and makes one record of that number.
fn takes(small: &SmallRing, number: u64) -> loom::thread::JoinHandle<()> {
    let ring = small.ring;
    loom::thread::spawn(move || {
        let slot = ring.claim().expect("the only one");
        make(slot, number);
    })
}

/// A slot goes to another thread while it is copied: the copy is the one's or the other's.
pub(super) fn a_copy_of_a_slot_that_changes_hands() {
    let (small, slot) = ended();
    let other = takes(&small, 1);
    let mut snapshot = Snapshot::default();
    if snapshot.take(slot) {
        let last = assert_unbroken(&snapshot);
        let former = snapshot.owner.tid == FORMER;
        assert_eq!(snapshot.owner.ended, former);
        assert!(if former { last == 3 } else { last <= 1 });
    }
    other.join().expect("the other thread");
    assert_eq!(committed(slot), Some(1));
}

/// The same for counts.
pub(super) fn a_count_of_a_slot_that_changes_hands() {
    let (small, slot) = ended();
    let other = takes(&small, 1);
    if let Some((owner, counts)) = counts::count(slot) {
        let former = owner.tid == FORMER;
        assert_eq!(owner.ended, former);
        let recorded = counts.recorded;
        assert!(if former { recorded == 3 } else { recorded <= 1 });
    }
    other.join().expect("the other thread");
}

/// A reader that follows the slot learns that the owner has changed, and gets no records of the new owner.
pub(super) fn a_tail_of_a_slot_that_changes_hands() {
    let (small, slot) = ended();
    let mut tail = Tail::new(slot).expect("an owner");
    let other = takes(&small, 7);
    let mut buffer = [0; CHUNK];
    if let Next::Part {
        bytes, first, lost, ..
    } = tail.next(slot, true, &mut buffer)
    {
        assert_eq!((bytes, first, lost), (PREAMBLE as usize + 24, 0, 0));
        assert_eq!(buffer[48..52], (1_u32 << 4).to_le_bytes());
        assert_eq!(buffer[56..60], (2_u32 << 4).to_le_bytes());
    }
    other.join().expect("the other thread");
}

/// A reader that begins to follow meanwhile follows the one or the other, and is given that one's.
pub(super) fn a_tail_beside_a_change_of_owner() {
    let (small, slot) = ended();
    let other = takes(&small, 7);
    let mut buffer = [0; CHUNK];
    let tail = Tail::new(slot).map(|mut tail| (tail.next(slot, true, &mut buffer), tail));
    other.join().expect("the other thread");
    if let Some((Next::Part { bytes, .. }, tail)) = tail {
        let number: u32 = if tail.is_of(slot) { 7 } else { 1 };
        let first = &buffer[PREAMBLE as usize..bytes];
        assert!(first.is_empty() || first[..4] == (number << 4).to_le_bytes());
    }
}

/// Two threads ask for slots; there is one of an ended thread and one that was never made.
pub(super) fn two_threads_claim() {
    let small = SmallRing::new(2);
    let first = small.ring.claim().expect("the first");
    make(first, 1);
    small.ring.end(first);
    small.watch();
    let address = |slot: &'static Slot| core::ptr::from_ref(slot).addr();
    let ring = small.ring;
    let other = loom::thread::spawn(move || ring.claim().map(address));
    let ours = ring.claim().map(address);
    let theirs = other.join().expect("the other thread");
    assert!(ours.is_some() && theirs.is_some() && ours != theirs);
    assert!(!ring.has_room());
    assert_eq!(ring.missing().threads, 1);
    assert_eq!(ring.missing().overwritten, 1);
}

/// A thread ends while another asks for its slot: the records that go with it are counted, all of them.
pub(super) fn a_slot_is_taken_when_its_thread_ends() {
    let small = SmallRing::new(1);
    let slot = small.ring.claim().expect("the first");
    make(slot, 1);
    small.watch();
    watch_records(slot, 1);
    let ring = small.ring;
    let owner = loom::thread::spawn(move || {
        make(slot, 2);
        ring.end(slot);
    });
    let claimed = ring.claim().is_some();
    owner.join().expect("the owner");
    let overwritten = if claimed { 2 } else { 0 };
    assert_eq!(ring.missing().overwritten, overwritten);
    assert_eq!(ring.has_room(), !claimed);
    assert_eq!(slot.state.load(Relaxed) == state::ENDED, !claimed);
    let left = counts::count(slot).expect("an owner").1.recorded;
    assert_eq!(left, 2 - overwritten);
}

/// A thread without a slot asks for one, or counts its record, while another thread ends and then records no more. Each
/// record must be counted in exactly one place, and a slot that becomes free must be known as free.
pub(super) fn a_thread_without_room_beside_an_end() {
    let small = SmallRing::new(1);
    let slot = small.ring.claim().expect("the only one");
    small.watch();
    let ring = small.ring;
    let owner = loom::thread::spawn(move || {
        ring.end(slot);
        ring.count_dropped_on(0);
    });
    let placed = ring.is_worth_asking(0) && ring.claim().is_some();
    if !placed {
        ring.count_dropped_on(0);
    }
    owner.join().expect("the owner");
    let counted = 1 + u64::from(!placed);
    assert_eq!(ring.missing().dropped, counted);
    assert_eq!(ring.is_worth_asking(0), !placed);
    assert!(placed || ring.claim().is_some(), "it is not to be had");
}

/// One thread makes a slot ready, another asks for one: what it gets is ready.
pub(super) fn a_spare_is_claimed() {
    let small = SmallRing::new(3);
    small.watch();
    small.watch_spares();
    let ring = small.ring;
    let dumper = loom::thread::spawn(move || ring.prepare_spares(1));
    let slot = ring.claim().expect("one of three");
    assert_ne!(slot.base.load(Relaxed), 0, "it has no region");
    dumper.join().expect("the dumper");
    let made = ring.header().made.load(Relaxed) as usize;
    assert_eq!(ring.slots().count(), made, "a slot was left in the making");
    assert!(ring.has_room());
}
