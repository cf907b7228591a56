//! Compares a trace with the pages in which the threads counted their records. A page says which records of the thread
//! must be in the trace, in which order, and how the others must be counted.

use fdr_formats::identity::Part;
use fdr_formats::ring::layout;
use fdr_tests::support::course::Course;
use fdr_tests::support::script::{DEEPEST, FUNCTIONS};
use fdr_tests::support::truth::{CALLS, CHUNKS, LIFE, MADE, Truth, WAY, WRONG, way};

use crate::decoded_trace::{DecodedTrace, Lane};
use crate::notes::{self, NoteComparison};
use crate::victim;

/// How exactly the page knows what a thread has made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The program stands still, or has ended. The thread has made the records that the page counts, or one more.
    Now,
    /// The program went on after the trace. The trace has at least the records that the page counted before, and at
    /// most those that it counts now.
    Since(u64),
    /// Exactly this number of records.
    Exactly(u64),
}

/// The kept records of a thread are those of its course, without a gap, up to its last record.
fn window(lane: &Lane, course: Course) {
    if lane.counts.summarised > 0 {
        return;
    }
    let expected = course.window(lane.counts.overwritten, lane.counts.readable);
    let pairs = lane.edges.iter().zip(&expected);
    let same = pairs.take_while(|(found, wanted)| found == wanted).count();
    let Lane { name, counts, .. } = lane;
    assert!(
        lane.edges == expected,
        "{name}: other records than were made, from {same} on ({counts:?})"
    );
}

/// The same check for a thread that makes no more calls, and whose short calls left no records. It goes backwards from
/// the thread's end. A summary stands for whole calls of the course, and each edge is an edge of the course. The last
/// call that ended may be missing from the summaries, together with the calls inside it. The totals count the ended
/// calls of each function. They may count the last call already.
fn summarised(lane: &Lane, course: Course) {
    let Lane { name, counts, .. } = lane;
    let made = lane.made();
    let summarised: u64 = lane.short.iter().map(|(_, calls)| 2 * calls).sum();
    let ended = last_call(&course.window(made.saturating_sub(MAX_CALL), MAX_CALL.min(made)));
    let count = (summarised + lane.edges.len() as u64 + ended).min(made);
    let expected = course.window(made - count, count);
    let (without, _) = expected.split_at(expected.len().saturating_sub(ended as usize));
    assert!(
        follows(lane, &expected) || follows(lane, without),
        "{name}: other records than were made, or other summaries ({counts:?})"
    );
    if !lane.ended.is_empty() {
        totals(lane, course, made, 1);
    }
}

/// The counted calls of each function are at least those that ended in the first `made` edges. They are at most those
/// whose `edge` (0: the entry, 1: the exit) is among one edge more.
fn totals(lane: &Lane, course: Course, made: u64, edge: u8) {
    let edges = course.window(0, made + 1);
    let now = edges.get(..made as usize).unwrap_or(&edges);
    let count = |edges: &[u8], word: u8| edges.iter().filter(|&&edge| edge == word).count() as u64;
    for word in (0..2 * FUNCTIONS.len() as u8).step_by(2) {
        let range = count(now, word + 1)..=count(&edges, word + edge);
        let ended = lane.ended.get(&word).copied().unwrap_or(0);
        assert!(
            range.contains(&ended),
            "{}: {ended} calls of function {word} are counted, not {range:?}",
            lane.name
        );
    }
}

/// The same check for a thread with functions that are only counted. Such a call is counted at its entry. If functions
/// are only looked at, calls may be missing, but there must be no call that the thread did not make.
fn counted(lane: &Lane, course: Course, made: u64, moment: Moment) {
    // About half of the edges are entries.
    let (ended, most): (u64, u64) = (lane.ended.values().sum(), (made + 1 + DEEPEST) / 2);
    let least = match moment {
        _ if lane.misses_calls => 0,
        // The thread went on meanwhile, so the check adds up all functions.
        Moment::Since(before) => before.saturating_sub(DEEPEST) / 2,
        _ => return totals(lane, course, made, 0),
    };
    assert!(
        (least..=most).contains(&ended),
        "{}: {ended} calls are counted, not {least} to {most}",
        lane.name
    );
}

/// Edges of the longest call that is looked for at the end.
const MAX_CALL: u64 = 10_000;

/// How many edges the call has that they end with, with all calls inside. 0: they end with an entry, or the call began
/// before them.
fn last_call(edges: &[u8]) -> u64 {
    let mut open = 0_u64;
    for (count, edge) in (1..).zip(edges.iter().rev()) {
        match edge % 2 {
            0 if open <= 1 => return count * open,
            0 => open -= 1,
            _ => open += 1,
        }
    }
    0
}

