//! measureme, used as rustc uses it: a profiler that all threads share, labels made beforehand, and a guard
//! at the head of each function. Mode: `on`.

use std::fs;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use measureme::{EventId, Profiler, StringId, TimingGuard};
use peer_harness::{Peer, RecordedSize, Result, folder, twin, untraced};

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            let _guard = $crate::recorder().map(|recorder| recorder.start(recorder.$name));
            $($body)*
        }
    };
}

twin!(traced, traced);

/// The profiler and its labels.
struct Recorder {
    profiler: Profiler,
    kind: StringId,
    leaf: EventId,
    fib: EventId,
    document: EventId,
    line: EventId,
    stem: EventId,
    insert: EventId,
    chain: EventId,
}

static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(ptr::null_mut());
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
}

impl Recorder {
    fn new(stem: &std::path::Path) -> Result<Recorder> {
        let profiler = Profiler::new(stem).map_err(|error| format!("no profiler: {error}"))?;
        let label = |name: &str| EventId::from_label(profiler.alloc_string(name));
        Ok(Recorder {
            kind: profiler.alloc_string("Function"),
            leaf: label("leaf"),
            fib: label("fib"),
            document: label("document"),
            line: label("line"),
            stem: label("stem"),
            insert: label("insert"),
            chain: label("chain"),
            profiler,
        })
    }

    #[inline(never)]
    fn start(&self, label: EventId) -> TimingGuard<'_> {
        let thread = THREAD.with(|thread| *thread);
        self.profiler
            .start_recording_interval_event(self.kind, label, thread)
    }
}

#[inline(always)]
fn recorder() -> Option<&'static Recorder> {
    // SAFETY: null, or a box that is made before the first call of a traced function, and freed after the last.
    unsafe { RECORDER.load(Ordering::Relaxed).as_ref() }
}

struct Measureme;

impl Peer for Measureme {
    fn finish(&self) -> Result<RecordedSize> {
        let recorder = RECORDER.swap(ptr::null_mut(), Ordering::AcqRel);
        if !recorder.is_null() {
            // SAFETY: made by `into_raw` below, taken once, and no traced function runs any more. Dropping the
            // profiler writes what it has buffered.
            drop(unsafe { Box::from_raw(recorder) });
        }
        let path = folder()?.join("events.mm_profdata");
        let bytes = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(RecordedSize {
            bytes: Some(bytes.len()),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Measureme> {
    if mode != "on" {
        return Err(format!("unknown mode {mode}: on"));
    }
    let recorder = Box::new(Recorder::new(&folder()?.join("events"))?);
    RECORDER.store(Box::into_raw(recorder), Ordering::Release);
    Ok(Measureme)
}

fn main() -> ExitCode {
    peer_harness::main([untraced::batch, traced::batch], start)
}
