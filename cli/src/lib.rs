//! `fdr`: record programs, and read what the recorder wrote. `fdr-fleet`, which is built by itself, reads traces
//! with [`fleet`]; nothing else of this crate is for others.
//!
//! This file parses the command line, runs one command and turns its end into an exit code. It must
//! never do a command's work.
#![forbid(unsafe_code)]

#[cfg(test)]
mod agreement_tests;
mod away;
mod cleanup;
mod clock;
mod columns;
mod commands;
mod completions;
mod damage;
#[doc(hidden)]
pub mod fleet;
mod input;
mod memory;
mod pager;
mod place;
mod report;
mod ring;
mod selection;
mod signals;
mod stacks;
mod svg;
mod symbols;
mod tally;
#[cfg(test)]
mod testing;
mod trace;
mod ui;
mod windows;
mod wrap;

use std::borrow::Cow;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::fleet_program::{self, ExportOptions, QueryOptions};
use commands::{
    Status, convert, ctl, diff, flame, generate, graph, hist, info, listen, map, pack, record,
    records, recover, replay, report as report_command, rings, scrub, slow, snapshot, state, top,
    unpack, verify, view,
};

const EXIT_CODES: &str = "\
Exit codes:
  0    done. A damaged trace is no failure: info, report, flame, records, map,
       state, convert and recover show what can be read, and say so on stderr.
       Only verify judges. An output whose reader went away is no failure
  1    fdr verify found a violation; fdr diff --fail-over found a slower
       function; fdr listen or fdr unpack kept a trace that is damaged or cut
       off
  2    wrong usage; a file that can't be read or written; a trace that needs
       more memory than --max-memory
  fdr record ends as its command does: with its exit code, or by the signal
  that ended it (128 + n to a shell). 126: the command can't be run. 127: it
  does not exist

Examples:
  fdr record ./my_app --fast          record the traced functions of a program
  fdr report my_app.1234.1.fdr        where the time went, per function
  fdr report --last 2s app.fdr        only the last two seconds
  fdr slow my_app.1234.1.fdr          the slowest calls, and why
  fdr view my_app.1234.1.fdr          all threads in a browser
  fdr diff before/ after/             what changed between two builds
  fdr flame -o app.svg app.fdr        time by path of calls, as a flame graph
  fdr graph -o app.svg app.fdr        who calls whom, with times and counts
  fdr hist app.fdr my_app::handle     how long its calls took, all of them
  fdr replay --around -2ms app.fdr    call by call, all threads side by side
  fdr verify my_app.1234.1.fdr        is the trace whole?
  fdr convert app.fdr --to heph       the same trace for another tool
  fdr scrub app.fdr -o share.fdr      without names and arguments, to share it
  fdr pack my_app.1234.1.fdr          an eighth of the size, and still readable
  fdr rings                           ring files here: running, dead, crashed
  fdr recover app.1234.5f0c.fdr-ring  what a killed program had recorded
  fdr snapshot 1234                   what a running program has recorded
  fdr top 1234                        what it does now, in a live table
  fdr ctl 1234 filter 'my_app::*'     other functions, while it runs
  fdr listen tcp://:7000 -o FILE      receives a stream (the program's FDR_OUT)

Only terminals get colours. NO_COLOR and TERM=dumb turn them off.
CLICOLOR_FORCE=1 and --color always turn them on everywhere.";

/// The heading of the options that all commands have.
const GENERAL: &str = "General options";

/// A flight data recorder for Rust programs: records calls, reports where the time went.
#[derive(Parser)]
#[command(name = "fdr", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Arguments {
    /// The most memory for the command: bytes, or a number with K, M or G
    #[arg(long, global = true, value_name = "SIZE", value_parser = ui::size_of, default_value = memory::DEFAULT, help_heading = GENERAL)]
    max_memory: u64,
    /// The most threads that work [default: one per core]
    #[arg(short, long, global = true, value_name = "N", value_parser = ui::jobs_of, help_heading = GENERAL)]
    jobs: Option<NonZeroUsize>,
    /// When to use colours: auto (on terminals), always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto", hide_possible_values = true, help_heading = GENERAL)]
    color: ui::Colour,
    /// Use no pager for long answers (else FDR_PAGER, PAGER or less, on a terminal)
    #[arg(long, global = true, help_heading = GENERAL)]
    no_pager: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(record::Options),
    Info(info::Options),
    Report(report_command::Options),
    Slow(slow::Options),
    View(view::Options),
    Diff(diff::Options),
    Flame(flame::Options),
    Hist(hist::Options),
    Graph(graph::Options),
    Replay(replay::Options),
    Records(records::Options),
    Verify(verify::Options),
    Map(map::Options),
    State(state::Options),
    Convert(convert::Options),
    Scrub(scrub::Options),
    Pack(pack::Options),
    Unpack(unpack::Options),
    Recover(recover::Options),
    Snapshot(snapshot::Options),
    Top(top::Options),
    Ctl(ctl::Options),
    #[command(alias = "list")]
    Rings(rings::Options),
    Listen(listen::Options),
    Export(ExportOptions),
    Query(QueryOptions),
    #[command(hide = true)]
    Generate(generate::Options),
}

