//! The states of threads: from the kernel's buffers into the ring, and from the ring into traces. The dumper empties the
//! buffers from time to time, and so does each dump. It must never wait for a thread of the program.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use fdr_formats::ThreadId;
use fdr_formats::model::{Account, Cause, Module, Schedule, State};
use fdr_formats::ring::schedule::{MODULES_BYTES, account, collect, sample, switch, watermark};
use fdr_formats::xray::payload::put_module;

use crate::clock::{self, CPU_MASK, Kind};
use crate::ring::Ring;
use crate::ring::layout::state;
use crate::ring::schedule::SwitchLog;
use crate::sys::perf::{self, Buffer, Event, EventKind, Watched};
use crate::sys::{file, modules, process, thread};

/// 1 while a thread empties the buffers.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The files that were loaded into the program when the recorder began.
static LOADED: OnceLock<Vec<Module>> = OnceLock::new();

/// How often a thread tries to hold the buffers before it goes without.
const TRIES: u32 = 1000;

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
    let log = ring.give_schedule()?;
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
    if buffers
        .iter()
        .any(|buffer| buffer.watched != Watched::Switches)
    {
        let loaded = LOADED.get_or_init(modules::all);
        ring.give_modules(&encoded(loaded));
    }
    let kind = Kind::from_raw(ring.header().clock.load(Ordering::Relaxed));
    let cpu = clock::read(kind).cpu & CPU_MASK;
    let now_ns = clock::monotonic_raw_ns();
    // If the calling thread stands in for `of`, then `of` waits.
    let state = match of == thread::tid() {
        true => State::Running,
        false => State::Waiting,
    };
    with_log(|| {
        log.add(watermark(begin_ns));
        // The buffers may already have switches of the thread. Earlier states do not matter.
        log.add(switch(now_ns, of, cpu, None));
        log.add(switch(now_ns, of, cpu, Some(state)));
    });
    perf::keep(buffers);
    Some(Source::Switches)
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
        // Later events stay in the buffers. Otherwise the ring would have those of the last buffers, and lack those of the
        // first ones.
        let now_ns = clock::monotonic_raw_ns();
        let own = process::pid();
        for buffer in buffers {
            buffer.drain(now_ns, &mut |event| {
                let last_ns = buffer.last_ns.swap(event.ns, Ordering::Relaxed);
                if buffer.watched != Watched::Switches {
                    if event.process == own && event.kind == EventKind::Was {
                        add_sample(log, buffer.watched, &event);
                    }
                } else if event.process == own || event.kind == EventKind::Lost {
                    add(log, &event, last_ns);
                }
            });
        }
        log.add(watermark(now_ns));
    });
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
            // Between the last event before the loss and the first one after it, no thread's state is known.
            log.add(switch(last_ns, 0, 0, None));
            log.add(switch(event.ns, 0, 0, None));
            return;
        }
    };
    log.add(switch(event.ns, event.thread, event.cpu, to));
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
    let Some(log) = ring.schedule().filter(|_| !has_switches()) else {
        return;
    };
    let sums = sums(ring);
    with_log(|| {
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
}
