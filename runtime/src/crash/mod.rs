//! The trace that a process writes when it crashes: by the thread that crashed, in the signal's handler,
//! whatever it interrupted. Nothing that happens then allocates, locks, formats or touches thread storage;
//! what is needed is made ready beforehand.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mod` | what is made ready, and when the handlers are installed |
//! | `handler` | from a signal to the end of the process |
//! | `loss` | a ring whose file somebody else cut short |
//! | `reason` | what a signal says, for people |
//! | `trace` | the trace of a ring, written |
//! | `file` | a file under a temporary name |
//! | `names` | the names of functions, made ready |
//! | `text` | text without allocation |
//!
//! Installed late: the standard library installs its handler of stack overflows, and gives its threads
//! alternate stacks, at the start of `main`, but only where SIGSEGV has no handler yet; and the recorder
//! comes up before `main`. So ours wait for somebody else's, or for [`WAIT_NS`] in vain: a program that does
//! not begin in Rust has none. A crash before that leaves the ring for `fdr recover`. A constructor that
//! keeps `main` away for longer costs the standard library's message of stack overflows: from outside,
//! nothing tells it from a program that has no Rust in `main`.

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
use fdr_formats::xray::bare::Room;

use crate::dump::snapshot::Snapshot;
use crate::recorder;
use crate::ring::Ring;
use crate::ring::heir::LONGEST_PATH;
use crate::shell::fork;
use crate::shell::output::Output;
use crate::sys::file::Descriptor;
use crate::sys::stack::{self, Stack};
use crate::sys::{memory, process, raw};
use file::TraceFile;
pub(crate) use loss::{tell as tell_loss, tell_at_exit as tell_loss_at_exit};
use text::Text;

/// Bytes of the handler's stack, and of that on which a fault of its own comes.
const STACK: usize = 128 * 1024;
const NESTED_STACK: usize = 64 * 1024;

/// For how long it is looked whether the program has a handler of SIGSEGV, ns; each time is twice as long
/// as the one before, from [`FIRST_WAIT_NS`] on.
const WAIT_NS: u64 = 256 * FIRST_WAIT_NS;
const FIRST_WAIT_NS: u64 = 1_000_000;

/// How long a trace may take, ns; what was written by then is made whole.
const DEADLINE_NS: u64 = 1_000_000_000;

/// Bytes of the reason's text.
const LONGEST_REASON: usize = 256;

/// What a trace is made of.
pub(crate) struct Setup {
    /// Names of files.
    pub(crate) output: Output,
    /// What a trace says of the program and its clock.
    pub(crate) info: TraceInfo,
    /// Bytes of a thread's region.
    pub(crate) region_size: usize,
    /// Whether the signals that mean a crash are handled.
    pub(crate) handle: bool,
    /// Nothing is to be said on stderr.
    pub(crate) quiet: bool,
}

/// What is made ready.
struct Kit {
    /// Of this process, and of children of a fork.
    outputs: [Output; 2],
    program: String,
    quiet: bool,
    stack: Stack,
    nested: Stack,
    /// For traces that are asked for.
    other_stack: Stack,
    /// Closed where there are no descriptors left.
    spare: Option<Descriptor>,
    /// For temporary names.
    nonce: u64,
    work: UnsafeCell<Work>,
}

/// What a trace in the making needs; for whoever has [`WRITER`].
struct Work {
    snapshot: Snapshot,
    room: Room<'static>,
    info: TraceInfo,
    file: TraceFile,
    path: Text<'static>,
    reason: Text<'static>,
}

impl Kit {
    /// What this process's traces are called.
    fn output(&self) -> &Output {
        let [own, childrens] = &self.outputs;
        if fork::is_child() { childrens } else { own }
    }
}

// SAFETY: `work` is used by the one thread whose number is in `WRITER`; the rest never changes.
unsafe impl Sync for Kit {}

/// Null until [`prepare`]. Never freed.
static KIT: AtomicPtr<Kit> = AtomicPtr::new(core::ptr::null_mut());

/// The thread that writes a trace, as the kernel counts; 0 = none.
static WRITER: AtomicU32 = AtomicU32::new(0);

fn kit() -> Option<&'static Kit> {
    // Acquire: pairs with the Release in `prepare`.
    let kit = KIT.load(Ordering::Acquire);
    // SAFETY: null, or what `prepare` made, which is never freed.
    unsafe { kit.as_ref() }
}

/// Makes everything ready, once. False where there is no memory for it. Not async-signal-safe.
pub(crate) fn prepare(setup: Setup) -> bool {
    // The ring may be lost whether crashes are handled or not.
    handler::make_ready();
    if kit().is_some() {
        return true;
    }
    let Some(kit) = make(setup.region_size, setup.output, setup.info, setup.quiet) else {
        return false;
    };
    // Release: pairs with the Acquire in `kit`.
    KIT.store(Box::into_raw(Box::new(kit)), Ordering::Release);
    if setup.handle {
        handler::handle_crashes();
    }
    true
}

