//! `fdr convert`: a report says the same of a trace in every format. A conversion that fails leaves no file.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use std::thread;

use crate::common::{
    self, Folder, answer, assert_contains, assert_full_disk_is_an_error,
    assert_gone_reader_is_no_error, assert_refused, contents, convert, fdr, figures, golden,
    in_folder, rich, rich_at, small, small_named, stderr,
};
use fdr_formats::registry::targets;
use fdr_formats::writer::Kind;
use serde_json::{Value, json};

/// The figures without what the format could not hold, if the conversion reported it: gaps.
fn without_losses(mut figures: Value, messages: &str) -> Value {
    if messages.contains(": 120 missing records") {
        figures["lost_records"] = json!(0);
        let threads = figures["threads"].as_array_mut().expect("threads");
        threads
            .iter_mut()
            .for_each(|thread| thread["lost_records"] = json!(0));
    }
    figures
}

#[test]
fn reports_survive_every_format_and_back() {
    let (folder, trace) = in_folder("pairs", "a.fdr", rich);
    let wanted = figures(&trace);
    assert_eq!(wanted["threads"].as_array().map(Vec::len), Some(3));
    assert_eq!(wanted["lost_records"], 120);
    assert_eq!(wanted["balance"]["clipped_calls"], 9);
    for first in targets() {
        let there = folder.file(&format!("{}.first", first.name));
        let messages = convert(&trace, first, &there);
        let wanted = without_losses(wanted.clone(), &messages);
        assert_eq!(figures(&there), wanted, "{}", first.name);
        for second in targets() {
            let back = folder.file(&format!("{}-{}", first.name, second.name));
            let messages = convert(&there, second, &back);
            let pair = format!("{} to {}", first.name, second.name);
            assert_eq!(
                figures(&back),
                without_losses(wanted.clone(), &messages),
                "{pair}"
            );
        }
    }
}

#[test]
fn what_is_whole_before_is_whole_after() {
    let (folder, trace) = in_folder("whole", "a.fdr", rich);
    let verdict = |trace: &str| answer(&["verify", trace]).replace(trace, "");
    let wanted = verdict(&trace);
    assert_contains(&wanted, "note: 120 records lost in the middle");
    for target in targets() {
        let there = folder.file(target.name);
        let messages = convert(&trace, target, &there);
        let gaps = ": note: 120 records lost in the middle\n";
        let wanted = match messages.contains(": 120 missing records") {
            true => wanted.replace(gaps, ""),
            false => wanted.clone(),
        };
        assert_eq!(verdict(&there), wanted, "{}", target.name);
    }
}

#[test]
fn ticks_become_nanoseconds_within_one() {
    let (folder, trace) = in_folder("ticks", "a.fdr", |path| rich_at(path, 2_399_987_123));
    let wanted = figures(&trace);
    let times = ["total_ns", "self_ns", "min_ns", "max_ns", "p50_ns"];
    for target in targets() {
        let there = folder.file(target.name);
        convert(&trace, target, &there);
        let found = figures(&there);
        let pairs = wanted["functions"].as_array().unwrap().iter();
        for (wanted, found) in pairs.zip(found["functions"].as_array().unwrap()) {
            assert_eq!(wanted["name"], found["name"], "{}", target.name);
            assert_eq!(wanted["calls"], found["calls"], "{}", target.name);
            for time in times {
                // Every end of every call may be rounded.
                let calls = wanted["calls"].as_u64().unwrap();
                let slack = if time.ends_with("f_ns") || time.starts_with("tot") {
                    4 * calls
                } else {
                    2
                };
                let (Some(left), Some(right)) = (wanted[time].as_u64(), found[time].as_u64())
                else {
                    assert_eq!(wanted[time], found[time], "{}", target.name);
                    continue;
                };
                assert!(
                    left.abs_diff(right) <= slack,
                    "{}: {time}: {wanted} {found}",
                    target.name
                );
            }
        }
    }
}

#[test]
fn new_traces_are_private_beside_the_old() {
    let (folder, trace) = in_folder("beside", "app.7.1", small);
    for target in targets() {
        let output = fdr(&["convert", &trace, "--to", &target.name.to_uppercase()]);
        let name = format!("app.7.1.{}", target.extension);
        let path = folder.path().join(&name);
        assert!(output.status.success(), "{output:?}");
        let text = stderr(&output);
        let line = format!("fdr: {}: {}: ", path.display(), target.title);
        assert!(text.starts_with(&line), "{text}");
        assert_contains(text, " of 2 threads, ");
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.is_dir(), target.kind == Kind::Folder);
        assert_eq!(metadata.permissions().mode() & 0o077, 0);
        assert_eq!(contents(folder.path()), ["app.7.1", name.as_str()]);

        // Once more: refused, then replaced.
        assert_refused(&["convert", &trace, "--to", target.name], "exists; --force");
        let forced = fdr(&["convert", &trace, "--to", target.name, "--force", "--quiet"]);
        assert_eq!((forced.status.code(), stderr(&forced)), (Some(0), ""));
        assert_eq!(contents(folder.path()), ["app.7.1", name.as_str()]);
        match target.kind {
            Kind::Folder => fs::remove_dir_all(&path).unwrap(),
            Kind::File | Kind::Stream => fs::remove_file(&path).unwrap(),
        }
    }
}

