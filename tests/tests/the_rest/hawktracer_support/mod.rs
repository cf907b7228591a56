//! Shared by the tests of HawkTracer's programs: its crates in `tests/foreign/hawktracer`, its C++ converter (one of
//! the crates has the sources), and calls as plain rows. If one of these can't be built or found, the test is skipped
//! with a message.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_formats::source::drive;
use fdr_formats::writer::Output;
use fdr_formats::{Call, Diagnostic, Edge, FunctionId, Mark, Sink, Source, Thread, registry};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::{example, reader, skip};

/// A call: thread, start and duration in ns, name.
pub type Row = (u64, u64, u64, String);

/// Where things are built that are no part of the workspace.
fn place(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of the running test");
    let target = program.ancestors().nth(3).expect("a target folder");
    target.join("foreign").join(name)
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/hawktracer")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).arg("--locked").arg("--manifest-path");
    cargo.arg(package().join("Cargo.toml"));
    cargo
}

/// Runs a build. If the build fails, the check is skipped, and the skip has the end of the build's output.
fn built(command: &mut Command, check: &str) -> Option<Vec<u8>> {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if output.status.success() {
        return Some(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = errors.lines().rev().take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    skip(&format!("{check}: {command:?} fails: {}", last.join(" / ")));
    None
}

/// A program of `tests/foreign/hawktracer`: `parse`, or `write`, which needs a C++ compiler and CMake.
pub fn foreign(program: &str, check: &str) -> Option<PathBuf> {
    let target = place("hawktracer");
    let mut build = cargo(&["build", "--quiet", "--bin", program]);
    if program == "write" {
        reader("cmake", check)?;
        reader("c++", check)?;
        // The sources use what newer C++ libraries do not include by themselves.
        build
            .args(["--features", "writer"])
            .env("CXXFLAGS", "-include new");
    }
    built(build.arg("--target-dir").arg(&target), check)?;
    Some(target.join("debug").join(program))
}

/// HawkTracer's converter in C++, which reads both byte orders.
pub fn converter_of_hawktracer(check: &str) -> Option<PathBuf> {
    reader("cmake", check)?;
    reader("c++", check)?;
    let mut metadata = cargo(&["metadata", "--format-version", "1"]);
    let metadata = built(metadata.args(["--features", "writer"]), check)?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let library = packages
        .filter(|package| package["name"] == "rust_hawktracer_sys")
        .map(|package| package["manifest_path"].as_str().expect("a path"))
        .next()
        .expect("a dependency of the crate");
    let sources = Path::new(library).with_file_name("hawktracer");
    let folder = place("hawktracer-client");
    // A mistake of the sources: headers of the standard library that they rely on others to include.
    let flags = "-DCMAKE_CXX_FLAGS=-include new -include cstdint";
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources).arg("-B").arg(&folder);
    built(configure.args(["-DCMAKE_BUILD_TYPE=Release", flags]), check)?;
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&folder);
    built(build.args(["--target", "hawktracer-converter"]), check)?;
    Some(folder.join("client/hawktracer-converter"))
}

/// Keeps the calls of a trace as rows; synthetic ones too, whose times HTDUMP holds as well.
#[derive(Default)]
struct Rows {
    rows: Vec<(u64, u64, u64, u32)>,
    /// Every chain of functions that were open together, outermost first.
    chains: BTreeSet<Vec<u32>>,
    threads: Vec<(u64, Vec<Call>)>,
    now: usize,
}

impl Sink for Rows {
    fn thread(&mut self, thread: &Thread) {
        let id = thread.id.0;
        let known = self.threads.iter().position(|(known, _)| *known == id);
        self.now = known.unwrap_or_else(|| {
            self.threads.push((id, Vec::new()));
            self.threads.len() - 1
        });
    }

