//! Eight rows of threads, or as many as asked for. In a row, one thread follows the other. They record without a pause
//! until the page says to stop, or until the process is ended.

use std::thread;

use fdr_tests::programs::page::Page;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{PHASE, STOP};

use crate::walk;

/// Threads of up to `calls` calls; 0 = without end.
pub(crate) fn run(page: Page, seed: u64, lanes: u64, calls: u64) {
    thread::scope(|scope| {
        for lane in 0..lanes {
            scope.spawn(move || {
                let mut random = Random::new(seed.wrapping_add(lane));
                while page[0].get(STOP) == 0 {
                    let Some(number) = walk::next_number(page) else {
                        break;
                    };
                    let calls = match calls {
                        0 => u64::MAX,
                        most => 1 + random.below(most),
                    };
                    let thread = walk::spawn(page, seed, number, calls, || ());
                    thread.join().expect("its end");
                }
            });
        }
        page[0].set(PHASE, 1);
    });
    page[0].set(PHASE, 2);
}
