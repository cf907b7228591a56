//! Snapshots of a living process that records as fast as it can. Each is whole and right, and holds all records that
//! were made before it began.

use fdr_tests::support::truth::{MADE, STOP, WAY, way};

use crate::check::{self, Moment};
use crate::decoded_trace::decode_trace;
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting};

const THREADS: usize = 8;
/// Snapshots of a process.
const ROUND: u64 = 250;
/// Records of half a ring: two chunks of four.
const HALF: u64 = 2 * 8_184;
/// Function records that have the room of the summary of short calls.
const SUMMARY: u64 = 2;
/// Records after which every ring has been overwritten.
const FULL: u64 = 100_000;

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(1, ROUND);
    plan.each(1, round, |attempt| process(attempt, round))
}

fn process(attempt: &Try<'_>, count: u64) {
    let folder = attempt.folder(true);
    let seed = attempt.seed >> 1;
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_trigger();
    let setting = setting.with_counted(&mut random);
    setting.count(attempt);
    let part = Part("storm", [seed, THREADS as u64, 0]);
    let (mut process, truth) = part.start(attempt, &folder, 4, setting, "FDR_OUT=%n.fdr");
    let is_full = |thread| truth.get(thread, MADE) >= FULL;
    assert!(process.goes_on_until(|_| (1..=THREADS).all(is_full)));
    let rings = folder.ending(".fdr-ring");
    let [ring] = rings.as_slice() else {
        panic!("rings: {rings:?}");
    };
    // What the records of a snapshot take in rings, in function records.
    let (mut records, mut taken) = (0, 0);
    for _ in 0..count {
        let before: Vec<u64> = (0..=THREADS)
            .map(|thread| truth.get(thread, MADE))
            .collect();
        let trace = decode_trace(ring);
        for (thread, &before) in before.iter().enumerate().skip(1) {
            let lane = check::lane(&trace, thread);
            let lane = lane.unwrap_or_else(|| panic!("no n{thread}"));
            records += lane.counts.readable;
            let summaries = SUMMARY * lane.short.len() as u64;
            taken += lane.counts.readable + summaries + lane.notes.room;
            let course = check::course(&truth, seed, thread);
            let moment = Moment::Since(before);
            check::thread(lane, course, &truth, thread, moment);
        }
    }
    // Each may have lost chunks to its thread while it was made; all of them together not half. Calls that are only
    // counted fill no ring.
    let half = count * THREADS as u64 * HALF;
    assert!(
        taken >= half || truth.get(0, WAY) == way::COUNTED,
        "the room of {taken} records in {count} snapshots, {half} would be half"
    );
    truth.set(0, STOP, 1);
    let _ = process.end().ok();
    let traces = folder.ending(".fdr");
    let (last, before) = traces.split_last().expect("a file of the end");
    check::all(&decode_trace(last), &truth, seed, 0);
    for trace in before {
        check::fired(&decode_trace(trace), &truth, seed);
    }
    attempt.count("records in snapshots", records);
    attempt.count("traces of triggers", before.len() as u64);
    attempt.count("records made meanwhile", truth.surely_made());
}
