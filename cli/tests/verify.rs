//! `fdr verify`: verdicts and exit codes, on traces of others and on damaged ones.

use crate::common::{
    self, Folder, assert_contains, calls, fdr, golden, in_folder, small, stdout, thread, write,
};
use fdr_formats::model::Counts;
use fdr_formats::{Thread, ThreadId, TraceInfo};

/// Exit code and output, without the file's name.
fn verdict(arguments: &[&str]) -> (i32, String) {
    let output = fdr(&[&["verify"], arguments].concat());
    let file = format!("{}: ", arguments.last().expect("a file"));
    (
        output.status.code().expect("an exit code"),
        stdout(&output).replace(&file, ""),
    )
}

#[test]
fn whole_traces_are_ok() {
    for (name, records, threads) in [
        ("v1-std.fdr", 12, "1 thread"),
        ("v1-tid32.fdr", 2, "1 thread"),
        ("v2-std.fdr", 12, "1 thread"),
        ("v3-mt.fdr", 36, "3 threads"),
        ("v4-std.fdr", 12, "1 thread"),
        ("v5-mt.fdr", 36, "3 threads"),
    ] {
        let expected = format!("OK: {records} records in {threads}, 0 synthetic\n");
        assert_eq!(verdict(&[&golden(name)]), (0, expected), "{name}");
    }
    let real = (
        0,
        "OK: 1,152 records in 4 threads, 0 synthetic\n".to_owned(),
    );
    assert_eq!(verdict(&[&golden("llvm19-demo-v5.fdr")]), real);
}

#[test]
fn imbalance_is_reported_with_thread_and_record() {
    assert_eq!(
        verdict(&[&golden("v1-open.fdr")]),
        (
            1,
            "thread 101, record 1: entry of #1 without its exit\n\
             thread 101, record 2: entry of #2 without its exit\n\
             2 violations: 2 records in 1 thread, 0 synthetic\n"
                .into()
        )
    );
    let (code, text) = verdict(&[&golden("v1-strayexit.fdr")]);
    assert_eq!(code, 1);
    assert!(
        text.starts_with("thread 101, record 1: exit of #1 without its entry\n"),
        "{text}"
    );
    assert_eq!(verdict(&["--allow-open", &golden("v1-open.fdr")]).0, 0);
    assert_eq!(verdict(&["--allow-open", &golden("v1-strayexit.fdr")]).0, 0);
}

#[test]
fn a_cut_file_is_reported_with_offsets() {
    for name in ["v1-trunc.fdr", "v3-trunc.fdr"] {
        let (code, text) = verdict(&[&golden(name)]);
        assert_eq!(code, 1);
        assert!(text.starts_with("at byte 2"), "{text}");
    }
    let (code, text) = verdict(&["--limit", "1", &golden("v3-trunc.fdr")]);
    assert_eq!(code, 1);
    assert_contains(&text, "more not shown (--limit)\n");
}

#[test]
fn time_that_goes_back_is_a_violation() {
    let folder = Folder::new("back");
    let trace = folder.file("t.fdr");
    let thread = thread(7, "");
    let edges = calls(&[(100, 1), (90, -1)]);
    write(&trace, &TraceInfo::default(), &[(thread, edges)]);
    let (code, text) = verdict(&[&trace]);
    assert_eq!(code, 1);
    assert!(
        text.starts_with("thread 7, record 2: time goes back by 10 ticks (from 100 to 90)\n"),
        "{text}"
    );
}

#[test]
fn inconsistent_counts_are_a_violation() {
    let folder = Folder::new("counts");
    let trace = folder.file("t.fdr");
    let write_with = |recorded| {
        let counts = Counts {
            recorded,
            readable: 2,
            overwritten: 5,
            dropped: 1,
            ..Counts::default()
        };
        let thread = Thread {
            id: ThreadId(7),
            counts: Some(counts),
            ..Thread::default()
        };
        let info = TraceInfo {
            threads: vec![thread.clone()],
            ..TraceInfo::default()
        };
        write(&trace, &info, &[(thread, calls(&[(1, 1), (2, -1)]))]);
    };
    write_with(8);
    assert_eq!(
        verdict(&[&trace]),
        (0, "OK: 2 records in 1 thread, 0 synthetic\n".into())
    );
    write_with(9);
    let (code, text) = verdict(&[&trace]);
    assert_eq!(code, 1);
    assert!(
        text.starts_with(
            "thread 7: counts do not add up: 9 recorded, but 2 readable + 5 overwritten + 1 dropped\n"
        ),
        "{text}"
    );
}

#[test]
fn several_traces_are_judged_by_the_worst() {
    let (good, bad) = (golden("v3-std.fdr"), golden("v3-trunc.fdr"));
    assert_eq!(fdr(&["verify", &good, &good]).status.code(), Some(0));
    let mixed = fdr(&["verify", &bad, &good]);
    assert_eq!(mixed.status.code(), Some(1));
    assert!(stdout(&mixed).ends_with(&format!(
        "{good}: OK: 12 records in 1 thread, 0 synthetic\n"
    )));
    let unread = fdr(&["verify", "/no/such/file", &bad, &good]);
    assert_eq!(unread.status.code(), Some(2));
    assert_contains(stdout(&unread), &format!("{good}: OK: "));
    assert_eq!(
        common::stderr(&unread),
        "fdr: /no/such/file: No such file or directory (os error 2)\n"
    );
}

#[test]
fn what_is_missing_is_a_note() {
    let (_folder, trace) = in_folder("missing", "t.fdr", common::lossy);
    assert_eq!(
        verdict(&[&trace]),
        (
            0,
            "OK: 2 records in 1 thread, 0 synthetic\n\
             note: not in the trace: 16,000 dropped records of threads that had no ring \
             (if they are many, raise FDR_MEMORY or lower FDR_BUFFER); \
             5,000 overwritten records of 12 ended threads whose rings were reused\n"
                .into()
        )
    );
}

#[test]
fn cuts_and_flips_cause_no_panic() {
    let folder = Folder::new("damage");
    let whole = folder.file("whole.fdr");
    small(&whole);
    let bytes = std::fs::read(&whole).unwrap();
    let trace = folder.file("damaged.fdr");
    // A few of each: every byte is the business of the reader's own tests.
    let cuts = (0..bytes.len())
        .step_by(37)
        .map(|end| bytes[..end].to_vec());
    let flips = (0..bytes.len()).step_by(23).map(|at| {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        damaged
    });
    for damaged in cuts.chain(flips) {
        std::fs::write(&trace, &damaged).unwrap();
        for subcommand in ["verify", "report", "info", "replay"] {
            let output = fdr(&[subcommand, &trace]);
            let code = output.status.code().expect("an exit code");
            assert!(code <= 2, "{subcommand}: {output:?}");
            let panicked = common::stderr(&output).contains("panicked");
            assert!(!panicked, "{subcommand}: {output:?}");
        }
    }
}
