//! Thousands of forks of a process in which eight threads record. The file of a child, or the ring that it leaves, has
//! only the child's own records. The parent's trace is the same as without children.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::truth::{CHILD_LIFE, CHILD_PID, FIRST_CHILD, MADE, PHASE, Truth};

use crate::check;
use crate::decoded_trace::{DecodedTrace, decode_trace};
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting};

/// Forks of a process; the page has room for 2000.
const ROUND: u64 = 200;
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
    plan.each(1, round, |attempt| process(attempt, round))
}

/// Files by process.
type Files = BTreeMap<u64, Vec<PathBuf>>;

/// `torture_victim.PID.….fdr-ring` and `torture_victim.PID.N.fdr`; anything else is none of ours.
fn files(folder: &Folder) -> Files {
    let mut files = Files::new();
    for name in folder.names() {
        if name == "page" {
            continue;
        }
        let process = name.split('.').nth(1).and_then(|word| word.parse().ok());
        let is_ours = name.ends_with(".fdr") || name.ends_with(".fdr-ring");
        let process = process.filter(|_| is_ours);
        let process = process.unwrap_or_else(|| panic!("a file {name:?}"));
        files.entry(process).or_default().push(folder.join(&name));
    }
    files
}

fn process(attempt: &Try<'_>, forks: u64) {
    let folder = attempt.folder(true);
    let seed = attempt.seed >> 1;
    let part = Part("forks", [seed, forks, 0]);
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_counted(&mut random);
    setting.count(attempt);
    let (process, truth) = part.start(attempt, &folder, 2, setting, "FDR_MEMORY=4M");
    let parent = u64::from(process.id());
    let _ = process.end().ok();
    assert_eq!(truth.get(0, PHASE), forks, "children that were made");
    let mut files = files(&folder);
    let own = files.remove(&parent).unwrap_or_default();
    check::all(&only(parent, "the parent", &own), &truth, seed, 0);
    for place in FIRST_CHILD..FIRST_CHILD + 2 * forks as usize {
        let life = truth.get(place, CHILD_LIFE);
        if life == 0 {
            continue;
        }
        let own = files.remove(&truth.get(place, CHILD_PID));
        check_child(&truth, seed, place, &own.unwrap_or_default());
        let life = LIVES.get(life as usize - 1).copied();
        attempt.count(life.unwrap_or("children of children"), 1);
    }
    assert!(
        files.is_empty(),
        "of processes that are no children: {files:?}"
    );
}

/// The one file of a process.
fn only(process: u64, what: &str, files: &[PathBuf]) -> DecodedTrace {
    let [file] = files else {
        panic!("process {process} ({what}) has {files:?}");
    };
    let trace = decode_trace(file);
    assert_eq!(trace.info.process, Some(process), "{}", file.display());
    trace
}

/// What a child leaves.
fn check_child(truth: &Truth, seed: u64, place: usize, files: &[PathBuf]) {
    let (process, life) = (truth.get(place, CHILD_PID), truth.get(place, CHILD_LIFE));
    let course = check::course(truth, seed, place);
    if life == NO_RECORDS || truth.get(place, MADE) == 0 {
        assert!(
            files.is_empty(),
            "process {process} recorded nothing and has {files:?}"
        );
        return;
    }
    let made = truth.get(place, MADE);
    let what = format!("life {life}, {made} records");
    let trace = only(process, &what, files);
    let is_ring = files[0].to_string_lossy().ends_with("-ring");
    assert_eq!(is_ring, life != EXIT, "{files:?} at the end of life {life}");
    let [lane] = trace.lanes.as_slice() else {
        panic!("threads of a child: {:?}", check::names(&trace));
    };
    assert_eq!(lane.id.0, process, "the thread of a child");
    assert_eq!(trace.info.missing, Default::default(), "process {process}");
    check::thread(lane, course, truth, place, check::Moment::Now);
}
