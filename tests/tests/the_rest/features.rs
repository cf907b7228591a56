//! With the default features, a program has the writers of XRay, Heph and HTDUMP, and no reader. A line says so if
//! `FDR_FORMAT` names another format. Must look at programs that are built outside of the workspace, because within it
//! all features are on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::package::{Package, text_of};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::fdr;
use object::{Object, ObjectSymbol};

/// Parts of names that only readers have.
const READERS: [&str; 8] = [
    "XraySource",
    "HephSource",
    "HtdumpSource",
    "EntraceSource",
    "TcstateSource",
    "CtfSource",
    "fdr_formats6source",
    "ring6reader",
];

/// Symbols of readers in a program.
fn readers(program: &Path) -> Vec<String> {
    let program = fs::read(program).expect("the program");
    let file = object::File::parse(&*program).expect("an ELF file");
    let names = file.symbols().filter_map(|symbol| symbol.name().ok());
    let names: Vec<String> = names.map(String::from).collect();
    assert!(names.iter().any(|name| name.contains("fdr_formats")));
    let is_reader = |name: &String| READERS.iter().any(|reader| name.contains(reader));
    names.into_iter().filter(is_reader).collect()
}

fn build(arguments: &[&str], profile: &str) -> PathBuf {
    let package = Package::copy_of("lean", "");
    let output = package.cargo("build", arguments);
    assert!(output.status.success(), "{}", text_of(&output));
    package.built(&format!("{profile}/fdr-tests-lean"))
}

fn run(program: &Path, folder: &Folder, variables: &[(&str, &str)]) -> Outcome {
    let program = Program::new(program, folder).env("FDR", "1");
    let with = |program: Program, &(name, value): &(&str, &str)| program.env(name, value);
    let outcome = variables.iter().fold(program, with).run();
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "2\n");
    outcome
}

/// The files of a folder, by their extensions.
fn extensions(folder: &Folder) -> Vec<String> {
    let files = fs::read_dir(folder.path()).expect("the folder");
    let extension = |path: PathBuf| Some(path.extension()?.to_str()?.to_owned());
    let mut found: Vec<String> = files
        .filter_map(|file| extension(file.expect("a file").path()))
        .collect();
    found.sort();
    found
}

// One test: it works in one folder.
#[test]
fn a_program_has_writers_of_three_formats() {
    let by_default = build(&["--release"], "release");
    assert_eq!(readers(&by_default), [""; 0]);
    // This program reads traces.
    assert!(fdr_formats::open(Path::new("/no-such-trace")).is_err());
    let own = std::env::current_exe().expect("this program");
    for reader in READERS {
        let found = readers(&own);
        let is_found = found.iter().any(|name| name.contains(reader));
        assert!(is_found, "{reader} is no part of a name any more");
    }

    let folder = Folder::new("features-left-out");
    let outcome = run(&by_default, &folder, &[("FDR_FORMAT", "CTF")]);
    let text = outcome.stderr;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "fdr: FDR_FORMAT=\"CTF\": the recorder has no such format, and writes xray; `fdr convert --to ctf` makes it of \
         the trace"
    );
    assert_eq!(lines.len(), 2, "the dump's line follows: {text}");
    assert_eq!(extensions(&folder), ["fdr"]);

    let folder = Folder::new("features-stream");
    for (name, value) in [("FDR_OUT", "tcp://127.0.0.1:1"), ("FDR_MODE", "stream")] {
        let outcome = run(&by_default, &folder, &[(name, value)]);
        assert_eq!(
            outcome.stderr,
            format!(
                "fdr: {name}=\"{value}\": this program can't stream: build it with the feature `stream` of fdr; \
                 recording is off\n"
            )
        );
    }
    assert_eq!(extensions(&folder), [""; 0]);

    // Events are in XRay's dump. The others say what they leave out.
    for format in ["xray", "heph", "htdump"] {
        let folder = Folder::new("features-event");
        let variables = [("FDR_FORMAT", format), ("FDR_LOG", "info")];
        let text = run(&by_default, &folder, &variables).stderr;
        let left_out = "1 notes (events, tasks, arguments, thread states): left out";
        assert_eq!(text.contains(left_out), format != "xray", "{text}");
        let event = event(&folder);
        assert_eq!(event.is_some(), format == "xray", "{event:?}");
    }

    let streams = build(&["--features", "stream"], "debug");
    assert_eq!(readers(&streams), [""; 0]);
    let outcome = run(&streams, &folder, &[("FDR_MODE", "stream")]);
    assert!(
        outcome
            .stderr
            .starts_with("fdr: streamed 2 records of 1 thread"),
        "{outcome:?}"
    );
    assert_eq!(extensions(&folder), ["fdr"]);
    let folder = Folder::new("features-stream-left-out");
    let variables = [("FDR_FORMAT", "iet2"), ("FDR_OUT", "tcp://127.0.0.1:1")];
    let outcome = run(&streams, &folder, &variables);
    let text = outcome.stderr;
    assert!(
        text.starts_with(
            "fdr: FDR_FORMAT=\"iet2\": `fdr convert` writes this format and sends it; record in another one; \
             accepted are heph, htdump, htdump-be"
        ),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(extensions(&folder), [""; 0]);
}

/// The line of the event, of the only trace in the folder.
fn event(folder: &Folder) -> Option<String> {
    let trace = fs::read_dir(folder.path()).expect("the folder").next();
    let trace = trace.expect("a trace").expect("a file").path();
    let lines = fdr("convert --to csv -o -", &[&trace]);
    let mut lines = lines.lines();
    lines
        .find(|line| line.starts_with("event,"))
        .map(str::to_owned)
}
