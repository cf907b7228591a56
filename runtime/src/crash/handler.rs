//! From a signal to the end of the process. The handler notes the crash in the head of the ring and has the
//! trace written. Then it restores the former actions of the signals and sends its own signal again. When it
//! returns, the former handler, or the kernel, finds the program as it was at the crash. A handler that was
//! installed later may have called this one. In that case this handler calls the former one itself.
//!
//! On the stack of the interrupted code, the handler needs the kernel's frame and a few hundred bytes. It does
//! the rest on a stack of its own. A fault in the handler ends the process by the signal that the handler came
//! for. If a second thread crashes, it waits for the first one, for a limited time. The handler must never
//! touch thread storage or take a lock.
//!
//! If SIGBUS comes from a ring that another program cut short, the handler repairs the ring and the program continues.
//! This is so even if crashes are not handled. Any other SIGBUS goes to its former action. If that is a handler of the
//! program, this handler calls it and stays installed.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::reason::{Crash, SIGNALS};
use super::trace::{self, NoTrace};
use super::{Prepared, alone, file, loss, prepared};
use crate::clock::{self, Kind};
use crate::recorder;
use crate::ring::Ring;
use crate::sys::action::Action;
use crate::sys::own_table::original_thread;
use crate::sys::process::is_unnoticed_child;
use crate::sys::raw;

/// How long a second thread that crashes waits, ns.
const PATIENCE_NS: u64 = 1_500_000_000;

/// The time between two looks, ns.
const LOOK_NS: u32 = 2_000_000;

/// The states of [`STATE`].
const OFF: u32 = 0;
const READY: u32 = 1;
const INSTALLING: u32 = 2;
/// The former actions are known, and the first handlers may be installed.
const PREVIOUS_KNOWN: u32 = 3;
const INSTALLED: u32 = 4;

/// How long a thread at its first record waits while another one installs the handlers, and the time between
/// two looks, ns.
const INSTALL_PATIENCE_NS: u64 = 250_000_000;
const INSTALL_LOOK_NS: u32 = 50_000;

static STATE: AtomicU32 = AtomicU32::new(OFF);

/// The kernel's id of the thread that crashed first. 0 = none. [`OVER`] = its trace is written, and the process
/// ends.
static OWNER: AtomicU32 = AtomicU32::new(0);
const OVER: u32 = u32::MAX;

/// The last thread in [`OWNER`].
static CRASHED: AtomicU32 = AtomicU32::new(0);

/// Signals that came to this handler through a handler that was installed later, and that the process survived. From
/// then on only that later handler handles these signals.
static SURVIVED: AtomicU64 = AtomicU64::new(0);

/// Whether crashes are handled. Otherwise only SIGBUS of the ring is. It is set before the handlers are
/// installed.
static HANDLES: AtomicU32 = AtomicU32::new(0);

/// The process whose crashes are handled.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The signal of the first crash.
static ORIGINAL: AtomicI32 = AtomicI32::new(0);

/// The thread whose panic was dumped and will abort. 0 = none.
pub(super) static PANICKED: AtomicU32 = AtomicU32::new(0);

/// The former actions, in the order of [`SIGNALS`]. `None` for a signal that is not handled.
struct Previous(UnsafeCell<MaybeUninit<[Option<Action>; SIGNALS.len()]>>);

// SAFETY: the thread that made `STATE` INSTALLING writes it before `STATE` is KNOWN. After that it is only
// read.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// Everything is prepared, so the handlers may be installed.
pub(super) fn make_ready() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    let _ = STATE.compare_exchange(OFF, READY, Ordering::AcqRel, Ordering::Relaxed);
}

/// From now on crashes are handled, and not only SIGBUS of the ring.
pub(super) fn handle_crashes() {
    HANDLES.store(1, Ordering::Relaxed);
}

/// Whether crashes are handled. Async-signal-safe.
pub(super) fn are_crashes_handled() -> bool {
    HANDLES.load(Ordering::Relaxed) != 0
}

/// Whether the handlers may be installed and are not. Async-signal-safe.
pub(super) fn is_ready() -> bool {
    STATE.load(Ordering::Relaxed) == READY
}

