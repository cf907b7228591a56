//! The programs of `ui/pass` once more, in edition 2021 and before clippy; trybuild does it in this
//! package's edition. A program of edition 2015 stands for the oldest. Each denies warnings by itself; nothing here looks at what is recorded.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::package::{Package, said};

/// A `[[bin]]` for every program of `ui/pass`.
fn programs() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/pass");
    let mut bins = String::new();
    for file in fs::read_dir(&folder).expect("ui/pass") {
        let path = file.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        writeln!(bins, "[[bin]]\nname = \"{name}\"\npath = {path:?}\n").expect("a string grows");
    }
    assert!(
        bins.lines().count() > 40,
        "there are more programs than that:\n{bins}"
    );
    bins
}

// One test: both work in the same folder.
#[test]
fn edition_2021_and_clippy() {
    let package = Package::copy_of("editions", &programs());
    let output = package.cargo("build", &["--bins"]);
    assert!(output.status.success(), "{}", said(&output));
    for program in ["methods", "async_functions", "hygiene"] {
        let path = package.built("debug").join(program);
        let status = Command::new(path).env_remove("FDR").status();
        assert!(status.expect("it runs").success(), "{program}");
    }
    if fdr_tests::reader("cargo-clippy", "pedantic clippy on traced functions").is_some() {
        let output = package.cargo("clippy", &["--bin", "clean"]);
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn edition_2015() {
    let package = Package::copy_of("edition_2015", "");
    let output = package.cargo("run", &[]);
    assert!(output.status.success(), "{}", said(&output));
}
