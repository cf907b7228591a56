//! `fdr-fleet`: traces of many programs and hosts as Parquet files, and questions over all of them in SQL.
//!
//! This file parses the command line and turns the end of a command into an exit code.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`schema`] | the tables of version 1 and their columns |
//! | [`keys`] | the keys of processes, traces and functions; days and names of folders |
//! | [`store`] | a folder or a bucket: whole files, and files that are made once |
//! | [`manifest`] | which files count: commits of traces, and a manifest for each day |
//! | [`export`] | from a trace to files |
//! | [`house`] | compaction, expiry, and the removal of files that do not count |
//! | `query` | SQL over the files that count |
#![forbid(unsafe_code)]

mod export;
mod house;
mod keys;
mod manifest;
#[cfg(feature = "query")]
mod query;
mod schema;
mod store;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const AFTER: &str = "\
Exit codes:
  0    done
  1    done, and something was left out: a file that can't be read, or a trace
       that is damaged. A line on stderr names it
  2    wrong usage, or nothing was done

Examples:
  fdr-fleet export *.fdr --to traces/      one or many traces, of any format
  fdr-fleet query traces/ --report top     where the time went, over all hosts
  fdr-fleet query traces/ 'SELECT count(*) FROM spans'
  fdr-fleet query traces/                  a prompt
  fdr-fleet compact traces/                many small files into few large ones
  fdr-fleet expire traces/ --older 30d     old spans go, statistics stay

docs/fleet.md has the tables and their columns.";

/// Traces of many programs and hosts as Parquet files, and questions over all of them in SQL.
#[derive(Parser)]
#[command(name = "fdr-fleet", version, after_help = AFTER, max_term_width = 80)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Export(export::Options),
    #[cfg(feature = "query")]
    Query(query::Options),
    Compact(house::CompactOptions),
    Expire(house::ExpireOptions),
}

/// How a command ended, where it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// As it should.
    Done,
    /// Something was left out, and was named.
    LeftOut,
}

/// A line on stderr.
fn complain(line: &str) {
    let line: String = line
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    eprintln!("fdr-fleet: {line}");
}

/// A number of threads of the command line.
fn jobs_of(text: &str) -> Result<NonZeroUsize, &'static str> {
    fdr_cli::fleet::jobs_of(text)
}

/// A size of the command line.
fn size_of(text: &str) -> Result<u64, &'static str> {
    fdr_cli::fleet::size_of(text)
}

fn main() -> ExitCode {
    let status = match Arguments::parse().command {
        Command::Export(options) => export::run(&options),
        #[cfg(feature = "query")]
        Command::Query(options) => query::run(&options),
        Command::Compact(options) => house::compact(&options),
        Command::Expire(options) => house::expire(&options),
    };
    match status {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::LeftOut) => ExitCode::from(1),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        <super::Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
