//! Measures one configuration per process and prints one line; `cargo xtask bench` starts it, once
//! per configuration and round, because the recorder reads its environment once. It may use unsafe
//! code and inline assembly: the floor is what the bare instructions cost, without any library.
//!
//! ```text
//! fdr-bench measure BODY VARIANT THREADS STEPS   -> key=value words, all in ns per call
//! fdr-bench calls BODY VARIANT COUNT STEPS       makes that many calls (for counting instructions)
//! fdr-bench lock LIBRARY COUNT                   locks and unlocks so often: std, fdr, parking_lot, fdr-parking-lot
//! fdr-bench steps                                -> multiplies that take about 50 ns
//! fdr-bench rss COMMAND…                         runs it -> wall and CPU seconds, peak memory on stderr
//! ```
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod floor;
mod lock;
mod measure;
mod rss;
mod work;

use std::error::Error;
use std::process::ExitCode;

use work::{Body, Variant};

const USAGE: &str = "usage: fdr-bench measure BODY VARIANT THREADS STEPS | calls BODY VARIANT COUNT \
STEPS | lock LIBRARY COUNT | steps | rss COMMAND…\nBODY: leaf fib chain; VARIANT: untraced traced untimed \
floor-rdtscp floor-rdtsc";

fn run(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["measure", body, variant, threads, steps] => {
            let (body, variant) = (Body::parse(body, steps.parse()?)?, Variant::parse(variant)?);
            println!("{}", measure::measure(body, variant, threads.parse()?)?);
        }
        ["calls", body, variant, count, steps] => {
            let (body, variant) = (Body::parse(body, steps.parse()?)?, Variant::parse(variant)?);
            // Each move to another core makes a record that takes some hundred instructions.
            let cores = core_affinity::get_core_ids().unwrap_or_default();
            if let Some(&core) = cores.last() {
                core_affinity::set_for_current(core);
            }
            println!(
                "calls={}",
                work::Caller::new(body, variant)?.call(count.parse()?)
            );
        }
        ["lock", library, count] => println!("locks={}", lock::lock(library, count.parse()?)?),
        ["steps"] => println!("steps={}", measure::steps_of_50_ns()?),
        ["rss", program, rest @ ..] => return rss::run(program, rest),
        _ => return Err(USAGE.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("fdr-bench: {error}");
        ExitCode::from(2)
    })
}
