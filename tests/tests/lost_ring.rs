//! Programs whose ring file another process cuts short. They end with their own status, print one line about
//! it, and record no more. A SIGBUS that is not the ring's goes to the earlier handler.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

/// What the program prints without the recorder.
fn untraced(arguments: &[&str]) -> Outcome {
    let folder = Folder::new("lost-untraced");
    Program::named("cut_ring", &folder).args(arguments).run()
}

fn run(folder: &Folder, variables: &str, arguments: &[&str]) -> Outcome {
    let program = Program::named("cut_ring", folder).args(arguments);
    program.set(variables).run()
}

fn lost_lines(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().collect()
}

/// The one line; the program ended as it would have.
fn check_line(outcome: &Outcome, line: &str) {
    assert!(
        line.starts_with("fdr: recording has ended: "),
        "{outcome:?}"
    );
    assert!(line.contains(".fdr-ring; fdr dump"), "{outcome:?}");
}

#[test]
fn cut_rings_end_only_the_recording() {
    for variables in [
        "FDR=1",
        "FDR=1 FDR_CRASH=0",
        "FDR=1 FDR_CLOCK=monotonic FDR_SIGNAL=none",
    ] {
        for arguments in [
            ["once", "0"],
            ["once", "regions"],
            ["once", "4096"],
            ["once", "8192"],
            ["idle", "0"],
            ["begin", "0"],
            ["begin", "regions"],
        ] {
            let folder = Folder::new("lost-once");
            let outcome = run(&folder, variables, &arguments);
            let plain = untraced(&arguments);
            assert_eq!(outcome.status.code(), Some(7), "{arguments:?} {outcome:?}");
            assert_eq!(outcome.stdout, plain.stdout, "{arguments:?} {variables}");
            let lines = lost_lines(&outcome);
            assert_eq!(lines.len(), 1, "{arguments:?} {variables} {outcome:?}");
            check_line(&outcome, lines[0]);
            // What is left of the ring stays, if there is anything to find.
            let is_left = arguments[1] == "regions";
            let rings = folder.ending(".fdr-ring");
            assert_eq!(
                rings.len(),
                usize::from(is_left),
                "{arguments:?} {:?}",
                folder.names()
            );
            assert_eq!(folder.names().len(), rings.len(), "{:?}", folder.names());
        }
    }
}

#[test]
fn zeroed_rings_say_what_is_missing() {
    let folder = Folder::new("lost-zeros");
    let outcome = run(&folder, "FDR=1 FDR_OUT=t.fdr", &["zeros"]);
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    let lines = lost_lines(&outcome);
    assert_eq!(lines.len(), 2, "{outcome:?}");
    assert!(
        lines[0].ends_with(
            "somebody cut the ring's file short: of 1 thread, records are zeros, and counted as overwritten"
        ),
        "{outcome:?}"
    );
    let trace = Trace::read(&folder.path().join("t.fdr"));
    let counts = trace.thread("programs").checked_counts();
    assert!(counts.overwritten > 0, "{counts:?}");
}

#[test]
fn rings_may_be_cut_with_short_calls() {
    // The threads' rings are full when it is cut, so their short calls leave no records.
    let variables = "FDR=1 FDR_KEEP=10s FDR_BUFFER=128K FDR_OUT=t.fdr";
    for way in ["threads", "dumps", "signals"] {
        for length in ["rows", "totals", "regions", "open-calls", "0"] {
            let folder = Folder::new("lost-short-calls");
            let outcome = run(&folder, variables, &[way, length]);
            let case = format!("{way} {length}");
            assert_eq!(outcome.status.code(), Some(7), "{case} {outcome:?}");
            let plain = untraced(&["threads", length]);
            assert_eq!(outcome.stdout, plain.stdout, "{case}");
            let lines = lost_lines(&outcome);
            let ended = |line: &&&str| line.contains("recording has ended");
            assert_eq!(lines.iter().filter(ended).count(), 1, "{case} {outcome:?}");
        }
    }
}

