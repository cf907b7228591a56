//! `cargo xtask check`: what CI looks at beside the tests. All checks run, also after a failure. Each counts as one in
//! the tally.

use std::collections::BTreeSet;

use crate::deny;
use crate::test::Tally;
use crate::tidy;
use xtask::process::{cargo, command, run as run_command, work_folder};
use xtask::{NOT_JUDGED, Result};

/// Adds each check to the tally. If the guard can't count, a line says so, and CI fails.
///
/// # Errors
///
/// If the log of an installation can't be written. A check that fails is counted.
pub(crate) fn run(mut tally: Tally) -> Result<Tally> {
    let formatted = run_command(&mut cargo("fmt --all --check"))
        .and_then(|()| run_command(&mut cargo("fmt --manifest-path fuzz/Cargo.toml --check")))
        .and_then(|()| {
            let peers = "fmt --all --manifest-path bench/peers/Cargo.toml --check";
            run_command(&mut cargo(peers))
        });
    let linted = run_command(&mut cargo(
        "clippy --workspace --all-targets --quiet -- -D warnings",
    ))
    .and_then(|()| {
        // The crate with the recorder's features. In a build of the workspace it has all features.
        let writers = "clippy --package fdr-formats --no-default-features --quiet -- -D warnings";
        run_command(&mut cargo(writers))?;
        run_command(&mut cargo("clippy --package fdr --quiet -- -D warnings"))
    })
    .and_then(|()| fuzzer_linted())
    .and_then(|()| run_command(&mut crate::driver("peers --lint")?));
    let mut docs = cargo("doc --workspace --no-deps --quiet");
    let documented = run_command(docs.env("RUSTDOCFLAGS", "-D warnings"));
    let checks = [
        ("rustfmt", formatted, "cargo fmt --all"),
        ("clippy", linted, "the command above"),
        ("docs", documented, "cargo doc --workspace --no-deps"),
        ("tidy", tidy::run(), "cargo xtask tidy"),
    ];
    for (name, result, again) in checks {
        tally.count(
            name,
            result.map_err(|error| format!("{error}; see `{again}`")),
        );
    }
    lint_aarch64(&mut tally);
    deny::count(&mut tally, "deny", "Cargo.toml")?;
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let guard = crate::driver("guard")
        .and_then(|mut guard| guard.status().map_err(|error| error.to_string()));
    let guard = match guard.map(|status| (status.success(), status.code())) {
        Ok((true, _)) => Ok(()),
        Ok((_, Some(code))) if code == i32::from(NOT_JUDGED) && !in_ci => {
            println!("SKIPPED: guard: what it says above");
            return Ok(tally);
        }
        Ok((_, code)) => Err(format!("exit code {code:?}; see `cargo xtask guard`")),
        Err(error) => Err(error),
    };
    tally.count("guard", guard);
    Ok(tally)
}

/// Clippy on the recorder for another architecture: its code there is not compiled here.
fn lint_aarch64(tally: &mut Tally) {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let mut add = command("rustup");
    if let Err(why) = run_command(add.args(["target", "add", TARGET])) {
        let skipped =
            format!("SKIPPED: clippy for aarch64: its standard library is missing: {why}");
        return tally.print_skips(&BTreeSet::from([skipped]), None);
    }
    let mut clippy = cargo("clippy --package fdr --package fdr-parking-lot --quiet --target");
    let linted = run_command(clippy.args([TARGET, "--", "-D", "warnings"]));
    tally.count("clippy for aarch64", linted);
}

/// The fuzzing program is a workspace of its own, which nothing else builds here.
fn fuzzer_linted() -> Result<()> {
    let mut clippy = cargo("clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features");
    clippy.env("CARGO_TARGET_DIR", work_folder("fuzz")?);
    run_command(clippy.args(["--quiet", "--", "-D", "warnings"]))
}
