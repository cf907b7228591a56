//! From a signal to the end of the process. The handler notes the crash in the ring's head, has the trace
//! written, puts back what the signals did before, and sends its own signal again: when it returns, the
//! handler before ours (or the kernel) finds the program as it was when it crashed. Where a handler that
//! was installed after ours called it, the one before ours is called as well.
//!
//! Of the stack that it comes on it needs the kernel's frame and a few hundred bytes; the rest is done on a
//! stack of its own. A fault of its own ends the process by the signal that it came for; a second thread
//! that crashes waits for the first, but not for ever. Touches no thread storage, takes no lock.
//!
//! Of SIGBUS it takes what came from a ring that somebody else cut short, whether crashes are handled or not:
//! nobody hears of that signal, and the program goes on. Any other goes where it went before; a handler of the
//! program's is called from here then, so that ours stays.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::reason::{Crash, SIGNALS};
use super::trace::{self, Trouble};
use super::{Kit, alone, file, kit, loss};
use crate::clock::{self, Kind};
use crate::recorder;
use crate::ring::Ring;
use crate::sys::action::Action;
use crate::sys::process::is_unnoticed_child;
use crate::sys::raw;

/// How long a second thread that crashes waits, ns.
const PATIENCE_NS: u64 = 1_500_000_000;

/// How long between two looks, ns.
const LOOK_NS: u32 = 2_000_000;

/// The states of [`STATE`].
const OFF: u32 = 0;
const READY: u32 = 1;
const INSTALLING: u32 = 2;
/// What the signals did before is known; the first handlers may be there.
const KNOWN: u32 = 3;
const INSTALLED: u32 = 4;

/// How long a thread that begins waits for another one that installs, ns, and how long between two looks.
const INSTALL_PATIENCE_NS: u64 = 250_000_000;
const INSTALL_LOOK_NS: u32 = 50_000;

static STATE: AtomicU32 = AtomicU32::new(OFF);

/// The thread that crashed first, as the kernel counts; 0 = none, [`OVER`] = it has written its trace, and
/// the process ends.
static OWNER: AtomicU32 = AtomicU32::new(0);
const OVER: u32 = u32::MAX;

/// The thread that [`OWNER`] was last.
static CRASHED: AtomicU32 = AtomicU32::new(0);

/// Signals that the process survived, and that still come by way of a handler that was installed after
/// ours: they are its matter from then on.
static SURVIVED: AtomicU64 = AtomicU64::new(0);

/// Whether crashes are handled, and not the ring's SIGBUS alone. Set before the handlers are installed.
static HANDLES: AtomicU32 = AtomicU32::new(0);

/// The process whose crashes are handled.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The signal that it crashed of.
static ORIGINAL: AtomicI32 = AtomicI32::new(0);

/// The thread whose panic, which will abort, was dumped; 0 = none.
pub(super) static PANICKED: AtomicU32 = AtomicU32::new(0);

/// What the signals did before, in the order of [`SIGNALS`]; `None` for those that are not handled.
struct Previous(UnsafeCell<MaybeUninit<[Option<Action>; SIGNALS.len()]>>);

// SAFETY: written by whoever made `STATE` INSTALLING, before it is KNOWN; then only read.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// Everything is ready: the handlers may be installed.
pub(super) fn make_ready() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    let _ = STATE.compare_exchange(OFF, READY, Ordering::AcqRel, Ordering::Relaxed);
}

/// Crashes are to be handled, not the ring's SIGBUS alone.
pub(super) fn handle_crashes() {
    HANDLES.store(1, Ordering::Relaxed);
}

/// Whether crashes are to be handled. Async-signal-safe.
pub(super) fn are_crashes_handled() -> bool {
    HANDLES.load(Ordering::Relaxed) != 0
}

/// Whether the handlers are not installed, but may be. Async-signal-safe.
pub(super) fn is_ready() -> bool {
    STATE.load(Ordering::Relaxed) == READY
}

/// Whether anything is to be handled. Async-signal-safe.
pub(super) fn is_wanted() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Installs the handlers if SIGSEGV has one, or `now`, whatever it has; whether nothing is left to do. A
/// signal that is ignored stays so. Async-signal-safe.
pub(super) fn install(now: bool) -> bool {
    // The standard library installs one for both, one after the other.
    let waits_for = [libc::SIGSEGV, libc::SIGBUS];
    if !now
        && waits_for
            .iter()
            .any(|&signal| Action::of(signal).is_default())
    {
        return !is_ready();
    }
    let mine = STATE.compare_exchange(READY, INSTALLING, Ordering::Acquire, Ordering::Relaxed);
    if mine.is_err() {
        return true;
    }
    // SAFETY: this thread made the state INSTALLING, and no handler is there yet. Each place is written here,
    // one by one: a thread's first record comes by, and its stack may be small.
    unsafe {
        let places = PREVIOUS.0.get().cast::<Option<Action>>();
        for (nth, signal) in SIGNALS.iter().enumerate() {
            places.add(nth).write(to_be_replaced(signal.number));
        }
    }
    // Release: pairs with the Acquire in `previous`.
    STATE.store(KNOWN, Ordering::Release);
    put_ours();
    true
}

