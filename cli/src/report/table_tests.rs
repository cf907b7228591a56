//! Tables of all widths.

use super::*;

fn row(name: &str) -> Row {
    Row {
        name: name.into(),
        file: "src/a.rs".into(),
        line: 7,
        id: 1,
        calls: 12_345,
        clipped: 0,
        untimed: false,
        counted: 0,
        level: fdr_formats::model::Level::Timed,
        calls_error: None,
        nests: false,
        of_records: false,
        error_ns: None,
        total_ns: 1_234_567,
        self_ns: 1_234_567,
        min_ns: Some(1),
        mean_ns: Some(100),
        p50_ns: None,
        p90_ns: Some(12_345),
        p99_ns: Some(1_234_567),
        max_ns: Some(1_234_567),
        states: None,
    }
}

/// A report of those functions, in one table.
fn report(names: &[&str]) -> Report {
    Report {
        tasks: (None, 0),
        whole: None,
        is_whole: false,
        has_all: false,
        rows: names.iter().map(|name| row(name)).collect(),
        hidden: 0,
        self_ns: 2_469_134,
        threads: Vec::new(),
        duration_ns: 0,
        timeless: false,
        flaws: Default::default(),
        clipped: 0,
        untimed: 0,
        untimed_ns: 0,
        missing: Default::default(),
        open: Vec::new(),
        moments: Default::default(),
        events: Default::default(),
        waits: Default::default(),
        recording_cost: None,
        window_note: None,
        clock_notes: Vec::new(),
        diagnostics: Vec::new(),
        more_diagnostics: 0,
    }
}

fn look(columns: Option<usize>, places: bool) -> TableStyle {
    TableStyle {
        places,
        colour: false,
        columns,
        timeless: false,
        ends_early: false,
    }
}

/// The table at that width, and how it fits.
fn table_of(names: &[&str], columns: Option<usize>, places: bool) -> (Vec<String>, TableLayout) {
    let (report, look) = (report(names), look(columns, places));
    let fit = TableLayout::new(&report, look);
    let mut out = Vec::new();
    write_rows(&mut out, &report.rows, 2_469_134, look, &fit).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(str::to_owned).collect(), fit)
}

fn table(columns: Option<usize>, places: bool) -> (Vec<String>, Vec<&'static str>) {
    let names = ["my_application::module::Type::method", "x"];
    let (lines, fit) = table_of(&names, columns, places);
    (lines, fit.left_out)
}

#[test]
fn a_table_fits_its_terminal() {
    let (whole, nothing) = table(None, false);
    assert_eq!(nothing, [""; 0]);
    assert!(whole[1].ends_with(" my_application::module::Type::method"));
    let (full, nothing) = table(Some(139), false);
    assert_eq!(nothing, [""; 0]);
    assert!(full[1].ends_with(" my_application::module::Type::method"));
    let (shorter, nothing) = table(Some(132), false);
    assert_eq!(nothing, [""; 0]);
    assert!(
        shorter[1].ends_with(" my_applicati…dule::Type::method"),
        "{shorter:?}"
    );
    for (places, least) in [(false, 43), (true, 55)] {
        for columns in least..=140 {
            let (lines, _) = table(Some(columns), places);
            assert_eq!(lines.len(), 3);
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}: {lines:?}");
        }
    }
}

#[test]
fn columns_keep_order_and_numbers_stay_whole() {
    assert_eq!(table(Some(90), false).1, ["min", "self %", "mean", "p90"]);
    let (lines, left_out) = table(Some(80), false);
    assert_eq!(left_out, ["min", "self %", "mean", "p90", "max"]);
    let head: Vec<&str> = lines[0].split("  ").map(str::trim).collect();
    let head: Vec<&&str> = head.iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        head,
        [&"calls", &"total", &"self", &"p50", &"p99", &"function"]
    );
    // So narrow that nothing helps.
    let (lines, left_out) = table(Some(20), false);
    let timely = LEFT_OUT.into_iter();
    let timely = timely.filter(|name| !["running", "preempted", "waiting"].contains(name));
    let timely: Vec<&str> = timely.filter(|name| !SELF_STATES.contains(name)).collect();
    assert_eq!(left_out, timely);
    let cells: Vec<&str> = lines[1].split("  ").map(str::trim).collect();
    assert!(
        cells.contains(&"12,345") && cells.contains(&"1.235 ms"),
        "{cells:?}"
    );
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["calls", "self", "function"]
    );
}

#[test]
fn shared_paths_are_left_out_without_room() {
    let names = [
        "my_app::index::Index::add_a_word_to_the_list",
        "<my_app::pool::Worker as my_app::Run>::run",
        "my_app::main",
    ];
    let (lines, fit) = table_of(&names, Some(80), false);
    assert_eq!(fit.prefix, "my_app::");
    let last = |line: &String| {
        line.rsplit("  ")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let shown: Vec<String> = lines[1..].iter().map(last).collect();
    assert_eq!(shown[2], "main");
    assert!(shown[0].starts_with("index::Ind"), "{shown:?}");
    assert!(shown[1].starts_with("<pool::Wor"), "{shown:?}");
    assert_eq!(table_of(&names, Some(200), false).1.prefix, "");
    assert_eq!(table_of(&names, None, false).1.prefix, "");
    let others = [
        "my_app::index::Index::add_a_word_to_the_list",
        "my_apple::x",
    ];
    assert_eq!(table_of(&others, Some(80), false).1.prefix, "");
    assert_eq!(path_of("<T as a::B>::c"), "");
    assert_eq!(path_of("a::b<c::d>::e"), "a::");
}
