//! `deny.toml` refuses copyleft. `cargo deny` reads packages that are made here.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

use fdr_tests::skip;
use fdr_tests::support::folder::Folder;

/// Whether `cargo deny` accepts a package with that licence, and its output. `None`: it is not installed.
fn judged(licence: &str) -> Option<(bool, String)> {
    let folder = Folder::new("licences");
    let manifest = folder.path().join("Cargo.toml");
    let text = format!(
        "[workspace]\n[package]\nname = \"judged\"\nedition = \"2024\"\n{licence}\n[lib]\npath = \"lib.rs\"\n"
    );
    std::fs::write(&manifest, text).expect("a manifest");
    std::fs::write(folder.path().join("lib.rs"), "").expect("a file");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let mut deny = Command::new("cargo-deny");
    deny.arg("--offline").arg("--manifest-path").arg(manifest);
    deny.arg("--config").arg(rules);
    match deny.args(["check", "licenses", "sources", "bans"]).output() {
        Ok(output) => {
            let messages = String::from_utf8_lossy(&output.stderr).into_owned();
            Some((output.status.success(), messages))
        }
        Err(error) => {
            skip(&format!("deny.toml refuses copyleft: cargo-deny: {error}"));
            None
        }
    }
}

#[test]
fn permissive_licences_pass() {
    for licence in [
        "MIT",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "GPL-3.0-only OR MIT",
    ] {
        let Some((passes, message)) = judged(&format!("license = {licence:?}")) else {
            return;
        };
        assert!(passes, "{licence}: {message}");
    }
}

#[test]
fn copyleft_and_no_licence_are_refused() {
    for licence in [
        "license = \"GPL-3.0-only\"",
        "license = \"MIT AND MPL-2.0\"",
        "",
    ] {
        let Some((passes, message)) = judged(licence) else {
            return;
        };
        assert!(
            !passes && message.contains("error["),
            "{licence}: {message}"
        );
    }
}
