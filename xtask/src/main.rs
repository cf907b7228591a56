//! `cargo xtask`: what developers and CI do with this workspace, one file per command. It is built on
//! everybody's first command, so it must stay without dependencies.
#![forbid(unsafe_code)]

mod check;
mod demo;
mod dist;
mod fleet;
mod fuzz;
mod platforms;
mod sanitize;
mod test;
mod tidy;
mod torture;
mod trial;

use std::process::{Command, ExitCode};

use test::Tally;
use xtask::process::{self, cargo, run as run_command};
use xtask::{NOT_JUDGED, Result};

const USAGE: &str = "\
cargo xtask COMMAND

  test [--no-install]   the tests of the workspace. Installs the external readers that it compares with
                        where it may (Debian's packages: as root; crates: below the target folder);
                        otherwise says what it skips
  test --rest           the tests that take long and rarely say more: packages built outside of the
                        workspace, other people's programs, more repetitions, the benches' own tests,
                        the build without assembly, the models, the harness of the peers, Rust 1.85, aarch64 under emulation, the torture's
                        short form
  check                 rustfmt, clippy, docs, tidy, guard. --add LINE, as for test: a tally
                        `N passed, N failed` to add to
  fleet                 builds and tests fdr-fleet, a workspace of its own: --add LINE, as for test. Installs Java,
                        Spark and a server of S3, as test does
  fleet --kills N       kills its exports and compactions at N random moments
  ci                    test, test --rest, check, then fleet: all of CI
  tidy                  who imports whom, where unsafe may live, licences, file heads, links
  guard [--bless]       instructions of a call, and of each format's reader and writer, against
                        bench/guard.toml (needs valgrind); --bless writes that file anew
  demo                  records a real program, dumps it while it runs, prints the report
  dist                  the tool, its completions for bash, zsh and fish, and its man pages, in target/dist
  bench [--quick] [--rounds N] [--beside REVISION]
                        what a traced call costs, beside two bare clock reads (about 2 minutes), and
                        beside what another revision's costs, in the same rounds
  bench NAME            other benches: bench --help lists them, bench NAME --help their options
  fuzz [FORMAT…] [--minutes N]
                        libFuzzer on the readers of all formats, 10 minutes each (needs a C++ compiler)
  fuzz FORMAT --input FILE
                        one input again; FILE as the above names it
  fuzz --seeds          writes the seeds in fuzz/corpus anew
  torture [CASE…] [--minutes N] [--seed S] [--short] [--release] [--first I] [--tries N]
                        kill -9, crashes, signals, forks, faults, on programs that count for themselves;
                        a quarter of an hour, or N minutes; --short: about two
  trial [PROGRAM…] [--release] [--no-clippy] [--all]
                        ripgrep, mini-redis, oxipng, boa, a SQL engine, a parser, crates without std, crates of 100,000
                        lines, as cargo fdr marks them, --all: each function: their tests without it, off and on, and
                        clippy's warnings; fetches them, takes hours
  trial --sources [PROGRAM…] [--all]
                        marks their sources and takes the marks out again: every byte must be restored
  trial --rule [PROGRAM…]
                        callgrind counts their functions: those that are left out must be short (needs valgrind)
  trial --tasks         mini-redis under load: the figures of its tasks against those of its clients, and the dump of
                        a slow command
  trial --planted [N]   a service with one planted slow call, of seven causes and without one, on N seeds (20) each:
                        what `fdr slow` says first. Needs a quiet machine; N times half a minute
  model                 every order that the memory model allows, for writer, readers and recycling (loom)
  platforms             the recorder with musl, by Rust 1.85, and on aarch64 under emulation
  sanitize [thread|address]
                        ThreadSanitizer and AddressSanitizer on the recorder, decoders and programs
  miri                  the tests under Miri, where the toolchain has it
";

/// The program of the benches and the guard, with these words. It has dependencies, which xtask has not. It measures
/// nothing in its own process, so it is built as the tests are: they have built all of it.
fn driver(words: &[&str]) -> Result<Command> {
    let build = format!("build --quiet {}", test::BENCHES);
    process::output(&mut test::once(cargo(&build)))?;
    let mut driver = process::command(process::target()?.join("debug/fdr-bench-driver"));
    driver.args(words);
    Ok(driver)
}

/// `cargo xtask test` with these options.
fn tests(options: &[&str]) -> Result<Tally> {
    let (mut install, mut rest, mut before) = (true, false, Tally::default());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--no-install" => install = false,
            "--rest" => rest = true,
            "--add" => before = added(options.next().copied())?,
            other => return Err(format!("test: cannot make sense of {other:?}\n\n{USAGE}")),
        }
    }
    before.add(if rest {
        test::rest(install)?
    } else {
        test::run(install)?
    });
    Ok(before)
}

/// The tally of what ran before, from its line.
fn added(line: Option<&str>) -> Result<Tally> {
    let line = line.unwrap_or_default();
    Tally::parse(line).ok_or_else(|| format!("not a tally: {line:?}"))
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["test", options @ ..] => tests(options)?.close(),
        ["check"] => check::run(Tally::default())?.close(),
        ["check", "--add", line] => check::run(added(Some(line))?)?.close(),
        ["fleet"] => fleet::run(Tally::default())?.close(),
        ["fleet", "--kills", count] => fleet::kills(count),
        ["fleet", "--add", line] => fleet::run(added(Some(line))?)?.close(),
        ["ci"] => {
            let mut tally = test::run(true)?;
            tally.add(test::rest(true)?);
            fleet::run(check::run(tally)?)?.close()
        }
        ["tidy"] => tidy::run(),
        ["demo"] => demo::run(),
        ["dist"] => dist::run_all(),
        ["bench", words @ ..] => run_command(&mut driver(words)?),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        ["guard", words @ ..] => match driver(&["guard"])?.args(words).status() {
            // It says itself what was not judged.
            Ok(status) if status.success() || status.code() == Some(NOT_JUDGED.into()) => Ok(()),
            Ok(status) => Err(format!("guard: {status}")),
            Err(error) => Err(format!("guard: {error}")),
        },
        ["fuzz", words @ ..] => fuzz::run(words),
        ["model"] => process::run(&mut sanitize::models()?),
        ["sanitize", words @ ..] => sanitize::run(words),
        ["platforms"] => test::other_platforms()?.close(),
        ["miri"] => sanitize::miri(),
        ["torture", words @ ..] => torture::run(words),
        ["trial", words @ ..] => trial::run(words),
        [] => Err(format!("which command?\n\n{USAGE}")),
        [command, ..] => Err(format!("cannot make sense of {command:?} here\n\n{USAGE}")),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
