//! Waits for locks, conditions and channels whose holders are known in advance. Tests record it and look at the trace.
//!
//! ```text
//! locks mutex|rwlock|condition|channel|deadlock|itself|quiet|busy
//! ```
//! The thread that another one waits for continues only when the kernel says that the other one sleeps. So each wait is
//! longer than the threshold, and its holder is where it is planned. `deadlock` and `itself` never end by themselves:
//! they end with their standard input. `quiet` has no wait, and `busy` has as many as come.
#![forbid(unsafe_code)]

use std::process::exit;

use fdr::sync::mpsc;
use fdr::sync::{Arc, Condvar, Mutex, RwLock};
use fdr_tests::programs::threads::spawn;
use fdr_tests::support::waiter::{Waiter, until_told, wait_in_threads};

static QUEUE: Mutex<u64> = Mutex::named("queue", 0);
static ROUTES: RwLock<u64> = RwLock::named("routes", 0);

fdr_tests::holding_functions!();

/// The thread `waiter` waits for the lock once for each turn, while this thread is in that function with the lock.
fn mutex() {
    let turns: [fn(&Waiter); 5] = [flush, load, flush, flush, load];
    for turn in turns {
        short();
        let mut held = QUEUE.lock().expect("no panic");
        *held += 1;
        meanwhile("waiter", held, turn, || {
            *QUEUE.lock().expect("no panic") += 1;
        });
    }
    println!("{}", *QUEUE.lock().expect("no panic"));
}

/// A reader waits for a writer, a writer for one reader, and a writer for two of them.
fn rwlock() {
    short();
    let held = ROUTES.write().expect("no panic");
    meanwhile("reader", held, flush, || {
        assert_eq!(*ROUTES.read().expect("no panic"), 0);
    });
    for readers in 1..=2 {
        let held: Vec<_> = (0..readers).map(|_| ROUTES.read()).collect();
        meanwhile("writer", held, load, || {
            *ROUTES.write().expect("no panic") += 1;
        });
    }
}

/// Waits until this thread notifies it.
fn condition() {
    let pair = Arc::new((Mutex::new(false), Condvar::named("filled")));
    let (waiter, theirs) = (Waiter::default(), Arc::clone(&pair));
    let mine = waiter.clone();
    short();
    let thread = spawn("waiter", move || {
        let (is_filled, filled) = &*theirs;
        let is_filled = is_filled.lock().expect("no panic");
        mine.begins();
        let is_filled = filled.wait_while(is_filled, |is_filled| !*is_filled);
        assert!(*is_filled.expect("no panic"));
    });
    waiter.sleeps();
    *pair.0.lock().expect("no panic") = true;
    pair.1.notify_one();
    thread.join().expect("no panic");
}

/// Waits for a message, and for room.
fn channel() {
    let waiter = Waiter::default();
    let (jobs, queue) = mpsc::named_channel::<u32>("jobs");
    let mine = waiter.clone();
    short();
    let thread = spawn("receiver", move || {
        mine.begins();
        assert_eq!(queue.recv(), Ok(7));
    });
    waiter.sleeps();
    jobs.send(7).expect("a receiver");
    thread.join().expect("no panic");
    let (jobs, queue) = mpsc::sync_channel::<u32>(1);
    let mine = waiter.clone();
    let thread = spawn("sender", move || {
        jobs.send(1).expect("a receiver");
        mine.begins();
        jobs.send(2).expect("a receiver");
    });
    waiter.sleeps();
    assert_eq!(queue.iter().collect::<Vec<_>>(), [1, 2]);
    thread.join().expect("no panic");
}

#[fdr::traced]
fn first(one: &Mutex<u8>, other: &Mutex<u8>, met: &std::sync::Barrier, waiter: &Waiter) {
    let _one = one.lock();
    met.wait();
    waiter.begins();
    let _other = other.lock();
}

#[fdr::traced]
fn second(one: &Mutex<u8>, other: &Mutex<u8>, met: &std::sync::Barrier, waiter: &Waiter) {
    first(one, other, met, waiter);
}

/// Two threads wait for each other.
fn deadlock() {
    let locks = Arc::new((Mutex::named("accounts", 0), Mutex::named("journal", 0)));
    let met = Arc::new(std::sync::Barrier::new(2));
    wait_in_threads(&["pay", "audit"], move |number, waiter| match number {
        0 => first(&locks.0, &locks.1, &met, waiter),
        _ => second(&locks.1, &locks.0, &met, waiter),
    });
    until_told();
}

#[fdr::traced]
fn twice(lock: &Mutex<u8>, waiter: &Waiter) {
    let _held = lock.lock();
    waiter.begins();
    let _again = lock.lock();
}

/// A thread waits for itself.
fn itself() {
    wait_in_threads(&["once more"], |_, waiter| twice(&Mutex::new(0), waiter));
    until_told();
}

/// Locks without any wait.
fn quiet() {
    short();
    for _ in 0..1000 {
        *QUEUE.lock().expect("no panic") += 1;
        *ROUTES.write().expect("no panic") += 1;
        assert!(*ROUTES.read().expect("no panic") > 0);
        assert!(QUEUE.try_lock().is_ok());
    }
    println!("{}", *QUEUE.lock().expect("no panic"));
}

/// Threads that are in each other's way all the time: nothing is lost, and a panic poisons.
fn busy() {
    const EACH: u64 = 400;
    let shared = Arc::new((Mutex::new(0_u64), RwLock::new(0_u64), Condvar::new()));
    let (jobs, queue) = mpsc::sync_channel::<u64>(2);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (shared, jobs) = (Arc::clone(&shared), jobs.clone());
            spawn("busy", move || {
                for number in 0..EACH {
                    short();
                    *shared.0.lock().expect("no panic") += 1;
                    *shared.1.write().expect("no panic") += 1;
                    assert!(*shared.1.read().expect("no panic") > number);
                    jobs.send(1).expect("a receiver");
                }
                shared.2.notify_all();
            })
        })
        .collect();
    drop(jobs);
    let received: u64 = queue.iter().sum();
    let done = shared
        .2
        .wait_while(shared.0.lock().expect("no panic"), |count| {
            *count < 3 * EACH
        });
    println!("{received} {}", *done.expect("no panic"));
    workers
        .into_iter()
        .for_each(|worker| worker.join().expect("no panic"));
    println!("{}", *shared.1.read().expect("no panic"));
    let theirs = Arc::clone(&shared);
    let panics = spawn("panics", move || {
        let _both = (theirs.0.lock(), theirs.1.write());
        panic!("planned");
    });
    assert!(panics.join().is_err());
    // One after the other, because an error has the lock.
    let mutex = shared.0.lock().is_err();
    let read = shared.1.read().is_err();
    let is_poisoned = [mutex, read, shared.1.write().is_err()];
    println!("{is_poisoned:?} {:?}", shared.0.try_lock().is_err());
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["mutex"] => mutex(),
        ["rwlock"] => rwlock(),
        ["condition"] => condition(),
        ["channel"] => channel(),
        ["deadlock"] => deadlock(),
        ["itself"] => itself(),
        ["quiet"] => quiet(),
        ["busy"] => busy(),
        _ => exit(2),
    }
}
