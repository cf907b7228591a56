//! Crashes of every kind. A tenth is in the allocator while it holds its lock. A tenth is a fault at the recorder's own
//! store. More are signals at random moments in the recorder. The process dies of the right signal and in time, and
//! leaves a trace that is right up to the crash.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CRASHED, CRASHED_AT, LINK, Truth, crash};

use crate::check::{self, Moment};
use crate::child;
use crate::decoded_trace::{DecodedTrace, Lane, decode_trace};
use crate::kill;
use crate::plan::{Failure, Folder, Plan, Tally, Try, lock};
use crate::victim::{Part, Setting};

/// From the crash to the end of the process.
const LIMIT: Duration = Duration::from_secs(2);
/// When it is not waited for any longer.
const HANGS: Duration = Duration::from_secs(30);
/// The main thread's number, and that of the thread that crashes.
const MAIN: usize = 1;
const CRASHING: usize = 5;

const FROM_OUTSIDE: &str = "signals at a random moment";
const BUSY_FROM_OUTSIDE: &str = "of these, in the midst of a record";
/// Of this many signals at random moments, some must have come in the midst of a record.
const MANY: u64 = 700;

pub(crate) fn run(plan: &Plan) -> Tally {
    let mut tally = plan.each(2, 1, |attempt, tally| {
        let mut random = attempt.random();
        let in_memory = random.below(2) == 0;
        attempt.within(in_memory, |folder| {
            process(attempt, &mut random, folder, tally)
        })
    });
    if tally.counted(FROM_OUTSIDE) >= MANY && tally.counted(BUSY_FROM_OUTSIDE) == 0 {
        tally.wrong += 1;
        println!("WRONG no signal of {MANY} came in the midst of a record");
    }
    tally
}

/// Kind and place.
fn choose(random: &mut Random) -> (u64, u64) {
    let kind = random.below(crash::KINDS);
    match random.below(20) {
        // A panic allocates, and would wait for itself.
        0 | 1 if kind == crash::TWICE => (crash::ABORT, crash::IN_MALLOC),
        0 | 1 => (kind, crash::IN_MALLOC),
        2..=4 => (kind, crash::IN_RECORDER),
        5 | 6 => (crash::WRITE, crash::IN_COMMIT),
        7 => (crash::WRITE, crash::UNREADABLE),
        _ => (kind, crash::IN_CODE),
    }
}

fn process(
    attempt: &Try<'_>,
    random: &mut Random,
    folder: &Folder,
    tally: &Mutex<Tally>,
) -> Result<(), Failure> {
    let (kind, place) = choose(random);
    let seed = attempt.seed >> 1;
    let part = Part("crash", [seed, kind, place]);
    // A thread with short calls may never store a record again. Then it would not crash at this place.
    let setting = match place {
        crash::IN_COMMIT | crash::UNREADABLE => Setting::exact(attempt),
        _ => Setting::any(attempt, random).with_counted(random),
    };
    setting.count(tally);
    let variables = "FDR_MEMORY=4M FDR_OUT=%n.fdr";
    let (mut child, truth) = part.start(attempt.plan, folder, 2, setting, variables)?;
    let status = child.end(HANGS)?;
    let (wanted, what) = (
        crash::signal(kind),
        [
            "in code",
            "in malloc",
            "from outside",
            "at a record's store",
            "at a record's store, region unreadable",
        ],
    );
    let mut what = format!("signal {wanted} {}", what[place as usize]);
    let message = child::stderr_of(folder.path());
    let gave_up = gave_up(kind, place, &message);
    if gave_up {
        what.push_str(", std's handler gave up");
    }
    if child::signal(status) != if gave_up { libc::SIGSEGV } else { wanted } {
        return Err(Failure::Wrong(format!("{what}: {status}: {message}")));
    }
    if truth.get(CRASHING, CRASHED_AT) == 0 {
        return Err(Failure::Wrong(format!("{what}: before it began")));
    }
    let took = since(truth.get(CRASHING, CRASHED_AT));
    if took > LIMIT && !gave_up {
        return Err(Failure::Wrong(format!("{what}: the end took {took:?}")));
    }
    let crash = Crash {
        kind,
        place,
        case: what,
    };
    left(folder, &truth, seed, &crash)?;
    let busy = was_busy(folder, &crash)?;
    let mut tally = lock(tally);
    if crash.is_random() {
        tally.count(FROM_OUTSIDE, 1);
        tally.count(BUSY_FROM_OUTSIDE, u64::from(busy));
    }
    tally.count(&crash.case, 1);
    if !gave_up {
        tally.most(
            "ms from the crash to the end at most",
            took.as_millis() as u64,
        );
    }
    Ok(())
}

