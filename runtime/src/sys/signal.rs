//! Signals: installing the dump handler, calling the former handler, and blocking all signals while a thread of
//! ours starts. This file must never install a handler for a crash.

use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use super::kernel;

type Action = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The former handler, and whether it takes three arguments.
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);

/// Installs `handler` for `signal` with SA_RESTART and remembers the former handler. Returns whether it could.
/// A handler must not call this.
pub(crate) fn install(signal: i32, handler: Action) -> bool {
    // SAFETY: all zeros is a valid `sigaction` to be filled in.
    let mut new: libc::sigaction = unsafe { zeroed() };
    new.sa_sigaction = handler as usize;
    new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // No other handler runs on top of ours, because an alternate stack may be too small for two.
    // SAFETY: the mask is valid for writing.
    unsafe { kernel::sigfillset(&raw mut new.sa_mask) };
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both structures are valid. `handler` is async-signal-safe and has the right ABI.
    let result = unsafe { libc::sigaction(signal, &raw const new, old.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // SAFETY: sigaction filled it in.
    let old = unsafe { old.assume_init() };
    if old.sa_sigaction == new.sa_sigaction {
        // In the child of a fork our handler is installed already. It must not be its own former handler.
        return true;
    }
    PREVIOUS_FLAGS.store(old.sa_flags, Ordering::Relaxed);
    // Release: pairs with the Acquire in `chain`, which then reads the flags of this handler.
    PREVIOUS.store(old.sa_sigaction, Ordering::Release);
    true
}

/// Whether `signal` still calls `handler`. A program may have installed its own. Keeps errno.
/// Async-signal-safe.
pub(crate) fn is_installed(signal: i32, handler: Action) -> bool {
    let saved = super::errno();
    // SAFETY: all zeros is a valid `sigaction` to be filled in.
    let mut now: libc::sigaction = unsafe { zeroed() };
    // SAFETY: nothing is changed, and `now` is valid for writing.
    let known = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut now) } == 0;
    super::set_errno(saved);
    known && now.sa_sigaction == handler as usize
}

/// If `signal` would end the process, makes it do nothing. It does not use SIG_IGN, because executed programs
/// would inherit that.
pub(crate) fn ignore_if_default(signal: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all zeros is a valid `sigaction` to be filled in. Both calls get valid pointers. The handler has
    // the ABI that is used without SA_SIGINFO.
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

/// Calls the former handler, if it is a function. As async-signal-safe as that handler.
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
        // SAFETY: without SA_SIGINFO this is the address of a handler with one argument.
        let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(i32)>(previous) };
        handler(signal);
    }
}

/// Whether the code that a signal interrupted can continue without noticing the signal. It can't after a system call
/// that the signal cut short, nor after the call by which the process sent the signal itself. On other systems than
/// x86-64 and aarch64 the answer is always false. The arguments are those of the handler. Async-signal-safe.
pub(crate) fn may_go_on(info: *mut libc::siginfo_t, context: *mut libc::c_void) -> bool {
    // SAFETY: the kernel passed both to a handler. A signal that was sent has the sender.
    let (before, is_own) = unsafe {
        let is_sent = (*info).si_code <= 0;
        let is_own = is_sent && (*info).si_pid() == super::process::pid() as i32;
        (instruction_before(context.cast()), is_own)
    };
    match before {
        Instruction::Other => true,
        Instruction::Call(0) => !is_own,
        Instruction::Call(answer) => answer != -i64::from(libc::EINTR),
        Instruction::Unknown => false,
    }
}

/// Bytes of the smallest page.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const PAGE: usize = 4096;

/// The kind of the instruction before the interrupted one.
#[allow(dead_code, reason = "each architecture knows some")]
enum Instruction {
    Other,
    /// A system call, with its result.
    Call(i64),
    Unknown,
}

/// # Safety
/// The kernel passed the context to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn instruction_before(context: *const libc::ucontext_t) -> Instruction {
    const SYSCALL: [u8; 2] = [0x0F, 0x05];
    // SAFETY: the kernel filled it in.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let at = |register: i32| {
        registers
            .get(register as usize)
            .copied()
            .unwrap_or_default()
    };
    let (next, answer) = (at(libc::REG_RIP) as usize, at(libc::REG_RAX));
    if !(-4095..=0).contains(&answer) {
        return Instruction::Other;
    }
    // The page before may not be readable.
    if next % PAGE < SYSCALL.len() {
        return Instruction::Unknown;
    }
    // SAFETY: the thread may execute what stands there, or it came from there.
    match unsafe { core::ptr::with_exposed_provenance::<[u8; 2]>(next - 2).read() } {
        SYSCALL => Instruction::Call(answer),
        _ => Instruction::Other,
    }
}