impl Command {
    /// Whether the answer may be longer than a screen.
    fn is_long(&self) -> bool {
        use Command::{
            Diff, Flame, Graph, Hist, Info, Records, Replay, Report, Rings, Slow, State, Verify,
        };
        matches!(
            self,
            Diff(_)
                | Flame(_)
                | Graph(_)
                | Hist(_)
                | Info(_)
                | Records(_)
                | Replay(_)
                | Report(_)
                | Rings(_)
                | Slow(_)
                | State(_)
                | Verify(_)
        )
    }
}

/// What `--color` says, for the help and for what is wrong with the command line itself.
fn asked_colour() -> ColorChoice {
    let words: Vec<_> = std::env::args_os()
        .take_while(|word| word != "--")
        .collect();
    let value = |nth: usize| -> Option<&str> {
        let word = words.get(nth)?.to_str()?;
        match word.strip_prefix("--color")? {
            "" => words.get(nth + 1)?.to_str(),
            rest => rest.strip_prefix('='),
        }
    };
    match (0..words.len()).find_map(value) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// The whole program: runs the command that the command line names.
#[must_use]
pub fn run() -> ExitCode {
    signals::survive_limits();
    let parsed = Arguments::command().color(asked_colour()).try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return show(&error),
    };
    memory::set_limit(arguments.max_memory);
    ui::set_jobs(arguments.jobs);
    ui::set_colour(arguments.color);
    if !arguments.no_pager && arguments.command.is_long() {
        pager::want();
    }
    let status = match arguments.command {
        Command::Record(options) => record::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Report(options) => report_command::run(&options),
        Command::Slow(options) => slow::run(&options),
        Command::View(options) => view::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Flame(options) => flame::run(&options),
        Command::Hist(options) => hist::run(&options),
        Command::Graph(options) => graph::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Records(options) => records::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Map(options) => map::run(&options),
        Command::State(options) => state::run(&options),
        Command::Convert(options) => convert::run(&options),
        Command::Scrub(options) => scrub::run(&options),
        Command::Pack(options) => pack::run(&options),
        Command::Unpack(options) => unpack::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Snapshot(options) => snapshot::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Rings(options) => rings::run(&options),
        Command::Listen(options) => listen::run(&options),
        Command::Export(options) => fleet_program::export(&options),
        Command::Query(options) => fleet_program::query(&options),
        Command::Generate(options) => generate::run(&options, &Arguments::command()),
    };
    pager::end();
    match status {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Violations) => ExitCode::from(1),
        Ok(Status::Code(code)) => ExitCode::from(code),
        Err(_) if ui::is_reader_gone() => ExitCode::SUCCESS,
        Err(error) => {
            ui::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Prints a help text, the version or what is wrong with the command line; without colours where that has
/// something in it that a terminal would obey, or a line that is wider than the terminal.
fn show(error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    let most = ui::error_columns().filter(|_| error.use_stderr());
    let fitting = |line| match (ui::clean(line), most) {
        (line, Some(most)) if line.chars().count() > most => Cow::Owned(ui::wrap(&line, most, 2)),
        (line, _) => line,
    };
    let lines = plain.lines().map(fitting);
    let printed = match lines.clone().all(|line| matches!(line, Cow::Borrowed(_))) {
        true => error.print(),
        false => io::stderr().write_all((lines.collect::<Vec<_>>().join("\n") + "\n").as_bytes()),
    };
    match printed {
        Ok(()) => ExitCode::from(if error.use_stderr() { 2 } else { 0 }),
        Err(_) if error.use_stderr() => ExitCode::from(2),
        Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(full) => {
            ui::complain(&format!("standard output: {full}"));
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
