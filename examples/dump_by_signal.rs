//! A dump while the program runs: a server that never ends leaves a trace whenever it is asked to.
//!
//! ```text
//! FDR=1 target/release/examples/dump_by_signal        # prints its process id
//! kill -USR2 PID                                      # from another terminal, as often as you like
//! ```
//!
//! So that it can be tried alone, it sends itself the signal three times and ends. Nothing pauses
//! meanwhile: a thread of the recorder copies the rings, the workers go on.

use std::error::Error;
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fdr::traced;

#[traced]
fn request(number: u64) -> u64 {
    (0..200).fold(number, |hash, step| {
        (hash ^ step).wrapping_mul(0x0100_0000_01B3)
    })
}

#[traced]
fn serve(stop: &AtomicBool) -> u64 {
    let mut served = 0;
    // Relaxed: the flag carries nothing but itself.
    while !stop.load(Ordering::Relaxed) {
        std::hint::black_box(request(served));
        served += 1;
    }
    served
}

/// Sends this process SIGUSR2, as a person would from a shell.
fn ask_for_a_dump() -> Result<(), Box<dyn Error>> {
    let kill = format!("kill -USR2 {}", process::id());
    let status = Command::new("sh").args(["-c", &kill]).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{kill}`: {status}").into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Without the recorder the signal has no handler, and would end the program.
    let recording = fdr::is_enabled();
    println!(
        "process {}; to dump: kill -USR2 {}",
        process::id(),
        process::id()
    );
    let stop = AtomicBool::new(false);
    let (served, asked) = thread::scope(|scope| {
        let workers = [scope.spawn(|| serve(&stop)), scope.spawn(|| serve(&stop))];
        let asked = (0..3).try_for_each(|_| {
            thread::sleep(Duration::from_millis(200));
            if recording { ask_for_a_dump() } else { Ok(()) }
        });
        stop.store(true, Ordering::Relaxed);
        let served: u64 = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or(0))
            .sum();
        (served, asked)
    });
    asked?;
    println!("served {served} requests");
    if !recording {
        println!("nothing was recorded: run it with FDR=1");
    }
    Ok(())
}
