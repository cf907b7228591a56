//! Random combinations of faults around a program: a full disk, a folder that can't be written or goes away, limits on
//! files and descriptors, signals. The program's output must be byte for byte that of a run without the recorder, with
//! the same faults. It must end in the same way.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::random::Random;
use fdr_tests::support::wait::Patience;

use crate::child::command;
use crate::decoded_trace::decode_trace;
use crate::plan::{Failure, Folder, Plan, Tally, Try, lock};

const LIMIT: Duration = Duration::from_secs(30);
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
    plan.each(2, 1, |attempt, tally| {
        let mut random = attempt.random();
        let in_memory = random.below(2) == 0;
        attempt.within(in_memory, |folder| {
            if random.below(4) == 0 {
                goes_away(attempt, &mut random, folder, tally)
            } else {
                limited(attempt, &mut random, may_mount, folder, tally)
            }
        })
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

/// A program's end and what it printed, without the recorder's lines.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<String>,
}

/// The frame of the recorder's panic hook.
const HOOK: &str = " fdr::shell::panics::";

/// A program's end, and the recorder's lines.
fn end(mut process: Process) -> Result<(Outcome, Vec<String>), String> {
    let mut patience = Patience::new(LIMIT);
    // What it prints fits into the pipes.
    let status = loop {
        if let Some(status) = process.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if patience.is_over() {
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("hangs: no end in {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    if let (Some(out), Some(err)) = (&mut process.stdout, &mut process.stderr) {
        let read = out
            .read_to_end(&mut stdout)
            .and(err.read_to_end(&mut stderr));
        read.map_err(|error| error.to_string())?;
    }
    let lines = String::from_utf8_lossy(&stderr).into_owned();
    // The recorder's panic hook has a frame of its own in the stack of a panic in a panic.
    let lines = lines.lines().filter(|line| !line.contains(HOOK));
    let lines = lines.map(masked);
    let (own, others) = lines.partition(|line| line.starts_with("fdr: "));
    let outcome = Outcome {
        status,
        stdout,
        stderr: others,
    };
    Ok((outcome, own))
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

fn spawn(command: &mut Command) -> Result<Process, String> {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let process = command.spawn();
    process.map_err(|error| format!("{command:?}: {error}"))
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
fn variables(random: &mut Random) -> Vec<(&'static str, String)> {
    let mut variables = vec![("FDR", "1".to_owned())];
    let out = OUTS[random.below(OUTS.len() as u64) as usize];
    let dir = DIRS[random.below(DIRS.len() as u64) as usize];
    let sizes = [("128K", "384K"), ("1M", "64M"), ("4M", "1G")];
    let (buffer, memory) = sizes[random.below(3) as usize];
    variables.push(("FDR_BUFFER", buffer.into()));
    variables.push(("FDR_MEMORY", memory.into()));
    let choose = |random: &mut Random, values: [&'static str; 3]| values[random.below(3) as usize];
    let keep = choose(random, ["", "0", "20ms"]);
    let budget = choose(random, ["", "", "0.0001%"]);
    for (name, value) in [
        ("FDR_OUT", out),
        ("FDR_DIR", dir),
        ("FDR_KEEP", keep),
        ("FDR_BUDGET", budget),
    ] {
        if !value.is_empty() {
            variables.push((name, value.into()));
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

fn limited(
    attempt: &Try<'_>,
    random: &mut Random,
    may_mount: bool,
    folder: &Folder,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let way = WAYS[random.below(WAYS.len() as u64) as usize];
    let ((mut before, limits), variables) = (trouble(random, way), variables(random));
    if !before.is_empty() && !may_mount {
        lock(tally).count("tries without the file system that they were to have", 1);
        before.clear();
    }
    let program = attempt.plan.programs.join("endings");
    let script = script(&before, &limits, way);
    let mut outcomes = Vec::new();
    for recorded in [false, true] {
        let place = folder.join(if recorded { "with" } else { "without" });
        fs::create_dir_all(place.join("small")).map_err(|error| error.to_string())?;
        fs::write(place.join("file"), "").map_err(|error| error.to_string())?;
        let kept_folder = place.join("kept");
        fs::create_dir_all(&kept_folder).map_err(|error| error.to_string())?;
        let shell = if before.is_empty() { "sh" } else { "unshare" };
        let mut command = command(Path::new(shell), &place);
        // Addresses are others each time.
        command.env("RUST_BACKTRACE", "0");
        if !before.is_empty() {
            command.args(UNSHARE).arg("sh");
        }
        command.arg("-c").arg(&script).arg(&program);
        command
            .env("LEFT", folder.join("left"))
            .env("KEPT", &kept_folder);
        if recorded {
            command.envs(variables.iter().map(|(name, value)| (name, value)));
        }
        outcomes.push(end(spawn(&mut command)?)?);
    }
    let case = format!("{variables:?} {script}");
    compare(&outcomes, &format!("{BEGUN}{FIRST}"), &case, tally)?;
    let left = fs::read_to_string(folder.join("left"));
    let left = left.map_err(|error| format!("{case}: nothing of what is left: {error}"))?;
    let count = whole(&folder.join("with"), &left, &case)?;
    lock(tally).count("traces that were looked at", count);
    Ok(())
}

/// Both runs have the same output and the same end. Only the recorded run has lines of the recorder, which warn of one
/// trouble at most.
fn compare(
    outcomes: &[(Outcome, Vec<String>)],
    first: &str,
    case: &str,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let [(without, nothing), (with, lines)] = outcomes else {
        return Err(Failure::Wrong("not two outcomes".into()));
    };
    let warnings = lines.iter().filter(|line| !is_of_a_trace(line)).count();
    let works = without.stdout.starts_with(first.as_bytes());
    if with != without || !works || !nothing.is_empty() || warnings > 1 {
        let why = format!("{case}\n  without: {without:?}\n  with: {with:?}\n  said: {lines:?}");
        return Err(Failure::Wrong(why));
    }
    lock(tally).count(&format!("programs with {warnings} lines of warning"), 1);
    Ok(())
}

/// Whether the line has the path of a trace, or says that there is no trace.
fn is_of_a_trace(line: &str) -> bool {
    let is_end = |text: &str| line.contains(text);
    line.starts_with("fdr: wrote ")
        || line.starts_with("fdr: replaced ")
        || is_end("no trace was written: ")
        || (is_end(" records of ") && is_end(" are in "))
}

/// No half-written file under a final name, and no temporary one; how many traces there are.
fn whole(folder: &Path, left: &str, case: &str) -> Result<u64, Failure> {
    let mut traces = 0;
    let mut names: Vec<String> = left.lines().map(str::to_owned).collect();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| error.to_string())?;
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            names.push(path.to_string_lossy().into_owned());
            if path.is_dir() {
                folders.push(path);
            } else if names.last().is_some_and(|name| name.ends_with(".fdr")) {
                decode_trace(&path).map_err(|why| Failure::Wrong(format!("{case}: {why}")))?;
                traces += 1;
            }
        }
    }
    match names.iter().find(|name| name.ends_with(".tmp")) {
        Some(name) => Err(Failure::Wrong(format!("{case}: left {name}"))),
        None => Ok(traces),
    }
}

/// The folder goes away, and signals come, while the program works.
fn goes_away(
    attempt: &Try<'_>,
    random: &mut Random,
    folder: &Folder,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let (signals, variables) = (random.below(6), variables(random));
    let keep = random.below(3) == 0;
    let mut outcomes = Vec::new();
    for recorded in [false, true] {
        let place = folder.join("place");
        fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let mut command = command(&attempt.plan.programs.join("steady"), &place);
        if recorded {
            command.envs(variables.iter().map(|(name, value)| (name, value)));
        }
        let mut process = spawn(&mut command)?;
        let mut ready = String::new();
        let output = process.stdout.take().ok_or_else(|| "no pipe".to_owned())?;
        let mut output = BufReader::new(output);
        let read = output.read_line(&mut ready);
        read.map_err(|error| error.to_string())?;
        if ready != "ready\n" {
            return Err(Failure::Wrong(format!(
                "{variables:?}: began with {ready:?}"
            )));
        }
        if !keep {
            fs::remove_dir_all(&place).map_err(|error| error.to_string())?;
        }
        for _ in 0..if recorded { signals } else { 0 } {
            let kill = Command::new("kill")
                .args(["-s", "USR2", &process.id().to_string()])
                .status();
            kill.map_err(|error| error.to_string())?;
        }
        drop(process.stdin.take());
        process.stdout = Some(output.into_inner());
        outcomes.push(end(process)?);
    }
    let case = format!("{signals} signals, folder {keep} {variables:?}");
    compare(&outcomes, "", &case, tally)?;
    if outcomes[0].0.stdout.is_empty() {
        return Err(Failure::Wrong(format!("{case}: the program had no result")));
    }
    let count = whole(folder.path(), "", &case)?;
    lock(tally).count("traces that were looked at", count);
    Ok(())
}
