//! Stacks for signal handlers: one for the crash handler, and one for each recording thread without an
//! alternate stack. A thread needs an alternate stack to handle an overflow of its own stack. Below each stack
//! is memory that can't be touched. Async-signal-safe, unless a function says otherwise. A stack that a thread
//! is on must never be unmapped.

use core::cell::Cell;

use super::raw;

/// Bytes below a stack that can't be touched: the size of the largest page.
const GUARD: usize = 64 * 1024;

/// Bytes of a thread's alternate stack. It must hold the kernel's frame (up to 11 KiB with the largest
/// registers), our handler, and handlers of the program.
const ALTERNATE: usize = 64 * 1024;

/// A stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    base: *mut u8,
    size: usize,
}

impl Stack {
    /// Makes a stack of `size` bytes, a multiple of 64 KiB.
    pub(crate) fn map(size: usize) -> Option<Stack> {
        let low = super::memory::reserve(GUARD + size, GUARD)?;
        let base = low.wrapping_add(GUARD);
        // SAFETY: this is the upper part of the reservation made above, which no other code uses.
        if unsafe { super::memory::map_anonymous(base, size) }.is_err() {
            // SAFETY: this is the reservation made above.
            unsafe { super::memory::unmap(low, GUARD + size) };
            return None;
        }
        Some(Stack { base, size })
    }

    /// Unmaps the stack.
    ///
    /// # Safety
    /// It came from [`Stack::map`], and no thread is on it.
    unsafe fn unmap(self) {
        // SAFETY: as the caller vouches.
        unsafe { super::memory::unmap(self.base.wrapping_sub(GUARD), GUARD + self.size) };
    }

    /// Makes it the alternate stack of the calling thread.
    pub(crate) fn use_as_alternate(&self) {
        raw::alternate_stack(Some(&libc::stack_t {
            ss_sp: self.base.cast(),
            ss_flags: 0,
            ss_size: self.size,
        }));
    }

    /// Calls `body` on this stack. On an unknown architecture, calls it on the caller's stack.
    ///
    /// # Safety
    /// No other thread is on the stack. `body` does not unwind and takes `argument`.
    pub(crate) unsafe fn call(&self, body: extern "C" fn(*mut ()), argument: *mut ()) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the stack is aligned and ours. r12 survives the call, as in any function of the C ABI, and
        // restores the old stack.
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
        // SAFETY: as above. x20 survives the call (the compiler uses x19).
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

/// No page is smaller.
const PAGE: usize = 4096;

/// How many pages of a stack are searched at most.
const MAX_PAGES: usize = 4096;

/// Whether a signal handler may be running on the stack at or above the address `from`: the kernel's frame of a handler
/// is there, or this is not the thread's own stack. Async-signal-safe. Changes errno.
pub(crate) fn may_have_handler(from: usize) -> bool {
    // SAFETY: the function takes a number and touches no memory of ours.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    // The C library puts the storage of a thread at the upper end of its stack. Above the stack of the first thread the
    // kernel puts these random bytes. In the page of this end, the addresses below the end belong to the stack, too.
    let end_in = |page: usize| {
        let ends = [thread_pointer(), random].into_iter();
        let is_in = |&end: &usize| end > from && (page..page + PAGE).contains(&end);
        ends.filter(is_in).max()
    };
    let mut words = [0; 3];
    let mut at = from.next_multiple_of(8);
    for _ in 0..MAX_PAGES {
        let page = at / PAGE * PAGE;
        if !raw::can_read(page) {
            return true;
        }
        let end = end_in(page);
        while at < end.unwrap_or(page + PAGE) {
            // SAFETY: an aligned word of a page that can be read. It lies in a stack of the calling thread, as far as
            // pages follow each other.
            let word: u64 =
                unsafe { core::ptr::with_exposed_provenance::<u64>(at).read_volatile() };
            if is_in_frame(at, words, word) {
                return true;
            }
            words = [words[1], words[2], word];
            at += 8;
        }
        if end.is_some() {
            return false;
        }
    }
    true
}

/// Whether the word `last` at that address, together with the three words before it, looks like a signal's frame.
fn is_in_frame(at: usize, [stack, code, flags]: [u64; 3], last: u64) -> bool {
    if cfg!(target_arch = "aarch64") {
        // The head of the vector registers. Source: Linux, asm/sigcontext.h.
        return last == 0x0000_0210_4650_8001;
    }
    // The stack pointer, instruction pointer and flags of the interrupted code, and its segments: those of 64-bit code.
    // Source: Linux, asm/sigcontext.h. Interrupts are allowed there, and bit 1 of the flags is set.
    let is_above = (stack as usize).wrapping_sub(at) < MAX_PAGES * PAGE;
    let segments = last & 0x0000_FFFF_FFFF_FFFF == 0x33;
    segments && is_above && code >= PAGE as u64 && flags & 0x202 == 0x202 && flags < 1 << 22
}

/// The thread pointer of the calling thread.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the ABI has the thread pointer's own value at that place.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// As above.
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the register may be read in user mode.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// The architecture is not known.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn thread_pointer() -> usize {
    0
}

thread_local! {
    /// The stack that this file gave to the calling thread.
    static OURS: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// Gives the calling thread an alternate stack, if it has none. Threads of the standard library have one. The stack is
/// unmapped at the end of the thread. If a thread makes its first record in its last destructors, its stack stays
/// mapped.
pub(crate) fn give_alternate() {
    if raw::alternate_stack(None).ss_flags & libc::SS_DISABLE == 0 {
        return;
    }
    if let Some(stack) = Stack::map(ALTERNATE) {
        stack.use_as_alternate();
        OURS.set(Some(stack));
    }
}

/// Takes the stack back at the thread's end. If the program has set another alternate stack, ours stays,
/// because the program may mean to restore it.
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
        // SAFETY: it is ours and no longer the alternate stack. The flags say that the thread is not on it.
        unsafe { stack.unmap() };
    }
}
