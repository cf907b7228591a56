//! Hostile users of the machine. They put files and links where traces go, run programs that have more rights than
//! their users, and choose the names that are printed. The recorder leaves their files as they are, and other users
//! can't read or change the recorder's files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use fdr_formats::registry;
use fdr_formats::text::is_unsafe;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{fdr, verify};

const SUM: &str = "315\n";
const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");

fn mode(path: &Path) -> u32 {
    let known = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    known.permissions().mode() & 0o7777
}

/// No line of text that a terminal obeys.
fn harmless(text: &str) {
    let bad = text.chars().find(|&c| c != '\n' && is_unsafe(c));
    assert_eq!(bad, None, "{text:?}");
}

fn endings(folder: &Folder, variables: &str) -> Outcome {
    let outcome = Program::named("endings", folder)
        .set(variables)
        .args(&["return"])
        .run()
        .ok();
    assert_eq!(outcome.stdout, SUM, "{outcome:?}");
    outcome
}

#[test]
fn files_are_their_owners_alone_whatever_the_umask() {
    for umask in ["000", "022", "077", "277", "777"] {
        for target in registry::recorded() {
            let folder = Folder::new("hostile-umask");
            let out = folder.join("out");
            let program = Program::named_in_shell(
                &format!("umask {umask}; exec \"$0\" \"$@\""),
                "endings",
                &folder,
            );
            let program = program
                .set("FDR=1 FDR_OUT=out")
                .env("FDR_FORMAT", target.name);
            let outcome = program.args(&["return"]).run().ok();
            assert_eq!(outcome.stdout, SUM, "{outcome:?}");
            assert_eq!(mode(&out), 0o600, "umask {umask}, {}", target.name);
        }
        let folder = Folder::new("hostile-umask-made");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let program =
            Program::named_in_shell(&script, "endings", &folder).set("FDR=1 FDR_OUT=made/");
        let _ = program.args(&["return"]).run().ok();
        assert_eq!(mode(&folder.join("made")) & 0o700, 0o700, "umask {umask}");
        let folder = Folder::new("hostile-umask-ring");
        let script = format!("umask {umask}; \"$0\" \"$@\" abort; true");
        let program = Program::named_in_shell(&script, "endings", &folder);
        let _ = program.set("FDR=1 FDR_CRASH=0").run().ok();
        let rings = folder.ending(".fdr-ring");
        assert_eq!(mode(&rings[0]), 0o600, "umask {umask}");
        let folder = Folder::new("hostile-umask-crash");
        let program = Program::named_in_shell(&script, "endings", &folder);
        let _ = program.set("FDR=1").run().ok();
        for file in folder.names() {
            assert_eq!(mode(&folder.join(&file)), 0o600, "umask {umask}: {file}");
        }
    }
}

#[test]
fn created_folders_are_private() {
    let folder = Folder::new("hostile-folders");
    let script = "umask 000; exec \"$0\" \"$@\" return";
    let program = Program::named_in_shell(script, "endings", &folder);
    let _ = program.set("FDR=1 FDR_OUT=a/b/ FDR_DIR=c/d/").run().ok();
    for made in ["a", "a/b", "c", "c/d"] {
        assert_eq!(mode(&folder.join(made)) & 0o022, 0, "{made}");
    }
    folder.files("a/b").iter().for_each(|trace| verify(trace));
}

#[test]
fn names_of_rings_are_not_to_be_guessed() {
    let folder = Folder::new("hostile-guess");
    for _ in 0..3 {
        let program = Program::named_in_shell("\"$0\" \"$@\" abort; true", "endings", &folder);
        let _ = program.set("FDR=1 FDR_CRASH=0").run().ok();
    }
    let names: BTreeSet<String> = folder
        .names()
        .iter()
        .map(|name| {
            let random = name.trim_end_matches(".fdr-ring").rsplit('.').next();
            random.expect("a random part").to_owned()
        })
        .collect();
    let hex = |name: &String| name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
    assert!(names.len() == 3 && names.iter().all(hex), "{names:?}");
}

