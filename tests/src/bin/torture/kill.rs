//! SIGKILL at random moments: before the ring exists, at the first records, when a new chunk begins, after many rounds
//! of the ring, and while short threads get each other's slots. Whatever was committed is in the file, and nothing
//! else.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fdr_formats::Diagnostic;
use fdr_tests::programs::region;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{Truth, WAY, way};

use crate::check;
use crate::cut;
use crate::decoded_trace::{Lane, decode_trace, decode_trace_except};
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting, TOTALS_KIB};

const LANES: u64 = 8;
/// Slots that are being given to a thread.
const TAKEN: u32 = 2;

/// When it is killed.
enum Moment {
    /// After this time since its start.
    After(Duration),
    /// When it has made this many records.
    Records(u64),
    /// When this many threads have begun.
    Threads(u64),
}

pub(crate) fn run(plan: &Plan) -> Tally {
    plan.each(2, 1, kill_process)
}

/// Calls of each thread at most (0 = no end), and the moment.
fn moment(random: &mut Random) -> (u64, Moment) {
    let calls = |random: &mut Random| [0, 0, 40, 3_000, 10_000][random.below(5) as usize];
    match random.below(5) {
        0 => {
            let us = random.below(6_000);
            (calls(random), Moment::After(Duration::from_micros(us)))
        }
        1 => (calls(random), Moment::Records(1 + random.below(200))),
        2 => (calls(random), Moment::Records(1 + random.below(60_000))),
        3 => {
            let most = [40, 400, 3_000][random.below(3) as usize];
            (most, Moment::Threads(1 + random.below(120)))
        }
        _ => (0, Moment::Records(1 + random.below(600_000))),
    }
}

/// The recorder's variables, and the chunks of a thread's ring.
fn variables(random: &mut Random) -> (String, u64) {
    let chunks = [2, 3, 4][random.below(3) as usize];
    let clock = ["rdtscp", "rdtsc", "monotonic"][random.below(3) as usize];
    // Room for twice as many threads as live at a time, and for their totals.
    let memory = 2 * LANES * (256 + TOTALS_KIB);
    let variables = format!("FDR_MEMORY={memory}K FDR_CLOCK={clock}");
    (variables, chunks)
}

fn kill_process(attempt: &Try<'_>) {
    let mut random = attempt.random();
    let folder = attempt.folder(random.below(2) == 0);
    let (calls, moment) = moment(&mut random);
    let (variables, chunks) = variables(&mut random);
    let setting = Setting::any(attempt, &mut random).with_trigger();
    // Nothing counts the calls of threads that are gone.
    let setting = match calls {
        0 => setting.with_counted(&mut random),
        _ => setting,
    };
    let pause = Duration::from_nanos(random.below(100_000));
    let seed = attempt.seed >> 1;
    let part = Part("storm", [seed, LANES, calls]);
    let (mut process, truth) = part.start(attempt, &folder, chunks, setting, &variables);
    let begun = Instant::now();
    let goes_on = process.goes_on_until(|_| match moment {
        Moment::After(time) => begun.elapsed() >= time,
        Moment::Records(count) => truth.surely_made() >= count,
        Moment::Threads(count) => truth.threads().count() as u64 >= count,
    });
    std::thread::sleep(pause);
    let outcome = process.kill();
    assert!(goes_on && outcome.status.signal() == Some(9), "{outcome:?}");
    attempt.count(left(attempt, &folder, &truth, seed), 1);
}

/// Checks what the process left, and returns a short description of it.
fn left(attempt: &Try<'_>, folder: &Folder, truth: &Truth, seed: u64) -> &'static str {
    let made = truth.surely_made();
    let (rings, traces) = (folder.ending(".fdr-ring"), folder.ending(".fdr"));
    if rings.is_empty() {
        assert_eq!(made, 0, "there is no ring");
        return "before there was a ring";
    }
    // A trace that was not finished has a hidden name.
    let names = folder.names();
    let hidden = names.iter().filter(|name| cut::is_hidden(name)).count();
    let others = traces.len() + hidden;
    // Beside them, the page and the ring.
    assert!(
        rings.len() == 1 && others <= 1 && names.len() <= 2 + others,
        "{names:?}"
    );
    for trace in &traces {
        check::fired(&decode_trace(trace), truth, seed);
        attempt.count("traces of triggers", 1);
    }
    let Some(slots) = region::slots(&rings[0]) else {
        assert_eq!(made, 0, "the ring is not finished");
        return "while the ring was made";
    };
    let taken = slots.iter().filter(|slot| slot.state == TAKEN).count();
    // A place that was being given away has records of a thread and no owner: the reader says so.
    let is_true = |diagnostic: &Diagnostic| {
        let text = &diagnostic.what;
        taken > 0 && text.contains("its state says that it is nobody's")
    };
    let trace = decode_trace_except(&rings[0], is_true);
    check::all(&trace, truth, seed, taken);
    let is_counted = truth.get(0, WAY) == way::COUNTED;
    let count = |event, is: &dyn Fn(&Lane) -> bool| {
        let count = trace.lanes.iter().filter(|lane| is(lane)).count();
        attempt.count(event, count as u64);
    };
    count("threads with summaries", &|lane| lane.counts.summarised > 0);
    count("threads with calls only counted", &|lane| {
        is_counted && lane.untimed > 0
    });
    match (made, trace.info.missing.threads, taken) {
        (0, ..) => "before the first record",
        (_, 0, 0) => "while recording",
        (_, _, 0) => "while threads took each other's places",
        (_, _, _) => "while a place changed hands",
    }
}
