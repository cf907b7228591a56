//! Comparisons of runs that are written down here.

use super::compare::Line;
use super::runs::{Figures, Run};
use super::*;
use crate::commands::share;

/// A run of functions, each with its name, its number of calls, and the self time of a call in ns.
fn run(functions: &[(&str, u64, u64)]) -> Run {
    let figures = |&(name, calls, each): &(&str, u64, u64)| {
        let figures = Figures {
            calls,
            own: calls * each,
            total: 2 * calls * each,
            p50: Some(each),
            p99: Some(3 * each),
        };
        (name.to_owned(), figures)
    };
    functions.iter().map(figures).collect()
}

fn line<'a>(comparison: &'a Comparison, name: &str) -> &'a Line {
    let found = comparison.lines.iter().find(|line| line.name == name);
    found.unwrap_or_else(|| panic!("{name}: {comparison:#?}"))
}

/// Three runs that differ by a few ns.
fn three(parse: u64) -> Vec<Run> {
    [0, 3, 5]
        .iter()
        .map(|more| {
            run(&[
                ("app::parse", 100, parse + more),
                ("app::read", 100, 2000 - more),
                ("app::write", 50, 3000 + more),
                ("app::small", 1, 1),
            ])
        })
        .collect()
}

#[test]
fn only_the_slower_function_is_named() {
    let comparison = compare(&three(1000), &three(1100));
    assert_eq!((comparison.runs, comparison.tested), ((3, 3), 3));
    let parse = line(&comparison, "app::parse");
    assert_eq!(parse.verdict, Verdict::Slower);
    assert!((parse.change.unwrap() - 0.1).abs() < 0.001, "{parse:?}");
    assert_eq!(
        comparison.lines[0].name, "app::parse",
        "the largest change first"
    );
    assert_eq!(line(&comparison, "app::read").verdict, Verdict::NotShown);
    assert_eq!(line(&comparison, "app::small").verdict, Verdict::NotTested);
    assert_eq!(slower(&comparison, 0.05), ["app::parse"]);
    assert!(slower(&comparison, 0.15).is_empty());
    let back = compare(&three(1100), &three(1000));
    assert_eq!(line(&back, "app::parse").verdict, Verdict::Faster);
    assert!(slower(&back, 0.0).is_empty());
}

#[test]
fn one_run_shows_nothing() {
    let comparison = compare(&three(1000)[..1], &three(5000));
    let parse = line(&comparison, "app::parse");
    assert_eq!((parse.verdict, parse.chance), (Verdict::NotTested, None));
    assert!(parse.change.unwrap() > 3.9);
}

#[test]
fn moved_functions_are_the_same() {
    let before = run(&[
        ("app::a::Index::add", 10, 100),
        ("app::a::run", 10, 100),
        ("app::b::run", 10, 100),
        ("app::old", 10, 100),
    ]);
    let after = run(&[
        ("app::index::Index::add", 20, 200),
        ("app::c::run", 10, 100),
        ("app::new", 10, 100),
    ]);
    let comparison = compare(&[before], &[after]);
    let add = line(&comparison, "app::index::Index::add");
    assert_eq!(add.was.as_deref(), Some("app::a::Index::add"));
    assert_eq!(add.change, Some(1.0));
    // Two functions could be the one that is there now.
    assert_eq!(line(&comparison, "app::c::run").verdict, Verdict::New);
    assert_eq!(line(&comparison, "app::a::run").verdict, Verdict::Gone);
    assert_eq!(line(&comparison, "app::new").verdict, Verdict::New);
    assert_eq!(line(&comparison, "app::old").verdict, Verdict::Gone);
}

#[test]
fn tables_say_how_sure_they_are() {
    let comparison = compare(&three(1000), &three(1100));
    let text = |write: fn(
        &mut dyn std::io::Write,
        &Comparison,
        Option<NonZeroUsize>,
    ) -> anyhow::Result<()>| {
        let mut out = Vec::new();
        write(&mut out, &comparison, NonZeroUsize::new(2)).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    };
    let table = text(show::table);
    let words = "1 function slower, 0 faster, of 3 tested; 3 runs before, 3 runs after; the chance of any false alarm is below 1 %";
    assert!(table.contains(words), "{table}");
    assert!(table.contains("2 functions not shown (--limit)"), "{table}");
    let markdown = text(show::markdown);
    let row = "| 100 | 100 | 1.003 µs | 1.103 µs | +10.0 % | 1.003 µs | 1.103 µs | 3.008 µs | 3.308 µs | slower | `app::parse` |";
    assert!(markdown.contains(row), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&text(json::write)).expect("JSON");
    assert_eq!(json["functions"][0]["verdict"], "slower");
    assert_eq!(json["functions_not_shown"], 2);
}

#[test]
fn a_share_has_a_sign_behind_it() {
    assert_eq!(share("5%"), Ok(0.05));
    assert_eq!(share("0.5 %"), Ok(0.005));
    for wrong in ["5", "-1%", "x%", "%", "nan%"] {
        assert!(share(wrong).is_err(), "{wrong}");
    }
}
