//! The messages of commands about odd inputs: rings of other versions, standard input, files that are cut off, calls
//! with few facts. Each message must name the input and say what to do, once.

use std::fs::{self, File};
use std::process::Stdio;

use crate::common::{
    Folder, answer, assert_contains, assert_lacks, calls, command, fdr, functions, in_folder, info,
    small, stderr, stdout, thread, with_short_calls, write,
};
use fdr_formats::model::FunctionTotals;
use fdr_formats::{FunctionId, Thread, Ticks, TraceInfo};

const NAMES: &[&str] = &["app::run", "app::step"];

fn worker(id: u64) -> Thread {
    thread(id, &format!("worker-{id}"))
}

#[test]
fn every_command_names_foreign_ring_versions() {
    let folder = Folder::new("other-version");
    let [ring, other] = ["a.1.x.fdr-ring", "copy.bin"].map(|name| folder.file(name));
    for path in [&ring, &other] {
        fs::write(path, b"FDRRING\x09 and what version 9 has there").unwrap();
    }
    for command in [
        "info", "report", "slow", "verify", "state", "flame", "replay", "graph", "pack", "dump",
    ] {
        for path in [&ring, &other] {
            let output = fdr(&[command, path]);
            assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
            let messages = stderr(&output);
            let wanted = "a ring file of version 9, and this fdr reads version 1: use the fdr of that version";
            assert_eq!(messages, format!("fdr: {path}: {wanted}\n"), "{command}");
        }
    }
}

#[test]
fn unusable_arguments_are_explained_once() {
    let folder = Folder::new("said-once");
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    for name in ["1.fdr", "2.fdr", "3.fdr"] {
        small(traces.join(name).to_str().unwrap());
    }
    let (traces, trace) = (traces.to_str().unwrap(), folder.file("t.fdr"));
    small(&trace);
    let empty = folder.file("empty.fdr");
    fs::write(&empty, b"").unwrap();
    let one = "fdr: -o - takes one trace at a time\n";
    let packed = "nothing to unpack: the file is not compressed by zstd, gzip or xz";
    for (words, wanted) in [
        (
            &["convert", "--to", "heph", "-o", "-", traces][..],
            one.to_owned(),
        ),
        (
            &["convert", "--to", "map", "-o", "-", traces],
            one.to_owned(),
        ),
        (&["pack", "-o", "-", traces], one.to_owned()),
        (
            &["state", "--snapshot", "s", traces],
            "fdr: --snapshot takes one trace at a time\n".to_owned(),
        ),
        (
            &["pack", &empty],
            format!("fdr: {empty}: the file is empty\n"),
        ),
        (&["unpack", &trace], format!("fdr: {trace}: {packed}\n")),
        (
            &["unpack", traces],
            format!("fdr: {traces}: a folder; name the packed files in it\n"),
        ),
        (
            &["dump", &trace],
            format!("fdr: {trace}: not a ring file; fdr rings lists those of a folder\n"),
        ),
    ] {
        let output = fdr(words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(stderr(&output), wanted, "{words:?}");
    }
}

#[test]
fn standard_input_has_a_name() {
    let (_folder, trace) = in_folder("standard-input", "t.fdr", small);
    let feed = |words: &[&str], from: &str| {
        let input = Stdio::from(File::open(from).unwrap());
        command().args(words).stdin(input).output().unwrap()
    };
    let info = feed(&["info", "-"], &trace);
    assert!(
        stdout(&info).starts_with("file       standard input\n"),
        "{info:?}"
    );
    let verified = feed(&["verify", "-"], &trace);
    assert!(
        stdout(&verified).starts_with("standard input: OK"),
        "{verified:?}"
    );
    let nothing = feed(&["report", "-"], "/dev/null");
    assert_eq!(stderr(&nothing), "fdr: standard input: the file is empty\n");
}

#[test]
fn just_entered_calls_have_no_time() {
    let folder = Folder::new("just-entered");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        reason: "exit".into(),
        ..info(NAMES)
    };
    let open = [(1000, 1), (5000, 2)];
    write(
        &trace,
        &info,
        &[(worker(7), calls(&open)), (worker(8), calls(&open[..1]))],
    );
    let report = answer(&["report", &trace]);
    let line = report.lines().nth(1).unwrap();
    assert_eq!(
        line,
        "open at exit: app::step in worker-7, just entered; app::run in worker-8, just entered"
    );
    let known = TraceInfo {
        end: Some(Ticks(9000)),
        ..info
    };
    let later = folder.file("later.fdr");
    write(&later, &known, &[(worker(7), calls(&open))]);
    let report = answer(&["report", &later]);
    let line = report.lines().nth(1).unwrap();
    assert_eq!(line, "open at exit: app::step in worker-7 for 4.000 µs");
}

