//! Crashes of every kind. A tenth is in the allocator while it holds its lock. A tenth is a fault at the recorder's own
//! store. More are signals at random moments in the recorder. The process dies of the right signal and in time, and
//! leaves a trace that is right up to the crash.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fdr_tests::programs::region;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CRASHED, CRASHED_AT, LINK, Truth, crash};

use crate::check::{self, Moment};
use crate::decoded_trace::{DecodedTrace, Lane, decode_trace};
use crate::plan::{Plan, Tally, Try};
use crate::victim::{Part, Setting};

/// From the crash to the end of the process.
const LIMIT: Duration = Duration::from_secs(2);
/// The main thread's number, and that of the thread that crashes.
const MAIN: usize = 1;
const CRASHING: usize = 5;

const FROM_OUTSIDE: &str = "signals at a random moment";
const BUSY_FROM_OUTSIDE: &str = "of these, in the midst of a record";
/// Of this many signals at random moments, some must have come in the midst of a record.
const MANY: u64 = 700;
const RING_ALONE: &str = "crashes that left their ring alone";

pub(crate) fn run(plan: &Plan) -> Tally {
    let tally = plan.each(2, 1, process);
    let (random, busy) = (
        tally.counted(FROM_OUTSIDE),
        tally.counted(BUSY_FROM_OUTSIDE),
    );
    assert!(
        random < MANY || busy > 0,
        "no signal of {random} came in the midst of a record"
    );
    let missed = tally.counted(RING_ALONE);
    assert!(
        missed * 1000 <= tally.tries,
        "{missed} of {} crashes left no trace",
        tally.tries
    );
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

fn process(attempt: &Try<'_>) {
    let mut random = attempt.random();
    let folder = attempt.folder(random.below(2) == 0);
    let (kind, place) = choose(&mut random);
    let seed = attempt.seed >> 1;
    let part = Part("crash", [seed, kind, place]);
    // A thread with short calls may never store a record again. Then it would not crash at this place.
    let setting = match place {
        crash::IN_COMMIT | crash::UNREADABLE => Setting::exact(attempt),
        _ => Setting::any(attempt, &mut random).with_counted(&mut random),
    };
    setting.count(attempt);
    let variables = "FDR_MEMORY=4M FDR_OUT=%n.fdr";
    let (process, truth) = part.start(attempt, &folder, 2, setting, variables);
    let outcome = process.end();
    let wanted = crash::signal(kind);
    let mut case = format!("signal {wanted} {}", crash::PLACES[place as usize]);
    let gave_up = gave_up(kind, place, &outcome.stderr);
    if gave_up {
        case.push_str(", std's handler gave up");
    }
    let wanted = if gave_up { libc::SIGSEGV } else { wanted };
    // A fault that is sent once more, as the recorder does, is one of the emulator's own.
    let is_lost = attempt.plan.is_emulated() && outcome.stdout.contains("cpu == current_cpu");
    if is_lost {
        attempt.count("signals that the emulator took for its own", 1);
    } else {
        assert_eq!(outcome.status.signal(), Some(wanted), "{case}: {outcome:?}");
    }
    let crashed = truth.get(CRASHING, CRASHED_AT);
    assert!(crashed > 0, "{case}: before it began");
    let took = since(crashed);
    let limit = match attempt.plan.is_emulated() {
        true => 10 * LIMIT,
        false => LIMIT,
    };
    assert!(took <= limit || gave_up, "{case}: the end took {took:?}");
    let crash = Crash {
        kind,
        place,
        case,
        has_illegal: attempt.plan.processor() == "x86_64",
    };
    let has_trace = left(&folder, &truth, seed, &crash);
    if !has_trace {
        println!("{}: no trace, the ring is right: {outcome:?}", crash.case);
        attempt.count(RING_ALONE, 1);
    }
    let busy = was_busy(&folder, &crash);
    if crash.is_random() {
        attempt.count(FROM_OUTSIDE, 1);
        attempt.count(BUSY_FROM_OUTSIDE, u64::from(busy));
    }
    attempt.count(&crash.case, 1);
    if !gave_up {
        let ms = took.as_millis() as u64;
        attempt.most("ms from the crash to the end at most", ms);
    }
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

/// What the process left: a trace and nothing else, or at the least its ring. Returns whether there is a trace.
fn left(folder: &Folder, truth: &Truth, seed: u64, crash: &Crash) -> bool {
    let case = &crash.case;
    let (traces, rings) = (folder.ending(".fdr"), folder.ending(".fdr-ring"));
    // Beside them, the page and the ring's second name.
    let names = folder.names();
    let count = traces.len() + rings.len();
    assert!(count > 0 && names.len() <= 2 + count, "{case}: {names:?}");
    let is_unreadable = crash.place == crash::UNREADABLE;
    for file in traces.iter().chain(&rings) {
        let trace = decode_trace(file);
        let is_ring = rings.contains(file);
        threads(&trace, is_ring, truth, seed, crash);
        // What can't be read is in the ring alone.
        if is_ring == (traces.is_empty() || is_unreadable) {
            check_reason(&trace, is_ring, crash);
        }
    }
    let is_right = rings.is_empty() != is_unreadable || crash.is_swallowed();
    assert!(
        traces.is_empty() || is_right,
        "{case}: {rings:?} beside a trace"
    );
    !traces.is_empty()
}

/// The state of each thread: what it had surely done at the crash, and what it has done in the end.
fn threads(trace: &DecodedTrace, is_ring: bool, truth: &Truth, seed: u64, crash: &Crash) {
    let case = &crash.case;
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
            _ => check::lane(trace, thread),
        };
        let Some(lane) = lane else {
            let is_unreadable = thread == CRASHING && crash.place == crash::UNREADABLE;
            let may_miss = sure == 0 || trace.misses_calls || (is_unreadable && !is_ring);
            assert!(
                may_miss,
                "{case}: nothing of thread {thread}, of {sure} records"
            );
            continue;
        };
        known += 1;
        // It went on after the crash, and overwrote what it had made before while its ring was copied.
        let is_overtaken = moment == Moment::Since(sure)
            && lane.counts.readable == 0
            && lane.counts.overwritten > sure;
        if !is_overtaken {
            check::thread(lane, course, truth, thread, moment);
        }
    }
    assert_eq!(
        known,
        trace.lanes.len(),
        "{case}: {:?}",
        check::names(trace)
    );
}

