//! What the driver counts and measures in a process of its own, because the recorder reads its environment once.
//!
//! ```text
//! fdr-bench calls TWIN COUNT       makes that many calls (for counting instructions): untraced, traced, untimed
//! fdr-bench lock LIBRARY COUNT     locks and unlocks so often: std, fdr, parking_lot, fdr-parking-lot
//! fdr-bench rss COMMAND…           runs it -> wall and CPU seconds, peak memory on stderr
//! ```
#![allow(unsafe_code)]

mod lock;
mod rss;
mod work;

use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "usage: fdr-bench calls TWIN COUNT | lock LIBRARY COUNT | rss COMMAND…";

fn run(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["calls", twin, count] => {
            // Each move to another core makes a record that takes some hundred instructions.
            let cores = core_affinity::get_core_ids().unwrap_or_default();
            if let Some(&core) = cores.last() {
                core_affinity::set_for_current(core);
            }
            work::call(twin, count.parse()?)?;
        }
        ["lock", library, count] => println!("locks={}", lock::lock(library, count.parse()?)?),
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
