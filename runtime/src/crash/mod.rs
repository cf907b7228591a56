//! The trace that a process writes when it crashes. The thread that crashed writes it in the handler of the
//! signal, whatever the signal interrupted. The handler must never allocate, lock, format or touch thread
//! storage. So everything that it needs is prepared beforehand.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mod` | the preparations, and when the handlers are installed |
//! | `handler` | from a signal to the end of the process |
//! | `loss` | a ring whose file another program cut short |
//! | `reason` | the meaning of a signal, for people |
//! | `trace` | the trace of a ring, written |
//! | `file` | a file under a temporary name |
//! | `names` | the names of functions, prepared |
//! | `text` | text without allocation |
//!
//! The handlers are installed late. At the start of `main` the standard library installs its handler of stack
//! overflows and gives its threads alternate stacks. It does so only if SIGSEGV has no handler yet, and the
//! recorder comes up before `main`. So the recorder waits until SIGSEGV has a handler, or until [`WAIT_NS`]
//! have passed. A program whose `main` is not in Rust installs none. A crash before the handlers are installed
//! leaves the ring for `fdr dump`. If a constructor delays `main` for longer than [`WAIT_NS`], the standard
//! library's message of stack overflows is lost. The recorder can't tell such a program from a program without
//! a `main` in Rust.
#![allow(unsafe_code)]

mod file;
mod handler;
mod loss;
pub(crate) mod names;
mod reason;
mod text;
mod trace;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use fdr_formats::model::TraceInfo;
use fdr_formats::ring::open_calls;
use fdr_formats::xray::crash_dump::{self, Room};
use fdr_formats::xray::crash_totals::CrashTotals;

use crate::dump::output::Output;
use crate::dump::snapshot::Snapshot;
use crate::recorder;
use crate::ring::Ring;
use crate::ring::fork_ring::MAX_PATH;
use crate::sys::stack::{self, Stack};
use crate::sys::{memory, own_table, process, raw};
use file::TraceFile;
pub(crate) use handler::is_at_home;
pub(crate) use loss::{report as report_loss, report_at_exit as report_loss_at_exit};
use text::Text;

/// Bytes of the handler's stack, and of the stack for a fault of the handler itself.
const STACK: usize = 128 * 1024;
const NESTED_STACK: usize = 64 * 1024;

/// How long the dumper waits for a handler of SIGSEGV, ns. The first pause is [`FIRST_WAIT_NS`], and each pause
/// doubles the time waited so far.
const WAIT_NS: u64 = 256 * FIRST_WAIT_NS;
const FIRST_WAIT_NS: u64 = 1_000_000;

/// How long writing a trace may take, ns. After that the part that was written is completed.
const DEADLINE_NS: u64 = 1_000_000_000;

/// Bytes of the reason's text.
const MAX_REASON: usize = 256;

/// Bytes of the named moments.
const MOMENTS: usize = fdr_formats::moments::MAX_MOMENTS * crash_dump::MOMENT_BYTES;

/// The input of a trace of a crash.
pub(crate) struct Setup {
    /// The names of trace files.
    pub(crate) output: Output,
    /// The program and its clock, as a trace states them.
    pub(crate) info: &'static mut TraceInfo,
    /// Bytes for the states of threads.
    pub(crate) states: usize,
    /// Bytes of a thread's region.
    pub(crate) region_size: usize,
    /// Whether crashes are handled.
    pub(crate) handle: bool,
    /// Whether nothing is printed on stderr.
    pub(crate) quiet: bool,
}

/// Everything that the handler needs.
struct Prepared {
    /// The names of trace files, of this process and of children of a fork.
    outputs: [Output; 2],
    program: String,
    quiet: bool,
    stack: Stack,
    nested: Stack,
    /// The stack for traces that the program asks for.
    other_stack: Stack,
    /// For temporary names.
    nonce: u64,
    work: UnsafeCell<TraceMemory>,
}

/// The state of a trace while it is written. Only the thread in [`WRITER`] uses it.
struct TraceMemory {
    snapshot: Snapshot,
    room: Room<'static>,
    /// For the totals of threads.
    totals: &'static mut [u8],
    info: &'static mut TraceInfo,
    /// Whom the trace is of, in the form of a trace.
    identity: &'static [u8],
    /// For the named moments, in the same form.
    moments: &'static mut [u8],
    /// For the states of threads, in the same form.
    states: &'static mut [u8],
    file: TraceFile,
    path: Text<'static>,
    reason: Text<'static>,
}

