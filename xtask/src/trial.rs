//! `cargo xtask trial`: other people's programs as `cargo fdr instrument` marks them, against the same
//! programs without marks. Their tests, clippy's warnings and what they print must not differ, whether
//! they record or not. Sources come from the package registry each time; none is ever committed.

mod callgrind;
mod outcome;
mod rule;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use xshell::{Cmd, Shell, cmd};

use outcome::{Outcome, new_lines, warnings};
use xtask::Result;
use xtask::process::{TESTED, output, run as run_command, shell, shell_in, target, work_folder};
use xtask::programs::{Kind, PROGRAMS, Program, prepare};

/// Rings of a process, so that hundreds of test threads leave traces of a moderate size.
const MEMORY: &str = "256M";

/// Other people's programs as `cargo fdr` marks them: their tests without it, off and on, and clippy's warnings
///
/// ripgrep, mini-redis, oxipng, boa, a SQL engine, a parser, crates without std, crates of 100,000 lines. Fetches them,
/// takes hours.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// None: all of them
    #[arg(value_name = "PROGRAM", value_parser = program_parser())]
    programs: Vec<&'static Program>,
    /// Only clippy's warnings: no tests, which take most of the time
    #[arg(long)]
    clippy: bool,
    /// Only marks the sources and takes the marks out again: every byte must be restored
    #[arg(long)]
    sources: bool,
    /// Only has callgrind count their functions: those that are left out must be short (needs valgrind)
    #[arg(long)]
    rule: bool,
    /// A service with one planted slow call, of seven causes and without one, on N seeds each: what `fdr slow` says
    /// first. N is 20 by default. Needs a quiet machine; N times half a minute
    #[arg(long, value_name = "N", exclusive = true, num_args = 0..=1, default_missing_value = "20",
          value_parser = clap::value_parser!(u64).range(1..))]
    planted: Option<u64>,
}

/// The name of a program.
fn program_parser() -> impl TypedValueParser<Value = &'static Program> {
    let names = PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name));
    names.try_map(|name| {
        let program = PROGRAMS.iter().find(|program| program.name == name);
        program.ok_or("no such program")
    })
}

/// Planted causes of slow calls on so many seeds: a test of the rest, with its figures.
fn planted(seeds: u64) -> Result<()> {
    // One package alone would be built with other features, while its programs run.
    let sh = shell()?;
    let test = cmd!(
        sh,
        "cargo test --quiet {TESTED...} --test main the_rest::planted::a_planted -- --nocapture"
    );
    run_command(test.env("PLANTED_SEEDS", seeds.to_string()))
}

/// Tries the programs in turn and prints a table.
///
/// # Errors
///
/// If anything differs from the unmarked program's, a trace does not verify, or sources cannot be had.
pub(crate) fn run(options: &Options) -> Result<()> {
    let sh = shell()?;
    if let Some(seeds) = options.planted {
        return planted(seeds);
    }
    let programs: Vec<&Program> = match options.programs.as_slice() {
        [] => PROGRAMS.iter().collect(),
        named => named.to_vec(),
    };
    let folder = work_folder("trial")?;
    run_command(cmd!(sh, "cargo build --quiet --package fdr-cli --bins"))?;
    let tool = target()?.join("debug/cargo-fdr");
    if options.sources {
        for program in &programs {
            let marked = prepare(&folder, program, &tool)?;
            println!(
                "{}: {marked} functions marked; every byte restored",
                program.name
            );
        }
        return Ok(());
    }
    if options.rule {
        return rules(&folder, &tool, &programs);
    }
    let mut differences = Vec::new();
    println!(
        "{:<18} {:<8} {:>9} {:>26} {:>26} {:>26} {:>14}",
        "program", "", "functions", "original", "marked, off", "marked, on", "traces"
    );
    for program in &programs {
        // What can't be tried of one program says nothing of the others.
        if let Err(error) = one(&folder, &tool, program, options, &mut differences) {
            differences.push(format!("{}: {error}", program.name));
        }
    }
    for difference in &differences {
        println!("{difference}");
    }
    match differences.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} differences; what the programs said is in {}",
            folder.display()
        )),
    }
}

/// Tries a program, and prints its rows.
fn one(
    folder: &Path,
    tool: &Path,
    program: &'static Program,
    options: &Options,
    differences: &mut Vec<String>,
) -> Result<()> {
    let marked = prepare(folder, program, tool)?;
    let trial = Trial {
        folder: folder.join(program.name),
        build: folder.join("build"),
        program,
    };
    if !options.clippy {
        println!("{}", trial.tests(marked, differences)?);
    }
    println!("{}", trial.clippy(differences)?);
    Ok(())
}

/// Holds the rule against each program, whatever it finds in another one.
fn rules(folder: &Path, tool: &Path, programs: &[&Program]) -> Result<()> {
    let mut bad = Vec::new();
    for program in programs {
        prepare(folder, program, tool)?;
        let judged = rule::run_program(&folder.join(program.name), &folder.join("build"), program);
        bad.extend(judged.err());
    }
    match bad.is_empty() {
        true => Ok(()),
        false => Err(bad.join("\n")),
    }
}

/// A program, its folder, and the target folder of all programs.
struct Trial<'a> {
    folder: PathBuf,
    build: PathBuf,
    program: &'a Program,
}

