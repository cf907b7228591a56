//! Programs and libraries that are built in many ways: link-time optimization, panics that abort, levels of
//! optimization, stripped files, split debug information, libraries for C, static programs, two versions of the
//! recorder, a library with the attribute behind a feature. Each program counts its calls. The trace that it writes at
//! its end must have the same counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Object;

use crate::package::{Package, text_of};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

/// The counts that a program printed, without those of 0.
fn counted(outcome: &Outcome) -> BTreeMap<String, u64> {
    let lines = outcome.stdout.lines();
    let counts = lines.filter_map(|line| {
        // A name may hold spaces.
        let (name, count) = line.rsplit_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

/// The calls in all traces of a folder, which must be whole and have lost nothing.
fn recorded(folder: &Folder, traces: usize) -> BTreeMap<String, u64> {
    let paths = folder.ending(".fdr");
    assert_eq!(paths.len(), traces, "{:?}", folder.names());
    let mut calls = BTreeMap::new();
    for path in paths {
        let trace = Trace::verified(&path);
        for lane in &trace.threads {
            let counts = lane.checked_counts();
            assert_eq!((counts.overwritten, counts.dropped), (0, 0));
        }
        for (name, count) in trace.calls() {
            *calls.entry(name).or_default() += count;
        }
    }
    calls
}

/// Runs a program that counts its calls. The program must record, and its trace must have the same counts.
fn records(what: &str, program: &Path, arguments: &[&str]) -> Outcome {
    let folder = Folder::new("builds");
    let outcome = Program::new(program, &folder)
        .args(arguments)
        .set("FDR=1 FDR_BUFFER=64M")
        .run();
    let counted = counted(&outcome);
    assert!(counted.len() > 1, "{what}: {outcome:?}");
    let mut recorded = recorded(&folder, 1);
    // The program can't count the call that ends it.
    recorded.remove("builds::panic::panics");
    assert_eq!(recorded, counted, "{what}");
    outcome
}

fn succeeds(what: &str, program: &Path) {
    let outcome = records(what, program, &[]);
    assert!(outcome.status.success(), "{what}: {outcome:?}");
}

/// Settings of the profile, as cargo's `--config` takes them, and flags of the compiler for all crates. Together they
/// cover every level of optimization except 1 (all other tests use 1), all kinds of `lto`, both kinds of panics, one
/// codegen unit and many, every way to strip and to split, and both linkers.
const WAYS: [(&str, &str); 5] = [
    // Each module is an object of its own, so a linker takes no more than what is named.
    (
        "opt-level=0 debug=2 split-debuginfo='packed' codegen-units=1000 incremental=true",
        "",
    ),
    (
        "opt-level=2 lto='fat' strip='debuginfo'",
        "-C linker-features=-lld",
    ),
    ("opt-level=3 lto='off' codegen-units=1 strip='symbols'", ""),
    (
        "opt-level='s' lto='thin' panic='abort' debug=1 split-debuginfo='unpacked'",
        "",
    ),
    (
        "opt-level='z' lto='fat' panic='abort' codegen-units=1 strip='symbols'",
        "-C linker-features=-lld",
    ),
];

/// What one way makes of the program and of the library for C.
struct Built {
    program: PathBuf,
    shared: PathBuf,
    archive: PathBuf,
}

fn build(package: &Package, settings: &str, flags: &str) -> Built {
    let mut arguments = vec!["--bins".to_owned(), "--examples".to_owned()];
    let mut config = |setting: String| arguments.extend(["--config".to_owned(), setting]);
    // `lto` needs it off, and a way may say otherwise.
    if !settings.contains("incremental") {
        config("profile.dev.incremental=false".to_owned());
    }
    for setting in settings.split(' ') {
        config(format!("profile.dev.{setting}"));
    }
    let flags: Vec<&str> = flags.split_whitespace().collect();
    config(format!("build.rustflags={flags:?}"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = package.cargo("build", &arguments);
    assert!(output.status.success(), "{settings}: {}", text_of(&output));
    Built {
        program: package.built("debug/builds"),
        shared: package.built("debug/examples/libfor_c.so"),
        archive: package.built("debug/examples/libfor_c.a"),
    }
}

/// The program in C, linked with a library.
fn link_c(folder: &Folder, name: &str, arguments: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/builds/src/main.c");
    let output = Command::new("cc")
        .arg("-O2")
        .arg(source)
        .args(arguments)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("cc runs");
    assert!(
        output.status.success(),
        "cc {arguments:?}: {}",
        text_of(&output)
    );
    program
}

/// What `rustc --print native-static-libs` names for this target.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

// All ways are one test, because each build replaces the previous one.
#[test]
fn profiles_linkers_and_libraries_for_c() {
    let package = Package::copy_of("builds", "");
    for (what, flags) in WAYS {
        let built = build(&package, what, flags);
        succeeds(what, &built.program);
        let outcome = records(what, &built.program, &["panic"]);
        let aborts = what.contains("panic='abort'");
        assert_eq!(outcome.status.success(), !aborts, "{what}: {outcome:?}");

        let folder = Folder::new("builds-c");
        let shared = built.shared.to_str().expect("UTF-8");
        let run_path = format!(
            "-Wl,-rpath,{}",
            built.shared.parent().expect("a folder").display()
        );
        succeeds(
            &format!("cdylib, {what}"),
            &link_c(&folder, "shared", &[shared, &run_path]),
        );
        let archive = built.archive.to_str().expect("UTF-8");
        for option in ["-Wl,--gc-sections", "-Wl,--no-gc-sections"] {
            let arguments = [&[archive, option], &SYSTEM[..]].concat();
            let what = format!("staticlib, {option}, {what}");
            succeeds(&what, &link_c(&folder, "archive", &arguments));
        }
    }
}

/// Kinds of static programs: at any address or at the one that the linker chose, by both linkers.
const STATIC: [&str; 4] = [
    "",
    "-C relocation-model=static",
    "-C linker-features=-lld",
    "-C linker-features=-lld -C relocation-model=static",
];

// A program without a loader: its base, the thread storage and the loaded objects are found in other ways. All kinds
// are one test, because each build replaces the previous one.
#[test]
fn static_programs() {
    let package = Package::copy_of("builds", "");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    for flags in STATIC {
        let all: Vec<&str> = ["-C", "target-feature=+crt-static"]
            .into_iter()
            .chain(flags.split_whitespace())
            .collect();
        let flags = format!("build.rustflags={all:?}");
        let output = package.cargo(
            "build",
            &["--bins", "--target", &target, "--config", &flags],
        );
        assert!(output.status.success(), "{}", text_of(&output));
        let program = package.built(&format!("{target}/debug/builds"));
        let bytes = fs::read(&program).expect("the program");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let mut imports = file.imports().expect("its imports");
        assert_eq!(imports.next().transpose().expect("an import"), None);
        succeeds(&flags, &program);
    }
}

/// A copy of the recorder's crate, with another version.
fn next_version() -> Package {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let manifest = fs::read_to_string(runtime.join("Cargo.toml")).expect("Cargo.toml");
    let mut next = String::new();
    for line in manifest.lines() {
        let text_of = match line.split_once(".workspace = true") {
            Some(("version", _)) => "version = \"0.2.0\"".to_owned(),
            Some(("edition", _)) => "edition = \"2024\"".to_owned(),
            Some(("license" | "repository", _)) => continue,
            Some(("fdr-macros", _)) => own("macros", "fdr-macros", false),
            _ if line.starts_with("fdr-formats = { workspace = true, optional") => {
                own("formats", "fdr-formats", true)
            }
            _ if line.starts_with("# Tests read") => break,
            _ => match line.split_once(" = { workspace = true, optional = true }") {
                Some((name, _)) => format!("{name} = {{ version = \"*\", optional = true }}"),
                None => line.to_owned(),
            },
        };
        next.push_str(&text_of);
        next.push('\n');
    }
    next.push_str("[workspace]\n");
    Package::new("fdr-next", &next)
}

fn own(folder: &str, name: &str, optional: bool) -> String {
    format!(
        "{name} = {{ path = \"../../../{folder}\", default-features = false, optional = {optional} }}"
    )
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(String) -> String) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let from = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        if from.is_dir() {
            copy(&from, &to, change);
        } else {
            let text = fs::read_to_string(&from).expect("a source file");
            fs::write(to, change(text)).expect("a copy");
        }
    }
}

// One test: the second version takes the place of the first.
#[test]
fn two_versions_of_the_recorder_in_one_program() {
    let next = next_version();
    let _library = Package::copy_of("two_versions_library", "");
    let package = Package::copy_of("two_versions", "");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src");
    let same = |text: String| text;
    // What a version does that changed what copies share.
    let other = |text: String| {
        text.replace("PROTOCOL: u32 = 12;", "PROTOCOL: u32 = 13;")
            .replace("fdr_sites_12\"", "fdr_sites_13\"")
            .replace("MAGIC: u32 = 0xFD12_517E", "MAGIC: u32 = 0xFD12_517F")
    };
    let versions: [(&dyn Fn(String) -> String, usize); 2] = [(&same, 1), (&other, 2)];
    for (change, traces) in versions {
        copy(&sources, &next.folder().join("src"), change);
        let output = package.cargo("build", &[]);
        assert!(output.status.success(), "{}", text_of(&output));
        let folder = Folder::new("two-versions");
        let program = Program::new(package.built("debug/two_versions"), &folder);
        let outcome = program.set("FDR=1 FDR_BUFFER=64M").run().ok();
        let counted = counted(&outcome);
        assert_eq!(counted.len(), 2, "{outcome:?}");
        assert_eq!(recorded(&folder, traces), counted, "{traces} traces");
        // Each function is in one table, once.
        let mut names = Vec::new();
        for trace in folder.ending(".fdr") {
            let functions = Trace::read(&trace).info.functions;
            names.extend(functions.into_iter().map(|function| function.name));
        }
        names.sort();
        assert_eq!(
            names,
            ["two_versions::ours", "two_versions_library::theirs"]
        );
    }
}

/// The crates that a package is built of, without those that run in the compiler.
fn crates_of(package: &Package, options: &[&str]) -> Vec<String> {
    let tree = ["--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let output = package.cargo("tree", &[&tree, options].concat());
    assert!(output.status.success(), "{}", text_of(&output));
    let tree = String::from_utf8_lossy(&output.stdout);
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.map(String::from).collect()
}

// One test: it works in one folder.
#[test]
fn a_library_with_the_attribute_behind_a_feature() {
    let _library = Package::copy_of("gated", "");
    let package = Package::copy_of("gated_user", "");
    let run = |folder: &Folder, options: &[&str]| {
        let output = package.cargo("build", options);
        assert!(output.status.success(), "{}", text_of(&output));
        let program = Program::new(package.built("debug/gated_user"), folder);
        let outcome = program.set("FDR=1").run().ok();
        assert_eq!(outcome.stdout, "190 Some(2)\n", "{outcome:?}");
    };
    assert_eq!(crates_of(&package, &[]), ["gated_user", "gated"]);
    let folder = Folder::new("gated-off");
    run(&folder, &[]);
    assert_eq!(folder.names(), [""; 0]);

    let record = ["--features", "record"];
    let crates = crates_of(&package, &record);
    assert!(crates.iter().any(|name| name == "fdr"), "{crates:?}");
    let folder = Folder::new("gated-on");
    run(&folder, &record);
    let expected = [
        ("gated::List::below", 1),
        ("gated::List::len", 1),
        ("gated::number", 20),
        ("gated::sum_below", 1),
        ("gated::waits", 1),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(recorded(&folder, 1), BTreeMap::from(expected));
}

#[test]
fn only_the_program_records_where_cargo_builds_it() {
    let _macros = Package::copy_of("in_builds_macros", "");
    let package = Package::copy_of("in_builds", "");
    let folder = Folder::new("in-builds");
    let traces = folder.path().join("");
    let cargo = |command, options: &[&str]| {
        let mut cargo = package.command(command, options);
        let output = cargo.env("FDR", "1").env("FDR_OUT", &traces).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", text_of(&output));
        output
    };
    let output = cargo("run", &[]);
    assert_eq!(output.stdout, b"190 190 190\n", "{}", text_of(&output));
    assert_eq!(recorded(&folder, 1).get("in_builds::sum"), Some(&1));
    let names = folder.names();
    cargo("test", &["--doc"]);
    assert_eq!(folder.names(), names);

    // Where nobody says where traces go, none makes cargo run the build script again.
    fs::write(package.built("CACHEDIR.TAG"), "").expect("a file");
    let traces = package.built("fdr");
    let _ = fs::remove_dir_all(&traces);
    let run = || {
        let output = package.command("run", &[]).env("FDR", "1").output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", text_of(&output));
        let program = fs::metadata(package.built("debug/in_builds"));
        program.and_then(|it| it.modified()).expect("a program")
    };
    assert_eq!(run(), run(), "built again");
    let written = fs::read_dir(&traces).expect("a folder").count();
    assert_eq!(written, 2, "traces");
    let mut tool = Command::new(fdr_tests::tool());
    let tool = tool.arg("report").current_dir(package.folder());
    let output = tool.env("CARGO_TARGET_DIR", package.built(".")).output();
    let output = output.expect("fdr runs");
    assert!(
        text_of(&output).contains("in_builds::sum"),
        "{}",
        text_of(&output)
    );
}

/// What `cargo fdr instrument` makes of a package.
fn instrument(package: &Package, options: &[&str]) {
    let mut tool = Command::new(fdr_tests::tool().with_file_name("cargo-fdr"));
    tool.args(["fdr", "instrument"]).args(options);
    let output = tool.arg(package.folder()).output().expect("cargo fdr runs");
    assert!(output.status.success(), "{}", text_of(&output));
}

// All editions are one test, because each build replaces the previous one. The attributes are first a person's, then
// the tool's.
#[test]
fn editions() {
    let package = Package::copy_of("edition_2015", "");
    let files = ["Cargo.toml", "src/main.rs"].map(|file| package.folder().join(file));
    let [manifest, source] = files
        .each_ref()
        .map(|file| fs::read_to_string(file).expect("a file"));
    let is_mark = |line: &&str| line.trim().starts_with("#[fdr::traced");
    let bare: Vec<&str> = source.lines().filter(|line| !is_mark(line)).collect();
    let no_recorder: Vec<&str> = manifest
        .lines()
        .filter(|line| !line.starts_with("fdr ="))
        .collect();
    let written = [manifest.clone(), source.clone()];
    let to_be_marked = [no_recorder.join("\n"), bare.join("\n")];
    for edition in ["2015", "2018", "2021", "2024"] {
        for (texts, by_tool) in [(&written, false), (&to_be_marked, true)] {
            let says = format!("edition = \"{edition}\"");
            let [manifest, source] = texts;
            let manifest = manifest.replace("edition = \"2015\"", &says);
            let source = match edition {
                "2015" => source.clone(),
                _ => source.replace("::first::second::Sum(", "crate::first::second::Sum("),
            };
            let texts = [manifest, source];
            let write = |(file, text): (&PathBuf, &String)| fs::write(file, text).expect("a file");
            files.iter().zip(&texts).for_each(write);
            if by_tool {
                instrument(&package, &["--all"]);
            }
            let output = package.cargo("build", &[]);
            assert!(output.status.success(), "{edition}: {}", text_of(&output));
            let folder = Folder::new("editions");
            let program = package.built("debug/fdr-tests-edition-2015");
            let _ = Program::new(program, &folder).set("FDR=1").run().ok();
            let mut names = vec![
                "first::one",
                "first::second::Sum::sum",
                "first::second::two",
                "three",
            ];
            if by_tool {
                names.push("main");
                instrument(&package, &["--remove"]);
                let left = files
                    .each_ref()
                    .map(|file| fs::read_to_string(file).expect("a file"));
                assert_eq!(left, texts, "{edition}");
            }
            let named = |name: &str| (format!("fdr_tests_edition_2015::{name}"), 1);
            let expected: BTreeMap<_, _> = names.into_iter().map(named).collect();
            assert_eq!(recorded(&folder, 1), expected, "{edition}, {by_tool}");
        }
    }
}
