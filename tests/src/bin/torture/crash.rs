//! Crashes of every kind, a tenth of them in the allocator with its lock held, a tenth in the recorder. The
//! process dies of the right signal and in time, and leaves a trace that is right up to the crash.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CRASHED, CRASHED_AT, MADE, Truth, crash};

use crate::check::{self, Moment};
use crate::child::{self, Child};
use crate::look::look;
use crate::plan::{Failure, Folder, Plan, Tally, Try, lock};

/// From the crash to the end of the process.
const LIMIT: Duration = Duration::from_secs(2);
/// When it is not waited for any longer.
const HANGS: Duration = Duration::from_secs(30);
/// The thread that crashes; 1 is the main thread.
const CRASHING: usize = 5;

pub(crate) fn run(plan: &Plan) -> Tally {
    plan.each(2, 1, |one, tally| {
        let mut random = one.random();
        let in_memory = random.below(2) == 0;
        one.within(in_memory, |folder| process(one, &mut random, folder, tally))
    })
}

/// Kind and place.
fn choose(random: &mut Random) -> (u64, u64) {
    let kind = random.below(crash::KINDS);
    match random.below(10) {
        // A panic allocates, and would wait for itself.
        0 if kind != crash::TWICE => (kind, crash::IN_MALLOC),
        1 => (kind, crash::IN_RECORDER),
        _ => (kind, crash::IN_CODE),
    }
}

fn process(
    one: &Try<'_>,
    random: &mut Random,
    folder: &Folder,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let (kind, place) = choose(random);
    let truth = Truth::create(&folder.join("page")).map_err(|error| error.to_string())?;
    let seed = one.seed >> 1;
    let words = [seed, kind, place].map(|value| value.to_string());
    let mut all = vec!["crash".to_owned(), "page".to_owned()];
    all.extend(words);
    let program = one.plan.programs.join("torture_victim");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=4M FDR_OUT=%n.fdr";
    let mut child = Child::start(&program, folder.path(), variables, &all)?;
    let status = child.end(HANGS)?;
    let (wanted, what) = (
        crash::signal(kind),
        ["in code", "in malloc", "in the recorder"],
    );
    let what = format!("signal {wanted} {}", what[place as usize]);
    if child::signal(status) != wanted {
        let said = child::said(folder.path());
        return Err(Failure::Wrong(format!("{what}: {status}: {said}")));
    }
    if truth.get(CRASHING, CRASHED_AT) == 0 {
        return Err(Failure::Wrong(format!("{what}: before it began")));
    }
    let took = since(truth.get(CRASHING, CRASHED_AT));
    if took > LIMIT {
        return Err(Failure::Wrong(format!("{what}: the end took {took:?}")));
    }
    let crash = Crash { kind, place, what };
    left(folder, &truth, seed, &crash)?;
    let mut tally = lock(tally);
    tally.count(&crash.what, 1);
    tally.most(
        "ms from the crash to the end at most",
        took.as_millis() as u64,
    );
    Ok(())
}

/// Time since a moment in µs of Unix time.
fn since(us: u64) -> Duration {
    let moment = UNIX_EPOCH + Duration::from_micros(us);
    SystemTime::now().duration_since(moment).unwrap_or_default()
}

/// What the process left: a trace and nothing else, or at the least its ring.
fn left(folder: &Folder, truth: &Truth, seed: u64, crash: &Crash) -> Result<(), Failure> {
    let what = &crash.what;
    let (traces, rings) = (folder.ending(".fdr"), folder.ending(".fdr-ring"));
    let files: Vec<PathBuf> = folder.files();
    if files.len() > 3 + traces.len() + rings.len() || traces.len() + rings.len() == 0 {
        return Err(Failure::Wrong(format!("{what}: {files:?}")));
    }
    for file in traces.iter().chain(&rings) {
        let look = look(file).map_err(|why| format!("{what}: {why}"))?;
        for thread in truth.threads().skip(1) {
            let moment = match thread {
                CRASHING if file.extension().is_some_and(|end| end == "fdr") => crash.moment(truth),
                CRASHING => Moment::Now,
                _ => Moment::Since(0),
            };
            match check::lane(&look, thread)? {
                Some(lane) => {
                    let course = check::course(truth, seed, thread);
                    check::thread(lane, course, truth, thread, moment)
                        .map_err(|failure| failure.with(what))?;
                }
                None if thread == CRASHING => {
                    let why = format!("{what}: nothing of the thread that crashed");
                    return Err(Failure::Lost(truth.get(CRASHING, MADE), why));
                }
                None => {}
            }
        }
    }
    if traces.is_empty() {
        let said = child::said(folder.path());
        let why = format!("{what}: no dump, the ring is right: {said}");
        return Err(Failure::Missed(why));
    }
    if !rings.is_empty() && !crash.is_swallowed() {
        return Err(Failure::Wrong(format!("{what}: {rings:?} beside a trace")));
    }
    Ok(())
}

/// What is done to a process.
struct Crash {
    kind: u64,
    place: u64,
    what: String,
}

impl Crash {
    /// Whether the standard library's handler takes the first one for a fault that will come again, so
    /// that the program goes on, and dies of the second, with its ring still there.
    fn is_swallowed(&self) -> bool {
        let sent = self.place == crash::IN_RECORDER
            || crash::RAISED.iter().any(|(kind, _)| *kind == self.kind);
        sent && [libc::SIGSEGV, libc::SIGBUS].contains(&crash::signal(self.kind))
    }

    /// How far the thread was in the trace.
    fn moment(&self, truth: &Truth) -> Moment {
        let crashed = truth.get(CRASHING, CRASHED);
        match self.place {
            crash::IN_RECORDER if self.is_swallowed() => Moment::Since(crashed),
            crash::IN_RECORDER => Moment::Now,
            _ => Moment::Exactly(crashed),
        }
    }
}
