//! `cargo xtask test` and `cargo xtask test --rest`: together every test of the workspace, on a user's machine as in
//! CI. A check that did not take place must never look like one that passed. So skips are collected and printed. The
//! last line counts everything.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Instant;

use crate::Add;
use crate::platforms;
use crate::sanitize;
use crate::torture;
use xshell::{Cmd, Shell, cmd};
use xtask::Result;
use xtask::process::{
    TESTED, lines, output, print_time, root, run as run_command, shell, shell_in, work_folder,
};
use xtask::readers::{self, Suite};

/// How many checks passed and failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// What failed in this process.
    names: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The reverse of its text.
impl FromStr for Tally {
    type Err = String;

    fn from_str(line: &str) -> Result<Tally> {
        let numbers = line.trim().strip_suffix(" failed");
        let numbers = numbers.and_then(|line| line.split_once(" passed, "));
        let tally = numbers.and_then(|(passed, failed)| {
            Some(Tally {
                passed: passed.parse().ok()?,
                failed: failed.parse().ok()?,
                names: Vec::new(),
            })
        });
        tally.ok_or_else(|| "not a tally `N passed, N failed`".to_owned())
    }
}

impl Tally {
    /// Counts a check, and prints how it ended.
    pub(crate) fn count(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                println!("{name}: ok");
                self.passed += 1;
            }
            Err(error) => {
                println!("{name}: FAILED: {error}");
                self.fail(name);
            }
        }
    }

    fn fail(&mut self, name: &str) {
        self.failed += 1;
        self.names.push(name.to_owned());
    }

    /// Prints what failed, and the closing line; an error if anything failed.
    pub(crate) fn close(self) -> Result<()> {
        for name in &self.names {
            println!("FAILED: {name}");
        }
        println!("{self}");
        if self.failed == 0 {
            Ok(())
        } else {
            Err("not everything passed".to_owned())
        }
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.names.extend(other.names);
    }

    /// Prints the skipped checks. In CI each of them is a failure, except a missing Miri, because only nightly
    /// toolchains have Miri.
    pub(crate) fn print_skips(&mut self, skipped: &BTreeSet<String>, no_miri: Option<String>) {
        for line in skipped {
            println!("{line}");
        }
        if let Some(why) = &no_miri {
            println!("SKIPPED: tests under Miri: {why}");
        }
        if !skipped.is_empty() || no_miri.is_some() {
            let count = skipped.len() + usize::from(no_miri.is_some());
            println!("skipped: {count}");
        }
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            skipped.iter().for_each(|line| self.fail(line));
        }
    }

    /// Adds what a line of libtest says: `test result: ok. 3 passed; 1 failed; 0 ignored; …`. `names` are the lines
    /// that libtest has printed below `failures:`.
    fn add_suite(&mut self, line: &str, names: &mut Vec<String>) {
        if line == "failures:" {
            // Above the first one of two such lists is what the tests printed.
            names.clear();
        }
        if let Some(name) = line.strip_prefix("    ") {
            names.push(name.to_owned());
        }
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|l| l.split_once(". "))
        else {
            return;
        };
        let count = |what: &str| {
            let field = counts
                .split("; ")
                .find_map(|field| field.strip_suffix(what));
            field
                .and_then(|count| count.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += count("passed");
        let failed = count("failed");
        self.failed += failed;
        self.names.extend(names.drain(..).filter(|_| failed > 0));
    }
}

/// The usual tests leave out the tests below a module of this name, and `--rest` runs only these. libtest looks for the
/// text in whole names, so no other name may contain the text (`nearest::` contains `rest::`).
const REST: &str = "the_rest::";

/// Has cargo compile without keeping what a later compilation could use again. That state is two thirds of the target
/// folder, and a run of all tests compiles each crate once.
pub(crate) fn once(cargo: Cmd<'_>) -> Cmd<'_> {
    cargo.env("CARGO_INCREMENTAL", "0")
}

/// The targets of the benches. All packages are named, so that their dependencies have the features of the tests', and
/// are compiled already.
pub(crate) const BENCHES: [&str; 3] = ["--workspace", "--bin=fdr-bench", "--bin=fdr-bench-driver"];

/// For builds in which the formats are not what is tested: compiling them without optimizations takes half as long.
pub(crate) const PLAIN_FORMATS: &str = "profile.dev.package.fdr-formats.opt-level=0";

/// The network and the disk are busy with programs that are installed, while the processors compile.
pub(crate) fn beside<I: Send, T>(
    install: impl FnOnce() -> Result<I> + Send,
    work: impl FnOnce() -> T,
) -> (Result<I>, T) {
    thread::scope(|scope| {
        let install = scope.spawn(install);
        let worked = work();
        let panicked = |_| Err("the thread that installs programs has panicked".to_owned());
        (install.join().unwrap_or_else(panicked), worked)
    })
}

/// The tests of the workspace
///
/// Installs the external readers that it compares with where it may (Debian's packages: as root; crates and Python's
/// packages: below the target folder); otherwise says what it skips.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Says what it skips, and installs nothing
    #[arg(long)]
    no_install: bool,
    /// The tests that take long and rarely say more, instead: packages built outside of the workspace, other people's
    /// programs, more repetitions, the benches' own tests, the build without assembly, the models, the harness of the
    /// peers, Miri, Rust 1.85, aarch64 under emulation, the torture's short form
    #[arg(long)]
    rest: bool,
    #[command(flatten)]
    before: Add,
}

