//! `fdr ctl`: changes what a running process records, and asks it for traces and counts, through its ring file. Must
//! never signal or stop the process.

mod channel;
mod status;

use std::io::{self, BufRead};

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use fdr_formats::ring::control::Kind;
use fdr_formats::{duration, moments, trigger};

use super::Status;
use crate::ring::find::process_number;
use crate::ui;

const HELP: &str = "\
Commands:
  on            record
  off           do not record; what was recorded stays in the rings
  filter TEXT   record the functions of TEXT, in the words of the variable FDR
  keep TIME     as FDR_KEEP: let a full ring hold that time, such as 30s.
                0: every call leaves its records. A program that was started
                with FDR_KEEP=0 refuses
  trigger TEXT  replace the triggers, in the words of the variable FDR_TRIGGER:
                'my_app::handle>50ms +2s, panic'; off: none
  mark TEXT     name this moment, for reports: fdr info and fdr report show it
  dump          write a trace now, and print its path
  status        what the process records, and how much it has
  -             commands from standard input, one a line

Commands go through the process's ring file: who may write the file may use
them. No thread of the program is stopped. The recorder's own thread carries
out a command in less than 10 ms, or in a second where Linux is older than
5.16.

Examples:
  fdr ctl 1234 filter 'my_app::db::*,-my_app::db::row'
  fdr ctl 1234 status --json
  fdr report $(fdr ctl 1234 dump)";

/// Control what a running process records
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The process
    #[arg(value_name = "PID", value_parser = process_number)]
    process: u32,
    /// What to do
    #[arg(value_name = "COMMAND", value_enum, hide_possible_values = true)]
    command: Word,
    /// The filter, the time, the triggers, or the name
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Print JSON: of status
    #[arg(long)]
    json: bool,
}

/// The words of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Word {
    On,
    Off,
    Filter,
    Keep,
    Trigger,
    Mark,
    Dump,
    Status,
    #[value(name = "-")]
    Lines,
}

impl Word {
    /// The command, and whether it has a text.
    fn kind(self) -> Option<(Kind, bool)> {
        Some(match self {
            Word::On => (Kind::On, false),
            Word::Off => (Kind::Off, false),
            Word::Filter => (Kind::Filter, true),
            Word::Keep => (Kind::Keep, true),
            Word::Trigger => (Kind::Trigger, true),
            Word::Mark => (Kind::Mark, true),
            Word::Dump => (Kind::Dump, false),
            Word::Status => (Kind::Status, false),
            Word::Lines => return None,
        })
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if options.json && options.command != Word::Status {
        bail!("--json is for the command status");
    }
    let text = options.text.as_deref().unwrap_or_default();
    let Some((kind, _)) = options.command.kind() else {
        if !text.is_empty() {
            bail!("- takes its commands from standard input: {text} has no meaning behind it");
        }
        return lines(options.process);
    };
    check(options.command, text)?;
    let mut channels = channel::open(options.process)?;
    let answer = ask(&mut channels, kind, text)?;
    show(kind, &answer, options)?;
    Ok(Status::Done)
}

/// Whether the command has the text that it needs.
fn check(word: Word, text: &str) -> anyhow::Result<()> {
    match word.kind() {
        Some((_, true)) if text.is_empty() => match word {
            Word::Keep => bail!("keep what time? 30s, for example; 0 keeps every call"),
            Word::Trigger => {
                bail!("what triggers? 'my_app::handle>50ms', for example; off is none")
            }
            Word::Mark => bail!("mark with what name? 'here I clicked', for example"),
            _ => bail!("filter what? my_app::*, for example; 1 is every function"),
        },
        Some((Kind::Mark, _)) => moments::parse(text)
            .map(|_| ())
            .map_err(|why| anyhow!("{}: {why}", ui::clean(text))),
        Some((Kind::Trigger, _)) => trigger::parse(text)
            .map(|_| ())
            .map_err(|why| anyhow!("{why}")),
        Some((Kind::Keep, _)) => duration::parse(text)
            .map(|_| ())
            .map_err(|why| anyhow!("{}: {why}", ui::clean(text))),
        Some((_, false)) if !text.is_empty() => bail!("{text}: this command has no text"),
        _ => Ok(()),
    }
}

/// Asks every ring of the process. The answer is that of the last one.
fn ask(channels: &mut [channel::Channel], kind: Kind, text: &str) -> anyhow::Result<String> {
    let mut answer = String::new();
    for channel in channels {
        match channel.ask(kind, text)? {
            Ok(text) => answer = text,
            Err(why) => bail!("{}", ui::clean(&why)),
        }
    }
    Ok(answer)
}

fn show(kind: Kind, answer: &str, options: &Options) -> anyhow::Result<()> {
    match kind {
        Kind::Status => {
            let status = status::Status::parse(options.process, answer);
            ui::print(|out| status.print(out, options.json))
        }
        // A path stays in one line.
        Kind::Dump => ui::print(|out| Ok(writeln!(out, "{}", ui::clean(answer))?)),
        _ => ui::print(|out| Ok(writeln!(out, "{}", ui::paragraph(&ui::clean(answer), 2))?)),
    }
}

/// Has the process write a trace. Returns its path.
///
/// # Errors
/// Where the process does not answer, or can't write.
pub(crate) fn dump(process: u32) -> anyhow::Result<String> {
    ask(&mut channel::open(process)?, Kind::Dump, "")
}

/// Carries out the commands of standard input. If a command fails, a line says so, and the next command follows.
fn lines(process: u32) -> anyhow::Result<Status> {
    let mut channels = channel::open(process)?;
    let mut failed = false;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (word, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if word.is_empty() {
            continue;
        }
        let done = one_line(&mut channels, process, word, text.trim());
        if let Err(error) = done {
            if ui::is_reader_gone() || crate::ring::find::has_ended(process) {
                return Err(error);
            }
            ui::complain(&format!("{error:#}"));
            failed = true;
        }
    }
    Ok(match failed {
        true => Status::Code(2),
        false => Status::Done,
    })
}

fn one_line(
    channels: &mut [channel::Channel],
    process: u32,
    word: &str,
    text: &str,
) -> anyhow::Result<()> {
    let command = Word::from_str(word, false).ok();
    let Some((command, (kind, _))) = command.and_then(|word| Some((word, word.kind()?))) else {
        bail!(
            "{}: no such command; fdr ctl --help lists them",
            ui::clean(word)
        );
    };
    check(command, text)?;
    let answer = ask(channels, kind, text)?;
    let options = Options {
        process,
        command,
        text: None,
        json: false,
    };
    show(kind, &answer, &options)
}
