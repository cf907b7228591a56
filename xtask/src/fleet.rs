//! `cargo xtask fleet`: the build and the tests of `fdr-fleet`. It is a workspace of its own, with a large engine, so its
//! time is told apart. Must never build that engine for any other command.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::test::{Tally, once};
use xtask::Result;
use xtask::process::{build_tested, cannot_run, cargo, run as run_command, target};

const MANIFEST: &str = "--manifest-path fleet/Cargo.toml";

/// Builds and tests; each check and each test counts.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn run(mut tally: Tally) -> Result<Tally> {
    let begun = Instant::now();
    let formatted = run_command(&mut cargo(&format!("fmt {MANIFEST} --check")));
    // Sums are compared with those of the tool.
    let tool = run_command(&mut build_tested());
    let linted = run_command(&mut tests("--no-run --quiet"));
    for (name, result) in [
        ("rustfmt", formatted),
        ("tool", tool),
        ("clippy and build", linted),
    ] {
        match result {
            Ok(()) => {
                println!("fleet: {name}: ok");
                tally.passed += 1;
            }
            Err(error) => {
                println!("fleet: {name}: FAILED: {error}");
                tally.failed += 1;
            }
        }
    }
    let built = begun.elapsed();
    let mut tests = tests("");
    tests.env("FDR_TOOL", target()?.join("debug/fdr"));
    tests.stdout(Stdio::piped());
    let mut child = tests.spawn().map_err(|error| cannot_run(&tests, &error))?;
    let before = tally.failed;
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.map_err(|error| error.to_string())?;
        println!("{line}");
        tally.add_suite(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    // A build that fails has no line of results.
    if !status.success() && before == tally.failed {
        tally.failed += 1;
    }
    let all = begun.elapsed();
    println!(
        "fleet: {} s, {} of them to build",
        all.as_secs(),
        built.as_secs()
    );
    Ok(tally)
}

/// `cargo test`, with clippy in place of the compiler for the crate itself: a check by `cargo clippy` would compile the
/// engine a second time.
fn tests(options: &str) -> Command {
    let mut tests = once(cargo(&format!("test --locked {MANIFEST} {options}")));
    tests.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    tests.env(
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    tests
}
