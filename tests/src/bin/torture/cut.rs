//! Ring files that another process cuts to any length, while threads record, begin and end, and dumps are written.
//! The program ends with its own status. Either one line says that recording has ended, or the removed part was not
//! in use, and the trace is right.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::random::Random;
use fdr_tests::support::truth::STOP;
use fdr_tests::support::wait::Patience;

use crate::check;
use crate::child::{self, Child};
use crate::decoded_trace::decode_trace;
use crate::plan::{Failure, Folder, Plan, Tally, Try, lock};
use crate::victim::{Part, Setting};

const LANES: u64 = 8;
const LIMIT: Duration = Duration::from_secs(60);

const ENDED: &str = "recording has ended: ";

/// What a dump says of records in a part that was cut, and made longer again by the recorder before it looked.
const ZEROS: &str = "somebody cut the ring's file short: ";

pub(crate) fn run(plan: &Plan) -> Tally {
    plan.each(2, 1, |attempt, tally| {
        let mut random = attempt.random();
        let in_memory = random.below(2) == 0;
        attempt.within(in_memory, |folder| {
            process(attempt, &mut random, folder, tally)
        })
    })
}

fn process(
    attempt: &Try<'_>,
    random: &mut Random,
    folder: &Folder,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let seed = attempt.seed >> 1;
    let calls = [0, 40, 3_000][random.below(3) as usize];
    let clock = ["rdtscp", "rdtsc", "monotonic"][random.below(3) as usize];
    let crash = random.below(2);
    let setting = Setting::any(attempt, random).with_trigger();
    let variables = format!("FDR_CLOCK={clock} FDR_CRASH={crash} FDR_OUT=%n.fdr");
    let part = Part("storm", [seed, LANES, calls]);
    let (mut child, truth) = part.start(attempt.plan, folder, 4, setting, &variables)?;
    for _ in 0..=random.below(2) {
        let enough = truth.surely_made() + 1 + random.below(200_000);
        if !goes_on(&mut child, || {
            truth.surely_made() >= enough || has_ended(folder)
        })? {
            break;
        }
        if random.below(2) == 0 {
            send_dump_signal(child.id());
        }
        cut(folder, random)?;
    }
    let enough = truth.surely_made() + 20_000;
    goes_on(&mut child, || truth.surely_made() >= enough)?;
    truth.set(0, STOP, 1);
    child.succeed(folder.path(), LIMIT)?;
    let message = child::stderr_of(folder.path());
    let times = message.matches(ENDED).count();
    if times > 1 || message.lines().any(|line| !line.starts_with("fdr: ")) {
        return Err(Failure::Wrong(message));
    }
    if let Some(hidden) = folder.files().iter().find(|file| is_hidden(file)) {
        return Err(Failure::Wrong(format!("{}", hidden.display())));
    }
    let has_zeros = message.contains(ZEROS);
    if times == 0 {
        let traces = folder.ending(".fdr");
        let last = traces
            .last()
            .ok_or_else(|| format!("no trace: {message}"))?;
        let trace = decode_trace(last)?;
        if !has_zeros {
            check::all(&trace, &truth, seed, 0)?;
        }
    }
    let event = match (times, has_zeros) {
        (0, false) => "not noticed, and not in use",
        (0, true) => "noticed by the dump",
        _ => "noticed",
    };
    lock(tally).count(event, 1);
    Ok(())
}

/// Waits until something is so; false where the program has ended before, which has no number left for a thread more.
fn goes_on(child: &mut Child, mut is_so: impl FnMut() -> bool) -> Result<bool, String> {
    let mut patience = Patience::new(LIMIT);
    while !is_so() {
        if child.ended()?.is_some() {
            return Ok(false);
        }
        if patience.is_over() {
            return Err("hangs: no more records".into());
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(true)
}

/// Whether the recorder has printed that recording has ended.
fn has_ended(folder: &Folder) -> bool {
    child::stderr_of(folder.path()).contains(ENDED)
}

pub(crate) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with('.')
}

/// Cuts the ring to nothing, to a part of its head, or to any length.
fn cut(folder: &Folder, random: &mut Random) -> Result<(), String> {
    let rings = folder.ending(".fdr-ring");
    // None where the program has just ended.
    let [ring] = rings.as_slice() else {
        return Ok(());
    };
    let wrong = |error| format!("{}: {error}", ring.display());
    let file = OpenOptions::new().write(true).open(ring).map_err(wrong)?;
    let length = file.metadata().map_err(wrong)?.len();
    let shorter = match random.below(3) {
        0 => 0,
        1 => random.below(64 << 10).min(length),
        _ => random.below(length.max(1)),
    };
    file.set_len(shorter).map_err(wrong)
}

fn send_dump_signal(process: u32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(process.cast_signed(), libc::SIGUSR2) };
}
