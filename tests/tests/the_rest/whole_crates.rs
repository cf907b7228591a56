//! `cargo fdr instrument` on other people's packages: those that this project depends on. Every byte is restored, and a
//! second run finds nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::package::text_of;

/// The folders of all packages that cargo took from a registry, sorted.
fn packages() -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        // What another platform needs may never have been fetched.
        .arg("--filter-platform")
        .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let fetched = packages
        .iter()
        .filter(|package| package["source"].is_string());
    let manifests = fetched.filter_map(|package| package["manifest_path"].as_str());
    let mut folders: Vec<PathBuf> = manifests
        .filter_map(|manifest| Some(Path::new(manifest).parent()?.to_owned()))
        .collect();
    folders.sort();
    folders
}

/// Every file below a folder.
fn files(folder: &Path, files_of: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, files_of);
        } else {
            files_of.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::write(&to, fs::read(&path).expect("a file")).expect("a copy");
        }
    }
}

fn instrument(package: &Path, options: &[&str]) -> Output {
    let tool = fdr_tests::tool().with_file_name("cargo-fdr");
    let mut command = Command::new(tool);
    command.args(["fdr", "instrument"]).args(options);
    command.arg(package).output().expect("cargo fdr runs")
}

#[test]
fn every_byte_is_restored() {
    // Below this workspace, cargo would take each package for a part of it.
    let folder = std::env::temp_dir().join(format!("whole-crates-{}", std::process::id()));
    let packages = packages();
    assert!(packages.len() > 60, "{packages:?}");
    let mut marked = 0;
    // A fifth of them; the whole list says nothing more, and takes minutes.
    for (number, original) in packages.iter().enumerate().step_by(5) {
        let package = folder.join(original.file_name().expect("a name"));
        copy(original, &package);
        let mut before = BTreeMap::new();
        files(&package, &mut before);
        let layout: &[&str] = if number % 2 == 0 {
            &["--all"]
        } else {
            &["--all", "--same-line"]
        };
        let output = instrument(&package, layout);
        assert!(
            output.status.success(),
            "{}: {}",
            package.display(),
            text_of(&output)
        );
        let mut with_marks = BTreeMap::new();
        files(&package, &mut with_marks);
        marked += usize::from(with_marks != before);
        let output = instrument(&package, &[layout, &["--check"]].concat());
        assert!(
            output.status.success(),
            "{}: {}",
            package.display(),
            text_of(&output)
        );
        let output = instrument(&package, &["--remove"]);
        assert!(
            output.status.success(),
            "{}: {}",
            package.display(),
            text_of(&output)
        );
        let mut after = BTreeMap::new();
        files(&package, &mut after);
        assert!(after == before, "{}: not as it was", package.display());
        fs::remove_dir_all(&package).expect("removed");
    }
    fs::remove_dir_all(&folder).expect("removed");
    assert!(marked > 8, "{marked} packages were marked");
}