/// Whether the lane's edges and summaries are what these edges end with.
fn follows(lane: &Lane, edges: &[u8]) -> bool {
    let (mut left, mut short) = (edges, lane.short.iter().rev().peekable());
    for at in (0..=lane.edges.len()).rev() {
        // Where there are too many for one record, the records after each other are whole calls together.
        let mut calls = 0;
        while let Some((_, some)) = short.next_if(|(before, _)| *before == at) {
            calls += *some as usize;
        }
        let Some((before, inside)) = left
            .len()
            .checked_sub(2 * calls)
            .map(|at| left.split_at(at))
        else {
            return false;
        };
        if !is_whole(inside) {
            return false;
        }
        left = before;
        if at > 0 {
            let Some((last, before)) = left.split_last() else {
                return false;
            };
            if *last != lane.edges[at - 1] {
                return false;
            }
            left = before;
        }
    }
    true
}

/// Whether each call among these edges is there with both edges.
fn is_whole(edges: &[u8]) -> bool {
    let mut open = Vec::new();
    let fits = |edge: &u8| match edge % 2 {
        0 => {
            open.push(*edge);
            true
        }
        _ => open.pop() == Some(edge - 1),
    };
    edges.iter().all(fits) && open.is_empty()
}

/// The thread's course.
pub(crate) fn course(truth: &Truth, seed: u64, number: usize) -> Course {
    let course = Course::new(seed.wrapping_add(number as u64), truth.get(number, CALLS));
    let way = truth.get(0, WAY);
    course.with_blocks(way::is_noted(way))
}

/// One thread that drops nothing: what there is, and how much was made.
pub(crate) fn thread(lane: &Lane, course: Course, truth: &Truth, number: usize, moment: Moment) {
    let Lane { name, counts, .. } = lane;
    let is_exact = lane.untimed == 0 && !lane.misses_calls;
    if truth.get(0, WAY) == way::COUNTED && !is_exact {
        return counted(lane, course, truth.get(number, MADE), moment);
    }
    let (made, sure) = (lane.made(), truth.get(number, MADE));
    let range = match moment {
        Moment::Now if truth.get(number, LIFE) == 2 => sure..=sure,
        Moment::Now => sure..=sure + 1,
        Moment::Since(before) => before..=sure + 1,
        Moment::Exactly(made) => made..=made,
    };
    assert_eq!(counts.dropped, 0, "{name}: {counts:?}");
    assert!(
        range.contains(&made),
        "{name}: {made} records, not {range:?} ({counts:?})"
    );
    let goes_on = matches!(moment, Moment::Since(_));
    notes::check(
        lane,
        &NoteComparison {
            course,
            made,
            sure: match goes_on {
                true => *range.start(),
                false => sure.max(*range.start()),
            },
            is_exact: truth.get(0, WAY) == way::NOTED,
        },
    );
    match goes_on {
        true if counts.summarised > 0 => {}
        true => {
            let is_copied = counts.readable > 0 || made == 0;
            assert!(is_copied, "{name}: nothing is readable of {made} records");
            window(lane, course);
        }
        false if counts.summarised > 0 => summarised(lane, course),
        false => {
            let chunks = truth.get(0, CHUNKS);
            assert!(
                keeps_its_chunks(lane, chunks),
                "{name}: {chunks} chunks, {counts:?}"
            );
            window(lane, course);
        }
    }
}

/// If a ring has wrapped and no more records are made, it has all chunks except the oldest one. The newest chunk is in
/// the place of that one. The chunks between them are full. A chunk holds a preamble, records of 8 bytes, and 16 bytes
/// for each change of the CPU. Its end may be too short for one of these.
fn keeps_its_chunks(lane: &Lane, chunks: u64) -> bool {
    const PREAMBLE: u64 = 48;
    const SHORT: u64 = 16;
    /// The number of records for which long pauses may leave no room. Each pause takes 16 bytes.
    const PAUSES: u64 = 64;
    /// A note is in one chunk as a whole, so ends of chunks are empty: a part of this room, at most.
    const NOTES: u64 = 32;
    assert!(chunks >= 2, "the number of chunks is not set");
    let full = (layout::CHUNK as u64 - PREAMBLE - SHORT) / 8;
    let notes = lane.notes.room + lane.notes.room.div_ceil(NOTES);
    let least = ((chunks - 1) * full).saturating_sub(2 * lane.cpus + PAUSES + notes);
    lane.counts.overwritten == 0 || lane.counts.readable >= least
}

/// The lane of that thread; each has at most one.
pub(crate) fn lane(trace: &DecodedTrace, number: usize) -> Option<&Lane> {
    let lanes = trace.lanes.iter();
    let mut lanes = lanes.filter(|lane| lane.number() == Some(number));
    let first = lanes.next();
    assert!(lanes.next().is_none(), "n{number} is there twice");
    first
}

/// The names of all threads of a trace, for messages.
pub(crate) fn names(trace: &DecodedTrace) -> Vec<&str> {
    trace.lanes.iter().map(|lane| lane.name.as_str()).collect()
}