/// Runs the chosen tests.
///
/// # Errors
///
/// If cargo cannot be started, or the list of skips cannot be written.
pub(crate) fn run(options: Options) -> Result<Tally> {
    let mut tally = options.before.add;
    tally.add(match options.rest {
        true => rest(!options.no_install)?,
        false => usual(!options.no_install)?,
    });
    Ok(tally)
}

/// How many tests run at once on each core: many of them wait for processes that they started.
const TESTS_PER_CORE: usize = 2;

/// Runs every test but the rest. A suite that does not compile or dies without a result counts as one failure.
///
/// # Errors
///
/// If cargo cannot be started, or the list of skips cannot be written.
pub(crate) fn usual(install: bool) -> Result<Tally> {
    let sh = shell()?;
    // If something does not compile, the lines below report and count it.
    let build = once(cmd!(sh, "cargo test {TESTED...} --no-run"));
    let install = || readers::prepare(install, Suite::Usual);
    let (installed, _) = beside(install, || run_command(build));
    installed?;
    let skips = skip_list()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let tests = once(cmd!(
        sh,
        "cargo test {TESTED...} --no-fail-fast -- --skip {REST}"
    ));
    let tests = tests.env("RUST_TEST_THREADS", (cores * TESTS_PER_CORE).to_string());
    let mut tally = suites(tests.env("FDR_SKIPS", &skips), &mut std::io::stdout())?;
    tally.print_skips(&listed(&skips)?, None);
    println!("not run: the rest, which takes longer and rarely says more: cargo xtask test --rest");
    Ok(tally)
}

/// Runs the tests that [`usual`] leaves out: those that build other packages, the benches' own tests, the build without
/// assembly, the harness of the peers, the models, the tests under Miri, other platforms, and the short torture.
///
/// # Errors
///
/// Like [`usual`].
pub(crate) fn rest(install: bool) -> Result<Tally> {
    let skips = skip_list()?;
    let sh = shell()?;
    let tests = once(cmd!(
        sh,
        "cargo test {TESTED...} --lib --test main --no-fail-fast -- {REST}"
    ));
    let benches = once(cmd!(sh, "cargo test {BENCHES...} --no-fail-fast"));
    // A workspace of its own: what the peers are measured by, and their floor.
    let harness = cmd!(
        sh,
        "cargo test --locked --manifest-path bench/peers/Cargo.toml --package peer-harness --package peer-floor"
    );
    let mut tally = Tally::default();
    // These start no other programs.
    let alone = [
        benches.env("FDR_SKIPS", &skips),
        without_assembly(&sh)?,
        harness.env("CARGO_TARGET_DIR", work_folder("peers")?),
    ];
    let (installed, ran) = beside(
        || {
            readers::prepare(install, Suite::Rest)?;
            if install { fetch_sources() } else { Ok(()) }
        },
        || {
            let ran = alone.map(|suite| suites(suite, &mut std::io::stdout()));
            ran.into_iter().collect::<Result<Vec<Tally>>>()
        },
    );
    ran?.into_iter().for_each(|ran| tally.add(ran));
    installed?;
    tally.add(suites(
        tests.env("FDR_SKIPS", &skips),
        &mut std::io::stdout(),
    )?);
    // The models and Miri run on one core, so they run beside the builds for other platforms, and the torture. Their words
    // follow when they end.
    let (of_models, of_others) = thread::scope(|scope| {
        let models = scope.spawn(on_one_core);
        let others = platforms::run(install, &skips).and_then(|mut others| {
            // Each case of the torture's short form counts as one test.
            others.add(torture::short(&skips)?);
            Ok(others)
        });
        (models.join(), others)
    });
    let (of_models, said) = of_models.map_err(|_| "the thread of the models has panicked")??;
    let _ = std::io::stdout().write_all(&said);
    tally.add(of_models);
    tally.add(of_others?);
    tally.print_skips(&listed(&skips)?, sanitize::no_miri());
    Ok(tally)
}

/// The models and Miri: the tally, and what they print.
fn on_one_core() -> Result<(Tally, Vec<u8>)> {
    let sh = shell()?;
    let (mut tally, mut said) = (Tally::default(), Vec::new());
    tally.add(suites(sanitize::models(&sh)?, &mut said)?);
    if let Ok(interpreted) = sanitize::interpreted(&sh) {
        tally.add(suites(interpreted, &mut said)?);
    }
    Ok((tally, said))
}

/// Packages of `tests/programs` that use crates which the workspace does not use. Tests build them without the network.
const OF_OTHERS: [&str; 3] = ["combinators", "tokio_spans", "tokio_tasks"];

