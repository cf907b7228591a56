//! From a signal to the end of the process. The handler notes the crash in the ring's head, has the trace
//! written, puts back what the signals did before, and sends its own signal again: when it returns, the
//! handler before ours (or the kernel) finds the program as it was when it crashed.
//!
//! Of the stack that it comes on it needs the kernel's frame and a few hundred bytes; the rest is done on a
//! stack of its own. A fault of its own ends the process by the signal that it came for; a second thread
//! that crashes waits for the first, but not for ever. Touches no thread storage, takes no lock.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::reason::{Crash, SIGNALS};
use super::trace::{self, Trouble};
use super::{Kit, alone, file, kit};
use crate::clock::{self, Kind};
use crate::recorder;
use crate::ring::Ring;
use crate::sys::action::Action;
use crate::sys::raw;

/// How long a second thread that crashes waits, ns.
const PATIENCE_NS: u64 = 1_500_000_000;

/// How long between two looks, ns.
const LOOK_NS: u32 = 2_000_000;

/// The states of [`STATE`].
const OFF: u32 = 0;
const READY: u32 = 1;
const INSTALLING: u32 = 2;
const INSTALLED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(OFF);

/// The thread that crashed first, as the kernel counts; 0 = none, [`OVER`] = it has written its trace.
static OWNER: AtomicU32 = AtomicU32::new(0);
const OVER: u32 = u32::MAX;

/// The process whose crashes are handled.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The signal that it crashed of.
static ORIGINAL: AtomicI32 = AtomicI32::new(0);

/// The thread whose panic, which will abort, was dumped; 0 = none.
pub(super) static PANICKED: AtomicU32 = AtomicU32::new(0);

/// What the signals did before, in the order of [`SIGNALS`]; `None` for those that are not handled.
struct Previous(UnsafeCell<MaybeUninit<[Option<Action>; SIGNALS.len()]>>);

// SAFETY: written by whoever made `STATE` INSTALLING, before a handler is installed; then only read.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// Everything is ready: the handlers may be installed.
pub(super) fn make_ready() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    let _ = STATE.compare_exchange(OFF, READY, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whether the handlers are not installed, but may be. Async-signal-safe.
pub(super) fn is_ready() -> bool {
    STATE.load(Ordering::Relaxed) == READY
}

/// Whether crashes are to be handled. Async-signal-safe.
pub(super) fn is_wanted() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Installs the handlers if SIGSEGV has one, or `now`, whatever it has; whether nothing is left to do. A
/// signal that is ignored stays so. Async-signal-safe.
pub(super) fn install(now: bool) -> bool {
    if !now && Action::of(libc::SIGSEGV).is_default() {
        return !is_ready();
    }
    let mine = STATE.compare_exchange(READY, INSTALLING, Ordering::Acquire, Ordering::Relaxed);
    if mine.is_err() {
        return true;
    }
    let previous = core::array::from_fn(|nth| {
        let signal = SIGNALS.get(nth)?;
        let action = Action::of(signal.number);
        // Who handles SIGTRAP steps or breaks on purpose, and goes on.
        let is_tool = signal.number == libc::SIGTRAP && !action.is_default();
        (!action.is_ignored() && !is_tool).then_some(action)
    });
    // SAFETY: this thread made the state INSTALLING, and no handler is there yet.
    unsafe { (*PREVIOUS.0.get()).write(previous) };
    // Release: pairs with the Acquire in `previous`.
    STATE.store(INSTALLED, Ordering::Release);
    let ours = Action::crash(on_signal);
    for (signal, known) in SIGNALS.iter().zip(&previous) {
        if known.is_some() {
            ours.set(signal.number);
        }
    }
    true
}

fn previous() -> Option<&'static [Option<Action>; SIGNALS.len()]> {
    // Acquire: pairs with the Release in `install`.
    (STATE.load(Ordering::Acquire) == INSTALLED)
        // SAFETY: written before the state became INSTALLED, and never again.
        .then(|| unsafe { (*PREVIOUS.0.get()).assume_init_ref() })
}

/// The child of a fork has not crashed.
pub(super) fn after_fork() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    OWNER.store(0, Ordering::Relaxed);
    file::forget();
}

/// What the handler was called with, and what it found.
struct Arrival {
    kit: &'static Kit,
    ring: &'static Ring,
    crash: Crash,
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let me = raw::thread();
    // The child of a vfork has its parent's memory: nothing in it is to be changed.
    let at_home = PROCESS.load(Ordering::Relaxed) == raw::process();
    if let (true, Some(kit), Some(ring)) = (at_home, kit(), recorder::ring()) {
        // From here on a fault of our own is known as such: the ring itself may be what is broken.
        // Acquire: whoever comes second has the first one's stores, such as they are.
        match OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                ORIGINAL.store(signal, Ordering::Relaxed);
                // SAFETY: the kernel's.
                let crash = unsafe { Crash::new(signal, info, me) };
                let mut arrival = Arrival { kit, ring, crash };
                let place = (&raw mut arrival).cast();
                // SAFETY: only the owner comes here, once; `on_own_stack` does not unwind.
                unsafe { kit.stack.call(on_own_stack, place) };
                if may_survive(&crash) {
                    // Should it be killed later, this will not have been the reason.
                    let header = ring.header();
                    header
                        .crash_signal
                        .store(0, crate::primitive::Ordering::Release);
                    put_back(|known| known == signal);
                    OWNER.store(0, Ordering::Release);
                    return send_again(signal, info);
                }
                OWNER.store(OVER, Ordering::Release);
            }
            Err(owner) if owner == me => {
                // SAFETY: the kernel's.
                if unsafe { (*info).si_code } <= 0 {
                    // Sent by somebody, while this thread dies of another one.
                    return;
                }
                die();
            }
            Err(_) => wait(),
        }
    }
    pass_on(signal, info);
}

