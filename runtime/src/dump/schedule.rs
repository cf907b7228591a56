//! The states of threads: from the kernel's buffers into the ring, and from the ring into traces. The dumper empties the
//! buffers from time to time, and so does each dump. It must never wait for a thread of the program.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fs;

use fdr_formats::model::{Account, Schedule, State, Switch};
use fdr_formats::ring::schedule::{Entry, collect, unknown};
use fdr_formats::{CpuId, ThreadId, Ticks};

use crate::clock::{self, CPU_MASK, Kind};
use crate::ring::Ring;
use crate::ring::layout::state;
use crate::ring::schedule::SwitchLog;
use crate::sys::perf::{self, Event, What};
use crate::sys::{process, thread};

/// 1 while a thread empties the buffers.
static HELD: AtomicU32 = AtomicU32::new(0);

/// How often a thread tries to hold the buffers before it goes without.
const TRIES: u32 = 1000;

/// The most threads whose accounts are read at a time.
const MOST_ACCOUNTS: usize = 1024;

/// How the states of threads are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// By context switches.
    Switches,
    /// By the kernel's sums alone, because of that errno.
    Sums(i32),
}

/// A moment in ticks and in ns of the kernel's clock, and the CPU of the thread that took it.
#[derive(Clone, Copy)]
struct Anchor {
    ticks: u64,
    ns: u64,
    frequency: u64,
    cpu: CpuId,
}

impl Anchor {
    /// Of now. Async-signal-safe.
    fn take(ring: &Ring) -> Anchor {
        let header = ring.header();
        let kind = Kind::from_raw(header.clock.load(Ordering::Relaxed));
        let frequency = header.frequency.load(Ordering::Relaxed);
        let one = || {
            let before = clock::read(kind).ticks;
            let ns = clock::monotonic_raw_ns();
            let after = clock::read(kind);
            let width = after.ticks.saturating_sub(before);
            (width, before + width / 2, ns, after.cpu & CPU_MASK)
        };
        // The narrowest of three, because a thread may lose its CPU in between.
        let (_, ticks, ns, cpu) = [one(), one(), one()].into_iter().min().unwrap_or_default();
        Anchor {
            ticks,
            ns,
            frequency,
            cpu: CpuId(cpu),
        }
    }

    /// The tick at that time.
    fn tick(&self, ns: u64) -> Ticks {
        let behind = i128::from(self.ns) - i128::from(ns);
        let ticks = i128::from(self.ticks) - behind * i128::from(self.frequency) / 1_000_000_000;
        Ticks(u64::try_from(ticks).unwrap_or(0))
    }
}

/// Begins to record the states of the calling thread, and of all threads that it makes. The ring must have a place for
/// them. `None`: there is no space for them.
pub(crate) fn begin(ring: &Ring) -> Option<Source> {
    let log = ring.give_schedule()?;
    let cpus = perf::cpus();
    let begin = Anchor::take(ring);
    let mut buffers = Vec::with_capacity(cpus);
    for cpu in 0..cpus {
        match perf::watch(cpu) {
            Ok(buffer) => {
                buffer.last_ns.store(begin.ns, Ordering::Relaxed);
                buffers.push(buffer);
            }
            // The CPU is off.
            Err(libc::ENODEV) => {}
            // With some CPUs alone, a thread would seem to wait while it runs on another one.
            Err(error) => return Some(Source::Sums(error)),
        }
    }
    // What the buffers have by now is of a time before the watermark.
    let now = Anchor::take(ring);
    with_log(|| {
        log.add(&Entry::Watermark(Ticks(begin.ticks)));
        log.add(&Entry::Switch(Switch {
            time: Ticks(now.ticks),
            thread: ThreadId(thread::tid().into()),
            cpu: now.cpu,
            to: Some(State::Running),
        }));
    });
    perf::keep(buffers);
    Some(Source::Switches)
}

/// Whether context switches are recorded.
pub(crate) fn has_switches() -> bool {
    !perf::buffers().is_empty()
}

/// Runs `body`, which alone may write to the log. False: another thread writes for too long, or this one was interrupted
/// while it wrote.
/// Async-signal-safe.
fn with_log(body: impl FnOnce()) -> bool {
    for _ in 0..TRIES {
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
    with_log(|| {
        // What happens from here on may be in one buffer, and not yet in another one.
        let now = Anchor::take(ring);
        let own = process::pid();
        for buffer in buffers {
            buffer.drain(&mut |event| {
                let last = buffer.last_ns.swap(event.ns, Ordering::Relaxed);
                if event.process == own || event.what == What::Lost {
                    add(log, &now, &event, last);
                }
            });
        }
        log.add(&Entry::Watermark(Ticks(now.ticks)));
    });
}

fn add(log: &SwitchLog, now: &Anchor, event: &Event, last_ns: u64) {
    let to = match event.what {
        What::Begins => Some(State::Running),
        What::Preempted => Some(State::Preempted),
        What::Waits => Some(State::Waiting),
        What::Ended => None,
        What::Lost => {
            // From the last event that is there to the first one that is there again.
            log.add(&Entry::Switch(unknown(now.tick(last_ns))));
            log.add(&Entry::Switch(unknown(now.tick(event.ns))));
            return;
        }
    };
    log.add(&Entry::Switch(Switch {
        time: now.tick(event.ns),
        thread: ThreadId(event.thread.into()),
        cpu: CpuId(event.cpu),
        to,
    }));
}

/// All that the ring knows of states, and the kernel's sums of the threads that live.
pub(crate) fn of(ring: &Ring) -> Schedule {
    drain(ring);
    let Some(log) = ring.schedule() else {
        return Schedule::default();
    };
    let mut schedule = collect(log.all());
    schedule.accounts.extend(accounts(ring));
    schedule
}

/// Adds the kernel's sums to the ring, where switches are not to be had. So they are there after a kill.
pub(crate) fn note_accounts(ring: &Ring) {
    let Some(log) = ring.schedule().filter(|_| !has_switches()) else {
        return;
    };
    let accounts: Vec<Account> = accounts(ring).collect();
    with_log(|| {
        let now = Anchor::take(ring);
        log.add(&Entry::Watermark(Ticks(now.ticks)));
        for of in &accounts {
            let values = [of.running_ns, of.run_delay_ns, of.times];
            for (nth, value) in (0..).zip(values) {
                log.add(&Entry::Account(of.time, of.thread, nth, value));
            }
        }
        log.add(&Entry::Watermark(Ticks(now.ticks)));
    });
}

/// The kernel's sums of the threads that live and have records.
fn accounts(ring: &Ring) -> impl Iterator<Item = Account> + '_ {
    let living = ring
        .owned_slots()
        .filter(|slot| slot.state.load(Ordering::Relaxed) == state::LIVE);
    living.take(MOST_ACCOUNTS).filter_map(|slot| {
        let tid = slot.tid.load(Ordering::Relaxed);
        let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
        let mut values = text.split_whitespace().map(str::parse);
        let mut next = || values.next()?.ok();
        Some(Account {
            time: Ticks(Anchor::take(ring).ticks),
            thread: ThreadId(tid.into()),
            running_ns: next()?,
            run_delay_ns: next()?,
            times: next()?,
        })
    })
}

/// Called in the child of a fork. The kernel maps no buffers there, and notes nothing of it. Async-signal-safe.
pub(crate) fn forget() {
    perf::forget();
    HELD.store(0, Ordering::Relaxed);
}
