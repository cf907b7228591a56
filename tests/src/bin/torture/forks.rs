//! Thousands of forks of a process in which eight threads record. The file of a child, or the ring that it leaves, has
//! only the child's own records. The parent's trace is the same as without children.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use fdr_tests::support::truth::{CHILD_LIFE, CHILD_PID, FIRST_CHILD, MADE, PHASE, Truth};

use crate::check;
use crate::decoded_trace::{DecodedTrace, decode_trace};
use crate::plan::{Failure, Folder, Plan, Tally, Try, Verdict, lock};
use crate::victim::{Part, Setting};

/// Forks of a process; the page has room for 2000.
const ROUND: u64 = 200;
const LIMIT: Duration = Duration::from_secs(120);
/// The life of a child that makes no record.
const NO_RECORDS: u64 = 4;
/// The life of a child that ends by `exit`, which writes its trace.
const EXIT: u64 = 2;
const LIVES: [&str; 6] = [
    "children that ended at once",
    "children that ended by exit",
    "children that were killed",
    "children without a record",
    "children that became another program",
    "children that forked",
];

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(1, ROUND);
    plan.each(1, round, |attempt, tally| {
        attempt.within(true, |folder| process(attempt, round, folder, tally))
    })
}

/// Files by process.
type Files = BTreeMap<u64, Vec<PathBuf>>;

/// `torture_victim.PID.….fdr-ring` and `torture_victim.PID.N.fdr`; anything else is none of ours.
fn files(folder: &Folder) -> Result<Files, Failure> {
    let mut files = Files::new();
    for path in folder.files() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ["page", "stdout", "stderr"].contains(&&*name) {
            continue;
        }
        let process = name.split('.').nth(1).and_then(|word| word.parse().ok());
        let is_ours = name.ends_with(".fdr") || name.ends_with(".fdr-ring");
        match process.filter(|_| is_ours) {
            Some(process) => files.entry(process).or_default().push(path),
            None => return Err(Failure::Wrong(format!("a file {name:?}"))),
        }
    }
    Ok(files)
}

fn process(attempt: &Try<'_>, forks: u64, folder: &Folder, tally: &Mutex<Tally>) -> Verdict {
    let seed = attempt.seed >> 1;
    let part = Part("forks", [seed, forks, 0]);
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_counted(&mut random);
    setting.count(tally);
    let (mut child, truth) = part.start(attempt.plan, folder, 2, setting, "FDR_MEMORY=4M")?;
    let parent = u64::from(child.id());
    child.succeed(folder.path(), LIMIT)?;
    if truth.get(0, PHASE) != forks {
        return Err(Failure::Wrong("not all children were made".into()));
    }
    let mut files = files(folder)?;
    let own = files.remove(&parent).unwrap_or_default();
    check::all(&only(parent, &own)?, &truth, seed, 0)?;
    for place in FIRST_CHILD..FIRST_CHILD + 2 * forks as usize {
        let life = truth.get(place, CHILD_LIFE);
        if life == 0 {
            continue;
        }
        let own = files.remove(&truth.get(place, CHILD_PID));
        of_child(&truth, seed, place, &own.unwrap_or_default())?;
        let life = LIVES.get(life as usize - 1).copied();
        lock(tally).count(life.unwrap_or("children of children"), 1);
    }
    match files.first_key_value() {
        Some((process, files)) => {
            let why = format!("process {process} is no child and has {files:?}");
            Err(Failure::Wrong(why))
        }
        None => Ok(()),
    }
}

/// The one file of a process.
fn only(process: u64, files: &[PathBuf]) -> Result<DecodedTrace, Failure> {
    let [file] = files else {
        return Err(Failure::Wrong(format!("process {process} has {files:?}")));
    };
    let trace = decode_trace(file)?;
    if trace.info.process != Some(process) {
        let (file, process) = (file.display(), trace.info.process);
        return Err(Failure::Wrong(format!("{file} is of process {process:?}")));
    }
    Ok(trace)
}

/// What a child leaves.
fn of_child(truth: &Truth, seed: u64, place: usize, files: &[PathBuf]) -> Result<(), Failure> {
    let (process, life) = (truth.get(place, CHILD_PID), truth.get(place, CHILD_LIFE));
    let course = check::course(truth, seed, place);
    let made = truth.get(place, MADE);
    if life == NO_RECORDS || made == 0 {
        return match files {
            [] => Ok(()),
            _ => Err(Failure::Wrong(format!(
                "process {process} recorded nothing and has {files:?}"
            ))),
        };
    }
    if files.is_empty() {
        let why = format!("process {process}, a child, has no file (life {life})");
        return Err(Failure::Lost(made, why));
    }
    let trace = only(process, files)?;
    let is_ring = |path: &Path| path.to_string_lossy().ends_with("-ring");
    if is_ring(&files[0]) == (life == EXIT) {
        return Err(Failure::Wrong(format!(
            "{files:?} at the end of life {life}"
        )));
    }
    let [lane] = trace.lanes.as_slice() else {
        let names: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
        return Err(Failure::Wrong(format!("threads of a child: {names:?}")));
    };
    if lane.id.0 != process || trace.info.missing != Default::default() {
        let missing = trace.info.missing;
        let why = format!("process {process}: thread {}, {missing:?}", lane.id);
        return Err(Failure::Wrong(why));
    }
    check::thread(lane, course, truth, place, check::Moment::Now)
}
