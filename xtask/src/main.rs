//! `cargo xtask`: what developers and CI do with this workspace, one file per command.
#![forbid(unsafe_code)]

mod check;
mod demo;
mod deny;
mod dist;
mod fleet;
mod fuzz;
mod platforms;
mod release;
mod sanitize;
mod test;
mod tidy;
mod torture;
mod trial;

use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus};

use clap::{Args, Parser, Subcommand};

use test::Tally;
use xshell::{Cmd, Shell, cmd};
use xtask::process::{self, run as run_command, shell};
use xtask::{NOT_JUDGED, Result};

/// What developers and CI do with this workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Test(test::Options),
    /// rustfmt, clippy, docs, tidy, deny, guard
    Check(Add),
    Fleet(fleet::Options),
    /// test, test --rest, check, then fleet: all of CI
    Ci,
    /// Who imports whom, where unsafe may live, file heads, links
    Tidy,
    /// Licences of dependencies, and where they come from, by `cargo deny`
    Deny,
    /// Instructions of a call, and of each format's reader and writer, against bench/guard.toml
    ///
    /// Needs valgrind. --bless writes that file anew.
    Guard(Words),
    /// Records a real program, dumps it while it runs, prints the report
    Demo,
    Dist(dist::Options),
    Release(release::Options),
    /// What a traced call costs, beside two bare clock reads
    ///
    /// About 3 minutes. bench --help lists the options, and other benches; bench NAME --help theirs.
    Bench(Words),
    Fuzz(fuzz::Options),
    Torture(torture::Options),
    Trial(trial::Options),
    /// Every order that the memory model allows, for writer, readers and recycling (loom)
    Model,
    /// ThreadSanitizer and AddressSanitizer on the recorder, decoders and programs
    Sanitize(sanitize::Options),
    /// Tests of the recorder under Miri, where a toolchain has it
    Miri,
}

/// A tally to begin with.
#[derive(Args)]
struct Add {
    /// A tally `N passed, N failed` to add to
    #[arg(long, value_name = "LINE", default_value_t, hide_default_value = true)]
    add: Tally,
}

/// The words that another program understands, `--help` too.
#[derive(Args)]
#[command(disable_help_flag = true)]
struct Words {
    #[arg(
        value_name = "WORD",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// A number of minutes on the command line.
fn minutes(text: &str) -> Result<f64> {
    let minutes = text
        .parse()
        .ok()
        .filter(|&minutes: &f64| minutes > 0.0 && minutes.is_finite());
    minutes.ok_or_else(|| "more than 0".to_owned())
}

/// The program of the benches and the guard. It measures nothing in its own process, so it is built as the tests are:
/// they have built all of it.
fn driver(sh: &Shell) -> Result<Cmd<'_>> {
    let benches = test::BENCHES;
    process::output(test::once(cmd!(sh, "cargo build --quiet {benches...}")))?;
    let driver = process::target()?.join("debug/fdr-bench-driver");
    Ok(cmd!(sh, "{driver}"))
}

/// Runs the guard, which says itself what was not judged. Its exit code tells these apart.
fn guard(words: &[OsString]) -> Result<ExitStatus> {
    let sh = shell()?;
    let guard = driver(&sh)?.arg("guard").args(words);
    let status = Command::from(guard).status();
    status.map_err(|error| format!("guard: {error}"))
}

fn run(task: Task) -> Result<()> {
    process::drop_variables()?;
    match task {
        Task::Test(options) => test::run(options)?.close(),
        Task::Check(Add { add }) => check::run(add)?.close(),
        Task::Fleet(options) => fleet::run(options),
        Task::Ci => {
            let mut tally = test::usual(true)?;
            tally.add(test::rest(true)?);
            fleet::tests(check::run(tally)?)?.close()
        }
        Task::Tidy => tidy::run(),
        Task::Deny => deny::run(),
        Task::Demo => demo::run(),
        Task::Dist(options) => dist::run(options),
        Task::Release(options) => release::run(&options),
        Task::Bench(Words { words }) => run_command(driver(&shell()?)?.args(words)),
        Task::Guard(Words { words }) => match guard(&words)? {
            status if status.success() || status.code() == Some(NOT_JUDGED.into()) => Ok(()),
            status => Err(format!("guard: {status}")),
        },
        Task::Fuzz(options) => fuzz::run(options),
        Task::Model => run_command(sanitize::models(&shell()?)?),
        Task::Sanitize(options) => sanitize::run(&options),
        Task::Miri => sanitize::miri(),
        Task::Torture(options) => torture::run(&options),
        Task::Trial(options) => trial::run(&options),
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What the words ask for.
    pub(crate) fn task(words: &str) -> std::result::Result<Task, String> {
        let words = std::iter::once("cargo xtask").chain(words.split(' '));
        let parsed = Arguments::try_parse_from(words);
        parsed
            .map(|arguments| arguments.task)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_description_of_the_options_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn unknown_words_are_refused() {
        for bad in [
            "",
            "tset",
            "tidy --all",
            "test --rset",
            "check --add 3",
            "miri now",
        ] {
            let error = task(bad).err().expect(bad);
            assert!(error.contains("--help"), "{error}");
        }
        assert!(task("tset").is_err_and(|error| error.contains("'test'")));
    }

    #[test]
    fn the_words_of_other_programs_reach_them() {
        for text in ["--help", "--rounds 3", "whole --help", ""] {
            let text = text.trim();
            let Ok(Task::Bench(Words { words })) = task(format!("bench {text}").trim()) else {
                panic!("{text}: no bench");
            };
            assert_eq!(words.join(" ".as_ref()), text);
        }
        let blessed = task("guard --bless");
        assert!(matches!(blessed, Ok(Task::Guard(Words { words })) if words == ["--bless"]));
    }

    #[test]
    fn a_tally_is_taken_from_a_line() {
        let words = ["cargo xtask", "check", "--add", "3 passed, 4 failed"];
        let Ok(Arguments {
            task: Task::Check(Add { add }),
        }) = Arguments::try_parse_from(words)
        else {
            panic!("not understood");
        };
        assert_eq!(add.to_string(), "3 passed, 4 failed");
    }
}
