//! A plug-in with traced functions and with its own copy of the recorder's API. It exports C functions
//! and knows nothing about who loads it.

#[path = "../programs/stepped.rs"]
mod stepped;

use fdr::sync::Mutex;
use fdr::traced;
use fdr_tests::support::waiter::Waiter;

static LOCK: Mutex<u64> = Mutex::named("of the plug-in", 0);

#[traced(untimed)]
fn inner(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

/// Two calls of traced functions, this one included.
// SAFETY: no other function of a host or plug-in has this name.
#[unsafe(no_mangle)]
#[traced]
pub extern "C" fn plugin_work(number: u64) -> u64 {
    inner(number) * 2
}

#[traced]
fn holds(waiter: &Waiter) {
    waiter.sleeps();
}

/// Has a thread wait for a lock that this one holds, in a traced function. Returns how often it was taken.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_wait() -> u64 {
    let Ok(mut held) = LOCK.lock() else { return 0 };
    let waiter = Waiter::default();
    let theirs = waiter.clone();
    let thread = std::thread::spawn(move || {
        theirs.begins();
        LOCK.lock().map_or(0, |mut count| {
            *count += 1;
            *count
        })
    });
    holds(&waiter);
    *held += 1;
    drop(held);
    thread.join().unwrap_or(0)
}

/// Dumps; returns how many records the file has, 0 for an error.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_dump() -> u64 {
    fdr::dump().map_or(0, |dump| dump.records)
}

/// Dumps to a writer, and writes that to the file `handed`; returns how many records it has, 0 for an error.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_handed() -> u64 {
    let mut body = Vec::new();
    let records = fdr::dump_to(&mut body).map_or(0, |dump| dump.records);
    std::fs::write("handed", body).map_or(0, |()| records)
}

/// Turns recording on; returns how many functions are on, 0 for an error.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_enable() -> u64 {
    fdr::enable().map_or(0, |on| on as u64)
}

/// Records that all threads asked for so far, by the plug-in's own copy of the API.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_recorded() -> u64 {
    fdr::statistics()
        .threads
        .iter()
        .map(|thread| thread.recorded)
        .sum()
}

/// Makes its calls one instruction at a time, see `stepped`; with `STEPPED=events` events, too.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_stepped() -> u64 {
    match std::env::var("STEPPED").as_deref() {
        Ok(side_work) => stepped::main(&["1", "1", side_work]),
        Err(_) => stepped::main(&["1", "7"]),
    }
    0
}

/// Makes a span and an event of `tracing`, of which the plug-in has its own copy, too.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_spans() -> u64 {
    let _ = fdr_tracing::init();
    let span = tracing::info_span!("plugged in", number = 1);
    span.in_scope(|| tracing::info!("inside"));
    0
}
