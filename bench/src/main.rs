//! Measures one configuration per process and prints one line; `cargo xtask bench` starts it, once
//! per configuration and round, because the recorder reads its environment once. It may use unsafe
//! code and inline assembly: the floor is what the bare instructions cost, without any library.
//!
//! ```text
//! fdr-bench measure BODY VARIANT THREADS STEPS   -> key=value words, all in ns per call
//! fdr-bench calls BODY VARIANT COUNT STEPS       makes that many calls (for counting instructions)
//! fdr-bench steps                                -> multiplies that take about 50 ns
//! fdr-bench tail VARIANT SECONDS                  -> ns of single calls, in several situations
//! fdr-bench flush THREADS CALLS                   -> a line for each dump of rings filled so
//! fdr-bench rss COMMAND…                         runs it -> wall seconds and peak memory on stderr
//! ```

#[cfg(target_arch = "x86_64")]
mod floor;
mod flush;
mod measure;
mod rss;
mod tail;
mod work;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use work::{Body, Variant};

const USAGE: &str = "usage: fdr-bench measure BODY VARIANT THREADS STEPS | calls BODY VARIANT COUNT \
STEPS | steps | tail VARIANT SECONDS | flush THREADS CALLS | rss COMMAND…\nBODY: leaf fib chain; VARIANT: untraced traced untimed floor-rdtscp\
 floor-rdtsc";

fn run(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["measure", body, variant, threads, steps] => {
            let (body, variant) = (Body::parse(body, steps.parse()?)?, Variant::parse(variant)?);
            println!("{}", measure::measure(body, variant, threads.parse()?)?);
        }
        ["calls", body, variant, count, steps] => {
            let (body, variant) = (Body::parse(body, steps.parse()?)?, Variant::parse(variant)?);
            println!(
                "calls={}",
                work::Caller::new(body, variant)?.call(count.parse()?)
            );
        }
        ["steps"] => println!("steps={}", measure::steps_of_50_ns()?),
        ["tail", variant, seconds] => {
            let each = Duration::from_secs(seconds.parse()?);
            println!("{}", tail::tail(Variant::parse(variant)?, each)?);
        }
        ["flush", threads, calls] => {
            println!("{}", flush::flush(threads.parse()?, calls.parse()?)?);
        }
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
