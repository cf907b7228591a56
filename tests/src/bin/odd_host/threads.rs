//! Threads: many, small, deep, at their end, and how many there are.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder};
use std::time::Duration;

use fdr::traced;

use crate::{NamedAction, crowd, leaf, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("plain", || say(work(1000))),
    ("crowd", || say(crowd(20_000))),
    ("many-threads", many),
    ("short-threads", short),
    ("small-stacks", small),
    ("deep", deep),
    ("destructors", destructors),
    ("destructors-alone", destructors_alone),
    ("left-running", left_running),
    ("odd-names", odd_names),
    ("count-of-threads", count),
    ("count-of-threads-later", count_later),
];

fn many() {
    let barrier = Arc::new(Barrier::new(200));
    let spawn = |number: u64| {
        let barrier = Arc::clone(&barrier);
        let body = move || {
            barrier.wait();
            work(50 + number % 3)
        };
        Builder::new().stack_size(128 << 10).spawn(body)
    };
    let all: Vec<_> = (0..200)
        .map(|number| spawn(number).expect("a thread"))
        .collect();
    let sums = all.into_iter().map(|thread| thread.join().expect("a sum"));
    say(sums.fold(0, u64::wrapping_add));
}

fn short() {
    let run = |number| thread::spawn(move || leaf(number)).join().expect("a sum");
    say((0..500).map(run).fold(0, u64::wrapping_add));
}

fn small() {
    for kib in [48, 64, 128] {
        let builder = Builder::new().stack_size(kib << 10);
        let thread = builder.spawn(|| work(10)).expect("a thread");
        say(format_args!("{kib} KiB: {}", thread.join().expect("a sum")));
    }
}

#[traced]
fn inner(depth: u64) -> u64 {
    if depth == 0 {
        return 1;
    }
    std::hint::black_box(inner(depth - 1) + 1)
}

fn deep() {
    let builder = Builder::new().stack_size(64 << 20);
    let thread = builder.spawn(|| inner(20_000)).expect("a thread");
    say(thread.join().expect("a depth"));
}

static ENDED: AtomicU64 = AtomicU64::new(0);

/// Calls traced functions when its thread has ended.
struct Late(u64);

impl Drop for Late {
    #[traced]
    fn drop(&mut self) {
        (0..50).for_each(|number| {
            leaf(number + self.0);
        });
        work(20);
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    static FIRST: Late = const { Late(1) };
    static SECOND: Late = const { Late(2) };
}

fn destructors() {
    for _ in 0..100 {
        let body = || {
            FIRST.with(|late| leaf(late.0));
            work(10);
            SECOND.with(|late| leaf(late.0))
        };
        thread::spawn(body).join().expect("its end");
    }
    FIRST.with(|late| leaf(late.0));
    say(ENDED.load(Ordering::Relaxed));
}

/// The first traced call of each thread is in a destructor.
fn destructors_alone() {
    for _ in 0..100 {
        let body = || FIRST.with(|late| std::hint::black_box(late.0));
        thread::spawn(body).join().expect("its end");
    }
    say(ENDED.load(Ordering::Relaxed));
}

/// Threads that still record when `main` returns.
fn left_running() {
    for _ in 0..4 {
        thread::spawn(|| {
            loop {
                work(10);
            }
        });
    }
    thread::sleep(Duration::from_millis(30));
    say("main returns");
}

fn odd_names() {
    for name in ["</script><b>", "a b\tc", "../../etc"] {
        let thread = Builder::new().name(name.into()).spawn(|| work(10));
        say(thread.expect("a thread").join().expect("a sum"));
    }
    // SAFETY: the name ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"\x1b[31m\xff".as_ptr()) };
    say(work(10));
}

/// Threads of this process, as the system sees them.
fn tasks() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads");
    tasks.count()
}

fn count() {
    work(10);
    say(tasks());
}

/// The same after a while.
fn count_later() {
    work(10);
    thread::sleep(Duration::from_millis(600));
    work(10);
    say(tasks());
}
