//! A yardstick: a traced function that sleeps 10 ms, called 100 times. `fdr report` must say 10 ms
//! a call, whichever clock is chosen:
//!
//! ```text
//! FDR=1 FDR_CLOCK=monotonic target/release/examples/sleeper
//! ```

use std::time::Duration;

use fdr::traced;

#[traced]
fn sleep_10_ms() {
    std::thread::sleep(Duration::from_millis(10));
}

#[traced]
fn sleep_often(times: u32) {
    for _ in 0..times {
        sleep_10_ms();
    }
}

fn main() {
    sleep_often(100);
    println!("slept 100 times 10 ms");
}
