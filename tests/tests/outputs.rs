//! Where traces and rings go: into folders, beside files, to devices.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};

const STEADFAST: &str = env!("CARGO_BIN_EXE_steadfast");

/// The names in /dev that are a recorder's, or made of the output's.
fn in_dev() -> BTreeSet<String> {
    let entries = fs::read_dir("/dev").expect("/dev");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let names = entries.map(|entry| name(entry.expect("an entry")));
    let parts = ["fdr", "programs", "steadfast", "null.", "full.", "stdout."];
    names
        .filter(|name| parts.iter().any(|part| name.contains(part)))
        .collect()
}

fn steadfast(folder: &Folder, variables: &str, steps: &str) -> Outcome {
    let program = Program::new(STEADFAST, folder).env("RUST_BACKTRACE", "0");
    let steps: Vec<&str> = steps.split(' ').collect();
    program.set(variables).args(&steps).run()
}

#[test]
fn no_trace_is_wanted_in_dev_null() {
    let before = in_dev();
    let ways = [
        ("work exit", 1),
        ("work dump exit", 1),
        ("work signal exit", 2),
        ("work caught exit", 2),
        ("work panic", 2),
        ("work fork exit", 2),
        ("work abort", 0),
        ("work crash", 0),
    ];
    for (steps, written) in ways {
        for more in ["", "FDR_FORMAT=heph", "FDR_MODE=stream"] {
            let folder = Folder::new("output-null");
            let variables = format!("FDR=1 FDR_OUT=/dev/null FDR_SIGNAL=WINCH FDR_PANIC=1 {more}");
            let outcome = steadfast(&folder, &variables, steps);
            let case = format!("{variables}: {steps}: {outcome:?}");
            let lines = outcome.recorder_lines();
            let is_of = |line: &&&str| line.starts_with("wrote /dev/null: ");
            assert_eq!(lines.iter().filter(is_of).count(), lines.len(), "{case}");
            // Two signals may make one dump together, and a call of `dump` prints no line.
            assert!(
                lines.len() >= written.min(1) && lines.len() <= written + 1,
                "{case}"
            );
            assert_eq!(folder.names(), [] as [&str; 0], "{case}");
            assert_eq!(in_dev(), before, "{case}");
        }
    }
}

#[test]
fn ring_paths_hold_without_traces() {
    let variables = "FDR=1 FDR_OUT=/dev/null FDR_DIR=. FDR_CRASH=0";
    let folder = Folder::new("output-null-ring");
    let outcome = steadfast(&folder, variables, "work exit");
    assert_eq!(folder.names(), [] as [&str; 0], "{outcome:?}");
    let outcome = steadfast(&folder, variables, "work abort");
    assert_eq!(outcome.status.signal(), Some(libc::SIGABRT));
    assert_eq!(folder.ending(".fdr-ring").len(), 1, "{outcome:?}");
    assert_eq!(folder.names().len(), 1, "{outcome:?}");
}

#[test]
fn beside_a_device_nothing_is_made() {
    let before = in_dev();
    for (steps, more) in [
        ("work exit", ""),
        ("work exit", "FDR_FORMAT=heph"),
        ("work exit", "FDR_MODE=stream"),
        ("work crash", ""),
        ("work crash", "FDR_FORMAT=heph"),
        ("work fork exit", ""),
    ] {
        let folder = Folder::new("output-device");
        let variables = format!("FDR=1 FDR_OUT=/dev/full {more}");
        let outcome = steadfast(&folder, &variables, steps);
        let lines = outcome.recorder_lines();
        let case = format!("{variables}: {steps}: {outcome:?}");
        // The records are in the program's own folder.
        let rings = folder.ending(".fdr-ring");
        let traces = 1 + usize::from(steps.contains("fork"));
        assert_eq!(
            (rings.len(), folder.names().len()),
            (traces, traces),
            "{case}"
        );
        assert_eq!(lines.len(), traces, "{case}");
        for line in lines {
            assert!(line.contains("no trace was written: /dev/full: "), "{case}");
            assert!(line.contains("; FDR_OUT gives another place; "), "{case}");
            assert!(
                rings
                    .iter()
                    .any(|ring| line.ends_with(&*ring.to_string_lossy())),
                "{case}"
            );
        }
        assert_eq!(in_dev(), before, "{case}");
    }
}

#[test]
fn a_link_to_an_open_file_stays_one() {
    for steps in ["work exit", "work crash"] {
        let folder = Folder::new("output-link");
        symlink("/proc/self/fd/1", folder.join("out")).expect("a link");
        let script = format!("exec \"$0\" {steps} > stdout");
        let program = Program::in_shell(&script, STEADFAST, &folder);
        let outcome = program.set("FDR=1 FDR_OUT=out").run();
        let link = fs::symlink_metadata(folder.join("out")).expect("it is there");
        assert!(link.is_symlink(), "{outcome:?}");
        assert_eq!(
            fs::read_to_string(folder.join("stdout")).expect("it"),
            "315\n"
        );
        let lost = outcome.recorder_lines().join("\n");
        assert!(lost.contains("no trace was written: "), "{outcome:?}");
    }
}

#[test]
fn folders_as_outputs_stay_folders() {
    let folder = Folder::new("output-folder");
    fs::create_dir(folder.join("there")).expect("a folder");
    let program = Program::named("endings", &folder).args(&["return"]);
    let outcome = program.set("FDR=1 FDR_OUT=there").run().ok();
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    assert_eq!(folder.files("there").len(), 1);
    assert_eq!(folder.names(), ["there"]);
}
