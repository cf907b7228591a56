//! Finds the moment when the program's last thread is gone, so the dumper can end the process. A process lives
//! as long as any of its threads, and the recorder's threads are ordinary threads. A thread of the program must
//! never count as one of the recorder's.
//!
//! If the main thread calls `exit` or returns, the process ends, and nothing in this file matters. The main thread may
//! also leave alone, by `pthread_exit` or by the `exit` system call. The kernel then keeps it as a zombie until all
//! other threads are gone. After `pthread_exit` the destructor of a key notifies the recorder. The system call notifies
//! no other thread, so the dumper looks from time to time.
//!
//! The C library ends the process in the last thread that it knows. That thread calls `exit`, which writes the text
//! that the program's streams still hold. The dumper can't do that, because it has a descriptor table of its own. So a
//! main thread that leaves by `pthread_exit` makes a *last thread*. This thread shares the program's table and waits
//! until the dumper has ended.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::fs;
use std::path::Path;

use fdr_formats::text;

use super::handover::{self, DUMPER};
use super::stream;
use crate::sys::signal::Mask;
use crate::{crash, messages, recorder, sys};

/// The name of the last thread.
const LAST: &CStr = c"fdr-last";

/// The state of the last thread.
static LAST_STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const WAITS: u32 = 1;
const MAY_END: u32 = 2;
const MAY_END_WITH_STATUS: u32 = 3;

/// Changes with the state.
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// The longest pause between two looks.
const MAX_NS: u64 = 1_000_000_000;

/// The shortest pause.
const MIN_NS: u64 = 1_000_000;

/// Each pause is this part of the time passed, so the process lives at most an eighth longer.
const PART: u64 = 8;

/// A thread is about to end, and it may be the last one.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the main thread is known to have left.
static MAIN_LEFT: AtomicBool = AtomicBool::new(false);

/// If the calling thread is the main thread, has its end reported to [`on_thread_end`].
pub(crate) fn watch_main() {
    if sys::thread::tid() == sys::process::pid() {
        sys::thread::set_end_value(1);
    }
}

/// The C library calls this when a thread ends by `pthread_exit` or by returning. `value` is the value that
/// `set_end_value` stored. Async-signal-safe, except in the main thread.
pub(crate) extern "C" fn on_thread_end(value: *mut libc::c_void) {
    if !recorder::on_thread_end(value as usize) {
        return;
    }
    crash::thread_ends();
    let is_main = sys::thread::tid() == sys::process::pid();
    if is_main {
        MAIN_LEFT.store(true, Ordering::Relaxed);
        start();
    }
    if is_main || MAIN_LEFT.load(Ordering::Relaxed) {
        ENDING.store(true, Ordering::Relaxed);
        // The dumper sees the stores above when it wakes.
        sys::thread::wake_dumper();
    }
}

/// Called in the child of a fork, where the forking thread is the main thread. Async-signal-safe.
pub(crate) fn forget() {
    MAIN_LEFT.store(false, Ordering::Relaxed);
    ENDING.store(false, Ordering::Relaxed);
    LAST_STATE.store(NONE, Ordering::Relaxed);
    sys::thread::forget_unnamed();
}

/// Makes the last thread.
fn start() {
    if !handover::is_running() {
        return;
    }
    LAST_STATE.store(WAITS, Ordering::Release);
    let spawned = sys::signal::with_all_blocked(|programs| {
        let body = Box::new(move || wait_for_end(programs));
        sys::thread::spawn(LAST, 64 * 1024, body)
    });
    if spawned.is_err() {
        LAST_STATE.store(NONE, Ordering::Release);
    }
}

/// The work of the last thread.
fn wait_for_end(programs: Mask) {
    let state = loop {
        let seen = CHANGED.load(Ordering::Acquire);
        match LAST_STATE.load(Ordering::Acquire) {
            WAITS => sys::thread::wait(&CHANGED, seen, None),
            other => break other,
        }
    };
    // The C library must know no other thread by now.
    while handover::exists() {
        sys::thread::give_way();
    }
    messages::print_left();
    end(programs, state == MAY_END_WITH_STATUS);
}

/// The dumper calls this when all threads of the program have ended and the last dump is made. It ends the process. If
/// there is a last thread, that thread ends the process after the dumper has ended.
pub(crate) fn end_process(programs: Mask, looks: &LookSchedule) {
    let state = match looks.found_others {
        false => MAY_END_WITH_STATUS,
        true => MAY_END,
    };
    let waits = LAST_STATE.compare_exchange(WAITS, state, Ordering::AcqRel, Ordering::Relaxed);
    match waits {
        Ok(_) => sys::thread::wake(&CHANGED),
        Err(_) => end(programs, !looks.found_others),
    }
}

