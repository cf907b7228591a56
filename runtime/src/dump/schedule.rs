//! The states of threads: from the kernel's buffers into the ring, and from the ring into traces. The dumper empties the
//! buffers from time to time, and so does each dump. It must never wait for a thread of the program.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fdr_formats::ThreadId;
use fdr_formats::model::{Account, Cause, Module, Schedule, State};
use fdr_formats::ring::schedule::{MODULES_BYTES, account, collect, sample, switch, watermark};
use fdr_formats::text;
use fdr_formats::xray::payload::put_module;

use crate::clock::{self, CPU_MASK, Kind};
use crate::ring::Ring;
use crate::ring::layout::state;
use crate::ring::schedule::SwitchLog;
use crate::sys::lock::Leaked;
use crate::sys::perf::{self, Buffer, Event, EventKind, Events, Watched};
use crate::sys::{file, modules, process, thread};

/// 1 while a thread empties the buffers.
static HELD: AtomicU32 = AtomicU32::new(0);

/// Set once [`stop`] was called.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The files that were loaded into the program when the recorder began.
static LOADED: Leaked<Vec<Module>> = Leaked::new();

/// How often a thread tries to hold the buffers before it goes without.
const MAX_TRIES: u32 = 1000;

/// Counts of [`ended_and_lost`].
static ENDED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

/// The least that a recorded context switch is assumed to cost, and its cost if it can't be measured.
const MIN_SWITCH_COST: SwitchCost = SwitchCost {
    alone_ns: 400,
    sampled_ns: 1000,
};
const DEFAULT_SWITCH_COST: SwitchCost = SwitchCost {
    alone_ns: 800,
    sampled_ns: 2000,
};

/// The kinds of samples.
const SAMPLED: [Watched; 2] = [Watched::Time, Watched::PageFaults];

/// The most events of late states. To open one takes the dumper about 10 µs.
const MAX_EVENTS: u64 = 2048;
/// Buffers of late states take one part in this many of the memory that the process may lock. It may need the rest.
const PART_OF_LOCKED: u64 = 4;
/// Pages of a buffer of late states. The first number that fits is taken.
const LATE_PAGES: [usize; 3] = [16, 4, 1];

/// The number of the CPU among the fields of a thread's `stat`, counted from its state. Source: proc(5).
const STAT_CPU: usize = 36;

/// The most threads whose accounts are read at a time.
const MAX_ACCOUNTS: usize = 1024;

/// How the states of threads are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// By context switches.
    Switches,
    /// By the kernel's sums alone, because of that errno.
    Sums(i32),
}

/// Begins to record the states of a thread, and of all threads that it makes. The ring must have a place for
/// them. `None`: there is no space for them.
pub(crate) fn begin(ring: &Ring, of: u32) -> Option<Source> {
    let log = ring.give_schedule(false)?;
    let begin_ns = clock::monotonic_raw_ns();
    let mut buffers = match watch(of, Watched::Switches, begin_ns) {
        Ok(buffers) => buffers,
        Err(error) => return Some(Source::Sums(error)),
    };
    // Without them there are states all the same.
    for watched in [Watched::Time, Watched::PageFaults] {
        if let Ok(mut more) = watch(of, watched, begin_ns) {
            buffers.append(&mut more);
        }
    }
    note_loaded();
    give_modules(ring, &buffers);
    let kind = Kind::from_raw(ring.header().clock.load(Ordering::Relaxed));
    let cpu = clock::read(kind).cpu & CPU_MASK;
    let now_ns = clock::monotonic_raw_ns();
    // If the calling thread stands in for `of`, then `of` waits.
    let state = match of == thread::tid() {
        true => State::Running,
        false => State::Waiting,
    };
    with_log(&mut || {
        log.add(watermark(begin_ns));
        // The buffers may already have switches of the thread. Earlier states do not matter.
        log.add(switch(now_ns, of, cpu, None));
        log.add(switch(now_ns, of, cpu, Some(state)));
    });
    perf::keep(buffers);
    Some(Source::Switches)
}

/// Notes which files are loaded into the program. Must never be called where the loader's lock may be held by a thread
/// that waits.
// Out of line, because it also runs on the stack of the program.
#[inline(never)]
pub(crate) fn note_loaded() {
    let _ = LOADED.get_or_init(modules::all);
}