#[test]
fn times_up_to_the_last_record_are_minimums() {
    let folder = Folder::new("least");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        reason: "exit".into(),
        ..info(NAMES)
    };
    let open = [(1000, 1), (5000, 2), (8000, -2)];
    write(&trace, &info, &[(worker(7), calls(&open))]);
    let report = answer(&["report", &trace]);
    let line = report.lines().nth(1).unwrap();
    assert_eq!(
        line,
        "open at exit: app::run in worker-7 for at least 7.000 µs"
    );
}

/// What is missing at the end of a file may have ended these calls.
#[test]
fn cut_files_end_calls_before_the_dump() {
    let folder = Folder::new("cut-off");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        reason: "exit".into(),
        end: Some(Ticks(1_000_000_000)),
        ..info(NAMES)
    };
    let mut edges = vec![(1, 1)];
    for nth in 0..1000 {
        edges.extend([(10 + nth * 10, 2), (15 + nth * 10, -2)]);
    }
    edges.push((20_000, -1));
    write(&trace, &info, &[(worker(7), calls(&edges))]);
    let whole = fs::read(&trace).unwrap();
    let cut = folder.file("cut.fdr");
    fs::write(&cut, &whole[..whole.len() - 4000]).unwrap();
    let report = answer(&["report", &cut]);
    assert_lacks(&report, "open at exit");
    assert_contains(&report, "entry without an exit");
    let flame = answer(&["flame", &cut]);
    assert_lacks(&flame, "[open]");
    let outer = flame.lines().next().unwrap();
    let own: u64 = outer.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(own < 20_000, "{flame}");
}

#[test]
fn dump_numbers_stand_apart_from_panic_messages() {
    let folder = Folder::new("dump-number");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        reason: "panic in thread 7 (worker-7) at src/main.rs:1:1: the index is 1".into(),
        dump: Some(2),
        ..info(NAMES)
    };
    write(&trace, &info, &[(worker(7), calls(&[(1, 1), (9, -1)]))]);
    let text = answer(&["info", &trace]);
    let wanted =
        "written    dump 2, panic in thread 7 (worker-7) at src/main.rs:1:1: the index is 1\n";
    assert_contains(&text, wanted);
}

#[test]
fn a_state_without_times_counts_steps() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/entrace/v1.et");
    let text = answer(&["state", "--at", "+5ns", trace]);
    let head = "step 5 of 11: the trace has the order of its calls, and no times\n";
    assert!(text.starts_with(head), "{text}");
    assert_contains(&text, "  outer  for ");
    assert_contains(&text, " step");
    assert_lacks(&text, " ns");
}

#[test]
fn calls_open_at_window_ends_are_not_final() {
    let folder = Folder::new("window-end");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        reason: "exit".into(),
        ..info(NAMES)
    };
    let edges = [(1000, 1), (5000, 2), (8000, -2), (9000, -1)];
    for end in [None, Some(Ticks(9000))] {
        let info = TraceInfo {
            end,
            ..info.clone()
        };
        let _ = fs::remove_file(&trace);
        write(&trace, &info, &[(worker(7), calls(&edges))]);
        let open = "at the end of the window: app::step in worker-7 for 2.000 µs";
        let report = answer(&["report", "--until", "6us", &trace]);
        assert_eq!(report.lines().nth(1), Some(&*format!("open {open}")));
        assert_contains(
            answer(&["info", "--until", "6us", &trace]),
            &format!("open       {open}\n"),
        );
        let flame = answer(&["flame", "--until", "6us", &trace]);
        assert_eq!(flame, "app::run 4000\napp::run;app::step 2000\n");
        assert_lacks(answer(&["report", &trace]), "open at");
    }
}

#[test]
fn tiny_clock_errors_are_not_shown_as_zero() {
    let folder = Folder::new("small-error");
    let clock_of = |error_ppm: f64| {
        let trace = folder.file("t.fdr");
        let mut info = info(NAMES);
        info.clock.error_ppm = Some(error_ppm);
        write(&trace, &info, &[(worker(7), calls(&[(1, 1), (9, -1)]))]);
        let text = answer(&["info", &trace]);
        let clock = text.lines().find(|line| line.starts_with("clock"));
        clock.unwrap().to_owned()
    };
    assert_contains(clock_of(0.02), "MHz, error < 0.1 ppm");
    assert_contains(clock_of(0.05), "MHz ± 0.1 ppm");
    assert_contains(clock_of(0.0), "MHz ± 0.0 ppm");
}

#[test]
fn times_have_units_and_many_traces_need_folders() {
    let process = std::process::id().to_string();
    let refused = |words: &[&str]| {
        let output = fdr(words);
        assert!(!output.status.success(), "{words:?}");
        stderr(&output).to_owned()
    };
    let file = refused(&["dump", "--every", "1s", "-o", "x.fdr", &process]);
    let wanted = "with --every there are several traces: name a folder, as x.fdr/";
    assert_contains(&file, wanted);
    let pause = refused(&["dump", "--every", "0.5ms", &process]);
    assert_contains(&pause, "it must be 1ms or more");
    let pause = refused(&["dump", "--every", "soon", &process]);
    assert_contains(&pause, "not a length of time, as 10");
    let address = refused(&["listen", "tcp:127.0.0.1:7", "-o", "x"]);
    assert_contains(&address, "two slashes are missing: tcp://127.0.0.1:7");
}

