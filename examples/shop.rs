//! The program of the tutorial: most requests take a microsecond, and a few take a third of a second. Why?
//!
//! ```text
//! FDR=1 target/release/examples/shop
//! fdr slow shop.*.fdr
//! ```
//!
//! With `use fdr::sync::Mutex` in place of the standard library's, the trace names the lock and its holder.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fdr::traced;

static PRICES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

const WORKERS: u64 = 4;
const REQUESTS: u64 = 2500;

/// Answers one request.
#[traced]
fn handle(request: u64) -> u64 {
    let price = look_up(request);
    render(price)
}

#[traced]
fn look_up(request: u64) -> u64 {
    let mut prices = PRICES.lock().unwrap();
    if prices.is_empty() || request == 7_000 {
        *prices = load();
    }
    prices[request as usize % prices.len()]
}

/// Asks the database, which takes its time.
#[traced]
fn load() -> Vec<u64> {
    thread::sleep(Duration::from_millis(150));
    (1..1000).collect()
}

fn render(price: u64) -> u64 {
    (0..300).fold(price, |page, line| std::hint::black_box(page ^ line))
}

/// The requests of one thread.
#[traced]
fn serve(worker: u64) -> usize {
    let requests = worker * REQUESTS..(worker + 1) * REQUESTS;
    let pages: Vec<u64> = requests.map(handle).collect();
    pages.len()
}

fn main() {
    let spawn = |worker: u64| {
        let thread = thread::Builder::new().name(format!("worker-{worker}"));
        thread.spawn(move || serve(worker)).expect("a thread")
    };
    let workers: Vec<_> = (0..WORKERS).map(spawn).collect();
    let answered = workers
        .into_iter()
        .map(|worker| worker.join().expect("its number"));
    println!("answered {} requests", answered.sum::<usize>());
}
