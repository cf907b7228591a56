//! All commands, in the groups of `fdr --help`; what they were called before; and what a command line without one means.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Subcommand;

use super::fleet_program::{export, query};
use super::{
    Status, convert, ctl, diff, dump, flame, generate, graph, info, listen, overview, pack, record,
    replay, report, rings, scrub, slow, state, top, unpack, verify, view,
};

/// `group: command Variant` and `long`, if the answer may be longer than a screen.
macro_rules! commands {
    ($($group:literal: $($command:ident $name:ident $($long:ident)?),+;)+) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($($name($command::Options),)+)+
        }

        /// The headings of the help, and the commands below each.
        pub(crate) const GROUPS: &[(&str, &[&str])] =
            &[$(($group, &[$(stringify!($command)),+])),+];

        impl Command {
            /// Runs the command.
            pub(crate) fn run(&self) -> anyhow::Result<Status> {
                match self {
                    $($(Command::$name(options) => $command::run(options),)+)+
                }
            }

            /// Whether the answer may be longer than a screen.
            pub(crate) fn is_long(&self) -> bool {
                match self {
                    $($(Command::$name(_) => !stringify!($($long)?).is_empty(),)+)+
                }
            }
        }
    };
}

commands! {
    "Record": record Record, top Top, ctl Ctl, listen Listen;
    "Look": overview Overview long, report Report long, slow Slow long, view View, diff Diff long, flame Flame long,
        graph Graph long, replay Replay long, state State long;
    "Files": info Info long, verify Verify long, convert Convert, pack Pack, unpack Unpack,
        scrub Scrub, dump Dump, rings Rings long;
    "Many traces": export Export, query Query;
    "Hidden": generate Generate;
}

/// What a command was called before, and what does the same today.
const FORMER: [(&str, &[&str]); 6] = [
    ("hist", &["report", "--hist"]),
    ("list", &["rings"]),
    ("map", &["convert", "--to", "map"]),
    ("records", &["replay", "--records"]),
    ("recover", &["dump"]),
    ("snapshot", &["dump"]),
];

/// Completes the command line: a former name of a command becomes the current one. A trace without a command becomes its
/// overview, and with options its report.
pub(crate) fn complete(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = first(&words) else {
        return words;
    };
    let is = |name: &str| words[at] == OsStr::new(name);
    if let Some((_, today)) = FORMER.iter().find(|(name, _)| is(name)) {
        words.splice(at..=at, today.iter().map(OsString::from));
    } else if !is("help") && !names().any(is) && Path::new(&words[at]).exists() {
        let mut behind = words[at..].iter().map(|word| word.as_encoded_bytes());
        let command = match behind.any(|word| word.len() > 1 && word.starts_with(b"-")) {
            true => "report",
            false => "overview",
        };
        words.insert(at, command.into());
    }
    words
}

/// The names of all commands.
fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Which word is the command: the first that is no general option, nor the value of one.
fn first(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at).map(|word| word.as_encoded_bytes()) {
        at += match word {
            b"--max-memory" | b"--jobs" | b"-j" | b"--color" => 2,
            [b'-', _, ..] => 1,
            _ => return Some(at),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<String> = complete(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn former_names_are_todays() {
        let today = |line, today| assert_eq!(completed(line), today);
        today("fdr records -n 3 a", "fdr replay --records -n 3 a");
        today(
            "fdr -j 2 --color=never hist a f",
            "fdr -j 2 --color=never report --hist a f",
        );
        today(
            "fdr --max-memory 1G snapshot 7",
            "fdr --max-memory 1G dump 7",
        );
        today("fdr recover a --remove", "fdr dump a --remove");
        today("fdr map a -o m", "fdr convert --to map a -o m");
        // Words behind a command stay as they are.
        today("fdr record hist", "fdr record hist");
        today("fdr", "fdr");
        today("fdr -h", "fdr -h");
    }

    #[test]
    fn a_trace_alone_is_shown() {
        assert_eq!(completed("fdr Cargo.toml"), "fdr overview Cargo.toml");
        assert_eq!(
            completed("fdr Cargo.toml --json"),
            "fdr report Cargo.toml --json"
        );
        assert_eq!(completed("fdr reprot a"), "fdr reprot a");
        assert_eq!(completed("fdr help"), "fdr help");
    }
}
