//! The rules about one file. They read text only; what needs the crates' graph is in `crates`.

use super::Finding;
use super::lexer::code_only;

/// Crates that forbid unsafe code altogether, by their roots.
const FORBID_UNSAFE: [&str; 9] = [
    "formats/src/lib.rs",
    "cli/src/cargo_fdr/main.rs",
    "cli/src/fdr/main.rs",
    "cli/src/lib.rs",
    "macros/src/lib.rs",
    "tracing/src/lib.rs",
    "xtask/src/main.rs",
    "xtask/src/lib.rs",
    "bench/driver/src/main.rs",
];

/// The rooms of the recorder where unsafe code may live: `runtime/src/ROOM.rs` and `ROOM/`.
const UNSAFE_ROOMS: [&str; 9] = [
    "sys",
    "clock",
    "recorder",
    "ring",
    "crash",
    "site",
    "primitive",
    "private",
    "load",
];

/// Other places: the bench's floor, other people's recorders, loading a plug-in, raw locks, tests that trace unsafe functions, and
/// an allocator that counts, for tests and fuzzing.
const UNSAFE_PLACES: [&str; 12] = [
    "bench/peers/",
    "bench/src/",
    "examples/plugin.rs",
    "examples/plugin_host.rs",
    "fuzz/src/alloc.rs",
    "parking-lot/src/",
    "tests/foreign/",
    "tests/programs/",
    "tests/src/bin/",
    "tests/src/programs/",
    "tests/tests/",
    "tests/ui/",
];

/// What must not be left in code, and what to do instead.
const LEFTOVERS: [(&str, &str); 4] = [
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or leave it out"),
    ("dbg!", "take it out"),
    (
        "#[ignore",
        "mend the test or take it out; one that needs an absent program is skipped aloud",
    ),
];

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
    whitespace_and_paths(path, text, &mut findings);
    if path.ends_with(".rs") {
        let code = code_only(text);
        shape(path, text, &mut findings);
        leftovers(path, &code, &mut findings);
        unsafety(path, text, &code, &mut findings);
        skips(path, text, &mut findings);
    }
    findings
}

fn whitespace_and_paths(path: &str, text: &str, findings: &mut Vec<Finding>) {
    // In pieces, so that this file passes.
    let folders = ["home", "work", "root", "Users"].map(|name| ["/", name, "/"].concat());
    for (number, line) in text.lines().enumerate() {
        let mut found = |what: &str| findings.push(Finding::new(path, number + 1, what));
        if line.contains('\t') {
            found("a tab: indent with spaces, write \\t in literals");
        }
        if line.ends_with(' ') {
            found("a space at the end of the line: take it out");
        }
        if folders.iter().any(|folder| holds_absolute(line, folder)) {
            found("a path of somebody's machine: make it relative");
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(
            path,
            text.lines().count(),
            "no newline at the end: add one",
        ));
    }
}

/// Whether `folder` (with its slashes) occurs other than in the middle of a longer path.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_-./~}*".contains(letter))
    })
}

fn shape(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if !path.contains("/ui/") && !text.starts_with("//! ") {
        let what = "start with a `//!` paragraph: what the file holds, and what it must never do";
        findings.push(Finding::new(path, 1, what));
    }
    if FORBID_UNSAFE.contains(&path) && !text.contains("#![forbid(unsafe_code)]") {
        findings.push(Finding::new(
            path,
            0,
            "add #![forbid(unsafe_code)] to the crate",
        ));
    }
}

fn leftovers(path: &str, code: &str, findings: &mut Vec<Finding>) {
    for (number, line) in code.lines().enumerate() {
        for (leftover, advice) in LEFTOVERS {
            if line.contains(leftover) {
                let what = format!("{leftover} in code: {advice}");
                findings.push(Finding::new(path, number + 1, what));
            }
        }
    }
}

fn may_be_unsafe(path: &str) -> bool {
    let room = path
        .strip_prefix("runtime/src/")
        .and_then(|rest| rest.split(['/', '.']).next());
    room.is_some_and(|room| UNSAFE_ROOMS.contains(&room))
        || UNSAFE_PLACES.iter().any(|place| path.starts_with(place))
}

