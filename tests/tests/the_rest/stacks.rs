//! How much of the program's stacks the recorder takes. This is measured on a stack filled with a pattern. Then the
//! recorder runs on a stack of just the bound's size, above a guard. The bounds are those of `docs/stacks.md`.

use std::path::{Path, PathBuf};

use crate::package::{Package, text_of};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};

const KIB: usize = 1024;

/// The ways into the recorder, and what each takes at most: in a release build and in one that nothing is
/// optimized in, bytes.
const BOUNDS: [(&str, usize, usize); 12] = [
    ("enable", 8 * KIB, 24 * KIB),
    ("first-record", 6 * KIB, 12 * KIB),
    ("chunk-ends", 6 * KIB, 12 * KIB),
    ("fork", 6 * KIB, 12 * KIB),
    ("fork-and-record", 6 * KIB, 12 * KIB),
    ("signal", 6 * KIB, 12 * KIB),
    ("signal-in-child", 6 * KIB, 12 * KIB),
    ("statistics", 6 * KIB, 12 * KIB),
    ("set-filter", 6 * KIB, 12 * KIB),
    ("disable", 6 * KIB, 12 * KIB),
    ("dump", 16 * KIB, 40 * KIB),
    ("exit", 16 * KIB, 40 * KIB),
];

/// The least stack of a main thread that the kernel and the loader get along with, KiB, and the bound.
const MAIN_KIB: usize = 24 + 24;

fn build(arguments: &[&str], path: &str) -> PathBuf {
    let package = Package::copy_of("stacks", "");
    let output = package.cargo("build", arguments);
    assert!(output.status.success(), "{}", text_of(&output));
    package.built(path)
}

fn run(program: &Path, arguments: &[&str], variables: &str, folder: &Folder) -> Outcome {
    let program = Program::new(program, folder).set(variables);
    program.args(arguments).run()
}

/// Holds one way to its bound: by the measure, and above the guard.
fn hold(program: &Path, way: &str, bound: usize, variables: &str) {
    let folder = Folder::new("stacks");
    let measured = run(program, &[way], variables, &folder).ok();
    let used: usize = measured.stdout.trim().parse().expect("a number of bytes");
    assert!(used > 0, "{way} takes nothing: {measured:?}");
    assert!(
        used <= bound,
        "{way} with {variables:?} takes {used} of {bound} bytes"
    );
    let _ = run(program, &[way, &bound.to_string()], variables, &folder).ok();
}

fn hold_all(program: &Path, bound: impl Fn(&(&str, usize, usize)) -> usize) {
    for way in &BOUNDS {
        hold(program, way.0, bound(way), "FDR_MEMORY=64M");
    }
    for format in ["heph", "htdump"] {
        for way in BOUNDS
            .iter()
            .filter(|way| ["dump", "exit"].contains(&way.0))
        {
            hold(
                program,
                way.0,
                bound(way),
                &format!("FDR_MEMORY=64M FDR_FORMAT={format}"),
            );
        }
    }
}

#[test]
fn of_a_release_build() {
    let program = build(&["--release"], "release/stacks");
    hold_all(&program, |&(_, release, _)| release);
}

#[test]
fn where_nothing_is_optimized() {
    let program = build(&[], "debug/stacks");
    hold_all(&program, |&(_, _, unoptimized)| unoptimized);
    // The recorder comes up before `main`, on the main thread's stack.
    let folder = Folder::new("stacks-main");
    let script = format!("ulimit -s {MAIN_KIB}; exec \"$0\" \"$@\"");
    let name = program.to_str().expect("UTF-8");
    let outcome = Program::in_shell(&script, name, &folder);
    let outcome = outcome.args(&["first-record"]).set("FDR=1").run().ok();
    assert!(
        outcome.recorder_lines()[0].starts_with("wrote "),
        "{outcome:?}"
    );
}

#[test]
fn the_guard_is_seen() {
    let program = build(&[], "debug/stacks");
    let folder = Folder::new("stacks-guard");
    let outcome = run(&program, &["dump", "2000"], "FDR_CRASH=0", &folder);
    assert!(!outcome.status.success(), "{outcome:?}");
}
