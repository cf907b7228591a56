//! HawkTracer's library through its Rust crate: an attribute with a name, and a listener that writes a file.
//! Mode: `on`.

use std::fs;
use std::process::ExitCode;

use peer_harness::{Peer, RecordedSize, Result, folder, twin, untraced};
use rust_hawktracer::{HawktracerInstance, HawktracerListenerType};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[rust_hawktracer::hawktracer($name)]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            // What the attribute puts here names these without a path.
            use rust_hawktracer::{ScopedTracepoint, add_cached_mapping};
            $($body)*
        }
    };
}

twin!(traced, traced);

const FILE: &str = "events.htdump";
/// Of the listener, in bytes: the size in the crate's own examples.
const BUFFER: usize = 4096;

struct Hawktracer;

impl Peer for Hawktracer {
    fn finish(&self) -> Result<RecordedSize> {
        let path = folder()?.join(FILE);
        let file = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Less what the listener's buffer holds.
        Ok(RecordedSize {
            bytes: Some(file.len()),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Hawktracer> {
    if mode != "on" {
        return Err(format!("unknown mode {mode}: on"));
    }
    // They cannot be shared with the measured threads, and must outlive them.
    let instance = Box::leak(Box::new(HawktracerInstance::new()));
    let listener = instance.create_listener(HawktracerListenerType::ToFile {
        file_path: folder()?.join(FILE),
        buffer_size: BUFFER,
    });
    std::mem::forget(listener);
    Ok(Hawktracer)
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