    fn calls(&mut self, calls: &[Call]) {
        let (thread, open) = &mut self.threads[self.now];
        for call in calls {
            if call.edge == Edge::Entry {
                open.push(*call);
                let chain = open.iter().map(|call| call.function.0);
                self.chains.insert(chain.collect());
                continue;
            }
            let entry = open.pop().expect("what is recorded nests");
            assert_eq!(entry.function, call.function, "what is recorded nests");
            let duration = call.time.since(entry.time).0;
            self.rows
                .push((*thread, entry.time.0, duration, call.function.0));
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

fn rows_of(source: &dyn Source) -> Rows {
    let mut rows = Rows::default();
    drive(source, &mut rows, &|_| {}).expect("a readable trace");
    assert_eq!(source.diagnostics(), []);
    rows
}

fn name(source: &dyn Source, id: u32) -> String {
    let function = source.info().function(FunctionId(id));
    function.expect("every function has a name").name.clone()
}

/// The chains of calls of a trace, outermost first, with the labels that viewers show.
pub fn chains(source: &dyn Source) -> BTreeSet<Vec<String>> {
    let chains = rows_of(source).chains.into_iter();
    let label = |id| label(&name(source, id));
    chains
        .map(|chain| chain.into_iter().map(label).collect())
        .collect()
}

/// What viewers show: without the marks that would break their JSON.
fn label(name: &str) -> String {
    name.replace('"', "'").replace('\\', "/")
}

/// The calls of a trace, sorted; times in ticks.
pub fn rows(source: &dyn Source) -> Vec<Row> {
    let rows = rows_of(source);
    let name = |id| name(source, id);
    let calls = rows.rows.into_iter();
    let mut rows: Vec<Row> = calls
        .map(|(thread, start, duration, id)| (thread, start, duration, name(id)))
        .collect();
    rows.sort();
    rows
}

/// Some calls of a real program, recorded by us, as HTDUMP; and its calls, with the labels that viewers
/// show.
pub fn recorded(folder: &Folder, target: &str) -> (PathBuf, Vec<Row>) {
    let arguments = "--documents 20 --passes 1 --threads 3";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let program = Program::new(example("index_builder"), folder);
    let set = program.set("FDR=1 FDR_BUFFER=32M FDR_OUT=program.fdr");
    let _ = set.args(&arguments).run().ok();
    let path = convert(&folder.join("program.fdr"), target);
    let source = registry::open_path(&path).expect("our own file");
    let mut rows = rows(&*source);
    for row in &mut rows {
        row.3 = label(&row.3);
    }
    assert!(
        rows.len() > 1000,
        "a program that does something: {}",
        rows.len()
    );
    (path, rows)
}

/// Writes a trace anew.
pub fn convert(trace: &Path, target: &str) -> PathBuf {
    let source = registry::open_path(trace).expect("a trace");
    let path = trace.with_extension(target);
    let output = Output::File(File::create(&path).expect("a new file"));
    let target = registry::target(target).expect("a target of that name");
    let mut writer = (target.create)(output, source.info()).expect("a writer");
    drive(&*source, &mut *writer, &|_| {}).expect("a readable trace");
    let losses = writer.finish().expect("room on the disk");
    // One of the program's functions is untimed, which the format can't say.
    let others = losses.iter().filter(|(what, _)| !what.contains("untimed"));
    assert_eq!(others.count(), 0, "{losses}");
    path
}

/// Lines of calls and events that `parse` found.
pub fn parsed(parse: &Path, file: &Path) -> (Vec<Row>, u64) {
    let output = Command::new(parse).arg(file).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", file.display());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (mut rows, mut events) = (Vec::new(), 0);
    for line in text.lines() {
        if let Some(count) = line.strip_prefix("events\t") {
            events = count.parse().expect("a number");
            continue;
        }
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        rows.push((number(0), number(1), number(2), fields[3].to_owned()));
    }
    rows.sort();
    (rows, events)
}

/// Runs the Rust converter; it must get to the end of what the source gives.
pub fn converted(converter: &Path, source: &str, format: &str, folder: &Folder) -> String {
    let out = folder.join("converted");
    let output = Command::new(converter)
        .args(["--format", format, "--source", source, "--output-file"])
        .arg(&out)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {errors}");
    assert!(
        !errors.contains("does not exist in the mapping"),
        "{errors}"
    );
    fs::read_to_string(&out).expect("its output")
}

/// All events of the converter's `json_debug`, as it has no brackets around them.
pub fn debug_events(text: &str) -> Vec<serde_json::Value> {
    let list = format!("[{}]", text.trim_end().trim_end_matches(','));
    serde_json::from_str(&list).expect("JSON but for its brackets")
}

/// The calls among them.
pub fn debug_rows(events: &[serde_json::Value]) -> Vec<Row> {
    let calls = events.iter().filter(|event| !event["duration"].is_null());
    let mut rows: Vec<Row> = calls
        .map(|event| {
            let number = |name: &str| event[name]["value"].as_u64().expect("a number");
            let label = event["label"]["maps_to"].as_str().expect("a label");
            let (thread, start) = (number("thread_id"), number("timestamp"));
            (thread, start, number("duration"), label.to_owned())
        })
        .collect();
    rows.sort();
    rows
}
