//! `cargo xtask`: what developers and CI do with this workspace, one file per command. It is built on
//! everybody's first command, so it must stay without dependencies.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod demo;
mod dist;
mod fuzz;
mod guard;
mod process;
mod readers;
mod sanitize;
mod test;
mod tidy;
mod torture;
mod trial;

use std::process::ExitCode;

use test::Tally;

const USAGE: &str = "\
cargo xtask COMMAND

  test [--no-install]   every test of the workspace. Installs the external readers that it compares
                        with where it may (Debian's packages: as root; crates: below the target
                        folder); otherwise says what it skips
  check [--add LINE]    rustfmt, clippy, docs, tidy, guard; LINE: a tally `N passed, N failed` to add to
  ci                    test, then check: all of CI
  tidy                  who imports whom, where unsafe may live, licences, file heads, file lengths, links
  guard [--bless]       instructions of a call, and of each format's reader and writer, against
                        bench/guard.toml (needs valgrind); --bless writes that file anew
  demo                  records a real program, dumps it while it runs, prints the report
  dist                  the tool, its completions for bash, zsh and fish, and its man pages, in target/dist
  bench [--quick] [--rounds N] [--beside REVISION]
                        what a traced call costs, beside two bare clock reads (about 2 minutes), and
                        beside what another revision's costs, in the same rounds
  bench --history       how the ratios moved: every run adds a line to bench/history.jsonl
  fuzz [FORMAT…] [--minutes N]
                        libFuzzer on the readers of all formats and `dense`, 10 minutes each (needs a C++ compiler)
  fuzz FORMAT --input FILE
                        one input again; FILE as the above names it
  fuzz --seeds          writes the seeds in fuzz/corpus anew
  torture [CASE…] [--minutes N] [--seed S] [--short] [--release] [--first I] [--tries N]
                        kill -9, crashes, signals, forks, faults, on programs that count for themselves;
                        about half an hour, or N minutes; --short: about two
  trial [PROGRAM…] [--release] [--no-clippy]
                        ripgrep, mini-redis, oxipng and boa with the attribute on each of their 10,000 functions:
                        their tests without it, off and on, and clippy's warnings; fetches them, takes hours
  model                 every order that the memory model allows, for writer, readers and recycling (loom)
  sanitize [thread|address]
                        ThreadSanitizer and AddressSanitizer on the recorder, decoders and programs
  miri                  the tests under Miri, where the toolchain has it
  bench compile [--functions N] [--body borrows|owns] [--profile dev|release]
                        how long a crate of 10,000 functions compiles, traced and untraced; up to an hour and a
                        half, a third of that for one body in one profile
  bench libraries [--quick]
                        what a traced call costs in a plug-in and in other libraries, beside the executable's
  bench scale [--quick] [--rounds N] [--threads N,…] [--rings DIR] [--bless]
                        a recorded call on 1 to 64 threads, what each thread holds, and two threads beside each
                        other; DIR: where the rings are; --bless: the figures go into docs/scaling.md
  bench tail [--seconds N]
                        the slowest of single calls: on a fresh ring, later, during dumps, at a thread's start
  bench flush [--mib N]
                        dumps of full rings to memory and to disk: speed, and memory beside the rings
  bench read [--records MILLIONS]
                        how fast a large trace is read, and in how much memory
  bench peers [--quick] [--rounds N] [--only PEER,…] [--install] [--bless]
                        what a traced call costs with other people's recorders, beside ours; --install:
                        Debian's packages, as root; --bless: the figures go into docs/peers.md
  bench pack
                        how small a real trace is packed, plain and dense, and how fast it is packed, unpacked
                        and read
  bench formats [--calls MILLIONS] [--rounds N]
                        how fast each format is written, read, and converted into; beside other tools
";

/// What a command hands back: an error message for people, without the program's name.
type Result<T> = std::result::Result<T, String>;

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["test"] => test::run(true)?.close(),
        ["test", "--no-install"] => test::run(false)?.close(),
        ["check"] => check::run(Tally::default())?.close(),
        ["check", "--add", line] => {
            let before = Tally::parse(line).ok_or_else(|| format!("not a tally: {line:?}"))?;
            check::run(before)?.close()
        }
        ["ci"] => check::run(test::run(true)?)?.close(),
        ["tidy"] => tidy::run(),
        ["demo"] => demo::run(),
        ["dist"] => dist::run_all(),
        ["bench", "pack", options @ ..] => bench::pack::run(options),
        ["bench", "compile", options @ ..] => bench::compile::run(options),
        ["bench", "libraries", options @ ..] => bench::libraries::run(options),
        ["bench", "scale", options @ ..] => bench::scale::run(options),
        ["bench", "tail", options @ ..] => bench::tail::run(options),
        ["bench", "flush", options @ ..] => bench::flush::run(options),
        ["bench", "read", options @ ..] => bench::read::run(options),
        ["bench", "formats", options @ ..] => bench::formats::run(options),
        ["bench", "--history"] => bench::history::show(),
        ["bench", "peers", options @ ..] => bench::peers::run(options),
        ["bench", options @ ..] => bench::run(options),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        ["guard", words @ ..] => guard::command_line(words),
        ["fuzz", words @ ..] => fuzz::run(words),
        ["model"] => process::run(&mut sanitize::models()?),
        ["sanitize", words @ ..] => sanitize::run(words),
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
