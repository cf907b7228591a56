//! The page of `fdr view` in a browser. The committed page is the output of its sources. A person can use the page,
//! served and from a file, with a mouse and with keys alone. Names with markup stay text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fdr_tests::skip;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};

use super::page_traces::{changed, ended, hostile, noted, readable_part, spread, usual, waiting};

/// A copy of the page's sources with what they need; where that can't be had, the check is skipped aloud.
pub(super) fn sources(check: &str) -> Option<PathBuf> {
    // Made once: `npm ci` of one test would remove what another one uses.
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = MADE.get_or_init(make_sources).clone();
    let failed = |why| skip(&format!("{check}: npm ci in cli/page fails: {why}"));
    made.map_err(failed).ok()
}

fn make_sources() -> Result<PathBuf, String> {
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
        Ok(output) if output.status.success() => return Ok(copy),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let last = failure.lines().find(|line| !line.is_empty());
    Err(last.unwrap_or_default().to_owned())
}

/// The browser; where it is missing, the check is skipped aloud.
pub(super) fn chromium(check: &str) -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find_map(xtask::process::on_path);
    if found.is_none() {
        skip(&format!(
            "{check}: chromium is not installed: apt-get install chromium"
        ));
    }
    found
}

/// Lets a program make calls until `is_over` is set.
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
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{messages}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_page_is_usable_and_names_are_text() {
    let check = "the page in a browser";
    let Some(browser) = chromium(check) else {
        return;
    };
    let Some(page) = sources(check) else { return };
    let folder = Folder::new("page");
    let names = [
        "usual", "hostile", "noted", "changed", "spread", "more", "less", "ended", "waiting",
    ];
    let traces = names.map(|name| folder.join(&format!("{name}.fdr")));
    usual(&traces[0]);
    hostile(&traces[1]);
    noted(&traces[2]);
    changed(&traces[3]);
    spread(&traces[4]);
    readable_part(&traces[5], 1500);
    readable_part(&traces[6], 815);
    ended(&traces[7]);
    waiting(&traces[8]);
    let program = Program::named("controlled", &folder);
    let program = program
        .set("FDR=1 FDR_KEEP=0 FDR_DIR=rings/ FDR_OUT=out/")
        .start_ready();
    let (process, is_over) = (program.id().to_string(), AtomicBool::new(false));
    let mut node = Command::new("node");
    node.arg("test/browser.mjs")
        .arg(browser)
        .arg(fdr_tests::tool());
    let output = std::thread::scope(|scope| {
        scope.spawn(|| call_now_and_then(program, &is_over));
        let output = node
            .arg(folder.path())
            .arg(process)
            .args(&traces)
            .current_dir(page)
            .output();
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let output = output.expect("node runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(stdout.lines().count(), 12, "{stdout}");
}

#[test]
fn the_file_draws_in_firefox_and_answers_keys() {
    let check = "the page in Firefox";
    let names = ["firefox-esr", "firefox"];
    let Some(browser) = names.into_iter().find_map(xtask::process::on_path) else {
        return skip(&format!(
            "{check}: firefox is not installed: apt-get install firefox-esr"
        ));
    };
    let Some(page) = sources(check) else { return };
    let folder = Folder::new("firefox");
    let (trace, file) = (folder.join("noted.fdr"), folder.join("noted.html"));
    noted(&trace);
    let mut view = Command::new(fdr_tests::tool());
    let output = view.arg("view").arg("-o").args([&file, &trace]).output();
    assert!(output.expect("fdr runs").status.success());
    let mut node = Command::new("node");
    node.arg("test/firefox.mjs").arg(browser).arg(file);
    let output = node.arg(folder.path()).current_dir(page).output();
    let output = output.expect("node runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