/// Stores the files that were loaded into the program, if the buffers have samples.
fn give_modules(ring: &Ring, buffers: &[Buffer]) {
    let is_sampled = |buffer: &Buffer| buffer.watched != Watched::Switches;
    if let Some(loaded) = LOADED.get().filter(|_| buffers.iter().any(is_sampled)) {
        ring.give_modules(&encoded(loaded));
    }
}

/// Why [`begin_late`] did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// Threads began meanwhile. Their events may be incomplete.
    ThreadsBegan,
    /// There is no space in the ring.
    NoSpace,
    /// So many threads and CPUs need more descriptors or locked memory than the recorder takes.
    TooMany,
    /// There may be a filter of system calls.
    Filtered,
    /// The errno of the kernel.
    Refused(i32),
}

/// What the events of [`begin_late`] take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LatePlan {
    /// Pages of each CPU's buffer of switches.
    pages: usize,
    /// Whether there are samples, too.
    samples: bool,
}

impl LatePlan {
    /// `page`: bytes of a page. `descriptors`, `locked`: the limits of the process. `None`: states would take too much.
    fn new(
        threads: usize,
        cpus: usize,
        page: usize,
        [descriptors, locked]: [u64; 2],
    ) -> Option<LatePlan> {
        let events = (threads as u64).saturating_mul(cpus as u64);
        let max_events = MAX_EVENTS.min(descriptors / 2);
        if threads == 0 || events > max_events {
            return None;
        }
        let samples = events * 3 <= max_events;
        let fits = |&pages: &usize| {
            // Each buffer has one page more. Buffers of samples have one page.
            let each = pages + 1 + if samples { 4 } else { 0 };
            (each * cpus * page) as u64 <= locked / PART_OF_LOCKED
        };
        let pages = LATE_PAGES.into_iter().find(fits)?;
        Some(LatePlan { pages, samples })
    }
}

/// A thread that existed before its states were recorded.
struct OldThread {
    tid: u32,
    /// The thread's CPU time just after the kernel began to record its switches, ns.
    cpu_ns: u64,
}

/// The events of states that began late.
pub(crate) struct LateEvents {
    switches: Events,
    /// `None`: there are no samples, or no more.
    samples: Option<Events>,
}

/// CPU time that the kernel takes to record a context switch and the thread's return, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchCost {
    /// Without samples.
    pub(crate) alone_ns: u64,
    /// With samples. They take part in each switch.
    pub(crate) sampled_ns: u64,
}

/// Begins to record the states of all threads of the program, and of those that they make. `threads` lists them.
/// [`stop`] ends the states.
pub(crate) fn begin_late(
    ring: &Ring,
    threads: &dyn Fn() -> Vec<u32>,
) -> Result<LateEvents, NotBegun> {
    let before = threads();
    let limits = perf::limits();
    let plan = LatePlan::new(before.len(), perf::cpus(), perf::page_size(), limits);
    let plan = plan.ok_or(NotBegun::TooMany)?;
    let watch = |watched, pages| Events::watch(&before, watched, pages);
    let (switches, mut buffers) =
        watch(Watched::Switches, plan.pages).map_err(NotBegun::Refused)?;
    let mut samples = None;
    for watched in SAMPLED.into_iter().filter(|_| plan.samples) {
        // Without them there are states all the same.
        if let Ok((events, mut theirs)) = watch(watched, 1) {
            samples.get_or_insert_with(Events::default).append(events);
            buffers.append(&mut theirs);
        }
    }
    let since_ns = clock::monotonic_raw_ns();
    let old: Vec<OldThread> = before.iter().map(|&tid| OldThread::new(tid)).collect();
    if threads().iter().any(|tid| !before.contains(tid)) {
        return Err(NotBegun::ThreadsBegan);
    }
    let log = ring.give_schedule(true).ok_or(NotBegun::NoSpace)?;
    give_modules(ring, &buffers);
    let states: Vec<_> = old.iter().map(OldThread::state).collect();
    let now_ns = clock::monotonic_raw_ns();
    let mut seen = Vec::new();
    for buffer in &buffers {
        buffer.last_ns.store(since_ns, Ordering::Relaxed);
        // An event before that time may be one of several, of which the kernel recorded only a part.
        let _ = buffer.drain(now_ns, &mut |event| {
            seen.extend((event.ns >= since_ns).then_some((buffer, event)));
        });
    }
    with_log(&mut || {
        log.add(watermark(since_ns));
        for (thread, &state) in old.iter().zip(&states) {
            // If the kernel recorded a switch meanwhile, the state may be older or newer than that.
            let has_switched = |(_, event): &(_, Event)| {
                event.thread == thread.tid && event.kind != EventKind::Was
            };
            let state = state.filter(|_| !seen.iter().any(has_switched));
            if let Some((state, cpu)) = state {
                log.add(switch(since_ns, thread.tid, cpu, Some(state)));
            }
        }
        let own = process::pid();
        for (buffer, event) in &seen {
            pass_on(log, buffer, event, own);
        }
        log.add(watermark(now_ns));
    });
    perf::keep(buffers);
    Ok(LateEvents { switches, samples })
}