/// What `signal` does, where that is to be replaced.
fn to_be_replaced(signal: i32) -> Option<Action> {
    if signal != libc::SIGBUS && !are_crashes_handled() {
        return None;
    }
    let action = Action::of(signal);
    // Who handles SIGTRAP steps or breaks on purpose, who handles SIGSYS makes the call itself: both go on.
    let is_purpose = matches!(signal, libc::SIGTRAP | libc::SIGSYS);
    let is_tool = is_purpose && !action.is_default();
    (!action.is_ignored() && !is_tool).then_some(action)
}

/// What comes after KNOWN.
fn put_ours() {
    let previous = previous().map_or(&[][..], |all| &all[..]);
    for (signal, known) in SIGNALS.iter().zip(previous) {
        let Some(known) = known else { continue };
        let mut ours = Action::crash(on_signal);
        if is_called_in_place(signal.number, known) {
            ours = ours.on_stack_of(known);
        }
        ours.set(signal.number);
    }
    // Release: pairs with the Acquire in `is_installing`.
    STATE.store(INSTALLED, Ordering::Release);
}

fn is_installing() -> bool {
    matches!(STATE.load(Ordering::Acquire), INSTALLING | KNOWN)
}

/// Waits while another thread installs the handlers: what the caller does next may be to crash. Not for
/// ever: the caller may have interrupted that thread. Async-signal-safe.
pub(super) fn let_install() {
    if !is_installing() {
        return;
    }
    let end = raw::monotonic_ns().saturating_add(INSTALL_PATIENCE_NS);
    while is_installing() && raw::monotonic_ns() < end {
        raw::sleep_ns(INSTALL_LOOK_NS);
    }
}

fn previous() -> Option<&'static [Option<Action>; SIGNALS.len()]> {
    // Acquire: pairs with the Release in `install`.
    (STATE.load(Ordering::Acquire) >= KNOWN)
        // SAFETY: written before the state became KNOWN, and never again.
        .then(|| unsafe { (*PREVIOUS.0.get()).assume_init_ref() })
}

/// What `signal` did before; `None` where it is not handled.
fn previous_of(signal: i32) -> Option<&'static Action> {
    let mut known = SIGNALS.iter().zip(previous()?);
    let (_, action) = known.find(|(known, _)| known.number == signal)?;
    action.as_ref()
}

/// The child of a fork has not crashed.
pub(super) fn after_fork() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    OWNER.store(0, Ordering::Relaxed);
    CRASHED.store(0, Ordering::Relaxed);
    file::forget();
    // The thread that was installing them is the parent's.
    match STATE.load(Ordering::Acquire) {
        INSTALLING => STATE.store(READY, Ordering::Relaxed),
        KNOWN => put_ours(),
        _ => {}
    }
}

