//! `cargo xtask bench` and `cargo xtask guard`: starts the measured programs, and makes tables of their figures. Every
//! configuration is a process of its own.
#![forbid(unsafe_code)]

mod calls;
mod compile;
mod figures;
mod guard;
mod lean;
mod peers;
mod program;
mod read;
mod table;
mod whole;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::process::drop_variables;

/// What a part of a bench hands back: an error for people.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a traced call costs, beside two bare clock reads
#[derive(Parser)]
#[command(
    name = "cargo xtask bench",
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(flatten)]
    calls: calls::Options,
    #[command(subcommand)]
    bench: Option<Bench>,
}

#[derive(Subcommand)]
enum Bench {
    Compile(compile::Options),
    /// Cold builds, programs and crates, beside tracing and fastrace; some minutes
    Lean,
    Read(read::Options),
    Peers(peers::Options),
    Whole(whole::Options),
    #[command(hide = true)]
    Guard(guard::Options),
}

fn run(arguments: &Arguments) -> Result<()> {
    drop_variables()?;
    match &arguments.bench {
        None => calls::run(&arguments.calls),
        Some(Bench::Compile(options)) => compile::run(options),
        Some(Bench::Lean) => lean::run(),
        Some(Bench::Read(options)) => read::run(options),
        Some(Bench::Peers(options)) => peers::run(options),
        Some(Bench::Whole(options)) => whole::run(options),
        Some(Bench::Guard(options)) => guard::run(options),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            match error.downcast_ref() {
                Some(guard::NotJudged(_)) => ExitCode::from(xtask::NOT_JUDGED),
                None => ExitCode::FAILURE,
            }
        }
    }
}
