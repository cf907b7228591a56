//! Off means off: without `FDR` in its environment a program makes no system call for the recorder: no
//! file, no mapping, no thread, no handler. Shown by strace, against the same program recorded, so
//! that a check which sees nothing fails.

use std::fs;
use std::path::Path;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

/// What only the recorder does: its kind, how it looks, and how often the program does it itself.
const KINDS: [(&str, &[&str], usize); 6] = [
    ("files of the recorder", &[".fdr", "fdr-ring"], 0),
    ("files that are made", &["O_CREAT"], 0),
    ("shared mappings", &["MAP_SHARED"], 0),
    ("handlers of the dump signal", &["rt_sigaction(SIGUSR2"], 0),
    ("threads", &["CLONE_THREAD"], 1),
    ("space for the ring", &["pwritev("], 0),
];

/// The system calls of the program `plain` and of its threads, and the files that it leaves. `None` and
/// a skip where one may not trace processes.
fn trace(strace: &Path, variables: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (folder, output) = (Folder::new("lifecycle"), Folder::new("lifecycle-strace"));
    let calls = output.join("calls");
    let command = [
        "-f",
        "-o",
        calls.to_str().expect("UTF-8"),
        env!("CARGO_BIN_EXE_plain"),
    ];
    let outcome = Program::new(strace, &folder)
        .args(&command)
        .set(variables)
        .run();
    if outcome.stderr.to_lowercase().contains("ptrace") {
        let why = outcome.stderr.trim();
        fdr_tests::skip(&format!("off means off: strace may not trace: {why}"));
        return None;
    }
    let outcome = outcome.ok();
    assert!(
        outcome.stdout.starts_with("Hello, main!\nHello, thread!\n"),
        "{outcome:?}"
    );
    let calls = fs::read_to_string(&calls).expect("strace's file");
    Some((calls.lines().map(str::to_owned).collect(), folder.names()))
}

/// How many calls hold any of these words.
fn holding(calls: &[String], words: &[&str]) -> usize {
    let holds = |call: &&String| words.iter().any(|word| call.contains(word));
    calls.iter().filter(holds).count()
}

#[test]
fn without_the_variable_nothing_happens() {
    let Some(strace) = fdr_tests::reader("strace", "a run with tracing off leaves nothing") else {
        return;
    };
    let Some((on, left)) = trace(&strace, "FDR=1") else {
        return;
    };
    assert_eq!(left.len(), 1, "{left:?}");
    for (kind, words, own) in KINDS {
        assert!(
            holding(&on, words) > own,
            "{kind} are not seen where they are: {on:#?}"
        );
    }
    for variables in ["", "FDR_DIR=rings/ FDR_SIGNAL=USR2 FDR_PANIC=1", "FDR=off"] {
        let Some((off, left)) = trace(&strace, variables) else {
            return;
        };
        assert_eq!(left, [] as [&str; 0], "{variables}");
        for (kind, words, own) in KINDS {
            assert_eq!(holding(&off, words), own, "{variables}: {kind}: {off:#?}");
        }
    }
}