/// Whether any signal is handled. Async-signal-safe.
pub(super) fn is_enabled() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// Installs the handlers if SIGSEGV has a handler, or in any case if `now` is set. Returns whether the installation
/// is complete. An ignored signal stays ignored. Async-signal-safe.
pub(super) fn install(now: bool) -> bool {
    // The standard library installs its handler for both, one after the other.
    let waits_for = [libc::SIGSEGV, libc::SIGBUS];
    if !now
        && waits_for
            .iter()
            .any(|&signal| Action::current(signal).is_default())
    {
        return !is_ready();
    }
    let mine = STATE.compare_exchange(READY, INSTALLING, Ordering::Acquire, Ordering::Relaxed);
    if mine.is_err() {
        return true;
    }
    // SAFETY: this thread made the state INSTALLING, and no handler is installed yet. The places are written
    // one by one, because the stack of a thread at its first record may be small.
    unsafe {
        let places = PREVIOUS.0.get().cast::<Option<Action>>();
        for (nth, signal) in SIGNALS.iter().enumerate() {
            places.add(nth).write(to_be_replaced(signal.number));
        }
    }
    // Release: pairs with the Acquire in `previous`.
    STATE.store(PREVIOUS_KNOWN, Ordering::Release);
    put_ours();
    true
}

/// The former action of `signal`, if ours is to replace it.
fn to_be_replaced(signal: i32) -> Option<Action> {
    if signal != libc::SIGBUS && !are_crashes_handled() {
        return None;
    }
    let action = Action::current(signal);
    // A program that handles SIGTRAP steps or breaks on purpose. A program that handles SIGSYS makes the call
    // itself. Both go on.
    let is_purpose = matches!(signal, libc::SIGTRAP | libc::SIGSYS);
    let is_tool = is_purpose && !action.is_default();
    (!action.is_ignored() && !is_tool).then_some(action)
}

/// Does the steps after KNOWN.
fn put_ours() {
    let previous = previous().map_or(&[][..], |all| &all[..]);
    for (signal, known) in SIGNALS.iter().zip(previous) {
        let Some(known) = known else { continue };
        let mut ours = Action::handler(on_signal);
        if is_called_in_place(signal.number, known) {
            ours = ours.on_stack_of(known);
        }
        let replaced = ours.replace(signal.number);
        if !replaced.has_handler_of(known) {
            // The program has installed a handler meanwhile. A later handler replaces ours.
            replaced.set(signal.number);
        }
    }
    // Release: pairs with the Acquire in `is_installing`.
    STATE.store(INSTALLED, Ordering::Release);
}

fn is_installing() -> bool {
    matches!(STATE.load(Ordering::Acquire), INSTALLING | PREVIOUS_KNOWN)
}

/// Waits while another thread installs the handlers, because the caller may crash next. The time is limited,
/// because the caller may have interrupted that thread. Async-signal-safe.
pub(super) fn wait_for_install() {
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
    (STATE.load(Ordering::Acquire) >= PREVIOUS_KNOWN)
        // SAFETY: it was written before the state became KNOWN, and it never changes after that.
        .then(|| unsafe { (*PREVIOUS.0.get()).assume_init_ref() })
}

/// The former action of `signal`. `None` if the signal is not handled.
#[inline(never)]
fn previous_of(signal: i32) -> Option<&'static Action> {
    let mut known = SIGNALS.iter().zip(previous()?);
    let (_, action) = known.find(|(known, _)| known.number == signal)?;
    action.as_ref()
}

/// Called in the child of a fork, which has not crashed.
pub(super) fn after_fork() {
    PROCESS.store(raw::process(), Ordering::Relaxed);
    OWNER.store(0, Ordering::Relaxed);
    CRASHED.store(0, Ordering::Relaxed);
    file::forget();
    // A thread that was installing them exists in the parent only.
    match STATE.load(Ordering::Acquire) {
        INSTALLING => STATE.store(READY, Ordering::Relaxed),
        PREVIOUS_KNOWN => put_ours(),
        _ => {}
    }
}

/// The objects that the handler works with.
struct Arrival {
    prepared: &'static Prepared,
    ring: &'static Ring,
    crash: Crash,
}

