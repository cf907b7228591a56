//! What becomes of a process whose ring somebody else cut short: the thread that got SIGBUS goes on, recording
//! ends, and one line says so. Must never take a SIGBUS that is not the ring's. Async-signal-safe; needs little
//! of the stack.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use super::text::Text;
use super::trace::put_line;
use crate::recorder;
use crate::ring::Ring;
use crate::shell::say;
use crate::site::unit;

/// Where the line is made: a path may be as long as an alternate stack.
struct Line(UnsafeCell<[u8; 5000]>);

// SAFETY: used by the one thread that `is_loss_to_tell` said yes to.
unsafe impl Sync for Line {}

static LINE: Line = Line(UnsafeCell::new([0; 5000]));

/// Has a thread go on that got SIGBUS from the ring's file; false where it came from elsewhere.
///
/// # Safety
/// `info` is what the kernel gave a handler of SIGBUS.
pub(super) unsafe fn mend(info: *const libc::siginfo_t) -> bool {
    // SAFETY: as the caller vouches; a signal that the kernel raised has an address.
    let address = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    let Some((ring, address)) = recorder::ring().zip(address) else {
        return false;
    };
    let mended = ring.mend(address);
    if mended {
        tell(ring);
    }
    mended
}

/// Ends the recording, and says so, where the ring is lost and nobody has done it yet.
pub(crate) fn tell(ring: &Ring) {
    if !ring.is_loss_to_tell() {
        return;
    }
    unit::UNIT.switch_off();
    if let Some(path) = ring.path().filter(|_| say::warns()) {
        say(path);
    }
    ring.loss_is_told();
}

/// The same, at the end of the process: returns when it was said, by whomever.
pub(crate) fn tell_at_exit(ring: &Ring) {
    ring.wait_for_replacing();
    tell(ring);
    ring.wait_for_telling();
}

/// To be called once: the line's memory is the caller's alone.
fn say(path: &CStr) {
    // SAFETY: a ring's loss is told once, and a process has one ring.
    let bytes = unsafe { &mut *LINE.0.get() };
    bytes.fill(0);
    let mut line = Text::new(bytes);
    line.push(
        b"fdr: recording has ended: somebody cut the ring's file short, or it can't be read: ",
    );
    line.name(path.to_bytes());
    line.push(b"; fdr recover finds what is left in it\n");
    put_line(line.bytes());
}
