//! The dumper, a thread of the recorder. All files of the recorder are open in its descriptor table, which is not the
//! program's. So it makes the ring file and all dumps, also those that other threads ask for (`handover`). It carries
//! out the commands of `fdr ctl`. It makes the dumps of triggers. It holds recording to its budget. It keeps slots
//! prepared for new threads, and space for threads that record much. It measures the clock's rate from time to time,
//! and compares the CPUs' clocks once.

use core::sync::atomic::Ordering;
use std::time::Duration;

use super::budget::Budget;
use super::calibrate::Refinement;
use super::dead_rings::DeadRings;
use super::last_thread::{self, LookSchedule};
use super::sites::TableHandle;
use super::state::State;
use super::thread_states::ThreadStates;
use super::{
    commands, dump_signal, dumping, end_signals, exit, failures, handover, skew, triggers,
};
use crate::api::Failure;
use crate::ring::Ring;
use crate::sys::own_table::{self, DescriptorTable};
use crate::{clock, crash, messages, recorder, sys};

/// The pause between a wish for slots and making them, ns. Without the pause the dumper might take the CPU from
/// the thread that woke it, in the midst of that thread's first call.
const PAUSE_NS: u64 = 1_000_000;

/// How long after its start the dumper compares the CPUs' clocks and looks for rings of earlier runs, ns. A process that
/// ends before does not pay for it: the comparison keeps two CPUs busy.
const COMPARISON_NS: u64 = 50_000_000;

/// How long after its start the dumper prepares the most slots, ns. They cost some 15 ms of CPU time, which is a part of
/// the budget even of a process that lasts a second.
const MOST_SPARES_NS: u64 = 1_000_000_000;

/// The pause after a try that failed, because there was no space and no memory.
const PAUSE_AFTER_FAILURE_NS: u64 = 1_000_000_000;

/// Starts the thread, which shares the descriptor table of the calling thread. All signals are blocked in it, so the
/// program's handlers never run there.
///
/// # Errors
/// There is no thread.
pub(crate) fn start(state: &'static State, table: TableHandle) -> Result<(), Failure> {
    if !handover::begin() {
        return Ok(());
    }
    let descriptors = DescriptorTable::mine();
    let spawned = sys::signal::with_all_blocked(|programs| {
        let body = move || {
            let _life = Life;
            handover::is_me();
            if descriptors.share() {
                let looks = run(state, table);
                // With a dump as at any exit.
                exit::at_last_thread(state, table);
                last_thread::end_process(programs, &looks);
            }
        };
        sys::thread::spawn(handover::DUMPER, 512 * 1024, Box::new(body))
    });
    if let Err(error) = spawned {
        handover::end();
        return Err(no_thread(error));
    }
    Ok(())
}

/// The error if the dumper can't be started: without its own thread the recorder would have to open its files among the
/// program's.
pub(crate) fn no_thread(error: std::io::Error) -> Failure {
    let remedy = "see whether a limit or a filter of system calls forbids it";
    Failure::new("no thread for the recorder", remedy, Some(error))
}

/// On drop, says that the thread has ended, also after a panic.
struct Life;

impl Drop for Life {
    fn drop(&mut self) {
        own_table::forget_own_table(sys::thread::tid());
        handover::end();
    }
}