/// Whether the recorder's memory belongs to this process. The child of a vfork has the memory of its parent and must
/// change nothing in it. A child in which no fork hook ran may even have its parent's pid. Async-signal-safe.
pub(crate) fn is_at_home() -> bool {
    PROCESS.load(Ordering::Relaxed) == raw::process() && !is_unnoticed_child()
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passed `info`.
    if signal == libc::SIGBUS && unsafe { loss::mend(info) } {
        return;
    }
    let me = original_thread();
    let at_home = is_at_home();
    let is_new = SURVIVED.load(Ordering::Relaxed) & raw::bit(signal) == 0;
    let handles = at_home && is_new && are_crashes_handled();
    if let (true, Some(prepared), Some(ring)) = (handles, prepared(), recorder::ring()) {
        // From here on the handler recognises a fault of its own. The ring itself may be damaged.
        match become_owner(me) {
            Ok(()) => {
                ORIGINAL.store(signal, Ordering::Relaxed);
                CRASHED.store(me, Ordering::Relaxed);
                // SAFETY: the kernel passed `info`.
                let crash = unsafe { Crash::new(signal, info, me) };
                let mut arrival = Arrival {
                    prepared,
                    ring,
                    crash,
                };
                let place = (&raw mut arrival).cast();
                // SAFETY: only the owner comes here, once. `on_own_stack` does not unwind.
                unsafe { prepared.stack.call(on_own_stack, place) };
                if may_survive(&crash) {
                    let in_place = |action| is_called_in_place(signal, action);
                    if !Action::current(signal).is(on_signal)
                        || previous_of(signal).is_some_and(in_place)
                    {
                        SURVIVED.fetch_or(raw::bit(signal), Ordering::Relaxed);
                    }
                    forget_crash(ring);
                    // SAFETY: these are the arguments of this handler.
                    return unsafe { pass_on(signal, info, context, |known| known == signal) };
                }
                OWNER.store(OVER, Ordering::Release);
            }
            Err(owner) if owner == me => {
                // SAFETY: the kernel passed `info`.
                if unsafe { (*info).si_code } <= 0 {
                    // Another process or thread sent this signal, while this thread is dying of an earlier one.
                    return;
                }
                die();
            }
            Err(_) => {}
        }
    }
    // SAFETY: these are the arguments of this handler.
    unsafe { pass_on(signal, info, context, |known| is_new || known == signal) };
}

/// Makes `me` the thread that crashed. Waits while another thread writes its trace, because the process may
/// survive that crash. `Err`: the thread that is the owner instead.
fn become_owner(me: u32) -> Result<(), u32> {
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    loop {
        // Acquire: pairs with the Release of the former owner, so this thread sees its stores.
        match OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(owner) if owner == me || owner == OVER => return Err(owner),
            Err(owner) if raw::monotonic_ns() >= end => return Err(owner),
            Err(_) => raw::sleep_ns(LOOK_NS),
        }
    }
}

/// While another thread crashes, waits until the process is dead, for a limited time. For callers that would
/// end the process in another way. Async-signal-safe.
pub(super) fn wait_for_crash() {
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    while OWNER.load(Ordering::Acquire) != 0
        && CRASHED.load(Ordering::Relaxed) != raw::thread()
        && raw::monotonic_ns() < end
    {
        raw::sleep_ns(LOOK_NS);
    }
}

/// Whether the process may continue, record and crash again. A handler of the program may repair any fault, and the
/// handler of the standard library repairs none. If another process or thread sent the signal, the program continues
/// once with either handler, because the signal does not come again by itself.
fn may_survive(crash: &Crash) -> bool {
    previous_of(crash.signal)
        .is_some_and(|action| !action.is_default() && (crash.is_sent() || !is_of_std(action)))
}

/// Whether a handler looks like the standard library's: it handles SIGSEGV and SIGBUS, with these flags.
#[inline(never)]
fn is_of_std(action: &Action) -> bool {
    let before =
        |signal| previous_of(signal).map_or_else(|| Action::current(signal), |known| *known);
    let both = [libc::SIGSEGV, libc::SIGBUS].map(before);
    let same = |other: Action| other.has_handler_of(action);
    both.into_iter().all(same) && action.is_plain_on_alternate_stack()
}

/// Whether ours calls the former handler and stays installed. This is so for the program's own handler of
/// SIGBUS. That handler may mend its fault, and the ring may be lost later.
fn is_called_in_place(signal: i32, before: &Action) -> bool {
    signal == libc::SIGBUS && before.is_handler() && !is_of_std(before)
}

/// Removes the crash from the ring, because the process survived it. A later kill must not seem to be this
/// crash. Another crash may follow.
fn forget_crash(ring: &Ring) {
    let signal = &ring.header().crash_signal;
    signal.store(0, crate::primitive::Ordering::Release);
    CRASHED.store(0, Ordering::Relaxed);
    OWNER.store(0, Ordering::Release);
}

