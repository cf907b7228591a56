//! The shortest story: one attribute per function. Run it twice, and look at what it did:
//!
//! ```text
//! cargo build --release -p fdr-examples --example quickstart
//! target/release/examples/quickstart                  # nothing is recorded
//! FDR=1 target/release/examples/quickstart            # leaves quickstart.PID.1.fdr
//! fdr report quickstart.*.fdr
//! ```

use fdr::traced;

#[traced]
fn collatz(start: u64) -> u32 {
    let (mut n, mut steps) = (start, 0);
    while n != 1 {
        // Rust 1.85 has no `is_multiple_of`.
        n = match n % 2 {
            0 => n / 2,
            _ => 3 * n + 1,
        };
        steps += 1;
    }
    steps
}

#[traced]
fn longest(below: u64) -> Option<(u64, u32)> {
    (1..below)
        .map(|start| (start, collatz(start)))
        .max_by_key(|&(_, steps)| steps)
}

fn main() {
    if let Some((start, steps)) = longest(20_000) {
        println!("{start} takes {steps} steps");
    }
}