/// Checks all threads of a program. Each thread is in the trace, or is counted among the threads whose slots have new
/// owners. `taken`: slots that were getting a new owner at that moment. The former threads of these slots may or may
/// not be counted.
pub(crate) fn all(trace: &DecodedTrace, truth: &Truth, seed: u64, taken: usize) {
    let (mut gone, mut known) = (Vec::new(), 0);
    for number in truth.threads() {
        if let Some(lane) = lane(trace, number) {
            known += 1;
            let course = course(truth, seed, number);
            thread(lane, course, truth, number, Moment::Now);
        } else {
            gone.push(truth.get(number, MADE));
        }
    }
    assert_eq!(known, trace.lanes.len(), "{:?}", names(trace));
    program(trace, truth, seed);
    let missing = trace.info.missing;
    let made: u64 = gone.iter().sum();
    let lost = missing.overwritten + missing.dropped;
    assert!(
        made >= lost && (trace.misses_calls || is_sum(&gone, made - lost, taken)),
        "{missing:?}, but threads that are gone made {made} records"
    );
}

/// What a trace says of the program, and what the program found wrong itself.
fn program(trace: &DecodedTrace, truth: &Truth, seed: u64) {
    let tags = trace.info.identity.get(Part::Tags);
    let wanted = match truth.get(0, WAY) {
        way if way::is_noted(way) => victim::tags(seed),
        _ => String::new(),
    };
    // A program that is killed before its first record may not have written its identity yet.
    let is_early = tags.is_empty() && truth.surely_made() == 0;
    assert!(is_early || tags == wanted, "tags {tags:?}, not {wanted:?}");
    assert_eq!(truth.get(0, WRONG), 0, "faults that the program found");
}

/// The trace of a trigger, which was made while the program went on.
pub(crate) fn fired(trace: &DecodedTrace, truth: &Truth, seed: u64) {
    let reason = &trace.info.reason;
    let is_fired = reason.starts_with("trigger torture_victim::noted::strand>");
    assert!(is_fired, "{reason}");
    program(trace, truth, seed);
    for number in truth.threads() {
        if let Some(lane) = lane(trace, number) {
            let course = course(truth, seed, number);
            thread(lane, course, truth, number, Moment::Since(0));
        }
    }
}

/// Whether at most `most` of the numbers have that sum.
fn is_sum(numbers: &[u64], sum: u64, most: usize) -> bool {
    // Of almost all tries none are.
    let mut sums = vec![0];
    for _ in 0..most.min(3) {
        let next: Vec<u64> = sums
            .iter()
            .flat_map(|sum| numbers.iter().map(move |number| sum + number))
            .collect();
        sums.extend(next);
    }
    sums.contains(&sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_is_there_with_all_inside() {
        assert_eq!(last_call(&[0, 1, 2, 4, 4, 5, 5, 3]), 6);
        assert_eq!(last_call(&[0, 4, 4, 5, 5]), 4);
        assert_eq!(last_call(&[0, 1, 2]), 0);
        assert_eq!(last_call(&[5, 3]), 0, "it began before");
        assert_eq!(last_call(&[]), 0);
    }

    #[test]
    fn rings_that_lose_chunks_are_detected() {
        let mut lane = Lane::default();
        (lane.counts.overwritten, lane.cpus) = (50_000, 4);
        lane.counts.readable = 8_184;
        assert!(!keeps_its_chunks(&lane, 4));
        lane.counts.readable = 3 * 8_184 + 1;
        assert!(keeps_its_chunks(&lane, 4));
        // Nothing was overwritten: there may be as little as was made.
        (lane.counts.overwritten, lane.counts.readable) = (0, 7);
        assert!(keeps_its_chunks(&lane, 4));
    }

    #[test]
    fn summaries_stand_for_whole_calls() {
        // alpha( beta() beta() gamma
        let edges = [0, 2, 3, 2, 3, 4];
        let mut lane = Lane::default();
        (lane.edges, lane.short) = (vec![0, 4], vec![(1, 2)]);
        assert!(follows(&lane, &edges));
        lane.short = vec![(1, 1)];
        assert!(!follows(&lane, &edges), "a call is missing");
        lane.short = vec![(0, 2)];
        assert!(!follows(&lane, &edges), "it is elsewhere");
        lane.short = vec![(1, 1), (1, 1)];
        assert!(follows(&lane, &edges));
        let inside = [0, 2, 2, 3, 3, 4];
        assert!(follows(&lane, &inside), "two records of one summary");
        (lane.edges, lane.short) = (vec![0], vec![(1, 1)]);
        assert!(follows(
            &lane,
            &edges[..5 - last_call(&edges[..5]) as usize]
        ));
        assert!(!follows(&lane, &edges[..5]));
        assert!(!is_whole(&[2, 5]) && !is_whole(&[2]) && is_whole(&[2, 0, 1, 3]));
    }
}