impl Trial<'_> {
    /// A shell in the folder of the unmarked or the marked sources.
    fn shell(&self, kind: Kind) -> Result<Shell> {
        let sh = shell_in(&self.folder.join(kind.name()))?;
        sh.set_var("CARGO_TARGET_DIR", &self.build);
        Ok(sh)
    }

    /// Runs the tests of the original, then those of the marked one without and with recording.
    fn tests(&self, marked: usize, differences: &mut Vec<String>) -> Result<String> {
        let traces = self.folder.join("traces");
        // What an earlier run left, if any.
        let _ = fs::remove_dir_all(&traces);
        let original = self.outcome(Kind::Original, None)?;
        let off = self.outcome(Kind::Marked, None)?;
        let on = self.outcome(Kind::Marked, Some(&traces))?;
        for (what, outcome) in [("off", &off), ("on", &on)] {
            for line in original.differences(outcome) {
                differences.push(format!("{} {what}: {line}", self.program.name));
            }
        }
        let (count, bad) = self.verify(&traces)?;
        differences.extend(bad);
        let _ = fs::remove_dir_all(&traces);
        Ok(format!(
            "{:<18} tests    {marked:>9} {:>26} {:>26} {:>26} {count:>14}",
            self.program.name,
            original.to_string(),
            off.to_string(),
            on.to_string()
        ))
    }

    /// What the tests say, and the program's run, if there is one.
    fn outcome(&self, kind: Kind, traces: Option<&Path>) -> Result<Outcome> {
        let sh = self.shell(kind)?;
        let options = || self.program.tests.split_whitespace();
        let arguments = options();
        // A build has tests of another kind: the programs that it runs must not record.
        run_command(cmd!(
            sh,
            "cargo test --workspace --no-fail-fast {arguments...} --no-run --quiet"
        ))?;
        if let Some(traces) = traces {
            sh.set_var("FDR", "1");
            sh.set_var("FDR_MEMORY", MEMORY);
            // Some tests compare what their program says on standard error.
            sh.set_var("FDR_LOG", "quiet");
            // With a slash at its end it is made.
            sh.set_var("FDR_OUT", traces.join(""));
        }
        let log = format!("{}-{}", kind.name(), traces.map_or("off", |_| "on"));
        let arguments = options();
        let tests = cmd!(sh, "cargo test --workspace --no-fail-fast {arguments...}");
        let (success, text) = self.run_logged(tests, b"", &format!("{log}-test"))?;
        let mut outcome = Outcome::parse(success, &text);
        if let Some((arguments, input)) = self.program.run {
            let arguments = arguments.split_whitespace();
            let run = cmd!(sh, "cargo run --quiet {arguments...}");
            let (success, text) = self.run_logged(run, input, &format!("{log}-run"))?;
            outcome.add_run(success, &text);
        }
        Ok(outcome)
    }

    /// Runs a command; its standard output, which is kept in a file of that name, beside one with its messages.
    fn run_logged(&self, command: Cmd<'_>, input: &[u8], name: &str) -> Result<(bool, String)> {
        eprintln!("$ {command} ({name})");
        let output = command.stdin(input).ignore_status().output();
        let output = output.map_err(|error| error.to_string())?;
        for (stream, text) in [("stderr", &output.stderr), ("stdout", &output.stdout)] {
            let log = self.folder.join(format!("{name}.{stream}"));
            fs::write(&log, text).map_err(|error| format!("{}: {error}", log.display()))?;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), text))
    }

    /// How many traces there are, and what `fdr verify` has against any.
    fn verify(&self, folder: &Path) -> Result<(usize, Option<String>)> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let traces = files.filter(|file| file.path().extension() == Some(OsStr::new("fdr")));
        let count = traces.count();
        let (sh, tool) = (shell()?, target()?.join("debug/fdr"));
        let bad = match count {
            0 => Some("no trace was written".to_owned()),
            _ => output(cmd!(sh, "{tool} verify --quiet {folder}")).err(),
        };
        Ok((
            count,
            bad.map(|bad| format!("{}: {bad}", self.program.name)),
        ))
    }

    /// Compares clippy's warnings, pedantic ones too. Those that are gone are counted, because the
    /// attribute's documentation lists them.
    fn clippy(&self, differences: &mut Vec<String>) -> Result<String> {
        let said = |kind| -> Result<Vec<String>> {
            let sh = self.shell(kind)?;
            let clippy = cmd!(
                sh,
                "cargo clippy --workspace --all-targets --keep-going --message-format short --
                 -W clippy::all -W clippy::pedantic"
            );
            eprintln!("$ {clippy} ({})", kind.name());
            // It fails where the original has a lint that is denied.
            let output = clippy
                .ignore_status()
                .output()
                .map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let log = self.folder.join(format!("{}.clippy", kind.name()));
            fs::write(&log, &text).map_err(|error| format!("{}: {error}", log.display()))?;
            Ok(warnings(&text))
        };
        let (original, marked) = (said(Kind::Original)?, said(Kind::Marked)?);
        let name = self.program.name;
        let new = new_lines(&original, &marked);
        differences.extend(
            new.iter()
                .map(|line| format!("{name}: new warning: {line}")),
        );
        let gone = new_lines(&marked, &original).len();
        Ok(format!(
            "{name:<18} clippy   {:>36} {:>26} {:>26}",
            format!("{} warnings", original.len()),
            format!("{} new, {gone} gone", new.len()),
            ""
        ))
    }
}
