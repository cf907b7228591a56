//! `fdr flame`: the lines that tools for flame graphs get to see.

use crate::common::{
    Folder, answer, assert_contains, assert_lacks, assert_refused, fdr, golden, in_folder, small,
    small_named, stderr, stdout,
};

#[test]
fn lines_are_paths_with_their_own_time() {
    let (_folder, trace) = in_folder("flame", "t.fdr", small);
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
    small_named(&trace, &["a;b\nc 7", "\u{1b}[2J"]);
    let lines = answer(&["flame", "--calls", &trace]);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert_contains(&lines, "a:b\\nc 7 1\n");
    assert!(!lines.contains('\u{1b}'), "{lines}");
}

#[test]
fn a_damaged_trace_gives_what_can_be_read() {
    let output = fdr(&["flame", "--calls", &golden("v3-trunc.fdr")]);
    assert!(output.status.success());
    assert_contains(stderr(&output), "is damaged");
    assert!(stdout(&output).lines().count() > 0, "{output:?}");
    assert_eq!(fdr(&["flame", "/no/such/trace"]).status.code(), Some(2));
}

#[test]
fn a_picture_has_a_frame_for_each_path() {
    let folder = Folder::new("flame-picture");
    let [trace, picture] = ["t.fdr", "x.svg"].map(|name| folder.file(name));
    small_named(&trace, &["app::run", "</title><script>alert(1)</script>"]);
    assert_eq!(answer(&["flame", "-o", &picture, &trace]), "");
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert_eq!(svg.matches("class=\"f\"").count(), 4, "{svg}");
    assert_contains(&svg, ">small (process 7): time by path of calls<");
    assert_contains(&svg, "<title>app::run · 1.000 µs · 90.91 %</title>");
    // The one script is ours.
    assert_eq!(svg.matches("<script").count(), 1, "{svg}");
    assert_contains(&svg, "&lt;/title&gt;&lt;script&gt;");
    assert_contains(&svg, ">search (Ctrl+F)</text>");
    // Two traces are one picture: twice the time, the same paths.
    answer(&["flame", "-o", &picture, "--force", &trace, &trace]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert_contains(&svg, "<title>app::run · 2.000 µs · 90.91 %</title>");
    assert_refused(&["flame", "-o", &picture, &trace], "exists; --force");
    // Another name gets the lines.
    let lines = folder.file("x.folded");
    answer(&["flame", "-o", &lines, &trace]);
    let lines = std::fs::read_to_string(&lines).expect("lines");
    assert_eq!(lines, answer(&["flame", &trace]));
}

#[test]
fn a_comparison_is_a_picture_of_what_changed() {
    let folder = Folder::new("flame-diff");
    let [before, after, picture] = ["a.fdr", "b.fdr", "x.svg"].map(|name| folder.file(name));
    small(&before);
    small_named(&after, &["app::run", "app::other"]);
    answer(&["diff", "--flame", &picture, &before, &after]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert_contains(
        &svg,
        "<title>app::other · 500 ns · 45.45 % · before 0 ns · new</title>",
    );
    assert_contains(
        &svg,
        "<title>app::run · 1.000 µs · 90.91 % · before 1.000 µs · +0.0 %</title>",
    );
    assert_contains(&svg, "600 ns before in paths that are gone");
    assert_lacks(&svg, "app::step");
}
