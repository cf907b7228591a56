//! The rules about crates: who may depend on whom, what users of the recorder pull in, and under which
//! licences. The graph is cargo's own, as `cargo tree` prints it.

use super::Finding;
use super::licence::is_permissive;
use xtask::Result;
use xtask::process::{cargo, output};

/// Every crate of ours, its folder, and which of ours it may depend on, for tests too.
const ARROWS: [(&str, &str, &[&str]); 11] = [
    ("fdr", "runtime", &["fdr-macros", "fdr-formats"]),
    ("fdr-macros", "macros", &[]),
    ("fdr-formats", "formats", &[]),
    ("fdr-cli", "cli", &["fdr-formats"]),
    ("fdr-tracing", "tracing", &["fdr"]),
    ("fdr-parking-lot", "parking-lot", &["fdr"]),
    ("fdr-examples", "examples", &["fdr", "fdr-tracing"]),
    (
        "fdr-bench",
        "bench",
        &["fdr", "fdr-formats", "fdr-parking-lot"],
    ),
    ("fdr-bench-driver", "bench/driver", &["xtask"]),
    (
        "fdr-tests",
        "tests",
        &[
            "fdr",
            "fdr-macros",
            "fdr-formats",
            "fdr-tracing",
            "fdr-parking-lot",
            "fdr-cli",
            "fdr-examples",
            "xtask",
        ],
    ),
    ("xtask", "xtask", &[]),
];

/// Crates in workspaces of their own: which of ours they may depend on.
const OUTSIDE: [(&str, &str, &[&str]); 2] = [
    ("fdr-fuzz", "fuzz", &["fdr-formats"]),
    ("fdr-fleet", "fleet", &["fdr-cli", "fdr-formats"]),
];

/// All that the recorder may depend on outside its tests.
const RUNTIME: [&str; 5] = [
    "libc",
    "crossbeam-utils",
    "core_affinity",
    "fdr-macros",
    "fdr-formats",
];

const TREE: &str = "tree --quiet --all-features";

/// Checks the workspace that this program belongs to.
///
/// # Errors
///
/// If cargo cannot tell the graph.
pub(super) fn check() -> Result<Vec<Finding>> {
    let tree = |options: &str| -> Result<String> { Ok(output(&mut cargo(options))?.0) };
    let everything = "--workspace --depth 1 --prefix depth --edges normal,build,dev --format {p}";
    let mut findings = arrows(&tree(&format!("{TREE} {everything}"))?);
    for (_, folder, _) in OUTSIDE {
        let manifest = format!("--locked --manifest-path {folder}/Cargo.toml");
        findings.extend(arrows(&tree(&format!("{TREE} {manifest} {everything}"))?));
    }
    let direct = "--depth 1 --prefix depth --edges normal,build --format {p}";
    findings.extend(recorder(&tree(&format!("{TREE} --package fdr {direct}"))?));
    let core = format!("tree --quiet --no-default-features --package fdr-formats {direct}");
    findings.extend(formats_core(&tree(&core)?));
    let linked = "--package fdr --package fdr-macros --package fdr-formats --package fdr-tracing \
                  --package fdr-parking-lot --edges normal,build";
    findings.extend(licences(&tree(&format!(
        "{TREE} {linked} --prefix none --format {{p}}|{{l}}"
    ))?));
    Ok(findings)
}

fn row(package: &str) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let mut rows = ARROWS.iter().chain(&OUTSIDE);
    rows.find(|(name, ..)| *name == package)
}

fn manifest_of(package: &str) -> String {
    let folder = row(package).map_or(package, |row| row.1);
    format!("{folder}/Cargo.toml")
}

/// (package, dependency) of a listing with `--depth 1 --prefix depth`; a package alone has "".
fn edges(tree: &str) -> Vec<(&str, &str)> {
    let mut package = "";
    let mut edges = Vec::new();
    for line in tree.lines() {
        let name = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let name = name.split_whitespace().next().unwrap_or("");
        match line.as_bytes().first() {
            Some(b'0') => {
                package = name;
                edges.push((package, ""));
            }
            Some(b'1') => edges.push((package, name)),
            _ => {}
        }
    }
    edges
}