/// Whether the standard library's handler, which runs after the recorder's, waited in vain for a thread that
/// begins or ends: that one holds std's lock and waits for the allocator's. Then std says so after ten
/// million looks, and leaves the process to SIGSEGV.
fn gave_up(kind: u64, place: u64, stderr: &str) -> bool {
    (kind, place) == (crash::OVERFLOW, crash::IN_MALLOC) && stderr.contains("deadlock in SIGSEGV")
}

/// Time since a moment in µs of Unix time.
fn since(us: u64) -> Duration {
    let moment = UNIX_EPOCH + Duration::from_micros(us);
    SystemTime::now().duration_since(moment).unwrap_or_default()
}

/// What the process left: a trace and nothing else, or at the least its ring.
fn left(folder: &Folder, truth: &Truth, seed: u64, crash: &Crash) -> Result<(), Failure> {
    let case = &crash.case;
    let (traces, rings) = (folder.ending(".fdr"), folder.ending(".fdr-ring"));
    let files: Vec<PathBuf> = folder.files();
    if files.len() > 4 + traces.len() + rings.len() || traces.len() + rings.len() == 0 {
        return Err(Failure::Wrong(format!("{case}: {files:?}")));
    }
    for file in traces.iter().chain(&rings) {
        let trace = decode_trace(file).map_err(|why| format!("{case}: {why}"))?;
        let is_ring = rings.contains(file);
        threads(&trace, is_ring, truth, seed, crash).map_err(|failure| failure.with(case))?;
        // What can't be read is in the ring alone.
        if is_ring == (traces.is_empty() || crash.place == crash::UNREADABLE) {
            check_reason(&trace, is_ring, crash).map_err(|failure| failure.with(case))?;
        }
    }
    let is_unreadable = crash.place == crash::UNREADABLE;
    if traces.is_empty() {
        let message = child::stderr_of(folder.path());
        let why = format!("{case}: no dump, the ring is right: {message}");
        return Err(Failure::Missed(why));
    }
    if rings.is_empty() == is_unreadable && !crash.is_swallowed() {
        return Err(Failure::Wrong(format!("{case}: {rings:?} beside a trace")));
    }
    Ok(())
}

/// The state of each thread: what it had surely done at the crash, and what it has done in the end.
fn threads(
    trace: &DecodedTrace,
    is_ring: bool,
    truth: &Truth,
    seed: u64,
    crash: &Crash,
) -> Result<(), Failure> {
    let mut known = 0;
    for thread in truth.threads() {
        let course = check::course(truth, seed, thread);
        let sure = truth.get(thread, CRASHED);
        let moment = match thread {
            _ if is_ring => Moment::Now,
            CRASHING => crash.moment(sure),
            _ => Moment::Since(sure),
        };
        let lane = match thread {
            MAIN => trace.lanes.iter().find(|lane| lane.number().is_none()),
            _ => check::lane(trace, thread)?,
        };
        match lane {
            // It went on after the crash, and overwrote what it had made before while its ring was copied.
            Some(lane)
                if moment == Moment::Since(sure)
                    && lane.counts.readable == 0
                    && lane.counts.overwritten > sure =>
            {
                known += 1;
            }
            Some(lane) => {
                check::thread(lane, course, truth, thread, moment)?;
                known += 1;
            }
            None if !is_ring && thread == CRASHING && crash.place == crash::UNREADABLE => {}
            None if sure > 0 => {
                let why = format!("nothing of thread {thread}, of {sure} records");
                return Err(Failure::Lost(sure, why));
            }
            None => {}
        }
    }
    if known == trace.lanes.len() {
        return Ok(());
    }
    let names: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
    Err(Failure::Wrong(format!("threads {names:?}")))
}