impl LateEvents {
    pub(crate) fn has_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// Ends the samples for as long as the process lives. The states go on.
    pub(crate) fn stop_samples(&mut self, ring: &Ring) {
        drain(ring);
        perf::discard_samples();
        self.samples = None;
    }
}

impl OldThread {
    fn new(tid: u32) -> OldThread {
        OldThread {
            tid,
            cpu_ns: clock::cpu_ns_of(tid),
        }
    }

    /// The state since [`new`](OldThread::new), and the thread's last CPU, if the thread had no switch since. `None`: it has
    /// ended, or it is ready to run, and it is not known whether it was preempted.
    fn state(&self) -> Option<(State, u32)> {
        let has_run = clock::cpu_ns_of(self.tid) > self.cpu_ns;
        let text = file::kernel_text(&format!("/proc/self/task/{}/stat", self.tid))?;
        let mut fields = process::stat_fields(&text)?;
        let letter = fields.next()?;
        let cpu = u32::try_from(text::number(fields.nth(STAT_CPU - 1)?)?).ok()?;
        let state = match letter {
            "S" | "D" | "I" | "T" | "t" if !has_run => State::Waiting,
            "S" | "D" | "I" | "T" | "t" | "R" if has_run => State::Running,
            _ => return None,
        };
        Some((state, cpu))
    }
}

/// Ends the states of [`begin_late`] for as long as the process lives. The ring keeps those that it has.
pub(crate) fn stop(ring: &Ring, events: LateEvents) {
    drain(ring);
    STOPPED.store(true, Ordering::Relaxed);
    perf::discard();
    drop((events.switches, events.samples));
}

/// How many threads have ended since states are recorded, and how many events the kernel had no place for.
pub(crate) fn ended_and_lost() -> [u64; 2] {
    [&ENDED, &LOST].map(|count| count.load(Ordering::Relaxed))
}

/// What it costs to record a context switch here, at least [`MIN_SWITCH_COST`]. The calling thread sleeps with and without
/// recording, and this function compares the two.
pub(crate) fn measure_switch_cost() -> SwitchCost {
    let without_ns = usual_sleep_ns();
    let own = [thread::tid()];
    let watch = |watched| Events::watch(&own, watched, 1);
    let Ok(switches) = watch(Watched::Switches) else {
        return DEFAULT_SWITCH_COST;
    };
    let alone_ns = usual_sleep_ns();
    let samples = SAMPLED.map(watch);
    let sampled_ns = usual_sleep_ns();
    drop((switches, samples));
    let cost = |with_ns: u64, min_ns| with_ns.saturating_sub(without_ns).max(min_ns);
    let alone_ns = cost(alone_ns, MIN_SWITCH_COST.alone_ns);
    SwitchCost {
        alone_ns,
        sampled_ns: cost(sampled_ns, MIN_SWITCH_COST.sampled_ns).max(alone_ns),
    }
}

/// The median CPU time of the shortest sleep, ns.
#[inline(never)]
fn usual_sleep_ns() -> u64 {
    const MAX_SLEEPS: usize = 17;
    /// Where the CPUs are busy, each sleep ends late. The dumper has other work to do.
    const MIN_SLEEPS: usize = 5;
    const MAX_TIME: Duration = Duration::from_millis(10);
    let mut all = [0; MAX_SLEEPS];
    let (mut count, begun) = (0, Instant::now());
    while count < MAX_SLEEPS && (count < MIN_SLEEPS || begun.elapsed() < MAX_TIME) {
        let before_ns = clock::thread_cpu_ns();
        std::thread::sleep(Duration::from_nanos(1));
        let ns = clock::thread_cpu_ns().saturating_sub(before_ns);
        // They stay in order. The sort of std is 4 kB of code.
        let place = all[..count].iter().take_while(|&&known| known < ns).count();
        all.copy_within(place..count, place + 1);
        all[place] = ns;
        count += 1;
    }
    all[count / 2]
}

