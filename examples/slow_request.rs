//! A trigger: a server whose requests are quick, except for one that makes others wait. Its trace is written because of
//! a slow request, names it and points to it. `fdr state` shows what all threads were in while it waited.
//!
//! ```text
//! FDR=1 FDR_TRIGGER='slow_request::handle>50ms +100ms' target/release/examples/slow_request
//! fdr info slow_request.*.fdr
//! fdr state slow_request.*.fdr --at 100ms
//! ```

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fdr::traced;

/// What all requests share.
static TABLE: Mutex<u64> = Mutex::new(0);

/// Answers one request.
#[traced]
fn handle(request: u64) -> u64 {
    let row = look_up(request);
    render(row)
}

#[traced]
fn look_up(request: u64) -> u64 {
    let mut table = TABLE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if request == 700 {
        // This thread holds the lock of the table, so all other requests wait.
        rebuild();
    }
    *table += request;
    *table
}

#[traced]
fn rebuild() {
    thread::sleep(Duration::from_millis(150));
}

#[traced]
fn render(row: u64) -> u64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[traced]
fn serve(first: u64) -> u64 {
    let requests = (first..1_000).step_by(4);
    requests.fold(0, |sum, request| sum ^ handle(request))
}

fn main() {
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || serve(first));
        }
    });
    println!("served 1000 requests");
}
