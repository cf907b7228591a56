//! Drives a case of the torture. It starts programs that count for themselves, does the case's harm to them, and
//! compares the traces with their own counts. The last line of the output is the result.

mod check;
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
mod victim;

use std::process::ExitCode;

use clap::Parser;

use plan::{Plan, Tally};

fn main() -> ExitCode {
    let plan = Plan::parse();
    let tally: Tally = match plan.case.as_str() {
        "kill" => kill::run(&plan),
        "crash" => crash::run(&plan),
        "dumps" => dumps::run(&plan),
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
    let Tally { tries, passed, .. } = tally;
    println!("result {tries} {passed} {seconds:.1}");
    if tries > 0 && tries == passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
