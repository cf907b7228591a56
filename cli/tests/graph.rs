//! `fdr graph`: who calls whom, as text for Graphviz, as a picture, and for scripts.

use std::fs;

use crate::common::{Folder, answer, fdr, json, small, stderr};

#[test]
fn who_calls_whom_is_told_with_times_and_counts() {
    let folder = Folder::new("graph");
    let trace = folder.file("t.fdr");
    small(&trace, &["app::run", "app::step"]);
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
        assert!(dot.contains(line), "{line}: {dot}");
    }
    // With a threshold, the arrow is left out, and told.
    let cut = answer(&["graph", "--min", "50%", &trace]);
    assert!(
        cut.contains("left out: 0 functions and 1 arrow below 50 % of 1.100 µs"),
        "{cut}"
    );
    assert!(!cut.contains("->"), "{cut}");
    let document = json(&["graph", "--json", "--to", "app::step", &trace]);
    let edge = &document["edges"][0];
    assert_eq!(
        (&edge["from"], &edge["to"]),
        (&"app::run".into(), &"app::step".into())
    );
    assert_eq!(
        (&edge["calls"], &edge["total_ns"]),
        (&2.into(), &500.into())
    );
    // 100 ns of it have no caller.
    assert_eq!(document["all_ns"], 600);
    let documented = include_str!("../../docs/json.md");
    for value in [&document, edge, &document["functions"][0]] {
        for field in value.as_object().expect("an object").keys() {
            assert!(documented.contains(&format!("`{field}`")), "{field}");
        }
    }
    let from = json(&["graph", "--json", "--from", "app::step", &trace]);
    assert_eq!(from["functions"].as_array().map(Vec::len), Some(1));
    let none = fdr(&["graph", "--from", "app::stop", &trace]);
    let said = "--from matches none of 2 called functions; the nearest: app::step";
    assert!(stderr(&none).contains(said), "{none:?}");
}

#[test]
fn a_picture_has_a_box_for_each_function_and_no_markup_of_a_name() {
    let folder = Folder::new("graph-picture");
    let [trace, picture] = ["t.fdr", "x.svg"].map(|name| folder.file(name));
    small(&trace, &["app::run", "<script>alert(1)</script>\u{1b}[2J"]);
    assert_eq!(answer(&["graph", "-o", &picture, &trace]), "");
    let svg = fs::read_to_string(&picture).expect("a picture");
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
    assert_eq!(svg.matches("rx=\"5\"").count(), 2, "{svg}");
    assert_eq!(svg.matches("marker-end").count(), 1, "{svg}");
    assert!(svg.contains(">self 500 ns · 1 call<"), "{svg}");
    let again = fdr(&["graph", "-o", &picture, &trace]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("exists; --force"), "{again:?}");
    // Another name gets the text.
    let text = folder.file("x.dot");
    answer(&["graph", "-o", &text, &trace]);
    assert_eq!(
        fs::read_to_string(&text).expect("text"),
        answer(&["graph", &trace])
    );
}
