//! Damaged and incomplete traces, files that are no traces, and outputs that can't be written. For
//! each the tool prints one line on stderr, which says what to do.

use std::process::Stdio;

use crate::common::{
    self, Folder, answer, assert_contains, assert_full_disk_is_an_error,
    assert_gone_reader_is_no_error, assert_lacks, assert_refused, calls, command, contents, fdr,
    functions, golden, in_folder, json, small, stderr, stdout, thread, write,
};
use fdr_formats::TraceInfo;
use fdr_formats::registry::targets;
use fdr_formats::writer::Kind;
use serde_json::json;

#[test]
fn unreadable_files_exit_with_2() {
    let folder = Folder::new("unreadable");
    let text = folder.file("notes.txt");
    std::fs::write(
        &text,
        "not a trace at all, but long enough for a header of one",
    )
    .unwrap();
    let empty = folder.file("empty.fdr");
    std::fs::write(&empty, "").unwrap();
    let missing = folder.file("missing\x1b[31m.fdr");
    for file in [&text, &empty, &missing] {
        for subcommand in ["info", "report", "replay", "verify"] {
            let output = fdr(&[subcommand, file]);
            assert_eq!(output.status.code(), Some(2), "{subcommand} {file}");
            assert_eq!(stdout(&output), "");
            let error = stderr(&output);
            assert!(
                error.starts_with("fdr: /") && error.lines().count() == 1,
                "{error}"
            );
            assert!(!error.contains('\x1b'));
        }
    }
    let unread = |file: &str| stderr(&fdr(&["report", file])).to_owned();
    let known = format!("fdr: {text}: not a trace file that fdr knows (known: XRay FDR");
    assert!(unread(&text).starts_with(&known), "{}", unread(&text));
    assert_eq!(unread(&empty), format!("fdr: {empty}: the file is empty\n"));
    assert_eq!(
        unread("/no/such/file"),
        "fdr: /no/such/file: No such file or directory (os error 2)\n"
    );
    let folder = unread(folder.path().to_str().unwrap());
    assert_contains(&folder, "not a trace folder that fdr knows");
    assert_contains(unread("/dev/null"), "is no regular file");
    assert_eq!(unread("-"), "fdr: standard input: the file is empty\n");
    assert_eq!(fdr(&["report"]).status.code(), Some(2));
    assert_eq!(fdr(&["nonsense"]).status.code(), Some(2));
}

/// A trace for which the answer of each command is larger than a pipe and all buffers before the pipe.
fn long(path: &str) {
    let info = TraceInfo {
        functions: functions(&["app::run", "app::step"]),
        program: "long".into(),
        process: Some(7),
        ..TraceInfo::default()
    };
    let threads = (0..3000_u64).map(|nth| {
        let thread = thread(7 + nth, &format!("worker-{nth}"));
        let start = 1000 + 10 * nth;
        (
            thread,
            calls(&[(start, 1), (start + 1, 2), (start + 3, -2)]),
        )
    });
    write(path, &info, &threads.collect::<Vec<_>>());
}