/// Does the work of the dumper until the program's last thread has ended.
fn run(state: &State, table: TableHandle) -> LookSchedule {
    let mut brought_in = Vec::new();
    let mut due_ns = Some(0);
    prepare(table, &mut brought_in, &mut due_ns);
    let begin_ns = clock::monotonic_raw_ns();
    let is_first = !sys::process::is_fork_child();
    let mut comparison_ns = is_first.then_some(begin_ns + COMPARISON_NS);
    let mut spares_ns = is_first.then_some(begin_ns + MOST_SPARES_NS);
    let mut dead_rings = None;
    let mut refinement = Refinement::new(clock::monotonic_raw_ns());
    let mut looks = LookSchedule::new(clock::monotonic_raw_ns());
    let mut budget = Budget::new(state, table, clock::monotonic_raw_ns());
    let mut states = ThreadStates::new(&state.config, clock::monotonic_raw_ns());
    loop {
        let seen = sys::thread::DUMPER_WAKE.load(Ordering::Acquire);
        if let Some(budget) = &mut budget {
            budget.settle();
        }
        let before_ns = clock::thread_cpu_ns();
        handover::carry_out();
        exit::look_for_end(state, table);
        if dump_signal::take_pending() && !triggers::take_signal() {
            let _ = dumping::dump_and_print(state, table, "signal");
        }
        let command = commands::carry_out(state, table);
        let next_trigger = triggers::look(state, table);
        if let Some(budget) = &mut budget {
            budget.leave_out(clock::thread_cpu_ns().saturating_sub(before_ns));
        }
        let pause = prepare(table, &mut brought_in, &mut due_ns);
        let now_ns = clock::monotonic_raw_ns();
        if refinement.is_due(now_ns) {
            refine(state);
        }
        if looks.find_nobody(now_ns) {
            return looks;
        }
        if comparison_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            comparison_ns = None;
            compare_clocks(state);
            dead_rings = DeadRings::find(state);
        }
        if spares_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            spares_ns = None;
            if let Some(ring) = recorder::ring() {
                ring.want_most_spares();
                due_ns = Some(now_ns);
            }
        }
        let goes_on = dead_rings.as_mut().is_some_and(DeadRings::remove_one);
        let next_removal = goes_on.then_some(Duration::ZERO);
        let until = |due_ns: u64| Duration::from_nanos(due_ns.saturating_sub(now_ns));
        let next_comparison = comparison_ns.map(until);
        let next_spares = spares_ns.map(until);
        let next_look = Some(looks.sleep(now_ns));
        let next_states = states.look(now_ns);
        let next_account = budget.as_mut().and_then(|budget| budget.look(now_ns));
        let sleeps = [
            refinement.sleep(now_ns),
            crash::look(),
            pause,
            next_look,
            next_comparison,
            next_spares,
            next_removal,
            next_account,
            next_states,
            next_trigger,
        ];
        sys::thread::wait_for_work(seen, shortest(&sleeps), command);
    }
}

#[inline(never)]
fn shortest(sleeps: &[Option<Duration>]) -> Option<Duration> {
    sleeps.iter().copied().flatten().min()
}

/// Compares the CPUs' clocks, and prints a line if they differ.
fn compare_clocks(state: &State) {
    if let Some(skew) = skew::measure(state.chosen.kind, &state.frequency()) {
        state.note_skew(&skew);
        if let Some(warning) = skew.warning() {
            messages::warn(format_args!("{warning}"));
        }
    }
}

/// Stores the clock's rate in the head of the ring, for a reader after the process is dead.
fn refine(state: &State) {
    if let Some(ring) = recorder::ring() {
        let hz = state.frequency().hz;
        ring.header().frequency.store(hz, Ordering::Relaxed);
    }
}

/// Prepares slots, so the first record of a thread need not wait for the disk. Brings in the chunks that
/// threads will need soon. `due_ns` is the time at which slots are to be made, if that is known. Returns the
/// time until then.
fn prepare(
    table: TableHandle,
    brought_in: &mut Vec<u32>,
    due_ns: &mut Option<u64>,
) -> Option<Duration> {
    let ring = recorder::ring()?;
    let now_ns = clock::monotonic_raw_ns();
    let is_due = due_ns.is_some_and(|due_ns| due_ns <= now_ns);
    if is_due {
        let made = ring.prepare_spares(usize::MAX);
        *due_ns = (!made).then_some(now_ns + PAUSE_AFTER_FAILURE_NS);
    } else if ring.wants_spares() {
        due_ns.get_or_insert(now_ns + PAUSE_NS);
    }
    ring.look_ahead(brought_in, is_due, is_awaited);
    ring.reap();
    failures::print_shortage(ring);
    end_where_lost(ring, table);
    due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
}

/// Whether work came that is more urgent than preparations. Where many threads allocate, each preparation may wait long
/// for the kernel's lock of the process's mappings.
fn is_awaited() -> bool {
    handover::is_awaited() || end_signals::is_pending() || dump_signal::is_pending()
}

/// Ends the recording in this copy and in its guests if another program cut the ring's file short.
fn end_where_lost(ring: &Ring, table: TableHandle) {
    if ring.is_lost() {
        crash::report_loss(ring);
        table.lock().enable(false);
    }
}
