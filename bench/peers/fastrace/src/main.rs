//! fastrace: an attribute, a root span around each batch, and a reporter. Modes: `local` (spans are collected
//! on their own thread and dropped there), `report` (they go to the reporter's thread).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::local::LocalCollector;
use fastrace::prelude::{Span, SpanContext};
use peer_harness::{Peer, RecordedSize, Result, twin, untraced};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[fastrace::trace]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(traced, traced);

/// Spans that came out, those around batches too.
#[derive(Default)]
struct Counts {
    spans: AtomicU64,
    batches: AtomicU64,
}

struct Counting(Arc<Counts>);

impl Reporter for Counting {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let spans = spans.len() as u64;
        self.0.spans.fetch_add(spans, Ordering::Relaxed);
    }
}

/// With a reporter: what it counts.
struct Fastrace(Option<Arc<Counts>>);

impl Peer for Fastrace {
    // Some 5,000 calls: of more than 10,240 in one local span, the rest would be dropped.
    fn batch(&self, calls: &mut dyn FnMut()) {
        if let Some(counts) = &self.0 {
            counts.batches.fetch_add(1, Ordering::Relaxed);
            let root = Span::root("batch", SpanContext::random());
            let _guard = root.set_local_parent();
            calls();
        } else {
            let collector = LocalCollector::start();
            calls();
            drop(std::hint::black_box(collector.collect()));
        }
    }

    fn settle(&self) {
        fastrace::flush();
    }

    fn finish(&self) -> Result<RecordedSize> {
        fastrace::flush();
        let calls = self.0.as_ref().map(|counts| {
            let spans = counts.spans.load(Ordering::Relaxed);
            spans.saturating_sub(counts.batches.load(Ordering::Relaxed))
        });
        Ok(RecordedSize { bytes: None, calls })
    }
}

fn start(mode: &str) -> Result<Fastrace> {
    match mode {
        "local" => Ok(Fastrace(None)),
        "report" => {
            let counts = Arc::new(Counts::default());
            fastrace::set_reporter(Counting(counts.clone()), Config::default());
            Ok(Fastrace(Some(counts)))
        }
        _ => Err(format!("unknown mode {mode}: local or report")),
    }
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
