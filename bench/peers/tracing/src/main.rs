//! tracing: an attribute that makes a span. Modes: `fmt` (a line of text at entry and at exit, to a writer that
//! discards the bytes), `chrome` (events for Chrome's viewer, to the same writer), `off` (no subscriber).

use std::process::ExitCode;
use std::sync::Mutex;

use peer_harness::{Counter, Peer, RecordedSize, Result, twin, untraced};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[tracing::instrument(skip_all)]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(traced, traced);

struct Tracing {
    on: bool,
    sink: Counter,
    chrome: Mutex<Option<FlushGuard>>,
}

impl Peer for Tracing {
    fn settle(&self) {
        if let Ok(Some(guard)) = self.chrome.lock().as_deref() {
            guard.flush();
        }
    }

    fn finish(&self) -> Result<RecordedSize> {
        // Dropping the guard ends the writer's thread.
        let guard = self.chrome.lock().ok().and_then(|mut guard| guard.take());
        drop(guard);
        Ok(RecordedSize {
            bytes: self.on.then(|| self.sink.bytes()),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Tracing> {
    let sink = Counter::default();
    let mut chrome = None;
    match mode {
        "fmt" => {
            let to = sink.clone();
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(move || to.clone())
                .with_span_events(FmtSpan::ENTER | FmtSpan::EXIT)
                .init();
        }
        "chrome" => {
            let builder = ChromeLayerBuilder::new().writer(sink.clone());
            let (layer, guard) = builder.include_args(false).build();
            tracing_subscriber::registry().with(layer).init();
            chrome = Some(guard);
        }
        "off" => {}
        _ => return Err(format!("unknown mode {mode}: fmt, chrome or off")),
    }
    Ok(Tracing {
        on: mode != "off",
        sink,
        chrome: Mutex::new(chrome),
    })
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
