//! A program that treats every descriptor number as its own. In each round it closes all numbers, opens its files under
//! these numbers, copies descriptors over each other, and writes patterns, which it checks. Meanwhile the recorder
//! dumps, streams and grows its rings, and the program forks. If a file contains bytes that the program did not write,
//! the file `wrong` says which.

mod kin;
mod owner;
mod table;

use std::panic;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fdr::traced;
use fdr_tests::programs::page::Page;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::descriptors::{
    DUMPS, END, FIRST_KIND, FROM_ZERO, LEAVES, NUMBERS, OF_OTHERS, ROUNDS, THREADS, TIMES, end,
    line, round,
};
use fdr_tests::support::truth::{PHASE, STOP};

use owner::{OwnedFile, Owner};
use table::{Number, ROUND, done, ensure, wrong};

/// Steps of a thread in a round, at most.
const STEPS: u64 = 300;
/// Numbers behind those of the files, for what is opened when these are all in use.
const ROOM: u64 = 64;
/// Numbers at which others than the threads have their file.
const MANY: Number = 100;
/// The end of a pipe, and the driver's look at this program, come within this time.
const PATIENCE: Duration = Duration::from_secs(20);

#[traced]
fn leaf(number: u64) -> u64 {
    std::hint::black_box(number)
}

/// Some calls.
#[traced]
pub(crate) fn work(count: u64) {
    (0..count).for_each(|number| {
        leaf(number);
    });
}

#[traced]
fn slow() {
    leaf(0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
}

#[traced]
fn fails() {
    panic!("wanted");
}

/// What the program is to do.
#[derive(Clone, Copy)]
struct DescriptorTask {
    page: Page,
    seed: u64,
    rounds: u64,
    how: u64,
}

impl DescriptorTask {
    fn is(self, bit: u64) -> bool {
        self.how & bit != 0
    }

    /// The first number that it closes.
    fn first(self) -> Number {
        if self.is(FROM_ZERO) { 0 } else { 3 }
    }
}

pub(crate) fn run(page: Page, seed: u64, rounds: u64, how: u64) {
    let wanted = DescriptorTask {
        page,
        seed,
        rounds,
        how,
    };
    table::widen(NUMBERS + ROOM);
    let held = EarlyDescriptors::new();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for share in 1..THREADS {
            let barrier = &barrier;
            scope.spawn(move || all_rounds(wanted, share, barrier));
        }
        held.let_go();
        all_rounds(wanted, 0, &barrier);
    });
}

fn all_rounds(wanted: DescriptorTask, share: u64, barrier: &Barrier) {
    let DescriptorTask {
        page, rounds, seed, ..
    } = wanted;
    let mut owner = Owner::new(page, seed, share, wanted.first());
    for number in 0..rounds {
        one_round(wanted, share, number, &mut owner, barrier);
        if share == 0 {
            page[0].set(PHASE, 1 + number);
            ROUND.store(1 + number, Ordering::Relaxed);
        }
    }
    if share == 0 && wanted.is(LEAVES) {
        let begun = Instant::now();
        while page[0].get(STOP) == 0 && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // The others go on when the end comes.
    let end = wanted.how >> END & 0xff;
    if end == end::RETURN {
        return;
    }
    barrier.wait();
    if share == 1 {
        work(100);
        ended(end);
    }
    loop {
        owner.steps(STEPS, || work(3));
    }
}

fn ended(way: u64) {
    // SAFETY: each ends the process, or gives it another program; the strings end with NUL.
    unsafe {
        match way {
            end::EXIT => libc::exit(0),
            end::FAULT => std::ptr::without_provenance_mut::<u8>(16).write_volatile(1),
            end::ABORT => libc::abort(),
            end::EXEC => {
                let end = std::ptr::null::<libc::c_char>();
                libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), end);
            }
            _ => libc::_exit(0),
        }
    }
}

/// What happens in this round: the same for all threads.
fn kinds(wanted: DescriptorTask, number: u64) -> u64 {
    let mut random = Random::new(wanted.seed ^ number.rotate_left(17));
    // A third of all, on average.
    random.bits() & (random.bits() | random.bits() & random.bits()) & wanted.how >> ROUNDS
}

