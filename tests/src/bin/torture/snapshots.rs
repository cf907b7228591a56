//! Snapshots of a living process that records as fast as it can. Each is whole and right, and holds all records that
//! were made before it began.

use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::truth::{MADE, STOP, Truth, WAY, way};

use crate::check::{self, Moment};
use crate::child::Child;
use crate::decoded_trace::decode_trace;
use crate::plan::{Failure, Folder, Plan, Tally, Try, Verdict, lock};
use crate::victim::{Part, Setting};

const THREADS: usize = 8;
/// Snapshots of a process.
const ROUND: u64 = 250;
const LIMIT: Duration = Duration::from_secs(30);
/// Records of half a ring: two chunks of four.
const HALF: u64 = 2 * 8_184;
/// Function records that have the room of the summary of short calls.
const SUMMARY: u64 = 2;
/// Records after which every ring has been overwritten.
const FULL: u64 = 100_000;

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(1, ROUND);
    plan.each(1, round, |attempt, tally| {
        attempt.within(true, |folder| process(attempt, round, folder, tally))
    })
}

/// Starts a program with `threads` threads that call without end, and waits until each thread has filled its ring.
fn start(
    plan: &Plan,
    folder: &Folder,
    seed: u64,
    threads: usize,
    setting: Setting,
) -> Result<(Child, Truth), String> {
    let part = Part("storm", [seed, threads as u64, 0]);
    let (mut child, truth) = part.start(plan, folder, 4, setting, "FDR_OUT=%n.fdr")?;
    child.until("full rings", LIMIT, || {
        (1..=threads).all(|thread| truth.get(thread, MADE) >= FULL)
    })?;
    Ok((child, truth))
}

fn process(attempt: &Try<'_>, count: u64, folder: &Folder, tally: &Mutex<Tally>) -> Verdict {
    let seed = attempt.seed >> 1;
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_trigger();
    let setting = setting.with_counted(&mut random);
    setting.count(tally);
    let (mut child, truth) = start(attempt.plan, folder, seed, THREADS, setting)?;
    let rings = folder.ending(".fdr-ring");
    let [ring] = rings.as_slice() else {
        return Err(Failure::Wrong(format!("rings: {rings:?}")));
    };
    // What the records of a snapshot take in rings, in function records.
    let (mut records, mut taken) = (0, 0);
    for _ in 0..count {
        let before: Vec<u64> = (0..=THREADS)
            .map(|thread| truth.get(thread, MADE))
            .collect();
        let trace = decode_trace(ring)?;
        for (thread, &before) in before.iter().enumerate().skip(1) {
            let lane = check::lane(&trace, thread)?;
            let lane = lane.ok_or_else(|| Failure::Lost(before, format!("no n{thread}")))?;
            records += lane.counts.readable;
            let summaries = SUMMARY * lane.short.len() as u64;
            taken += lane.counts.readable + summaries + lane.notes.room;
            let course = check::course(&truth, seed, thread);
            let moment = Moment::Since(before);
            check::thread(lane, course, &truth, thread, moment)?;
        }
    }
    // Each may have lost chunks to its thread while it was made; all of them together not half. Calls that are only
    // counted fill no ring.
    let least = count * THREADS as u64 * HALF;
    if taken < least && truth.get(0, WAY) != way::COUNTED {
        let why =
            format!("the room of {taken} records in {count} snapshots, {least} would be half");
        return Err(Failure::Lost(least - taken, why));
    }
    truth.set(0, STOP, 1);
    child.succeed(folder.path(), LIMIT)?;
    let traces = folder.ending(".fdr");
    let (last, before) = traces
        .split_last()
        .ok_or_else(|| "no file of the end".to_owned())?;
    check::all(&decode_trace(last)?, &truth, seed, 0)?;
    for trace in before {
        let trace = decode_trace(trace)?;
        if !check::is_fired(&trace) {
            return Err(Failure::Wrong(trace.info.reason));
        }
        check::fired(&trace, &truth, seed)?;
    }
    let mut tally = lock(tally);
    tally.count("records in snapshots", records);
    tally.count("traces of triggers", before.len() as u64);
    tally.count("records made meanwhile", truth.surely_made());
    Ok(())
}
