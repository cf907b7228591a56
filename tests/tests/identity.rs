//! Each trace names its program's identity. The traces come from an exit, a crash, a ring after `kill -9`, a child of
//! a fork, and a stream, in every format.

use std::fs;
use std::path::Path;

use fdr_formats::identity::{Identity, Part};
use fdr_formats::registry;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json};
use fdr_tests::support::trace::Trace;
use fdr_tests::tool;
use serde_json::{Value, json};

const TAGS: &str = "shard=3,role=a=b ü";

fn program(folder: &Folder, how: &str) -> Program {
    // The tool is built first, because cargo may link the programs again with it.
    let _ = tool();
    let program = Program::named("identity", folder).args(&[how]);
    let program = program.set("FDR=1 FDR_OUT=out/ FDR_DIR=rings/");
    program.env("FDR_TAGS", TAGS)
}

/// The build id, found in the file without its structure: the head of its note, and then the id.
fn build_id() -> String {
    let file = fs::read(env!("CARGO_BIN_EXE_programs")).expect("the program");
    let kind = b"\x03\0\0\0GNU\0";
    let at = file.windows(8).position(|bytes| bytes == kind);
    let Some(at) = at else { return String::new() };
    let size = file[at - 4..at].try_into().map_or(0, u32::from_le_bytes) as usize;
    let id = file[at + 8..at + 8 + size].iter();
    id.map(|byte| format!("{byte:02x}")).collect()
}

fn line(path: &str) -> String {
    fs::read_to_string(path).expect(path).trim().to_owned()
}

/// What every trace of the program must say.
fn whole(version: &str, tags: &str) -> Identity {
    let mut identity = Identity::default();
    identity.set(Part::Host, &line("/proc/sys/kernel/hostname"));
    identity.set(Part::Boot, &line("/proc/sys/kernel/random/boot_id"));
    identity.set(Part::Build, &build_id());
    identity.set(Part::Version, version);
    identity.set(Part::Tags, tags);
    identity
}

fn own() -> Identity {
    whole(env!("CARGO_PKG_VERSION"), TAGS)
}

/// The identity of the only trace.
fn identity_of(folder: &Folder) -> Identity {
    Trace::read(&folder.only_file("out", "")).info.identity
}

#[test]
fn identities_are_in_every_format() {
    let folder = Folder::new("identity-formats");
    let _ = program(&folder, "exit").run().ok();
    let trace = &folder.files("out")[0];
    assert_eq!(identity_of(&folder), own());
    for target in registry::targets() {
        let to = folder.join(&format!("to.{}", target.name));
        let _ = fdr(&format!("convert --to {} -o", target.name), &[&to, trace]);
        assert_eq!(Trace::read(&to).info.identity, own(), "{}", target.name);
        let back = folder.join(&format!("back.{}", target.name));
        let _ = fdr("convert --to xray -o", &[&back, &to]);
        assert_eq!(Trace::read(&back).info.identity, own(), "{}", target.name);
    }
}

#[test]
fn recorded_formats_and_streams_have_identities() {
    for variables in [
        "FDR_FORMAT=xray1",
        "FDR_FORMAT=heph",
        "FDR_FORMAT=htdump",
        "FDR_FORMAT=htdump FDR_MODE=stream",
    ] {
        let folder = Folder::new("identity-targets");
        let _ = program(&folder, "exit").set(variables).run().ok();
        assert_eq!(identity_of(&folder), own(), "{variables}");
    }
}

#[test]
fn identities_survive_crash_kill_and_fork() {
    let folder = Folder::new("identity-crash");
    let _ = program(&folder, "crash").run();
    assert_eq!(identity_of(&folder), own());

    let folder = Folder::new("identity-kill");
    let running = program(&folder, "wait").start_ready();
    running.signal("KILL");
    let _ = running.end();
    let out = folder.join("recovered");
    let _ = fdr("dump -o", &[&out, &only_ring(&folder)]);
    assert_eq!(Trace::read(&out).info.identity, own());

    let folder = Folder::new("identity-fork");
    let _ = program(&folder, "fork").run().ok();
    let files = folder.files("out");
    let processes: Vec<_> = files
        .iter()
        .map(|file| {
            let info = Trace::read(file).info;
            assert_eq!(info.identity, own());
            info.process
        })
        .collect();
    assert_eq!(processes.len(), 2);
    assert_ne!(processes[0], processes[1]);
}