fn one_round(
    wanted: DescriptorTask,
    share: u64,
    number: u64,
    owner: &mut Owner,
    barrier: &Barrier,
) {
    let kinds = kinds(wanted, number);
    let does = |kind: u64| kinds >> kind & 1 == 1;
    barrier.wait();
    if share == 0 {
        (0..round::KINDS)
            .filter(|&kind| does(kind))
            .for_each(|kind| {
                wanted.page[FIRST_KIND + kind as usize].count(TIMES);
            });
        if does(round::SIGNAL) {
            // SAFETY: the recorder handles it.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
        }
        // The dump may have come to any place when all is closed.
        let begun = Instant::now();
        let pause = Duration::from_micros(owner.random.below(3000));
        while begun.elapsed() < pause {
            work(10);
        }
        let _table = table::lock();
        table::close_from(wanted.first());
    }
    barrier.wait();
    owner.begin();
    if owner.random.below(2) == 0 {
        owner.fill();
    }
    if share == 0 && does(round::PIPE) {
        pipe();
    }
    let count = owner.random.below(STEPS);
    owner.steps(count, || work(20));
    match share {
        1 if does(round::CALL) => dump(wanted),
        1 if does(round::PANIC) => {
            let _ = panic::catch_unwind(fails);
        }
        2 if does(round::SLOW) => slow(),
        2 if does(round::GROWTH) => {
            let body = || work(5000);
            let new = thread::spawn(body);
            body();
            new.join().unwrap_or_else(|_| wrong("a thread panicked"));
        }
        3 if does(round::APART) => run_in_unshared_thread(wanted, number),
        0 => {
            kin::children(wanted, kinds, number);
            if does(round::SHARING) {
                owner.begin();
            }
        }
        _ => {}
    }
    owner.steps(count, || work(20));
    if owner.random.below(2) == 0 {
        owner.fill();
    }
    owner.check();
    if share == 0 && !wanted.is(FROM_ZERO) {
        say(wanted, number);
    }
}

/// A thread that has its own table: it closes all, and its file is at all numbers.
fn run_in_unshared_thread(wanted: DescriptorTask, number: u64) {
    let body = move || {
        // SAFETY: a plain system call on this thread.
        done(unsafe { libc::unshare(libc::CLONE_FILES) }, "unshare");
        table::close_from(wanted.first());
        let mut own = OwnedFile::new(wanted.page, OF_OTHERS, false);
        let first = own.open();
        for other in first + 1..MANY {
            table::dup_over(first, other);
        }
        // Its first record, and enough for a ring to grow.
        work(5000);
        if number.is_multiple_of(2) {
            dump(wanted);
        }
        own.is_whole(first);
    };
    let ended = thread::spawn(body).join();
    ended.unwrap_or_else(|_| wrong("a thread panicked"));
}

/// A dump that is asked for.
fn dump(wanted: DescriptorTask) {
    let dump = fdr::dump();
    ensure(dump.is_ok() || !wanted.is(DUMPS), || format!("{dump:?}"));
}

/// What the program had before the recorder had a thread.
struct EarlyDescriptors {
    pipe: [Number; 2],
    lock: Number,
}

impl EarlyDescriptors {
    fn new() -> EarlyDescriptors {
        let pipe = table::pipe();
        let lock = table::open(c"lock", 0);
        ensure(table::take(lock), || "a free lock is not had".to_owned());
        EarlyDescriptors { pipe, lock }
    }

    /// Closes it: the pipe's reader learns of it, and the lock is free. The other threads wait for this one.
    fn let_go(self) {
        let [reader, writer] = self.pipe;
        table::close(writer);
        table::close(self.lock);
        ensure(table::close_at_end(reader), || {
            "a pipe of the beginning does not end".to_owned()
        });
        let again = table::open(c"lock", 0);
        let begun = Instant::now();
        while !table::take(again) {
            ensure(begun.elapsed() < PATIENCE, || {
                "a lock of the program is kept".to_owned()
            });
            thread::sleep(Duration::from_millis(1));
        }
        table::close(again);
    }
}

/// A pipe's reader learns that the program has closed the other end.
fn pipe() {
    let _table = table::lock();
    let [reader, writer] = table::pipe();
    work(10);
    table::close(writer);
    ensure(table::close_at_end(reader), || {
        "a pipe does not end".to_owned()
    });
}

/// Prints a line to both outputs. After the first round, a program that leaves its terminal has none.
fn say(wanted: DescriptorTask, number: u64) {
    let line = line(number);
    table::write(1, line.as_bytes(), None);
    table::write(2, line.as_bytes(), None);
    if number == 0 && wanted.is(LEAVES) {
        let _table = table::lock();
        let null = table::open(c"/dev/null", 0);
        for output in 0..3 {
            table::dup_over(null, output);
        }
        table::close(null);
    }
}
