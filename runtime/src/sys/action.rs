//! The actions of signals: asking, setting and restoring them. Async-signal-safe. errno changes only if a
//! number is no signal's. This file must never change an action without a call that asks for it.

use core::mem::zeroed;

use super::raw;

/// The action of a signal.
#[derive(Clone, Copy)]
pub(crate) struct Action(libc::sigaction);

/// A handler that gets the kernel's information on the signal.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

impl Action {
    /// The current action of `signal`.
    #[inline(never)]
    pub(crate) fn current(signal: i32) -> Action {
        // SAFETY: all zeros is a valid `sigaction` to be filled in. If it is not filled in, it means SIG_DFL.
        let mut now: libc::sigaction = unsafe { zeroed() };
        // SAFETY: the structure is valid for writing.
        unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut now) };
        Action(now)
    }

    /// The action of a handler of the recorder's. It runs on the alternate stack. No other handler interrupts it, but
    /// faults of its own do.
    pub(crate) fn handler(handler: Handler) -> Action {
        let mut action = Action::default();
        action.0.sa_sigaction = handler as usize;
        action.0.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the mask is valid for writing.
        unsafe {
            libc::sigfillset(&raw mut action.0.sa_mask);
            for fault in FAULTS {
                libc::sigdelset(&raw mut action.0.sa_mask, fault);
            }
        }
        action
    }

    /// This action, with the handler on the same kind of stack as the handler of `other`.
    pub(crate) fn on_stack_of(mut self, other: &Action) -> Action {
        if other.is_handler() && other.0.sa_flags & libc::SA_ONSTACK == 0 {
            self.0.sa_flags &= !libc::SA_ONSTACK;
        }
        self
    }

    /// Makes this the action of `signal`. Returns the action that it replaces.
    #[inline(never)]
    pub(crate) fn replace(&self, signal: i32) -> Action {
        // SAFETY: all zeros is a valid `sigaction` to be filled in.
        let mut old: libc::sigaction = unsafe { zeroed() };
        // SAFETY: as in `set`, and the place is valid for writing.
        unsafe { libc::sigaction(signal, &raw const self.0, &raw mut old) };
        Action(old)
    }

    /// Makes this the action of `signal`. Returns whether it could.
    pub(crate) fn set(&self, signal: i32) -> bool {
        // SAFETY: the structure is valid. Its handler, if any, was a handler of this signal before, or has the
        // type of `Handler`.
        unsafe { libc::sigaction(signal, &raw const self.0, core::ptr::null_mut()) == 0 }
    }

    pub(crate) fn is_default(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_DFL
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    pub(crate) fn is_handler(&self) -> bool {
        !self.is_default() && !self.is_ignored()
    }

    pub(crate) fn is(&self, handler: Handler) -> bool {
        self.0.sa_sigaction == handler as usize
    }

    pub(crate) fn has_handler_of(&self, other: &Action) -> bool {
        self.0.sa_sigaction == other.0.sa_sigaction
    }

    /// Whether it is a handler of three arguments on the alternate stack, with no other flag.
    pub(crate) fn is_plain_on_alternate_stack(&self) -> bool {
        const WISHES: i32 = libc::SA_NOCLDSTOP
            | libc::SA_NOCLDWAIT
            | libc::SA_NODEFER
            | libc::SA_RESETHAND
            | libc::SA_RESTART;
        /// The signals before the real-time ones, one bit each.
        const ORDINARY: u64 = (1 << 31) - 1;
        let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the mask is valid, and begins with the word that the kernel uses.
        let held = unsafe { (&raw const self.0.sa_mask).cast::<u64>().read() };
        self.0.sa_flags & (flags | WISHES) == flags && held & ORDINARY == 0
    }

    /// Calls the handler, if there is one.
    ///
    /// # Safety
    /// The arguments are those of a handler of `signal`.
    pub(crate) unsafe fn call(
        &self,
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        let handler = self.0.sa_sigaction;
        if !self.is_handler() {
        } else if self.0.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the kernel would have called this address with these arguments.
            let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        } else {
            // SAFETY: as above, with one argument.
            let handler = unsafe { core::mem::transmute::<usize, extern "C" fn(i32)>(handler) };
            handler(signal);
        }
    }
}

impl Action {
    /// Calls the handler, if there is one, as the kernel would: with the signals held back that the action
    /// names.
    ///
    /// # Safety
    /// The arguments are those of a handler of `signal`, which returns after this call without doing anything
    /// else.
    pub(crate) unsafe fn call_in_place(
        &self,
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        let word = |set: *const libc::sigset_t| {
            // SAFETY: a set begins with the word that the kernel uses.
            unsafe { set.cast::<raw::Signals>().read() }
        };
        // SAFETY: this is the kernel's structure. It holds the signal mask of the interrupted code.
        let interrupted =
            unsafe { word(&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask) };
        let own = match self.0.sa_flags & libc::SA_NODEFER {
            0 => raw::bit(signal),
            _ => 0,
        };
        // The interrupted code gets its own mask back when the handler of `signal` returns.
        let held = interrupted | word(&raw const self.0.sa_mask) | own;
        raw::mask(libc::SIG_SETMASK, held);
        if self.0.sa_flags & libc::SA_RESETHAND != 0 {
            Action::default().set(signal);
        }
        // SAFETY: the caller promises the arguments of a handler.
        unsafe { self.call(signal, info, context) };
    }
}

/// SIG_DFL.
impl Default for Action {
    fn default() -> Action {
        // SAFETY: all zeros is a valid `sigaction`: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = libc::SIG_DFL;
        Action(action)
    }
}

/// Signals that a thread causes itself. If a handler held them back, it would hide its own fault, and the
/// kernel would end the process at once.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];