#[test]
fn killed_childrens_rings_have_identities() {
    let folder = Folder::new("identity-fork-kill");
    let outcome = program(&folder, "fork-kill").run();
    assert!(outcome.status.success(), "{outcome:?}");
    let out = folder.join("recovered");
    let _ = fdr("dump -o", &[&out, &only_ring(&folder)]);
    let info = Trace::read(&out).info;
    assert_eq!(info.reason, "killed");
    assert_eq!(info.identity, own());
}

#[test]
fn code_says_it_and_variables_win() {
    let folder = Folder::new("identity-code");
    let _ = tool();
    let program = || {
        Program::named("identity", &folder)
            .args(&["code"])
            .set("FDR_OUT=out/")
    };
    let _ = program().run().ok();
    assert_eq!(identity_of(&folder), whole("7.7", "by=code,n=2"));
    fs::remove_dir_all(folder.join("out")).expect("a folder");
    let _ = program().set("FDR_VERSION=8 FDR_TAGS=x=y").run().ok();
    assert_eq!(identity_of(&folder), whole("8", "x=y"));
}

#[test]
fn hostile_identities_are_refused_in_a_line() {
    let long = format!("a={}", "x".repeat(100_000));
    let many = "k=v,".repeat(20_000);
    for (name, value, problem) in [
        ("FDR_TAGS", "a=1\nb", "line break"),
        ("FDR_TAGS", "a=\u{1b}[2J", "line break"),
        ("FDR_TAGS", "a", "not key=value"),
        ("FDR_TAGS", "a=1,,b=2", "not key=value"),
        ("FDR_TAGS", &long, "too long"),
        ("FDR_TAGS", &many, "same key"),
        ("FDR_VERSION", "1\r2", "line break"),
        ("FDR_VERSION", &long, "too long"),
    ] {
        let folder = Folder::new("identity-hostile");
        let outcome = program(&folder, "exit").env(name, value).run().ok();
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        assert!(
            lines[0].contains(name) && lines[0].contains(problem),
            "{lines:?}"
        );
        assert!(
            lines[0].len() < 400 && !lines[0].contains('\u{1b}'),
            "{lines:?}"
        );
        assert!(!folder.join("out").exists());
    }
}

#[test]
fn the_tool_shows_it() {
    let folder = Folder::new("identity-shown");
    let _ = tool();
    let out = folder.join("out.fdr");
    let words = "record --log quiet --tags shard=3,role=b -o";
    let programs = Path::new(env!("CARGO_BIN_EXE_programs"));
    let program = ["identity", "exit"].map(Path::new);
    let _ = fdr(words, &[&[&*out, programs], &program[..]].concat());
    let identity = whole(env!("CARGO_PKG_VERSION"), "shard=3,role=b");
    let text = fdr("info", &[&out]);
    for (name, part) in ["host", "boot", "build", "version", "tags"]
        .iter()
        .zip(Part::ALL)
    {
        let text = text.lines().find_map(|line| line.strip_prefix(*name));
        let known = identity.get(part);
        let known = Some(known).filter(|known| !known.is_empty());
        assert_eq!(text.map(str::trim), known);
    }
    let some = |part: Part| match identity.get(part) {
        "" => Value::Null,
        text => Value::from(text),
    };
    let wanted = json!({
        "host": some(Part::Host),
        "boot_id": some(Part::Boot),
        "build_id": some(Part::Build),
        "version": some(Part::Version),
        "tags": { "shard": "3", "role": "b" },
    });
    for command in ["info", "report"] {
        let document = json(command, &[&out]);
        assert_eq!(document["identity"], wanted, "{command}");
    }
    let report = fdr("report", &[&out]);
    let host = identity.get(Part::Host);
    let version = identity.get(Part::Version);
    let head = format!("version {version} · host {host} · shard=3,role=b");
    assert_eq!(report.lines().nth(1), Some(&*head), "{report}");
    let records = fdr("replay --records", &[&out]);
    assert!(records.contains("fdr identity"), "{records}");
    assert!(Path::new(&out).exists());
}
