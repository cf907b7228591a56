//! `cargo xtask check`: what CI looks at beside the tests. All of it is looked at, also after a
//! failure, and each look counts as one in the tally.

use crate::Result;
use crate::bench::peers;
use crate::guard::{self, Held};
use crate::process::{cargo, run as run_command, work_folder};
use crate::test::Tally;
use crate::tidy;

/// Adds each check to the tally. A guard that could not count is said aloud, and is a failure in CI.
///
/// # Errors
///
/// None: a check that fails is counted.
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
    .and_then(|()| fuzzer_linted())
    .and_then(|()| peers_linted());
    let mut docs = cargo("doc --workspace --no-deps --quiet");
    let documented = run_command(docs.env("RUSTDOCFLAGS", "-D warnings"));
    let checks = [
        ("rustfmt", formatted, "cargo fmt --all"),
        ("clippy", linted, "the command above"),
        ("docs", documented, "cargo doc --workspace --no-deps"),
        ("tidy", tidy::run(), "cargo xtask tidy"),
    ];
    for (name, result, again) in checks {
        count(&mut tally, name, result, again);
    }
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let guard = match guard::run(&[]) {
        Ok(Held::Yes) => Ok(()),
        Ok(Held::Skipped(why) | Held::Unjudged(why)) if !in_ci => {
            println!("SKIPPED: guard: {why}");
            return Ok(tally);
        }
        Ok(Held::Skipped(error) | Held::Unjudged(error)) | Err(error) => Err(error),
    };
    count(&mut tally, "guard", guard, "cargo xtask guard");
    Ok(tally)
}

fn count(tally: &mut Tally, name: &str, result: Result<()>, again: &str) {
    match result {
        Ok(()) => {
            println!("{name}: ok");
            tally.passed += 1;
        }
        Err(error) => {
            println!("{name}: FAILED: {error}; see `{again}`");
            tally.failed += 1;
        }
    }
}

/// The fuzzing program is a workspace of its own, which nothing else builds here.
fn fuzzer_linted() -> Result<()> {
    let mut clippy = cargo("clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features");
    clippy.env("CARGO_TARGET_DIR", work_folder("fuzz")?);
    run_command(clippy.args(["--quiet", "--", "-D", "warnings"]))
}

/// The peers are another one.
fn peers_linted() -> Result<()> {
    let mut clippy = peers::cargo("clippy", &peers::linted())?;
    run_command(clippy.args(["--all-targets", "--quiet", "--", "-D", "warnings"]))
}