#[test]
fn foreign_links_are_not_followed_or_replaced() {
    let folder = Folder::new("hostile-planted");
    fs::write(folder.join("precious"), "precious").expect("a file");
    let planted = folder.join("out.fdr");
    symlink("precious", &planted).expect("a link");
    if lchown(&planted, Some(54_321), None).is_err() {
        fdr_tests::skip("links of other users: no right to give a file away");
        return;
    }
    for (format, dangles) in [("xray", false), ("xray", true), ("heph", false)] {
        if dangles {
            fs::rename(folder.join("precious"), folder.join("elsewhere")).expect("moved");
        }
        let variables = format!("FDR=1 FDR_OUT=out.fdr FDR_FORMAT={format}");
        let outcome = endings(&folder, &variables);
        let lines = outcome.recorder_lines();
        assert!(
            lines.len() == 1 && lines[0].contains("no trace was written: "),
            "{lines:?}"
        );
        assert!(lines[0].contains("left as it is"), "{lines:?}");
        if dangles {
            assert!(!folder.join("precious").exists());
            fs::rename(folder.join("elsewhere"), folder.join("precious")).expect("moved");
        }
        assert_eq!(
            fs::read(folder.join("precious")).expect("it is there"),
            b"precious"
        );
        assert!(
            fs::symlink_metadata(&planted)
                .expect("the link")
                .is_symlink()
        );
        // The records are still there, in the ring.
        let rings = folder.ending(".fdr-ring");
        assert_eq!(rings.len(), 1, "{:?}", folder.names());
        fs::remove_file(&rings[0]).expect("the ring");
    }
    assert_eq!(folder.names(), ["out.fdr", "precious"]);
    // Names that have numbers pass it by.
    symlink("precious", folder.join("t.1")).expect("a link");
    endings(&folder, "FDR=1 FDR_OUT=t.%n");
    verify(&folder.join("t.2"));
}

#[test]
fn the_tool_follows_no_link_of_another_user() {
    let folder = Folder::new("hostile-planted-tool");
    endings(&folder, "FDR=1 FDR_OUT=in.fdr");
    fs::write(folder.join("precious"), "precious").expect("a file");
    let planted = folder.join("out");
    symlink("precious", &planted).expect("a link");
    if lchown(&planted, Some(54_321), None).is_err() {
        fdr_tests::skip("links of other users: no right to give a file away");
        return;
    }
    let tool = fdr_tests::tool();
    for arguments in [
        "convert in.fdr --to heph -o out",
        "convert in.fdr --to heph -o out --force",
        "convert in.fdr --to ctf -o out --force",
        "map in.fdr -o out",
        "state in.fdr --snapshot out",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let outcome = Program::new(&tool, &folder).args(&arguments).run();
        assert_eq!(outcome.status.code(), Some(2), "{arguments:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("left as it is"),
            "{arguments:?}: {outcome:?}"
        );
        assert_eq!(
            fs::read(folder.join("precious")).expect("it is there"),
            b"precious"
        );
        assert_eq!(folder.names(), ["in.fdr", "out", "precious"]);
    }
    // A link of the user's own stays a link. With `--force`, its target is replaced.
    fs::remove_file(&planted).expect("the link");
    symlink("precious", &planted).expect("a link");
    let outcome = Program::new(&tool, &folder)
        .args(&["convert", "in.fdr", "--to", "xray1", "-o", "out", "--force"])
        .run();
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(
        fs::symlink_metadata(&planted)
            .expect("the link")
            .is_symlink()
    );
    verify(&folder.join("precious"));
    assert_eq!(mode(&folder.join("precious")), 0o600);
}

#[test]
fn what_is_no_file_keeps_its_name() {
    let folder = Folder::new("hostile-special");
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    symlink("/dev/null", folder.join("device")).expect("a link");
    fs::create_dir(folder.join("folder")).expect("a folder");
    fs::write(folder.join("folder/precious"), "precious").expect("a file");
    fs::create_dir(folder.join("rings")).expect("a folder");
    let before = folder.names();
    for out in ["pipe", "device", "folder/../folder/."] {
        for format in ["xray", "heph"] {
            let variables = format!("FDR=1 FDR_DIR=rings FDR_OUT={out} FDR_FORMAT={format}");
            let outcome = endings(&folder, &variables);
            assert_eq!(folder.names(), before, "{outcome:?}");
        }
    }
    assert_eq!(
        fs::read(folder.join("folder/precious")).expect("it is there"),
        b"precious"
    );
    assert!(
        fs::symlink_metadata(folder.join("device"))
            .expect("the link")
            .is_symlink()
    );
}

#[test]
fn a_folder_behind_a_link_is_a_folder() {
    let folder = Folder::new("hostile-linked");
    fs::create_dir(folder.join("real")).expect("a folder");
    symlink("real", folder.join("linked")).expect("a link");
    let script = "\"$0\" \"$@\" abort; true";
    let program = Program::named_in_shell(script, "endings", &folder);
    let _ = program.set("FDR=1 FDR_DIR=linked FDR_CRASH=0").run().ok();
    let rings = folder.files("real").len();
    assert_eq!(
        (folder.names(), rings),
        (vec!["linked".into(), "real".into()], 1)
    );
}

