//! `fdr record`: the command's output and end must be those of a run without fdr, and a line must
//! name each written file. The commands are shell scripts that play a recorded program.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use crate::common::{
    Folder, assert_contains, assert_lacks, command, golden, in_folder, small, stderr, stdout,
};
use fdr_formats::registry;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn record(folder: &Folder, options: &[&str], script: &str) -> Output {
    let mut command = command();
    command
        .current_dir(folder.path())
        .env("GOLDEN", golden("v3-std.fdr"))
        .arg("record");
    command
        .args(options)
        .args(["--", "sh", "-c", script])
        .output()
        .expect("fdr runs")
}

#[test]
fn the_exit_code_is_passed_on() {
    let folder = Folder::new("code");
    for code in [0, 1, 3, 255] {
        let output = record(&folder, &[], &format!("echo out; exit {code}"));
        assert_eq!(
            (output.status.code(), stdout(&output)),
            (Some(code), "out\n")
        );
    }
}

#[test]
fn the_signal_that_ended_it_is_passed_on() {
    let folder = Folder::new("signal");
    for signal in [
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGSEGV,
        Signal::SIGABRT,
    ] {
        let script = format!("ulimit -c 0; kill -{} $$", signal as i32);
        let output = record(&folder, &[], &script);
        assert_eq!(output.status.signal(), Some(signal as i32), "{signal}");
    }
}

