//! Traces and rings that released versions wrote (tests/golden/released) are read, for ever. What they must tell
//! follows from the programs that were recorded.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::common::{answer, json};
use fdr_formats::registry;
use serde_json::Value;

/// A traced function of a program: name, line, calls, calls that are clipped, and the longest measured call in
/// ns. A format keeps times to the nanosecond, so a duration may differ by 1.
type Function = (&'static str, u64, u64, u64, Option<u64>);

/// Threads of a trace: name, recorded, readable, dropped.
type Threads = &'static [(&'static str, u64, u64, u64)];

/// What a file must tell.
struct Trace {
    file: &'static str,
    format: &'static str,
    /// How its reason begins.
    reason: &'static str,
    threads: Threads,
    functions: &'static [Function],
}

const HANG: Threads = &[
    ("before", 2, 2, 0),
    ("open_calls", 2, 2, 0),
    ("worker-3", 4, 4, 0),
];
const HANG_CALLS: &[Function] = &[
    ("open_calls::apply", 26, 1, 1, None),
    ("open_calls::serve", 21, 1, 1, None),
    ("open_calls::work", 16, 3, 0, Some(932)),
];
const CRASH_CALLS: &[Function] = &[
    ("open_calls::apply", 26, 1, 1, None),
    ("open_calls::serve", 21, 1, 1, None),
    ("open_calls::work", 16, 3, 0, Some(1142)),
];
const PANIC_CALLS: &[Function] = &[
    ("open_calls::fail", 33, 1, 1, None),
    ("open_calls::wait", 39, 1, 1, None),
    ("open_calls::work", 16, 1, 0, Some(30)),
];
const LEAVES: Threads = &[("leaves", 412, 412, 0)];
/// Untimed functions have no times where the format says that they are untimed.
const LEAVES_CALLS: &[Function] = &[
    ("leaves::inner", 16, 2, 0, Some(912)),
    ("leaves::leaf", 10, 200, 0, None),
    ("leaves::through", 22, 2, 0, None),
    ("leaves::work", 28, 2, 0, Some(2605)),
];
const PLAIN_LEAVES_CALLS: &[Function] = &[
    ("leaves::inner", 16, 2, 0, Some(912)),
    ("leaves::leaf", 10, 200, 0, Some(0)),
    ("leaves::through", 22, 2, 0, Some(1363)),
    ("leaves::work", 28, 2, 0, Some(2605)),
];

const fn hang(file: &'static str, format: &'static str) -> Trace {
    trace(file, format, "signal", HANG, HANG_CALLS)
}

const fn leaves(file: &'static str, format: &'static str) -> Trace {
    trace(file, format, "exit", LEAVES, LEAVES_CALLS)
}

const fn trace(
    file: &'static str,
    format: &'static str,
    reason: &'static str,
    threads: Threads,
    functions: &'static [Function],
) -> Trace {
    Trace {
        file,
        format,
        reason,
        threads,
        functions,
    }
}

const XRAY: &str = "XRay FDR, version 3, little-endian";
const HEPH: &str = "Heph, version 0.1.0";
const HTDUMP: &str = "HawkTracer HTDUMP, little-endian";
const CTF: &str = "CTF 1.8, little-endian";
const STATES: &str = "Trace Compass state history, version 1";
const RING: &str = "ring of process 22761, as XRay FDR, version 3, little-endian";

const VERSION_0_1_0: &[Trace] = &[
    hang("hang.fdr", XRAY),
    hang("hang.version-1.fdr", "XRay FDR, version 1, little-endian"),
    hang("hang.heph", HEPH),
    hang("hang.htdump", HTDUMP),
    hang("hang.big-endian.htdump", "HawkTracer HTDUMP, big-endian"),
    hang("hang.et", "ENTRACE ET, version 1"),
    hang("hang.iet", "ENTRACE IET, version 1"),
    hang("hang.prefix.iet", "ENTRACE IETPrefix, version 1"),
    hang("hang.version-2.et", "ENTRACE ET, version 2"),
    hang("hang.version-2.iet", "ENTRACE IET, version 2"),
    hang("hang.prefix.version-2.iet", "ENTRACE IETPrefix, version 2"),
    hang("hang.tcstate", STATES),
    hang("hang.ctf", CTF),
    trace("crash.fdr", XRAY, "crash: SIGSEGV", HANG, CRASH_CALLS),
    trace(
        "panic.fdr",
        XRAY,
        "panic in thread 23355 (worker-3) at tests/src/bin/open_calls.rs:35:5: index out of bounds",
        &[("waiter", 1, 1, 0), ("worker-3", 3, 3, 0)],
        PANIC_CALLS,
    ),
    trace("killed.fdr-ring.zst", RING, "", HANG, HANG_CALLS),
    leaves("leaves.fdr", XRAY),
    leaves("leaves.fdr.zst", XRAY),
    leaves("leaves.heph", HEPH),
    // These two have no place for the mark of an untimed function.
    trace("leaves.htdump", HTDUMP, "exit", LEAVES, PLAIN_LEAVES_CALLS),
    trace("leaves.ctf", CTF, "exit", LEAVES, PLAIN_LEAVES_CALLS),
    // States have no calls without length; they are counted as dropped.
    trace(
        "leaves.tcstate",
        STATES,
        "exit",
        &[("leaves", 412, 12, 400)],
        &[
            ("leaves::inner", 16, 2, 0, Some(912)),
            ("leaves::through", 22, 2, 0, None),
            ("leaves::work", 28, 2, 0, Some(2605)),
        ],
    ),
    trace(
        "stream.heph",
        HEPH,
        "stream",
        LEAVES,
        &[
            ("leaves::inner", 16, 2, 0, Some(1523)),
            ("leaves::leaf", 10, 200, 0, None),
            ("leaves::through", 22, 2, 0, None),
            ("leaves::work", 28, 2, 0, Some(3677)),
        ],
    ),
    trace(
        "stream.htdump",
        HTDUMP,
        "stream",
        LEAVES,
        &[
            ("leaves::inner", 16, 2, 0, Some(1613)),
            ("leaves::leaf", 10, 200, 0, Some(0)),
            ("leaves::through", 22, 2, 0, Some(2614)),
            ("leaves::work", 28, 2, 0, Some(4488)),
        ],
    ),
];

