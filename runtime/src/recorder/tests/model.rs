//! The protocol of writer, reader and recycling under loom: each model runs the very source of
//! `recorder::writer`, `ring`, `dump::snapshot` and `dump::tail` in every order that the memory model
//! allows (up to [`PREEMPTIONS`]). `mutants` then takes away one ordering after the other.
//!
//! Three things are not modelled. A chunk has only the first words of its preamble and its records, because two loops
//! treat all words alike. Words that only the owner reads are left out. The assembly of `stub` is left out, because its
//! own tests compare it with the writer. No model may pass with every mutant, because then it would prove nothing.

mod checks;
mod holder;
mod mutants;
mod open_calls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::*;
use crate::primitive::shadow::{self, Site, Weakening};
use crate::ring::chunk;
use crate::ring::layout::Slot;
use std::collections::BTreeSet;

/// How often a thread is stopped in favour of another where it could go on. Two are enough for every
/// mutant; each more multiplies the executions.
const PREEMPTIONS: usize = 2;

/// Runs a model; what its sites are, or that it found something.
fn explore(
    model: fn(),
    weakening: Option<Weakening>,
    preemptions: usize,
) -> Option<(usize, BTreeSet<Site>)> {
    let run = move || {
        shadow::weaken(weakening);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        let executions = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = executions.clone();
        let checked = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counter.fetch_add(1, Relaxed);
                shadow::begin();
                model();
            });
        }));
        let sites = shadow::sites();
        checked.is_ok().then(|| (executions.load(Relaxed), sites))
    };
    thread::spawn(run).join().ok().flatten()
}

/// Loom keeps what readers of the slot look at.
fn watch(slot: &Slot) {
    slot.state.watch();
    watch_records(slot, slot.chunks.load(Relaxed));
}

/// The same for a slot of which no more than the first chunk is used.
fn watch_one_chunk(slot: &Slot) {
    slot.state.watch();
    watch_records(slot, 1);
}

/// The same without the state, for the first chunks.
fn watch_records(slot: &Slot, chunks: u64) {
    for word in [&slot.cursor, &slot.chunk, &slot.dropped] {
        word.watch();
    }
    slot.generation.watch();
    slot.tid.watch();
    for number in 1..=chunks {
        let chunk::ChunkPlace { start, mark } = chunk::place(slot, number);
        for word in [&mark.number, &mark.first, &mark.end] {
            word.watch();
        }
        // The tick of the preamble, and two records.
        for word in [4, 6, 7] {
            let at = chunk::at_address::<u64>(start).wrapping_add(word);
            // SAFETY: inside the slot's region.
            unsafe { crate::primitive::AtomicU64::from_ptr(at) }.watch();
        }
    }
}

/// Makes the record of that number, counted from 1: its function and its tick.
fn make(slot: &Slot, number: u64) {
    make_on(slot, number, 0);
}

fn make_on(slot: &Slot, number: u64, cpu: u32) {
    let stamp = Stamp { ticks: number, cpu };
    writer::write(slot, (number as u32) << 4, stamp);
}

/// Function records that were made.
fn committed(slot: &Slot) -> Option<u64> {
    counts::made(slot).map(|(committed, _)| committed)
}

/// The slot, for as long as a model lasts.
fn lasting(slot: &Slot) -> &'static Slot {
    let address = core::ptr::from_ref(slot).expose_provenance();
    // SAFETY: a model joins its threads before it lets go of its rig.
    unsafe { &*core::ptr::with_exposed_provenance::<Slot>(address) }
}

/// The snapshot holds an unbroken run of records on one CPU, and its counts are exact. Returns the
/// number of the last.
fn assert_unbroken(snapshot: &Snapshot) -> u64 {
    let counts = exact_counts(snapshot);
    let mut number = counts.overwritten;
    for chunk in snapshot.chunks() {
        assert_eq!(chunk[35..43], (number + 1).to_le_bytes(), "the first tick");
        let records = chunk[PREAMBLE as usize..].chunks(8);
        for (at, record) in records.enumerate() {
            number += 1;
            let delta = u64::from(at > 0);
            assert_eq!(record, ((number << 4) | delta << 32).to_le_bytes());
        }
    }
    assert_eq!(number, counts.readable + counts.overwritten);
    number
}
