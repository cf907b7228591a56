//! Runs the models, and shows that they can fail. Each ordering, each fence, and each store that a reader looks for is
//! removed once (`primitive::shadow`), and some model must then find an error. Those that no model needs are listed
//! with a reason. In the models of open calls, only those of arguments and of waits are removed. A run must never pass
//! if a model explores nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use super::checks::*;
use super::holder::*;
use super::open_calls::*;
use super::{PREEMPTIONS, explore};
use crate::primitive::shadow::{Action, Site, Weakening};

type Model = (&'static str, fn());

macro_rules! models {
    ($($name:ident)*) => { [$((stringify!($name), $name as fn())),*] };
}

/// The cheapest come first.
const MODELS: &[Model] = &models! {
    a_copy_beside_a_writer_in_its_chunk
    a_copy_beside_an_untimed_writer
    a_copy_beside_a_writer_that_begins
    a_count_beside_metadata
    a_slot_is_taken_when_its_thread_ends
    a_thread_without_room_beside_an_end
    a_count_beside_a_new_chunk
    a_count_beside_a_writer_that_wraps
    two_threads_claim
    a_spare_is_claimed
    a_count_of_the_only_chunk
    a_tail_of_the_only_chunk
    a_copy_of_the_only_chunk
    a_copy_beside_a_writer_that_wraps
    a_copy_beside_a_writer_without_space
    a_count_beside_a_writer_without_space
    a_tail_of_a_slot_that_changes_hands
    a_tail_beside_a_writer_that_wraps
    a_tail_beside_a_change_of_owner
    a_copy_of_a_slot_that_changes_hands
    a_count_of_a_slot_that_changes_hands
};

/// Models whose sites are not taken away: those of open calls and totals.
const MODELS_OF_OPEN_CALLS: &[Model] = &models! {
    a_count_of_open_calls_that_change_hands
    a_copy_of_open_calls_that_change_hands
    rows_beside_their_owner
    a_row_beside_its_owner
    a_count_beside_short_calls
    a_count_beside_a_kept_call
    a_count_beside_a_new_chunks_kept_call
    a_copy_beside_short_calls
    a_copy_beside_a_kept_call
    a_copy_beside_a_summary
    a_copy_beside_a_new_chunks_kept_call
    a_copy_beside_a_note_of_arguments
    a_wait_beside_its_owner
    a_wait_beside_a_reader
};

/// `file: function: line`, and why nothing is found without it.
const SPARE: &[(&str, &str)] = &[
    (
        "dump/snapshot: try_take: fence(Ordering::Acquire); without its ordering",
        "who saw anything of a new owner's came through the fence in `copy_chunk` or loaded `chunk`",
    ),
    (
        "dump/snapshot: copy_chunk: if mark.number.load(Ordering::Acquire) != number { without its ordering",
        "`chunk` was loaded with Acquire, and stored after it",
    ),
    (
        "ring/counts: used_at: place.mark.end.load(Ordering::Acquire) without its ordering",
        "the cursor was loaded with Acquire, and left the chunk after `end` was stored",
    ),
    (
        "ring/counts: made: let head = slot.chunk.load(Ordering::Acquire); without its ordering",
        "the mark's number is loaded with Acquire too; one of the two is enough",
    ),
    (
        "ring/counts: made: if mark.number.load(Ordering::Acquire) != head { without its ordering",
        "the other of the two",
    ),
    (
        "ring/open_calls: counts: slot.cursor.load(Ordering::Acquire), without its ordering",
        "a count walks over words that are not watched; `used` loads the cursor in the same way for copies",
    ),
    (
        "ring/counts: count: fence(Ordering::Acquire); without its ordering",
        "the last fence in `made` comes before it",
    ),
    (
        "ring/counts: records_before_oldest: let head = slot.chunk.load(Ordering::Acquire); without its ordering",
        "the mark's number is loaded with Acquire too; one of the two is enough",
    ),
    (
        "ring/counts: records_before_oldest: let before = oldest.number.load(Ordering::Acquire); without its ordering",
        "the other of the two",
    ),
    (
        "dump/tail: new: let generation = slot.generation.load(Ordering::Acquire); without its ordering",
        "`next` begins with the fence in `is_of`; one of the two is enough",
    ),
    (
        "dump/tail: is_of: fence(Ordering::Acquire); without its ordering",
        "the other of the two; at the end of `try_next` a fence comes before it",
    ),
    (
        "dump/tail: next: let head = slot.chunk.load(Ordering::Acquire); without its ordering",
        "the mark's number is loaded with Acquire too; one of the two is enough",
    ),
    (
        "dump/tail: try_next: if mark.number.load(Ordering::Acquire) != number { without its ordering",
        "the other of the two",
    ),
    (
        "dump/tail: owned: let state = slot.state.load(Ordering::Acquire); without its ordering",
        "in `next` the fence in `is_of` follows `new`",
    ),
    (
        "recorder/chunk_writer: open_chunk: new.end.store(0, Ordering::Relaxed); left out",
        "stored anew before the cursor leaves the chunk; for who finds the ring after a kill",
    ),
    (
        "recorder/chunk_writer: open_chunk: new.number.store(next, Ordering::Release); without its ordering",
        "`chunk` is stored with Release after it; for who looks at marks alone",
    ),
    (
        "ring/mod: slots: let made = self.header().made.load(Ordering::Acquire) as usize; without its ordering",
        "a slot is published by its state",
    ),
    (
        "ring/mod: slots: (slot.state.load(Ordering::Acquire) > state::RAW).then_some(slot) without its ordering",
        "whoever uses the slot loads its state again",
    ),
    (
        "ring/slots: take_spare: self.next_spare.store(index + 1, Ordering::Relaxed); left out",
        "where to look first: a spare is found wherever it is",
    ),
    (
        "ring/slots: take_oldest_ended: let ended = |slot: &&Slot| slot.state.load(Ordering::Acquire) == state::ENDED; without its ordering",
        "`try_take` loads it again with Acquire",
    ),
    (
        "ring/slots: begin: mark.number.store(0, Ordering::Relaxed); left out",
        "the generation tells readers; for who finds the ring after a kill",
    ),
];

/// Where the site is: `file: function: line`.
fn place(site: Site) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(site.file);
    let text = fs::read_to_string(&path).expect("a source file");
    let lines: Vec<&str> = text
        .lines()
        .take(site.line as usize)
        .map(str::trim)
        .collect();
    let function = lines.iter().rev().find_map(|line| {
        let (before, after) = line.split_once("fn ")?;
        let name = after.split(['(', '<']).next()?;
        (before.is_empty() || before.ends_with(' ')).then_some(name)
    });
    let file = site
        .file
        .trim_start_matches("runtime/src/")
        .trim_end_matches(".rs");
    let line = lines.last().copied().unwrap_or_default();
    format!("{file}: {}: {line}", function.unwrap_or_default())
}