/// Whether the process may go on: a signal that was sent does not come again by itself, and that handler
/// decides (the standard library's goes on, once). Such a process records on, and may crash again.
fn may_survive(crash: &Crash) -> bool {
    let Some(previous) = previous().filter(|_| crash.is_sent()) else {
        return false;
    };
    let mut known = SIGNALS.iter().zip(previous);
    let action = known.find(|(known, _)| known.number == crash.signal);
    action.is_some_and(|(_, action)| action.is_some_and(|action| !action.is_default()))
}

/// Waits until the thread that crashed first has its trace.
fn wait() {
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    while OWNER.load(Ordering::Acquire) != OVER && raw::monotonic_ns() < end {
        raw::sleep_ns(LOOK_NS);
    }
}

extern "C" fn on_own_stack(arrival: *mut ()) {
    // SAFETY: `on_signal` passes its own, which outlives the call.
    let Arrival { kit, ring, crash } = unsafe { &*arrival.cast::<Arrival>() };
    // The alternate stack looks free to the kernel now, but holds the frame that leads back.
    let alternate = raw::alternate_stack(None);
    kit.nested.use_as_alternate();
    note(ring, crash);
    let dumped = crash.signal == libc::SIGABRT && PANICKED.load(Ordering::Relaxed) == crash.thread;
    let whole = dumped || write(kit, ring, crash);
    if whole
        && !may_survive(crash)
        && let Some(path) = ring.path()
    {
        raw::unlink(path);
    }
    raw::alternate_stack(Some(&alternate));
}

/// For `fdr recover`, should all else fail.
fn note(ring: &Ring, crash: &Crash) {
    use crate::primitive::Ordering;
    let header = ring.header();
    let kind = Kind::from_raw(recorder::CLOCK.load(Ordering::Relaxed));
    let ticks = clock::read(kind).ticks;
    header
        .crash_code
        .store(crash.code as u32, Ordering::Relaxed);
    header.crash_thread.store(crash.thread, Ordering::Relaxed);
    header.crash_address.store(crash.address, Ordering::Relaxed);
    header.crash_ticks.store(ticks, Ordering::Relaxed);
    // Release: who sees the signal sees the rest.
    header
        .crash_signal
        .store(crash.signal as u32, Ordering::Release);
}

/// Writes the trace and says so; whether nothing of the ring is needed any more.
fn write(kit: &Kit, ring: &Ring, crash: &Crash) -> bool {
    let name = crate::sys::thread::name();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let write = || {
        alone(kit, |work| {
            // The line has no name in it: it is for people who look for the number.
            work.reason.clear();
            crash.write(work.reason.push(b"crash: "));
            work.reason.push(b" (").name(name).push(b")");
            let result = raw::undisturbed(|| trace::write(kit, work, ring, crash.thread));
            work.reason.clear();
            crash.write(&mut work.reason);
            trace::say(kit, work, ring, &result);
            match result {
                Ok(done) => !done.cut,
                Err(Trouble::Nothing) => true,
                Err(_) => false,
            }
        })
    };
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    loop {
        // Another thread may be writing one that was asked for.
        match write() {
            Some(whole) => return whole,
            None if super::writer() == crash.thread || raw::monotonic_ns() > end => break,
            None => raw::sleep_ns(LOOK_NS),
        }
    }
    // This thread was in the midst of writing when it crashed.
    file::remove_unfinished();
    false
}

/// A fault in the handler: the process ends as it would have without us.
#[cold]
fn die() -> ! {
    file::remove_unfinished();
    let signal = ORIGINAL.load(Ordering::Relaxed);
    Action::default().set(signal);
    raw::mask(libc::SIG_UNBLOCK, raw::bit(signal));
    raw::raise(signal);
    raw::exit(128_i32.wrapping_add(signal))
}

/// Puts back what the signals did, and sends this one again.
fn pass_on(signal: i32, info: *mut libc::siginfo_t) {
    put_back(|_| true);
    send_again(signal, info);
}

/// Puts back what signals did before, where the program has not changed it since.
fn put_back(which: impl Fn(i32) -> bool) {
    let Some(previous) = previous() else {
        return;
    };
    for (known, action) in SIGNALS.iter().zip(previous) {
        if let Some(action) = action
            && which(known.number)
            && Action::of(known.number).is(on_signal)
        {
            action.set(known.number);
        }
    }
}

/// Sends the signal to the calling thread: it comes when the handler returns.
fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    raw::mask(libc::SIG_BLOCK, raw::bit(signal));
    // SAFETY: the kernel's own.
    if unsafe { raw::resend(signal, info) }.is_err() {
        raw::raise(signal);
    }
}
