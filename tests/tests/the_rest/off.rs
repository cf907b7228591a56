//! Compares system calls. A program that is built without the recorder (`default-features = false`)
//! makes those of a program without `fdr`, with any environment. A program that is built with the
//! recorder makes the same ones until the recorder is turned on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::package::{Package, text_of};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

/// The program without the recorder, and with it.
fn programs() -> [PathBuf; 2] {
    let package = Package::copy_of("off", "");
    let build = |options: &[&str], copy: &str| {
        let output = package.cargo("build", &[&["--release"], options].concat());
        assert!(output.status.success(), "{}", text_of(&output));
        // The next build takes the place of this one.
        let built = package.built("release/plain");
        let copied = built.with_file_name(copy);
        fs::copy(&built, &copied).expect("a copy");
        copied
    };
    [
        build(&[], "plain-off"),
        build(&["--features", "record"], "plain-on"),
    ]
}

/// How often the program makes each system call; `None` and a skip where strace is missing.
fn system_calls(program: &Path, variables: &str) -> Option<BTreeMap<String, usize>> {
    let strace = fdr_tests::reader(
        "strace",
        "a program without the recorder makes no call for it",
    )?;
    let (folder, output) = (Folder::new("off"), Folder::new("off-strace"));
    let calls = output.join("calls");
    let path = calls.to_str().expect("UTF-8");
    let command = ["-f", "-o", path, program.to_str().expect("UTF-8")];
    let outcome = Program::new(strace, &folder)
        .args(&command)
        // How many calls a thread's arena takes depends on its random address.
        .set("MALLOC_ARENA_MAX=1")
        .set(variables)
        .run();
    if outcome.stderr.to_lowercase().contains("ptrace") {
        fdr_tests::skip("a program without the recorder: strace may not trace");
        return None;
    }
    assert_eq!(outcome.ok().stdout, "Hello, main!\nHello, thread!\n");
    assert_eq!(folder.names(), [] as [&str; 0], "{variables}");
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(&calls).expect("strace's file").lines() {
        let call = line
            .split_once(' ')
            .and_then(|(_, call)| call.trim().split_once('('));
        // Whether the two threads wait for each other, and what the allocator does for them, varies.
        if let Some((name, _)) =
            call.filter(|(name, _)| !["futex", "madvise", "sched_yield"].contains(name))
        {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    Some(counts)
}

// One test: both build in the same folder.
#[test]
fn no_call_is_made_for_the_recorder() {
    let [off, on] = programs();
    let Some(plain) = system_calls(&off, "") else {
        return;
    };
    assert_eq!(
        system_calls(&off, "FDR=1 FDR_OUT=x.fdr"),
        Some(plain.clone())
    );
    // With the recorder but not turned on, the same calls: it looks at its environment and is silent.
    assert_eq!(system_calls(&on, ""), Some(plain));
}
