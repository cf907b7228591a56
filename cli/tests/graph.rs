//! `fdr graph`: who calls whom, as text for Graphviz, as a picture, and for scripts.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{
    Folder, answer, assert_contains, assert_documented, assert_lacks, assert_refused, command, fdr,
    in_folder, json, small, small_named, stderr,
};

#[test]
fn callers_have_times_and_counts() {
    let (_folder, trace) = in_folder("graph", "t.fdr", small);
    let dot = answer(&["graph", &trace]);
    assert!(
        dot.starts_with("digraph \"small (process 7): who calls whom\" {\n"),
        "{dot}"
    );
    for line in [
        "n0 [label=\"app::run\\n1.000 µs · 90.9 %\\nself 500 ns · 1 call\"",
        "n1 [label=\"app::step\\n600 ns · 54.5 %\\nself 600 ns · 3 calls\"",
        "n0 -> n1 [label=\"500 ns\\n2×\"",
    ] {
        assert_contains(&dot, line);
    }
    // With a threshold, the arrow is left out, and a line says so.
    let cut = answer(&["graph", "--min", "50%", &trace]);
    assert_contains(
        &cut,
        "left out: 0 functions and 1 arrow below 50 % of 1.100 µs",
    );
    assert_lacks(&cut, "->");
    let document = json(&["graph", "--json", "--to", "app::step", &trace]);
    let edge = &document["edges"][0];
    assert_eq!(edge["from"], "app::run");
    assert_eq!(edge["to"], "app::step");
    assert_eq!(edge["calls"], 2);
    assert_eq!(edge["total_ns"], 500);
    // 100 ns of it have no caller.
    assert_eq!(document["all_ns"], 600);
    for value in [&document, edge, &document["functions"][0]] {
        assert_documented(value);
    }
    let from = json(&["graph", "--json", "--from", "app::step", &trace]);
    assert_eq!(from["functions"].as_array().map(Vec::len), Some(1));
    let none = fdr(&["graph", "--from", "app::stop", &trace]);
    let wanted = "--from matches none of 2 called functions; the nearest: app::step";
    assert_contains(stderr(&none), wanted);
}

/// A folder with a program of that name and these lines, before the folders of `PATH`.
fn path_with(folder: &Folder, program: &str, lines: &str) -> OsString {
    let bin = folder.file("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let path = format!("{bin}/{program}");
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("a program");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    let mut folders = OsString::from(bin);
    folders.push(":");
    folders.push(env::var_os("PATH").unwrap_or_default());
    folders
}

#[test]
fn graphviz_draws_the_picture_of_the_text() {
    let folder = Folder::new("graph-picture");
    let [trace, picture, text] = ["t.fdr", "x.svg", "x.dot"].map(|name| folder.file(name));
    small_named(&trace, &["app::run", "<script>alert(1)</script>\u{1b}[2J"]);
    let draw = |path: &OsStr| {
        let mut command = command();
        command.args(["graph", "-o", &picture, &trace]);
        command.env("PATH", path).output().expect("it runs")
    };
    // It shows what it was given.
    let drawn = draw(&path_with(&folder, "dot", "echo \"<svg $*>\"; cat"));
    assert!(drawn.status.success(), "{drawn:?}");
    answer(&["graph", "-o", &text, &trace]);
    let text = fs::read_to_string(&text).expect("text");
    assert_eq!(text, answer(&["graph", &trace]));
    let svg = fs::read_to_string(&picture).expect("a picture");
    assert_eq!(svg, format!("<svg -Tsvg>\n{text}"));
    assert_refused(&["graph", "-o", &picture, &trace], "exists; --force");
    fs::remove_file(&picture).expect("removed");
    for (lines, wanted) in [
        (
            "cat > /dev/null; echo no font >&2; exit 3",
            "dot: exit status: 3: no font",
        ),
        (
            "exec < /dev/null; echo no time >&2; exit 1",
            "dot: exit status: 1: no time",
        ),
    ] {
        let failed = draw(&path_with(&folder, "dot", lines));
        assert_eq!(failed.status.code(), Some(2), "{failed:?}");
        assert_contains(stderr(&failed), wanted);
        assert!(!Path::new(&picture).exists(), "{lines}");
    }
    let missing = draw(OsStr::new("/nowhere"));
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert_contains(stderr(&missing), "install Graphviz, or write the text");
}
