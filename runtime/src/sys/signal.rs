//! Signals: installing the dump handler, chaining to the one that was there, blocking all of them
//! while a thread of ours is born.

use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

type Action = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The handler that was there before ours, and whether it takes three arguments.
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);

/// Installs `handler` for `signal` with SA_RESTART, and remembers the one before it. Returns
/// whether it could. Not for use in a handler.
pub(crate) fn install(signal: i32, handler: Action) -> bool {
    // SAFETY: all zeros is a valid `sigaction` to be filled in.
    let mut new: libc::sigaction = unsafe { zeroed() };
    new.sa_sigaction = handler as usize;
    new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // No handler on top of ours: an alternate stack may be too small for two.
    // SAFETY: the mask is valid for writing.
    unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both structures are valid; `handler` is async-signal-safe and has the right ABI.
    let result = unsafe { libc::sigaction(signal, &raw const new, old.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // SAFETY: sigaction filled it in.
    let old = unsafe { old.assume_init() };
    if old.sa_sigaction == new.sa_sigaction {
        // In the child of a fork it is there already: it must not be chained to itself.
        return true;
    }
    PREVIOUS_FLAGS.store(old.sa_flags, Ordering::Relaxed);
    // Release: pairs with the Acquire in `chain`, which then reads the flags that belong to it.
    PREVIOUS.store(old.sa_sigaction, Ordering::Release);
    true
}

/// Whether `handler` still is what `signal` calls; a program may have put its own in its place. Keeps
/// errno. Async-signal-safe.
pub(crate) fn is_installed(signal: i32, handler: Action) -> bool {
    let saved = super::errno();
    // SAFETY: all zeros is a valid `sigaction` to be filled in.
    let mut now: libc::sigaction = unsafe { zeroed() };
    // SAFETY: nothing is changed, and `now` is valid for writing.
    let known = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut now) } == 0;
    super::set_errno(saved);
    known && now.sa_sigaction == handler as usize
}

/// Has `signal` do nothing, if it would end the process. Not SIG_IGN: programs that are executed would
/// inherit that.
pub(crate) fn ignore_if_default(signal: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all zeros is a valid `sigaction` to be filled in; both calls get valid pointers, and the
    // handler has the ABI that goes without SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        let known = libc::sigaction(signal, core::ptr::null(), &raw mut action) == 0;
        if known && action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}

/// Calls the handler that was there before ours, if it was a function. Async-signal-safe as far as
/// that handler is.
pub(crate) fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.load(Ordering::Acquire);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        return;
    }
    if PREVIOUS_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO != 0 {
        // SAFETY: the kernel would have called this address with these very arguments.
        let handler: Action = unsafe { core::mem::transmute::<usize, Action>(previous) };
        // SAFETY: as above.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: without SA_SIGINFO the address is of a handler of one argument.
        let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(i32)>(previous) };
        handler(signal);
    }
}

/// Runs `body` with `signal` held back on the calling thread, and takes it away where `body` raised it:
/// for writes, of which an error is enough to know (SIGPIPE, SIGXFSZ). Async-signal-safe.
pub(crate) fn held_back<T>(signal: i32, body: impl FnOnce() -> T) -> T {
    // SAFETY: a sigset_t is plain memory, each is filled in before it is read, and no pointer outlives
    // its call.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        let mut old: libc::sigset_t = zeroed();
        libc::sigpending(&raw mut set);
        if libc::sigismember(&raw const set, signal) == 1 {
            // The program holds it back itself, and has one that is its own.
            return body();
        }
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old);
        let result = body();
        let now: libc::timespec = zeroed();
        libc::sigtimedwait(&raw const set, core::ptr::null_mut(), &raw const now);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, core::ptr::null_mut());
        result
    }
}

/// What only comes when the thread itself does something wrong, or asks for it: it can't be held back.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The signals that a thread holds back: a bit for each, as Linux has them on all 64-bit machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u64);

const _: () = assert!(size_of::<libc::sigset_t>() >= size_of::<u64>());

impl Mask {
    /// Holds back everything but faults on the calling thread; returns what it was. Async-signal-safe.
    pub(crate) fn hold() -> Mask {
        // SAFETY: a sigset_t is plain memory that sigfillset fills in, both sets are valid, and each
        // begins with the word that the kernel knows.
        unsafe {
            let mut most: libc::sigset_t = zeroed();
            let mut old: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut most);
            for fault in FAULTS {
                libc::sigdelset(&raw mut most, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const most, &raw mut old);
            Mask((&raw const old).cast::<u64>().read())
        }
    }

    /// Makes it the calling thread's again. Async-signal-safe.
    pub(crate) fn restore(self) {
        // SAFETY: as above.
        unsafe {
            let mut old: libc::sigset_t = zeroed();
            (&raw mut old).cast::<u64>().write(self.0);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, core::ptr::null_mut());
        }
    }
}

/// Runs `body` with everything but faults held back on the calling thread: no handler of the program's
/// can fork, end the process or leave by a jump in the midst of it. Async-signal-safe.
pub(crate) fn undisturbed<T>(body: impl FnOnce() -> T) -> T {
    let mask = Mask::hold();
    let result = body();
    mask.restore();
    result
}

/// Runs `body` with every signal but SIGBUS blocked on the calling thread: threads that it makes inherit that
/// and never run the program's handlers. SIGBUS comes where the ring is lost under them: blocked, it would end
/// the process. `body` gets the mask of the calling thread.
pub(crate) fn with_all_blocked<T>(body: impl FnOnce(Mask) -> T) -> T {
    // SAFETY: a sigset_t is plain memory that sigfillset fills in, and both sets are valid.
    // It begins with the word that the kernel knows.
    let old = unsafe {
        let mut all: libc::sigset_t = zeroed();
        let mut old: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigdelset(&raw mut all, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        Mask((&raw const old).cast::<u64>().read())
    };
    let result = body(old);
    old.restore();
    result
}
