//! Libraries that are loaded while the program runs, each with its own copy of the recorder. The first copy keeps the
//! records. A thread has one run of records, whichever libraries it calls. The API of every copy tells of the same
//! recording.

use std::collections::BTreeMap;
use std::fs;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;
use fdr_tests::{example, plugin};

const TRACED: &str = env!("CARGO_BIN_EXE_traced_host");
const BARE: &str = env!("CARGO_BIN_EXE_bare_host");

/// Traced functions of the plug-in: its own three, those of `steps`, their event, and their two kinds of tasks.
const PLUGINS: usize = 3 + 4 + 1 + 2;
/// What is counted of those tasks.
const OF_TASKS: usize = 6;

/// Runs a host; the word `open` stands for opening the plug-in.
fn run(host: &str, folder: &Folder, variables: &str, words: &str) -> Outcome {
    let open = format!("open:{}", plugin().display());
    let words = words.split(' ').map(|word| {
        if word == "open" {
            open.clone()
        } else {
            word.to_owned()
        }
    });
    let words: Vec<String> = words.collect();
    let outcome = Program::new(host, folder)
        .set(variables)
        .args(&words)
        .run()
        .ok();
    assert!(outcome.stdout.contains("done\n"), "{outcome:?}");
    outcome
}

fn calls(trace: &Trace) -> BTreeMap<&str, u64> {
    const NAMES: [&str; 4] = [
        "recorded_plugin::inner",
        "recorded_plugin::plugin_work",
        "traced_host::all",
        "traced_host::own",
    ];
    let calls = trace.calls();
    assert!(
        calls.keys().all(|name| NAMES.contains(&&**name)),
        "{calls:?}"
    );
    NAMES
        .into_iter()
        .filter_map(|name| Some((name, *calls.get(name)?)))
        .collect()
}

/// A whole trace whose counts agree with it.
fn checked(path: &std::path::Path) -> Trace {
    verify(path);
    let trace = Trace::read(path);
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
    trace
}

/// The edges of a trace's only thread, by name.
fn edges(trace: &Trace) -> Vec<String> {
    assert_eq!(trace.threads.len(), 1, "{:?}", trace.names());
    let edge = |edge: &u32| {
        let name = trace.name_of(*edge);
        let short = name.rsplit("::").next().unwrap_or_default().to_owned();
        if edge & 1 == 0 {
            short
        } else {
            format!("/{short}")
        }
    };
    trace.threads[0].edges.iter().map(edge).collect()
}

#[test]
fn the_example() {
    let folder = Folder::new("plugin-example");
    let host = example("plugin_host");
    let _ = Program::new(host, &folder).set("FDR=1").run().ok();
    let trace = checked(&folder.only_trace());
    assert_eq!(trace.names(), ["plugin_host"], "one thread, one block");
    let calls = trace.calls();
    assert_eq!(calls["plugin_host::load"], 1);
    assert_eq!(calls["plugin_host::sum_of_roots"], 1);
    assert_eq!(calls["plugin::plugin_digital_root"], 10_000);
    let digits = (1..=10_000u64).map(|number| {
        let (mut root, mut calls) = (number * 7_919, 0);
        while root > 9 {
            root = root
                .to_string()
                .bytes()
                .map(|digit| u64::from(digit - b'0'))
                .sum();
            calls += 1;
        }
        calls
    });
    assert_eq!(calls["plugin::digits"], digits.sum::<u64>());
}

#[test]
fn both_sides_are_in_order_on_one_thread() {
    let folder = Folder::new("plugin-order");
    let _ = run(TRACED, &folder, "FDR=1", "own open own work own");
    let trace = checked(&folder.only_trace());
    let expected = "all own /own own /own plugin_work inner /inner /plugin_work own /own /all";
    assert_eq!(edges(&trace).join(" "), expected);
}

#[test]
fn a_filter_covers_what_is_loaded_later() {
    let folder = Folder::new("plugin-filter");
    let outcome = run(
        TRACED,
        &folder,
        "FDR=recorded_plugin::*,-*::inner",
        "own open own work",
    );
    let trace = checked(&folder.only_trace());
    assert_eq!(edges(&trace).join(" "), "plugin_work /plugin_work");
    assert!(
        !outcome.stderr.contains("no function matches"),
        "{outcome:?}"
    );
}

#[test]
fn copies_that_come_up_at_once() {
    for clock in ["rdtscp", "rdtsc"] {
        for round in 0..10 {
            let folder = Folder::new("plugin-race");
            // The loader takes a file of another name for another library.
            let copies: Vec<String> = (0..4)
                .map(|at| {
                    let copy = folder.path().join(format!("copy{at}.so"));
                    fs::copy(plugin(), &copy).unwrap();
                    format!("open:{}", copy.display())
                })
                .collect();
            let words = format!("{} race recorded", copies.join(" "));
            let variables = format!("FDR_CLOCK={clock}");
            let outcome = run(BARE, &folder, &variables, &words);
            assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
            let traces = folder.ending(".fdr");
            assert_eq!(
                traces.len(),
                1,
                "one of them records for all: {clock}, round {round}"
            );
            let calls = |path: &std::path::PathBuf| {
                let trace = checked(path);
                calls(&trace).values().sum::<u64>()
            };
            let recorded: u64 = traces.iter().map(calls).sum();
            assert_eq!(recorded, 4 * 100 * 2, "{clock}, round {round}");
        }
    }
}

