//! Traces that are made here, folders that go away, and the two programs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Done};
use std::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::identity::{Identity, Part};
use fdr_formats::model::Counts;
use fdr_formats::writer::Output;
use fdr_formats::{
    Call, Clock, Function, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo, registry,
};

/// The program under test.
pub(crate) const FLEET: &str = env!("CARGO_BIN_EXE_fdr-fleet");
/// Ticks a second.
pub(crate) const HZ: u64 = 2_100_000_000;
/// 2026-03-01, 10:00 UTC.
pub(crate) const MORNING: u64 = 1_772_359_200_000_000_000;

/// A folder that goes away at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fdr-fleet-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The name of the place of the tables in it.
    pub(crate) fn place(&self) -> String {
        self.path("store").to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Whom a trace is of.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) program: &'static str,
    pub(crate) host: &'static str,
    pub(crate) pid: u64,
    /// When it began, in ns of the Unix epoch.
    pub(crate) start: u64,
}

impl Process {
    pub(crate) fn new(program: &'static str, host: &'static str, pid: u64) -> Process {
        Process {
            program,
            host,
            pid,
            start: MORNING,
        }
    }

    fn info(&self, dump: u64) -> TraceInfo {
        let mut identity = Identity::default();
        identity.set(Part::Host, self.host);
        identity.set(Part::Boot, "0fd3c1e6-8a7f-4b5e-9a37-000000000001");
        identity.set(Part::Version, "1.2.3");
        let functions = (1..=FUNCTIONS).map(|id| Function {
            id: FunctionId(id),
            name: format!("{}::function_{id}", self.program),
            file: "src/lib.rs".to_owned(),
            line: 10 * id,
            ..Function::default()
        });
        TraceInfo {
            clock: Clock {
                frequency: HZ,
                name: "tsc".to_owned(),
                anchor: Some((Ticks(1_000_000), self.start)),
                ..Clock::default()
            },
            functions: functions.collect(),
            program: format!("/usr/bin/{}", self.program),
            process: Some(self.pid),
            identity,
            reason: "signal".to_owned(),
            dump: Some(dump),
            ..TraceInfo::default()
        }
    }
}

/// Functions of a program.
pub(crate) const FUNCTIONS: u32 = 12;

/// The edges of `calls` calls of a thread, nested and complete, at most nine deep.
pub(crate) fn edges(random: &mut Random, calls: u64) -> Vec<Call> {
    let (mut edges, mut open, mut now, mut made) = (Vec::new(), Vec::new(), 2_000_000, 0);
    while made < calls || !open.is_empty() {
        now += 1 + random.below(3_000) + if random.below(50) == 0 { 200_000 } else { 0 };
        let enter = made < calls && open.len() < 9 && random.below(2) == 0;
        match (enter, open.pop()) {
            (true, before) => {
                open.extend(before);
                let function = FunctionId(1 + random.below(FUNCTIONS.into()) as u32);
                open.push(function);
                edges.push(Call::entry(Ticks(now), function));
                made += 1;
            }
            (false, Some(function)) => edges.push(Call::exit(Ticks(now), function)),
            (false, None) => {}
        }
    }
    edges
}

/// Writes a trace of a process: its threads, each with the number of overwritten records and the edges behind them.
pub(crate) fn write(path: &Path, process: &Process, dump: u64, threads: &[(u64, u64, &[Call])]) {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    let target = registry::target("xray").unwrap();
    let mut writer = (target.create)(Output::File(file), &process.info(dump)).unwrap();
    let mut end = Ticks(0);
    for (id, overwritten, edges) in threads {
        let readable = edges.len() as u64;
        writer.thread(&Thread {
            id: ThreadId(*id),
            name: format!("worker-{id}"),
            counts: Some(Counts {
                recorded: readable + overwritten,
                readable,
                overwritten: *overwritten,
                ..Counts::default()
            }),
            ..Thread::default()
        });
        writer.calls(edges);
        end = end.max(edges.last().map_or(Ticks(0), |last| last.time));
    }
    writer.end(end);
    assert!(writer.finish().unwrap().is_empty());
}

