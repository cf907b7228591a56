//! What `#[traced]` accepts and what it refuses, and in which words. Each file of `ui` is one story. The words of a
//! refusal are in the `.stderr` beside it; `FDR_BLESS=1` writes these files anew. All files of a folder are built as
//! one package, because a package for each is a run of cargo for each. Nothing here looks at what is recorded.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{Package, text_of};
use serde_json::Value;

/// The programs of a folder of `ui`, by name.
fn programs(folder: &str) -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("ui")
        .join(folder);
    let mut programs = BTreeMap::new();
    for file in fs::read_dir(&folder).expect("the folder of programs") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().expect("a name").to_string_lossy();
            programs.insert(name.into_owned(), path);
        }
    }
    assert!(programs.len() > 10, "{folder:?}: {programs:?}");
    programs
}

/// A package with a program for each of these files.
fn package(name: &str, edition: &str, programs: &BTreeMap<String, PathBuf>) -> Package {
    let bins = programs
        .iter()
        .map(|(name, path)| format!("[[bin]]\nname = \"{name}\"\npath = {path:?}\n\n"));
    let bins: String = bins.collect();
    let manifest = format!(
        "[package]\nname = \"fdr-tests-{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\npublish = false\n\n\
         [dependencies]\nfdr = {{ path = \"../../../runtime\" }}\n\n[workspace]\n\n{bins}"
    );
    Package::new(name, &manifest)
}

fn runs(package: &Package, program: &str) {
    let mut program = Command::new(package.built("debug").join(program));
    let output = program.env_remove("FDR").output().expect("it runs");
    assert!(output.status.success(), "{program:?}: {}", text_of(&output));
}

#[test]
fn accepts() {
    let programs = programs("pass");
    let package = package("accepted", "2024", &programs);
    let output = package.cargo("build", &["--bins"]);
    assert!(output.status.success(), "{}", text_of(&output));
    for program in programs.keys() {
        runs(&package, program);
    }
}

/// Compiles the same programs in edition 2021, and runs clippy on one of them. Each program denies warnings.
#[test]
fn accepts_in_edition_2021_and_before_clippy() {
    let package = package("editions", "2021", &programs("pass"));
    let output = package.cargo("check", &["--bins"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let chosen = ["methods", "async_functions", "async_drops", "hygiene"];
    build(&package, &chosen, &[]);
    for program in chosen {
        runs(&package, program);
    }
    if fdr_tests::reader("cargo-clippy", "pedantic clippy on traced functions").is_some() {
        let output = package.cargo("clippy", &["--bin", "clean"]);
        assert!(output.status.success(), "{}", text_of(&output));
    }
}

/// The rules of edition 2018 about captures and drops differ from those of later ones.
#[test]
fn accepts_async_functions_in_edition_2018() {
    let chosen = ["async_captures", "async_drops"];
    let mut programs = programs("pass");
    programs.retain(|name, _| chosen.contains(&name.as_str()));
    let package = package("edition_2018", "2018", &programs);
    build(&package, &chosen, &[]);
    for program in chosen {
        runs(&package, program);
    }
}

/// A release build needs more levels of recursion than a dev build. Documentation shows the function as it is written.
#[test]
fn chain_of_async_functions_is_send() {
    let mut programs = programs("pass");
    programs.retain(|name, _| name == "async_depth");
    let package = package("async_depth", "2024", &programs);
    build(&package, &["async_depth"], &["--release"]);
    let output = package.cargo("doc", &["--no-deps"]);
    assert!(output.status.success(), "{}", text_of(&output));
    let page = fs::read_to_string(package.built("doc/async_depth/fn.f01.html")).expect("a page");
    assert!(
        page.contains("async fn") && !page.contains("impl"),
        "{page}"
    );
}

/// Builds these programs.
fn build(package: &Package, programs: &[&str], options: &[&str]) {
    let mut arguments = options.to_vec();
    for program in programs {
        arguments.extend(["--bin", program]);
    }
    let output = package.cargo("build", &arguments);
    assert!(output.status.success(), "{}", text_of(&output));
}

/// What the compiler says of each program, as people see it.
fn refusals(package: &Package) -> BTreeMap<String, String> {
    let output = package.cargo(
        "check",
        &["--bins", "--keep-going", "--message-format=json"],
    );
    assert!(!output.status.success(), "{}", text_of(&output));
    let here = format!("{}/", env!("CARGO_MANIFEST_DIR"));
    let mut refusals = BTreeMap::<String, Vec<String>>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("cargo writes JSON");
        let message = &line["message"];
        // Without a place: how many there were.
        if line["reason"] == "compiler-message" && message["spans"] != Value::Array(Vec::new()) {
            let target = line["target"]["name"].as_str().expect("a target");
            let rendered = message["rendered"].as_str().expect("a text");
            let text = format!("{}\n", rendered.replace(&here, "").trim_end());
            refusals.entry(target.to_owned()).or_default().push(text);
        }
    }
    let joined = |(name, texts): (String, Vec<String>)| (name, texts.join("\n"));
    refusals.into_iter().map(joined).collect()
}

#[test]
fn refuses() {
    let programs = programs("fail");
    let refusals = refusals(&package("refused", "2024", &programs));
    let bless = env::var_os("FDR_BLESS").is_some();
    let mut differences = String::new();
    for (name, program) in &programs {
        let words = program.with_extension("stderr");
        let found = refusals.get(name).map_or("", String::as_str);
        if bless {
            fs::write(&words, found).expect("the words can be written");
        }
        let expected = fs::read_to_string(&words).unwrap_or_default();
        if found.is_empty() || found != expected {
            differences += &format!("{name}: expected:\n{expected}\nfound:\n{found}\n");
        }
    }
    assert!(
        differences.is_empty(),
        "{differences}\nFDR_BLESS=1 takes what was found"
    );
}