extern "C" fn on_own_stack(arrival: *mut ()) {
    // SAFETY: `on_signal` passes its own value, which outlives the call.
    let Arrival {
        prepared,
        ring,
        crash,
    } = unsafe { &*arrival.cast::<Arrival>() };
    // The kernel takes the alternate stack for free now, but it holds the frame to return to.
    let alternate = raw::alternate_stack(None);
    prepared.nested.use_as_alternate();
    note(ring, crash);
    let dumped = crash.signal == libc::SIGABRT && PANICKED.load(Ordering::Relaxed) == crash.thread;
    let whole = dumped || write(prepared, ring, crash);
    if let Some(path) = ring.path().filter(|_| whole && !may_survive(crash)) {
        raw::unlink(path);
    }
    raw::alternate_stack(Some(&alternate));
}

/// Notes the crash for `fdr dump`, in case no trace can be written.
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
    // Release: a reader that sees the signal sees the other words.
    header
        .crash_signal
        .store(crash.signal as u32, Ordering::Release);
}

/// Writes the trace and prints the line about it. Returns whether the ring is no longer needed.
fn write(prepared: &Prepared, ring: &Ring, crash: &Crash) -> bool {
    let name = crate::sys::thread::name();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let write = || {
        alone(prepared, |work| {
            // The line has no thread name in it, because people look for the number.
            work.reason.clear();
            crash.write(work.reason.push(b"crash: "));
            work.reason.push(b" (").name(name).push(b")");
            let result = raw::undisturbed(|| trace::write(prepared, work, ring, crash.thread));
            work.reason.clear();
            crash.write(&mut work.reason);
            trace::print_result(prepared, work, ring, &result);
            match result {
                Ok(done) => done.is_whole(),
                Err(NoTrace::Nothing) => true,
                Err(_) => false,
            }
        })
    };
    let end = raw::monotonic_ns().saturating_add(PATIENCE_NS);
    loop {
        // Another thread may be writing a trace that the program asked for.
        match write() {
            Some(whole) => return whole,
            None if super::writer() == crash.thread || raw::monotonic_ns() > end => break,
            None => raw::sleep_ns(LOOK_NS),
        }
    }
    // This thread was writing a trace when it crashed.
    file::remove_unfinished();
    false
}

/// Ends the process after a fault in the handler, as it would have ended without the recorder.
#[cold]
fn die() -> ! {
    file::remove_unfinished();
    let signal = ORIGINAL.load(Ordering::Relaxed);
    Action::default().set(signal);
    raw::mask(libc::SIG_UNBLOCK, raw::bit(signal));
    raw::raise(signal);
    raw::exit(128_i32.wrapping_add(signal))
}

/// Restores the former actions of the signals that `which` selects, and has the former action of `signal` run.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    which: impl Fn(i32) -> bool,
) {
    let is_ours = Action::current(signal).is(on_signal);
    let action = previous_of(signal).filter(|action| !action.is_default());
    let in_place = |action: &&Action| is_ours && is_called_in_place(signal, action);
    if let Some(action) = action.filter(in_place) {
        // SAFETY: the caller promises the arguments of a handler.
        return unsafe { action.call_in_place(signal, info, context) };
    }
    put_back(which);
    match action {
        // A handler that was installed after ours called ours and still has the signal. If the signal were sent
        // again, that handler would get it again, without end.
        // SAFETY: the caller promises the arguments of a handler.
        Some(action) if !is_ours => return unsafe { action.call(signal, info, context) },
        None if !is_ours => {
            Action::default().set(signal);
        }
        _ => {}
    }
    send_again(signal, info);
}

/// Restores the former actions, unless the program has changed them since.
fn put_back(which: impl Fn(i32) -> bool) {
    let Some(previous) = previous() else {
        return;
    };
    for (known, action) in SIGNALS.iter().zip(previous) {
        if let Some(action) = action {
            if which(known.number) && Action::current(known.number).is(on_signal) {
                action.set(known.number);
            }
        }
    }
}

/// Sends the signal to the calling thread. It arrives when the handler returns.
fn send_again(signal: i32, info: *mut libc::siginfo_t) {
    raw::mask(libc::SIG_BLOCK, raw::bit(signal));
    // SAFETY: the kernel passed `info`.
    if unsafe { raw::resend(signal, info) }.is_err() {
        raw::raise(signal);
    }
}
