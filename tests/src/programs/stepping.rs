//! Code that runs one instruction at a time: after each, those of the recorder included, the processor
//! raises SIGTRAP. So a signal lands on every instruction of a record, for certain and not by chance. x86-64
//! alone has the flag; elsewhere the code simply runs.

/// Has `handler` called after each step; it must do only what a handler may.
///
/// # Panics
///
/// If the system refuses.
pub fn on_each_step(handler: extern "C" fn(i32)) {
    install(handler as usize, 0);
}

/// A handler of steps that is given the signal, its cause, and the state of what it interrupts.
pub type WithState = extern "C" fn(i32, *const libc::siginfo_t, *mut libc::c_void);

/// The same for a handler that may end the steps.
///
/// # Panics
///
/// If the system refuses.
pub fn on_each_step_with_state(handler: WithState) {
    install(handler as usize, libc::SA_SIGINFO);
}

fn install(handler: usize, flags: i32) {
    // SAFETY: zeros are a valid `sigaction`; the handler does only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        let installed = libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        assert_eq!(installed, 0);
    }
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

/// Ends the stepping of the thread that a handler interrupted. `context`: the handler's third argument.
#[cfg(target_arch = "x86_64")]
pub fn stop_stepping(context: *mut libc::c_void) {
    // SAFETY: the kernel gives the handler of a signal with SA_SIGINFO such a context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
}

/// Does nothing: no thread steps on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn stop_stepping(_: *mut libc::c_void) {}

/// Runs `body`.
#[cfg(not(target_arch = "x86_64"))]
pub fn stepping(body: impl FnOnce()) {
    body();
}
