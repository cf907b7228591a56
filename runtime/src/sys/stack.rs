//! Stacks of ours for signal handlers: one for the crash handler, one for each thread that records and
//! has none of its own, so that an overflow of its stack can be handled at all. Each has a page below it
//! that can't be touched. Async-signal-safe, but for what is said of a function.

use core::cell::Cell;

use super::raw;

/// Bytes that can't be touched, below a stack. The largest page there is: a guard need not be small.
const GUARD: usize = 64 * 1024;

/// What a thread without an alternate stack gets, bytes: for the kernel's frame (up to 11 KiB with the
/// largest registers there are), for ours, and for handlers of the program's that come to run on it.
const ALTERNATE: usize = 64 * 1024;

/// A stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    base: *mut u8,
    size: usize,
}

impl Stack {
    /// A new one of `size` bytes, a multiple of 64 KiB.
    pub(crate) fn map(size: usize) -> Option<Stack> {
        let low = super::memory::reserve(GUARD + size, GUARD)?;
        let base = low.wrapping_add(GUARD);
        // SAFETY: the upper part of the reservation just made, which nobody uses.
        if unsafe { super::memory::map_anonymous(base, size) }.is_err() {
            // SAFETY: the reservation just made.
            unsafe { super::memory::unmap(low, GUARD + size) };
            return None;
        }
        Some(Stack { base, size })
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It came from [`Stack::map`], and nobody is on it.
    unsafe fn unmap(self) {
        // SAFETY: as the caller vouches.
        unsafe { super::memory::unmap(self.base.wrapping_sub(GUARD), GUARD + self.size) };
    }

    /// Makes it the calling thread's alternate stack.
    pub(crate) fn use_as_alternate(&self) {
        raw::alternate_stack(Some(&libc::stack_t {
            ss_sp: self.base.cast(),
            ss_flags: 0,
            ss_size: self.size,
        }));
    }

    /// Calls `body` on it, where the architecture is known; elsewhere where the caller is.
    ///
    /// # Safety
    /// Nobody else is on it; `body` does not unwind and takes `argument`.
    pub(crate) unsafe fn call(&self, body: extern "C" fn(*mut ()), argument: *mut ()) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the stack is aligned and all of it is ours; r12 survives the call, as in any function
        // of the C ABI, and brings the old stack back.
        unsafe {
            core::arch::asm!(
                "mov r12, rsp",
                "mov rsp, {top}",
                "call {body}",
                "mov rsp, r12",
                top = in(reg) self.base.wrapping_add(self.size),
                body = in(reg) body,
                in("rdi") argument,
                out("r12") _,
                clobber_abi("C"),
            );
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above; x20 survives the call (x19 is the compiler's).
        unsafe {
            core::arch::asm!(
                "mov x20, sp",
                "mov sp, {top}",
                "blr {body}",
                "mov sp, x20",
                top = in(reg) self.base.wrapping_add(self.size),
                body = in(reg) body,
                in("x0") argument,
                out("x20") _,
                clobber_abi("C"),
            );
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        body(argument);
    }
}

thread_local! {
    /// The stack that the calling thread got from us.
    static OURS: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// Gives the calling thread an alternate stack, if it has none. Threads of Rust's own have one. For a thread
/// whose end is told; one whose first record is made in its last destructors is gone before, and its stack
/// stays mapped.
pub(crate) fn give_alternate() {
    if raw::alternate_stack(None).ss_flags & libc::SS_DISABLE == 0 {
        return;
    }
    if let Some(stack) = Stack::map(ALTERNATE) {
        stack.use_as_alternate();
        OURS.set(Some(stack));
    }
}

/// Takes it back at the thread's end, unless the program has put another in its place: then ours may be
/// something that it means to put back.
pub(crate) fn take_alternate_back() {
    let Some(stack) = OURS.take() else {
        return;
    };
    let now = raw::alternate_stack(None);
    if now.ss_flags == 0 && now.ss_sp == stack.base.cast() {
        raw::alternate_stack(Some(&libc::stack_t {
            ss_sp: core::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        }));
        // SAFETY: ours, and no longer the alternate stack; that the thread is not on it now, the flags say.
        unsafe { stack.unmap() };
    }
}