/// Targets that came after the newest version. The next release has them, and this list is empty again.
const NOT_RELEASED: [&str; 0] = [];

const RELEASED: &[(&str, &[Trace])] = &[("0.1.0", VERSION_0_1_0)];

fn released() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/golden/released"
    ))
}

fn threads(report: &Value) -> Vec<(&str, u64, u64, u64)> {
    let threads = report["threads"].as_array().expect("threads");
    let mut threads: Vec<_> = threads
        .iter()
        .map(|thread| {
            assert_eq!(thread["overwritten"], 0);
            let count = |field: &str| thread[field].as_u64().expect("a count");
            let name = thread["name"].as_str().expect("a name");
            (name, count("recorded"), count("readable"), count("dropped"))
        })
        .collect();
    threads.sort_unstable();
    threads
}

fn check_functions(report: &Value, wanted: &[Function], about: &str) {
    let functions = report["functions"].as_array().expect("functions");
    assert_eq!(functions.len(), wanted.len(), "{about}: {functions:?}");
    for (function, &(name, line, calls, clipped, longest)) in functions.iter().zip(wanted) {
        let program = name.split("::").next().expect("a crate's name");
        let file = format!("tests/src/bin/{program}.rs");
        assert_eq!(function["name"], name, "{about}");
        assert_eq!(function["file"], file, "{about}: {name}");
        assert_eq!(function["line"], line, "{about}: {name}");
        assert_eq!(function["calls"], calls, "{about}: {name}");
        assert_eq!(function["clipped"], clipped, "{about}: {name}");
        match (function["max_ns"].as_u64(), longest) {
            (Some(found), Some(longest)) => {
                assert!(found.abs_diff(longest) <= 1, "{about}: {name}: {found} ns");
            }
            (found, longest) => assert_eq!(found, longest, "{about}: {name}"),
        }
    }
}

#[test]
fn what_a_released_version_wrote_is_read() {
    for (version, traces) in RELEASED {
        for trace in *traces {
            let path = released().join(version).join(trace.file);
            let path = path.to_str().expect("UTF-8");
            let about = format!("{version}/{}", trace.file);
            let report = json(&["report", "--json", "--sort", "name", path]);
            assert_eq!(report["format"], trace.format, "{about}");
            let reason = report["reason"].as_str().expect("a reason");
            assert!(reason.starts_with(trace.reason), "{about}: {reason}");
            assert_eq!(threads(&report), trace.threads, "{about}");
            assert_eq!(report["diagnostics"], Value::Array(Vec::new()), "{about}");
            check_functions(&report, trace.functions, &about);
            let verdict = answer(&["verify", path]);
            assert!(verdict.contains(": OK"), "{about}: {verdict}");
        }
    }
}

/// Each file must be read by a test, and each version must have a file in each format. Otherwise a promise would
/// be untested.
#[test]
fn released_files_of_every_format_are_read() {
    let mut folders: Vec<PathBuf> = fs::read_dir(released())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let versions: Vec<PathBuf> = RELEASED
        .iter()
        .map(|(version, _)| released().join(version))
        .collect();
    assert_eq!(folders, versions);
    for (version, traces) in RELEASED {
        let folder = fs::read_dir(released().join(version)).expect("the folder");
        let there: BTreeSet<String> = folder
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.into_string().expect("UTF-8"))
            .collect();
        let read: BTreeSet<String> = traces.iter().map(|trace| trace.file.to_owned()).collect();
        assert_eq!(there, read, "{version}");
    }
    // The newest version has each other format that can be written now.
    let (version, traces) = RELEASED.last().expect("a version");
    let formats: BTreeSet<&str> = traces.iter().map(|trace| trace.format).collect();
    let written = registry::targets().count() - NOT_RELEASED.len();
    let rings = formats
        .iter()
        .filter(|name| name.starts_with("ring"))
        .count();
    let found = (formats.len() - rings, rings);
    assert_eq!(found, (written, 1), "{version} has {formats:?}");
}
