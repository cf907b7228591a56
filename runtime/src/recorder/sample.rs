//! `FDR_SAMPLE`: one top-level call in so many is recorded, with all calls inside. The others leave nothing. Each
//! thread counts its own top-level calls, and records the first one. All functions are async-signal-safe.
//!
//! A call is top-level if no traced call of its thread is open. The guard of a call keeps the word with which the
//! exit comes (`private::Guard`). So an exit is recorded exactly if its entry was, whatever happens in between. The
//! thread remembers the stack pointer of its open top-level call. Calls inside have the same one, if the compiler put
//! both into one frame, or a lower one. A top-level call that is left by `longjmp` stays open until a call begins
//! higher on the stack. Calls on another stack, of a signal handler or a coroutine, may count as top-level.

use crate::primitive::{AtomicU32, Ordering};

use super::{EXIT, tls, watch};
use crate::site::COUNTED;

/// Set in the word of a top-level call once it has been chosen or left out. The bit is 0 in every record.
pub(super) const OUTERMOST: u32 = 1 << 2;

/// How many top-level calls are left out after a recorded one. 0 = each call is recorded.
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// Sets that one top-level call in so many is recorded. It is called before the first site is on.
pub(crate) fn set(one_in: u32) {
    LEFT_OUT.store(one_in.saturating_sub(1), Ordering::Relaxed);
}

/// How many top-level calls are left out after a recorded one.
pub(crate) fn left_out() -> u32 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Whether code with that stack pointer runs inside a top-level call that is left out. Such code makes no notes.
pub(super) fn leaves_out(stack: usize) -> bool {
    let most = left_out();
    if most == 0 {
        return false;
    }
    let (outermost, left) = tls::sample();
    // As in `edge`.
    stack <= outermost && left != most
}

/// Makes the edge's record if its call is chosen. `stack` is the stack pointer of the traced function, or a number
/// that differs from it by the same bytes for each edge. Returns the word with which the exit of the call comes. 0:
/// none does.
pub(super) fn edge(word: u32, stack: usize, record: impl FnOnce(u32)) -> u32 {
    if word & COUNTED != 0 && watch::is_watched(word) {
        // It is followed, and leaves its records, also where the call or the one around it is left out.
        let exit = choose(word, stack, |_| {});
        record(word & !OUTERMOST);
        return word | exit & OUTERMOST;
    }
    choose(word, stack, record)
}

fn choose(word: u32, stack: usize, record: impl FnOnce(u32)) -> u32 {
    let most = left_out();
    // The exit of a call that is only counted does nothing, unless it ends a top-level call.
    let exit = match word & COUNTED {
        0 => word,
        _ => 0,
    };
    if most == 0 {
        record(word);
        return exit;
    }
    let (outermost, left) = tls::sample();
    if word & EXIT != 0 {
        if word & OUTERMOST != 0 {
            tls::set_outermost(0);
        }
        if word >> 4 != 0 {
            record(word & !OUTERMOST);
        }
        return word;
    }
    if stack <= outermost {
        // Inside a recorded top-level call. After it, `left` is smaller.
        if left != most {
            return 0;
        }
        record(word);
        return exit;
    }
    tls::set_outermost(stack);
    if let Some(left) = left.checked_sub(1) {
        tls::set_left(left);
        // The function does not matter any more. The lowest bit says which code the exit comes through.
        return word & 1 | OUTERMOST;
    }
    tls::set_left(most);
    record(word);
    exit | word & 1 | OUTERMOST
}