/// Fetches what these packages need, in copies of them. What cannot be fetched is skipped by its test.
fn fetch_sources() -> Result<()> {
    for name in OF_OTHERS {
        let original = root().join("tests/programs").join(name);
        let folder = copy_manifest(&original, &work_folder("xtask")?.join(name))?;
        let bad = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::write(folder.join("src/main.rs"), "fn main() {}\n").map_err(bad)?;
        // The versions of the workspace, where it has any.
        std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(bad)?;
        let sh = shell_in(&folder)?;
        if let Err(error) = output(cmd!(sh, "cargo fetch --quiet")) {
            eprintln!("xtask: {error}");
        }
    }
    Ok(())
}

/// Copies the manifest of a package of `tests/programs`, which uses the same crates of ours from there.
pub(crate) fn copy_manifest(original: &Path, folder: &Path) -> Result<PathBuf> {
    let bad = |error: std::io::Error| format!("{}: {error}", folder.display());
    let manifest = std::fs::read_to_string(original.join("Cargo.toml")).map_err(bad)?;
    let manifest = manifest.replace("../../..", &root().to_string_lossy());
    std::fs::create_dir_all(folder.join("src")).map_err(bad)?;
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(bad)?;
    Ok(folder.to_owned())
}

/// The file to which tests append what they skip, empty.
pub(crate) fn skip_list() -> Result<PathBuf> {
    let skips = work_folder("xtask")?.join("skips.txt");
    std::fs::write(&skips, "")
        .map_err(|error| format!("cannot write {}: {error}", skips.display()))?;
    Ok(skips)
}

/// The recorder's own tests once more, with the writer that other architectures use: Miri, which has no
/// assembly either, gives the switch its name.
fn without_assembly(sh: &Shell) -> Result<Cmd<'_>> {
    let tests = once(cmd!(
        sh,
        "cargo test --package fdr --lib --config {PLAIN_FORMATS}"
    ));
    let tests = tests.env("RUSTFLAGS", "--cfg miri");
    Ok(tests.env("CARGO_TARGET_DIR", work_folder("portable")?))
}

/// Runs `cargo test`, passes its output on as it comes, says how long it took, and adds up the results in it. No result
/// is a failure.
pub(crate) fn suites(tests: Cmd<'_>, out: &mut dyn Write) -> Result<Tally> {
    let command = tests.to_string();
    let (mut tally, mut names) = (Tally::default(), Vec::new());
    eprintln!("$ {command}");
    let begin = Instant::now();
    let status = lines(tests, |line| {
        let _ = writeln!(out, "{line}");
        tally.add_suite(line, &mut names);
    })?;
    print_time(begin);
    if !status.success() && tally.failed == 0 {
        let how = format!("`{command}`: {status}");
        let _ = writeln!(out, "{how}");
        tally.fail(&how);
    }
    // A name or a `cfg` that no test has any more chooses nothing, and cargo is content.
    if tally == Tally::default() {
        let how = format!("`{command}`: no test was run");
        let _ = writeln!(out, "{how}");
        tally.fail(&how);
    }
    Ok(tally)
}

/// The distinct lines of the skip list.
pub(crate) fn listed(skips: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(skips)
        .map_err(|error| format!("cannot read {}: {error}", skips.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_added_up() {
        let printed = "
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
            failures:

            ---- a::b stdout ----
                what it printed

            failures:
                a::b
                c::d

            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
            test some::test ... ok
            5 passed; 5 failed";
        let (mut tally, mut names) = (Tally::default(), Vec::new());
        for line in printed.lines() {
            tally.add_suite(
                line.strip_prefix("            ").unwrap_or(line),
                &mut names,
            );
        }
        assert_eq!(tally.to_string(), "15 passed, 2 failed");
        assert_eq!(tally.names, ["a::b", "c::d"]);
        let read: Tally = "15 passed, 2 failed\n".parse().expect("a tally");
        assert_eq!((read.passed, read.failed), (15, 2));
        assert!("15 passed".parse::<Tally>().is_err());
    }

    #[test]
    fn an_empty_suite_is_a_failure() {
        let tally = |script: &str| {
            // Not to our own output, where these results would be taken for real ones.
            let mut shown = Vec::new();
            let sh = shell().expect("a shell");
            let tally = suites(cmd!(sh, "sh -c {script}"), &mut shown).expect("sh runs");
            assert!(shown.starts_with(b"test result: "));
            (tally.passed, tally.failed)
        };
        assert_eq!(
            tally("echo 'test result: ok. 3 passed; 0 failed'; exit 101"),
            (3, 1)
        );
        assert_eq!(
            tally("echo 'test result: FAILED. 1 passed; 2 failed'; exit 101"),
            (1, 2)
        );
        assert_eq!(
            tally("printf 'test result: ok. 3 passed; 0 failed'"),
            (3, 0)
        );
        assert_eq!(
            tally("echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 9 filtered out'"),
            (0, 1)
        );
        let failed: Tally = "3 passed, 1 failed".parse().expect("a tally");
        assert!(failed.close().is_err());
    }
}
