//! A program with and without a recorder, in the same want: what both print must be the same. Must never
//! pass over a line that is not known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder::Folder;
use super::program::{Outcome, Program};
use super::tool::verify;

/// A name space of its own for mounts; of users too, so that root need not be asked.
pub const UNSHARE: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];

/// Whether this system allows what the script does. If not, the skip is printed.
#[must_use]
pub fn may(case: &str, folder: &Folder, before: &str) -> bool {
    let output = Command::new(UNSHARE[0])
        .args(&UNSHARE[1..])
        .args(["sh", "-c", before])
        .current_dir(folder.path())
        .output();
    let done = output.is_ok_and(|output| output.status.success());
    if !done {
        crate::skip(&format!(
            "{case}: no right to mount (unshare --user --mount)"
        ));
    }
    done
}

/// A program in want.
#[derive(Debug)]
pub struct Row {
    program: PathBuf,
    variables: String,
    before: String,
    steps: String,
    prefix: String,
    injection: String,
    leftovers: bool,
    check_trace: fn(&Path),
}

/// What a recorded program has left.
#[derive(Debug)]
pub struct Leftovers {
    /// Lines of the recorder's, but for those about traces, written or lost.
    pub warnings: usize,
    /// Lines about traces that are lost, or cut off.
    pub lost: usize,
    /// Its lines.
    pub lines: Vec<String>,
    /// Files and folders under final names.
    pub traces: Vec<PathBuf>,
}

impl Row {
    /// The program is `steadfast`. `before` is a script that makes the want, `steps` are the program's.
    #[must_use]
    pub fn new(program: &Path, variables: &str, before: &str, steps: &str) -> Row {
        Row {
            program: program.to_owned(),
            variables: variables.into(),
            before: before.into(),
            steps: steps.into(),
            prefix: String::new(),
            injection: String::new(),
            leftovers: false,
            check_trace: verify,
        }
    }

    /// Another check of each trace than that of the tool.
    #[must_use]
    pub fn with_check(self, check_trace: fn(&Path)) -> Row {
        Row {
            check_trace,
            ..self
        }
    }

    /// Files can't be removed: what is left under a temporary name is not wrong.
    #[must_use]
    pub fn with_leftovers(self) -> Row {
        Row {
            leftovers: true,
            ..self
        }
    }

    /// A command that runs the program.
    #[must_use]
    pub fn with_prefix(self, prefix: &str) -> Row {
        Row {
            prefix: prefix.into(),
            ..self
        }
    }

    /// A command that runs the recorded program alone.
    #[must_use]
    pub fn with_injection(self, injection: &str) -> Row {
        Row {
            injection: injection.into(),
            ..self
        }
    }

    /// The same in a folder of its own.
    ///
    /// # Panics
    ///
    /// Like [`Row::check_in`].
    #[must_use]
    pub fn check(&self, around: &[&str]) -> Leftovers {
        self.check_in(&Folder::new("fault-row"), around)
    }

    /// Runs it with and without a recorder, by way of `around`, and compares. The recorded one's files stay in `folder`.
    ///
    /// # Panics
    ///
    /// If the two differ, or anything half-made is left.
    #[must_use]
    pub fn check_in(&self, folder: &Folder, around: &[&str]) -> Leftovers {
        let plain = Folder::within(folder.path(), "plain");
        let untraced = self.run(&plain, around, "");
        drop(plain);
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
        let steps = || self.steps.split(' ');
        let processes = 1 + steps().filter(|step| *step == "fork").count();
        assert!(warnings <= processes, "at most one line of warning: {case}");
        // The end of each process, and every step that asks for one.
        let asks = |step: &str| ["signal", "caught", "panic"].contains(&step);
        let dumps = processes + steps().filter(|step| asks(step)).count();
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
             if [ \"$PWD\" != \"$home\" ]; then cp -r traces $home/traces; \
             find . -name '*.fdr' -not -path './traces/*' -exec cp --parents -t $home {{}} +; fi 2> /dev/null; exit $code",
            before = self.before,
            prefix = self.prefix,
            steps = self.steps,
        );
        let mut words: Vec<&str> = around.to_vec();
        let own = self.program.to_str().expect("UTF-8");
        words.extend(["sh", "-c", &script, own]);
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
        let traces = traces(folder.path());
        traces.iter().for_each(|path| (self.check_trace)(path));
        traces
    }
}

/// What is in a folder for traces, and each trace elsewhere.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut traces = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_among_traces = folder.ends_with("traces") && !name.ends_with(".fdr-ring");
        if path.is_dir() {
            traces.extend(self::traces(&path));
        } else if !name.starts_with('.') && (is_among_traces || name.ends_with(".fdr")) {
            traces.push(path);
        }
    }
    traces
}

/// Whether a line of the recorder's is about a trace that there is.
fn is_ordinary(line: &str) -> bool {
    let begins = ["fdr: wrote ", "fdr: replaced ", "fdr: streamed "];
    let of_ring = line.contains(" records of ") && line.contains(" are in ");
    let of_crash = line.starts_with("fdr: SIG") && line.contains(": the last ");
    of_ring || of_crash || begins.iter().any(|start| line.starts_with(start))
}

/// Whether a line of the recorder's is about a trace that is lost or cut off: with its path, and what to do.
fn is_of_lost(line: &str) -> bool {
    let is_refused = line.contains(": no trace was written: ");
    assert!(!is_refused || line.contains("; "), "no remedy: {line}");
    is_refused || line.ends_with(": what follows is lost\n")
}

/// The frame of the recorder's panic hook, which is in the stack of a panic in a panic.
const HOOK: &str = " fdr::shell::panics::";

/// A text without what differs from run to run: the number of the thread that panics, of the process in the shell's
/// word about its end, and of frames, and addresses.
fn steady(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains(HOOK));
    let mut steady = String::new();
    for line in lines {
        let words = line.split_whitespace();
        let words = words.filter(|word| !word.starts_with("0x"));
        for word in words {
            steady.extend(word.chars().filter(|c| !c.is_ascii_digit()));
            steady.push(' ');
        }
        steady = steady.trim_end().to_owned() + "\n";
    }
    steady
}
