//! Programs whose reports are easily misread. `hang` sleeps in a traced function until its input says to continue.
//! `leave` sleeps until its input says to end. `panic` panics in one of several threads. `windows` has one quiet thread
//! and one busy thread. `around` overwrites all records but those of the calls in its innermost call. Its output shows
//! the test when to dump.

use std::hint::black_box;
use std::panic::panic_any;
use std::process::exit;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_tests::programs::threads::wait_for_input;
use fdr_tests::support::facts;

#[traced]
fn work(number: u64) -> u64 {
    black_box(number) * 7
}

#[traced]
fn serve(entered: &Barrier, leave: &Barrier) {
    apply(entered, leave);
}

#[traced]
fn apply(entered: &Barrier, leave: &Barrier) {
    work(1);
    entered.wait();
    leave.wait();
}

#[traced]
fn fail(number: u64) -> u64 {
    let list = [work(number)];
    list[black_box(number) as usize]
}

#[traced]
fn wait(barrier: &Barrier) {
    barrier.wait();
}

#[traced]
fn early() {
    (0..100).for_each(|number| {
        work(number);
    });
}

#[traced]
fn late() {
    (0..100).for_each(|number| {
        work(number);
    });
}

#[traced]
fn outer() {
    inner();
}

#[traced]
fn inner() {
    (0..20_000).for_each(|_| late());
    wait_for_input("made");
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into())
}

/// `worker-3` is in `apply` from so long before `entered` is printed until a line comes; the program may leave with
/// it in there. `before` has ended.
fn hang(pause: Duration, leaves: bool) {
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    let work_in = named("before").spawn(|| work(2)).expect("a thread");
    work_in.join().expect("its end");
    thread::scope(|scope| {
        let worker = || serve(&entered, &leave);
        let worker = named("worker-3").spawn_scoped(scope, worker);
        entered.wait();
        thread::sleep(pause);
        work(3);
        wait_for_input("entered");
        if leaves {
            exit(0);
        }
        leave.wait();
        worker.expect("a thread");
    });
}

/// Panics with a message that is long and would colour a terminal, and with a value that is no text.
fn panic_oddly() {
    work(0);
    let thrower = thread::spawn(|| {
        panic!("\x1b[31m{}", "\u{e9}".repeat(5000));
    });
    println!("{}", thrower.join().is_err());
    let thrower = thread::spawn(|| panic_any(work(1)));
    println!("{}", thrower.join().is_err());
}

/// `worker-3` panics in `fail`, while others wait in `wait`.
fn panic() {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let waiter = named("waiter").spawn_scoped(scope, || wait(&barrier));
        let thrower = named("worker-3").spawn_scoped(scope, || fail(1));
        println!("{}", thrower.expect("a thread").join().is_err());
        barrier.wait();
        waiter.expect("a thread");
    });
}

/// `quiet` makes records that stay and waits, `busy` overwrites its own many times over.
fn windows() {
    let (done, end) = (Barrier::new(2), Barrier::new(3));
    thread::scope(|scope| {
        let quiet = || {
            early();
            done.wait();
            end.wait();
        };
        let busy = || {
            done.wait();
            (0..20_000).for_each(|_| late());
            end.wait();
        };
        let threads = [
            named("quiet").spawn_scoped(scope, quiet),
            named("busy").spawn_scoped(scope, busy),
        ];
        end.wait();
        wait_for_input("made");
        threads.into_iter().for_each(|thread| {
            let _ = thread.expect("a thread").join();
        });
    });
}

pub(crate) fn main(words: &[&str]) {
    let pause = words.get(1).map_or(0, |pause| facts::number(pause));
    let pause = Duration::from_millis(pause);
    match words[0] {
        "hang" => hang(pause, false),
        "leave" => hang(pause, true),
        "panic" => panic(),
        "panic-oddly" => panic_oddly(),
        "windows" => windows(),
        "around" => outer(),
        other => panic!("no such way: {other:?}"),
    }
}
