//! A program that uses `tracing`, and one line that brings its spans and events into the trace.
//!
//! ```sh
//! FDR=1 cargo run --release -p fdr-examples --example tracing_layer
//! fdr report --tasks tracing_layer.*.fdr
//! ```

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tracing::{Instrument, debug, info, info_span, instrument, warn};

#[instrument]
fn load(path: &str, attempt: u32) -> Result<usize, io::Error> {
    if attempt == 0 {
        let error = io::Error::from(io::ErrorKind::TimedOut);
        warn!(error = &error as &dyn std::error::Error, "the disk is slow");
        return Err(error);
    }
    debug!(bytes = path.len(), "loaded");
    Ok(path.len())
}

#[instrument(skip_all, fields(id, answer))]
async fn request(id: u64) -> usize {
    let span = tracing::Span::current();
    span.record("id", id);
    let mut answer = 0;
    for attempt in 0..2 {
        answer = load("/etc/hosts", attempt).unwrap_or(answer);
        Later(false).await;
    }
    span.record("answer", answer);
    answer
}

/// Is ready when it is polled again.
struct Later(bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn main() {
    fdr_tracing::init();
    let mut requests: Vec<_> = (0..10)
        .map(|id| Box::pin(request(id).instrument(info_span!("connection", id))))
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    while !requests.is_empty() {
        requests.retain_mut(|request| request.as_mut().poll(&mut context).is_pending());
    }
    info!("all requests are answered");
}
