//! Traced functions in a handler that interrupts eight threads ten thousand times a second, wherever they
//! are. The handler's records may be dropped where it interrupts the recorder, each time all four of them
//! and counted; a thread's own never.

use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::truth::{HANDLED, MADE, Truth, WRONG};

use crate::check;
use crate::decoded_trace::{DecodedTrace, INNER, Lane, OUTER, decode_trace};
use crate::notes::{self, NoteComparison};
use crate::plan::{Failure, Folder, Plan, Tally, Try, Verdict, lock};
use crate::victim::{Part, Setting};

const THREADS: u64 = 8;
/// Signals of a process where the time is limited: ten seconds' worth, if the machine keeps up.
const ROUND: u64 = 800_000;
/// How long no signal may be handled. How long all of them take is for the machine: a thread that seldom runs handles few.
const LIMIT: Duration = Duration::from_secs(60);
/// Chunks of a thread's ring.
const CHUNKS: u64 = 4;
/// Records that a handler makes.
const EACH: u64 = 4;

pub(crate) fn run(plan: &Plan) -> Tally {
    let most = if plan.until.is_some() {
        ROUND
    } else {
        u64::MAX
    };
    let round = plan.tries.clamp(THREADS, most);
    plan.each(1, round, |attempt, tally| {
        attempt.within(true, |folder| process(attempt, round, folder, tally))
    })
}

fn process(attempt: &Try<'_>, signals: u64, folder: &Folder, tally: &Mutex<Tally>) -> Verdict {
    let seed = attempt.seed >> 1;
    let part = Part("timer", [seed, THREADS, signals / THREADS]);
    let variables = "FDR_OUT=%n.fdr";
    let setting = Setting::exact(attempt);
    let (mut child, truth) = part.start(attempt.plan, folder, CHUNKS, setting, variables)?;
    let handled = || {
        truth
            .threads()
            .map(|thread| truth.get(thread, HANDLED))
            .sum()
    };
    child.goes_on(folder.path(), LIMIT, handled)?;
    let mut last: Option<(u64, DecodedTrace)> = None;
    for path in folder.ending(".fdr") {
        let trace = decode_trace(&path)?;
        trace.lanes.iter().try_for_each(groups)?;
        let number = trace.info.dump.unwrap_or(0);
        if last.as_ref().is_none_or(|(known, _)| *known < number) {
            last = Some((number, trace));
        }
    }
    let (_, last) = last.ok_or_else(|| "there is no file".to_owned())?;
    exact(&last, &truth, seed)?;
    if truth.get(0, WRONG) > 0 {
        return Err(Failure::Wrong("a dump in between failed".into()));
    }
    let dropped = last.lanes.iter().map(|lane| lane.counts.dropped);
    let mut tally = lock(tally);
    tally.count("signals handled", handled());
    tally.count("records of handlers that were dropped", dropped.sum());
    tally.count("records made", truth.surely_made());
    Ok(())
}

/// A handler's four records are together, but for the first handler's.
fn groups(lane: &Lane) -> Result<(), Failure> {
    const GROUP: [u8; 4] = [OUTER, INNER, INNER + 1, OUTER + 1];
    let mut at = None;
    for (place, edge) in lane.edges.iter().enumerate() {
        let of_handler = GROUP.iter().position(|known| known == edge);
        let expected = match at {
            // The window may begin within a group.
            None if place == 0 => of_handler,
            None | Some(4) => of_handler.map(|_| 0),
            within => within,
        };
        if of_handler != expected {
            let name = &lane.name;
            return Err(Failure::Wrong(format!(
                "{name}: record {place} is {edge}, of a handler {of_handler:?}, not {expected:?}"
            )));
        }
        at = of_handler.map(|at| at + 1);
    }
    Ok(())
}

/// The last file, when all threads have ended.
fn exact(trace: &DecodedTrace, truth: &Truth, seed: u64) -> Result<(), Failure> {
    let mut without_place = 0;
    for thread in truth.threads() {
        let lane = check::lane(trace, thread)?;
        let lane = lane.ok_or_else(|| format!("n{thread} is missing"))?;
        check::keeps(lane, CHUNKS)?;
        let Lane { name, counts, .. } = lane;
        let (own, handled) = (truth.get(thread, MADE), truth.get(thread, HANDLED));
        let wanted = own + EACH * handled;
        if counts.recorded > wanted || !counts.dropped.is_multiple_of(EACH) {
            let why = format!("{name}: {wanted} records, {handled} signals; {counts:?}");
            return Err(Failure::Wrong(why));
        }
        // A handler that interrupts the thread's first record has no place for its own.
        without_place += wanted - counts.recorded;
        let mine = lane.without_handlers();
        let course = check::course(truth, seed, thread);
        let records = mine.edges.len() as u64;
        if course.window(own - records, records) != mine.edges {
            let why = format!("{name}: its own records are not the last ones of its course");
            return Err(Failure::Wrong(why));
        }
        let wanted = NoteComparison {
            course,
            made: own,
            sure: own,
            is_exact: true,
        };
        notes::check(&mine, &wanted)?;
    }
    let missing = trace.info.missing;
    if missing.dropped != without_place || missing.threads > 0 {
        let why = format!("{without_place} records are nowhere; {missing:?}");
        return Err(Failure::Wrong(why));
    }
    Ok(())
}
