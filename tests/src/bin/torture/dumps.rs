//! A million dump signals over 64 threads. Signals that come while a dump waits to begin are one; each
//! file must be whole and right for its moment, and the last one complete to the record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fdr_tests::support::truth::{SIGNALS, Truth, WRONG};
use fdr_tests::support::wait::Patience;

use crate::check::{self, Moment};
use crate::decoded_trace::{DecodedTrace, decode_trace};
use crate::plan::{Failure, Folder, Plan, Tally, Try, Verdict, lock};
use crate::victim::{Part, Setting};

const THREADS: u64 = 64;
/// Signals of a process.
const ROUND: u64 = 50_000;
const LIMIT: Duration = Duration::from_secs(300);
/// Without a record, a file or a signal for so long, it hangs.
const STILL: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) fn run(plan: &Plan) -> Tally {
    let round = plan.tries.clamp(1, ROUND);
    plan.each(1, round, |attempt, tally| {
        attempt.within(true, |folder| process(attempt, round, folder, tally))
    })
}

/// What is known of the files so far.
struct Files<'a> {
    folder: &'a Folder,
    truth: &'a Truth,
    seed: u64,
    /// What each thread had made in the file before.
    made: BTreeMap<usize, u64>,
    count: u64,
}

fn process(attempt: &Try<'_>, signals: u64, folder: &Folder, tally: &Mutex<Tally>) -> Verdict {
    let seed = attempt.seed >> 1;
    let part = Part("dumps", [seed, THREADS, signals]);
    let mut random = attempt.random();
    let setting = Setting::any(attempt, &mut random).with_trigger();
    let setting = setting.with_counted(&mut random);
    setting.count(tally);
    let variables = "FDR_MEMORY=32M FDR_OUT=%n.fdr";
    let (mut child, truth) = part.start(attempt.plan, folder, 2, setting, variables)?;
    let mut files = Files {
        folder,
        truth: &truth,
        seed,
        made: BTreeMap::new(),
        count: 0,
    };
    let (mut all, mut still) = (Patience::new(LIMIT), Patience::new(STILL));
    let mut known = (0, 0, 0);
    while child.ended()?.is_none() {
        files.take()?;
        let (count, handled, made) = (files.count, truth.get(0, SIGNALS), truth.surely_made());
        if (count, handled, made) != known {
            known = (count, handled, made);
            still.restart();
        }
        if still.is_over() || all.is_over() {
            let why = format!("hangs: {handled} signals handled, {made} records made");
            return Err(Failure::Wrong(why));
        }
        thread::sleep(PAUSE);
    }
    child.succeed(folder.path(), STILL)?;
    let last = files.take()?;
    let last = last.ok_or_else(|| "there is no file of the end".to_owned())?;
    check::all(&last, &truth, seed, 0)?;
    let (wrong, handled) = (truth.get(0, WRONG), truth.get(0, SIGNALS));
    if wrong > 0 || handled < signals {
        let why = format!("errno changed {wrong} times; {handled} signals handled");
        return Err(Failure::Wrong(why));
    }
    let mut tally = lock(tally);
    tally.count("signals handled", handled);
    tally.count("files", files.count);
    tally.count("records made", truth.surely_made());
    Ok(())
}

/// The number of a file `NUMBER.fdr`.
fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

impl Files<'_> {
    /// Looks at the files that are there and removes them; the last one of them.
    fn take(&mut self) -> Result<Option<DecodedTrace>, Failure> {
        let files = self.folder.ending(".fdr").into_iter();
        let mut files: Vec<(u64, PathBuf)> = files
            .filter_map(|path| Some((number(&path)?, path)))
            .collect();
        files.sort();
        let mut last = None;
        for (_, path) in files {
            let trace = decode_trace(&path)?;
            self.check(&trace)?;
            fs::remove_file(&path).map_err(|error| error.to_string())?;
            self.count += 1;
            last = Some(trace);
        }
        Ok(last)
    }

    fn check(&mut self, trace: &DecodedTrace) -> Result<(), Failure> {
        for thread in self.truth.threads() {
            let Some(lane) = check::lane(trace, thread)? else {
                if let Some(made) = self.made.get(&thread) {
                    let why = format!("n{thread} was in an earlier file and is in this no more");
                    return Err(Failure::Lost(*made, why));
                }
                continue;
            };
            let before = self.made.insert(thread, lane.made()).unwrap_or(0);
            let course = check::course(self.truth, self.seed, thread);
            let moment = Moment::Since(before);
            check::thread(lane, course, self.truth, thread, moment)?;
        }
        Ok(())
    }
}