/// A trace with `threads` threads of `calls` calls each.
pub(crate) fn trace(
    folder: &Folder,
    name: &str,
    process: &Process,
    seed: u64,
    threads: u64,
    calls: u64,
) -> PathBuf {
    let mut random = Random(seed | 1);
    let lists: Vec<Vec<Call>> = (0..threads).map(|_| edges(&mut random, calls)).collect();
    let lists: Vec<(u64, u64, &[Call])> = lists
        .iter()
        .zip(1..)
        .map(|(list, id)| (process.pid + id, 0, list.as_slice()))
        .collect();
    let path = folder.path(name);
    write(&path, process, 1, &lists);
    path
}

/// Says that a test can't take place, because a program is missing. In CI that is a failure.
pub(crate) fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "SKIPPED in CI: {what}");
    let line = format!("SKIPPED: {what}: cargo xtask fleet says how to get it\n");
    eprint!("{line}");
    if let Some(list) = std::env::var_os("FDR_SKIPS") {
        let mut file = OpenOptions::new().append(true).open(list).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Runs the program under test.
pub(crate) fn fleet(words: &[&str]) -> Done {
    Command::new(FLEET).args(words).output().unwrap()
}

/// The same; it must end well. Returns what it printed.
pub(crate) fn fleet_ok(words: &[&str]) -> String {
    let done = fleet(words);
    let (out, error) = texts(&done);
    assert!(
        done.status.success(),
        "{words:?}: {}\n{out}{error}",
        done.status
    );
    assert_eq!(error, "", "{words:?}");
    out
}

/// The texts on stdout and on stderr.
pub(crate) fn texts(done: &Done) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&done.stdout), text(&done.stderr))
}

/// Exports traces.
pub(crate) fn export(folder: &Folder, traces: &[PathBuf]) -> String {
    let place = folder.place();
    let mut words = vec!["export", "--to", &place];
    words.extend(traces.iter().map(|path| path.to_str().unwrap()));
    fleet_ok(&words)
}

/// The rows of a query, as CSV without its header.
pub(crate) fn rows(folder: &Folder, sql: &str) -> Vec<String> {
    let text = fleet_ok(&["query", &folder.place(), sql, "--format", "csv"]);
    text.lines().skip(1).map(str::to_owned).collect()
}

/// One number.
pub(crate) fn number(folder: &Folder, sql: &str) -> i64 {
    rows(folder, sql)[0].parse().unwrap()
}

/// The figures of `fdr report --json --window`, of records: by name: calls, total and self time.
pub(crate) fn report(path: &Path) -> BTreeMap<String, [i64; 3]> {
    let tool = std::env::var_os("FDR_TOOL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/fdr"),
        PathBuf::from,
    );
    let done = Command::new(&tool)
        .arg("report")
        .args(["--json", "--window"])
        .arg(path)
        .output();
    let done = done
        .unwrap_or_else(|error| panic!("{}: {error}: cargo xtask fleet builds it", tool.display()));
    assert!(done.status.success());
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = report["functions"].as_array().unwrap().iter();
    let row = |row: &serde_json::Value| {
        let figures = ["calls", "total_ns", "self_ns"].map(|name| row[name].as_i64().unwrap());
        (row["name"].as_str().unwrap().to_owned(), figures)
    };
    rows.map(row).collect()
}

/// All files of a folder, with their sizes.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((path.clone(), path.metadata().unwrap().len())),
            }
        }
    }
    found.sort();
    found
}

/// The one Parquet file of a table whose path has that in it.
pub(crate) fn file_of(folder: &Folder, table: &str, part: &str) -> PathBuf {
    let all = files(&folder.path("store").join("v1").join(table));
    let mut paths = all.into_iter().map(|(path, _)| path);
    paths
        .find(|path| path.to_str().unwrap().contains(part))
        .unwrap()
}
