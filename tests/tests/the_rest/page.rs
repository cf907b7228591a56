//! The page of `fdr view` in a browser: what is committed is what its sources make; and a person can use it, served and
//! from a file, with a mouse and with keys alone. Names that want to be more than text stay text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{
    Call, CpuId, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};
use fdr_tests::skip;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};

/// A copy of the page's sources with what they need; where that can't be had, the check is skipped aloud.
fn sources(check: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the path of the running test");
    let target = test.ancestors().nth(3).expect("a target folder");
    let copy = target.join("page");
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/page");
    for folder in ["", "src", "dist", "test"] {
        let (from, to) = (original.join(folder), copy.join(folder));
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(from).expect("the page's sources").flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
            }
        }
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    let failure = match install.current_dir(&copy).output() {
        Ok(output) if output.status.success() => return Some(copy),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let last = failure
        .lines()
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    skip(&format!("{check}: npm ci in cli/page fails: {last}"));
    None
}

fn write(path: &Path, info: &TraceInfo, threads: &[(Thread, Vec<Call>)]) {
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let mut writer = XrayWriter::new(file.expect("a file"), Version::V3, info).expect("a writer");
    for (thread, calls) in threads {
        writer.thread(thread);
        for (nth, calls) in calls.chunks(300).enumerate() {
            let (time, cpu) = (calls[0].time, CpuId(nth as u32 % 3));
            writer.mark(&Mark::Cpu { time, cpu });
            writer.calls(calls);
        }
    }
    writer.finish().expect("a trace");
}

fn function(id: u32, name: &str) -> Function {
    Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: "src/main.rs".to_owned(),
        line: id,
        ..Function::default()
    }
}

fn thread(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.to_owned(),
        ..Thread::default()
    }
}

/// Three threads that call three functions.
fn usual(path: &Path) {
    let functions = [(1, "app::run"), (2, "app::step"), (3, "app::leaf")];
    let info = TraceInfo {
        functions: functions.map(|(id, name)| function(id, name)).to_vec(),
        ..TraceInfo::default()
    };
    let of = FunctionId;
    let calls = |shift: u64| {
        let mut calls = vec![Call::entry(Ticks(1000 + shift), of(1))];
        let mut at = 2000 + shift;
        for nth in 0..2000 {
            calls.push(Call::entry(Ticks(at), of(2)));
            calls.push(Call::entry(Ticks(at + 10), of(3)));
            calls.push(Call::exit(Ticks(at + 60 + nth % 37), of(3)));
            calls.push(Call::exit(Ticks(at + 110 + nth % 41), of(2)));
            at += if nth % 400 == 399 { 50_000 } else { 200 };
        }
        calls.push(Call::exit(Ticks(at), of(1)));
        calls
    };
    let threads = [(7, "main"), (8, "worker-1"), (9, "worker-2")];
    let threads = threads.map(|(id, name)| (thread(id, name), calls(id * 1000)));
    write(path, &info, &threads);
}

/// Names that would be more than text, if a page let them.
fn hostile(path: &Path) {
    let mut names: Vec<String> = [
        "<script>window.hacked=1;alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"><img src=http://example.invalid/x onerror=alert(2)>",
        "</script><script>alert(3)</script>",
        "</style><style>*{display:none}</style>",
        "<svg onload=alert(4)>",
        "<iframe src=javascript:alert(5)>",
        "<a href=\"javascript:alert(6)\">click</a>",
        "<link rel=stylesheet href=http://example.invalid/x.css>",
        "<base href=http://example.invalid/>",
        "<!--",
        "-->",
        "]]>",
        "{{script}}",
        "${alert(7)}",
        "$&",
        "$`",
        "%s%n",
        "&lt;b&gt;",
        "&#x3c;script>",
        "javascript:alert(8)",
        "data:text/html,<script>alert(9)</script>",
        "\u{202e}gnp.exe",
        "\u{2066}isolated\u{2069}",
        "\u{200b}\u{200d}\u{feff}",
        "\u{1b}[31mred\u{1b}[0m",
        "\0nul\0",
        "line\nline\r\n",
        "\t\u{8}\u{7f}\u{9b}",
        "__proto__",
        "constructor",
        "toString",
        "hasOwnProperty",
        "null",
        "undefined",
        "NaN",
        "",
        " ",
        "\u{e0041}\u{e0042}",
        "\u{2028}\u{2029}",
        "ﷺ",
        "e\u{301}\u{301}\u{301}\u{301}\u{301}",
        "👩‍👩‍👧‍👦",
        "نص عربي",
        "＜script＞alert(1)＜/script＞",
        "' OR 1=1 --",
        "../../../etc/passwd",
        "\\u003cscript\\u003e",
        "onclick=alert(1)",
        "style=\"position:fixed\"",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("<b>long</b>".repeat(6000));
    let functions = names.iter().zip(1..).map(|(name, id)| function(id, name));
    let info = TraceInfo {
        functions: functions.collect(),
        program: "<img src=x onerror=alert(10)>".to_owned(),
        reason: "<script>alert(11)</script>".to_owned(),
        ..TraceInfo::default()
    };
    let calls = |shift: u64| {
        let count = names.len() as u64;
        let each = |nth: u64| {
            let (at, of) = (
                1000 + nth * 100,
                FunctionId((1 + (nth + shift) % count) as u32),
            );
            [Call::entry(Ticks(at), of), Call::exit(Ticks(at + 80), of)]
        };
        (0..count).flat_map(each).collect::<Vec<_>>()
    };
    let threads = names.iter().zip(1..).step_by(5);
    let threads: Vec<_> = threads
        .map(|(name, id)| (thread(id, name), calls(id)))
        .collect();
    write(path, &info, &threads);
}

/// Lets a program make calls, until it is told that nobody looks any more.
fn call_now_and_then(mut program: Running, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        program.tell("call 100");
        assert_eq!(program.line(), "done");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_committed_is_what_the_sources_make() {
    let Some(page) = sources("the page is built and compared") else {
        return;
    };
    let mut check = Command::new("npm");
    let output = check
        .args(["run", "--silent", "check"])
        .current_dir(page)
        .output();
    let output = output.expect("npm runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn a_person_can_use_it_and_names_stay_text() {
    let check = "the page in a browser";
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = names.into_iter().find_map(xtask::process::on_path) else {
        return skip(&format!(
            "{check}: chromium is not installed: apt-get install chromium"
        ));
    };
    let Some(page) = sources(check) else { return };
    let folder = Folder::new("page");
    let (one, other) = (folder.join("usual.fdr"), folder.join("hostile.fdr"));
    usual(&one);
    hostile(&other);
    let program = Program::new(env!("CARGO_BIN_EXE_controlled"), &folder);
    let mut program = program
        .set("FDR=1 FDR_KEEP=0 FDR_DIR=rings/ FDR_OUT=out/")
        .start();
    assert_eq!(program.line(), "ready");
    let (process, is_over) = (program.id().to_string(), AtomicBool::new(false));
    let mut node = Command::new("node");
    node.arg("test/browser.mjs")
        .arg(browser)
        .arg(fdr_tests::tool());
    let output = std::thread::scope(|scope| {
        scope.spawn(|| call_now_and_then(program, &is_over));
        let output = node
            .args([&one, &other])
            .arg(folder.path())
            .arg(process)
            .current_dir(page)
            .output();
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let output = output.expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said.lines().count(), 4, "{said}");
}