fn arrows(tree: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, dependency) in edges(tree) {
        let manifest = manifest_of(package);
        let Some((.., allowed)) = row(package) else {
            let what = format!(
                "{package} is not in the table of arrows: add it to xtask/src/tidy/crates.rs"
            );
            findings.push(Finding::new(&manifest, 0, what));
            continue;
        };
        let ours = row(dependency).is_some();
        // A crate's own library is no arrow.
        if ours && dependency != package && !allowed.contains(&dependency) {
            let what = format!(
                "{package} must not depend on {dependency}: see ARCHITECTURE.md for the arrows"
            );
            findings.push(Finding::new(&manifest, 0, what));
        }
    }
    findings
}

fn recorder(tree: &str) -> Vec<Finding> {
    let extra = edges(tree).into_iter().map(|edge| edge.1);
    let extra = extra.filter(|name| !name.is_empty() && !RUNTIME.contains(name));
    let what = |name| {
        format!(
            "the recorder must not depend on {name}: only on {}",
            RUNTIME.join(", ")
        )
    };
    extra
        .map(|name| Finding::new("runtime/Cargo.toml", 0, what(name)))
        .collect()
}

fn formats_core(tree: &str) -> Vec<Finding> {
    let extra = edges(tree)
        .into_iter()
        .map(|edge| edge.1)
        .filter(|name| !name.is_empty());
    let what = |name| {
        format!("the core of the formats must not depend on {name}: put it behind a feature")
    };
    extra
        .map(|name| Finding::new("formats/Cargo.toml", 0, what(name)))
        .collect()
}

fn licences(tree: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in tree.lines() {
        let Some((package, licence)) = line.split_once('|') else {
            continue;
        };
        // Where a package is listed again, cargo adds a mark.
        let licence = licence.trim_end_matches("(*)").trim();
        if !is_permissive(licence) {
            let package: Vec<_> = package.split_whitespace().take(2).collect();
            let what = format!(
                "{} is under {licence:?}, not a permissive licence: replace it",
                package.join(" ")
            );
            findings.push(Finding::new("Cargo.lock", 0, what));
        }
    }
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn wrong_arrows_are_caught() {
        let tree = "0fdr-cli v0.1.0 (cli)\n1clap v4.0.0\n1fdr v0.1.0 (runtime)\n1fdr-formats v0.1.0\n\n\
                    0fdr-macros v0.1.0 (proc-macro)\n1syn v2.0.0 (*)\n\n0fdr-new v0.1.0\n\n\
                    0fdr-fuzz v0.1.0 (fuzz)\n1fdr v0.1.0 (runtime)\n";
        let found = whats(arrows(tree));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[2].starts_with("fuzz/Cargo.toml: fdr-fuzz must not depend on fdr:"),
            "{found:?}"
        );
        assert!(
            found[0].starts_with("cli/Cargo.toml: fdr-cli must not depend on fdr:"),
            "{found:?}"
        );
        assert!(
            found[1].contains("fdr-new is not in the table"),
            "{found:?}"
        );
        let good = "0fdr v0.1.0\n1fdr-formats v0.1.0\n1fdr-macros v0.1.0\n1libc v0.2.1\n";
        assert_eq!(arrows(good), []);
    }

    #[test]
    fn the_recorder_stays_small() {
        let tree = "0fdr v0.1.0 (runtime)\n1libc v0.2.1\n1serde v1.0.0\n";
        let found = whats(recorder(tree));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("runtime/Cargo.toml: the recorder must not depend on serde"));
        assert_eq!(formats_core("0fdr-formats v0.1.0\n"), []);
        assert_eq!(
            formats_core("0fdr-formats v0.1.0\n1zstd v0.13.0\n").len(),
            1
        );
    }

    #[test]
    fn copyleft_is_caught_once() {
        let tree = "fdr v0.1.0 (runtime)|MIT OR Apache-2.0\ncopyleft v1.0.0|GPL-3.0-only\n\
                    copyleft v1.0.0|GPL-3.0-only (*)\nlibc v0.2.1|MIT OR Apache-2.0 (*)\n";
        let found = whats(licences(tree));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("copyleft v1.0.0 is under \"GPL-3.0-only\""),
            "{found:?}"
        );
    }
}
