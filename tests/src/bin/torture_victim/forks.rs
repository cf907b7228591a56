//! A process of eight recording threads that forks and forks: children record themselves and end in many
//! ways. Entry `FIRST_CHILD + 2 k` of the page is the k-th child's, the next one its child's.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use fdr_tests::programs::page::{Entry, Page};
use fdr_tests::support::course::Course;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CHILD_LIFE, CHILD_PID, FIRST_CHILD, PHASE, STOP};

use crate::walk;

const THREADS: usize = 8;
/// A child's calls, at most.
const MAX_CALLS: u64 = 2_000;

/// How children end.
const EXIT_AT_ONCE: u64 = 0;
const EXIT: u64 = 1;
const KILL: u64 = 2;
const NO_RECORDS: u64 = 3;
const EXEC: u64 = 4;
const FORK: u64 = 5;
const LIVES: u64 = 6;

fn fork() -> i32 {
    // SAFETY: the child allocates nothing, takes no lock but the recorder's, and ends below.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        pid => pid,
    }
}

/// The child's part. Never returns.
fn child(page: Page, seed: u64, place: usize, life: u64, calls: u64) -> ! {
    static NEVER: Entry = Entry::new();
    let truth = &page[place];
    // SAFETY: plain system calls on this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        truth.set(CHILD_PID, libc::getpid() as u64);
    }
    truth.set(CHILD_LIFE, 1 + life);
    if life != NO_RECORDS {
        let course = Course::new(seed.wrapping_add(place as u64), calls);
        walk::run(course, truth, &NEVER, &mut || ());
    }
    if life == FORK {
        match fork() {
            0 => child(page, seed, place + 1, EXIT_AT_ONCE, calls),
            pid => wait(pid),
        }
    }
    // SAFETY: each ends this process, or gives it another program; the strings end with NUL.
    unsafe {
        match life {
            EXIT => libc::exit(0),
            KILL => libc::kill(libc::getpid(), libc::SIGKILL),
            EXEC => libc::execl(
                c"/bin/true".as_ptr(),
                c"true".as_ptr(),
                std::ptr::null::<libc::c_char>(),
            ),
            _ => 0,
        };
        libc::_exit(0)
    }
}

fn wait(pid: i32) {
    let status = AtomicI32::new(0);
    // SAFETY: `pid` is a child of this process, and the status is valid for writing.
    while unsafe { libc::waitpid(pid, status.as_ptr(), 0) } != pid {}
    let status = status.load(Ordering::Relaxed);
    let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
    if status != 0 && !killed {
        // SAFETY: ends this process, which may be a child of a fork itself.
        unsafe { libc::_exit(9) }
    }
}

/// Makes `forks` children, one after the other.
pub(crate) fn run(page: Page, seed: u64, forks: u64, only_life: u64) {
    let spawn = |_| {
        let number = walk::next_number(page).expect("room in the page");
        walk::spawn(page, seed, number, u64::MAX, || ())
    };
    let threads: Vec<thread::JoinHandle<()>> = (0..THREADS).map(spawn).collect();
    let mut random = Random::new(seed);
    for number in 0..forks as usize {
        let life = match random.below(LIVES) {
            any if only_life == 0 => any,
            _ => only_life - 1,
        };
        let calls = 1 + random.below(MAX_CALLS);
        match fork() {
            0 => child(page, seed, FIRST_CHILD + 2 * number, life, calls),
            pid => wait(pid),
        }
        page[0].set(PHASE, 1 + number as u64);
    }
    page[0].set(STOP, 1);
    for thread in threads {
        thread.join().expect("its end");
    }
}
