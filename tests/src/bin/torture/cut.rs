//! Ring files that another process cuts to any length, while threads record, begin and end, and dumps are written.
//! The program ends with its own status. Either one line says that recording has ended, or the removed part was not
//! in use, and the trace is right.

use std::fs::OpenOptions;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Running;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::STOP;

use crate::check;
use crate::decoded_trace::decode_trace;
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting};

const LANES: u64 = 8;

const ENDED: &str = "recording has ended: ";

/// What a dump says of records in a part that was cut, and made longer again by the recorder before it looked.
const ZEROS: &str = "somebody cut the ring's file short: ";

pub(crate) fn run(plan: &Plan) -> Tally {
    plan.each(2, 1, process)
}

fn process(attempt: &Try<'_>) {
    let mut random = attempt.random();
    let folder = attempt.folder(random.below(2) == 0);
    let seed = attempt.seed >> 1;
    let calls = [0, 40, 3_000][random.below(3) as usize];
    let clock = ["rdtscp", "rdtsc", "monotonic"][random.below(3) as usize];
    let crash = random.below(2);
    let setting = Setting::any(attempt, &mut random).with_trigger();
    let variables = format!("FDR_CLOCK={clock} FDR_CRASH={crash} FDR_OUT=%n.fdr");
    let part = Part("storm", [seed, LANES, calls]);
    let (mut process, truth) = part.start(attempt, &folder, 4, setting, &variables);
    // A program that has no number left for a thread more ends before.
    for _ in 0..=random.below(2) {
        let enough = truth.surely_made() + 1 + random.below(200_000);
        let is_over = |process: &Running| process.said_already(ENDED).is_some();
        if !process.goes_on_until(|process| truth.surely_made() >= enough || is_over(process)) {
            break;
        }
        if random.below(2) == 0 {
            send_dump_signal(process.id());
        }
        cut(&folder, &mut random);
    }
    let enough = truth.surely_made() + 20_000;
    let _ = process.goes_on_until(|_| truth.surely_made() >= enough);
    truth.set(0, STOP, 1);
    let message = process.end().ok().stderr;
    let times = message.matches(ENDED).count();
    let are_ours = message.lines().all(|line| line.starts_with("fdr: "));
    assert!(times <= 1 && are_ours, "{message}");
    let names = folder.names();
    assert!(!names.iter().any(|name| is_hidden(name)), "{names:?}");
    let has_zeros = message.contains(ZEROS);
    if times == 0 {
        let traces = folder.ending(".fdr");
        let last = traces
            .last()
            .unwrap_or_else(|| panic!("no trace: {message}"));
        let trace = decode_trace(last);
        if !has_zeros {
            check::all(&trace, &truth, seed, 0);
        }
    }
    let event = match (times, has_zeros) {
        (0, false) => "not noticed, and not in use",
        (0, true) => "noticed by the dump",
        _ => "noticed",
    };
    attempt.count(event, 1);
}

pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// Cuts the ring to nothing, to a part of its head, or to any length.
fn cut(folder: &Folder, random: &mut Random) {
    let rings = folder.ending(".fdr-ring");
    // None where the program has just ended.
    let [ring] = rings.as_slice() else {
        return;
    };
    let file = OpenOptions::new().write(true).open(ring);
    let file = file.expect("the ring");
    let length = file.metadata().expect("the ring").len();
    let shorter = match random.below(3) {
        0 => 0,
        1 => random.below(64 << 10).min(length),
        _ => random.below(length.max(1)),
    };
    file.set_len(shorter).expect("a shorter ring");
}

fn send_dump_signal(process: u32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(process.cast_signed(), libc::SIGUSR2) };
}
