//! Measures one configuration per process and prints one line; `cargo xtask bench` starts it, once
//! per configuration and round, because the recorder reads its environment once. It may use unsafe
//! code and inline assembly: the floor is what the bare instructions cost, without any library.
//!
//! ```text
//! fdr-bench measure BODY VARIANT THREADS STEPS   -> key=value words, all in ns per call
//! fdr-bench calls BODY VARIANT COUNT STEPS       makes that many calls (for counting instructions)
//! fdr-bench lock LIBRARY COUNT                   locks and unlocks so often: std, fdr, parking_lot, fdr-parking-lot
//! fdr-bench steps                                -> multiplies that take about 50 ns
//! fdr-bench tail VARIANT SECONDS                  -> ns of single calls, in several situations
//! fdr-bench switches SECONDS                      -> context switches a second, and threads begun a second
//! fdr-bench flush THREADS CALLS                   -> a line for each dump of rings filled so
//! fdr-bench scale FLOOR THREADS                   -> key=value words of so many threads at once
//! fdr-bench pair FLOOR RECORDS                    -> ns of two threads at once, whose RECORDS are `kept`;
//!                                                    or `dropped`, with room in the ring for a third only
//! fdr-bench library PATH BODY VARIANT THREADS STEPS  -> as measure, by the code of a library
//! fdr-bench rss COMMAND…                         runs it -> wall and CPU seconds, peak memory on stderr
//! ```
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod floor;
mod flush;
mod loader;
mod lock;
mod measure;
mod rss;
mod scale;
mod switches;
mod tail;
mod work;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use work::{Body, Variant};

const USAGE: &str = "usage: fdr-bench measure BODY VARIANT THREADS STEPS | calls BODY VARIANT COUNT \
STEPS | lock LIBRARY COUNT | steps | tail VARIANT SECONDS | switches SECONDS | flush THREADS CALLS | scale FLOOR THREADS | \
pair FLOOR kept/dropped | library PATH BODY VARIANT THREADS STEPS | rss COMMAND…\nBODY: leaf fib chain; VARIANT: untraced traced untimed \
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
        ["tail", variant, seconds] => {
            let each = Duration::from_secs(seconds.parse()?);
            println!("{}", tail::tail(Variant::parse(variant)?, each)?);
        }
        ["switches", seconds] => {
            println!(
                "{}",
                switches::switches(Duration::from_secs(seconds.parse()?))?
            );
        }
        ["flush", threads, calls] => {
            println!("{}", flush::flush(threads.parse()?, calls.parse()?)?);
        }
        ["library", path, words @ ..] => loader::measure(path, words)?,
        ["scale", floor, threads] => {
            leave(&scale::scale(Variant::parse(floor)?, threads.parse()?)?)?;
        }
        #[cfg(target_arch = "x86_64")]
        ["pair", floor, records @ ("kept" | "dropped")] => {
            let dropped = *records == "dropped";
            leave(&scale::pair::pair(Variant::parse(floor)?, dropped)?)?;
        }
        ["rss", program, rest @ ..] => return rss::run(program, rest),
        _ => return Err(USAGE.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Says it and ends the process at once. What the recorder does at an end, a dump of some 100 MiB, is not
/// measured here; whoever started this removes the ring.
fn leave(words: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{words}")?;
    out.flush()?;
    // SAFETY: it has no precondition; all that was to be said is flushed.
    unsafe { libc::_exit(0) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("fdr-bench: {error}");
        ExitCode::from(2)
    })
}
