//! hotpath: an attribute, and a report of sums and percentiles at the end; there is no trace. Mode: `on`.

use std::fs;
use std::process::ExitCode;
use std::sync::Mutex;

use hotpath::{HotpathGuard, HotpathGuardBuilder};
use peer_harness::{Peer, RecordedSize, Result, folder, twin, untraced};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[hotpath::measure]
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(traced, traced);

struct Hotpath(Mutex<Option<HotpathGuard>>);

impl Peer for Hotpath {
    fn finish(&self) -> Result<RecordedSize> {
        // Dropping the guard writes the report.
        let guard = self.0.lock().ok().and_then(|mut guard| guard.take());
        drop(guard);
        let path = folder()?.join("report");
        let report = fs::read_to_string(&path).map_err(|error| format!("no report: {error}"))?;
        if !report.contains("leaf") && !report.contains("fib") && !report.contains("stem") {
            return Err(format!(
                "the report names no function of the work: {report}"
            ));
        }
        Ok(RecordedSize::default())
    }
}

fn start(mode: &str) -> Result<Hotpath> {
    if mode != "on" {
        return Err(format!("unknown mode {mode}: on"));
    }
    let path = folder()?.join("report");
    let guard = HotpathGuardBuilder::new("main").output_path(&path).build();
    Ok(Hotpath(Mutex::new(Some(guard))))
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
