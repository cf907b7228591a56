//! Code that runs one instruction at a time: after each, those of the recorder included, the processor
//! raises SIGTRAP. So a signal lands on every instruction of a record, for certain and not by chance. x86-64
//! alone has the flag; elsewhere the code simply runs.

use super::signals::{Handler, HandlerWithState, handle, handle_with_state};

/// Has `handler` called after each step; it must do only what a handler may.
///
/// # Panics
///
/// If the system refuses.
pub fn on_each_step(handler: Handler) {
    handle(libc::SIGTRAP, handler, 0);
}

/// The same for a handler that may end the steps.
///
/// # Panics
///
/// If the system refuses.
pub fn on_each_step_with_state(handler: HandlerWithState) {
    handle_with_state(libc::SIGTRAP, handler, 0);
}

/// Ends the steps: what the handler interrupts goes on at full speed.
///
/// # Safety
///
/// To be called by the handler of a step, with the state that it was given.
#[cfg(target_arch = "x86_64")]
pub unsafe fn end_steps(state: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` a valid state, which is the handler's alone.
    let registers = unsafe { &mut (*state.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_EFL as usize] &= !0x100;
}

/// Has nothing to end.
///
/// # Safety
///
/// None is needed here.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn end_steps(_: *mut libc::c_void) {}

/// Runs `body` step by step. SIGTRAP must have a handler.
#[cfg(target_arch = "x86_64")]
pub fn stepping(body: impl FnOnce()) {
    use std::arch::asm;

    // SAFETY: the trap flag does nothing but raise SIGTRAP, which has a handler; the stack is as it was
    // after each block.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// Runs `body`.
#[cfg(not(target_arch = "x86_64"))]
pub fn stepping(body: impl FnOnce()) {
    body();
}
