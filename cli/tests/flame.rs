//! `fdr flame`: the lines that tools for flame graphs get to see.

use crate::common::{Folder, answer, fdr, golden, small, stderr, stdout};

#[test]
fn lines_are_paths_with_their_own_time() {
    let folder = Folder::new("flame");
    let trace = folder.file("t.fdr");
    small(&trace, &["app::run", "app::step"]);
    // f2 takes 200 and 300 ns in f1, and 100 ns on another thread.
    assert_eq!(
        answer(&["flame", &trace]),
        "app::run 500\napp::run;app::step 500\napp::step 100\n"
    );
    assert_eq!(
        answer(&["flame", "--calls", &trace]),
        "app::run 1\napp::run;app::step 2\napp::step 1\n"
    );
    let threads = answer(&["flame", "--per-thread", &trace]);
    let lines: Vec<&str> = threads.lines().collect();
    assert_eq!(lines.len(), 3, "{threads}");
    assert_eq!(lines[2], "worker (thread 8);app::step 100");
}

#[test]
fn names_cannot_make_lines_or_paths() {
    let folder = Folder::new("flame-names");
    let trace = folder.file("t.fdr");
    small(&trace, &["a;b\nc 7", "\u{1b}[2J"]);
    let lines = answer(&["flame", "--calls", &trace]);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("a:b\\nc 7 1\n"), "{lines}");
    assert!(!lines.contains('\u{1b}'), "{lines}");
}

#[test]
fn a_damaged_trace_gives_what_can_be_read() {
    let output = fdr(&["flame", "--calls", &golden("v3-trunc.fdr")]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("is damaged"), "{output:?}");
    assert!(stdout(&output).lines().count() > 0, "{output:?}");
    assert_eq!(fdr(&["flame", "/no/such/trace"]).status.code(), Some(2));
}
