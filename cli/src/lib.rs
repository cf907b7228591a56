//! `fdr`: record programs, and read what the recorder wrote. `fdr-fleet`, which is built by itself, reads traces
//! with [`fleet`]; nothing else of this crate is for others.
//!
//! This file parses the command line, runs one command and turns its end into an exit code. It must
//! never do a command's work.
#![forbid(unsafe_code)]

#[cfg(test)]
mod agreement_tests;
mod calls;
mod cleanup;
mod clock;
mod columns;
mod commands;
mod completions;
mod damage;
#[cfg(test)]
mod documented_tests;
#[doc(hidden)]
pub mod fleet;
mod input;
mod memory;
mod off_cpu;
mod output_file;
mod outputs;
mod pager;
mod report;
mod ring;
mod selection;
mod signals;
mod sockets;
mod stacks;
mod svg;
mod symbols;
mod tally;
mod task_stacks;
#[cfg(test)]
mod testing;
mod trace;
mod tree;
mod ui;
mod windows;
mod wrap;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser};

use commands::list::{self, Command, GROUPS};
use commands::{Status, here};

const EXIT_CODES: &str = "\
Exit codes:
  0    done. A damaged trace is no failure: info, report, flame, replay, state,
       convert and dump show what can be read, and say so on stderr. Only
       verify judges. An output whose reader went away is no failure
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
  fdr                                 the newest traces here, and what records
  fdr my_app.1234.1.fdr               one screen: the time, what was slow
  fdr report --last 2s app.fdr        only the last two seconds
  fdr slow my_app.1234.1.fdr          the slowest calls, and why
  fdr view my_app.1234.1.fdr          all threads in a browser
  fdr diff before/ after/             what changed between two builds
  fdr flame -o app.svg app.fdr        time by path of calls, as a flame graph
  fdr graph -o app.svg app.fdr        who calls whom, with times and counts
  fdr report --hist app.fdr my_app::handle
                                      how long its calls took, all of them
  fdr replay --around -2ms app.fdr    call by call, all threads side by side
  fdr verify my_app.1234.1.fdr        is the trace whole?
  fdr convert app.fdr --to heph       the same trace for another tool
  fdr scrub app.fdr -o share.fdr      without names and arguments, to share it
  fdr pack my_app.1234.1.fdr          an eighth of the size, and still readable
  fdr rings                           ring files here: running, dead, crashed
  fdr dump app.1234.5f0c.fdr-ring     what a killed program had recorded
  fdr dump                            what the running program has recorded
  fdr top                             what it does now, in a live table
  fdr ctl filter 'my_app::*'          other functions, while it runs
  fdr listen tcp://127.0.0.1:7000 -o FILE
                                      receives a stream (the program's FDR_OUT)

Only terminals get colours. NO_COLOR and TERM=dumb turn them off.
CLICOLOR_FORCE=1 and --color always turn them on everywhere.";

const NOTHING_HERE: &str = "there is no trace in this folder, and no program records in it: \
    `FDR=1 PROGRAM` makes a trace; `fdr --help` lists the commands";

/// The heading of the options that all commands have.
const GENERAL: &str = "General options";

/// A flight data recorder for Rust programs: records calls, reports where the time went.
#[derive(Parser)]
#[command(name = "fdr", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(override_usage = "fdr [OPTIONS] <COMMAND>\n       fdr [OPTIONS] <TRACE>\n       fdr")]
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
    command: Option<Command>,
}

/// The command line's description. Its help has the commands in groups.
fn command_line() -> clap::Command {
    let tool = Arguments::command();
    let heading = *tool.get_styles().get_header();
    let literal = *tool.get_styles().get_literal();
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let shown = names.iter().filter_map(|name| tool.find_subcommand(name));
        let shown: Vec<_> = shown.filter(|command| !command.is_hide_set()).collect();
        if shown.is_empty() {
            continue;
        }
        groups += &format!("{heading}{group}:{heading:#}\n");
        for command in shown {
            let (name, about) = (command.get_name(), command.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            groups += &format!("  {literal}{name:<8}{literal:#}  {about}\n");
        }
        groups.push('\n');
    }
    tool.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}

/// The value of `--color`, for the help and for errors in the command line.
fn color_choice(words: &[OsString]) -> ColorChoice {
    let end = words.iter().position(|word| word == "--");
    let words = &words[..end.unwrap_or(words.len())];
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
    let words = list::complete(std::env::args_os().collect());
    let parsed = command_line().color(color_choice(&words));
    let parsed = parsed.try_get_matches_from(words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return show(&error),
    };
    memory::set_limit(arguments.max_memory);
    ui::set_jobs(arguments.jobs);
    ui::set_colour(arguments.color);
    let status = match &arguments.command {
        Some(command) => {
            if !arguments.no_pager && command.is_long() {
                pager::want();
            }
            command.run()
        }
        None => match here::show() {
            Ok(true) => Ok(Status::Done),
            Ok(false) => Err(anyhow::anyhow!(NOTHING_HERE)),
            Err(error) => Err(error),
        },
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

/// Prints a help text, the version, or an error in the command line. A text with control characters, or with a
/// line that is wider than the terminal, is printed without colours.
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
        super::command_line().debug_assert();
    }
}
