//! The program `fdr`. All of it is in the library, so that `fdr-fleet` reads traces with the same code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fdr_cli::run()
}
