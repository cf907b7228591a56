//! A program that takes every descriptor for its own, for a few rounds. The torture has the program, what is done
//! beside it, and what must hold; `cargo xtask torture descriptors` has more rounds.

use std::env;
use std::path::Path;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

/// Rounds, of 25 in each process.
const ROUNDS: &str = "100";

#[test]
fn programs_using_every_descriptor_keep_their_files() {
    let folder = Folder::new("descriptors");
    let driver = Path::new(env!("CARGO_BIN_EXE_torture"));
    let programs = driver.parent().expect("a folder").to_str().expect("UTF-8");
    let place = folder.path().to_str().expect("UTF-8");
    let mut program = Program::new(driver, &folder)
        .args(&["descriptors", "--seed", "1", "--first", "0"])
        .args(&["--tries", ROUNDS, "--seconds", "0"])
        .args(&["--folder", place, "--programs", programs]);
    if let Some(skips) = env::var_os("FDR_SKIPS") {
        program = program.env("FDR_SKIPS", skips);
    }
    let outcome = program.run();
    let result = outcome.stdout.lines().last().unwrap_or_default();
    let good = format!("result {ROUNDS} {ROUNDS} ");
    let is_good = outcome.status.success() && result.starts_with(&good);
    assert!(is_good, "{}\n{}", outcome.stdout, outcome.stderr);
}
