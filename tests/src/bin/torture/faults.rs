//! Random combinations of faults around a program: a full disk, a folder that can't be written or goes away, limits on
//! files and descriptors, signals. The program's output must be byte for byte that of a run without the recorder, with
//! the same faults. It must end in the same way.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::random::Random;

use crate::decoded_trace::decode_trace;
use crate::plan::{Plan, Tally, Try};

/// Without them no tool has a file system of its own to mount.
const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--mount"];
/// What the shell prints just before it becomes the program, and the program's own first line.
const BEGUN: &str = "begun\n";
const FIRST: &str = "315\n";
/// Ways of the program `endings`.
const WAYS: [&str; 8] = [
    "return",
    "exit",
    "exit-from-a-thread",
    "panic",
    "caught",
    "twice",
    "abort",
    "silent",
];
const OUTS: [&str; 8] = [
    "",
    "%n.fdr",
    "file/%n.fdr",
    "/proc/%n.fdr",
    "/dev/full",
    "/dev/null",
    "a/b/%n.fdr",
    "rings/",
];
const DIRS: [&str; 5] = ["", "rings/", "file/x", "/proc", "/dev/null"];

pub(crate) fn run(plan: &Plan) -> Tally {
    let may_mount = may_mount();
    if !may_mount {
        fdr_tests::skip(
            "full and read-only file systems: no right to mount (unshare --user --mount)",
        );
    }
    plan.each(2, 1, |attempt| {
        let mut random = attempt.random();
        let folder = attempt.folder(random.below(2) == 0);
        if random.below(4) == 0 {
            goes_away(attempt, &mut random, &folder);
        } else {
            limited(attempt, &mut random, may_mount, &folder);
        }
    })
}

/// Whether a small file system can be mounted here.
fn may_mount() -> bool {
    let script = "mount -t tmpfs -o size=64K none /mnt && : > /mnt/file";
    let mut unshare = Command::new("unshare");
    let unshare = unshare.args(UNSHARE).args(["sh", "-c", script]);
    let quiet = unshare.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The frame of the recorder's panic hook.
const HOOK: &str = " fdr::shell::panics::";

/// What a program printed to its standard error: its own lines, and the recorder's.
fn lines(outcome: &Outcome) -> (Vec<String>, Vec<String>) {
    // The recorder's panic hook has a frame of its own in the stack of a panic in a panic.
    let lines = outcome.stderr.lines().filter(|line| !line.contains(HOOK));
    let lines = lines.map(masked);
    lines.partition(|line| !line.starts_with("fdr: "))
}

/// A line without what differs from run to run. That is the thread's id, which follows its name in a panic's message
/// (`'main' (4711)`), and addresses and numbers of frames in the message of a panic in a panic.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    let frame = line.split_once(": ");
    let frame = frame.filter(|(number, _)| number.trim().parse::<u32>().is_ok());
    let mut rest = frame.map_or(line, |(_, frame)| frame);
    while let Some(at) = rest.find("0x").or_else(|| rest.find("' (")) {
        let (before, after) = rest.split_at(at + 2);
        masked += before;
        rest = after.trim_start_matches(|c: char| c == '(' || c.is_ascii_hexdigit());
    }
    masked + rest
}

/// What is done before the program is run, in words of the shell.
fn trouble(random: &mut Random, way: &str) -> (String, String) {
    let mut before = Vec::new();
    match random.below(4) {
        0 => {
            let kib = 4 << random.below(13);
            before.push(format!(
                "mount -t tmpfs -o size={kib}K none small && cd small"
            ));
            if random.below(2) == 0 {
                before.push("head -c 64M /dev/zero > rest 2> /dev/null; true".into());
            }
        }
        1 => before.push("mount -t tmpfs -o ro none small && cd small".into()),
        _ => {}
    }
    let mut limits = vec!["ulimit -c 0".to_owned()];
    if random.below(2) == 0 {
        let most = 1 << random.below(19);
        limits.push(format!("ulimit -f {}", random.below(most)));
    }
    if random.below(3) == 0 {
        // The recorder has two descriptors of its own. So a program that needs all descriptors up to its limit, as for
        // the names in a backtrace, differs with the recorder. Any program needs a fourth, for its libraries, before it
        // begins.
        let least = if way == "twice" { 7 } else { 4 };
        limits.push(format!("ulimit -n {}", least + random.below(8)));
    }
    (before.join(" && "), limits.join("; "))
}