/// The main thread has the only region; the plug-in's threads come afterwards.
#[test]
fn plugins_count_threads_without_room() {
    for (host, records) in [(TRACED, 8), (BARE, 4)] {
        for clock in ["rdtscp", "rdtsc", "monotonic"] {
            let folder = Folder::new("plugin-roomless");
            let room = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=128K";
            let variables = format!("{room} FDR_CLOCK={clock}");
            let _ = run(host, &folder, &variables, "own open work threads threads");
            let trace = checked(&folder.only_trace());
            assert_eq!(edges(&trace).len(), records, "{host}, {clock}");
            let dropped = trace.info.missing.dropped;
            assert_eq!(dropped, 2 * 4 * 4, "{host}, {clock}");
        }
    }
}

#[test]
fn without_the_variable_nothing_happens() {
    let folder = Folder::new("plugin-unset");
    for host in [TRACED, BARE] {
        let outcome = run(host, &folder, "", "open work threads recorded close");
        assert_eq!(facts::only_line(&outcome.stdout, "recorded"), ["0"]);
        assert_eq!(outcome.stderr, "");
        assert_eq!(folder.names(), [] as [&str; 0]);
    }
}

#[test]
fn a_host_without_the_recorder() {
    let bytes = fs::read(BARE).expect("the program");
    assert!(
        !bytes.windows(9).any(|bytes| bytes == b"fdr_sites"),
        "it has a recorder after all"
    );
    let folder = Folder::new("plugin-bare");
    let outcome = run(BARE, &folder, "FDR=1", "open work threads recorded");
    assert_eq!(facts::only_line(&outcome.stdout, "recorded"), ["20"]);
    let trace = checked(&folder.only_trace());
    assert_eq!(trace.threads.len(), 5);
    let expected = [
        ("recorded_plugin::inner", 5),
        ("recorded_plugin::plugin_work", 5),
    ];
    assert_eq!(calls(&trace).into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn closed_and_opened_again() {
    let folder = Folder::new("plugin-closed");
    for host in [TRACED, BARE] {
        let _ = run(host, &folder, "FDR=1", "open work close open work close");
        let path = folder.only_trace();
        let trace = checked(&path);
        assert_eq!(calls(&trace)["recorded_plugin::inner"], 2, "{host}");
        let names = trace
            .info
            .functions
            .iter()
            .filter(|function| function.name.contains("inner"));
        assert_eq!(names.count(), 1, "{host}");
        fs::remove_file(path).expect("the trace");
    }
}

#[test]
fn two_libraries_and_threads_of_their_own() {
    let folder = Folder::new("plugin-two");
    let libraries = Folder::new("plugin-copies");
    let words: Vec<String> = ["one", "two"]
        .into_iter()
        .flat_map(|name| {
            let copy = libraries.join(name);
            fs::copy(plugin(), &copy).expect("a copy");
            [
                format!("open:{}", copy.display()),
                "work".into(),
                "threads".into(),
                "own".into(),
            ]
        })
        .collect();
    let outcome = run(
        TRACED,
        &folder,
        "FDR=1",
        &format!("{} recorded", words.join(" ")),
    );
    let trace = checked(&folder.only_trace());
    assert_eq!(
        trace.threads.len(),
        9,
        "main and twice four: {:?}",
        trace.names()
    );
    let expected = [
        ("recorded_plugin::inner", 10),
        ("recorded_plugin::plugin_work", 10),
        ("traced_host::all", 1),
        ("traced_host::own", 2),
    ];
    assert_eq!(calls(&trace).into_iter().collect::<Vec<_>>(), expected);
    // Two functions of the host, and those of twice the same plug-in.
    // Their event has two fields, whose names both copies share.
    assert_eq!(trace.info.functions.len(), 2 + 2 * (PLUGINS + OF_TASKS) + 2);
    // One entry of `all` without its exit by then.
    assert_eq!(
        facts::only_line(&outcome.stdout, "recorded"),
        [(2 * 22 + 1).to_string()]
    );
}

#[test]
fn a_guest_dumps_what_the_host_has() {
    let folder = Folder::new("plugin-dumps");
    let outcome = run(TRACED, &folder, "FDR=1", "own open work dump own dump");
    // `all` is still open in both.
    assert_eq!(facts::all(&outcome.stdout, "dumped"), [["7"], ["9"]]);
    let paths = folder.ending(".fdr");
    assert_eq!((paths.len(), folder.names().len()), (3, 3));
    let first = checked(&paths[0]);
    assert_eq!(
        edges(&first).join(" "),
        "all own /own plugin_work inner /inner /plugin_work"
    );
    assert_eq!(
        (first.threads[0].synthetic, &*first.info.reason),
        ([0, 1], "call")
    );
    let numbers: Vec<Option<u64>> = paths.iter().map(|path| checked(path).info.dump).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_guest_turns_recording_on_for_all() {
    for host in [TRACED, BARE] {
        let folder = Folder::new("plugin-enables");
        let outcome = run(
            host,
            &folder,
            "",
            "own open work enable own work threads dump",
        );
        let on = PLUGINS + if host == TRACED { 2 } else { 0 };
        let enabled = facts::only_line(&outcome.stdout, "enabled");
        assert_eq!(enabled, [on.to_string()], "{host}");
        let paths = folder.ending(".fdr");
        assert_eq!((paths.len(), folder.names().len()), (2, 2), "{host}");
        let trace = checked(&paths[1]);
        assert_eq!(calls(&trace)["recorded_plugin::plugin_work"], 5, "{host}");
        assert_eq!(
            calls(&trace).get("traced_host::own"),
            (host == TRACED).then_some(&1)
        );
        assert_eq!(trace.threads.len(), 5, "{host}");
    }
}

/// The plug-in's code makes the records, in its host's slots or in its own. If the loader has no room for the
/// plug-in's thread storage beside the program's, no stub makes records.
#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_record_at_every_plugin_instruction() {
    handlers_that_record(&["rdtsc"]);
}

#[cfg(target_arch = "x86_64")]
mod the_rest {
    #[test]
    fn handlers_record_in_plugins_by_other_clocks() {
        super::handlers_that_record(&["rdtscp", "monotonic"]);
    }
}

/// The events of a plug-in's code, and of a handler that interrupts it, are written by the host.
#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_record_events_in_plugin_events() {
    for (host, open) in [(TRACED, 1), (BARE, 0)] {
        let folder = Folder::new("plugin-events");
        let variables = "FDR=1 FDR_BUFFER=16M STEPPED=events";
        let outcome = run(host, &folder, variables, "open stepped");
        // The function of the host that opens the plug-in has returned by the end.
        crate::recording_stepped::has_each_event(&outcome.stdout, &folder, 2 * open);
    }
}

/// The same for the plug-in's tasks. The host gives them their ids, and counts them.
#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_poll_tasks_in_plugin_polls() {
    for (host, open) in [(TRACED, 1), (BARE, 0)] {
        let folder = Folder::new("plugin-tasks");
        let variables = "FDR=1 FDR_BUFFER=64M STEPPED=tasks";
        let outcome = run(host, &folder, variables, "open stepped");
        crate::recording_stepped::has_each_task(&outcome.stdout, &folder, 2 * open, true);
    }
}

