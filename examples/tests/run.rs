//! Every example runs, says what it should, and leaves nothing behind unless it is recorded. What the
//! traces hold is for the whole-system tests.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let name = format!("{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder below the target folder");
        Folder(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    /// Runs an example in this folder, with `FDR` set or not.
    fn run(&self, example: &str, arguments: &[&str], fdr: Option<&str>) -> String {
        // This program is PROFILE/deps/run-HASH.
        let test = env::current_exe().expect("this program");
        let profile = test.ancestors().nth(2).expect("the profile's folder");
        let mut command = Command::new(profile.join("examples").join(example));
        command.args(arguments).current_dir(&self.0);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("FDR") {
                command.env_remove(name);
            }
        }
        command.envs(fdr.map(|value| ("FDR", value)));
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{example}: {error}; `cargo build --examples`?"));
        let Output {
            status,
            stdout,
            stderr,
        } = output;
        let (stdout, stderr) = (
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        assert!(status.success(), "{example}: {status}\n{stdout}\n{stderr}");
        stdout.into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs an example, first without recording, then with it: the same output, and files in the second
/// case only.
fn same_output(example: &str, expected: &str) {
    let folder = Folder::new(example);
    assert_eq!(folder.run(example, &[], None), expected);
    assert_eq!(
        folder.files(),
        [] as [PathBuf; 0],
        "{example} was not to be recorded"
    );
    assert_eq!(folder.run(example, &[], Some("1")), expected);
    let files = folder.files();
    let is_trace = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "fdr");
    assert!(
        !files.is_empty() && files.iter().all(is_trace),
        "{example} left {files:?}"
    );
}

#[test]
fn quickstart() {
    same_output("quickstart", "17673 takes 278 steps\n");
}

#[test]
fn library() {
    same_output("library", "100000 numbers, 10000 and 500 words: true\n");
}

#[test]
fn plugin_host() {
    same_output("plugin_host", "sum of digital roots: 50003\n");
}

#[test]
fn queue() {
    same_output("queue", "49936 bytes, 20 rejected\n");
}

#[test]
fn locks() {
    same_output("locks", "served 400 requests, 400 lines in all\n");
}

#[test]
fn sleeper() {
    same_output("sleeper", "slept 100 times 10 ms\n");
}

#[test]
fn requests() {
    same_output("requests", "4 cancelled, 4888 in all\n");
}

/// Its clients measure times, so its lines differ.
#[test]
fn http_service() {
    let folder = Folder::new("http_service");
    for (fdr, files) in [(None, 0), (Some("1"), 1)] {
        let stdout = folder.run("http_service", &["20"], fdr);
        let routes = stdout
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let routes: Vec<_> = routes.collect();
        let wanted = ["route", "/item/{number}", "/search/{word}", "/digest"];
        assert_eq!(routes, wanted, "{stdout}");
        assert_eq!(folder.files().len(), files, "{:?}", folder.files());
    }
}

#[test]
fn slow_request() {
    same_output("slow_request", "served 1000 requests\n");
}

#[test]
fn shop() {
    same_output("shop", "answered 10000 requests\n");
}

#[test]
fn dump_by_signal() {
    let folder = Folder::new("dump_by_signal");
    let off = folder.run("dump_by_signal", &[], None);
    assert!(off.contains("nothing was recorded"), "{off}");
    assert_eq!(folder.files(), [] as [PathBuf; 0]);
    let on = folder.run("dump_by_signal", &[], Some("1"));
    assert!(
        on.contains("served ") && !on.contains("nothing was recorded"),
        "{on}"
    );
    // At least one by signal (signals that come at once are one), and one at exit.
    assert!(folder.files().len() >= 2, "{:?}", folder.files());
}

#[test]
fn debug_endpoint() {
    let folder = Folder::new("debug_endpoint");
    let output = folder.run("debug_endpoint", &[], None);
    let lines: Vec<&str> = output.lines().collect();
    assert!(
        lines[0].starts_with("2 functions are recorded; http://127.0.0.1:"),
        "{output}"
    );
    assert!(lines.contains(&"Hello, reader!"), "{output}");
    assert!(
        lines
            .last()
            .is_some_and(|last| last.starts_with("HTTP/1.1 200 OK, ")),
        "{output}"
    );
    assert_eq!(folder.files(), [] as [PathBuf; 0]);
    // The user's `FDR` wins over the program's code.
    let off = folder.run("debug_endpoint", &[], Some("off"));
    assert!(off.contains("HTTP/1.1 503 Service Unavailable, "), "{off}");
}

/// The calls of all threads, without those that depend on how the jobs were shared.
fn calls(folder: &Folder, threads: &str, fdr: Option<&str>) -> (String, String) {
    let arguments = [
        "--documents",
        "300",
        "--passes",
        "1",
        "--threads",
        threads,
        "--counts",
        "counts.json",
    ];
    let output = folder.run("index_builder", &arguments, fdr);
    let counts = fs::read_to_string(folder.0.join("counts.json")).expect("the counts");
    let total = counts.lines().next().expect("a line of totals");
    let shared = |row: &&str| !row.contains("::run\"") && !row.contains("::next_job\"");
    let rows: Vec<_> = total.split("}, {").filter(shared).collect();
    (output, rows.join("\n"))
}

#[test]
fn the_index_depends_on_the_documents_only() {
    let folder = Folder::new("index_builder");
    let (output, counts) = calls(&folder, "1", None);
    assert!(
        output.starts_with("300 documents: ") && output.contains("checksum"),
        "{output}"
    );
    assert!(
        counts.contains("\"index_builder::build\", \"calls\": 1"),
        "{counts}"
    );
    assert!(
        counts.contains("Generator::document\", \"calls\": 300"),
        "{counts}"
    );
    assert_eq!(calls(&folder, "3", None), (output.clone(), counts.clone()));
    assert_eq!(calls(&folder, "2", Some("1")), (output, counts));
}