#[test]
fn a_stream_ends_with_what_it_has() {
    let folder = Folder::new("lost-stream");
    let variables = "FDR=1 FDR_MODE=stream FDR_OUT=t.htdump FDR_FORMAT=htdump";
    let outcome = run(&folder, variables, &["threads", "0"]);
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    let lines = lost_lines(&outcome);
    assert_eq!(lines.len(), 2, "{outcome:?}");
    check_line(&outcome, lines[0]);
    assert!(
        lines[1].ends_with("the rest is lost with the ring"),
        "{outcome:?}"
    );
}

#[test]
fn the_api_says_that_the_ring_is_lost() {
    for variables in ["FDR=1", "FDR=1 FDR_LOG=quiet"] {
        let folder = Folder::new("lost-api");
        let outcome = run(&folder, variables, &["api"]);
        assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines[..2], ["enabled false", "threads 0"]);
        for (line, word) in [(lines[2], "dump "), (lines[3], "enable ")] {
            let rest = line.strip_prefix(word).expect(word);
            assert!(
                rest.contains("the ring is lost: ") && rest.contains(".fdr-ring"),
                "{line}"
            );
        }
        assert_eq!(lines[4], "enabled false");
        let count = usize::from(variables == "FDR=1");
        assert_eq!(lost_lines(&outcome).len(), count, "{outcome:?}");
    }
}

#[test]
fn children_lose_only_their_own_rings() {
    for variables in ["FDR=1", "FDR=1 FDR_CRASH=0"] {
        let folder = Folder::new("lost-fork");
        let outcome = run(&folder, variables, &["fork"]);
        assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
        assert!(outcome.stdout.starts_with("child 5\n"), "{outcome:?}");
        // Each process printed a line about its own ring.
        assert_eq!(lost_lines(&outcome).len(), 2, "{outcome:?}");
        lost_lines(&outcome)
            .into_iter()
            .for_each(|line| check_line(&outcome, line));
        assert_eq!(folder.names(), Vec::<String>::new());

        let folder = Folder::new("lost-fork-after");
        let outcome = run(&folder, variables, &["fork_after"]);
        assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
        assert!(
            outcome.stdout.starts_with("child enabled false\nchild 5\n"),
            "{outcome:?}"
        );
        assert!((1..=2).contains(&lost_lines(&outcome).len()), "{outcome:?}");
    }
}

#[test]
fn another_sigbus_goes_where_it_went() {
    for variables in ["FDR=1 FDR_OUT=t.fdr", "FDR=1 FDR_OUT=t.fdr FDR_CRASH=0"] {
        for way in ["bus", "bus_after", "sent"] {
            let folder = Folder::new("lost-bus");
            let outcome = run(&folder, variables, &[way]);
            let plain = untraced(&[way]);
            assert_eq!(
                outcome.status, plain.status,
                "{way} {variables} {outcome:?}"
            );
            if way != "sent" {
                assert_eq!(
                    outcome.status.signal(),
                    Some(libc::SIGBUS),
                    "{way} {outcome:?}"
                );
            }
            let trace = fs::metadata(folder.join("t.fdr")).is_ok();
            let wanted = match way {
                "bus" => variables.contains("FDR_CRASH").then_some(false),
                "bus_after" => Some(false),
                _ => Some(true),
            };
            assert_eq!(
                trace,
                wanted.unwrap_or(true),
                "{way} {variables} {outcome:?}"
            );
        }
        let folder = Folder::new("lost-own");
        let outcome = run(&folder, variables, &["own"]);
        let plain = untraced(&["own"]);
        assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
        assert_eq!(outcome.stdout, plain.stdout, "{outcome:?}");
        assert!(
            outcome.stdout.starts_with("handled 3\nown stack true\n"),
            "{outcome:?}"
        );
    }
}