impl Prepared {
    /// The names of this process's trace files.
    fn output(&self) -> &Output {
        let [own, childrens] = &self.outputs;
        if process::is_fork_child() {
            childrens
        } else {
            own
        }
    }
}

// SAFETY: only the thread whose number is in `WRITER` uses `work`. The other fields never change.
unsafe impl Sync for Prepared {}

/// Null until [`prepare`]. Never freed.
static PREPARED: AtomicPtr<Prepared> = AtomicPtr::new(core::ptr::null_mut());

/// The kernel's id of the thread that writes a trace. 0 = none.
static WRITER: AtomicU32 = AtomicU32::new(0);

fn prepared() -> Option<&'static Prepared> {
    // Acquire: pairs with the Release in `prepare`.
    let prepared = PREPARED.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from `prepare`, which never frees it.
    unsafe { prepared.as_ref() }
}

/// Prepares everything, once. False if there is no memory. Not async-signal-safe.
pub(crate) fn prepare(setup: Setup) -> bool {
    // This is done even if crashes are not handled, because the ring may be lost anyway.
    handler::make_ready();
    recorder::set_on_thread_begin(thread_begins);
    if prepared().is_some() {
        return true;
    }
    let handles = setup.handle;
    let Some(prepared) = make(setup) else {
        return false;
    };
    // Release: pairs with the Acquire in `prepared`.
    PREPARED.store(Box::into_raw(prepared), Ordering::Release);
    if handles {
        handler::handle_crashes();
    }
    true
}

// Out of line, because what it moves takes a part of the program's stack.
#[inline(never)]
fn make(setup: Setup) -> Option<Box<Prepared>> {
    let Setup {
        output,
        info,
        states,
        region_size,
        handle: _,
        quiet,
    } = setup;
    let numbers = Room::size(region_size + open_calls::MAX_BYTES);
    let memory = memory::lasting(numbers * size_of::<u32>())?;
    // SAFETY: the memory stays mapped, is aligned to a page, and belongs to this call alone. Zeros are valid
    // numbers.
    let numbers = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), numbers) };
    // The texts are not on the stack, because the program's stack may be small.
    let size = file::BUFFER + CrashTotals::ROOM + MOMENTS + 2 * MAX_PATH + MAX_REASON;
    let texts = memory::lasting(size + states)?;
    let (states, texts) = texts.split_at_mut(states);
    let (buffer, texts) = texts.split_at_mut(file::BUFFER);
    let (totals, texts) = texts.split_at_mut(CrashTotals::ROOM);
    let (moments, texts) = texts.split_at_mut(MOMENTS);
    let (temporary, texts) = texts.split_at_mut(MAX_PATH);
    let (path, reason) = texts.split_at_mut(MAX_PATH);
    let program = info.program.clone();
    let childrens = output.of_children();
    let work = TraceMemory {
        snapshot: Snapshot::new(region_size)?,
        room: Room::new(numbers),
        identity: crash_dump::identity(&info.identity, info.start.unwrap_or_default()).leak(),
        moments,
        states,
        totals,
        info,
        file: TraceFile::new(buffer, Text::new(temporary)),
        path: Text::new(path),
        reason: Text::new(reason),
    };
    Some(Box::new(Prepared {
        outputs: [output, childrens],
        program,
        quiet,
        stack: Stack::map(STACK)?,
        nested: Stack::map(NESTED_STACK)?,
        other_stack: Stack::map(STACK)?,
        nonce: process::random(),
        work: UnsafeCell::new(work),
    }))
}

/// Installs the handlers if that is allowed. Otherwise returns when to try again. The dumper calls this.
pub(crate) fn look() -> Option<Duration> {
    /// The time of the first look, ns; 0 = none yet.
    static FIRST: AtomicU64 = AtomicU64::new(0);
    if !handler::is_ready() {
        return None;
    }
    let now = raw::monotonic_ns();
    let first = FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    let waited = now.saturating_sub(first.err().unwrap_or(now));
    if handler::install(waited >= WAIT_NS) {
        return None;
    }
    Some(Duration::from_nanos(
        waited.clamp(FIRST_WAIT_NS, WAIT_NS / 2),
    ))
}

