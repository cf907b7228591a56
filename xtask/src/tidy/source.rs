//! The rules about one file. They read text only. Rules that need the graph of crates are in `crates`.

use super::Finding;

/// The files that may allow unsafe code in themselves and in the modules below them: rooms of the recorder, the time and
/// memory of child processes, loading a plug-in, raw locks, and an allocator that counts. Everywhere else the lint
/// `unsafe_code` refuses it.
const UNSAFE_PLACES: [&str; 14] = [
    "bench/src/main.rs",
    "examples/plugin.rs",
    "examples/plugin_host.rs",
    "fuzz/src/alloc.rs",
    "parking-lot/src/lib.rs",
    "runtime/src/clock/mod.rs",
    "runtime/src/crash/mod.rs",
    "runtime/src/load.rs",
    "runtime/src/primitive.rs",
    "runtime/src/private.rs",
    "runtime/src/recorder/mod.rs",
    "runtime/src/ring/mod.rs",
    "runtime/src/site/mod.rs",
    "runtime/src/sys/mod.rs",
];

/// Folders whose packages need no such lint: other people's recorders, and programs that tests record.
const UNSAFE_FOLDERS: [&str; 2] = ["bench/peers/", "tests/"];

/// Whether the rules look at the file at all.
pub(super) fn is_text(path: &str) -> bool {
    let ending = [".rs", ".toml", ".md"]
        .iter()
        .any(|ending| path.ends_with(ending));
    (ending || path == ".ci/run") && !path.contains("golden/")
}

/// Checks one file; `path` is relative to the workspace.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    machine_paths(path, text, &mut findings);
    unsafety(path, text, &mut findings);
    if path.ends_with(".rs") {
        head(path, text, &mut findings);
        ignored_tests(path, text, &mut findings);
        skips(path, text, &mut findings);
    }
    findings
}

fn machine_paths(path: &str, text: &str, findings: &mut Vec<Finding>) {
    // In pieces, so that this file passes.
    let folders = ["home", "work", "root", "Users"].map(|name| ["/", name, "/"].concat());
    for (number, line) in text.lines().enumerate() {
        if folders.iter().any(|folder| holds_absolute(line, folder)) {
            let what = "a path of somebody's machine: make it relative";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
}

/// Whether `folder` (with its slashes) occurs other than in the middle of a longer path.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_-./~}*".contains(letter))
    })
}

fn head(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if !path.contains("/ui/") && !text.starts_with("//! ") {
        let what = "start with a `//!` paragraph: what the file holds, and what it must never do";
        findings.push(Finding::new(path, 1, what));
    }
}

fn ignored_tests(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            let what = "an ignored test: mend it or take it out; one that needs an absent program is skipped aloud";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
}

/// The lint `unsafe_code` keeps unsafe code in its places. Each package must have the lint, and only these places may
/// turn it off.
fn unsafety(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return;
    }
    let is_package = path.ends_with("Cargo.toml") && text.contains("[package]");
    let has_lint = ["[lints]\nworkspace = true", "unsafe_code = \"deny\""];
    if is_package && !has_lint.iter().any(|lint| text.contains(lint)) {
        let what = "unsafe code is not refused here: add `[lints]` with `workspace = true`";
        findings.push(Finding::new(path, 0, what));
    }
    for (number, line) in text.lines().enumerate() {
        let allowed = ["allow", "expect", "warn"].iter().any(|level| {
            let attribute = [level, "(unsafe_code"].concat();
            let manifest = ["unsafe_code = \"", level].concat();
            line.contains(&attribute) || line.contains(&manifest)
        });
        if allowed && !UNSAFE_PLACES.contains(&path) {
            let what = "unsafe code outside its places: move it to a room that may have it; ARCHITECTURE.md has the list";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
}

fn skips(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let in_tests = path.contains("tests/");
    let listed = text.contains("FDR_SKIPS") || text.contains("fdr_tests::");
    if in_tests && text.contains("SKIPPED: ") && !listed {
        let what =
            "a skip that nobody counts: use fdr_tests::skip, or append the line to $FDR_SKIPS";
        findings.push(Finding::new(path, 0, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    /// The lines where a file breaks a rule whose message holds `what`.
    fn lines(path: &str, text: &str, what: &str) -> Vec<usize> {
        let findings = check(path, text).into_iter();
        findings
            .filter(|finding| finding.what.contains(what))
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_good_file_passes() {
        let text =
            "//! Reads records. Never allocates.\n\n/// Doc with todo!() in it.\nfn f() {}\n";
        assert_eq!(check("formats/src/xray/record.rs", text), []);
    }

    #[test]
    fn heads() {
        assert_eq!(lines("cli/src/ui.rs", "use std::io;\n", "`//!`"), [1]);
        assert_eq!(lines("tests/ui/pass/a.rs", "fn main() {}\n", "`//!`"), NONE);
    }

    #[test]
    fn ignored_tests_are_found() {
        let text = "//! x\n// #[ignore]\n#[test]\n    #[ignore = \"slow\"]\nfn f() {}\n";
        assert_eq!(lines("cli/src/a.rs", text, "an ignored test"), [4]);
    }

    #[test]
    fn unsafe_is_allowed_in_its_places() {
        let level = ["al", "low"].concat();
        let text = format!("//! x\n#![{level}(unsafe_code)]\n");
        for good in UNSAFE_PLACES.into_iter().chain(["tests/src/lib.rs"]) {
            assert_eq!(check(good, &text), [], "{good}");
        }
        for bad in [
            "runtime/src/shell/mod.rs",
            "runtime/src/ring/file.rs",
            "cli/src/a.rs",
        ] {
            assert_eq!(lines(bad, &text, "outside its places"), [2], "{bad}");
        }
        let manifest = format!("[package]\n[lints.rust]\nunsafe_code = \"{level}\"\n");
        assert_eq!(
            lines("cli/Cargo.toml", &manifest, "outside its places"),
            [3]
        );
    }

    #[test]
    fn packages_have_the_lint() {
        let what = "not refused here";
        assert_eq!(
            lines("new/Cargo.toml", "[package]\nname = \"new\"\n", what),
            [0]
        );
        for good in [
            "[package]\n[lints]\nworkspace = true\n",
            "[package]\n[lints.rust]\nunsafe_code = \"deny\"\n",
            "[workspace]\n",
        ] {
            assert_eq!(lines("new/Cargo.toml", good, what), NONE, "{good}");
        }
        assert_eq!(
            lines("bench/peers/new/Cargo.toml", "[package]\n", what),
            NONE
        );
    }

    #[test]
    fn each_place_is_used() {
        for place in UNSAFE_PLACES {
            let text = std::fs::read_to_string(xtask::process::root().join(place)).expect(place);
            assert!(
                text.contains("unsafe_code)]"),
                "{place} allows nothing: take it out of the list"
            );
        }
    }

    #[test]
    fn paths_of_machines_are_found() {
        let path = ["/", "home/"].concat();
        let text = format!("# x\n{path}me/x\nsrc{path}me/x\n");
        assert_eq!(lines("README.md", &text, "somebody's machine"), [2]);
    }

    #[test]
    fn skips_are_counted() {
        let bad = "//! x\nfn f() { eprintln!(\"SKIPPED: llvm-xray\"); }\n";
        assert_eq!(lines("cli/tests/map.rs", bad, "nobody counts"), [0]);
        let good = "//! x\nfn f() { fdr_tests::skip(\"x\") } // prints SKIPPED: x\n";
        assert_eq!(check("tests/tests/map.rs", good), []);
    }
}