#[test]
fn standard_output_gets_what_a_file_gets() {
    let (folder, trace) = in_folder("stdout", "a.fdr", rich);
    for target in targets() {
        let printed = fdr(&["convert", &trace, "--to", target.name, "-o", "-"]);
        if target.kind == Kind::Folder {
            assert_eq!(printed.status.code(), Some(2));
            assert_contains(stderr(&printed), "is a folder");
            continue;
        }
        assert!(printed.status.success(), "{printed:?}");
        assert!(stderr(&printed).starts_with("fdr: standard output: "));
        let file = folder.file(target.name);
        convert(&trace, target, &file);
        let copy = folder.file("copy");
        fs::write(&copy, printed.stdout).unwrap();
        assert_eq!(figures(&copy), figures(&file), "{}", target.name);
    }
}

#[test]
fn what_would_be_lost_is_refused() {
    let (folder, trace) = in_folder("refused", "a.fdr", small);
    let before = fs::read(&trace).unwrap();
    let run = |arguments: &[&str], message: &str| {
        assert_refused(&[&["convert", &trace], arguments].concat(), message);
        assert_eq!(contents(folder.path()), ["a.fdr"]);
        assert_eq!(fs::read(&trace).unwrap(), before);
    };
    run(&["--to", "xray"], "-o gives another");
    run(&["--to", "xray1", "--force"], "-o gives another");
    let same = format!("{}/./a.fdr", folder.path().display());
    run(
        &["--to", "xray", "-o", &same, "--force"],
        "is the trace itself",
    );
    run(
        &["--to", "xrai"],
        "there is no such format; the nearest is xray\n",
    );
    for target in targets() {
        run(&["--to", "none of these"], target.title);
        run(
            &["--to", target.name, "-o", "/no/such/folder/x"],
            "/no/such/folder/x: No such file",
        );
        run(&["--to", target.name, "-o", "/proc/x"], "/proc/x: ");
        run(
            &["--to", target.name, "-o", "/dev/full", "--force"],
            "no regular file",
        );
    }
    assert!(
        fs::metadata("/dev/full")
            .unwrap()
            .file_type()
            .is_char_device()
    );
}

#[test]
fn only_traces_are_replaced_by_folders() {
    let (folder, trace) = in_folder("folders", "a.fdr", small);
    let other = folder.path().join("mine");
    for target in targets().filter(|target| target.kind == Kind::Folder) {
        fs::create_dir(&other).unwrap();
        fs::write(other.join("notes"), "mine").unwrap();
        let path = other.to_str().unwrap();
        let force = [
            "convert",
            &trace,
            "--to",
            target.name,
            "--force",
            "-o",
            path,
        ];
        assert_refused(&force, "more in it than a trace");
        assert_eq!(contents(&other), ["notes"]);
        // `--force` may replace an empty folder, and a folder that is a trace, unless the user has put a
        // folder into it.
        fs::remove_file(other.join("notes")).unwrap();
        for _ in 0..2 {
            answer(&force);
            assert_eq!(figures(path), figures(&trace));
            assert_eq!(contents(folder.path()), ["a.fdr", "mine"]);
        }
        fs::create_dir(other.join("notes")).unwrap();
        assert_eq!(fdr(&force).status.code(), Some(2));
        fs::remove_dir_all(&other).unwrap();
    }
    let file = targets()
        .find(|target| target.kind != Kind::Folder)
        .unwrap();
    fs::create_dir(&other).unwrap();
    let path = other.to_str().unwrap();
    let output = fdr(&["convert", &trace, "--to", file.name, "--force", "-o", path]);
    assert!(
        output.status.success(),
        "a file goes into a folder: {output:?}"
    );
    let name = format!("a.{}", file.extension);
    assert_eq!(contents(&other), [name]);
}

/// A trace of `calls` calls.
fn long(path: &str, calls: u64) {
    let edge = |at: u64| (at * 10, if at.is_multiple_of(2) { 1 } else { -1 });
    let edges: Vec<(u64, i64)> = (0..2 * calls).map(edge).collect();
    common::write_thread(path, &Default::default(), &edges);
}