/// What the file says of the crash. In a trace the thread that crashed is the first, and the calls are
/// open that it was in.
fn check_reason(trace: &DecodedTrace, is_ring: bool, crash: &Crash) -> Result<(), Failure> {
    let lane = check::lane(trace, CRASHING)?;
    let Lane { id, name, .. } = lane.ok_or_else(|| "it has no such thread".to_owned())?;
    let reason = &trace.info.reason;
    let name = if is_ring {
        String::new()
    } else {
        format!(" ({name})")
    };
    let end = format!(" in thread {id}{name}");
    let middle = reason
        .strip_prefix("crash: ")
        .and_then(|rest| rest.strip_suffix(&end));
    let wanted = crash.reason();
    let is_so = middle.is_some_and(|middle| match wanted.strip_suffix('*') {
        Some(before) => middle.strip_prefix(before).is_some_and(is_hexadecimal),
        None => middle == wanted,
    });
    if !is_so {
        let why = format!("the reason is {reason:?}, not \"crash: {wanted}{end}\"");
        return Err(Failure::Wrong(why));
    }
    if is_ring {
        return Ok(());
    }
    let first = &trace.lanes[0];
    let (closed, open) = first.open_at_the_end();
    if first.number() != Some(CRASHING) || closed != open {
        let name = &first.name;
        let why = format!("{name} is the first, {closed} of its {open} open calls were closed");
        return Err(Failure::Wrong(why));
    }
    Ok(())
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the thread was making a record when it died: then its slot is busy for ever. A store that
/// faults is one.
fn was_busy(folder: &Folder, crash: &Crash) -> Result<bool, Failure> {
    /// The CPU of a slot whose owner makes a record.
    const BUSY: u32 = 0x8000_0000;
    let slots = kill::slots(&folder.join(LINK))?;
    let name = format!("n{CRASHING}");
    let own = slots.iter().find(|slot| slot.name().starts_with(&name));
    let cpu = own.ok_or_else(|| format!("no slot of {name}"))?.cpu;
    let busy = cpu == BUSY;
    if crash.is_at_store() && !busy {
        let case = &crash.case;
        let why = format!("{case}: the recorder was not at work (CPU {cpu:#x})");
        return Err(Failure::Wrong(why));
    }
    Ok(busy)
}

/// How a process is made to crash.
struct Crash {
    kind: u64,
    place: u64,
    case: String,
}

impl Crash {
    /// Whether the standard library's handler takes the sent signal for a fault that will come again, and returns. Then
    /// the program goes on, and a second signal ends it. Its ring stays.
    fn is_swallowed(&self) -> bool {
        let sent = self.place == crash::IN_RECORDER
            || crash::RAISED.iter().any(|(kind, _)| *kind == self.kind);
        sent && [libc::SIGSEGV, libc::SIGBUS].contains(&crash::signal(self.kind))
    }

    fn is_at_store(&self) -> bool {
        [crash::IN_COMMIT, crash::UNREADABLE].contains(&self.place)
    }

    /// Whether the signal came at a random moment, after which the thread reports nothing.
    fn is_random(&self) -> bool {
        self.place == crash::IN_RECORDER && !self.is_swallowed()
    }

    /// The signal and its address, as the trace's reason has them. `*` is an address that can't be known before.
    fn reason(&self) -> &'static str {
        let raised = match self.kind {
            _ if self.place == crash::IN_RECORDER => None,
            _ if self.is_at_store() => Some("SIGSEGV at 0x*"),
            crash::WRITE => Some("SIGSEGV at 0x10"),
            crash::READ => Some("SIGSEGV at 0xfffffffffffff000"),
            // The standard library's handler aborts after ours.
            crash::OVERFLOW => Some("SIGSEGV at 0x*"),
            crash::ILLEGAL if cfg!(target_arch = "x86_64") => Some("SIGILL at 0x*"),
            _ => None,
        };
        raised.unwrap_or(match crash::signal(self.kind) {
            libc::SIGABRT => "SIGABRT",
            libc::SIGILL => "SIGILL",
            libc::SIGBUS => "SIGBUS",
            libc::SIGFPE => "SIGFPE",
            libc::SIGSYS => "SIGSYS",
            _ => "SIGSEGV",
        })
    }

    /// How far the thread was in the trace. `crashed`: its records when it was to crash.
    fn moment(&self, crashed: u64) -> Moment {
        match self.place {
            crash::IN_RECORDER if self.is_swallowed() => Moment::Since(crashed),
            crash::IN_RECORDER => Moment::Now,
            _ => Moment::Exactly(crashed),
        }
    }
}