#[test]
fn missing_commands_are_127_unrunnable_ones_126() {
    let missing = command()
        .args(["record", "--", "/no/such/command"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).starts_with("fdr: /no/such/command: "));
    let folder = Folder::new("cannot");
    let file = folder.file("data");
    std::fs::write(&file, "data").unwrap();
    let cannot = command().args(["record", "--", &file]).output().unwrap();
    assert_eq!(cannot.status.code(), Some(126));
    assert_eq!(
        command()
            .args(["record", "--"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn signals_are_passed_on_while_it_runs() {
    let folder = Folder::new("forward");
    for (name, signal) in [
        ("TERM", Signal::SIGTERM),
        ("USR2", Signal::SIGUSR2),
        ("HUP", Signal::SIGHUP),
    ] {
        let script = format!("trap 'exit 7' {name}; echo ready; while :; do read line; done");
        let mut child = command()
            .current_dir(folder.path())
            .args(["record", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        // The shell reads from a pipe that stays open: only the signal ends it.
        let stdin = child.stdin.take();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7), "{name}");
        drop(stdin);
    }
}

#[test]
fn options_become_variables() {
    let folder = Folder::new("variables");
    let options = [
        "-f", "app::*", "--buffer", "1M", "--mode", "full", "--panic", "-o", "x.fdr",
    ];
    let script = "echo $FDR $FDR_BUFFER $FDR_MODE $FDR_PANIC $FDR_OUT ${FDR_CLOCK-unset}";
    let output = record(&folder, &options, script);
    assert_eq!(stdout(&output), "app::* 1M full 1 x.fdr unset\n");
    assert_eq!(stdout(&record(&folder, &[], "echo \"$FDR\"")), "*\n");
}

#[test]
fn what_was_written_is_reported_and_nothing_else() {
    let folder = Folder::new("written");
    std::fs::copy(golden("v1-std.fdr"), folder.file("old.1.1.fdr")).unwrap();
    let script = "cp $GOLDEN app.77.1.fdr; cp $GOLDEN app.77.2.fdr; echo no > app.77.3.fdr; \
                  cp $GOLDEN other.name";
    let output = record(&folder, &[], script);
    assert_eq!(
        stderr(&output),
        "fdr: 2 traces; next: fdr report app.77.2.fdr\n"
    );
    let replaced = record(&folder, &[], "cp $GOLDEN new; mv new old.1.1.fdr");
    assert_eq!(stderr(&replaced), "fdr: next: fdr report old.1.1.fdr\n");
    assert_eq!(
        stderr(&record(
            &folder,
            &["--log", "quiet"],
            "cp $GOLDEN q.1.1.fdr"
        )),
        ""
    );
}

#[test]
fn traces_are_found_wherever_the_pattern_puts_them() {
    let folder = Folder::new("pattern");
    std::fs::create_dir(folder.path().join("traces")).unwrap();
    let cases = [
        ("traces", "traces/app.1.1.fdr"),
        ("traces/%p-%e.trace", "traces/5-app.trace"),
        ("one file.fdr", "one file.fdr"),
        ("100%%.%n", "100%.1"),
        ("%e/x.fdr", "app/x.fdr"),
    ];
    for (pattern, file) in cases {
        let script = format!("mkdir -p app; cp $GOLDEN '{file}'");
        let output = record(&folder, &["-o", pattern], &script);
        let expected = match file {
            "one file.fdr" => "fdr: next: fdr report 'one file.fdr'\n".into(),
            file => format!("fdr: next: fdr report {file}\n"),
        };
        assert_eq!(stderr(&output), expected, "{pattern}");
    }
    let output = record(
        &folder,
        &["-o", "one file.fdr"],
        "cp $GOLDEN n; mv n 'one file.fdr'",
    );
    assert!(stderr(&output).ends_with("fdr: next: fdr report 'one file.fdr'\n"));
}

#[test]
fn traces_of_every_format_are_found() {
    let (folder, _) = in_folder("formats", "a.fdr", small);
    for target in registry::recorded() {
        // The format's own end is that of the default name; a folder is one trace.
        let options = ["--format", target.name];
        let name = format!("app.7.1.{}", target.extension);
        let fdr = env!("CARGO_BIN_EXE_fdr");
        let make = |name: &str| {
            format!(
                "[ \"$FDR_FORMAT\" = {0} ] && '{fdr}' convert -q --force a.fdr --to {0} -o {name}",
                target.name
            )
        };
        let output = record(&folder, &options, &make(&name));
        let next = |name: &str| format!("fdr: next: fdr report {name}\n");
        assert_eq!(stderr(&output), next(&name), "{}", target.name);
        assert_eq!(
            stderr(&record(&folder, &options, "true"))
                .matches("next:")
                .count(),
            0
        );
        // With a name that the user gives. The next run replaces that file.
        let own = format!("{}.trace", target.name);
        let options = [&options[..], &["-o", &own]].concat();
        for _ in 0..2 {
            let output = record(&folder, &options, &make(&own));
            assert_eq!(stderr(&output), next(&own), "{}", target.name);
        }
    }
}

#[test]
fn a_stream_is_not_looked_for_on_disk() {
    let folder = Folder::new("stream");
    for address in [
        "tcp://127.0.0.1:7000",
        "tcp-listen://[::1]:0",
        "unix:/tmp/x",
        "-",
    ] {
        let options = ["-o", address, "--mode", "stream"];
        let script = "echo $FDR_OUT $FDR_MODE; cp $GOLDEN app.1.1.fdr";
        let output = record(&folder, &options, script);
        assert_eq!(stdout(&output), format!("{address} stream\n"));
        assert_eq!(stderr(&output), "");
    }
    for (options, message) in [
        (&["-o", "tcp://127.0.0.1:0"][..], "--output: port 0"),
        (&["-o", "tcp://127.0.0.1"], "--output: no port"),
        (&["-o", "udp://a:1"], "--output: no such kind of stream"),
        (
            &["-o", "tcp://a:1", "--format", "xray"],
            "can't be sent as a stream",
        ),
    ] {
        let output = record(&folder, options, "echo ran");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
        assert_contains(stderr(&output), message);
    }
    let off = recorder_messages(&folder, &["-o", "tcp://a:1", "-f", "off"], "true");
    assert_contains(&off, "switches recording off");
}

/// The messages after a script, on one line.
fn recorder_messages(folder: &Folder, options: &[&str], script: &str) -> String {
    let output = record(folder, options, script);
    let text = stderr(&output).to_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn where_nothing_was_written_the_reasons_are_reported() {
    let folder = Folder::new("nothing");
    let text = recorder_messages(&folder, &[], "true");
    assert!(text.starts_with("fdr: no trace was written: "), "{text}");
    assert_contains(&text, "not built with the crate fdr");
    for (options, off) in [
        (&["-f", ""][..], "--filter ''"),
        (&["-f", "off"], "--filter off"),
        (&["--filter=0"], "--filter 0"),
    ] {
        let text = recorder_messages(&folder, options, "true");
        let expected = format!("fdr: no trace was written: {off} switches recording off\n");
        assert_eq!(text, expected);
    }
    let killed = recorder_messages(&folder, &[], "kill -KILL $$");
    assert_contains(&killed, "leaves its ring");
}

#[test]
fn a_filter_in_the_environment_is_respected() {
    let folder = Folder::new("respected");
    let run = |value: &str, options: &[&str]| {
        let mut command = command();
        command.current_dir(folder.path()).env("FDR", value);
        command.arg("record").args(options);
        let output = command
            .args(["--", "sh", "-c", "echo $FDR"])
            .output()
            .unwrap();
        (stdout(&output).to_owned(), stderr(&output).to_owned())
    };
    let (filter, text) = run("off", &[]);
    assert_eq!(filter, "off\n");
    assert_eq!(
        text,
        "fdr: no trace was written: FDR=off switches recording off\n"
    );
    assert_eq!(run("app::*", &[]).0, "app::*\n");
    assert_eq!(run("", &[]).0, "*\n");
    assert_eq!(run("off", &["-f", "on"]).0, "on\n");
}

#[test]
fn a_ring_that_is_left_is_named() {
    let folder = Folder::new("ring");
    std::fs::create_dir_all(folder.path().join("100%")).unwrap();
    // There is no process with the id 2^32 - 1.
    let ring = r"printf 'FDRRING\001\377\377\377\377ring'";
    for (options, file) in [
        (&[][..], "app.7.ab.fdr-ring"),
        (&["-o", "traces/"], "traces/app.7.ab.fdr-ring"),
        (&["-o", "traces/%e.fdr"], "traces/app.7.cd.fdr-ring"),
        (&["--dir", "100%"], "100%/app.7.ab.fdr-ring"),
    ] {
        let output = record(&folder, options, &format!("{ring} > {file}; kill -TERM $$"));
        let lines: Vec<&str> = stderr(&output).lines().collect();
        let [first, second] = lines[..] else {
            panic!("{output:?}")
        };
        assert_contains(first, "writes no trace at its end");
        let named = format!("fdr: the ring of process 4294967295 was left; next: fdr dump {file}");
        assert_eq!(second, named);
        assert_lacks(stderr(&output), "not built");
    }
    // It was there before: nothing of this run.
    assert_contains(recorder_messages(&folder, &[], "true"), "not built");
}

#[test]
fn a_folder_for_traces_is_made() {
    let folder = Folder::new("made");
    let text = recorder_messages(&folder, &["-o", "a/b/"], "cp $GOLDEN a/b/x.1.1.fdr");
    assert_eq!(text, "fdr: next: fdr report a/b/x.1.1.fdr\n");
    std::fs::write(folder.file("file"), "").unwrap();
    let output = record(&folder, &["-o", "file/"], "echo ran");
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
    assert!(stderr(&output).starts_with("fdr: file/: "), "{output:?}");
}

#[test]
fn bad_settings_are_refused_before_the_run() {
    let folder = Folder::new("refused");
    for (option, value) in [
        ("--to", "json"),
        ("--mode", "circle"),
        ("--clock", "tsc"),
        ("--log", "loud"),
        ("--buffer", "4X"),
        ("--buffer", "64K"),
        ("--buffer", "2G"),
        ("--memory", "lots"),
        ("--signal", "KILL"),
        ("--signal", "USR3"),
        ("--output", "%q"),
        ("--output", "%n/x"),
        ("--filter", "a,-"),
    ] {
        let output = record(&folder, &[option, value], "echo ran");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
        assert_contains(stderr(&output), option);
    }
    let output = record(
        &folder,
        &["--format", "XRAY1", "--mode", "Full"],
        "echo ran",
    );
    assert_eq!(stdout(&output), "ran\n");
}
