//! `cargo xtask check`: what CI looks at beside the tests. All of it is looked at, also after a
//! failure, and each look counts as one in the tally.

use crate::Result;
use crate::process::{cargo, run as run_command};
use crate::test::Tally;
use crate::tidy;

/// Adds the four checks to the tally.
///
/// # Errors
///
/// None: a check that fails is counted.
pub(crate) fn run(mut tally: Tally) -> Result<Tally> {
    let formatted = run_command(&mut cargo("fmt --all --check"));
    let linted = run_command(&mut cargo(
        "clippy --workspace --all-targets --quiet -- -D warnings",
    ));
    let mut docs = cargo("doc --workspace --no-deps --quiet");
    let documented = run_command(docs.env("RUSTDOCFLAGS", "-D warnings"));
    let checks = [
        ("rustfmt", formatted, "cargo fmt --all"),
        ("clippy", linted, "cargo clippy --workspace --all-targets"),
        ("docs", documented, "cargo doc --workspace --no-deps"),
        ("tidy", tidy::run(), "cargo xtask tidy"),
    ];
    for (name, result, again) in checks {
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
    Ok(tally)
}
