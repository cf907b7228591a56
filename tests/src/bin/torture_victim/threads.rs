//! Short threads without number, a few at a time: `threads COUNT AT_ONCE`. It stops at a tenth of them
//! and at the end, so that what the process holds can be compared.

use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_tests::support::truth::{MADE, PHASE, STOP, THREADS, calls};

use crate::page::{Entry, Page};

#[traced]
fn work(truth: &Entry) {
    truth.count_shared(MADE);
}

/// Says how far it is, and waits until it has been looked at.
fn stop_at(page: Page, phase: u64) {
    page[0].set(PHASE, phase);
    while page[0].get(STOP) < phase {
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn run(page: Page, count: u64, at_once: u64) {
    page[0].set(THREADS, 1);
    let (mut made, mut stopped) = (0, false);
    while made < count {
        let batch = at_once.min(count - made);
        let spawn =
            |number: u64| thread::spawn(move || (0..calls(number)).for_each(|_| work(&page[1])));
        let threads: Vec<_> = (made..made + batch).map(spawn).collect();
        for thread in threads {
            thread.join().expect("its end");
        }
        made += batch;
        if made >= count / 10 && !stopped {
            stopped = true;
            stop_at(page, 1);
        }
    }
    stop_at(page, 2);
}
