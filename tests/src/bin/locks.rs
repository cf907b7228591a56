//! Waits for locks, conditions and channels whose holders are known in advance. Tests record it and look at the trace.
//!
//! ```text
//! locks mutex|rwlock|condition|channel|deadlock|itself|quiet
//! ```
//! A thread that is to be waited for goes on only when the kernel says that the other thread sleeps. So each wait is
//! longer than the threshold, and its holder is where it is planned. `deadlock` and `itself` never end by themselves:
//! they end with their standard input. `quiet` has no wait.
#![forbid(unsafe_code)]

use std::fs;
use std::io::stdin;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Builder, JoinHandle};

use fdr::sync::mpsc;
use fdr::sync::{Arc, Condvar, Mutex, RwLock};

static QUEUE: Mutex<u64> = Mutex::named("queue", 0);
static ROUTES: RwLock<u64> = RwLock::named("routes", 0);

/// The thread that is about to wait, by the kernel's id. Before that: whether it may.
#[derive(Clone, Default)]
struct Waiter(Arc<AtomicU64>);

/// It may not yet, and it may.
const NOT_YET: u64 = 0;
const NOW: u64 = u64::MAX;

impl Waiter {
    /// The calling thread is about to wait, once another thread is where it is to be.
    fn begins(&self) {
        while self.0.load(Ordering::Acquire) == NOT_YET {
            thread::yield_now();
        }
        let link = fs::read_link("/proc/thread-self").expect("proc(5)");
        let id = link.file_name().and_then(|name| name.to_str());
        let id = id.and_then(|name| name.parse().ok()).expect("a thread");
        self.0.store(id, Ordering::Release);
    }

    /// Lets the thread wait, and returns when it sleeps.
    fn sleeps(&self) {
        self.0.store(NOW, Ordering::Release);
        loop {
            let id = self.0.load(Ordering::Acquire);
            let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat"));
            let state = stat.ok().and_then(|stat| {
                let (_, behind) = stat.rsplit_once(") ")?;
                behind.chars().next()
            });
            if id != NOW && state == Some('S') {
                self.0.store(NOT_YET, Ordering::Release);
                return;
            }
            thread::yield_now();
        }
    }
}

#[fdr::traced]
fn flush(waiter: &Waiter) {
    waiter.sleeps();
}

#[fdr::traced]
fn load(waiter: &Waiter) {
    inner(waiter);
}

#[fdr::traced]
fn inner(waiter: &Waiter) {
    waiter.sleeps();
}

#[fdr::traced]
fn short() {}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let spawned = Builder::new().name(name.to_owned()).spawn(body);
    spawned.expect("a thread")
}

/// The thread `waiter` waits for the lock once for each turn, while this thread is in that function with the lock.
fn mutex() {
    let turns: [fn(&Waiter); 5] = [flush, load, flush, flush, load];
    for turn in turns {
        let waiter = Waiter::default();
        short();
        let mut held = QUEUE.lock().expect("no panic");
        let theirs = waiter.clone();
        let thread = spawn("waiter", move || {
            short();
            theirs.begins();
            *QUEUE.lock().expect("no panic") += 1;
        });
        turn(&waiter);
        *held += 1;
        drop(held);
        thread.join().expect("no panic");
    }
    println!("{}", *QUEUE.lock().expect("no panic"));
}

/// A reader waits for a writer, a writer for one reader, and a writer for two of them.
fn rwlock() {
    let (waiter, theirs) = (Waiter::default(), Waiter::default());
    short();
    let held = ROUTES.write().expect("no panic");
    let mine = waiter.clone();
    let thread = spawn("reader", move || {
        mine.begins();
        assert_eq!(*ROUTES.read().expect("no panic"), 0);
    });
    flush(&waiter);
    drop(held);
    thread.join().expect("no panic");
    for readers in 1..=2 {
        let held: Vec<_> = (0..readers).map(|_| ROUTES.read()).collect();
        let mine = theirs.clone();
        let thread = spawn("writer", move || {
            mine.begins();
            *ROUTES.write().expect("no panic") += 1;
        });
        load(&theirs);
        drop(held);
        thread.join().expect("no panic");
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
    let waiters = [Waiter::default(), Waiter::default()];
    for (number, waiter) in waiters.clone().into_iter().enumerate() {
        let (locks, met) = (Arc::clone(&locks), Arc::clone(&met));
        spawn(["pay", "audit"][number], move || match number {
            0 => first(&locks.0, &locks.1, &met, &waiter),
            _ => second(&locks.1, &locks.0, &met, &waiter),
        });
    }
    waiters.iter().for_each(Waiter::sleeps);
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
    let waiter = Waiter::default();
    let mine = waiter.clone();
    spawn("once more", move || twice(&Mutex::new(0), &mine));
    waiter.sleeps();
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

/// Says that all threads are where they are to be, and ends the program when its input says so.
fn until_told() -> ! {
    println!("ready");
    let _ = stdin().read_line(&mut String::new());
    exit(0);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mutex") => mutex(),
        Some("rwlock") => rwlock(),
        Some("condition") => condition(),
        Some("channel") => channel(),
        Some("deadlock") => deadlock(),
        Some("itself") => itself(),
        Some("quiet") => quiet(),
        _ => exit(2),
    }
}
