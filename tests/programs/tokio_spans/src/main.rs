//! A service on tokio that uses `tracing`: `tokio_spans one|many [layer]`, on the runtime of one thread or that of many,
//! with the subscriber or with the layer. Each request is spawned, waits, and asks twice beside. Each tenth one is
//! cancelled by a timeout.

use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tracing::{Instrument, info, info_span, instrument};
use tracing_subscriber::prelude::*;

const REQUESTS: u64 = 1_000;

#[instrument]
async fn serve() -> (u64, u64) {
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        requests.spawn(request(number).instrument(info_span!("request", number)));
    }
    let (mut done, mut late) = (0, 0);
    while let Some(ended) = requests.join_next().await {
        match ended.expect("no panic") {
            true => done += 1,
            false => late += 1,
        }
    }
    (done, late)
}

/// Whether it was in time.
async fn request(number: u64) -> bool {
    if number % 10 == 0 {
        return timeout(Duration::from_millis(1), slow()).await.is_ok();
    }
    let (one, two) = tokio::join!(ask(number), ask(number + 1));
    info!(one, two, "asked");
    one + two > 0
}

#[instrument]
async fn ask(number: u64) -> u64 {
    yield_now().await;
    number
}

#[instrument]
async fn slow() {
    sleep(Duration::from_secs(3_600)).await;
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.len() {
        1 => assert!(fdr_tracing::init()),
        _ => tracing_subscriber::registry().with(fdr_tracing::layer()).init(),
    }
    let runtime = match words[0].as_str() {
        "one" => tokio::runtime::Builder::new_current_thread().enable_time().build(),
        _ => tokio::runtime::Builder::new_multi_thread().enable_time().build(),
    };
    let (done, late) = runtime.expect("a runtime").block_on(serve());
    println!("{done} {late}");
}
