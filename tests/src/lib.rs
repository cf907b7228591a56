//! What whole-system tests share: where the built programs are, which readers of other people are installed, and how a
//! test says that it was skipped. It must never hide a skip. Each skip is printed past the test harness's capture, is
//! appended to the file that `FDR_SKIPS` names, and is a failure in CI.
#![deny(unsafe_code)]

pub mod programs;
pub mod support;

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use xtask::process::{build_tested, output, shell};

/// Says aloud that a check does not take place: `skip("llvm-xray-19 is not installed: …")`.
///
/// # Panics
///
/// If the environment variable `CI` is `true`, where nothing may be skipped; and if the file named
/// by `FDR_SKIPS` cannot be written.
pub fn skip(reason: &str) {
    let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    let list = env::var_os("FDR_SKIPS").map(PathBuf::from);
    // Not eprint!, which the test harness swallows.
    announce(reason, in_ci, list.as_deref(), &mut io::stderr());
}

fn announce(reason: &str, in_ci: bool, list: Option<&Path>, out: &mut dyn Write) {
    assert!(!in_ci, "SKIPPED in CI: {reason}");
    let line = format!("SKIPPED: {reason}\n");
    let _ = out.write_all(line.as_bytes());
    if let Some(path) = list {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| {
                panic!("cannot append to FDR_SKIPS={}: {error}", path.display())
            });
    }
}

/// The program of that name on `PATH`; where it is missing, the test is skipped aloud.
///
/// ```
/// let Some(shell) = fdr_tests::reader("sh", "the shell's version of events") else { return };
/// assert!(shell.ends_with("sh"));
/// ```
///
/// # Panics
///
/// Like [`skip`].
pub fn reader(program: &str, check: &str) -> Option<PathBuf> {
    let found = on_path(program);
    if found.is_none() {
        skip(&format!("{check}: {program} is not installed"));
    }
    found
}

fn on_path(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// An example program (or, with `libplugin.so`, the example plug-in), built if need be.
///
/// # Panics
///
/// If it cannot be built.
pub fn example(name: &str) -> PathBuf {
    built().join("examples").join(name)
}

/// The plug-in of the programs in `src/bin`, built if need be.
///
/// # Panics
///
/// If it cannot be built.
pub fn plugin() -> PathBuf {
    example("librecorded_plugin.so")
}

/// The tool `fdr`, built if need be.
///
/// # Panics
///
/// If it cannot be built.
pub fn tool() -> PathBuf {
    built().join("fdr")
}

/// The program of `src/bin/programs`, which cargo builds before each test of this package.
///
/// # Panics
///
/// If the running program is no test.
pub fn programs() -> PathBuf {
    let test = env::current_exe().expect("the path of the running test");
    let folder = test.ancestors().nth(2).expect("a folder of programs");
    folder.join("programs")
}

/// The folder of all programs. Cargo decides whether anything is to be built, and is asked once a process.
fn built() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let target = target_folder();
    BUILT.get_or_init(|| {
        let sh = shell().expect("a shell");
        let build = build_tested(&sh).arg("--target-dir").arg(&target);
        output(build).unwrap_or_else(|error| panic!("{error}"));
    });
    target.join("debug")
}

/// Cargo's target folder: this program is TARGET/PROFILE/deps/PROGRAM in tests, and deeper nowhere.
fn target_folder() -> PathBuf {
    let program = env::current_exe().expect("the path of the running test");
    let target = program.ancestors().nth(3).map(Path::to_path_buf);
    target.unwrap_or_else(|| panic!("{} is not in a target folder", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_skip_is_printed_and_listed() {
        let list = target_folder().join(format!("skips-{}.txt", std::process::id()));
        let mut printed = Vec::new();
        announce("first", false, Some(&list), &mut printed);
        announce("second", false, Some(&list), &mut printed);
        let listed = fs::read(&list).expect("the list");
        fs::remove_file(&list).expect("the list can be removed");
        assert_eq!(listed, b"SKIPPED: first\nSKIPPED: second\n");
        assert_eq!(printed, listed);
    }

    #[test]
    #[should_panic(expected = "SKIPPED in CI: a reader")]
    fn a_skip_fails_in_ci() {
        announce("a reader", true, None, &mut io::sink());
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(on_path("no-such-program-of-fdr"), None);
    }

    #[test]
    fn examples_are_built_where_tests_find_them() {
        let program = example("quickstart");
        let output = Command::new(program)
            .env_remove("FDR")
            .output()
            .expect("quickstart runs");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "17673 takes 278 steps\n"
        );
    }
}
