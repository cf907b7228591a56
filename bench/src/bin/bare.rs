//! A program without the recorder that has the library measure: `fdr-bench-bare PATH|- BODY VARIANT
//! THREADS STEPS`.
#![allow(unsafe_code)]

#[path = "../loader.rs"]
mod loader;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [path, words @ ..] => loader::measure(path, words),
        [] => Err("usage: fdr-bench-bare PATH|- BODY VARIANT THREADS STEPS".into()),
    };
    done.map_or_else(
        |error| {
            eprintln!("fdr-bench-bare: {error}");
            ExitCode::from(2)
        },
        |()| ExitCode::SUCCESS,
    )
}