/// Called at a thread's first record. `has_end_hook`: [`thread_ends`] will be called for the thread.
/// Async-signal-safe.
fn thread_begins(has_end_hook: bool) {
    if !handler::is_enabled() {
        return;
    }
    if has_end_hook && handler::are_crashes_handled() {
        stack::give_alternate();
    }
    if handler::is_ready() {
        // The child of a fork has no dumper that would install the handlers later.
        handler::install(process::is_fork_child());
    }
    handler::wait_for_install();
}

/// Called after a thread's last record. Async-signal-safe.
pub(crate) fn thread_ends() {
    stack::take_alternate_back();
}

/// Called when a panic of the calling thread was dumped. If panics abort, the handler must not dump the same
/// panic again.
pub(crate) fn panic_was_dumped() {
    if cfg!(panic = "abort") {
        handler::PANICKED.store(raw::thread(), Ordering::Relaxed);
    }
}

/// Called in the child of a fork, which has no thread that crashed or wrote a trace. Async-signal-safe.
pub(crate) fn after_fork() {
    WRITER.store(0, Ordering::Relaxed);
    handler::after_fork();
}

/// Waits up to 1.5 s while another thread crashes. The process should end by that crash and not by an `exit`
/// meanwhile. Async-signal-safe.
pub(crate) fn wait_for_crash() {
    handler::wait_for_crash();
}

/// Writes a trace now, on the calling thread, in the way of a crash, and prints where the trace is. Returns true
/// if the trace is whole, or if there is nothing to write: then the ring is no longer needed. Returns false if this process
/// has no ring, or if another thread writes a trace.
/// Takes up to a second. Async-signal-safe. Keeps errno and needs little stack.
pub(crate) fn write_now(reason: &'static str) -> bool {
    let ring = recorder::ring().filter(|ring| ring.is_of_this_process());
    let (Some(prepared), Some(ring)) = (prepared(), ring) else {
        return false;
    };
    let result = alone(prepared, |work| {
        let mut call = OtherStackCall {
            prepared,
            work,
            ring,
            reason,
            done: false,
        };
        let place = (&raw mut call).cast();
        // SAFETY: only one thread at a time is in `alone`, and the stack belongs to it. `on_other_stack` does
        // not unwind.
        unsafe { prepared.other_stack.call(on_other_stack, place) };
        call.done
    });
    result == Some(true)
}

/// The arguments and the result of [`write_now`].
struct OtherStackCall<'a> {
    prepared: &'a Prepared,
    work: &'a mut TraceMemory,
    ring: &'a Ring,
    reason: &'static str,
    /// Whether the ring is no longer needed.
    done: bool,
}

extern "C" fn on_other_stack(call: *mut ()) {
    // SAFETY: `write_now` passes its own value, which outlives the call.
    let call = unsafe { &mut *call.cast::<OtherStackCall<'_>>() };
    let (prepared, work, ring) = (call.prepared, &mut *call.work, call.ring);
    work.reason.clear();
    work.reason.push(call.reason.as_bytes());
    let result = raw::undisturbed(|| trace::write(prepared, work, ring, 0));
    trace::print_result(prepared, work, ring, &result);
    call.done = match result {
        Ok(content) => content.is_whole(),
        Err(none) => matches!(none, trace::NoTrace::Nothing),
    };
}

/// The thread that writes a trace. 0 = none.
fn writer() -> u32 {
    WRITER.load(Ordering::Relaxed)
}

/// Runs `body` as the only writer of a trace. `None` if another thread writes one, or if this thread already
/// does.
fn alone<T>(prepared: &Prepared, body: impl FnOnce(&mut TraceMemory) -> T) -> Option<T> {
    let me = own_table::original_thread();
    // Acquire: pairs with the Release below.
    WRITER
        .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        .ok()?;
    // SAFETY: the number in `WRITER` is this thread's number, and it was 0 before. So no other thread uses
    // `work`.
    let result = body(unsafe { &mut *prepared.work.get() });
    WRITER.store(0, Ordering::Release);
    Some(result)
}
