//! `cargo xtask fleet`: the build and the tests of `fdr-fleet`. It is a workspace of its own, with a large engine, so
//! its time is printed separately.

use std::process::Command;
use std::time::Instant;

use crate::Add;
use crate::deny;
use crate::test::{Tally, beside, listed, once, skip_list, suites};
use xtask::Result;
use xtask::process::{build_tested, cargo, on_path, run as run_command, target};
use xtask::readers::{self, Suite};

const MANIFEST: &str = "--manifest-path fleet/Cargo.toml";

/// Builds and tests fdr-fleet, a workspace of its own
///
/// Installs Java, Spark and a server of S3, as test does.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    before: Add,
    /// Kills its exports and compactions at N random moments instead
    #[arg(long, value_name = "N", conflicts_with = "add")]
    kills: Option<u64>,
}

/// Runs the tests, or the kills if `--kills` asks for them.
///
/// # Errors
/// If cargo can't be run, or a test fails.
pub(crate) fn run(options: Options) -> Result<()> {
    match options.kills {
        Some(count) => kills(count),
        None => tests(options.before.add)?.close(),
    }
}

/// Builds and tests; each check and each test counts.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn tests(mut tally: Tally) -> Result<Tally> {
    let begun = Instant::now();
    deny::count(&mut tally, "fleet: deny", "fleet/Cargo.toml")?;
    let install = || readers::prepare(true, Suite::Fleet).map(|()| begun.elapsed());
    let (installed, ()) = beside(install, || build(&mut tally));
    let installed = installed?;
    let built = begun.elapsed();
    let skips = skip_list()?;
    let mut tests = cargo_test("");
    tests.env("FDR_SKIPS", &skips);
    prepare(&mut tests)?;
    tally.add(suites(&mut tests, &mut std::io::stdout())?);
    tally.print_skips(&listed(&skips)?, None);
    println!(
        "fleet: {} s, {} of them to build, and programs were installed after {} s",
        begun.elapsed().as_secs(),
        built.as_secs(),
        installed.as_secs()
    );
    Ok(tally)
}

/// Kills `fdr-fleet export` and `compact` that often, at random moments.
///
/// # Errors
/// If cargo can't be run, or a row was lost or doubled.
fn kills(count: u64) -> Result<()> {
    let mut tests = cargo_test("kills:: -- --nocapture");
    tests.env("FDR_FLEET_KILLS", count.to_string());
    suites(&mut tests, &mut std::io::stdout())?.close()
}

fn build(tally: &mut Tally) {
    let formatted = run_command(&mut cargo(&format!("fmt {MANIFEST} --check")));
    // Sums are compared with those of the tool.
    let tool = run_command(&mut once(build_tested()));
    let linted = run_command(&mut cargo_test("--no-run --quiet"));
    for (name, result) in [
        ("rustfmt", formatted),
        ("tool", tool),
        ("clippy and build", linted),
    ] {
        tally.count(&format!("fleet: {name}"), result);
    }
}

/// Says where the other programs are that tests start.
fn prepare(tests: &mut Command) -> Result<()> {
    tests.env("FDR_TOOL", target()?.join("debug/fdr"));
    // The environment's own Python, so that it finds the package.
    let python = target()?.join("readers/python/bin/python");
    if on_path("spark-submit").is_some_and(|found| found.parent() == python.parent()) {
        tests.env("PYSPARK_PYTHON", &python);
    }
    Ok(())
}

/// `cargo test`, with clippy in place of the compiler for the crate itself: a check by `cargo clippy` would compile the
/// engine a second time. It passes clippy its arguments as `cargo clippy` does: with that word between them.
fn cargo_test(options: &str) -> Command {
    let mut tests = once(cargo(&format!("test --locked {MANIFEST} {options}")));
    tests.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    tests.env(
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    tests
}
