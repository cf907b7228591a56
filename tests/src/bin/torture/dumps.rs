//! A million dump signals over 64 threads. Signals that come while a dump waits to begin are one; each
//! file must be whole and right for its moment, and the last one complete to the record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::truth::{SIGNALS, Truth, WRONG};
use fdr_tests::support::wait::{DEADLINE, Patience};

use crate::check::{self, Moment};
use crate::decoded_trace::{DecodedTrace, decode_trace};
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting};

const THREADS: u64 = 64;
/// Signals of a process.
const ROUND: u64 = 50_000;
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(1, ROUND);
    plan.each(1, round, |attempt| process(attempt, round))
}

/// What is known of the files so far.
struct Files<'a> {
    folder: &'a Folder,
    truth: &'a Truth,
    seed: u64,
    /// What each thread had made in the file before.
    made: BTreeMap<usize, u64>,
    count: u64,
    /// The newest file.
    last: Option<DecodedTrace>,
}

fn process(attempt: &Try<'_>, signals: u64) {
    let folder = attempt.folder(true);
    let seed = attempt.seed >> 1;
    let part = Part("dumps", [seed, THREADS, signals]);
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_trigger();
    let setting = setting.with_counted(&mut random);
    setting.count(attempt);
    let variables = "FDR_MEMORY=32M FDR_OUT=%n.fdr";
    let (mut process, truth) = part.start(attempt, &folder, 2, setting, variables);
    let mut files = Files {
        folder: &folder,
        truth: &truth,
        seed,
        made: BTreeMap::new(),
        count: 0,
        last: None,
    };
    // Without a record, a file or a signal for so long, it hangs.
    let (mut still, mut known) = (Patience::new(DEADLINE), (0, 0, 0));
    while !process.has_ended() {
        files.take();
        let now = (files.count, truth.get(0, SIGNALS), truth.surely_made());
        if now != known {
            known = now;
            still.restart();
        }
        assert!(
            !still.is_over(),
            "hangs after {known:?} files, signals, records"
        );
        thread::sleep(PAUSE);
    }
    let outcome = process.end().ok();
    files.take();
    let last = files.last.as_ref();
    let last = last.unwrap_or_else(|| panic!("no file of the end: {outcome:?}"));
    check::all(last, &truth, seed, 0);
    let handled = truth.get(0, SIGNALS);
    assert!(handled >= signals, "{handled} signals handled");
    assert_eq!(truth.get(0, WRONG), 0, "changes of errno");
    attempt.count("signals handled", handled);
    attempt.count("files", files.count);
    attempt.count("records made", truth.surely_made());
}

/// The number of a file `NUMBER.fdr`.
fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

impl Files<'_> {
    /// Looks at the files that are there, and removes them.
    fn take(&mut self) {
        let files = self.folder.ending(".fdr").into_iter();
        let mut files: Vec<(u64, PathBuf)> = files
            .filter_map(|path| Some((number(&path)?, path)))
            .collect();
        files.sort();
        for (_, path) in files {
            let trace = decode_trace(&path);
            self.check(&trace);
            fs::remove_file(&path).expect("the trace");
            self.count += 1;
            self.last = Some(trace);
        }
    }

    fn check(&mut self, trace: &DecodedTrace) {
        for thread in self.truth.threads() {
            let Some(lane) = check::lane(trace, thread) else {
                let before = self.made.get(&thread);
                assert_eq!(before, None, "n{thread} was in an earlier file");
                continue;
            };
            let before = self.made.insert(thread, lane.made()).unwrap_or(0);
            let course = check::course(self.truth, self.seed, thread);
            let moment = Moment::Since(before);
            check::thread(lane, course, self.truth, thread, moment);
        }
    }
}
