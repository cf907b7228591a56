//! Handlers of a program's own, and a timer that interrupts it.

use std::ptr;

/// A handler.
pub type Handler = extern "C" fn(i32);

/// A handler that is given the signal, its cause, and the state of what it interrupts.
pub type HandlerWithState = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Has the signal handled, with `SA_…` flags. Returns the former handler. The handler must do only what a handler may.
///
/// # Panics
///
/// If the system refuses.
pub fn handle(signal: i32, handler: Handler, flags: i32) -> usize {
    install(signal, handler as usize, flags)
}

/// The same for a handler that is given the state.
///
/// # Panics
///
/// If the system refuses.
pub fn handle_with_state(signal: i32, handler: HandlerWithState, flags: i32) -> usize {
    install(signal, handler as usize, flags | libc::SA_SIGINFO)
}

fn install(signal: i32, handler: usize, flags: i32) -> usize {
    // SAFETY: zeros are valid `sigaction`s, and the handler does only what a handler may.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const new, &raw mut old), 0);
        old.sa_sigaction
    }
}

/// Calls the handler that `handle_with_state` returned. False: there was none.
///
/// # Safety
///
/// To be called by a handler, with what it was given. `former` must have been a handler with three arguments.
pub unsafe fn pass_on(
    former: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    state: *mut libc::c_void,
) -> bool {
    if former == libc::SIG_DFL || former == libc::SIG_IGN {
        return false;
    }
    // SAFETY: the caller vouches for it.
    let handler = unsafe { std::mem::transmute::<usize, HandlerWithState>(former) };
    handler(signal, info, state);
    true
}

/// Sends the process SIGALRM each time that so many microseconds are over; 0: no more.
///
/// # Panics
///
/// If the system refuses.
pub fn alarm_every(micros: i64) {
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: micros,
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the timer is valid for reading.
    let set = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// The calling thread's error number.
#[must_use]
pub fn errno() -> i32 {
    // SAFETY: always the address of the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Changes it.
pub fn set_errno(number: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}
