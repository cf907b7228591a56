//! The guide's programs: each stands in the guide word for word, can be copied from there, and does what the
//! guide says.
#![allow(dead_code, reason = "each program has a `main`")]

#[path = "guide/convert.rs"]
mod convert;
#[path = "guide/count_calls.rs"]
mod count_calls;
#[path = "guide/slowest_calls.rs"]
mod slowest_calls;
#[path = "guide/whole_run.rs"]
mod whole_run;

use std::fs;
use std::path::{Path, PathBuf};

use fdr_formats::model::FunctionTotals;
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Call, Function, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo};

const GUIDE: &str = include_str!("../GUIDE.md");

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray/v3-mt.fdr")
}

#[test]
fn the_guide_shows_the_tried_programs() {
    let blocks: Vec<&str> = GUIDE.split("```").skip(1).step_by(2).collect();
    let programs: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("rust,no_run\n"))
        .collect();
    let tried = [
        include_str!("guide/count_calls.rs"),
        include_str!("guide/slowest_calls.rs"),
        include_str!("guide/convert.rs"),
        include_str!("guide/whole_run.rs"),
    ];
    assert_eq!(programs.len(), tried.len());
    for (program, tried) in programs.iter().zip(tried) {
        let (_head, tried) = tried.split_once("\n\n").expect("a head");
        assert_eq!(*program, tried.replace("pub(crate) ", ""));
        // A line that only rustdoc understands would not compile where it is copied.
        assert!(
            !program
                .lines()
                .any(|line| line.trim_start().starts_with("# "))
        );
    }
}

#[test]
fn calls_are_counted() {
    let counts = count_calls::count_calls(&golden()).expect("a trace");
    assert_eq!(counts.iter().map(|(calls, _)| calls).sum::<u64>(), 18);
}

#[test]
fn the_slowest_calls_come_first() {
    let lines = slowest_calls::slowest_calls(&golden()).expect("a trace");
    let nanos = |line: &String| -> u64 {
        let number = line.split_whitespace().next().expect("a number");
        number.parse().expect("nanoseconds")
    };
    assert_eq!(lines.len(), 10);
    assert!(
        lines.is_sorted_by_key(|line| std::cmp::Reverse(nanos(line))),
        "{lines:#?}"
    );
    assert!(nanos(&lines[0]) > 0);
}

#[test]
fn whole_run_totals_sum_all_threads() {
    let path = std::env::temp_dir().join(format!("guide-whole-run-{}.fdr", std::process::id()));
    let totals = |function, calls, untimed, own| FunctionTotals {
        function: FunctionId(function),
        calls,
        untimed,
        own: Ticks(own),
        lengths: vec![(0, calls)],
        ..FunctionTotals::default()
    };
    let info = TraceInfo {
        functions: vec![Function {
            id: FunctionId(1),
            name: "app::run".to_owned(),
            ..Function::default()
        }],
        ..TraceInfo::default()
    };
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    let mut writer = XrayWriter::new(file.expect("a file"), Version::V3, &info).expect("a header");
    for (id, totals) in [
        (7, vec![totals(1, 10, 30, 100)]),
        (8, vec![totals(1, 10, 0, 100), totals(2, 1, 0, 5)]),
    ] {
        writer.thread(&Thread {
            id: ThreadId(id),
            totals,
            ..Thread::default()
        });
        writer.calls(&[
            Call::entry(Ticks(id), FunctionId(1)),
            Call::exit(Ticks(id + 1), FunctionId(1)),
        ]);
    }
    writer.finish().expect("a trace");
    let figures = whole_run::whole_run(&path).expect("a trace");
    fs::remove_file(&path).expect("it is there");
    let wanted = [(50, 500, "app::run".to_owned()), (1, 5, "?".to_owned())];
    assert_eq!(figures, wanted);
}

#[test]
fn traces_convert_to_files_and_folders() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let threads = |path: &Path| {
        fdr_formats::open(path)
            .expect("a trace")
            .info()
            .threads
            .len()
    };
    for format in ["heph", "ctf"] {
        let to = folder.join(format);
        convert::convert(&golden(), &to, format).expect("a trace");
        assert_eq!(threads(&to), threads(&golden()), "{format}");
        assert!(
            convert::convert(&golden(), &to, format).is_err(),
            "it exists"
        );
    }
    fs::remove_dir_all(&folder).expect("a folder");
}
