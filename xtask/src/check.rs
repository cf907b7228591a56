//! `cargo xtask check`: what CI looks at beside the tests. All checks run, also after a failure. Each counts as one in
//! the tally.

use std::collections::BTreeSet;

use crate::deny;
use crate::test::Tally;
use crate::tidy;
use xshell::cmd;
use xtask::process::{run as run_command, shell, work_folder};
use xtask::{NOT_JUDGED, Result};

/// Adds each check to the tally. If the guard can't count, a line says so, and CI fails.
///
/// # Errors
///
/// If the log of an installation can't be written. A check that fails is counted.
pub(crate) fn run(mut tally: Tally) -> Result<Tally> {
    let sh = shell()?;
    let docs =
        cmd!(sh, "cargo doc --workspace --no-deps --quiet").env("RUSTDOCFLAGS", "-D warnings");
    let checks = [
        ("rustfmt", formatted(), "cargo fmt --all"),
        ("clippy", linted(), "the command above"),
        ("docs", run_command(docs), "cargo doc --workspace --no-deps"),
        ("tidy", tidy::run(), "cargo xtask tidy"),
    ];
    for (name, result, again) in checks {
        tally.count(
            name,
            result.map_err(|error| format!("{error}; see `{again}`")),
        );
    }
    lint_aarch64(&mut tally)?;
    deny::count(&mut tally, "deny", "Cargo.toml")?;
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let guard = match crate::guard(&[]).map(|status| (status.success(), status.code())) {
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

fn formatted() -> Result<()> {
    let sh = shell()?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml", "bench/peers/Cargo.toml"] {
        run_command(cmd!(
            sh,
            "cargo fmt --all --manifest-path {manifest} --check"
        ))?;
    }
    Ok(())
}

fn linted() -> Result<()> {
    let sh = shell()?;
    for packages in [
        "--workspace --all-targets",
        // The crate with the recorder's features. In a build of the workspace it has all features.
        "--package fdr-formats --no-default-features",
        "--package fdr",
    ] {
        let packages = packages.split(' ');
        run_command(cmd!(
            sh,
            "cargo clippy {packages...} --quiet -- -D warnings"
        ))?;
    }
    // The fuzzing program is a workspace of its own, which nothing else builds here.
    let fuzzer = cmd!(
        sh,
        "cargo clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features --quiet -- -D warnings"
    );
    run_command(fuzzer.env("CARGO_TARGET_DIR", work_folder("fuzz")?))?;
    run_command(crate::driver(&sh)?.args(["peers", "--lint"]))
}

/// Clippy on the recorder for another architecture: its code there is not compiled here.
fn lint_aarch64(tally: &mut Tally) -> Result<()> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let sh = shell()?;
    if let Err(why) = run_command(cmd!(sh, "rustup target add {TARGET}")) {
        let skipped =
            format!("SKIPPED: clippy for aarch64: its standard library is missing: {why}");
        tally.print_skips(&BTreeSet::from([skipped]), None);
        return Ok(());
    }
    let clippy = cmd!(
        sh,
        "cargo clippy --package fdr --package fdr-parking-lot --quiet --target {TARGET} -- -D warnings"
    );
    tally.count("clippy for aarch64", run_command(clippy));
    Ok(())
}