#[cfg(target_arch = "x86_64")]
fn handlers_that_record(clocks: &[&str]) {
    let no_room = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=0";
    for (host, open, loader) in [(TRACED, 1, ""), (BARE, 0, ""), (BARE, 0, no_room)] {
        for clock in clocks {
            let folder = Folder::new("plugin-stepped");
            let variables = format!("FDR=1 FDR_BUFFER=128K FDR_CLOCK={clock} {loader}");
            let outcome = run(host, &folder, &variables, "open stepped");
            let fact = |key| facts::number::<u64>(&facts::only_line(&outcome.stdout, key)[0]);
            assert!(fact("traps") > 5_000, "{}", outcome.stdout);
            let statistics = facts::statistics(&outcome.stdout);
            // The host's own function has been entered.
            assert_eq!(
                facts::total(&statistics),
                2 * (fact("stepped") + fact("handled")) + open,
                "{clock}: {statistics:?}"
            );
            verify(&folder.only_trace());
        }
    }
}

#[test]
fn rings_may_be_cut_while_plugins_record() {
    for (host, words) in [
        (TRACED, "own open work cut work own threads work"),
        (BARE, "open work cut work threads work"),
    ] {
        let folder = Folder::new("plugin-cut");
        let outcome = run(host, &folder, "FDR=1", words);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [line] = lines[..] else {
            panic!("{outcome:?}");
        };
        assert!(line.starts_with("fdr: recording has ended: "), "{line}");
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}

#[test]
fn a_guest_hands_the_hosts_trace_over() {
    for host in [TRACED, BARE] {
        let folder = Folder::new("plugin-handed");
        let words = "open enable work handed work";
        let outcome = run(host, &folder, "", words);
        let records = outcome.fact("handed") as usize;
        let trace = checked(&folder.join("handed"));
        let edges: usize = trace.threads.iter().map(|lane| lane.edges.len()).sum();
        assert_eq!(edges, records, "{outcome:?}");
        assert_eq!(calls(&trace)["recorded_plugin::plugin_work"], 1);
    }
}
