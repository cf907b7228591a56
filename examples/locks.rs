//! Locks whose waits are recorded: how long threads waited, and what the holder was in meanwhile.
//!
//! ```text
//! cargo build --release -p fdr-examples --example locks
//! FDR=1 target/release/examples/locks              # leaves locks.PID.1.fdr
//! fdr report locks.*.fdr                           # calls; waits below
//! FDR=1 target/release/examples/locks deadlock &   # two threads wait for each other
//! fdr state locks.*.fdr-ring
//! ```

use std::thread;
use std::time::Duration;

use fdr::sync::mpsc;
use fdr::sync::{Arc, Mutex};
use fdr::traced;

/// Lines in memory, which are written to a slow disk from time to time.
struct Journal {
    lines: Mutex<Vec<String>>,
    written: Mutex<usize>,
}

impl Journal {
    #[traced]
    fn append(&self, line: String) {
        let mut lines = self.lines.lock().expect("no panic");
        lines.push(line);
        if lines.len().is_multiple_of(50) {
            // The mistake: all others wait for the disk, too.
            self.flush(&mut lines);
        }
    }

    #[traced]
    fn flush(&self, lines: &mut Vec<String>) {
        *self.written.lock().expect("no panic") += lines.len();
        lines.clear();
        write();
    }

    /// Takes the locks in the other order.
    #[traced]
    fn audit(&self) -> usize {
        let written = self.written.lock().expect("no panic");
        write();
        *written + self.lines.lock().expect("no panic").len()
    }
}

#[traced]
fn write() {
    thread::sleep(Duration::from_millis(10));
}

#[traced]
fn serve(requests: &mpsc::Receiver<u32>, journal: &Journal) -> u32 {
    let mut served = 0;
    for request in requests {
        journal.append(format!("request {request}"));
        served += 1;
    }
    served
}

fn main() {
    let journal = Arc::new(Journal {
        lines: Mutex::named("lines", Vec::new()),
        written: Mutex::named("written", 0),
    });
    if std::env::args().nth(1).as_deref() == Some("deadlock") {
        let ours = Arc::clone(&journal);
        thread::spawn(move || {
            loop {
                ours.append("a line".to_owned());
            }
        });
        loop {
            journal.audit();
        }
    }
    let workers = (0..4).map(|_| {
        let (sender, requests) = mpsc::sync_channel(8);
        let journal = Arc::clone(&journal);
        (sender, thread::spawn(move || serve(&requests, &journal)))
    });
    let workers: Vec<_> = workers.collect();
    for request in 0..400 {
        let (sender, _) = &workers[request as usize % workers.len()];
        sender.send(request).expect("a worker");
    }
    let served = workers.into_iter().map(|(sender, worker)| {
        drop(sender);
        worker.join().expect("no panic")
    });
    let served: u32 = served.sum();
    println!("served {served} requests, {} lines in all", journal.audit());
}