/// The recorder's variables.
fn variables(random: &mut Random) -> String {
    let out = OUTS[random.below(OUTS.len() as u64) as usize];
    let dir = DIRS[random.below(DIRS.len() as u64) as usize];
    let sizes = [("128K", "384K"), ("1M", "64M"), ("4M", "1G")];
    let (buffer, memory) = sizes[random.below(3) as usize];
    let choose = |random: &mut Random, values: [&'static str; 3]| values[random.below(3) as usize];
    let keep = choose(random, ["", "0", "20ms"]);
    let budget = choose(random, ["", "", "0.0001%"]);
    let mut variables = format!("FDR=1 FDR_BUFFER={buffer} FDR_MEMORY={memory}");
    for (name, value) in [
        ("FDR_OUT", out),
        ("FDR_DIR", dir),
        ("FDR_KEEP", keep),
        ("FDR_BUDGET", budget),
    ] {
        if !value.is_empty() {
            variables += &format!(" {name}={value}");
        }
    }
    variables
}

/// The shell script. It makes the trouble, runs the program, and lists the files that are left. If the trouble is a
/// file system that ends with the shell, the script copies the traces out of it.
fn script(before: &str, limits: &str, way: &str) -> String {
    let (into, copy) = match before {
        "" => (String::new(), ""),
        _ => (
            format!("{before} && "),
            "find . -name '*.fdr' -exec cp --parents -t \"$KEPT\" {} + || code=99; ",
        ),
    };
    format!(
        "{into}({limits}; echo begun; exec \"$0\" {way}); code=$?; find . > \"$LEFT\"; {copy}exit $code"
    )
}

fn limited(attempt: &Try<'_>, random: &mut Random, may_mount: bool, folder: &Folder) {
    let way = WAYS[random.below(WAYS.len() as u64) as usize];
    let ((mut before, limits), variables) = (trouble(random, way), variables(random));
    if !before.is_empty() && !may_mount {
        attempt.count("tries without the file system that they were to have", 1);
        before.clear();
    }
    let program = attempt.program("endings");
    let script = script(&before, &limits, way);
    let run = |variables: &str| {
        let place = Folder::within(folder.path(), "place");
        fs::create_dir(place.join("small")).expect("a folder");
        fs::create_dir(place.join("kept")).expect("a folder");
        fs::write(place.join("file"), "").expect("a file");
        let shell = match before.is_empty() {
            true => Program::new("sh", &place),
            false => Program::new("unshare", &place).args(&UNSHARE).args(&["sh"]),
        };
        let outcome = shell
            .args(&["-c", &script])
            .args(&[&program])
            // Addresses are others each time.
            .env("RUST_BACKTRACE", "0")
            .env("LEFT", folder.join("left"))
            .env("KEPT", place.join("kept"))
            .set(variables)
            .run();
        (place, outcome)
    };
    let ((_, without), (place, with)) = (run(""), run(&variables));
    let case = format!("{variables} {script}");
    compare(attempt, &without, &with, &format!("{BEGUN}{FIRST}"), &case);
    let left = fs::read_to_string(folder.join("left"));
    check_whole(attempt, place.path(), &left.expect("what is left"), &case);
}

/// Both runs have the same output and the same end. Only the recorded run has lines of the recorder, which warn of one
/// trouble at most.
fn compare(attempt: &Try<'_>, without: &Outcome, with: &Outcome, first: &str, case: &str) {
    let ((own, nothing), (own_with, ours)) = (lines(without), lines(with));
    let warnings = ours.iter().filter(|line| !is_of_a_trace(line)).count();
    let case = format!("{case}\n  without: {without:?}\n  with: {with:?}");
    assert_eq!(with.status, without.status, "{case}");
    assert_eq!(with.stdout, without.stdout, "{case}");
    assert_eq!(own_with, own, "{case}");
    assert!(
        without.stdout.starts_with(first) && nothing.is_empty(),
        "{case}"
    );
    assert!(warnings <= 1, "{case}");
    attempt.count(&format!("programs with {warnings} lines of warning"), 1);
}

/// Whether the line has the path of a trace, or says that there is no trace.
fn is_of_a_trace(line: &str) -> bool {
    let is_end = |text: &str| line.contains(text);
    line.starts_with("fdr: wrote ")
        || line.starts_with("fdr: replaced ")
        || is_end("no trace was written: ")
        || (is_end(" records of ") && is_end(" are in "))
}

/// No half-written file under a final name, and no temporary one.
fn check_whole(attempt: &Try<'_>, folder: &Path, left: &str, case: &str) {
    let mut names: Vec<String> = left.lines().map(str::to_owned).collect();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            names.push(path.to_string_lossy().into_owned());
            if path.is_dir() {
                folders.push(path);
            } else if names.last().is_some_and(|name| name.ends_with(".fdr")) {
                decode_trace(&path);
                attempt.count("traces that were looked at", 1);
            }
        }
    }
    let temporary = names.iter().find(|name| name.ends_with(".tmp"));
    assert_eq!(temporary, None, "{case}");
}

/// The folder goes away, and signals come, while the program works.
fn goes_away(attempt: &Try<'_>, random: &mut Random, folder: &Folder) {
    let (signals, variables) = (random.below(6), variables(random));
    let keep = random.below(3) == 0;
    let run = |variables: &str, signals: u64| {
        let place = Folder::within(folder.path(), "place");
        let program = Program::new(attempt.program("steady"), &place);
        let mut program = program.set(variables).start();
        assert_eq!(program.line(), "ready", "{variables}");
        if !keep {
            fs::remove_dir_all(place.path()).expect("the folder");
        }
        (0..signals).for_each(|_| program.signal("USR2"));
        (place, program.end())
    };
    let ((_, without), (_place, with)) = (run("", 0), run(&variables, signals));
    let case = format!("{signals} signals, folder {keep} {variables}");
    compare(attempt, &without, &with, "ready\n", &case);
    assert!(without.stdout.len() > "ready\n".len(), "{case}: no result");
    check_whole(attempt, folder.path(), "", &case);
}