/// The buffers of all CPUs, for a thread and those that it makes.
///
/// # Errors
/// The errno of one of them: with some CPUs alone, a thread would seem to wait while it runs on another one.
fn watch(thread: u32, watched: Watched, begin_ns: u64) -> Result<Vec<Buffer>, i32> {
    let mut buffers = Vec::new();
    for cpu in 0..perf::cpus() {
        match perf::watch(thread, cpu, watched) {
            Ok(buffer) => {
                buffer.last_ns.store(begin_ns, Ordering::Relaxed);
                buffers.push(buffer);
            }
            // The CPU is off.
            Err(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffers)
}

/// Modules as a ring has them. If there are very many, some have no room.
fn encoded(modules: &[Module]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for module in modules {
        let before = bytes.len();
        put_module(module, &mut bytes);
        if bytes.len() > MODULES_BYTES {
            bytes.truncate(before);
        }
    }
    bytes
}

/// Whether context switches are recorded.
pub(crate) fn has_switches() -> bool {
    !perf::buffers().is_empty()
}

/// Runs `body`, which alone may write to the log. False: another thread writes for too long, or this one was interrupted
/// while it wrote.
/// Async-signal-safe.
fn with_log(body: &mut dyn FnMut()) -> bool {
    for _ in 0..MAX_TRIES {
        let taken = HELD.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            body();
            HELD.store(0, Ordering::Release);
            return true;
        }
        thread::give_way();
    }
    false
}

/// Moves what the kernel has written into the ring. Async-signal-safe.
pub(crate) fn drain(ring: &Ring) {
    let buffers = perf::buffers();
    if buffers.is_empty() || process::is_unnoticed_child() || ring.is_lost() {
        return;
    }
    let Some(log) = ring.schedule() else { return };
    with_log(&mut || {
        // Later events stay in the buffers. Otherwise the ring would have those of the last buffers, and lack those of the
        // first ones.
        let now_ns = clock::monotonic_raw_ns();
        let own = process::pid();
        for buffer in buffers {
            let is_full = buffer.drain(now_ns, &mut |event| pass_on(log, buffer, &event, own));
            if is_full && buffer.watched == Watched::Switches {
                // If no thread gets that CPU again, the kernel's own record of the loss never comes.
                let last_ns = buffer.last_ns.load(Ordering::Relaxed);
                add_gap(log, last_ns, clock::monotonic_raw_ns());
            }
        }
        log.add(watermark(now_ns));
    });
}

/// Moves an event of a buffer into the ring, if it is of this process, whose number is `own`.
fn pass_on(log: &SwitchLog, buffer: &Buffer, event: &Event, own: u32) {
    LOST.fetch_add(event.lost, Ordering::Relaxed);
    if event.kind == EventKind::Ended && event.process == own {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    let last_ns = buffer.last_ns.swap(event.ns, Ordering::Relaxed);
    if buffer.watched != Watched::Switches {
        if event.process == own && event.kind == EventKind::Was {
            add_sample(log, buffer.watched, event);
        }
    } else if event.process == own || event.kind == EventKind::Lost {
        add(log, event, last_ns);
    }
}

fn add(log: &SwitchLog, event: &Event, last_ns: u64) {
    let to = match event.kind {
        EventKind::Begins => Some(State::Running),
        EventKind::Preempted => Some(State::Preempted),
        EventKind::Waits => Some(State::Waiting),
        EventKind::Ended => None,
        // Buffers of switches have no samples.
        EventKind::Was => return,
        EventKind::Lost => {
            add_gap(log, last_ns, event.ns);
            return;
        }
    };
    log.add(switch(event.ns, event.thread, event.cpu, to));
}

/// No thread's state is known from the last event before a loss to the first one after it.
fn add_gap(log: &SwitchLog, last_ns: u64, first_ns: u64) {
    log.add(switch(last_ns, 0, 0, None));
    log.add(switch(first_ns, 0, 0, None));
}

fn add_sample(log: &SwitchLog, watched: Watched, event: &Event) {
    let cause = match watched {
        Watched::PageFaults => Cause::PageFault,
        _ => Cause::Time,
    };
    log.add(sample(
        event.ns,
        event.thread,
        event.cpu,
        cause,
        event.address,
    ));
}

/// All that the ring knows of states, and the kernel's sums of the threads that live.
pub(crate) fn gather(ring: &Ring) -> Schedule {
    drain(ring);
    let Some(log) = ring.schedule() else {
        return Schedule::default();
    };
    let mut schedule = collect(log.all(ring.anchor()));
    if !schedule.samples.is_empty() {
        schedule.modules = LOADED.get().cloned().unwrap_or_default();
    }
    let anchor = ring.anchor();
    for (ns, tid, [running_ns, run_delay_ns, times]) in sums(ring) {
        schedule.accounts.push(Account {
            time: anchor.tick(ns),
            thread: ThreadId(tid.into()),
            running_ns,
            run_delay_ns,
            times,
        });
    }
    schedule
}

/// Adds the kernel's sums to the ring, where switches are not to be had. So they are there after a kill.
pub(crate) fn note_accounts(ring: &Ring) {
    let has_none = !has_switches() && !STOPPED.load(Ordering::Relaxed);
    let Some(log) = ring.schedule().filter(|_| has_none) else {
        return;
    };
    let sums = sums(ring);
    with_log(&mut || {
        log.add(watermark(clock::monotonic_raw_ns()));
        for &(ns, tid, values) in &sums {
            for (nth, value) in (0..).zip(values) {
                log.add(account(ns, tid, nth, value));
            }
        }
        log.add(watermark(clock::monotonic_raw_ns()));
    });
}

/// The kernel's sums of the threads that live and have records: when they were read, the thread, and the values.
fn sums(ring: &Ring) -> Vec<(u64, u32, [u64; 3])> {
    let mut sums = Vec::new();
    let living = ring
        .owned_slots()
        .filter(|slot| slot.state.load(Ordering::Relaxed) == state::LIVE);
    for slot in living.take(MAX_ACCOUNTS) {
        let tid = slot.tid.load(Ordering::Relaxed);
        if let Some(values) = sums_of(tid) {
            sums.push((clock::monotonic_raw_ns(), tid, values));
        }
    }
    sums
}

fn sums_of(tid: u32) -> Option<[u64; 3]> {
    let text = file::kernel_text(&format!("/proc/self/task/{tid}/schedstat"))?;
    let mut values = text.split_ascii_whitespace();
    let mut next = || values.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// Called in the child of a fork. The kernel maps no buffers there, and records no events of the child.
/// Async-signal-safe.
pub(crate) fn forget() {
    perf::forget();
    HELD.store(0, Ordering::Relaxed);
    STOPPED.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const MANY: [u64; 2] = [1 << 20, u64::MAX];

    fn planned(threads: usize, cpus: usize, limits: [u64; 2]) -> Option<(usize, bool)> {
        let plan = LatePlan::new(threads, cpus, PAGE, limits);
        plan.map(|plan| (plan.pages, plan.samples))
    }

    #[test]
    fn events_are_bounded() {
        assert_eq!(planned(0, 2, MANY), None);
        assert_eq!(planned(341, 2, MANY), Some((16, true)));
        assert_eq!(planned(342, 2, MANY), Some((16, false)));
        assert_eq!(planned(1024, 2, MANY), Some((16, false)));
        assert_eq!(planned(1025, 2, MANY), None);
        assert_eq!(planned(usize::MAX, 128, MANY), None);
    }

    #[test]
    fn limits_of_the_process_are_kept() {
        // Half of the descriptors: three events for each of 85 threads and 2 CPUs are 510.
        assert_eq!(planned(85, 2, [1024, u64::MAX]), Some((16, true)));
        assert_eq!(planned(86, 2, [1024, u64::MAX]), Some((16, false)));
        assert_eq!(planned(257, 2, [1024, u64::MAX]), None);
        assert_eq!(planned(1, 2, [0, u64::MAX]), None);
        // A quarter of the memory: 21, 9 and 6 pages for each CPU.
        for (pages, each) in [(16, 21), (4, 9), (1, 6)] {
            let enough = (each * 2 * PAGE) as u64 * PART_OF_LOCKED;
            assert_eq!(planned(1, 2, [1024, enough]), Some((pages, true)));
            assert_ne!(planned(1, 2, [1024, enough - 1]), Some((pages, true)));
        }
        assert_eq!(planned(1, 2, [1024, 0]), None);
    }
}
