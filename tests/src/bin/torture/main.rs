//! Drives a case of the torture. It starts programs that count for themselves, does the case's harm to them, and
//! compares the traces with their own counts. `torture CASE --seed S --tries N --seconds T --first I --folder DIR
//! --programs DIR`; the last line of the output is the result. Must never call right what it did not compare.

mod check;
mod child;
mod crash;
mod cut;
mod decoded_trace;
mod descriptors;
mod dumps;
mod faults;
mod forks;
mod kill;
mod notes;
mod plan;
mod snapshots;
mod timer;
mod victim;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fdr_tests::support::facts::number;
use plan::{Plan, Tally};

fn plan(words: &[String]) -> Plan {
    let value = |name: &str| {
        let place = words.iter().position(|word| word == name);
        let value = place.and_then(|place| words.get(place + 1));
        value.unwrap_or_else(|| panic!("{name} is missing"))
    };
    let seconds: u64 = number(value("--seconds"));
    let begun = Instant::now();
    Plan {
        case: words[0].clone(),
        seed: number(value("--seed")),
        tries: number(value("--tries")),
        first: number(value("--first")),
        begun,
        until: (seconds > 0).then(|| begun + Duration::from_secs(seconds)),
        disk: PathBuf::from(value("--folder")),
        programs: PathBuf::from(value("--programs")),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let plan = plan(&words);
    let tally: Tally = match plan.case.as_str() {
        "kill" => kill::run(&plan),
        "crash" => crash::run(&plan),
        "dumps" => dumps::run(&plan),
        "timer" => timer::run(&plan),
        "forks" => forks::run(&plan),
        "snapshots" => snapshots::run(&plan),
        "faults" => faults::run(&plan),
        "cut" => cut::run(&plan),
        "descriptors" => descriptors::run(&plan),
        other => panic!("no such case: {other:?}"),
    };
    let seconds = plan.begun.elapsed().as_secs_f64();
    for note in tally.notes() {
        println!("note {note}");
    }
    let Tally {
        tries,
        survived,
        lost,
        wrong,
        ..
    } = tally;
    println!("result {tries} {survived} {lost} {wrong} {seconds:.1}");
    if tries > 0 && lost == 0 && wrong == 0 && tally.is_enough() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