/// What may be taken away at a site.
fn weakenings(site: Site) -> Vec<Weakening> {
    let ordered = site.ordered.then_some(Weakening::Relaxed(site));
    let stored = (site.action == Action::Store).then_some(Weakening::Omitted(site));
    ordered.into_iter().chain(stored).collect()
}

fn named(weakening: Weakening) -> String {
    match weakening {
        Weakening::Relaxed(site) => format!("{} without its ordering", place(site)),
        Weakening::Omitted(site) => format!("{} left out", place(site)),
    }
}

/// Runs a model, which must find nothing. Returns the sites that it visits.
fn finds_nothing((name, model): Model, preemptions: usize) -> BTreeSet<Site> {
    let begin = Instant::now();
    let (executions, visited) =
        explore(model, None, preemptions).unwrap_or_else(|| panic!("{name} fails"));
    println!("{name}: {executions} executions, {:?}", begin.elapsed());
    assert!(executions > 5, "{name} explores nothing");
    visited
}

#[test]
fn models_of_open_calls_find_nothing() {
    for &model in MODELS_OF_OPEN_CALLS {
        // With two preemptions, these take longer than all others together.
        let is_long =
            model.0.starts_with("a_copy_beside_a_") || model.0.ends_with("in_a_new_chunk");
        finds_nothing(model, if is_long { 1 } else { PREEMPTIONS });
    }
}

/// Weakens each ordering and removes each store of a file. There must be at least `least` of them.
fn need_all_of(models: &[fn()], file: &str, least: usize) {
    let mut sites = BTreeSet::new();
    for &model in models {
        let (_, of_it) = explore(model, None, 1).expect("it finds nothing");
        sites.extend(of_it.into_iter().filter(|site| site.file.ends_with(file)));
    }
    let weakenings: Vec<Weakening> = sites.into_iter().flat_map(weakenings).collect();
    assert!(weakenings.len() >= least, "{}", weakenings.len());
    let survives = |&weakening: &Weakening| {
        let mut models = models.iter();
        models.all(|model| explore(*model, Some(weakening), 1).is_some())
    };
    let survivors = weakenings.into_iter().filter(survives).map(named);
    assert_eq!(survivors.collect::<Vec<_>>(), [] as [String; 0]);
}

#[test]
fn arguments_need_each_of_their_orderings() {
    need_all_of(&[a_copy_beside_a_note_of_arguments], "ring/arguments.rs", 4);
}

#[test]
fn waits_need_each_of_their_orderings() {
    let models = [a_wait_beside_its_owner as fn(), a_wait_beside_a_reader];
    need_all_of(&models, "recorder/wait.rs", 4);
}

#[test]
fn models_find_nothing_and_could() {
    let mut sites: BTreeMap<Site, Vec<Model>> = BTreeMap::new();
    for &(name, model) in MODELS {
        for site in finds_nothing((name, model), PREEMPTIONS) {
            sites.entry(site).or_default().push((name, model));
        }
    }
    let (mut spare, mut survivors) = (Vec::new(), Vec::new());
    let mut caught = 0;
    for (&site, models) in &sites {
        for weakening in weakenings(site) {
            let name = named(weakening);
            if SPARE.iter().any(|(spare, _)| *spare == name) {
                spare.push(name);
                continue;
            }
            let begin = Instant::now();
            let by = models
                .iter()
                .find(|(_, model)| explore(*model, Some(weakening), PREEMPTIONS).is_none());
            match by {
                Some((by, _)) => println!("{name}: caught by {by}, {:?}", begin.elapsed()),
                None => survivors.push(format!("{name} (line {})", site.line)),
            }
            caught += usize::from(by.is_some());
        }
    }
    println!("{caught} mutants caught, {} spare", spare.len());
    assert_eq!(survivors, [] as [String; 0], "no model needs these");
    for (name, _) in SPARE {
        assert!(spare.iter().any(|found| found == name), "gone: {name}");
    }
}
