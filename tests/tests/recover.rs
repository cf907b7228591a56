//! `fdr dump` and `fdr rings` on real processes, killed and running. Traces are compared with what
//! the processes counted in a page of memory, and with the script that they follow.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use fdr_tests::support::endless::{self, THREADS, only_ring, surely_made};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{CONTAINED, Program, Running};
use fdr_tests::support::random::Random;
use fdr_tests::support::script::Script;
use fdr_tests::support::tool::{json, verify};
use fdr_tests::support::trace::{Lane, Trace};
use fdr_tests::support::wait::until;
use fdr_tests::tool;
use serde_json::Value;

/// Starts the program in that folder, and waits until each of its threads has made more than `records` records.
fn start(folder: &Folder, records: u64, variables: &str) -> Running {
    // Built before, not beside a program that takes all there is of the processors.
    let _ = tool();
    let program = endless::start(folder, variables);
    until("records of every thread", || {
        let all = (0..THREADS.len()).all(|place| surely_made(folder, place) > records);
        all.then_some(())
    });
    program
}

fn kill(program: Running) -> u32 {
    let pid = program.id();
    program.signal("KILL");
    assert!(program.end().status.code().is_none());
    pid
}

/// Runs the tool in the folder, whatever comes of it.
fn run(folder: &Folder, words: &str, files: &[&Path]) -> Output {
    let mut command = Command::new(tool());
    let command = command.args(words.split(' ')).args(files);
    let command = command.current_dir(folder.path()).env_remove("FDR_DIR");
    command.output().expect("fdr runs")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks that the kept records of a thread are an unbroken part of its script, unless short calls left no
/// records. Returns how many records the thread made.
fn follows_script(trace: &Trace, lane: &Lane, seed: u64) -> u64 {
    let counts = lane.checked_counts();
    let made = counts.recorded - counts.dropped;
    if counts.summarised > 0 {
        return made;
    }
    let edges = Script::new(seed, u64::MAX).edges(made);
    let expected = &edges[counts.overwritten as usize..];
    let name = &lane.thread.name;
    assert!(trace.scripted(lane) == expected, "{name}: {counts:?}");
    made
}

/// Kills the program, and makes a trace of what is left.
fn recovered(records: u64, variables: &str, to: &str) {
    let folder = Folder::new("recover");
    let program = start(&folder, records, variables);
    let pid = kill(program);
    let ring = only_ring(&folder);
    let trace = folder.join("out");
    let output = run(
        &folder,
        &format!("dump --to {to} -o out --remove"),
        &[&ring],
    );
    assert!(output.status.success(), "{output:?}");
    assert!(!ring.exists(), "{output:?}");
    let line = stderr_of(&output);
    assert!(
        line.contains(&format!("process {pid}, which ended without a dump: ")),
        "{line}"
    );
    verify(&trace);
    let trace = Trace::read(&trace);
    assert_eq!(trace.info.reason, "killed");
    assert_eq!(trace.info.program, "programs");
    assert_eq!(trace.info.process, Some(u64::from(pid)));
    assert_eq!(trace.threads.len(), THREADS.len());
    for (place, (name, seed)) in THREADS.into_iter().enumerate() {
        let lane = trace.thread(name);
        let made = follows_script(&trace, lane, seed);
        let counts = lane.checked_counts();
        let attempted = made + counts.dropped;
        let sure = surely_made(&folder, place);
        // A short call that was being counted may be counted already, and still be open.
        let most = sure + if counts.summarised > 0 { 2 } else { 1 };
        assert!(
            (sure..=most).contains(&attempted),
            "{name}: {attempted} asked for, {sure} for sure: {counts:?}"
        );
    }
}

#[test]
fn every_record_before_a_kill_is_recovered() {
    let mut random = Random::new(4);
    // Within the first chunk, within the first round, after many rounds; full; in any format.
    for bound in [2_000, 30_000, 500_000] {
        for variables in ["FDR_BUFFER=256K", "FDR_BUFFER=256K FDR_KEEP=0"] {
            recovered(random.below(bound), variables, "xray");
        }
    }
    recovered(
        random.below(200_000),
        "FDR_BUFFER=128K FDR_MODE=full",
        "xray",
    );
    recovered(
        random.below(200_000),
        "FDR_BUFFER=128K FDR_CLOCK=monotonic",
        "xray1",
    );
}

#[test]
fn snapshots_at_full_speed_are_whole() {
    snapshots_at_full_speed("FDR_BUFFER=512K FDR_KEEP=0");
    snapshots_at_full_speed("FDR_BUFFER=512K");
}

/// Takes `rounds` snapshots, and compares every record of the first `compared` ones with the script.
fn snapshots_at_full_speed(variables: &str) {
    let folder = Folder::new("snapshot");
    let program = start(&folder, 100, variables);
    let pid = program.id().to_string();
    let mut before = [0; THREADS.len()];
    for round in 0..4 {
        let sure: Vec<u64> = (0..THREADS.len())
            .map(|place| surely_made(&folder, place))
            .collect();
        let output = run(&folder, &format!("dump --force -o now.fdr {pid}"), &[]);
        assert!(output.status.success(), "{output:?}");
        let trace = Trace::read(&folder.join("now.fdr"));
        assert_eq!(
            (trace.info.reason.as_str(), trace.threads.len()),
            ("snapshot", 4)
        );
        for (place, (name, seed)) in THREADS.into_iter().enumerate() {
            let lane = trace.thread(name);
            // A script of millions of edges takes its time.
            let made = match round == 0 {
                true => follows_script(&trace, lane, seed),
                false => lane.checked_counts().recorded,
            };
            assert!(
                made >= sure[place].max(before[place]),
                "{name}: {made}, {} for sure, {} before",
                sure[place],
                before[place]
            );
            before[place] = made;
        }
    }
    verify(&folder.join("now.fdr"));
    // The ring itself is as good, while the program runs: by name, and without one.
    let ring = only_ring(&folder);
    verify(&ring);
    fs::remove_file(&ring).expect("it may be removed");
    let output = run(&folder, &format!("dump {pid}"), &[]);
    assert!(output.status.success(), "{output:?}");
    verify(&folder.join(&format!("programs.{pid}.snapshot-1.fdr")));
    let several = format!("dump {pid} --every 0.01 --count 3 -q");
    let output = run(&folder, &several, &[]);
    assert_eq!(
        (output.status.code(), stderr_of(&output).as_str()),
        (Some(0), "")
    );
    assert_eq!(folder.ending(".fdr").len(), 5);
    kill(program);
    let output = run(&folder, &format!("dump {pid}"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr_of(&output).contains(&format!("there is no process {pid}")),
        "{output:?}"
    );
}

#[test]
fn starting_processes_are_awaited() {
    let folder = Folder::new("snapshot-starting");
    let program = start(&folder, 100, "FDR_BUFFER=512K");
    let pid = program.id().to_string();
    let ring = fs::OpenOptions::new()
        .write(true)
        .read(true)
        .open(only_ring(&folder));
    let ring = ring.expect("the ring");
    let mut magic = [0; 8];
    ring.read_exact_at(&mut magic, 0).expect("a head");
    // The magic is what a new ring gets last.
    ring.write_all_at(&[0; 8], 0).expect("it is ours");
    let words = format!("dump {pid} --quiet -o now.fdr");
    let output = run(&folder, &words, &[]);
    assert_eq!(output.status.code(), Some(2));
    let starting = format!("process {pid} has only begun to make its ring");
    assert!(stderr_of(&output).contains(&starting), "{output:?}");
    let mut waits = Command::new(tool());
    let waits = waits
        .args(words.split(' '))
        .current_dir(folder.path())
        .spawn();
    ring.write_all_at(&magic, 0).expect("it is ours");
    let status = waits.and_then(|mut waits| waits.wait()).expect("fdr runs");
    assert!(status.success(), "{status}");
    verify(&folder.join("now.fdr"));
    kill(program);
}

#[test]
fn memory_only_rings_cannot_be_had() {
    let _ = tool();
    let folder = Folder::new("snapshot-memory");
    fs::write(folder.join("file"), "no folder").expect("a file");
    let program = Program::named("steady", &folder)
        .set("FDR=1 FDR_DIR=file/none FDR_BUFFER=256K")
        .start_ready();
    let pid = program.id().to_string();
    let output = run(&folder, &format!("dump {pid}"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr_of(&output);
    assert!(
        message.contains("is in its memory alone") && message.contains("kill -USR2"),
        "{message}"
    );
    let _ = program.end().ok();
}

/// What the tool lists: state, process, threads, by name of the file.
fn listed(folder: &Folder) -> Vec<(String, u64, u64)> {
    let rings = folder.join("rings");
    let rings = json("rings", &[&rings]);
    let rows = rings.as_array().expect("rows");
    let row = |row: &Value| {
        let state = row["state"].as_str().expect("a state").to_owned();
        let number = |field: &str| row[field].as_u64().unwrap_or_default();
        (state, number("process"), number("threads"))
    };
    rows.iter().map(row).collect()
}

#[test]
fn living_and_dead_rings_are_listed_apart() {
    let folder = Folder::new("list");
    let program = start(&folder, 100, "FDR_BUFFER=128K");
    let pid = u64::from(program.id());
    fs::write(folder.join("rings/notes.txt"), "no ring").expect("a file");
    assert_eq!(listed(&folder), [("running".to_owned(), pid, 4)]);
    let rings = folder.join("rings");
    let ring = folder.only_file("rings", ".fdr-ring");
    // It is not taken from a program that runs, whichever way it is meant.
    for path in [&ring, &rings] {
        let output = run(&folder, "dump", &[path]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr_of(&output).contains("fdr dump"), "{output:?}");
    }
    kill(program);
    assert_eq!(listed(&folder), [("dead".to_owned(), pid, 4)]);
    let output = run(&folder, "dump -o t/", &[&rings]);
    assert!(output.status.success(), "{output:?}");
    let name = ring.with_extension("fdr");
    verify(&folder.join("t").join(name.file_name().expect("a name")));
}

#[test]
fn processes_are_found_by_their_memory() {
    let _ = tool();
    let folder = Folder::new("recover-leaderless");
    // The system writes newlines in its list of mappings in another way.
    let rings = folder.join("ri\nngs");
    fs::create_dir(&rings).expect("a folder");
    // One in the making is passed over.
    fs::write(folder.join("a.fdr-ring"), [0; 8192]).expect("a file");
    let program = Program::named("leaderless", &folder)
        .args(&["a.fdr-ring"])
        .set("FDR=1 FDR_BUFFER=256K")
        .env("FDR_DIR", "ri\nngs")
        .start_ready();
    let pid = program.id().to_string();
    until("the end of the main thread", || {
        let maps = fs::read(format!("/proc/{pid}/maps")).expect("it runs");
        maps.is_empty().then_some(())
    });
    let ring = &folder.only_file("ri\nngs", "");
    let output = run(&folder, &format!("dump {pid} -o t.fdr"), &[]);
    assert!(output.status.success(), "{output:?}");
    verify(&folder.join("t.fdr"));
    // In a container the process has another id, which no process has here.
    let head = fs::OpenOptions::new().write(true).open(ring);
    let head = head.expect("the ring");
    for number in [program.id(), 4_200_000] {
        head.write_all_at(&number.to_ne_bytes(), 8)
            .expect("the head");
        let output = run(&folder, "rings", &[&rings]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("running"));
        let remove = "dump --remove --force";
        let output = run(&folder, remove, &[ring]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr_of(&output).contains("is running"), "{output:?}");
        // Nor under another name.
        let link = folder.join(&format!("{number}.ring"));
        fs::hard_link(ring, &link).expect("a link");
        let output = run(&folder, remove, &[&link]);
        assert!(stderr_of(&output).contains("is running"), "{output:?}");
        assert!(ring.exists() && link.exists());
    }
    let _ = program.end().ok();
}

/// Runs the tool in a container, which does not see the processes outside.
#[test]
fn rings_of_invisible_processes_are_kept() {
    let within = |arguments: &[&OsStr], folder: &Folder| {
        let mut command = Command::new("unshare");
        let command = command.args(CONTAINED).args(arguments);
        command.current_dir(folder.path()).output()
    };
    let folder = Folder::new("recover-contained");
    if !within(&["true".as_ref()], &folder).is_ok_and(|output| output.status.success()) {
        return fdr_tests::skip(
            "a tool in a container: no right to make one (unshare --user --pid)",
        );
    }
    let program = start(&folder, 100, "FDR_BUFFER=128K");
    let ring = only_ring(&folder);
    let tool = tool();
    let remove = ["dump", "--remove", "-o", "t.fdr"].map(OsStr::new);
    let arguments = [&[tool.as_os_str()], &remove[..], &[ring.as_os_str()]].concat();
    let output = within(&arguments, &folder).expect("unshare runs");
    assert!(output.status.success(), "{output:?}");
    assert!(
        stderr_of(&output).contains("may still be in use"),
        "{output:?}"
    );
    assert!(ring.exists());
    verify(&folder.join("t.fdr"));
    let _ = kill(program);
    fs::remove_file(folder.join("t.fdr")).expect("the trace");
    let output = within(&arguments, &folder).expect("unshare runs");
    assert!(output.status.success(), "{output:?}");
    assert!(!ring.exists(), "nobody has it any more");
}

#[test]
fn snapshots_end_with_the_process() {
    let folder = Folder::new("snapshot-end");
    let program = start(&folder, 100, "FDR_BUFFER=128K");
    let pid = program.id().to_string();
    let every = ["dump", &pid, "--every", "0.005", "-o", "t/"];
    let mut command = Command::new(tool());
    let command = command.args(every).current_dir(folder.path());
    let command = command.stderr(std::process::Stdio::piped());
    let snapshots = command.spawn().expect("fdr runs");
    until("two snapshots", || {
        (folder.files("t").len() > 2).then_some(())
    });
    // The test does not wait for the program yet, so the program is a zombie.
    program.signal("KILL");
    let output = snapshots.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr_of(&output).ends_with(&format!("process {pid} has ended\n")));
    assert!(program.end().status.code().is_none());
}

#[test]
fn rings_clock_rates_equal_those_of_dumps() {
    let folder = Folder::new("recover-rate");
    let program = Program::named("steady", &folder)
        .set("FDR=1 FDR_BUFFER=128K")
        .start_ready();
    let ring = folder.ending(".fdr-ring").remove(0);
    let rate = || {
        let file = fs::File::open(&ring).expect("the ring");
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 104).expect("the head");
        u64::from_le_bytes(bytes)
    };
    // It is measured anew soon after the start, and then ever more rarely.
    let head = fs::OpenOptions::new().write(true).open(&ring);
    let head = head.expect("the ring");
    head.write_all_at(&1u64.to_le_bytes(), 104)
        .expect("the head");
    let later = until("a rate that was measured again", || {
        let now = rate();
        (now != 1).then_some(now)
    });
    program.signal("USR2");
    let _ = program.wait_for_line("wrote ");
    let trace = Trace::read(&folder.ending(".fdr").remove(0));
    let dumped = trace.info.clock.frequency;
    let difference = later.abs_diff(dumped) as f64 / dumped as f64;
    assert!(
        difference < 1e-3,
        "{later} Hz in the ring, {dumped} Hz in the dump"
    );
    let _ = program.end().ok();
}