fn make(region_size: usize, output: Output, info: TraceInfo, quiet: bool) -> Option<Kit> {
    let numbers = Room::size(region_size);
    let memory = memory::lasting(numbers * size_of::<u32>())?;
    // SAFETY: mapped for good, aligned to a page, and nobody else's; zeros are numbers.
    let numbers = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), numbers) };
    // Not on the stack, which may be a small one of the program's.
    let texts = memory::lasting(file::BUFFER + 2 * LONGEST_PATH + LONGEST_REASON)?;
    let (buffer, texts) = texts.split_at_mut(file::BUFFER);
    let (temporary, texts) = texts.split_at_mut(LONGEST_PATH);
    let (path, reason) = texts.split_at_mut(LONGEST_PATH);
    let program = info.program.clone();
    let work = Work {
        snapshot: Snapshot::new(region_size)?,
        room: Room::new(numbers),
        info,
        file: TraceFile::new(buffer, Text::new(temporary)),
        path: Text::new(path),
        reason: Text::new(reason),
    };
    Some(Kit {
        outputs: [output.clone(), output.of_children()],
        program,
        quiet,
        stack: Stack::map(STACK)?,
        nested: Stack::map(NESTED_STACK)?,
        other_stack: Stack::map(STACK)?,
        spare: Descriptor::spare(),
        nonce: process::random(),
        work: UnsafeCell::new(work),
    })
}

/// Looks whether the handlers may be installed; when to look again. For the dumper.
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

/// A thread makes its first record; `end_is_told`: [`thread_ends`] will be called. Async-signal-safe.
pub(crate) fn thread_begins(end_is_told: bool) {
    if !handler::is_wanted() {
        return;
    }
    if end_is_told && handler::are_crashes_handled() {
        stack::give_alternate();
    }
    if handler::is_ready() {
        // A child of a fork has no dumper that would do it later.
        handler::install(fork::is_child());
    }
    handler::let_install();
}

/// A thread made its last record. Async-signal-safe.
pub(crate) fn thread_ends() {
    stack::take_alternate_back();
}

/// A panic of the calling thread was dumped; where panics abort, that is what it aborts of.
pub(crate) fn panic_was_dumped() {
    if cfg!(panic = "abort") {
        handler::PANICKED.store(raw::thread(), Ordering::Relaxed);
    }
}

/// The child of a fork has none of the threads that crashed or wrote. Async-signal-safe.
pub(crate) fn after_fork() {
    WRITER.store(0, Ordering::Relaxed);
    handler::after_fork();
}

/// Waits for the end of a process in which another thread crashes, up to 1.5 s: it shall end by that, and
/// not by an `exit` meanwhile. Async-signal-safe.
pub(crate) fn let_die() {
    handler::let_die();
}

/// Writes a trace now, on the calling thread, as for a crash, and says on stderr where it is. False where
/// there is none: nothing is recorded, another thread writes one, or it can't be. Takes up to a second.
/// Async-signal-safe; keeps errno, and needs little of the stack.
pub(crate) fn write_now(reason: &'static str) -> bool {
    let ring = recorder::ring().filter(|ring| ring.is_of_this_process());
    let (Some(kit), Some(ring)) = (kit(), ring) else {
        return false;
    };
    let result = alone(kit, |work| {
        let mut asked = Asked {
            kit,
            work,
            ring,
            reason,
            done: false,
        };
        let place = (&raw mut asked).cast();
        // SAFETY: the stack belongs to whoever is alone; `on_other_stack` does not unwind.
        unsafe { kit.other_stack.call(on_other_stack, place) };
        asked.done
    });
    result == Some(true)
}

/// What [`write_now`] was called for.
struct Asked<'a> {
    kit: &'a Kit,
    work: &'a mut Work,
    ring: &'a Ring,
    reason: &'static str,
    done: bool,
}

extern "C" fn on_other_stack(asked: *mut ()) {
    // SAFETY: `write_now` passes its own, which outlives the call.
    let asked = unsafe { &mut *asked.cast::<Asked<'_>>() };
    let (kit, work, ring) = (asked.kit, &mut *asked.work, asked.ring);
    work.reason.clear();
    work.reason.push(asked.reason.as_bytes());
    let result = raw::undisturbed(|| trace::write(kit, work, ring, 0));
    trace::say(kit, work, ring, &result);
    asked.done = result.is_ok();
}

/// The thread that writes a trace; 0 = none.
fn writer() -> u32 {
    WRITER.load(Ordering::Relaxed)
}

/// Runs `body` as the one that writes; `None` where there is another, or it is this thread already.
fn alone<T>(kit: &Kit, body: impl FnOnce(&mut Work) -> T) -> Option<T> {
    let me = raw::thread();
    // Acquire: pairs with the Release below.
    WRITER
        .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        .ok()?;
    // SAFETY: the number in `WRITER` is this thread's, and it was not before: nobody else is here.
    let result = body(unsafe { &mut *kit.work.get() });
    WRITER.store(0, Ordering::Release);
    Some(result)
}