/// What the file says of the crash. In a trace the thread that crashed is the first, and the calls are
/// open that it was in.
fn check_reason(trace: &DecodedTrace, is_ring: bool, crash: &Crash) {
    let case = &crash.case;
    let Some(lane) = check::lane(trace, CRASHING) else {
        assert!(
            trace.misses_calls,
            "{case}: nothing of the thread that crashed"
        );
        return;
    };
    let Lane { id, name, .. } = lane;
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
    assert!(is_so, "{case}: {reason:?}, not \"crash: {wanted}{end}\"");
    if !is_ring {
        let first = &trace.lanes[0];
        assert_eq!(first.number(), Some(CRASHING), "{case}: the first thread");
        let (closed, open) = first.open_at_the_end();
        assert_eq!(closed, open, "{case}: ends of open calls");
    }
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the thread was making a record when it died: then its slot is busy for ever. A store that
/// faults is one.
fn was_busy(folder: &Folder, crash: &Crash) -> bool {
    /// The CPU of a slot whose owner makes a record.
    const BUSY: u32 = 0x8000_0000;
    let slots = region::slots(&folder.join(LINK)).expect("a ring");
    let name = format!("n{CRASHING}");
    let own = slots.iter().find(|slot| slot.name().starts_with(&name));
    // A thread whose functions were only looked at may have none.
    let cpu = own.map_or(0, |slot| slot.cpu);
    let busy = cpu == BUSY;
    let is_right = busy || !crash.is_at_store();
    assert!(
        is_right,
        "{}: no record was being made (CPU {cpu:#x})",
        crash.case
    );
    busy
}

/// How a process is made to crash.
struct Crash {
    kind: u64,
    place: u64,
    case: String,
    /// Whether the program has an illegal instruction for its processor.
    has_illegal: bool,
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
            crash::ILLEGAL if self.has_illegal => Some("SIGILL at 0x*"),
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