/// What the handler was called with, and what it found.
struct Arrival {
    kit: &'static Kit,
    ring: &'static Ring,
    crash: Crash,
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's.
    if signal == libc::SIGBUS && unsafe { loss::mend(info) } {
        return;
    }
    let me = raw::thread();
    // The child of a vfork has its parent's memory: nothing in it is to be changed. One that nobody noticed
    // may have its parent's number.
    let at_home = PROCESS.load(Ordering::Relaxed) == raw::process() && !is_unnoticed_child();
    let is_new = SURVIVED.load(Ordering::Relaxed) & raw::bit(signal) == 0;
    let handles = at_home && is_new && are_crashes_handled();
    if let (true, Some(kit), Some(ring)) = (handles, kit(), recorder::ring()) {
        // From here on a fault of our own is known as such: the ring itself may be what is broken.
        match become_owner(me) {
            Ok(()) => {
                ORIGINAL.store(signal, Ordering::Relaxed);
                CRASHED.store(me, Ordering::Relaxed);
                // SAFETY: the kernel's.
                let crash = unsafe { Crash::new(signal, info, me) };
                let mut arrival = Arrival { kit, ring, crash };
                let place = (&raw mut arrival).cast();
                // SAFETY: only the owner comes here, once; `on_own_stack` does not unwind.
                unsafe { kit.stack.call(on_own_stack, place) };
                if may_survive(&crash) {
                    let in_place = |action| is_called_in_place(signal, action);
                    if !Action::of(signal).is(on_signal)
                        || previous_of(signal).is_some_and(in_place)
                    {
                        SURVIVED.fetch_or(raw::bit(signal), Ordering::Relaxed);
                    }
                    forgive(ring);
                    // SAFETY: what this handler was called with.
                    return unsafe { pass_on(signal, info, context, |known| known == signal) };
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
            Err(_) => {}
        }
    }
    // SAFETY: what this handler was called with.
    unsafe { pass_on(signal, info, context, |known| is_new || known == signal) };
}

/// Makes `me` the thread that crashed; waits while another one writes its trace, which the process may
/// survive. `Err`: who it is instead.
fn become_owner(me: u32) -> Result<(), u32> {
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    loop {
        // Acquire: whoever comes second has the first one's stores, such as they are.
        match OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(owner) if owner == me || owner == OVER => return Err(owner),
            Err(owner) if raw::monotonic_ns() >= end => return Err(owner),
            Err(_) => raw::sleep_ns(LOOK_NS),
        }
    }
}

/// Waits, while another thread crashes, until the process is dead; not for ever. For who would end it in
/// another way. Async-signal-safe.
pub(super) fn let_die() {
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    while OWNER.load(Ordering::Acquire) != 0
        && CRASHED.load(Ordering::Relaxed) != raw::thread()
        && raw::monotonic_ns() < end
    {
        raw::sleep_ns(LOOK_NS);
    }
}

/// Whether the process may go on, record on and crash again: a handler of the program's own may mend what
/// it likes. The standard library's mends nothing, but goes on, once, after a signal that was sent: such
/// a one does not come again by itself.
fn may_survive(crash: &Crash) -> bool {
    previous_of(crash.signal)
        .is_some_and(|action| !action.is_default() && (crash.is_sent() || !is_of_std(action)))
}

/// Whether a handler looks like the standard library's: it has SIGSEGV and SIGBUS, and these flags.
fn is_of_std(action: &Action) -> bool {
    let before = |signal| previous_of(signal).map_or_else(|| Action::of(signal), |known| *known);
    let both = [libc::SIGSEGV, libc::SIGBUS].map(before);
    let same = |other: Action| other.has_handler_of(action);
    both.into_iter().all(same) && action.is_plain_on_alternate_stack()
}

/// Whether the handler before ours is called by ours, which stays: it is the program's own, it may make good
/// what it is called for, and the ring may be lost later.
fn is_called_in_place(signal: i32, before: &Action) -> bool {
    signal == libc::SIGBUS && before.is_handler() && !is_of_std(before)
}

/// Should the process be killed later, this crash will not have been the reason; another may come.
fn forgive(ring: &Ring) {
    let signal = &ring.header().crash_signal;
    signal.store(0, crate::primitive::Ordering::Release);
    CRASHED.store(0, Ordering::Relaxed);
    OWNER.store(0, Ordering::Release);
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
    if let Some(path) = ring.path().filter(|_| whole && !may_survive(crash)) {
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
                Ok(done) => done.is_whole(),
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

/// Puts back what some signals did, this one among them, and has it do that.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    which: impl Fn(i32) -> bool,
) {
    let is_ours = Action::of(signal).is(on_signal);
    let action = previous_of(signal).filter(|action| !action.is_default());
    let in_place = |action: &&Action| is_ours && is_called_in_place(signal, action);
    if let Some(action) = action.filter(in_place) {
        // SAFETY: as the caller vouches.
        return unsafe { action.call_in_place(signal, info, context) };
    }
    put_back(which);
    match action {
        // A handler that was installed after ours called it, and has the signal: sent again, it would come
        // there again, and so on.
        // SAFETY: as the caller vouches.
        Some(action) if !is_ours => return unsafe { action.call(signal, info, context) },
        None if !is_ours => {
            Action::default().set(signal);
        }
        _ => {}
    }
    send_again(signal, info);
}

/// Puts back what signals did before, where the program has not changed it since.
fn put_back(which: impl Fn(i32) -> bool) {
    let Some(previous) = previous() else {
        return;
    };
    for (known, action) in SIGNALS.iter().zip(previous) {
        if let Some(action) = action {
            if which(known.number) && Action::of(known.number).is(on_signal) {
                action.set(known.number);
            }
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