#[test]
fn a_failure_leaves_nothing() {
    let folder = Folder::new("nothing");
    let trace = folder.file("a.fdr");
    long(&trace, 50_000);
    for target in targets() {
        // 8 blocks of 512 bytes or 1 KiB: less than any format needs.
        let script = "ulimit -f 8; exec \"$0\" convert \"$1\" --to \"$2\" -o \"$3\"";
        let output = std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_fdr"), &trace, target.name])
            .arg(folder.file("out"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}: {output:?}", target.name);
        let text = stderr(&output);
        let named = text.starts_with("fdr: ") && text.contains("/out: ");
        let is_reported = named && text.contains("File too large");
        assert!(is_reported, "{}: {text}", target.name);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(contents(folder.path()), ["a.fdr"], "{}", target.name);
    }
}

#[test]
fn full_disks_are_errors_and_broken_pipes_none() {
    let folder = Folder::new("full");
    let trace = folder.file("a.fdr");
    long(&trace, 50_000);
    for target in targets().filter(|target| target.kind != Kind::Folder) {
        let to_stdout = ["convert", &trace, "--to", target.name, "-o", "-"];
        assert_full_disk_is_an_error(&to_stdout);
        let messages = assert_gone_reader_is_no_error(&to_stdout);
        assert_eq!(messages, "", "{}", target.name);
    }
}

#[test]
fn losses_of_a_format_are_counted() {
    let folder = Folder::new("losses");
    let there = folder.file("x.fdr");
    let convert = |arguments: &[&str]| {
        let from = golden("v5-mt.fdr");
        let output = fdr(&[
            &["convert", &from, "--to", "xray1", "-o", &there],
            arguments,
        ]
        .concat());
        assert!(output.status.success(), "{output:?}");
        stderr(&output).to_owned()
    };
    let size = |path: &str| fs::metadata(path).unwrap().len();
    let text = convert(&[]);
    let bytes = size(&there);
    assert!(bytes < 10_000);
    let title = "XRay FDR, version 1";
    let expected = format!(
        "fdr: {there}: {title}: 57 events of 3 threads, {:.1} KiB\n\
         fdr: {there}: what {title} can't hold: 3 typed events: written as custom events, without \
         type\n",
        bytes as f64 / 1024.0
    );
    assert_eq!(text, expected);
    assert_eq!(convert(&["--force", "--quiet"]), "");
}

#[test]
fn traces_are_sent_to_listeners() {
    let (folder, trace) = in_folder("sent", "a.fdr", rich);
    for target in targets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let socket = folder.file(target.name);
        let unix = UnixListener::bind(&socket).expect("a socket");
        let tcp = format!("tcp://127.0.0.1:{port}");
        let send = |address: &str| fdr(&["convert", &trace, "--to", target.name, "-o", address]);
        if target.kind == Kind::Folder {
            let output = send(&tcp);
            assert_eq!(output.status.code(), Some(2));
            assert_contains(stderr(&output), "is a folder");
            continue;
        }
        let received = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a connection");
            let (mut other, _) = unix.accept().expect("a connection");
            let [mut by_tcp, mut by_unix] = [Vec::new(), Vec::new()];
            peer.read_to_end(&mut by_tcp).expect("a trace");
            other.read_to_end(&mut by_unix).expect("a trace");
            [by_tcp, by_unix]
        });
        for address in [tcp, format!("unix:{socket}")] {
            let output = send(&address);
            assert!(output.status.success(), "{output:?}");
            assert_contains(stderr(&output), &address);
        }
        let wanted = fdr(&["convert", &trace, "--to", target.name, "-o", "-"]).stdout;
        for bytes in received.join().expect("two traces") {
            assert!(bytes == wanted, "{}", target.name);
        }
    }
}

#[test]
fn an_address_where_nobody_listens_is_an_error() {
    let folder = Folder::new("sent-nowhere");
    let trace = folder.file("a.fdr");
    small_named(&trace, &["app::run"]);
    for (address, why) in [
        ("tcp://127.0.0.1:1", "refused"),
        ("unix:none", "No such file"),
        ("tcp://127.0.0.1", "no port"),
        ("tcp-listen://127.0.0.1:7000", "fdr connects"),
    ] {
        let output = fdr(&["convert", &trace, "--to", "heph", "-o", address]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let messages = stderr(&output);
        assert_contains(messages, address);
        assert_contains(messages, why);
        assert_eq!(messages.lines().count(), 1, "{messages}");
    }
    let output = fdr(&["convert", &trace, &trace, "--to", "heph", "-o", "unix:none"]);
    assert_contains(stderr(&output), "one trace at a time");
}
