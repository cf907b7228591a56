//! A program that prints nothing. It makes a wave of calls for each line of its input. With the argument `waves` it
//! makes N waves instead. After each wave it appends `wave THREADS CALLS RECORDS`, its own counts, to the file of its
//! first argument. `streamer FILE THREADS CALLS [waves N | handler]`.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use fdr::traced;
use fdr_tests::programs::threads::spawn;
use fdr_tests::support::facts;

static CALLS: AtomicU64 = AtomicU64::new(0);

#[traced]
fn inner(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

#[traced]
fn outer(number: u64) -> u64 {
    inner(number) * 2
}

/// Makes `calls` calls, half of them of each function.
fn work(calls: u64) {
    (0..calls / 2).for_each(|number| {
        std::hint::black_box(outer(number));
    });
    CALLS.fetch_add(calls / 2 * 2, Ordering::Relaxed);
}

/// Ends the process in the midst of whatever it interrupts.
extern "C" fn on_signal(_: i32) {
    std::process::exit(7);
}

fn wave(path: &str, threads: u64, calls: u64) {
    let wave = |number| spawn(&format!("wave-{number}"), move || work(calls));
    let threads: Vec<_> = (0..threads).map(wave).collect();
    let count = threads.len();
    for thread in threads {
        thread.join().expect("its end");
    }
    let calls = CALLS.load(Ordering::Relaxed);
    let file = OpenOptions::new().append(true).create(true).open(path);
    let mut file = file.expect("the file for its counts");
    writeln!(file, "wave {count} {calls} {}", 2 * calls).expect("its counts");
}

pub(crate) fn main(words: &[&str]) {
    let [path, threads, calls, rest @ ..] = words else {
        panic!("streamer FILE THREADS CALLS");
    };
    let (threads, calls) = (facts::number(threads), facts::number(calls));
    match rest {
        ["waves", waves] => {
            for _ in 0..facts::number::<u64>(waves) {
                wave(path, threads, calls);
            }
        }
        ["handler"] => {
            // SAFETY: a plain function of the right ABI; what it does is the test's business.
            unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as usize) };
            wave(path, threads, calls);
            loop {
                work(1000);
            }
        }
        _ => {
            let mut line = String::new();
            while std::io::stdin().read_line(&mut line).expect("its input") > 0 {
                wave(path, threads, calls);
                if line.trim() == "dump" {
                    let dump = fdr::dump().expect("it streams");
                    let file = OpenOptions::new().append(true).open(path);
                    let words = format!("dump {} {}", dump.records, dump.path.display());
                    writeln!(file.expect("the file"), "{words}").expect("its words");
                }
                line.clear();
            }
        }
    }
}