/// Ends the process, with the exit status that it would have had without the recorder.
///
/// If the program's last thread ended by `pthread_exit` or returned, the C library calls `exit` in the last
/// thread that it knows. That is this thread, which returns. If the main thread left by the system call and was
/// the last one, its status counts. Since Linux 5.17 the kernel takes the status of the thread that ends last.
/// The status of another thread that left by the system call is unknown, so it counts as 0.
fn end(programs: Mask, has_status: bool) {
    // `exit` calls functions of the program, with the program's own signal mask.
    programs.restore();
    let status = main_field(EXIT_STATUS).and_then(|status| status.parse::<i32>().ok());
    let status = status.map_or(0, |status| status >> 8 & 0xff);
    if status != 0 && has_status {
        sys::process::exit_at_once(status);
    }
    if stream::is_running() {
        // A peer delays the stream, and the thread of the stream would delay the end.
        sys::process::exit();
    }
}

/// The times at which the dumper looks for threads of the program, in ns of CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookSchedule {
    since_ns: u64,
    due_ns: u64,
    /// Whether a thread of the program was seen after the main thread had left.
    found_others: bool,
}

impl LookSchedule {
    /// Begins at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> LookSchedule {
        LookSchedule {
            since_ns: now_ns,
            due_ns: now_ns.saturating_add(MIN_NS),
            found_others: false,
        }
    }

    /// Whether all threads of the program have ended. Checks this only when the next check is due.
    pub(crate) fn find_nobody(&mut self, now_ns: u64) -> bool {
        if ENDING.swap(false, Ordering::Relaxed) {
            let found_others = self.found_others;
            *self = LookSchedule {
                found_others,
                ..LookSchedule::new(now_ns)
            };
        }
        if now_ns < self.due_ns {
            return false;
        }
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let pause_ns = (passed_ns / PART).clamp(MIN_NS, MAX_NS);
        self.due_ns = now_ns.saturating_add(pause_ns);
        // A thread of the recorder without a name would be taken for one of the program.
        if !main_has_left() || sys::thread::is_any_unnamed() {
            return false;
        }
        MAIN_LEFT.store(true, Ordering::Relaxed);
        let is_over = only_recorders_are_left();
        self.found_others |= !is_over;
        is_over
    }

    /// The time until the next look.
    pub(crate) fn sleep(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.due_ns.saturating_sub(now_ns))
    }
}

/// Whether the main thread is a zombie. The first test opens no file, because it runs often and a program may
/// close descriptors that it does not know.
fn main_has_left() -> bool {
    // The link needs the memory of the main thread, and a zombie has none.
    fs::read_link("/proc/self/exe").is_err() && main_field(STATE).as_deref() == Some("Z")
}

/// Fields of `/proc/PID/stat` behind the name, counted from 0.
const STATE: usize = 0;
const EXIT_STATUS: usize = 49;

/// A field of the main thread's `stat` file, see proc(5).
fn main_field(field: usize) -> Option<String> {
    let stat = sys::file::kernel_text("/proc/self/stat")?;
    let mut fields = sys::process::stat_fields(&stat)?;
    fields.nth(field).map(text::owned)
}

/// Whether a thread with this name, as the kernel gives it, is a recorder's. Another copy of the recorder may have such
/// threads, too.
fn is_recorders(name: &str) -> bool {
    let name = name.trim_ascii_end().as_bytes();
    [DUMPER, stream::NAME, LAST]
        .iter()
        .any(|of| name == of.to_bytes())
}

/// Calls `body` with the id of each thread that is not known as a recorder's, until it returns false. Whether it never did.
/// A thread that is made meanwhile comes later in the list, so it is seen. A thread that has ended is not seen.
pub(super) fn each_of_the_program(body: &mut dyn FnMut(u32) -> bool) -> bool {
    sys::file::each_name(Path::new("/proc/self/task"), &mut |id| {
        let number = id.to_str().and_then(text::number);
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else {
            return false;
        };
        let name = sys::file::kernel_text(&format!("/proc/self/task/{number}/comm"));
        match name {
            Some(name) => is_recorders(&name) || body(number),
            None => !sys::thread::exists(number) || body(number),
        }
    })
}

/// Whether every thread except the main one is a recorder's.
fn only_recorders_are_left() -> bool {
    let main = sys::process::pid();
    each_of_the_program(&mut |thread| thread == main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_later_until_a_thread_ends() {
        let mut looks = LookSchedule::new(0);
        let (mut now_ns, mut count) = (0, 0);
        while now_ns < 3_600_000_000_000 {
            let before_ns = now_ns;
            now_ns += looks.sleep(now_ns).as_nanos() as u64;
            assert!(now_ns > before_ns);
            assert!(now_ns - before_ns <= MAX_NS);
            assert!(now_ns - before_ns <= (before_ns / PART).max(MIN_NS));
            assert!(!looks.find_nobody(now_ns), "the tests' main thread lives");
            count += 1;
        }
        assert!((3_592..3_800).contains(&count), "{count}");
        ENDING.store(true, Ordering::Relaxed);
        assert!(!looks.find_nobody(now_ns));
        assert_eq!(looks.sleep(now_ns).as_nanos(), u128::from(MIN_NS));
    }

    #[test]
    fn a_thread_of_the_program_is_somebody() {
        let state = main_field(STATE).expect("proc(5)");
        assert!(["R", "S", "D"].contains(&&*state), "{state}");
        assert_eq!(main_field(EXIT_STATUS).as_deref(), Some("0"));
        assert!(!only_recorders_are_left());
    }
}
