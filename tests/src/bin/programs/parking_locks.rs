//! Waits for locks and conditions of `fdr_parking_lot` whose holders are known in advance. Tests record it and look at the
//! trace.
//!
//! ```text
//! parking_locks mutex|kinds|mapped|rwlock|upgrade|condition|timeout|later|deadlock|quiet|busy
//! ```
//! As in `locks`, the thread that another one waits for continues only when the kernel says that the other one sleeps.
//! `deadlock` ends with its standard input, `quiet` has no wait, `busy` has as many as come, and `later` enables the
//! recorder itself.
#![forbid(unsafe_code)]

use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use fdr_parking_lot::{
    Condvar, FairMutex, Mutex, MutexGuard, ReentrantMutex, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
use fdr_tests::programs::threads::spawn;
use fdr_tests::support::waiter::{Waiter, until_told, wait_in_threads};

static QUEUE: Mutex<u64> = Mutex::named("queue", 0);
static TURNS: FairMutex<u64> = FairMutex::named("turns", 0);
static AGAIN: ReentrantMutex<u64> = ReentrantMutex::named("again", 0);
static ROUTES: RwLock<u64> = RwLock::named("routes", 0);

fdr_tests::holding_functions!();

/// The thread `waiter` waits for the lock once for each turn, while this thread is in that function with the lock.
fn mutex() {
    short();
    let turns: [fn(&Waiter); 5] = [flush, load, flush, flush, load];
    for turn in turns {
        meanwhile("waiter", QUEUE.lock(), turn, || *QUEUE.lock() += 1);
    }
    println!("{}", *QUEUE.lock());
}

/// The other locks of one thread, one that has no name, and one that is raw.
fn kinds() {
    type Raw = fdr_parking_lot::lock_api::Mutex<fdr_parking_lot::RawMutex, u64>;
    static RAW: Raw = Raw::new(0);
    short();
    meanwhile("fair", TURNS.lock(), flush, || *TURNS.lock() += 1);
    let held = (AGAIN.lock(), AGAIN.lock());
    meanwhile("again", held, load, || drop((AGAIN.lock(), AGAIN.lock())));
    let unnamed = Arc::new(Mutex::new(vec![1_u8]));
    let theirs = Arc::clone(&unnamed);
    let held = unnamed.lock();
    meanwhile("unnamed", held, flush, move || theirs.lock().push(2));
    meanwhile("raw", RAW.lock(), flush, || *RAW.lock() += 1);
    // It is given to the thread that waits, and taken back.
    let mut guard = QUEUE.lock();
    let waiter = Waiter::default();
    let theirs = waiter.clone();
    let thread = spawn("bumped", move || {
        theirs.begins();
        *QUEUE.lock() += 1;
    });
    flush(&waiter);
    MutexGuard::bump(&mut guard);
    assert_eq!(*guard, 1);
    drop(guard);
    thread.join().expect("no panic");
}

/// A part of a value is held as the whole is.
fn mapped() {
    static PAIR: Mutex<(u64, u64)> = Mutex::named("pair", (0, 0));
    short();
    let part = MutexGuard::map(PAIR.lock(), |pair| &mut pair.1);
    meanwhile("waiter", part, flush, || PAIR.lock().0 += 1);
}

/// A reader waits for a writer, a writer for one reader, and a writer for two of them.
fn rwlock() {
    short();
    meanwhile("reader", ROUTES.write(), flush, || drop(ROUTES.read()));
    meanwhile("writer", ROUTES.read(), load, || *ROUTES.write() += 1);
    let two = (ROUTES.read(), ROUTES.read_recursive());
    meanwhile("writers", two, load, || *ROUTES.write() += 1);
    let reader = RwLockWriteGuard::downgrade(ROUTES.write());
    meanwhile("downgraded", reader, flush, || *ROUTES.write() += 1);
}

/// A reader that may write later is waited for, and waits for another reader.
fn upgrade() {
    short();
    meanwhile("second", ROUTES.upgradable_read(), flush, || {
        drop(ROUTES.upgradable_read());
    });
    meanwhile("upgrades", ROUTES.read(), load, || {
        *RwLockUpgradableReadGuard::upgrade(ROUTES.upgradable_read()) += 1;
    });
    // It has the lock alone afterwards.
    let writer = RwLockUpgradableReadGuard::upgrade(ROUTES.upgradable_read());
    let seen = RwLockWriteGuard::downgrade_to_upgradable(writer);
    meanwhile("writer", seen, flush, || *ROUTES.write() += 1);
}

/// Waits until this thread notifies it.
fn condition() {
    let pair = Arc::new((Mutex::new(false), Condvar::named("filled")));
    let (waiter, theirs) = (Waiter::default(), Arc::clone(&pair));
    let mine = waiter.clone();
    short();
    let thread = spawn("waiter", move || {
        let (is_filled, filled) = &*theirs;
        let mut is_filled = is_filled.lock();
        mine.begins();
        filled.wait_while(&mut is_filled, |is_filled| !*is_filled);
        // The holder is known again.
        let second = Waiter::default();
        let (waits, theirs) = (second.clone(), Arc::clone(&theirs));
        let thread = spawn("next", move || {
            waits.begins();
            assert!(*theirs.0.lock());
        });
        flush(&second);
        drop(is_filled);
        thread.join().expect("no panic");
    });
    waiter.sleeps();
    *pair.0.lock() = true;
    pair.1.notify_one();
    thread.join().expect("no panic");
}

/// A wait that ends without the lock, because this thread never gives it back, and one that does not wait at all.
fn timeout() {
    short();
    let held = (QUEUE.lock(), ROUTES.write());
    assert!(QUEUE.try_lock_for(Duration::ZERO).is_none());
    assert!(QUEUE.try_lock().is_none() && ROUTES.try_read().is_none());
    let thread = spawn("waiter", || {
        short();
        assert!(QUEUE.try_lock_for(Duration::from_millis(5)).is_none());
    });
    thread.join().expect("no panic");
    drop(held);
    let thread = spawn("untimed", || {
        assert!(QUEUE.try_lock_for(Duration::MAX).is_some());
        assert!(ROUTES.try_write_for(Duration::from_secs(600)).is_some());
    });
    thread.join().expect("no panic");
}

/// A lock that is held since before recording was on has no known holder, and one that is taken then has.
fn later() {
    let before = ROUTES.read();
    fdr::enable().expect("recording");
    short();
    meanwhile("unknown", before, flush, || *ROUTES.write() += 1);
    meanwhile("known", ROUTES.read(), flush, || *ROUTES.write() += 1);
    let before = ROUTES.read();
    fdr::disable();
    drop(before);
    let between = ROUTES.read();
    fdr::enable().expect("recording");
    let after = ROUTES.read_recursive();
    drop(between);
    // The recorder can't know which of its two read locks the thread has given back.
    meanwhile("either", after, flush, || *ROUTES.write() += 1);
    meanwhile("alone again", ROUTES.read(), load, || *ROUTES.write() += 1);
}

#[fdr::traced]
fn both(one: &Mutex<u8>, other: &Mutex<u8>, met: &std::sync::Barrier, waiter: &Waiter) {
    let _one = one.lock();
    met.wait();
    waiter.begins();
    let _other = other.lock();
}

/// Two threads wait for each other.
fn deadlock() {
    let locks = Arc::new((Mutex::named("accounts", 0), Mutex::named("journal", 0)));
    let met = Arc::new(std::sync::Barrier::new(2));
    wait_in_threads(&["pay", "audit"], move |number, waiter| match number {
        0 => both(&locks.0, &locks.1, &met, waiter),
        _ => both(&locks.1, &locks.0, &met, waiter),
    });
    until_told();
}

/// Locks without any wait.
fn quiet() {
    short();
    for _ in 0..1000 {
        *QUEUE.lock() += 1;
        *TURNS.lock() += 1;
        drop((AGAIN.lock(), AGAIN.lock()));
        *ROUTES.write() += 1;
        assert!(*ROUTES.read() > 0);
        *RwLockUpgradableReadGuard::upgrade(ROUTES.upgradable_read()) += 1;
        assert!(QUEUE.try_lock().is_some());
    }
    println!("{}", *QUEUE.lock());
}

/// Threads that are in each other's way all the time: nothing is lost, and a panic poisons nothing.
fn busy() {
    const EACH: u64 = 400;
    const THREADS: u64 = 8;
    let shared = Arc::new((
        Mutex::new(0_u64),
        RwLock::new(0_u64),
        Condvar::new(),
        FairMutex::new(0_u64),
    ));
    let workers: Vec<_> = (0..THREADS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            spawn("busy", move || {
                for number in 0..EACH {
                    short();
                    *shared.0.lock() += 1;
                    *shared.3.lock() += 1;
                    MutexGuard::bump(&mut shared.0.lock());
                    if number % 2 == 0 {
                        *shared.1.write() += 1;
                    } else {
                        let seen = shared.1.upgradable_read();
                        let mut value = RwLockUpgradableReadGuard::upgrade(seen);
                        *value += 1;
                        assert!(*RwLockWriteGuard::downgrade(value) > number);
                    }
                    assert!(*shared.1.read() > number);
                    MutexGuard::unlock_fair(shared.0.lock());
                }
                shared.2.notify_all();
            })
        })
        .collect();
    let mut done = shared.0.lock();
    let all = |count: &mut u64| *count < THREADS * EACH;
    shared.2.wait_while(&mut done, all);
    println!("{}", *done);
    drop(done);
    workers
        .into_iter()
        .for_each(|worker| worker.join().expect("no panic"));
    println!("{} {}", *shared.1.read(), *shared.3.lock());
    let theirs = Arc::clone(&shared);
    let panics = spawn("panics", move || {
        let _both = (theirs.0.lock(), theirs.1.write());
        panic!("planned");
    });
    assert!(panics.join().is_err());
    println!("{}", *shared.0.lock() == *shared.1.write());
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["mutex"] => mutex(),
        ["kinds"] => kinds(),
        ["mapped"] => mapped(),
        ["rwlock"] => rwlock(),
        ["upgrade"] => upgrade(),
        ["condition"] => condition(),
        ["timeout"] => timeout(),
        ["later"] => later(),
        ["deadlock"] => deadlock(),
        ["quiet"] => quiet(),
        ["busy"] => busy(),
        _ => exit(2),
    }
}
