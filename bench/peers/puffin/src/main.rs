//! puffin: a scope at the head of each function, a frame for each batch, and a sink that takes the frames.
//! Mode: `on`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peer_harness::{Peer, RecordedSize, Result, twin, untraced};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            puffin::profile_function!();
            $($body)*
        }
    };
}

twin!(traced, traced);

#[derive(Default)]
struct Puffin {
    bytes: Arc<AtomicU64>,
    scopes: Arc<AtomicU64>,
    batches: AtomicU64,
}

impl Peer for Puffin {
    fn batch(&self, calls: &mut dyn FnMut()) {
        {
            // As in a program with frames: a scope that nothing is around goes through a global lock.
            puffin::profile_scope!("batch");
            self.batches.fetch_add(1, Ordering::Relaxed);
            calls();
        }
        puffin::GlobalProfiler::lock().new_frame();
    }

    fn finish(&self) -> Result<RecordedSize> {
        puffin::GlobalProfiler::lock().new_frame();
        let scopes = self.scopes.load(Ordering::Relaxed);
        Ok(RecordedSize {
            bytes: Some(self.bytes.load(Ordering::Relaxed)),
            calls: Some(scopes.saturating_sub(self.batches.load(Ordering::Relaxed))),
        })
    }
}

fn start(mode: &str) -> Result<Puffin> {
    if mode != "on" {
        return Err(format!("unknown mode {mode}: on"));
    }
    let puffin = Puffin::default();
    let (bytes, scopes) = (puffin.bytes.clone(), puffin.scopes.clone());
    puffin::GlobalProfiler::lock().add_sink(Box::new(move |frame| {
        bytes.fetch_add(frame.meta().num_bytes as u64, Ordering::Relaxed);
        scopes.fetch_add(frame.meta().num_scopes as u64, Ordering::Relaxed);
    }));
    puffin::set_scopes_on(true);
    Ok(puffin)
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
