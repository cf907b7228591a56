//! `fdr report --hist`: what a person, a script and a browser get to see of a distribution.

use std::fs;

use fdr_formats::TraceInfo;

use crate::common::{
    Folder, answer, assert_contains, assert_documented, assert_refused, fdr, functions, in_folder,
    json, small, stderr, write_thread,
};

/// 93 calls of 1 ms and 7 of 40 ms, give or take a little, on one thread.
fn two_groups(path: &str, name: &str) {
    let (mut edges, mut now) = (Vec::new(), 1_000);
    for nth in 0..400_u64 {
        let usual = if nth % 100 < 93 {
            1_000_000
        } else {
            40_000_000
        };
        let lasts = usual + usual / 100 * (nth % 7);
        edges.extend([(now, 1), (now + lasts, -1)]);
        now += lasts + 1000;
    }
    let info = TraceInfo {
        functions: functions(&[name]),
        program: "groups".into(),
        ..TraceInfo::default()
    };
    write_thread(path, &info, &edges);
}

#[test]
fn two_groups_of_calls_are_two_modes() {
    let folder = Folder::new("hist");
    let trace = folder.file("t.fdr");
    two_groups(&trace, "app::handle");
    let text = answer(&["report", "--hist", &trace, "app::handle"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "app::handle");
    assert!(
        lines[1].contains("400 calls · min 1.000 ms · p50 1.0"),
        "{text}"
    );
    assert_contains(&text, "two modes: 93 % about 1.0");
    assert_contains(&text, "ms, 7.0 % about 41.");
    assert_contains(&text, " 1.000 ms ");
    assert_contains(&text, "← p50");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(lines.contains(&"         ⋮"), "{text}");
    let document = json(&["report", "--hist", "--json", &trace, "app::handle"]);
    let function = &document["functions"][0];
    let sum = |list: &serde_json::Value| -> u64 {
        let list = list.as_array().expect("an array").iter();
        list.map(|function| function["calls"].as_u64().expect("a count"))
            .sum()
    };
    assert_eq!(function["calls"], 400);
    assert_eq!(
        (sum(&function["buckets"]), sum(&function["modes"])),
        (400, 400)
    );
    assert_eq!(function["modes"][1]["calls"], 28);
    assert_documented(&function["modes"][0]);
}

#[test]
fn pictures_have_bars_and_escape_names() {
    let folder = Folder::new("hist-picture");
    let (trace, picture) = (folder.file("t.fdr"), folder.file("x.svg"));
    two_groups(&trace, "<script>alert(1)</script>\u{1b}[2J");
    answer(&["report", "--hist", "-o", &picture, &trace, "*script*"]);
    let svg = fs::read_to_string(&picture).expect("a picture");
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
    assert_contains(&svg, "&lt;script&gt;");
    // A colour for each mode, and the percentiles.
    assert_contains(&svg, "#3b76b0");
    assert_contains(&svg, "#e08b27");
    assert_contains(&svg, ">p50 1.0");
    assert_refused(
        &["report", "--hist", "-o", &picture, &trace, "*"],
        "exists; --force",
    );
}

#[test]
fn unknown_functions_suggest_the_nearest() {
    let (_folder, trace) = in_folder("hist-none", "t.fdr", small);
    let output = fdr(&["report", "--hist", &trace, "app::rum"]);
    assert!(output.status.success(), "{output:?}");
    let wanted = "FUNCTION matches none of 2 called functions; the nearest: app::run";
    assert_contains(stderr(&output), wanted);
    // Three calls are too few for modes. A window leaves calls out.
    let all = answer(&["report", "--hist", &trace, "app::*"]);
    assert!(
        all.starts_with("app::step\n  3 calls · min 100 ns"),
        "{all}"
    );
    assert_contains(&all, "too few calls to tell modes");
    let some = answer(&["report", "--hist", "-t", "main", &trace, "app::step"]);
    assert!(
        some.starts_with("app::step\n  2 calls · min 200 ns"),
        "{some}"
    );
}
