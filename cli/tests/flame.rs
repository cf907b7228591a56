//! `fdr flame`: the lines that tools for flame graphs get to see.

use crate::common::{
    Folder, answer, assert_contains, assert_lacks, assert_refused, fdr, golden, in_folder, info,
    small, small_named, stderr, stdout, write_thread,
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
    // One run on a side says nothing about chance.
    assert_contains(&svg, "no colours: with one run on a side");
    assert_eq!(coloured(&svg), [""; 0]);
}

/// The names of the frames that are red or blue.
fn coloured(svg: &str) -> Vec<&str> {
    let frames = svg.split("<title>").skip(1);
    let coloured = frames.filter(|frame| frame.contains(",85%,"));
    coloured
        .filter_map(|frame| frame.split(" · ").next())
        .collect()
}

#[test]
fn a_change_that_may_be_chance_has_no_colour() {
    let folder = Folder::new("flame-chance");
    let picture = folder.file("x.svg");
    // Runs that differ by a few parts of a hundred, which are not the same on both sides.
    let sides = [
        ("before", [1000, 1030, 985], 500),
        ("equal", [1020, 990, 1005], 503),
        ("slower", [1010, 980, 1025], 800),
    ];
    for (side, runs, step) in sides {
        std::fs::create_dir(folder.file(side)).expect("a folder");
        for (nth, own) in runs.into_iter().enumerate() {
            let step = step * own / 1000;
            let edges = [
                (0, 1),
                (100, 2),
                (100 + step, -2),
                (100 + step, 3),
                (100 + step + own, -3),
                (200 + step + own, -1),
            ];
            let trace = folder.file(&format!("{side}/{nth}.fdr"));
            write_thread(
                &trace,
                &info(&["app::run", "app::step", "app::steady"]),
                &edges,
            );
        }
    }
    let draw = |after: &str| {
        let (before, after) = (folder.file("before"), folder.file(after));
        answer(&["diff", "--force", "--flame", &picture, &before, &after]);
        std::fs::read_to_string(&picture).expect("a picture")
    };
    let svg = draw("equal");
    assert_contains(&svg, "grey: it may be chance");
    assert_eq!(coloured(&svg), [""; 0], "{svg}");
    let svg = draw("slower");
    assert!(coloured(&svg).contains(&"app::step"), "{svg}");
    assert!(!coloured(&svg).contains(&"app::steady"), "{svg}");
}