/// # Safety
/// The kernel passed the context to a handler.
#[cfg(target_arch = "aarch64")]
unsafe fn instruction_before(context: *const libc::ucontext_t) -> Instruction {
    const SVC: u32 = 0xD400_0001;
    // SAFETY: the kernel filled it in.
    let (next, answer) = unsafe {
        let machine = &(*context).uc_mcontext;
        (machine.pc as usize, machine.regs[0] as i64)
    };
    if !(-4095..=0).contains(&answer) {
        return Instruction::Other;
    }
    // The page before may not be readable.
    if next % PAGE < size_of::<u32>() {
        return Instruction::Unknown;
    }
    // SAFETY: the thread came from there, and instructions have four bytes.
    match unsafe { core::ptr::with_exposed_provenance::<u32>(next - 4).read() } {
        SVC => Instruction::Call(answer),
        _ => Instruction::Other,
    }
}

/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn instruction_before(_: *const libc::ucontext_t) -> Instruction {
    Instruction::Unknown
}

/// Runs `body` while `signal` is held back on the calling thread. If `body` raised the signal, it is removed. Use
/// this for writes, whose error says enough (SIGPIPE, SIGXFSZ). Async-signal-safe.
pub(crate) fn held_back<T>(signal: i32, body: impl FnOnce() -> T) -> T {
    let held = HeldBack::hold(signal);
    let result = body();
    if let Some(held) = held {
        held.take_away();
    }
    result
}

/// A signal that the calling thread blocks, and the signals that it blocked before.
struct HeldBack {
    set: libc::sigset_t,
    old: libc::sigset_t,
}

impl HeldBack {
    /// `None` if the program holds the signal back itself: a pending one is its own.
    #[inline(never)]
    fn hold(signal: i32) -> Option<HeldBack> {
        // SAFETY: a sigset_t is plain memory. Each set is filled in before it is read, and no pointer outlives its
        // call.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            let mut old: libc::sigset_t = zeroed();
            libc::sigpending(&raw mut set);
            if libc::sigismember(&raw const set, signal) == 1 {
                return None;
            }
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            kernel::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old);
            Some(HeldBack { set, old })
        }
    }

    /// Takes the signal away if it was raised meanwhile. The thread then gets it again.
    #[inline(never)]
    fn take_away(&self) {
        // SAFETY: both sets were filled in, and no pointer outlives its call.
        unsafe {
            let now: libc::timespec = zeroed();
            libc::sigtimedwait(&raw const self.set, core::ptr::null_mut(), &raw const now);
            kernel::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.old,
                core::ptr::null_mut(),
            );
        }
    }
}

/// Signals that a thread causes or sends itself. They can't be held back.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The signals that a thread holds back, one bit each, as Linux has them on all 64-bit machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u64);

const _: () = assert!(size_of::<libc::sigset_t>() >= size_of::<u64>());

impl Mask {
    /// Holds back everything but faults on the calling thread. Returns the former mask. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn hold() -> Mask {
        // SAFETY: a sigset_t is plain memory that sigfillset fills in. Both sets are valid, and each begins
        // with the word that the kernel uses.
        unsafe {
            let mut most: libc::sigset_t = zeroed();
            let mut old: libc::sigset_t = zeroed();
            kernel::sigfillset(&raw mut most);
            for fault in FAULTS {
                kernel::sigdelset(&raw mut most, fault);
            }
            kernel::pthread_sigmask(libc::SIG_BLOCK, &raw const most, &raw mut old);
            Mask((&raw const old).cast::<u64>().read())
        }
    }

    /// Sets this mask on the calling thread. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn restore(self) {
        // SAFETY: as above.
        unsafe {
            let mut old: libc::sigset_t = zeroed();
            (&raw mut old).cast::<u64>().write(self.0);
            kernel::pthread_sigmask(libc::SIG_SETMASK, &raw const old, core::ptr::null_mut());
        }
    }
}

/// Runs `body` with everything but faults held back on the calling thread. So no handler of the program can
/// fork, end the process, or leave by a jump meanwhile. Async-signal-safe.
pub(crate) fn undisturbed<T>(body: impl FnOnce() -> T) -> T {
    let mask = Mask::hold();
    let result = body();
    mask.restore();
    result
}

/// Runs `body` with every signal but SIGBUS blocked on the calling thread. Threads that it makes inherit the
/// mask and never run the program's handlers. SIGBUS is not blocked, because it comes if the ring is lost and
/// would then end the process. `body` gets the calling thread's own mask.
pub(crate) fn with_all_blocked<T>(body: impl FnOnce(Mask) -> T) -> T {
    // SAFETY: a sigset_t is plain memory that sigfillset fills in. Both sets are valid. A set begins with the
    // word that the kernel uses.
    let old = unsafe {
        let mut all: libc::sigset_t = zeroed();
        let mut old: libc::sigset_t = zeroed();
        kernel::sigfillset(&raw mut all);
        kernel::sigdelset(&raw mut all, libc::SIGBUS);
        kernel::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        Mask((&raw const old).cast::<u64>().read())
    };
    let result = body(old);
    old.restore();
    result
}
