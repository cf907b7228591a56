//! A program with and without a recorder, in the same want: what both print must be the same. Must never
//! pass over a line that is not known.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, verify};

/// A name space of its own for mounts; of users too, so that root need not be asked.
pub(crate) const UNSHARE: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];

/// Whether this system allows what the script does. If not, the skip is printed.
pub(crate) fn may(case: &str, before: &str) -> bool {
    let folder = Folder::new("fault-may");
    let output = Command::new(UNSHARE[0])
        .args(&UNSHARE[1..])
        .args(["sh", "-c", before])
        .current_dir(folder.path())
        .output();
    let done = output.is_ok_and(|output| output.status.success());
    if !done {
        fdr_tests::skip(&format!(
            "{case}: no right to mount (unshare --user --mount)"
        ));
    }
    done
}

/// Every way in which a trace is asked for, or a program ends.
pub(crate) fn all_ways() -> Vec<String> {
    [
        "exit",
        "signal exit",
        "dump exit",
        "caught exit",
        "panic",
        "threads exit",
        "fork",
        "abort",
        "crash",
    ]
    .into_iter()
    .map(|way| format!("work {way}"))
    .collect()
}

/// A program in want.
#[derive(Debug)]
pub(crate) struct Row {
    variables: String,
    before: String,
    steps: String,
    prefix: String,
    injection: String,
    leftovers: bool,
}

/// What a recorded program has left.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// Lines of the recorder's, but for those about traces, written or lost.
    pub(crate) warnings: usize,
    /// Lines about traces that are lost, or cut off.
    pub(crate) lost: usize,
    pub(crate) lines: Vec<String>,
    /// Files and folders under final names.
    pub(crate) traces: Vec<PathBuf>,
}

impl Row {
    /// `before` is a script that makes the want, `steps` are the program's.
    pub(crate) fn new(variables: &str, before: &str, steps: &str) -> Row {
        Row {
            variables: variables.into(),
            before: before.into(),
            steps: steps.into(),
            prefix: String::new(),
            injection: String::new(),
            leftovers: false,
        }
    }

    /// Files can't be removed: what is left under a temporary name is not wrong.
    pub(crate) fn with_leftovers(self) -> Row {
        Row {
            leftovers: true,
            ..self
        }
    }

    /// A command that runs the program.
    pub(crate) fn with_prefix(self, prefix: &str) -> Row {
        Row {
            prefix: prefix.into(),
            ..self
        }
    }

    /// A command that runs the recorded program alone.
    pub(crate) fn with_injection(self, injection: &str) -> Row {
        Row {
            injection: injection.into(),
            ..self
        }
    }

    /// Runs it with and without a recorder, by way of `around`, and compares.
    pub(crate) fn check(&self, around: &[&str]) -> Leftovers {
        self.check_in(&Folder::new("fault-row"), around)
    }

    /// The same; the recorded one's files stay in `folder`.
    pub(crate) fn check_in(&self, folder: &Folder, around: &[&str]) -> Leftovers {
        let plain = Folder::new("fault-plain");
        let untraced = self.run(&plain, around, "");
        let traced = self.run(folder, around, &self.variables);
        let case = format!("{self:?}\n{untraced:?}\n{traced:?}");
        assert_eq!(traced.status, untraced.status, "{case}");
        assert_eq!(traced.stdout, untraced.stdout, "{case}");
        let (ours, theirs): (Vec<&str>, Vec<&str>) = traced
            .stderr
            .split_inclusive('\n')
            .partition(|line| line.starts_with("fdr: "));
        assert_eq!(steady(&theirs.concat()), steady(&untraced.stderr), "{case}");
        let lost = ours.iter().filter(|line| is_of_lost(line)).count();
        let warnings = ours.iter().filter(|line| !is_ordinary(line)).count() - lost;
        // Of each process: a child knows of its own traces.
        let processes = 1 + usize::from(self.steps.contains("fork"));
        assert!(warnings <= processes, "at most one line of warning: {case}");
        // The end of each process, and every step that asks for one.
        let asks = |step: &str| ["signal", "caught", "panic"].contains(&step);
        let dumps = processes + self.steps.split(' ').filter(|step| asks(step)).count();
        assert!(
            lost <= dumps,
            "at most one line for each lost trace: {case}"
        );
        Leftovers {
            warnings,
            lost,
            lines: ours.iter().map(|&line| line.to_owned()).collect(),
            traces: self.look_over(folder, &traced),
        }
    }

    fn run(&self, folder: &Folder, around: &[&str], variables: &str) -> Outcome {
        let injection = if variables.is_empty() {
            ""
        } else {
            &self.injection
        };
        // The files that are left are copied, because their file system can't be seen from outside.
        let script = format!(
            "home=$PWD; {{ {before}; }} >&2 || exit 99; {prefix} {injection} env {variables} \"$0\" {steps}; code=$?; \
             find . -mindepth 1 -maxdepth 4 > $home/left; \
             if [ \"$PWD\" != \"$home\" ]; then cp -r traces $home/traces; fi 2> /dev/null; exit $code",
            before = self.before,
            prefix = self.prefix,
            steps = self.steps,
        );
        let mut words: Vec<&str> = around.to_vec();
        words.extend(["sh", "-c", &script, env!("CARGO_BIN_EXE_steadfast")]);
        // A backtrace takes more memory than there may be.
        let program = Program::new(words[0], folder).env("RUST_BACKTRACE", "0");
        let outcome = program.args(&words[1..]).run();
        assert_ne!(outcome.status.code(), Some(99), "{self:?}: {outcome:?}");
        outcome
    }

    /// The traces: each whole, and nothing hidden or half-made beside them.
    fn look_over(&self, folder: &Folder, outcome: &Outcome) -> Vec<PathBuf> {
        let left = fs::read_to_string(folder.join("left")).unwrap_or_default();
        for name in left.lines().filter_map(|path| Path::new(path).file_name()) {
            let name = name.to_string_lossy();
            let ends = [".tmp", ".dump", ".old", ".part"];
            let temporary = name.starts_with('.') && ends.iter().any(|end| name.ends_with(end));
            assert!(
                self.leftovers || !temporary,
                "{self:?}: {outcome:?}\n{left}"
            );
        }
        let entries = fs::read_dir(folder.join("traces")).into_iter().flatten();
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_final = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with('.') && !name.ends_with(".fdr-ring")
        };
        let traces: Vec<PathBuf> = paths.filter(is_final).collect();
        traces.iter().for_each(|path| verify(path));
        traces
    }
}

/// Whether a line of the recorder's is about a trace that there is.
fn is_ordinary(line: &str) -> bool {
    let begins = ["fdr: wrote ", "fdr: replaced ", "fdr: streamed "];
    let of_crash = line.starts_with("fdr: SIG") && line.contains(": the last ");
    of_crash || begins.iter().any(|start| line.starts_with(start))
}

/// Whether a line of the recorder's is about a trace that is lost or cut off: with its path, and what to do.
fn is_of_lost(line: &str) -> bool {
    let is_refused = line.contains(": no trace was written: ");
    assert!(!is_refused || line.contains("; "), "no remedy: {line}");
    is_refused || line.ends_with(": what follows is lost\n")
}

/// What differs from run to run: the number of the thread that panics, and of the process in the shell's
/// word about its end.
fn steady(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}
