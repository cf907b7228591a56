//! Handles a ring whose file was cut short. The thread that got SIGBUS continues, recording ends, and one
//! line reports it. This file must never handle a SIGBUS that does not come from the ring.
//! Async-signal-safe. It needs little stack.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use super::text::Text;
use super::trace::put_line;
use crate::messages;
use crate::recorder;
use crate::ring::Ring;
use crate::site::unit;

/// Memory for the line, because the path in it may be as long as an alternate stack.
struct Line(UnsafeCell<[u8; 5000]>);

// SAFETY: only the thread for which `claim_loss_report` returned true uses it.
unsafe impl Sync for Line {}

static LINE: Line = Line(UnsafeCell::new([0; 5000]));

/// Lets a thread go on that got SIGBUS from the ring's file. False if the signal came from elsewhere.
///
/// # Safety
/// `info` is what the kernel gave a handler of SIGBUS.
pub(super) unsafe fn mend(info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller promises the kernel's `info`. A signal that the kernel raised has an address.
    let address = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    let Some((ring, address)) = recorder::ring().zip(address) else {
        return false;
    };
    let mended = ring.mend(address);
    if mended {
        report(ring);
    }
    mended
}

/// If the ring is lost, ends the recording and says so. Only the first call does this.
pub(crate) fn report(ring: &Ring) {
    if !ring.claim_loss_report() {
        return;
    }
    unit::switch_off();
    if let Some(path) = ring.path().filter(|_| messages::warns()) {
        print_line(path);
    }
    ring.loss_is_reported();
}

/// Does the same at the end of the process. Returns when the line was printed, by this thread or by another
/// one.
pub(crate) fn report_at_exit(ring: &Ring) {
    ring.wait_for_replacing();
    report(ring);
    ring.wait_for_loss_report();
}

/// Prints the line. It is called once, so the memory of the line belongs to this call.
fn print_line(path: &CStr) {
    // SAFETY: the loss of a ring is reported once, and a process has one ring.
    let bytes = unsafe { &mut *LINE.0.get() };
    bytes.fill(0);
    let mut line = Text::new(bytes);
    line.push(
        b"fdr: recording has ended: somebody cut the ring's file short, or it can't be read: ",
    );
    line.name(path.to_bytes());
    line.push(b"; fdr dump finds what is left in it\n");
    put_line(line.bytes());
}
