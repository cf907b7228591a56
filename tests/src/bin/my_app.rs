//! The program that the documentation calls `my_app`. It handles a hundred requests, and more until its input ends if it
//! was started with `serve`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fdr::traced;

static IS_OVER: AtomicBool = AtomicBool::new(false);

mod db {
    use std::time::Duration;

    #[fdr::traced]
    pub(super) fn query(request: u64) -> u64 {
        std::thread::sleep(Duration::from_millis(1));
        request ^ 1
    }
}

#[traced(args(request))]
fn handle(request: u64) -> u64 {
    if request == 50 {
        thread::sleep(Duration::from_millis(60));
    }
    db::query(request)
}

fn work(serves: bool) {
    let mut request = 0;
    while request < 100 || serves && !IS_OVER.load(Ordering::Relaxed) {
        std::hint::black_box(handle(request));
        request += 1;
    }
}

fn main() -> io::Result<()> {
    let serves = std::env::args().any(|word| word == "serve");
    let workers: Vec<_> = (1..=2)
        .map(|number| {
            let worker = thread::Builder::new().name(format!("worker-{number}"));
            worker.spawn(move || work(serves))
        })
        .collect::<io::Result<_>>()?;
    if serves {
        println!("ready");
        io::copy(&mut io::stdin(), &mut io::sink())?;
        IS_OVER.store(true, Ordering::Relaxed);
    }
    for worker in workers {
        worker
            .join()
            .map_err(|_| io::Error::other("a worker has panicked"))?;
    }
    Ok(())
}
