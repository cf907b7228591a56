//! The rules about rooms, shown to refuse what breaks them. Each crate is a few lines of text.

use super::*;

const TABLE: &str = "\
# Rooms
| runtime/ | uses | what it holds |
| --- | --- | --- |
| `low` | no other | x |
| `middle` | low | x |
| `high` | middle | x |

| other | uses |
| --- | --- |
| `attic` | low |
";

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let owned = files
        .iter()
        .map(|&(path, text)| (path.to_owned(), text.to_owned()));
    owned.collect()
}

fn checked(page: &str, files: &[(&str, &str)]) -> Vec<Finding> {
    table(&rows(page), "src", &sources(files)).expect("Rust")
}

fn whats(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}

const GOOD: [(&str, &str); 4] = [
    ("lib.rs", "pub use high::f;\nmod low;\n"),
    (
        "low.rs",
        "//! Holds crate::high::f.\nconst X: &str = \"crate::high::f\";\n",
    ),
    ("middle/mod.rs", "use crate::low;\nuse super::low::g;\n"),
    ("high.rs", "use crate::middle::{self, inner};\n"),
];

#[test]
fn a_good_crate_passes() {
    assert_eq!(checked(TABLE, &GOOD), []);
}

#[test]
fn a_planted_arrow_is_refused() {
    for (path, planted) in [
        ("low.rs", "fn f() {\n    crate::high::g();\n}\n"),
        ("low.rs", "\nuse crate::{low::x, high::{a, b}};\n"),
        ("low.rs", "\nuse super::high::g;\n"),
        ("low.rs", "mod inner {\n    use super::super::high;\n}\n"),
        ("low.rs", "#[cfg(not(test))]\nuse crate::high;\n"),
        ("low/deep.rs", "\nuse super::super::{high, low};\n"),
        ("low.rs", "fn f() {\n    assert!(crate::high::g());\n}\n"),
        (
            "low.rs",
            "macro_rules! m {\n    () => { $crate::high::g() };\n}\n",
        ),
        ("low/deep/mod.rs", "\nuse super::super::high;\n"),
    ] {
        let mut files = GOOD.to_vec();
        files.push((path, planted));
        let found = whats(&checked(TABLE, &files));
        let wanted =
            format!("src/{path}:2: low must not use high: see {PAGE} for the order of rooms");
        assert_eq!(found, [wanted], "{planted}");
    }
}

#[test]
fn what_is_no_arrow_passes() {
    for (path, text) in [
        ("low/tests.rs", "use crate::high;\n"),
        ("low/tests/deep.rs", "use crate::high;\n"),
        (
            "low.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::high;\n    fn f() { {} }\n}\n",
        ),
        ("low.rs", "#[cfg(all(loom, test))]\nuse crate::high;\n"),
        ("low.rs", "mod inner {\n    use super::high;\n}\n"),
        ("low/deep.rs", "use super::high;\n"),
        ("low.rs", "// crate::high\nuse crate::low::high;\n"),
    ] {
        let mut files = GOOD.to_vec();
        files.push((path, text));
        assert_eq!(checked(TABLE, &files), [], "{text}");
    }
}

#[test]
fn a_file_that_is_no_rust_is_named() {
    let error = arrows("src", &sources(&[("low.rs", "fn f() {\n")])).expect_err("no Rust");
    assert!(error.starts_with("src/low.rs: "), "{error}");
}

#[test]
fn a_table_that_says_too_much_is_refused() {
    let page = TABLE.replace("| no other |", "| high |");
    let page = page.replace(
        "| `high` | middle | x |",
        "| `high` | middle, low | x |\n| `attic` | no other | x |",
    );
    let found = whats(&checked(&page, &GOOD));
    assert_eq!(
        found,
        [
            "ARCHITECTURE.md: low may use high, but does not: take it out of the table",
            "ARCHITECTURE.md: low uses high, which is no lower room: change the order",
            "ARCHITECTURE.md: high may use low, but does not: take it out of the table",
            "ARCHITECTURE.md: src has no room attic: take it out of the table",
        ]
    );
}

#[test]
fn a_room_without_a_row_is_refused() {
    let mut files = GOOD.to_vec();
    files.extend([("new.rs", ""), ("middle/x.rs", "use crate::Thing;\n")]);
    let found = whats(&checked(TABLE, &files));
    assert_eq!(
        found,
        [
            "ARCHITECTURE.md: the room new is not in the table of src: add it",
            "src/middle/x.rs:1: Thing is no room: name its room",
        ]
    );
}

#[test]
fn a_circle_of_formats_is_refused() {
    let good = [
        ("model.rs", "use crate::scale;\n"),
        ("registry.rs", "use crate::xray;\nuse crate::ring;\n"),
        ("ring/mod.rs", "use crate::xray;\n"),
        ("scale.rs", ""),
        ("xray/mod.rs", "use crate::model;\n"),
    ];
    let arrows_of = |more: (&'static str, &'static str)| {
        let files: Vec<_> = good.into_iter().chain([more]).collect();
        arrows("src", &sources(&files)).expect("Rust")
    };
    let arrows = arrows_of(("heph/mod.rs", "use crate::model;\n"));
    assert_eq!((circles(&arrows), formats_apart(&arrows)), (vec![], vec![]));
    let circle = arrows_of(("scale/unit.rs", "use crate::model;\n"));
    let found = whats(&circles(&circle));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("src/model.rs:1: model uses scale"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("src/scale/unit.rs:1: scale uses model"),
        "{found:?}"
    );
    let named = arrows_of(("heph/mod.rs", "use crate::xray;\n"));
    assert_eq!(
        whats(&formats_apart(&named)),
        ["src/heph/mod.rs:1: heph must not name the format xray"]
    );
}

#[test]
fn a_circle_inside_a_room_is_refused() {
    let good = [
        ("room/mod.rs", "mod a;\nmod b;\npub use a::f;\n"),
        ("room/a.rs", "use super::b;\n"),
        ("room/b/mod.rs", "use super::Item;\nuse self::deep::x;\n"),
        ("room/b/deep.rs", "use crate::room::b::y;\n"),
        ("other.rs", "use crate::room::{a, b};\n"),
    ];
    let found = |more: (&'static str, &'static str)| {
        let files: Vec<_> = good.into_iter().chain([more]).collect();
        whats(&circles_inside("src", &sources(&files)).expect("Rust"))
    };
    assert_eq!(found(("room/c.rs", "use super::{a::g, b};\n")), [""; 0]);
    for planted in [
        "use super::super::{a::x, Item};\n",
        "use crate::{other, room::{a, b::deep}};\n",
        "fn f() { crate::room::a::g() }\n",
    ] {
        let circle = found(("room/b/more.rs", planted));
        assert_eq!(
            circle,
            [
                "src/room/a.rs:1: a uses b, and b uses a or what leads to it: cut the circle",
                "src/room/b/more.rs:1: b uses a, and a uses b or what leads to it: cut the circle",
            ],
            "{planted}"
        );
    }
    let deeper = found(("room/b/more.rs", "use super::deep;\n"));
    assert_eq!(deeper, [""; 0]);
}
