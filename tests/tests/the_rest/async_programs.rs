//! Tasks of programs on tokio and on smol, and in the combinators of other people's crates. A test is left out where
//! their sources are not on the machine; `cargo xtask test --rest` fetches them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::http_service::number;
use crate::package::{Package, text_of};
use fdr_tests::support::tool::json;

/// The package, built; `None`, and the test is left out, if other people's sources are not on this machine.
fn built(name: &str) -> Option<Package> {
    let package = Package::copy_of(name, "");
    let output = package.cargo("build", &[]);
    let is_missing = |sign: &str| text_of(&output).contains(sign);
    if is_missing("no matching package named") || is_missing("attempting to make an HTTP request") {
        fdr_tests::skip(&format!(
            "tasks of {name}: the sources that it needs are not on this machine"
        ));
        return None;
    }
    assert!(output.status.success(), "{}", text_of(&output));
    Some(package)
}

/// The package of several tests, built once.
fn of_tokio() -> Option<&'static Package> {
    static PACKAGE: OnceLock<Option<Package>> = OnceLock::new();
    PACKAGE.get_or_init(|| built("tokio_tasks")).as_ref()
}

/// Runs the program of the package with these words. Returns what it printed, and the rows of its tasks by name.
fn recorded(
    package: &Package,
    program: &str,
    words: &[&str],
    keep: &str,
) -> (String, BTreeMap<String, Value>) {
    let trace = package.built(&format!("{program}.{}.{keep}.fdr", words.join(".")));
    let output = Command::new(package.built("debug").join(program))
        .args(words)
        .env("FDR", "1")
        .env("FDR_KEEP", keep)
        .env("FDR_OUT", &trace)
        .env("FDR_BUFFER", "64M")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text_of(&output));
    let document = json("report --tasks", &[&trace]);
    std::fs::remove_file(&trace).expect("its trace");
    let rows = document["tasks"].as_array().expect("rows").iter();
    let rows = rows.map(|row| {
        let name = row["name"].as_str().expect("a name");
        (name.replace(&format!("{program}::"), ""), row.clone())
    });
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (printed, rows.collect())
}

/// Tasks that finished, that were dropped, and that have not ended.
fn ends(row: &Value) -> [u64; 3] {
    ["finished", "dropped", "unfinished"].map(|end| number(row, end))
}

#[test]
fn tasks_of_both_runtimes_of_tokio() {
    let Some(package) = of_tokio() else {
        return;
    };
    for (runtime, keep) in [("one", "10s"), ("many", "10s"), ("one", "0"), ("many", "0")] {
        let (printed, rows) = recorded(package, "tokio_tasks", &[runtime], keep);
        assert_eq!(printed, "890 100\n");
        let ends = |name: &str| ends(&rows[name]);
        assert_eq!(ends("serve"), [1, 0, 0], "{runtime} {keep}");
        assert_eq!(ends("ask"), [2 * 890, 0, 0], "{runtime} {keep}");
        assert_eq!(ends("slow"), [0, 100, 0], "{runtime} {keep}");
        // One that is aborted before its first poll is no task yet.
        let [finished, dropped, unfinished] = ends("request");
        assert_eq!((finished, unfinished), (990, 0), "{runtime} {keep}");
        assert!(dropped <= 10, "{runtime} {keep}: {dropped}");
    }
}

/// The program measures its tasks from inside and from outside. The recorder's times lie between the two. Its clock and
/// the program's differ by less than one percent.
#[test]
fn times_of_100000_tasks_lie_within_bounds() {
    let Some(package) = of_tokio() else {
        return;
    };
    for (runtime, keep) in [("one", "10s"), ("many", "10s"), ("one", "0"), ("many", "0")] {
        let words = [runtime, "100000", "100"];
        let (printed, rows) = recorded(package, "tokio_tasks", &words, keep);
        let known: BTreeMap<&str, u64> = printed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, number)| (name, number.parse().expect("a number")))
            .collect();
        assert_eq!((known["finished"], known["dropped"]), (90_000, 10_000));
        let row = &rows["load::request"];
        assert_eq!(ends(row), [90_000, 10_000, 0], "{runtime} {keep}");
        for what in ["busy", "elapsed"] {
            let found = number(row, &format!("{what}_ns"));
            let inside = known[format!("{what}_inside").as_str()];
            let outside = known[what];
            assert!(
                inside / 100 * 99 <= found && found <= outside / 99 * 100,
                "{runtime} {keep} {what}: {inside} {found} {outside}"
            );
        }
        // The rest of the time outside is between the polls.
        let waiting = number(row, "waiting_ns");
        let all = known["busy"] + known["waiting"];
        assert!(
            waiting <= all / 99 * 100,
            "{runtime} {keep}: {waiting} {all}"
        );
        assert!(
            waiting >= known["waiting"] / 100 * 99,
            "{runtime} {keep}: {waiting} {known:?}"
        );
    }
}

/// For each function: how many of its tasks finished, how many were dropped, and how many of the dropped ones were
/// never polled.
const COMBINATORS: [(&str, [u64; 3]); 28] = [
    ("<Memory as Fetch>::fetch", [1, 0, 0]),
    ("<Memory as Store>::get", [2, 1, 1]),
    ("Store::twice", [1, 0, 0]),
    ("all", [1, 0, 0]),
    ("boxed", [1, 0, 0]),
    ("boxes", [1, 0, 0]),
    ("buffered", [15, 0, 0]),
    ("cancelled", [0, 1, 0]),
    ("joined", [8, 0, 0]),
    ("joins", [1, 0, 0]),
    ("methods", [1, 0, 0]),
    ("raced", [1, 0, 0]),
    ("raced_never", [0, 1, 0]),
    ("reader", [1, 0, 0]),
    ("selected", [1, 0, 0]),
    ("selected_never", [0, 1, 0]),
    ("selects", [1, 0, 0]),
    ("sets", [1, 0, 0]),
    ("shared", [1, 0, 0]),
    ("spawned", [3, 0, 0]),
    ("spawned_never", [0, 1, 0]),
    ("spawns", [1, 0, 0]),
    ("streams", [1, 0, 0]),
    ("timed", [1, 0, 0]),
    ("timed_never", [0, 2, 0]),
    ("timeouts", [1, 0, 0]),
    ("unordered", [10, 0, 0]),
    ("unordered of nobody", [0, 2, 2]),
];

#[test]
fn tasks_of_smol_and_of_combinators() {
    let Some(package) = built("combinators") else {
        return;
    };
    for keep in ["10s", "0"] {
        let (printed, rows) = recorded(&package, "combinators", &[], keep);
        assert_eq!(printed, "[13, 3, 1, 45, 45, 5, 7, 6]\n");
        let found: Vec<_> = rows
            .iter()
            .map(|(name, row)| {
                let [finished, dropped, unfinished] = ends(row);
                assert_eq!(unfinished, 0, "{keep} {name}");
                (
                    name.as_str(),
                    [finished, dropped, number(row, "never_polled")],
                )
            })
            .collect();
        assert_eq!(found, COMBINATORS, "{keep}");
    }
}