/// A run of 1,000 steps, of which the records of one are left. Most were only counted. `app::run` is open.
fn whole_run(path: &str) {
    let mut functions = functions(&["app::run", "app::step", "app::count"]);
    functions[2].untimed = true;
    let info = TraceInfo {
        functions,
        reason: "signal".into(),
        end: Some(Ticks(9000)),
        ..TraceInfo::default()
    };
    let totals = |id, calls, untimed| FunctionTotals {
        function: FunctionId(id),
        calls,
        untimed,
        total: Ticks(calls * 300),
        own: Ticks(calls * 200),
        longest: Ticks(900),
        lengths: vec![(0, calls / 2), (30, calls - calls / 2)],
        nests: false,
        estimate: None,
    };
    let thread = Thread {
        totals: vec![totals(2, 100, 900), totals(3, 50, 0)],
        ..worker(7)
    };
    let edges = [(1000, 1), (5000, 2), (5300, -2)];
    write(path, &info, &[(thread, calls(&edges))]);
}

#[test]
fn whole_run_figures_are_labelled() {
    let folder = Folder::new("whole-run");
    let trace = folder.file("t.fdr");
    whole_run(&trace);
    let report = answer(&["report", &trace]);
    let (above, table) = report.split_once("\n\n").unwrap();
    let wanted = "figures of the whole run (--window: figures of the records)";
    assert!(above.lines().any(|line| line == wanted), "{report}");
    let head = table.lines().next().unwrap();
    let heads: Vec<&str> = head.split_whitespace().collect();
    let wanted = "calls total self self % mean p50 p90 p99 max function";
    assert_eq!(heads.join(" "), wanted, "there is no min: {report}");
    for note in [
        "\nopen: 1 call has not ended, and is in no row (--window has the time so far)\n",
        "estimated from the timed calls (standard error up to ",
        "mean to max are of the timed calls\n",
        // No record of it is left.
        "\nuntimed: the calls of 1 function are counted, without times; what passed in them, 10.00 µs, is in no row\n",
    ] {
        assert!(table.contains(note), "{note}: {report}");
    }
    let window = answer(&["report", "--window", &trace]);
    assert_lacks(&window, "whole run");
    assert_contains(&window, " min ");
    let sorted = fdr(&["report", "--sort", "min", &trace]);
    let wanted = "fdr: --sort min: figures of the whole run have no min, so rows are in the order of names; \
                --window has it\n";
    assert_eq!(stderr(&sorted), wanted);
    for words in [&["report"][..], &["flame"]] {
        let words: Vec<&str> = words
            .iter()
            .copied()
            .chain(["--filter", "app::cuont", &trace])
            .collect();
        let output = fdr(&words);
        let functions = if words[0] == "report" {
            "2 called functions; the nearest: app::count"
        } else {
            "2 called functions; the nearest: "
        };
        let wanted = format!("fdr: --filter matches none of {functions}");
        assert!(stderr(&output).starts_with(&wanted), "{output:?}");
    }
}

#[test]
fn selections_count_their_short_calls() {
    let (_folder, trace) = in_folder("short-part", "t.fdr", with_short_calls);
    let whole = answer(&["info", &trace]);
    let wanted = "short      50 calls left no records in the whole run; the threshold in this trace is 40 ns\n";
    assert_contains(&whole, wanted);
    let part = answer(&["info", "--function", "app::step", &trace]);
    let wanted = "short      7 calls left no records; the threshold in this trace is 40 ns\n";
    assert_contains(&part, wanted);
    let report = answer(&["report", "--function", "app::step", &trace]);
    assert_contains(
        &report,
        "\nshort: 7 calls left no records (FDR_KEEP), and are in no row; their 21 ns",
    );
    let none = answer(&["report", "--function", "app::none", &trace]);
    assert_lacks(&none, "short:");
}

#[test]
fn streams_with_printed_text_are_explained() {
    let folder = Folder::new("printed-into");
    let (printed, to) = (folder.file("printed"), folder.file("t.htdump"));
    fs::write(&printed, b"17673 takes 278 steps\n").unwrap();
    let input = Stdio::from(File::open(&printed).unwrap());
    let listened = command()
        .args(["listen", "-", "-q", "-o", &to])
        .stdin(input)
        .output();
    let listened = listened.unwrap();
    assert_eq!(listened.status.code(), Some(1), "{listened:?}");
    let wanted = "fdr: what the program itself prints comes the same way: if it prints, use another address\n";
    assert!(stderr(&listened).ends_with(wanted), "{listened:?}");
}