/// A program with more rights than its user ignores the environment.
#[test]
fn programs_with_more_rights_ignore_the_environment() {
    let folder = Folder::new("hostile-setgid");
    let run = |program: &Path, way: &str| {
        // A loader that obeys prints an error about the missing library.
        let program = Program::new(program, &folder)
            .set("FDR=1 LD_PRELOAD=/no/such.so FDR_LOG=info FDR_OUT=x.fdr");
        program.args(&["endings", way]).run()
    };
    let copy = folder.join("copy");
    // By another program: a file that this one writes could be open in a child of another test's.
    let copied = Command::new("cp")
        .args([Path::new(env!("CARGO_BIN_EXE_programs")), &copy])
        .status();
    assert!(copied.expect("cp").success());
    let obeys = run(&copy, "return");
    assert!(
        obeys.stderr.contains("/no/such.so") && obeys.stderr.contains("fdr: "),
        "{obeys:?}"
    );
    verify(&folder.join("x.fdr"));
    fs::remove_file(folder.join("x.fdr")).expect("the trace");
    let is_foreign = [65_534].into_iter().chain(groups()).any(|group| {
        let is_changed = chown(&copy, None, Some(group)).is_ok();
        is_changed && group != primary_group()
    });
    let rights = fs::Permissions::from_mode(0o2755);
    let set = is_foreign && fs::set_permissions(&copy, rights).is_ok();
    let secure = set && !run(&copy, "idle").stderr.contains("/no/such.so");
    if !secure {
        fdr_tests::skip("setgid programs: no second group, or a file system without such rights");
        return;
    }
    for way in ["return", "dump", "abort", "caught"] {
        let outcome = run(&copy, way);
        assert!(outcome.stdout.starts_with(SUM), "{outcome:?}");
        assert!(!outcome.stderr.contains("fdr: "), "{outcome:?}");
        assert_eq!(folder.names(), ["copy"], "{way}");
    }
}

fn groups() -> Vec<u32> {
    let output = std::process::Command::new("id")
        .arg("-G")
        .output()
        .expect("id runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn primary_group() -> u32 {
    let output = std::process::Command::new("id")
        .arg("-g")
        .output()
        .expect("id runs");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number")
}

#[test]
fn hostile_programs_threads_and_functions_are_named_harmlessly() {
    let base = Folder::new("hostile-names");
    let names: [&[u8]; 4] = [
        b"\x1b]0;owned\x07\x1b[2J",
        b"two\nlines fdr: wrote",
        b"\xff\xc2\x9b31m\xe2\x80\xae",
        b"$(touch owned)'\"<b>;=1",
    ];
    for (nth, name) in names.into_iter().enumerate() {
        let place = base.join(&format!("in {nth} \u{1b}[31m\nfdr: x"));
        fs::create_dir(&place).expect("a folder");
        let program = place.join(Path::new(OsStr::from_bytes(name)));
        // A copy could be open for writing in a child that another test forks: "text file busy".
        fs::hard_link(HOSTILE, &program).expect("a second name");
        for (format, way) in [("xray", "return"), ("xray", "abort"), ("heph", "return")] {
            let script = "cd \"$1\" && \"$0\" \"$2\"; echo end";
            let outcome = Program::new("sh", &base)
                .args(&["-c", script])
                .args(&[program.as_os_str(), place.as_os_str(), OsStr::new(way)])
                .set("FDR=1 FDR_LOG=info")
                .env("FDR_FORMAT", format)
                .env("FDR_UNKNOWN_\u{1b}[2J", "x")
                .run();
            assert_eq!(outcome.stdout, "end\n", "{outcome:?}");
            let lines: Vec<&str> = outcome
                .stderr
                .lines()
                .filter(|line| line.starts_with("fdr: "))
                .collect();
            assert!(lines.len() >= 2, "{outcome:?}");
            lines.iter().for_each(|line| harmless(line));
            // Lines without the recorder's prefix are not checked, because the shell prints one about the program's
            // end.
            let forged = outcome
                .stderr
                .lines()
                .filter(|line| line.starts_with("fdr: x"))
                .count();
            assert_eq!(forged, 0, "{outcome:?}");
            let made = entries(&place).into_iter().filter(|path| *path != program);
            let traces: Vec<_> = made.collect();
            assert_eq!(traces.len(), 1, "{traces:?}: {outcome:?}");
            let file = traces[0]
                .file_name()
                .expect("a name")
                .to_str()
                .expect("UTF-8");
            assert!(!file.contains(|c: char| c.is_control()), "{file:?}");
            for command in ["info", "report", "slow", "replay", "verify", "state"] {
                harmless(&fdr(command, &[&traces[0]]));
            }
            fs::remove_file(&traces[0]).expect("removed");
        }
    }
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}
