//! The meaning of a signal, in the words of `fdr dump`. It must never say more than the kernel did.
//! Async-signal-safe.

use super::text::Text;
use crate::sys::raw;

/// A signal that means a crash.
pub(super) struct Signal {
    pub(super) number: i32,
    name: &'static str,
    /// Whether the kernel gives an address when it raises the signal.
    has_address: bool,
}

const fn signal(number: i32, name: &'static str, has_address: bool) -> Signal {
    Signal {
        number,
        name,
        has_address,
    }
}

/// The signals that are handled.
pub(super) static SIGNALS: [Signal; 7] = [
    signal(libc::SIGSEGV, "SIGSEGV", true),
    signal(libc::SIGBUS, "SIGBUS", true),
    signal(libc::SIGILL, "SIGILL", true),
    signal(libc::SIGFPE, "SIGFPE", true),
    signal(libc::SIGABRT, "SIGABRT", false),
    signal(libc::SIGTRAP, "SIGTRAP", true),
    signal(libc::SIGSYS, "SIGSYS", true),
];

/// The code of a SIGSEGV whose address the kernel does not know.
const SI_KERNEL: i32 = 0x80;

/// A crash, as the kernel reported it.
#[derive(Clone, Copy)]
pub(super) struct Crash {
    pub(super) signal: i32,
    pub(super) code: i32,
    /// 0 = no address.
    pub(super) address: u64,
    /// The process that sent the signal. 0 = the kernel raised it.
    sender: u32,
    pub(super) thread: u32,
}

impl Crash {
    /// # Safety
    /// `info` is what the kernel gave a handler of `signal`.
    pub(super) unsafe fn new(signal: i32, info: *const libc::siginfo_t, thread: u32) -> Crash {
        // SAFETY: the caller promises the kernel's `info`. The code says which fields are valid.
        let (code, address, sender) = unsafe {
            let info = &*info;
            let sent = info.si_code <= 0;
            let address = if sent { 0 } else { info.si_addr() as u64 };
            let sender = if sent { info.si_pid() as u32 } else { 0 };
            (info.si_code, address, sender)
        };
        Crash {
            signal,
            code,
            address,
            sender,
            thread,
        }
    }

    /// Whether a process sent the signal. Then the program may go on after it.
    pub(super) fn is_sent(&self) -> bool {
        self.code <= 0
    }

    /// Writes text such as `SIGSEGV at 0x10 in thread 71`.
    pub(super) fn write(&self, text: &mut Text<'_>) {
        let known = SIGNALS.iter().find(|known| known.number == self.signal);
        match known {
            Some(known) => text.push(known.name.as_bytes()),
            None => text.push(b"signal ").number(self.signal as u64),
        };
        let raised = self.code > 0 && self.code != SI_KERNEL;
        if raised && known.is_some_and(|known| known.has_address) {
            text.push(b" at 0x").hex(self.address, 1);
        }
        if self.sender != 0 && self.sender != raw::process() {
            text.push(b" from process ").number(u64::from(self.sender));
        }
        text.push(b" in thread ").number(u64::from(self.thread));
    }
}
