//! x86-64: the choice of calls for `FDR_SAMPLE`, by the convention of [`stub`](super). Async-signal-safe.
//!
//! The code does the work of `sample::edge`, and jumps to the code that makes the record if there is to be one. In
//! r11d it returns the word that the exit of the call comes with.

use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_utils::CachePadded;

use super::{OTHER_WAY, outline};
use crate::recorder::EXIT;
use crate::recorder::sample::{self, OUTERMOST};
use crate::recorder::tls::{LEFT_AT, OUTERMOST_AT};
use crate::recorder::watch;
use crate::site::COUNTED;
use crate::site::slot_access::SlotAccess;

/// The code that makes the records of chosen calls. The second one is that of untimed records.
static WAY: CachePadded<AtomicPtr<()>> = CachePadded::new(AtomicPtr::new(core::ptr::null_mut()));
static UNTIMED_WAY: CachePadded<AtomicPtr<()>> =
    CachePadded::new(AtomicPtr::new(core::ptr::null_mut()));

/// The code for chosen calls with a time whose functions may be only counted.
static TIMED: CachePadded<AtomicPtr<()>> = CachePadded::new(AtomicPtr::new(core::ptr::null_mut()));

/// The word of a call that is left out with all calls inside.
const LEFT_OUT: u32 = OUTERMOST | OTHER_WAY;

/// The code that chooses calls, for records that `way` makes.
pub(super) fn before(way: *mut ()) -> *mut () {
    TIMED.store(way, Ordering::Relaxed);
    WAY.store(address!("chosen"), Ordering::Relaxed);
    address!("sample")
}

/// The same for untimed records.
pub(super) fn before_untimed(way: *mut ()) -> *mut () {
    UNTIMED_WAY.store(way, Ordering::Relaxed);
    address!("sample_untimed")
}

/// The code that has Rust choose and record, for thread storage that a call finds.
pub(super) fn slowly() -> *mut () {
    address!("sample_slowly")
}

/// The same for untimed records.
pub(super) fn untimed_slowly() -> *mut () {
    address!("sample_untimed_slowly")
}

/// Chooses, with the code for chosen calls at that address.
macro_rules! sample {
    ($name:literal, $way:path) => {
        code!(
            $name,
            [
                "mov rax, qword ptr [rip + {access} + {access_slot}]",
                "mov ecx, dword ptr [rip + {access} + {access_left_out}]",
                "test r11b, {exit}",
                "jne 5f",
                "cmp rsp, qword ptr fs:[rax + {outermost_at}]",
                "jbe 3f",
                // a top-level call
                "mov qword ptr fs:[rax + {outermost_at}], rsp",
                "mov edx, dword ptr fs:[rax + {left_at}]",
                "sub edx, 1",
                "jb 2f",
                "mov dword ptr fs:[rax + {left_at}], edx",
                "mov r11d, {left_out}",
                "ret",
                "2:",
                "mov dword ptr fs:[rax + {left_at}], ecx",
                "call qword ptr [rip + {way}]",
                // the exit ends the top-level call, also of a function whose calls are only counted
                "or r11d, {left_out}",
                "ret",
                // a call inside a top-level one
                "3:",
                "cmp ecx, dword ptr fs:[rax + {left_at}]",
                "jne 4f",
                "jmp qword ptr [rip + {way}]",
                "4:",
                "xor r11d, r11d",
                "ret",
                // an exit
                "5:",
                "test r11b, {outermost}",
                "je 6f",
                "mov qword ptr fs:[rax + {outermost_at}], 0",
                "cmp r11d, {left_out_exit}",
                "je 7f",
                "and r11d, {not_outermost}",
                "6:",
                "jmp qword ptr [rip + {way}]",
                "7:",
                "ret",
            ],
            way = sym $way,
            access_slot = const offset_of!(SlotAccess, slot),
            access_left_out = const offset_of!(SlotAccess, left_out),
            outermost_at = const OUTERMOST_AT,
            left_at = const LEFT_AT,
            exit = const EXIT,
            outermost = const OUTERMOST,
            not_outermost = const !OUTERMOST as i32,
            left_out = const LEFT_OUT,
            left_out_exit = const LEFT_OUT | EXIT,
        );
    };
}

// Entered by a jump from "stub" and from "untimed", if calls are chosen.
sample!("sample", WAY);
sample!("sample_untimed", UNTIMED_WAY);

// A chosen call with a time. Entered from "sample".
code!(
    "chosen",
    [
        "test r11b, {counted}",
        "jne {access}.counted",
        "jmp qword ptr [rip + {timed}]",
    ],
    counted = const COUNTED,
    timed = sym TIMED,
);

/// The choice and the record, both by Rust.
macro_rules! slowly {
    ($name:literal, $edge:path) => {
        code!(
            $name,
            ["lea r9, [rip + {edge}]", "jmp {access}.outline"],
            edge = sym $edge,
        );
    };
}

slowly!("sample_slowly", edge);
slowly!("sample_untimed_slowly", edge_untimed);

/// Makes the record of an edge of a watched function, whose word has no bits. Returns the word of the exit.
pub(in crate::recorder) fn edge_here(word: u32, kept: &mut u64) -> u32 {
    let stack = core::ptr::from_mut(kept).addr() + outline::KEPT_BELOW;
    sample::edge(word | COUNTED, stack, crate::recorder::record) & !COUNTED
}

/// `kept` is where `outline` keeps r11. The stack pointer must be that of the code above, because a thread may come
/// through both.
#[cold]
extern "C" fn edge(_slot: usize, word: u32, _ticks: u64, _cpu: u32, kept: &mut u64) {
    let stack = core::ptr::from_mut(kept).addr() + outline::KEPT_BELOW;
    // The exit comes through this code again, also that of a function whose calls are only counted. The word of a
    // watched function does so as it is.
    let way = match word & COUNTED != 0 && watch::is_watched(word) {
        true => 0,
        false => OTHER_WAY,
    };
    *kept = sample::edge(word | way, stack, |word| {
        crate::recorder::record(word & !OTHER_WAY)
    })
    .into();
}

#[cold]
extern "C" fn edge_untimed(_slot: usize, word: u32, _ticks: u64, _cpu: u32, kept: &mut u64) {
    let stack = core::ptr::from_mut(kept).addr() + outline::KEPT_BELOW;
    // The exit comes through this code again, also that of a function whose calls are only counted.
    *kept = sample::edge(word | OTHER_WAY, stack, |word| {
        crate::recorder::untimed(word & !OTHER_WAY)
    })
    .into();
}
