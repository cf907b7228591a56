//! SIGKILL at random moments: before the ring exists, at the first records, when a new chunk begins, after many rounds
//! of the ring, and while short threads get each other's slots. Whatever was committed is in the file, and nothing
//! else.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fdr_formats::Diagnostic;
use fdr_formats::ring::layout::{self, Slot};
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{Truth, WAY, way};

use crate::check;
use crate::child;
use crate::cut;
use crate::decoded_trace::{Lane, decode_trace, decode_trace_except};
use crate::plan::{Failure, Folder, Plan, Tally, Try, lock};
use crate::victim::{Part, Setting, TOTALS_KIB};

const LANES: u64 = 8;
/// No moment is so far away.
const LIMIT: Duration = Duration::from_secs(30);
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

fn kill_process(attempt: &Try<'_>, tally: &Mutex<Tally>) -> Result<(), Failure> {
    let mut random = attempt.random();
    let in_memory = random.below(2) == 0;
    let (calls, moment) = moment(&mut random);
    let (variables, chunks) = variables(&mut random);
    let setting = Setting::any(attempt, &mut random).with_trigger();
    // Nothing counts the calls of threads that are gone.
    let setting = match calls {
        0 => setting.with_counted(&mut random),
        _ => setting,
    };
    let pause = Duration::from_nanos(random.below(100_000));
    attempt.within(in_memory, |folder| {
        let seed = attempt.seed >> 1;
        let part = Part("storm", [seed, LANES, calls]);
        let (mut child, truth) = part.start(attempt.plan, folder, chunks, setting, &variables)?;
        match moment {
            Moment::After(time) => {
                let begun = Instant::now();
                child.until("the moment", LIMIT, || begun.elapsed() >= time)?;
            }
            Moment::Records(count) => {
                child.until("enough records", LIMIT, || truth.surely_made() >= count)?;
            }
            Moment::Threads(count) => {
                let begun = || truth.threads().count() as u64 >= count;
                child.until("enough threads", LIMIT, begun)?;
            }
        }
        std::thread::sleep(pause);
        let status = child.kill()?;
        if child::signal(status) != 9 {
            return Err(Failure::Wrong(format!("{status} before it was killed")));
        }
        let event = left(folder, &truth, seed, tally)?;
        lock(tally).count(event, 1);
        Ok(())
    })
}

/// Checks what the process left, and returns a short description of it.
fn left(
    folder: &Folder,
    truth: &Truth,
    seed: u64,
    tally: &Mutex<Tally>,
) -> Result<&'static str, Failure> {
    let made = truth.surely_made();
    let rings = folder.ending(".fdr-ring");
    let [ring] = rings.as_slice() else {
        return match rings.len() {
            0 if made == 0 => Ok("before there was a ring"),
            0 => Err(Failure::Lost(made, "there is no ring".into())),
            _ => Err(Failure::Wrong(format!("{rings:?}"))),
        };
    };
    let traces = folder.ending(".fdr");
    // A trace that was not finished has a hidden name.
    let hidden = folder
        .files()
        .iter()
        .filter(|file| cut::is_hidden(file))
        .count();
    if folder.files().len() > 4 + traces.len() + hidden || traces.len() + hidden > 1 {
        return Err(Failure::Wrong(format!("{:?}", folder.files())));
    }
    for trace in &traces {
        let trace = decode_trace(trace)?;
        if !check::is_fired(&trace) {
            return Err(Failure::Wrong(trace.info.reason));
        }
        check::fired(&trace, truth, seed)?;
        lock(tally).count("traces of triggers", 1);
    }
    if !is_finished(ring) {
        return match made {
            0 => Ok("while the ring was made"),
            _ => Err(Failure::Lost(made, "the ring is not finished".into())),
        };
    }
    let taken = slots_in(ring, TAKEN)?;
    // A place that was being given away has records of a thread and no owner: the reader says so.
    let is_true = |diagnostic: &Diagnostic| {
        taken > 0
            && diagnostic
                .what
                .contains("its state says that it is nobody's")
    };
    let trace = decode_trace_except(ring, &is_true)?;
    check::all(&trace, truth, seed, taken)?;
    let is_counted = truth.get(0, WAY) == way::COUNTED;
    let count = |event, is: &dyn Fn(&Lane) -> bool| {
        let count = trace.lanes.iter().filter(|lane| is(lane)).count();
        lock(tally).count(event, count as u64);
    };
    count("threads with summaries", &|lane| lane.counts.summarised > 0);
    count("threads with calls only counted", &|lane| {
        is_counted && lane.untimed > 0
    });
    Ok(match (made, trace.info.missing.threads, taken) {
        (0, ..) => "before the first record",
        (_, 0, 0) => "while recording",
        (_, _, 0) => "while threads took each other's places",
        (_, _, _) => "while a place changed hands",
    })
}

/// Whether the file's head was written.
fn is_finished(ring: &Path) -> bool {
    let mut magic = [0; layout::MAGIC.len()];
    let file = fs::File::open(ring);
    file.is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == layout::MAGIC
}

/// How many slots are in that state.
fn slots_in(ring: &Path, state: u32) -> Result<usize, Failure> {
    let slots = slots(ring)?;
    Ok(slots.iter().filter(|slot| slot.state == state).count())
}

/// Each slot of a ring.
pub(crate) fn slots(ring: &Path) -> Result<Vec<Slot>, Failure> {
    let wrong = || Failure::Wrong(format!("{}: no head", ring.display()));
    let file = fs::File::open(ring).map_err(|_| wrong())?;
    let mut head = [0; layout::HEADER_SIZE];
    file.read_exact_at(&mut head, 0).map_err(|_| wrong())?;
    let header = layout::Header::decode(&head).ok_or_else(wrong)?;
    let slot = |index| {
        let mut slot = [0; layout::SLOT_SIZE];
        let at = header.slots + index * header.slot_stride;
        file.read_exact_at(&mut slot, at).ok()?;
        Slot::decode(&slot)
    };
    (0..u64::from(header.made))
        .map(|index| slot(index).ok_or_else(wrong))
        .collect()
}
