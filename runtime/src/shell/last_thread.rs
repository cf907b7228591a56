//! Finds the moment at which the program's last thread is gone, so that the dumper can end the process.
//! A process lives as long as any thread does, and the recorder's threads are threads like others.
//! Must never take a program's thread for one of the recorder's.
//!
//! A main thread that calls `exit`, or returns, ends the process, and nothing in here matters. It may
//! also leave alone: by `pthread_exit`, or by the `exit` system call. The kernel keeps it as a zombie
//! then until all other threads are gone. `pthread_exit` tells the recorder of it, by the destructor of
//! a key. The system call tells nobody, so the dumper looks now and then.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs;

use crate::{crash, recorder, sys};

/// The names of threads that are the recorder's. Another copy of the recorder may have some as well.
pub(crate) const DUMPER: &str = "fdr-dumper";
pub(crate) const STREAM: &str = "fdr-stream";

/// The longest time between two looks.
const LONGEST_NS: u64 = 1_000_000_000;

/// The shortest.
const SHORTEST_NS: u64 = 1_000_000;

/// A look comes after this part of the time that has passed, so the process lives an eighth longer at most.
const PART: u64 = 8;

/// A thread is about to end that may have been the last one.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the main thread was seen to leave.
static MAIN_LEFT: AtomicBool = AtomicBool::new(false);

/// Has the main thread's end told to [`thread_ends`], where the calling thread is that thread.
pub(crate) fn watch_main() {
    if sys::thread::tid() == sys::process::pid() {
        sys::thread::set_end_value(1);
    }
}

/// The C library calls this in a thread that ends, by `pthread_exit` or by returning, with the value that
/// `set_end_value` left. Async-signal-safe.
pub(crate) extern "C" fn on_thread_end(value: *mut libc::c_void) {
    if !recorder::on_thread_end(value as usize) {
        return;
    }
    crash::thread_ends();
    let is_main = sys::thread::tid() == sys::process::pid();
    if is_main {
        MAIN_LEFT.store(true, Ordering::Relaxed);
    }
    if is_main || MAIN_LEFT.load(Ordering::Relaxed) {
        ENDING.store(true, Ordering::Relaxed);
        // The dumper that wakes sees what was stored above.
        sys::thread::wake_dumper();
    }
}

/// In the child of a fork the thread that forked is the main thread. Async-signal-safe.
pub(crate) fn forget() {
    MAIN_LEFT.store(false, Ordering::Relaxed);
    ENDING.store(false, Ordering::Relaxed);
}

/// Ends the calling thread as the process's last one, so that the exit status is what it would have been.
///
/// Where the program's last thread ended by `pthread_exit`, or returned, the C library calls `exit` in the
/// last thread that it knows of. That is this one, which returns. Where the main thread left by the system
/// call and was the last, its status counts. Since Linux 5.17 the kernel takes that of whoever ends last.
/// The status of another thread that left by the system call is not to be had; it counts as 0.
pub(crate) fn end_as_last(looks: &Looks) {
    let status = main_field(EXIT_STATUS).and_then(|status| status.parse::<i32>().ok());
    let status = status.map_or(0, |status| status >> 8 & 0xff);
    if status != 0 && !looks.others_seen {
        sys::thread::exit(status);
    }
}

/// When the dumper looks whether the program has a thread left. Times are of CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    since_ns: u64,
    due_ns: u64,
    /// Whether a thread of the program was seen after the main thread had left.
    others_seen: bool,
}

impl Looks {
    /// From now on.
    pub(crate) fn new(now_ns: u64) -> Looks {
        Looks {
            since_ns: now_ns,
            due_ns: now_ns.saturating_add(SHORTEST_NS),
            others_seen: false,
        }
    }

    /// Whether all threads of the program are gone, if it is time to look.
    pub(crate) fn find_nobody(&mut self, now_ns: u64) -> bool {
        if ENDING.swap(false, Ordering::Relaxed) {
            let others_seen = self.others_seen;
            *self = Looks {
                others_seen,
                ..Looks::new(now_ns)
            };
        }
        if now_ns < self.due_ns {
            return false;
        }
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let pause_ns = (passed_ns / PART).clamp(SHORTEST_NS, LONGEST_NS);
        self.due_ns = now_ns.saturating_add(pause_ns);
        if !main_has_left() {
            return false;
        }
        MAIN_LEFT.store(true, Ordering::Relaxed);
        let is_over = only_recorders_are_left();
        self.others_seen |= !is_over;
        is_over
    }

    /// How long there is until the next look.
    pub(crate) fn sleep(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.due_ns.saturating_sub(now_ns))
    }
}

/// Whether the main thread is a zombie. The first question opens no file, because it is asked often, and a
/// program may close descriptors that it does not know.
fn main_has_left() -> bool {
    // The link belongs to the main thread's memory, which a zombie has none of.
    fs::read_link("/proc/self/exe").is_err() && main_field(STATE).as_deref() == Some("Z")
}

/// Fields of `/proc/PID/stat` behind the name, from 0.
const STATE: usize = 0;
const EXIT_STATUS: usize = 49;

/// What the kernel says of the main thread, by proc(5).
fn main_field(field: usize) -> Option<String> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(field).map(str::to_owned)
}

/// Whether every thread but the main one is a recorder's. A thread that another one makes meanwhile comes
/// later in the list, so it can't be missed.
fn only_recorders_are_left() -> bool {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    let main = sys::process::pid().to_string();
    for task in tasks {
        let Ok(task) = task else {
            return false;
        };
        if task.file_name().to_str() == Some(&main) {
            continue;
        }
        match fs::read_to_string(task.path().join("comm")) {
            Ok(name) if [DUMPER, STREAM].contains(&name.trim_end()) => {}
            // A program's thread, or one that has just ended: the next look tells.
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_ever_later_and_again_soon_when_a_thread_ends() {
        let mut looks = Looks::new(0);
        let (mut now_ns, mut count) = (0, 0);
        while now_ns < 3_600_000_000_000 {
            let before_ns = now_ns;
            now_ns += looks.sleep(now_ns).as_nanos() as u64;
            assert!(now_ns > before_ns);
            assert!(now_ns - before_ns <= LONGEST_NS);
            assert!(now_ns - before_ns <= (before_ns / PART).max(SHORTEST_NS));
            assert!(!looks.find_nobody(now_ns), "the tests' main thread lives");
            count += 1;
        }
        assert!((3_592..3_800).contains(&count), "{count}");
        ENDING.store(true, Ordering::Relaxed);
        assert!(!looks.find_nobody(now_ns));
        assert_eq!(looks.sleep(now_ns).as_nanos(), u128::from(SHORTEST_NS));
    }

    #[test]
    fn a_thread_of_the_program_is_somebody() {
        let state = main_field(STATE).expect("proc(5)");
        assert!(["R", "S", "D"].contains(&&*state), "{state}");
        assert_eq!(main_field(EXIT_STATUS).as_deref(), Some("0"));
        assert!(!only_recorders_are_left());
    }
}