#[test]
fn broken_pipes_are_no_errors() {
    let (folder, trace) = in_folder("reader-gone", "t.fdr", long);
    answer(&["pack", "-q", &trace]);
    let packed = folder.file("t.fdr.zst");
    let mut commands: Vec<Vec<&str>> = [
        &["info"][..],
        &["report"],
        &["report", "--per-thread", "--json"],
        &["report", "--per-thread", "--csv"],
        &["replay", "--records"],
        &["flame"],
        &["verify"],
        &["replay"],
        &["graph"],
        &["convert", "--to", "map", "-o", "-"],
        &["state"],
        &["state", "--json"],
        &["pack", "-o", "-"],
    ]
    .map(|words| [words, &[&trace]].concat())
    .into();
    for target in targets().filter(|target| target.kind != Kind::Folder) {
        commands.push(vec!["convert", &trace, "--to", target.name, "-o", "-"]);
        let jobs = [
            "convert",
            &trace,
            "--jobs",
            "1",
            "--to",
            target.name,
            "-o",
            "-",
        ];
        commands.push(jobs.to_vec());
    }
    commands.push(vec!["unpack", &packed, "-o", "-"]);
    commands.push(vec!["report", &packed, &trace]);
    commands.push(vec!["report", "--hist", "-n", "1000", &trace, "*"]);
    commands.push(vec!["rings", folder.path().to_str().unwrap()]);
    commands.push(vec!["--help"]);
    commands.push(vec!["--version"]);
    commands.push(vec!["help", "convert"]);
    for words in commands {
        assert_gone_reader_is_no_error(&words);
    }
    // Wrong usage is an error even if its message has no reader.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command().arg("nonsense").stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn maps_replace_nothing_unasked() {
    let (folder, trace) = in_folder("map-there", "t.fdr", small);
    let map = folder.file("m.elf");
    std::fs::write(&map, "mine").unwrap();
    let refused = fdr(&["convert", "--to", "map", &trace, "-o", &map]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    // As every command says it.
    let words = format!("fdr: {map}: exists; --force replaces it, -o gives another name\n");
    assert_eq!(stderr(&refused), words);
    let converted = fdr(&["convert", &trace, "--to", "heph", "-o", &map]);
    assert_eq!(stderr(&converted), words);
    assert_eq!(std::fs::read(&map).unwrap(), b"mine");
    answer(&["convert", "--to", "map", "--force", &trace, "-o", &map]);
    assert!(std::fs::read(&map).unwrap().starts_with(b"\x7fELF"));
    let before = std::fs::read(&trace).unwrap();
    assert_refused(
        &["convert", "--to", "map", "--force", &trace, "-o", &trace],
        "is the trace itself",
    );
    assert_eq!(std::fs::read(&trace).unwrap(), before);
    assert_eq!(contents(folder.path()), ["m.elf", "t.fdr"]);
}

#[test]
fn what_is_missing_is_reported() {
    let (_folder, trace) = in_folder("missing", "t.fdr", common::lossy);
    let words = "16,000 dropped records of threads that had no ring \
                 (if they are many, raise FDR_MEMORY or lower FDR_BUFFER); \
                 5,000 overwritten records of 12 ended threads whose rings were reused\n";
    let table = answer(&["report", &trace]);
    assert!(
        table.ends_with(&format!("of these, not of the trace's threads: {words}")),
        "{table}"
    );
    assert_contains(
        &table,
        "of 21,009 records: 5,007 overwritten by newer ones, 16,000 dropped\n",
    );
    let info = answer(&["info", &trace]);
    assert_contains(&info, &format!("missing    {words}"));
    assert_contains(&info, "written    dump 3, by signal\n");
    assert_contains(&info, "begin      2023-11-14T22:13:20.000005Z\n");
    let report = json(&["report", "--json", &trace]);
    assert_eq!(
        report["missing"],
        json!({"threads": 12, "overwritten": 5_000, "dropped": 16_000})
    );
    let csv = fdr(&["report", "--csv", &trace]);
    assert_contains(stderr(&csv), words);
}

#[test]
fn damage_is_reported_first_and_counts_are_doubted() {
    let folder = Folder::new("damaged");
    let whole = folder.file("whole.fdr");
    common::lossy(&whole);
    let bytes = std::fs::read(&whole).unwrap();
    let cut = folder.file("cut.fdr");
    std::fs::write(&cut, &bytes[..bytes.len() - 8]).unwrap();
    let places = format!("at byte {}", bytes.len() - 8);
    for arguments in [
        &["report"][..],
        &["info"],
        &["convert", "--to", "map", "-o", "-"],
    ] {
        let mut arguments = arguments.to_vec();
        arguments.push(&cut);
        let output = fdr(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let first = stderr(&output).lines().next().unwrap_or_default();
        let head = format!("fdr: {cut}: the trace is damaged in ");
        assert!(
            first.starts_with(&head) && first.contains(&places),
            "{output:?}"
        );
    }
    let doubt = "the counts in the trace disagree with what is readable: it states 9 recorded, \
                 2 readable, 7 overwritten, 0 dropped; 1 record can be read";
    for subcommand in ["report", "info"] {
        let text = answer(&[subcommand, &cut]);
        assert_contains(&text, doubt);
        assert_lacks(&text, "overwritten by newer");
    }
    assert_eq!(fdr(&["verify", &cut]).status.code(), Some(1));
}

#[test]
fn a_map_goes_to_standard_output_if_asked() {
    let (folder, trace) = in_folder("map", "t.fdr", small);
    let mut command = command();
    let output = command
        .current_dir(folder.path())
        .args(["convert", "--to", "map", "-o", "-", &trace])
        .output()
        .unwrap();
    assert!(output.stdout.starts_with(b"\x7fELF"), "{output:?}");
    assert!(!folder.path().join("-").exists());
    answer(&[
        "convert",
        "--to",
        "map",
        "-o",
        &folder.file("map.elf"),
        &trace,
    ]);
    assert_eq!(
        std::fs::read(folder.file("map.elf")).unwrap(),
        output.stdout
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new("pipe");
    let trace = folder.file("t.fdr");
    let edges: Vec<(u64, i64)> = (0..40_000_i64)
        .map(|at| (at as u64, if at % 2 == 0 { 1 } else { -1 }))
        .collect();
    common::write_thread(&trace, &Default::default(), &edges);
    let mut child = command()
        .args(["replay", "--records", &trace])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    assert_full_disk_is_an_error(&["info", &golden("v3-std.fdr")]);
    assert_full_disk_is_an_error(&["--help"]);
}
