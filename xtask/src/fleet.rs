//! `cargo xtask fleet`: the build and the tests of `fdr-fleet`. It is a workspace of its own, with a large engine, so its
//! time is told apart. Must never build that engine for any other command.

use std::process::Command;
use std::time::Instant;

use crate::test::{Tally, once, suites};
use xtask::Result;
use xtask::process::{build_tested, cargo, run as run_command, target};

const MANIFEST: &str = "--manifest-path fleet/Cargo.toml";

/// Builds and tests; each check and each test counts.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn run(mut tally: Tally) -> Result<Tally> {
    let begun = Instant::now();
    let formatted = run_command(&mut cargo(&format!("fmt {MANIFEST} --check")));
    // Sums are compared with those of the tool.
    let tool = run_command(&mut once(build_tested()));
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
    tally.add(suites(&mut tests, &mut std::io::stdout())?);
    println!(
        "fleet: {} s, {} of them to build",
        begun.elapsed().as_secs(),
        built.as_secs()
    );
    Ok(tally)
}

/// `cargo test`, with clippy in place of the compiler for the crate itself: a check by `cargo clippy` would compile the
/// engine a second time. It passes clippy its arguments as `cargo clippy` does: with that word between them.
fn tests(options: &str) -> Command {
    let mut tests = once(cargo(&format!("test --locked {MANIFEST} {options}")));
    tests.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    tests.env(
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    tests
}
