//! A service on tokio: `tokio_tasks one|many [TASKS WORK]`, on the runtime of one thread or that of many. With a number of
//! tasks, see [`load`]. Each request is spawned, waits, and asks twice beside. Each tenth one is cancelled by a timeout,
//! and each hundredth one is aborted.

mod load;

use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

const REQUESTS: u64 = 1_000;

#[fdr::traced]
async fn serve() -> (u64, u64) {
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let handle = requests.spawn(fdr::spawned(request(number)));
        if number % 100 == 1 {
            // It has perhaps begun, and waits for a time that does not come.
            yield_now().await;
            handle.abort();
        }
    }
    let (mut done, mut late) = (0, 0);
    while let Some(ended) = requests.join_next().await {
        match ended {
            Ok(true) => done += 1,
            Ok(false) => late += 1,
            Err(error) => assert!(error.is_cancelled()),
        }
    }
    (done, late)
}

/// Whether it was in time.
#[fdr::traced]
async fn request(number: u64) -> bool {
    if number % 100 == 1 {
        std::future::pending::<()>().await;
    }
    if number % 10 == 0 {
        return timeout(Duration::from_millis(1), slow()).await.is_ok();
    }
    let (one, two) = tokio::join!(ask(number), ask(number + 1));
    one + two > 0
}

#[fdr::traced]
async fn ask(number: u64) -> u64 {
    yield_now().await;
    number
}

#[fdr::traced]
async fn slow() {
    sleep(Duration::from_secs(3_600)).await;
}

fn main() {
    let runtime = match std::env::args().nth(1).as_deref() {
        Some("one") => tokio::runtime::Builder::new_current_thread().enable_time().build(),
        _ => tokio::runtime::Builder::new_multi_thread().enable_time().build(),
    };
    let runtime = runtime.expect("a runtime");
    let number = |at| std::env::args().nth(at).and_then(|word| word.parse().ok());
    if let Some(tasks) = number(2) {
        // Both cores poll: the thread of `block_on` is none of the workers.
        return runtime.block_on(load::run(tasks, number(3).unwrap_or(0)));
    }
    let (done, late) = runtime.block_on(serve());
    println!("{done} {late}");
}
