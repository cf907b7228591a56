//! Events, a counter and spans: what a program says beside its calls, in the same trace.
//!
//! ```text
//! cargo build --release -p fdr-examples --example queue
//! FDR=1 target/release/examples/queue              # leaves queue.PID.1.fdr
//! fdr report queue.*.fdr                           # calls; events and counters below
//! fdr replay --records --filter 'queue::rejected' queue.*.fdr
//! ```
//!
//! An argument is the number of requests.

use std::collections::VecDeque;

use fdr::traced;

/// More may not wait.
const ROOM: usize = 8;

struct Request {
    id: u64,
    path: String,
}

#[derive(Default)]
struct Server {
    waiting: VecDeque<Request>,
    bytes: u64,
    rejected: u64,
}

impl Server {
    #[traced]
    fn accept(&mut self, request: Request) {
        if self.waiting.len() == ROOM {
            self.rejected += 1;
            fdr::event!(warn: "rejected", id = request.id, path = request.path);
            return;
        }
        self.waiting.push_back(request);
        fdr::gauge!("waiting", self.waiting.len());
    }

    #[traced]
    fn answer(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            // A call without a function; it ends with the value.
            let _span = fdr::span!("render", id = request.id);
            self.bytes += request.path.bytes().map(u64::from).sum::<u64>();
            fdr::gauge!("waiting", self.waiting.len());
        }
    }
}

fn main() {
    let requests = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let mut server = Server::default();
    for id in 0..requests.unwrap_or(100) {
        let path = format!("/item/{id}");
        server.accept(Request { id, path });
        if id % 10 == 9 {
            server.answer();
        }
    }
    println!("{} bytes, {} rejected", server.bytes, server.rejected);
}
