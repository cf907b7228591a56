//! For recorded programs: one thread waits for another one. The other thread goes on only when the kernel says that
//! the first thread sleeps.

use std::fs;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::programs::threads::{spawn, wait_for_input};

/// Traced functions in which a thread holds a lock while another one waits for it, and one that does nothing. Traces name
/// them, so they are the program's own. `meanwhile` has another thread wait.
#[macro_export]
macro_rules! holding_functions {
    () => {
        #[fdr::traced]
        fn flush(waiter: &$crate::support::waiter::Waiter) {
            waiter.sleeps();
        }

        #[fdr::traced]
        fn load(waiter: &$crate::support::waiter::Waiter) {
            inner(waiter);
        }

        #[fdr::traced]
        fn inner(waiter: &$crate::support::waiter::Waiter) {
            waiter.sleeps();
        }

        #[fdr::traced]
        fn short() {}

        /// A new thread with that name runs `body`. Meanwhile this thread is in `in_function`, and holds `held`.
        fn meanwhile<G>(
            name: &str,
            held: G,
            in_function: fn(&$crate::support::waiter::Waiter),
            body: impl FnOnce() + Send + 'static,
        ) {
            let waiter = $crate::support::waiter::Waiter::default();
            let theirs = waiter.clone();
            let thread = $crate::programs::threads::spawn(name, move || {
                short();
                theirs.begins();
                body();
            });
            in_function(&waiter);
            drop(held);
            thread.join().expect("no panic");
        }
    };
}

/// Starts a thread for each name, which gets its number. Returns when they all wait.
pub fn wait_in_threads(names: &[&str], body: impl Fn(usize, &Waiter) + Clone + Send + 'static) {
    let waiters: Vec<Waiter> = names.iter().map(|_| Waiter::default()).collect();
    for (number, waiter) in waiters.clone().into_iter().enumerate() {
        let body = body.clone();
        spawn(names[number], move || body(number, &waiter));
    }
    waiters.iter().for_each(Waiter::sleeps);
}

/// Says that all threads are where they are to be, and ends the program when its input says so.
pub fn until_told() -> ! {
    wait_for_input("ready");
    exit(0);
}

/// The kernel's id of the thread that is about to wait. Before there is an id: `NOT_YET` or `NOW`.
#[derive(Clone, Debug, Default)]
pub struct Waiter(Arc<AtomicU64>);

/// The thread may not wait yet; it may.
const NOT_YET: u64 = 0;
const NOW: u64 = u64::MAX;

impl Waiter {
    /// Returns when another thread has called `sleeps`. Then the calling thread is about to wait.
    ///
    /// # Panics
    ///
    /// If the system does not say which thread this is.
    pub fn begins(&self) {
        while self.0.load(Ordering::Acquire) == NOT_YET {
            thread::yield_now();
        }
        let link = fs::read_link("/proc/thread-self").expect("proc(5)");
        let id = link.file_name().and_then(|name| name.to_str());
        let id = id.and_then(|name| name.parse().ok()).expect("a thread");
        self.0.store(id, Ordering::Release);
    }

    /// Lets the thread wait, and returns when it sleeps.
    pub fn sleeps(&self) {
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
