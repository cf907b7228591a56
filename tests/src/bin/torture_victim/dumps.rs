//! Threads that send the dump signal to one another while they record. Each signal is handled once. None may change the
//! errno of the interrupted code.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use fdr_tests::programs::page::{Entry, Page};
use fdr_tests::programs::signals::{errno, handle_with_state, pass_on, set_errno};
use fdr_tests::support::course::Course;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{PHASE, SIGNALS, STOP, WRONG};

use crate::walk;

/// The value that errno must keep.
const ERRNO: i32 = 4242;
/// The most records between two signals of a thread.
const PAUSE: u64 = 40;

static NEXT: AtomicUsize = AtomicUsize::new(0);
static PROGRAM: AtomicUsize = AtomicUsize::new(0);

/// Counts, and calls the recorder's handler, which it replaced.
extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the page's first entry, stored before the handler was installed.
    let program = unsafe { &*(PROGRAM.load(Ordering::Acquire) as *const Entry) };
    program.count_shared(SIGNALS);
    // SAFETY: sigaction gave this address as that of a handler with three arguments.
    unsafe { pass_on(NEXT.load(Ordering::Acquire), signal, info, context) };
}

fn install(program: &'static Entry) {
    PROGRAM.store(std::ptr::from_ref(program).addr(), Ordering::Release);
    let next = handle_with_state(libc::SIGUSR2, on_signal, libc::SA_RESTART);
    NEXT.store(next, Ordering::Release);
}

/// One thread's part: signals to others, until there were enough of them.
struct Sender {
    random: Random,
    pause: u64,
    threads: Arc<[AtomicUsize]>,
    program: &'static Entry,
    signals: u64,
}

impl Sender {
    fn after_a_record(&mut self) {
        if errno() != ERRNO {
            self.program.count_shared(WRONG);
            set_errno(ERRNO);
        }
        self.pause -= 1;
        if self.pause > 0 {
            return;
        }
        self.pause = 1 + self.random.below(PAUSE);
        if self.program.get(SIGNALS) >= self.signals {
            self.program.set(STOP, 1);
            return;
        }
        let thread = self.random.below(self.threads.len() as u64) as usize;
        let thread = self.threads[thread].load(Ordering::Acquire);
        // SAFETY: no thread ends before all have sent their last signal.
        unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR2) };
    }
}

pub(crate) fn run(page: Page, seed: u64, threads: u64, signals: u64) {
    install(&page[0]);
    let ids: Arc<[AtomicUsize]> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let (begin, end) = (
        Arc::new(Barrier::new(threads as usize)),
        Arc::new(Barrier::new(threads as usize)),
    );
    let spawn = |place: usize| -> JoinHandle<()> {
        let number = walk::next_number(page).expect("room in the page");
        let mut sender = Sender {
            random: Random::new(seed ^ number as u64),
            pause: 1 + number as u64,
            threads: Arc::clone(&ids),
            program: &page[0],
            signals,
        };
        let course = Course::new(seed.wrapping_add(number as u64), u64::MAX);
        let (begin, end) = (Arc::clone(&begin), Arc::clone(&end));
        let body = move || {
            // SAFETY: always succeeds.
            let me = unsafe { libc::pthread_self() };
            sender.threads[place].store(me as usize, Ordering::Release);
            begin.wait();
            set_errno(ERRNO);
            let mut each = || sender.after_a_record();
            walk::run(course, &page[number], &page[0], &mut each);
            end.wait();
        };
        let builder = Builder::new().name(format!("n{number}"));
        builder.spawn(body).expect("a thread")
    };
    let running: Vec<_> = (0..threads as usize).map(spawn).collect();
    page[0].set(PHASE, 1);
    for thread in running {
        thread.join().expect("its end");
    }
    page[0].set(PHASE, 2);
}
