//! What the end-to-end tests share: running the tool, a folder of one's own, traces made to order.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fdr_formats::model::{Counts, Missing};
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Call, Edge, Function, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo};

/// The tool, without the recorder's variables of whoever runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdr"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FDR") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the tool to its end.
pub(crate) fn fdr(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("fdr runs")
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// Runs the tool, which must succeed, and gives its output.
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = fdr(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    stdout(&output).to_owned()
}

/// Runs the tool and reads its output as JSON.
pub(crate) fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&answer(arguments)).expect("JSON")
}

/// A trace that another program made, or a person to the byte.
pub(crate) fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray");
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    path.to_str().expect("UTF-8").to_owned()
}

/// An empty folder, removed at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `name` must be the test's own.
    pub(crate) fn new(name: &str) -> Folder {
        let unique = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Functions of the given names, with ids from 1.
pub(crate) fn functions(names: &[&str]) -> Vec<Function> {
    let function = |(at, name): (usize, &&str)| Function {
        id: FunctionId(at as u32 + 1),
        name: (*name).to_owned(),
        file: format!("src/{}.rs", at + 1),
        line: 10 * (at as u32 + 1),
    };
    names.iter().enumerate().map(function).collect()
}

/// Entries (positive) and exits (negative) of function ids, at these times.
pub(crate) fn calls(edges: &[(u64, i64)]) -> Vec<Call> {
    let call = |&(time, id): &(u64, i64)| Call {
        time: Ticks(time),
        function: FunctionId(id.unsigned_abs() as u32),
        edge: if id > 0 { Edge::Entry } else { Edge::Exit },
        synthetic: false,
        has_arguments: false,
    };
    edges.iter().map(call).collect()
}

/// Writes a trace of one tick per nanosecond.
pub(crate) fn write(path: &str, info: &TraceInfo, threads: &[(Thread, Vec<Call>)]) {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let mut writer = XrayWriter::new(file.expect("a file"), Version::V3, info).expect("a header");
    for (thread, calls) in threads {
        writer.thread(thread);
        writer.calls(calls);
    }
    writer.finish().expect("a trace");
}

/// A small trace with names: thread 7 `main` runs f1 { f2 f2 }, thread 8 `worker` runs f2.
pub(crate) fn small(path: &str, names: &[&str]) {
    let info = TraceInfo {
        functions: functions(names),
        program: "small".into(),
        process: Some(7),
        ..TraceInfo::default()
    };
    let thread = |id, name: &str| Thread {
        id: ThreadId(id),
        name: name.into(),
        ..Thread::default()
    };
    let main = calls(&[
        (1000, 1),
        (1100, 2),
        (1300, -2),
        (1400, 2),
        (1700, -2),
        (2000, -1),
    ]);
    let worker = calls(&[(1500, 2), (1600, -2)]);
    write(
        path,
        &info,
        &[(thread(7, "main"), main), (thread(8, "worker"), worker)],
    );
}

/// A trace of one call, written by signal at a known time, of a process with threads that are not in
/// it.
pub(crate) fn lossy(path: &str) {
    let counts = Counts {
        recorded: 9,
        readable: 2,
        overwritten: 7,
        ..Counts::default()
    };
    let mut info = TraceInfo {
        functions: functions(&["app::run"]),
        program: "lossy".into(),
        reason: "signal".into(),
        dump: Some(3),
        missing: Missing {
            retired_threads: 12,
            retired_records: 5000,
            unplaced_records: 16_000,
        },
        ..TraceInfo::default()
    };
    info.clock.anchor = Some((Ticks(0), 1_700_000_000_000_000_000));
    let thread = Thread {
        id: ThreadId(7),
        counts: Some(counts),
        ..Thread::default()
    };
    write(path, &info, &[(thread, calls(&[(5000, 1), (6000, -1)]))]);
}
