//! `fdr ctl`: changes what a running process records, and asks it for traces and counts, through its ring file. Must
//! never signal or stop the process.

mod channel;
mod filter_check;
mod status;

use std::ffi::OsStr;
use std::io::{self, BufRead};

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use fdr_formats::filter::near;
use fdr_formats::ring::control::Kind;
use fdr_formats::{duration, moments, trigger};

use self::filter_check::FilterCheck;
use super::{Status, running};
use crate::ring::find::{NO_PROCESS, process_number};
use crate::ui;

const HELP: &str = "\
Commands:
  on            record
  off           do not record; what was recorded stays in the rings
  filter TEXT   record the functions of TEXT, in the words of the variable FDR.
                fdr refuses a TEXT that matches no function
  keep TIME     as FDR_KEEP: let a full ring hold that time, such as 30s.
                0: every call leaves its records. A program that was started
                with FDR_KEEP=0 refuses
  trigger TEXT  replace the triggers, in the words of the variable FDR_TRIGGER:
                'my_app::handle>50ms +2s, panic'; off: none
  mark TEXT     name this moment, for reports: fdr info and fdr report show it
  dump          write a trace now, and print its path
  status        what the process records, and how much it has; so does no
                command
  -             commands from standard input, one a line

Commands go through the process's ring file: who may write the file may use
them. No thread of the program is stopped. The recorder's own thread carries
out a command in less than 10 ms, or in a second where Linux is older than
5.16.

Examples:
  fdr ctl                               status of the only program that records
  fdr ctl 1234 filter 'my_app::db::*,-my_app::db::row'
  fdr ctl 1234 status --json
  fdr report $(fdr ctl 1234 dump)";

/// Control what a running process records
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The process [default: the only one that records]
    #[arg(value_name = "PID", value_parser = AnyWord, hide_possible_values = true)]
    process: Option<String>,
    /// What to do [default: status]
    #[arg(value_name = "COMMAND", value_parser = AnyWord, hide_possible_values = true, allow_hyphen_values = true)]
    command: Option<String>,
    /// The filter, the time, the triggers, or the name
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Print JSON: of status
    #[arg(long)]
    json: bool,
}

/// Any text. Completions offer the words of the commands, because the process may be left out in front of them.
#[derive(Clone)]
struct AnyWord;

impl TypedValueParser for AnyWord {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = Word::value_variants().iter();
        Some(Box::new(words.filter_map(Word::to_possible_value)))
    }
}

/// What the words of the command line mean.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    process: Option<u32>,
    word: Word,
    text: &'a str,
}

impl<'a> Request<'a> {
    /// A number in front is the process. Without a command it is the status.
    fn new(words: &[&'a str]) -> anyhow::Result<Request<'a>> {
        let process = words.first().and_then(|word| process_number(word).ok());
        let rest = &words[usize::from(process.is_some())..];
        let no_process = |word| anyhow!("{}: {NO_PROCESS}", ui::clean(word));
        let (word, text) = match *rest {
            [] => (Word::Status, ""),
            [word] => (Word::parse(word)?, ""),
            [word, text] => match Word::parse(word) {
                Err(_) if process.is_none() && Word::parse(text).is_ok() => {
                    return Err(no_process(word));
                }
                parsed => (parsed?, text),
            },
            [first, ..] => return Err(no_process(first)),
        };
        Ok(Request {
            process,
            word,
            text,
        })
    }
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
    fn parse(text: &str) -> anyhow::Result<Word> {
        Word::from_str(text, false).map_err(|_| {
            let values = Word::value_variants()
                .iter()
                .filter_map(Word::to_possible_value);
            let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            let near = near(names.iter().map(String::as_str), text);
            let near = near.map_or(String::new(), |near| format!("; the nearest is {near}"));
            anyhow!(
                "{}: no such command{near}; fdr ctl --help lists them",
                ui::clean(text)
            )
        })
    }

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
    let words = [&options.process, &options.command, &options.text];
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let Request {
        process,
        word,
        text,
    } = Request::new(&words)?;
    if options.json && word != Word::Status {
        bail!("--json is for the command status");
    }
    let Some((kind, _)) = word.kind() else {
        if !text.is_empty() {
            bail!("- takes its commands from standard input: {text} has no meaning behind it");
        }
        return lines(running::or_only(process, "fdr ctl")?);
    };
    check(word, text)?;
    let process = running::or_only(process, "fdr ctl")?;
    let mut channels = channel::open(process)?;
    if kind == Kind::Filter {
        FilterCheck::new(process).check(text)?;
    }
    let answer = ask(&mut channels, kind, text)?;
    show(kind, &answer, process, options.json)?;
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

fn show(kind: Kind, answer: &str, process: u32, as_json: bool) -> anyhow::Result<()> {
    match kind {
        Kind::Status => {
            let status = status::Status::parse(process, answer);
            ui::print(|out| status.print(out, as_json))
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
    let mut filters = FilterCheck::new(process);
    let mut failed = false;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (word, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if word.is_empty() {
            continue;
        }
        let done = one_line(&mut channels, &mut filters, process, word, text.trim());
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
    filters: &mut FilterCheck,
    process: u32,
    word: &str,
    text: &str,
) -> anyhow::Result<()> {
    let word = Word::parse(word)?;
    let Some((kind, _)) = word.kind() else {
        bail!("-: the commands come from standard input already");
    };
    check(word, text)?;
    if kind == Kind::Filter {
        filters.check(text)?;
    }
    let answer = ask(channels, kind, text)?;
    show(kind, &answer, process, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_and_command_may_be_left_out() {
        let request = |words: &[&'static str]| {
            let Request {
                process,
                word,
                text,
            } = Request::new(words).unwrap();
            (process, word, text)
        };
        assert_eq!(request(&[]), (None, Word::Status, ""));
        assert_eq!(request(&["7"]), (Some(7), Word::Status, ""));
        assert_eq!(request(&["off"]), (None, Word::Off, ""));
        assert_eq!(request(&["-"]), (None, Word::Lines, ""));
        assert_eq!(request(&["keep", "7"]), (None, Word::Keep, "7"));
        assert_eq!(request(&["7", "mark", "8"]), (Some(7), Word::Mark, "8"));
        let wrong = |words: &[&str]| Request::new(words).unwrap_err().to_string();
        assert_eq!(
            wrong(&["7", "statsu"]),
            "statsu: no such command; the nearest is status; fdr ctl --help lists them"
        );
        for words in [&["a", "filter", "b"][..], &["a", "off"]] {
            assert!(wrong(words).starts_with("a: not the number of a process"));
        }
    }
}
