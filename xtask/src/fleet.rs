//! `cargo xtask fleet`: the build and the tests of `fdr-fleet`. It is a workspace of its own, with a large engine, so
//! its time is printed separately.

use std::time::Instant;

use crate::Add;
use crate::deny;
use crate::test::{Tally, beside, listed, once, skip_list, suites};
use xshell::{Cmd, Shell, cmd};
use xtask::Result;
use xtask::process::{build_tested, on_path, run as run_command, shell, target};
use xtask::readers::{self, Suite};

const MANIFEST: &str = "fleet/Cargo.toml";

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
    deny::count(&mut tally, "fleet: deny", MANIFEST)?;
    let install = || readers::prepare(true, Suite::Fleet).map(|()| begun.elapsed());
    let (installed, built) = beside(install, || build(&mut tally));
    let installed = installed?;
    built?;
    let built = begun.elapsed();
    let skips = skip_list()?;
    let sh = shell()?;
    let tests = prepare(cargo_test(&sh))?.env("FDR_SKIPS", &skips);
    tally.add(suites(tests, &mut std::io::stdout())?);
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
    let sh = shell()?;
    let tests = cargo_test(&sh).args(["kills::", "--", "--nocapture"]);
    let tests = tests.env("FDR_FLEET_KILLS", count.to_string());
    suites(tests, &mut std::io::stdout())?.close()
}

fn build(tally: &mut Tally) -> Result<()> {
    let sh = shell()?;
    let formatted = run_command(cmd!(sh, "cargo fmt --manifest-path {MANIFEST} --check"));
    // Sums are compared with those of the tool.
    let tool = run_command(once(build_tested(&sh)));
    let linted = run_command(cargo_test(&sh).args(["--no-run", "--quiet"]));
    for (name, result) in [
        ("rustfmt", formatted),
        ("tool", tool),
        ("clippy and build", linted),
    ] {
        tally.count(&format!("fleet: {name}"), result);
    }
    Ok(())
}

/// Says where the other programs are that tests start.
fn prepare(tests: Cmd<'_>) -> Result<Cmd<'_>> {
    let tests = tests.env("FDR_TOOL", target()?.join("debug/fdr"));
    // The environment's own Python, so that it finds the package.
    let python = target()?.join("readers/python/bin/python");
    let own = on_path("spark-submit").is_some_and(|found| found.parent() == python.parent());
    Ok(tests.envs(own.then_some(("PYSPARK_PYTHON", python))))
}

/// `cargo test`, with clippy in place of the compiler for the crate itself: a check by `cargo clippy` would compile the
/// engine a second time. It passes clippy its arguments as `cargo clippy` does: with that word between them.
fn cargo_test(sh: &Shell) -> Cmd<'_> {
    let deny = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    let tests = once(cmd!(sh, "cargo test --locked --manifest-path {MANIFEST}"));
    tests
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", deny)
}