fn unsafety(path: &str, text: &str, code: &str, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in code.lines().enumerate() {
        // A macro that parses the keyword names it like this.
        let line = line.replace("Token![unsafe]", "");
        let Some(after) = after_word(&line, "unsafe") else {
            continue;
        };
        if !may_be_unsafe(path) {
            let what = "unsafe code outside its rooms: move it to runtime/src/{sys,clock,recorder,ring,crash,site,primitive,private,load}";
            findings.push(Finding::new(path, number + 1, what));
        }
        let block = after.starts_with('{') || after.starts_with("impl");
        if block && !path.contains("/ui/") && !argued(&lines, number) {
            let what = "unsafe without a SAFETY comment above it: argue why it holds";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
}

/// What follows the word, where it stands as a whole word.
fn after_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let is_name = |letter: char| letter == '_' || letter.is_alphanumeric();
    line.match_indices(word).find_map(|(at, _)| {
        let after = &line[at + word.len()..];
        (!line[..at].ends_with(is_name) && !after.starts_with(is_name)).then(|| after.trim_start())
    })
}

/// Whether a SAFETY comment belongs to the statement that reaches the line.
fn argued(lines: &[&str], number: usize) -> bool {
    if lines[number].contains("// SAFETY:") {
        return true;
    }
    for line in lines[..number].iter().rev() {
        let line = line.trim();
        if line.contains("// SAFETY:") {
            return true;
        }
        let comment = line.starts_with("//");
        if line.is_empty() || (!comment && line.ends_with([';', '}'])) {
            return false;
        }
    }
    false
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
        assert_eq!(lines("tests/ui/pass/a.rs", "fn main() {}\n", "`//!`"), []);
        assert_eq!(lines("cli/src/lib.rs", "//! Tool.\n", "forbid"), [0]);
    }

    #[test]
    fn leftovers_in_code_only() {
        let text = "//! x\nfn f() { todo!() }\nfn g() { dbg!(1); }\n#[ignore = \"slow\"]\n// todo!\n\
                    fn h() -> &'static str { \"unimplemented!\" }\n";
        assert_eq!(lines("cli/src/a.rs", text, "in code"), [2, 3, 4]);
    }

    #[test]
    fn unsafe_stays_in_its_rooms() {
        let text = "//! x\n// SAFETY: the pointer is ours.\nunsafe { f() }\n";
        for good in [
            "runtime/src/ring/file.rs",
            "runtime/src/private.rs",
            "bench/src/floor.rs",
        ] {
            assert_eq!(check(good, text), [], "{good}");
        }
        for bad in [
            "runtime/src/shell/mod.rs",
            "runtime/src/ringing.rs",
            "cli/src/a.rs",
            "macros/src/a.rs",
        ] {
            assert_eq!(lines(bad, text, "outside its rooms"), [3], "{bad}");
        }
        let names = "//! unsafe\n#![forbid(unsafe_code)]\nlet not_unsafe = Token![unsafe];\n";
        assert_eq!(check("macros/src/parse.rs", names), []);
    }

    #[test]
    fn unsafe_is_argued() {
        let path = "runtime/src/sys/map.rs";
        let bad = "//! x\n// SAFETY: for another.\nunsafe { f() };\nlet x = unsafe { g() };\nunsafe impl Send for X {}\n";
        assert_eq!(lines(path, bad, "without a SAFETY"), [4, 5]);
        let good = "//! x\n// SAFETY: long,\n// longer.\nlet x = call(\n    unsafe { g() },\n);\nunsafe fn h() {}\n";
        assert_eq!(check(path, good), []);
    }

    #[test]
    fn whitespace_and_machine_paths() {
        let path = ["/", "home/"].concat();
        let text = format!("# x\n\tindented\nblank \n{path}me/x\nsrc{path}me/x");
        assert_eq!(lines("README.md", &text, "a tab"), [2]);
        assert_eq!(lines("README.md", &text, "a space"), [3]);
        assert_eq!(lines("README.md", &text, "somebody's machine"), [4]);
        assert_eq!(lines("README.md", &text, "no newline"), [5]);
    }

    #[test]
    fn skips_are_counted() {
        let bad = "//! x\nfn f() { eprintln!(\"SKIPPED: llvm-xray\"); }\n";
        assert_eq!(lines("cli/tests/map.rs", bad, "nobody counts"), [0]);
        let good = "//! x\nfn f() { fdr_tests::skip(\"x\") } // prints SKIPPED: x\n";
        assert_eq!(check("tests/tests/map.rs", good), []);
    }
}
