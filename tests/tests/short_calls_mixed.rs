//! `FDR_KEEP` in programs that fork, that load plug-ins, and whose signal handlers record. Each call is counted once,
//! in the process that made it.

use fdr_tests::plugin;
use fdr_tests::support::facts::number_behind;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use serde_json::Value;

use super::short_calls::{VARIABLES, is_whole, only_trace, program};
use fdr_tests::support::tool::{number, row, sum};

/// How often a function was called in the whole run.
fn calls(report: &Value, name: &str) -> u64 {
    let row = row(&report["whole_run"], name);
    number(&row.unwrap_or_else(|| panic!("{name} in {report:#}"))["calls"])
}

#[test]
fn parents_and_children_count_their_own_calls() {
    let folder = Folder::new("short-calls-fork");
    let outcome = program(&folder, &["1", "150", "fork"])
        .set("FDR_OUT=%p.fdr")
        .run();
    assert!(outcome.status.success(), "{outcome:?}");
    let is_usual = |line: &str| line.starts_with("fdr: wrote ");
    assert!(outcome.stderr.lines().all(is_usual), "{outcome:?}");
    let processes: Vec<(&str, u64)> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" calls "))
        .map(|(process, calls)| (process, calls.parse().expect("a number")))
        .collect();
    assert_eq!(processes.len(), 2, "{outcome:?}");
    let mut exits_alone = Vec::new();
    for (process, made) in processes {
        let report = is_whole(&folder.join(&format!("{process}.fdr")));
        assert!(sum(&report["threads"], "summarised") > 0);
        assert_eq!(sum(&report["whole_run"], "calls"), made);
        exits_alone.push(sum(&report["threads"], "recorded") - 2 * made);
    }
    // The child leaves a function that it did not enter.
    exits_alone.sort_unstable();
    assert_eq!(exits_alone, [0, 1]);
}

#[test]
fn plugins_and_hosts_count_together() {
    const MANY: u64 = 300_000;
    for host in [
        env!("CARGO_BIN_EXE_traced_host"),
        env!("CARGO_BIN_EXE_bare_host"),
    ] {
        let folder = Folder::new("short-calls-plugin");
        let open = format!("open:{}", plugin().display());
        let outcome = Program::new(host, &folder)
            .set(VARIABLES)
            .args(&[&*open, "own", "many", "own", "close"])
            .run();
        assert!(outcome.status.success(), "{outcome:?}");
        let report = is_whole(&only_trace(&folder));
        assert!(sum(&report["threads"], "summarised") > 0, "{report:#}");
        for name in ["recorded_plugin::plugin_work", "recorded_plugin::inner"] {
            assert_eq!(calls(&report, name), MANY);
        }
        let is_traced = host.ends_with("traced_host");
        if is_traced {
            assert_eq!(calls(&report, "traced_host::own"), 2);
        }
        let all = 2 * MANY + if is_traced { 3 } else { 0 };
        assert_eq!(sum(&report["whole_run"], "calls"), all);
        assert_eq!(sum(&report["threads"], "recorded"), 2 * all);
    }
}

#[test]
fn records_of_handlers_are_counted_or_dropped() {
    let folder = Folder::new("short-calls-handlers");
    let outcome = Program::named("handlers", &folder)
        .set(VARIABLES)
        .args(&["timer"])
        .run();
    assert!(outcome.status.success(), "{outcome:?}");
    let (worked, handled) = (
        number_behind(&outcome.stdout, "worked"),
        number_behind(&outcome.stdout, "handled"),
    );
    let report = is_whole(&only_trace(&folder));
    assert!(sum(&report["threads"], "summarised") > 0, "{report:#}");
    // A handler that interrupts a record drops all four of its own. If it interrupts the first record, they are of no
    // thread.
    let of_none = number(&report["missing"]["dropped"]);
    let recorded = of_none + sum(&report["threads"], "recorded");
    assert_eq!(recorded, 2 * (worked + handled));
    assert_eq!(calls(&report, "programs::handlers::work"), worked);
    let dropped = of_none + sum(&report["threads"], "dropped");
    assert_eq!(dropped % 4, 0, "{report:#}");
    for name in ["programs::handlers::outer", "programs::handlers::inner"] {
        assert_eq!(calls(&report, name), (handled - dropped / 2) / 2);
    }
}
