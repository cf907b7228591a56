//! `cargo fdr`: puts the attribute on the functions of a whole package or workspace, in its sources or in a copy that
//! it builds. This file parses the command line and turns the end into an exit code.
#![forbid(unsafe_code)]

mod build;
#[path = "../completions.rs"]
mod completions;
mod copy;
mod dependencies;
mod facts;
mod files;
mod generate;
mod instrument;
mod manifest;
mod marks;
mod plan;
mod workspace;
#[path = "../wrap.rs"]
mod wrap;
mod write;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use fdr_formats::filter::Filter;
use fdr_marks::worth::Rules;

use crate::marks::Choice;

const HELP: &str = "\
Cargo's own commands work on a copy of the workspace below target/fdr/src, with
the attribute on every function that is worth it. The sources stay as they are.
Options of cargo fdr stand before the command, cargo's behind it.

Examples:
  cargo fdr run --release -- --fast     builds and runs, with FDR=1 unless FDR
                                        is set
  cargo fdr test                        also: bench, build, check, clippy, doc,
                                        rustc
  cargo fdr --filter 'my_app::*' build  marks some functions only
  cargo fdr --with hyper,serde_json run marks dependencies, too
  cargo fdr instrument                  marks the sources themselves
  cargo fdr instrument --remove         takes the marks out, byte for byte";

/// The flight data recorder on whole packages
#[derive(Parser)]
#[command(
    name = "cargo fdr",
    bin_name = "cargo fdr",
    version,
    max_term_width = 100,
    after_help = HELP
)]
struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Functions of these dependencies, too, such as hyper,serde_json
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    with: Vec<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Instrument(instrument::Options),
    #[command(hide = true)]
    Generate(generate::Options),
    /// A command of cargo, with its arguments
    #[command(external_subcommand)]
    Cargo(Vec<OsString>),
}

/// Which functions are marked, and where the recorder is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which functions")]
pub(crate) struct Selection {
    /// Only functions whose names match, such as my_app::*,-my_app::hot::*
    #[arg(long, global = true, value_name = "GLOBS")]
    filter: Option<String>,
    /// Functions of at least N statements, instead of what is worth it
    #[arg(long, global = true, value_name = "N")]
    min_statements: Option<usize>,
    /// Leave out each function with #[inline]
    #[arg(long, global = true)]
    skip_inline: bool,
    /// Every function that can be traced
    #[arg(long, global = true, conflicts_with_all = ["min_statements", "skip_inline"])]
    all: bool,
    /// The recorder: its folder `runtime`, or a version [default: where this tool was built]
    #[arg(long, global = true, value_name = "PATH|VERSION")]
    pub(crate) fdr: Option<String>,
}

impl Selection {
    /// # Errors
    /// Where the filter is no filter.
    pub(crate) fn choice(&self) -> anyhow::Result<Choice> {
        let filter = self.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| anyhow::anyhow!("--filter: {error}"))?;
        let rules = Rules {
            always: self.all,
            min_statements: self.min_statements,
            skip_inline: self.skip_inline,
        };
        Ok(Choice { rules, filter })
    }
}

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    if let Err(error) = dependencies::become_compiler(&words) {
        return print(&error);
    }
    // Cargo runs `cargo-fdr fdr …`.
    if words.get(1).is_some_and(|word| word == "fdr") {
        words.remove(1);
    }
    let arguments = Arguments::parse_from(words);
    let mut out = io::stdout().lock();
    let done = match arguments.command {
        Command::Instrument(_) if !arguments.with.is_empty() => Err(anyhow::anyhow!(
            "--with is for commands that build a copy, such as run, test and build"
        )),
        Command::Instrument(options) => instrument::run(&options, &arguments.selection, &mut out),
        Command::Generate(options) => {
            generate::run(&options, &Arguments::command()).map(|()| ExitCode::SUCCESS)
        }
        Command::Cargo(words) => {
            build::run(&words, &arguments.selection, &arguments.with).map(|()| ExitCode::SUCCESS)
        }
    };
    let done = done.and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match done {
        Ok(code) => code,
        Err(error) if is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => print(&error),
    }
}

fn print(error: &anyhow::Error) -> ExitCode {
    let line = format!("cargo fdr: {error:#}");
    let fitting = |line| wrap::error_columns().map(|width| wrap::wrap(line, width, 2));
    for line in line.lines() {
        eprintln!("{}", fitting(line).as_deref().unwrap_or(line));
    }
    ExitCode::from(2)
}

/// Whether the reader of the output went away, which is no failure.
fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// `1 file`, `2 files`.
pub(crate) fn things(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}
