//! What every format's reader stands on, without any format: the window over a file, and lanes
//! decoded on several threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crate::common::CountingBytes;
use fdr_formats::bytes::Window;
use fdr_formats::source::{Record, drive_parallel};
use fdr_formats::{Call, Diagnostic, Error, Mark, Sink, Source, Thread, TraceInfo};

#[test]
fn a_window_is_no_larger_than_its_file() {
    let count = Arc::new(AtomicU64::new(0));
    let bytes = CountingBytes((0..10).collect(), Arc::clone(&count));
    let mut window = Window::new(&bytes, 1 << 20);
    let view = window.at(2, 4, u64::MAX).expect("memory can be read");
    assert_eq!(view, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(
        count.load(Ordering::Relaxed),
        10,
        "asked for the file's size"
    );
    assert!(window.holds(2, 8) && window.holds(9, 1));
    assert!(!window.holds(2, 9) && !window.holds(1, 1) && !window.holds(u64::MAX, 1));
}

/// A hundred lanes, the first of which can't be read.
struct Broken {
    info: TraceInfo,
    decoded: AtomicUsize,
    /// Both workers have a lane.
    started: Barrier,
    /// The worker that failed has dropped its sink.
    stopped: Arc<Barrier>,
}

/// Holds its worker at the end where that worker failed.
struct Worker {
    failed: bool,
    stopped: Arc<Barrier>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.failed {
            self.stopped.wait();
        }
    }
}

impl Sink for Worker {
    fn thread(&mut self, _: &Thread) {
        self.failed = true;
    }
    fn calls(&mut self, _: &[Call]) {}
    fn mark(&mut self, _: &Mark<'_>) {}
    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Source for Broken {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        100
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        // The first two are the largest, so that they are taken first.
        100 - lane as u64
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        _: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        if lane < 2 {
            self.started.wait();
        }
        match lane {
            0 => {
                sink.thread(&Thread::default());
                Err(Error::format(7, "the first lane is broken"))
            }
            1 => {
                self.stopped.wait();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn records(&self, _: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn an_error_of_one_worker_stops_the_others() {
    let broken = Broken {
        info: TraceInfo::default(),
        decoded: AtomicUsize::new(0),
        started: Barrier::new(2),
        stopped: Arc::new(Barrier::new(2)),
    };
    let worker = || Worker {
        failed: false,
        stopped: Arc::clone(&broken.stopped),
    };
    let error = drive_parallel(&broken, 2, worker, &|_| {}).err();
    let error = error.expect("a lane is broken").to_string();
    assert!(error.contains("the first lane is broken"), "{error}");
    assert_eq!(broken.decoded.into_inner(), 2, "lanes that were begun");
}
