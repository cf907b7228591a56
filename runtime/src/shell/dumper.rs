//! The dumper: a thread of ours that writes a dump when the signal comes, keeps places ready for new
//! threads and space for those that record much, measures the clock's rate now and then, and compares the CPUs' clocks once.
//! The program's threads go on recording.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::calibrate::Refinement;
use super::last_thread::{self, Looks};
use super::sites::table;
use super::{dumping, install, skew, stream};
use crate::ring::{Ring, Shortage};
use crate::sys::signal::Mask;
use crate::{clock, crash, messages, recorder, sys};

/// Dumps that the signal asked for and that have not begun. Signals that come before a dump begins
/// are one; those that come during one make another.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Whether the thread runs.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// How long after it is known that slots are wanted they are made ready, ns: not at once, for on a busy machine
/// the thread that told so would wait for it, in the midst of its first call.
const PAUSE_NS: u64 = 1_000_000;

/// The same after a try that failed, for want of space and of memory.
const PAUSE_AFTER_FAILURE_NS: u64 = 1_000_000_000;

/// Starts the thread. All signals are blocked in it: the program's handlers never run there.
pub(crate) fn start(compare_clocks: bool) {
    if RUNS.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    let builder = thread::Builder::new()
        .name(last_thread::DUMPER.into())
        .stack_size(512 * 1024);
    let spawned = sys::signal::with_all_blocked(|programs| {
        builder.spawn(move || {
            let looks = run(compare_clocks);
            end_process(programs, &looks);
        })
    });
    if let Err(error) = spawned {
        RUNS.store(0, Ordering::Release);
        messages::warn(format_args!(
            "no dumper thread ({error}): the dump signal does nothing; exit and dump() still dump"
        ));
    }
}

/// Does the dumper's work until the program's last thread is gone.
fn run(compare_clocks: bool) -> Looks {
    let mut brought_in = Vec::new();
    let mut due_ns = Some(0);
    prepare(&mut brought_in, &mut due_ns);
    let compare = |state: &'static install::State| {
        let skew = skew::measure(state.chosen.kind, &state.frequency())?;
        Some((state, skew))
    };
    let compared = install::state().filter(|_| compare_clocks);
    if let Some((state, skew)) = compared.and_then(compare) {
        state.note_skew(&skew);
        if let Some(warning) = skew.warning() {
            messages::warn(format_args!("{warning}"));
        }
    }
    let mut refinement = Refinement::new(clock::monotonic_raw_ns());
    let mut looks = Looks::new(clock::monotonic_raw_ns());
    loop {
        let seen = sys::thread::DUMPER_WAKE.load(Ordering::Acquire);
        if ASKED.swap(0, Ordering::AcqRel) > 0 {
            let _ = dumping::dump_and_say("signal");
        }
        let pause = prepare(&mut brought_in, &mut due_ns);
        let now_ns = clock::monotonic_raw_ns();
        if refinement.is_due(now_ns) {
            refine();
        }
        if looks.find_nobody(now_ns) {
            return looks;
        }
        let next_look = Some(looks.sleep(now_ns));
        let sleeps = [refinement.sleep(now_ns), crash::look(), pause, next_look];
        sys::thread::wait_for_work(seen, sleeps.into_iter().flatten().min());
    }
}

/// The process ends with the program's last thread: with a dump, as at any exit.
fn end_process(programs: Mask, looks: &Looks) {
    dumping::at_exit();
    if stream::is_running() {
        // A peer holds the stream up, and the stream's thread would hold up the end.
        sys::process::exit();
    }
    // What `exit` calls is the program's.
    programs.restore();
    last_thread::end_as_last(looks);
}

/// Keeps the clock's rate in the ring's head, for who reads it when the process is dead.
fn refine() {
    if let (Some(ring), Some(state)) = (recorder::ring(), install::state()) {
        let hz = state.frequency().hz;
        ring.header().frequency.store(hz, Ordering::Relaxed);
    }
}

/// Keeps slots ready, so that a thread's first record need not wait for the disk, and brings in what threads
/// will need soon. `due_ns`: when slots are to be made, if that is known. How long there is until then.
fn prepare(brought_in: &mut Vec<u32>, due_ns: &mut Option<u64>) -> Option<Duration> {
    let ring = recorder::ring()?;
    let now_ns = clock::monotonic_raw_ns();
    let is_due = due_ns.is_some_and(|due_ns| due_ns <= now_ns);
    if is_due {
        let made = ring.prepare_spares(usize::MAX);
        *due_ns = (!made).then_some(now_ns + PAUSE_AFTER_FAILURE_NS);
    } else if ring.wants_spares() {
        due_ns.get_or_insert(now_ns + PAUSE_NS);
    }
    ring.look_ahead(brought_in, is_due);
    ring.reap();
    say_out_of_space(ring);
    end_where_lost(ring);
    due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
}

/// Ends the recording where somebody cut the ring's file short: here, and in the copies that record into it.
fn end_where_lost(ring: &Ring) {
    if ring.is_lost() {
        crash::tell_loss(ring);
        table().enable(false);
    }
}

/// Says, once, that a thread's ring found no room.
pub(crate) fn say_out_of_space(ring: &Ring) {
    if let Some(Shortage { error, is_partial }) = ring.shortage_to_say() {
        // As the kernel says where it allows no more mappings.
        let place = match error {
            libc::ENOMEM => "in memory",
            _ => "on the disk",
        };
        let error = std::io::Error::from_raw_os_error(error);
        let so = match is_partial {
            true => "it keeps fewer records than FDR_BUFFER has room for",
            false => "it is in memory only, and lost with the process",
        };
        messages::ring_error(format_args!(
            "no space for a thread's ring {place}: {error}; {so}; set FDR_DIR or a smaller FDR_BUFFER"
        ));
    }
}

/// The dump signal's handler: asks the dumper and calls the handler that was there before.
/// Async-signal-safe; keeps errno.
pub(crate) extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = sys::errno();
    // The dumper of a parent hears nothing of it.
    sys::process::notice_child();
    if RUNS.load(Ordering::Acquire) == 0 {
        // The child of a fork: nobody else can.
        crash::write_now("signal");
    } else {
        ASKED.fetch_add(1, Ordering::AcqRel);
        sys::thread::wake_dumper();
    }
    sys::signal::chain(signal, info, context);
    sys::set_errno(errno);
}

/// In the child of a fork the thread is gone, and dumps that were asked for are the parent's.
/// Async-signal-safe.
pub(crate) fn forget() {
    ASKED.store(0, Ordering::Relaxed);
    RUNS.store(0, Ordering::Release);
}
