//! Compaction changes no row, and expiry takes spans and events alone.

use crate::support::{Folder, Process, export, files, fleet_ok, number, rows, trace};

const TABLES: [&str; 9] = [
    "spans",
    "function_stats",
    "function_lengths",
    "functions",
    "threads",
    "processes",
    "hosts",
    "traces",
    "losses",
];

fn all_rows(folder: &Folder) -> Vec<Vec<String>> {
    let all = |table: &&str| {
        let mut rows = rows(folder, &format!("SELECT * FROM raw_{table}"));
        rows.sort();
        rows
    };
    TABLES.iter().map(all).collect()
}

#[test]
fn compaction_changes_no_row() {
    let folder = Folder::new();
    let make = |nth: u64| {
        let process = Process::new("api", ["alpha", "beta"][nth as usize % 2], 100 * (nth + 1));
        trace(&folder, &format!("{nth}.fdr"), &process, nth + 1, 2, 100)
    };
    let traces: Vec<_> = (0..6).map(make).collect();
    export(&folder, &traces);
    let before = all_rows(&folder);
    let place = folder.place();
    fleet_ok(&["compact", &place]);
    assert!(all_rows(&folder) == before);
    // The old files are there until the grace has passed.
    let many = files(&folder.path("store")).len();
    let text = fleet_ok(&["compact", &place, "--grace", "0s"]);
    assert!(text.starts_with("0 files became 0;"), "{text}");
    let few = files(&folder.path("store"));
    assert!(few.len() < many / 2, "{} of {many}", few.len());
    // A table on a host has one file; and there is one manifest.
    assert_eq!(few.len(), 2 * TABLES.len() + 1, "{few:?}");
    assert!(all_rows(&folder) == before);
    assert_eq!(
        export(&folder, &traces),
        "0 exported, 6 were there already, 0 failed\n"
    );
    // What comes later is seen beside them, and joins them.
    export(&folder, &[make(6)]);
    let before = all_rows(&folder);
    fleet_ok(&["compact", &place, "--grace", "0s"]);
    assert!(all_rows(&folder) == before);
    assert_eq!(files(&folder.path("store")).len(), 2 * TABLES.len() + 1);
}

#[test]
fn expiry_takes_old_spans_alone() {
    let folder = Folder::new();
    let old = Process::new("api", "alpha", 100);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let new = Process {
        start: now.as_nanos() as u64,
        ..Process::new("api", "alpha", 200)
    };
    let traces = [
        trace(&folder, "old.fdr", &old, 1, 1, 150),
        trace(&folder, "new.fdr", &new, 2, 1, 250),
    ];
    export(&folder, &traces);
    let place = folder.place();
    fleet_ok(&["expire", &place, "--older", "30d", "--grace", "0s"]);
    assert_eq!(
        rows(
            &folder,
            "SELECT process_key IS NULL, COUNT(*) FROM spans GROUP BY 1"
        ),
        ["false,250"]
    );
    assert_eq!(
        number(&folder, "SELECT SUM(calls) FROM function_stats"),
        400
    );
    assert_eq!(files(&folder.path("store/v1/spans")).len(), 1);
    // It does not come back.
    assert_eq!(
        export(&folder, &traces),
        "0 exported, 2 were there already, 0 failed\n"
    );
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM spans"), 250);
    let text = fleet_ok(&["expire", &place, "--older", "30d"]);
    assert!(text.starts_with("0 files expired"), "{text}");
}
