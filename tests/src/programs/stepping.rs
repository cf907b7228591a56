//! Code that runs one instruction at a time: after each, those of the recorder included, the processor
//! raises SIGTRAP. So a signal lands on every instruction of a record, for certain and not by chance. x86-64
//! alone has the flag; elsewhere the code simply runs.

/// Has `handler` called after each step; it must do only what a handler may.
///
/// # Panics
///
/// If the system refuses.
pub fn on_each_step(handler: extern "C" fn(i32)) {
    // SAFETY: zeros are a valid `sigaction`; the handler does only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        let installed = libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        assert_eq!(installed, 0);
    }
}

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
