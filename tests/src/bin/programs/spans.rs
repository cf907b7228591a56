//! Spans and events of `tracing`, of every kind. Tests record it and look at the trace.
//!
//! ```text
//! spans kinds | harm | tasks | fields | threads | late | destructors | layers | many COUNT | cut | killed | forks [kill]
//! ```
//! `harm`: values that panic and values that make events, and names from anybody. `late`: the program turns the recorder
//! on by itself. `layers`: another layer counts what it sees. `forks [kill]`: the child has a span that its parent has not.

use std::error::Error;
use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use fdr_tests::programs::futures::{Waits, finish, poll};
use fdr_tests::programs::threads::{self, kill_process};
use fdr_tests::support::facts;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Subscriber;
use tracing::{
    Instrument, Level, Span, debug, error, event, info, info_span, instrument, span, trace, warn,
};
use tracing_subscriber::layer::Context as LayerContext;
use tracing_subscriber::prelude::*;

/// An error with a source, which may be itself.
#[derive(Debug)]
struct Failed(Option<&'static Failed>);

static OWN_SOURCE: Failed = Failed(Some(&OWN_SOURCE));

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.map(|source| source as _)
    }
}

#[instrument]
fn outer(count: u32) -> u32 {
    (0..count).map(|number| inner(number, "deep")).sum()
}

#[instrument(level = "debug", skip(text), fields(length = text.len()))]
fn inner(number: u32, text: &str) -> u32 {
    trace!("inside");
    number
}

#[fdr::traced]
fn native() {
    info!("inside");
}

/// Makes a span when it is dropped.
struct Last(&'static str);

impl Drop for Last {
    fn drop(&mut self) {
        let span = info_span!("last");
        let _inside = span.enter();
        info!(name = self.0);
    }
}

/// The destructors of a thread's values run before and after those of the recorder's.
fn destructors() {
    thread_local! {
        static EARLY: Last = const { Last("early") };
        static LATE: Last = const { Last("late") };
    }
    let thread = thread::spawn(|| {
        EARLY.with(|_| ());
        info_span!("first").in_scope(|| ());
        LATE.with(|_| ());
    });
    thread.join().expect("its end");
}

fn kinds() {
    trace!(unsigned = 1_u64, signed = -1, "of all types");
    debug!(
        float = 0.5,
        truth = true,
        text = "a \"text\"",
        none = None::<u32>,
        some = Some(3)
    );
    info!(large = u128::MAX, small = i128::MIN, display = %1.5, debug = ?Some(1));
    let error = Failed(Some(&Failed(None)));
    warn!(error = &error as &dyn Error, "with {} values", 1);
    error!(name: "named", target: "spans::elsewhere", error = &OWN_SOURCE as &dyn Error);
    outer(2);
    // Fields that are not known at the beginning.
    let span = info_span!(
        "later",
        first = 1,
        second = tracing::field::Empty,
        third = tracing::field::Empty
    );
    span.record("second", 2);
    span.in_scope(|| {
        span.record("third", "3");
        span.record("no such field", 4);
        info!("inside");
    });
    // The outer span ends first.
    let (first, second) = (
        info_span!("first").entered(),
        info_span!("second").entered(),
    );
    drop(first);
    info!("between");
    drop(second);
    // A traced function among spans.
    info_span!("around").in_scope(native);
    // A span that is never entered.
    info_span!("never entered", number = 1);
    log::warn!(target: "a log", "of {}", "log");
}

/// Panics while it is printed.
struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("so far")?;
        std::panic::resume_unwind(Box::new(Panics));
    }
}

impl Drop for Panics {
    fn drop(&mut self) {}
}

/// Makes a span and events while it is printed.
struct Speaks(u32);

impl fmt::Debug for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _span = info_span!("speaks", depth = self.0).entered();
        if self.0 > 0 {
            info!(again = ?Speaks(self.0 - 1), "spoken");
        }
        f.write_str("spoke")
    }
}

fn harm() {
    info!(before = 1, panics = ?Panics, after = "2");
    info_span!("panics", panics = ?Panics, after = 3).in_scope(|| ());
    info!(speaks = ?Speaks(1));
    info_span!("speaker", speaks = ?Speaks(1)).in_scope(|| info!("inside"));
    event!(name: "a\nb\u{1b}[31m", target: "<t>\u{202e}", Level::INFO, "a\nfield" = "a\0text\n", "\u{1b}[0m");
    info_span!(target: "", "").in_scope(|| ());
    info!(long = "ä".repeat(64 * 1024), after = 7);
    info!(
        a1 = 1,
        a2 = 1,
        a3 = 1,
        a4 = 1,
        a5 = 1,
        a6 = 1,
        a7 = 1,
        a8 = 1,
        a9 = 1,
        a10 = 1,
        a11 = 1,
        a12 = 1,
        a13 = 1,
        a14 = 1,
        a15 = 1,
        a16 = 1,
        a17 = 1,
        a18 = 1,
        a19 = 1,
        a20 = 1,
        a21 = 1,
        a22 = 1,
        a23 = 1,
        a24 = 1,
        a25 = 1,
        a26 = 1,
        a27 = 1,
        a28 = 1,
        a29 = 1,
        a30 = 1,
        a31 = 1,
        a32 = 1,
        a33 = 1
    );
    // More than the recorder keeps for an entry that does not come.
    let span = info_span!("waits", number = 0);
    for number in 1..100 {
        span.record("number", number);
    }
    span.in_scope(|| ());
    let span = info_span!("unwound");
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        span.in_scope(|| std::panic::resume_unwind(Box::new(())));
    }));
    assert!(unwound.is_err());
    // Exits that never come.
    std::mem::forget(info_span!("forgotten").entered());
    info!("at the end");
}

#[instrument]
async fn waits(times: u32) -> u32 {
    Waits(times).await;
    times
}

#[instrument]
async fn parent() {
    // The child is polled outside, as by an executor.
    let child = Waits(1).instrument(info_span!("child"));
    Waits(1).await;
    threads::run("executor", || finish(child));
    waits(1).await;
}

fn tasks() {
    // Each is polled three times, and entered once more to be dropped.
    for _ in 0..20 {
        finish(waits(2));
    }
    finish(parent());
    // One that is dropped while it waits, and one that still waits at the end.
    let mut dropped = Box::pin(Waits(9).instrument(info_span!("dropped")));
    assert!(poll(dropped.as_mut()).is_pending());
    drop(dropped);
    let mut waiting = Box::pin(Waits(9).instrument(info_span!("waiting")));
    assert!(poll(waiting.as_mut()).is_pending());
    assert!(poll(waiting.as_mut()).is_pending());
    std::mem::forget(waiting);
    // Calls: each is entered once.
    (0..20).for_each(|_| info_span!("call").in_scope(|| ()));
}

/// Fields that are known only later: inside of the span, inside of another span, between polls, and behind the last
/// exit. Each is set twice.
fn fields() {
    for id in 0..10_u64 {
        let span = info_span!("request", id, status = Empty, otel.name = Empty);
        span.record("otel.name", format!("GET /item/{id}"));
        span.record("status", 100);
        let mut future = Box::pin(Waits(2).instrument(span.clone()));
        assert!(poll(future.as_mut()).is_pending());
        span.record("status", 100 + id);
        finish(future);
        span.record("status", 200 + id % 2);
    }
    for id in 0..10_u64 {
        let span = info_span!("job", id, status = Empty, size = Empty);
        span.in_scope(|| {
            let pause = if id == 3 { 20 } else { 0 };
            thread::sleep(Duration::from_millis(pause));
            info_span!("step").in_scope(|| span.record("size", id));
            span.record("status", 100);
        });
        span.record("status", 200 + id);
    }
}

fn threads() {
    let (span, barrier) = (info_span!("shared", number = 7), &Barrier::new(2));
    thread::scope(|scope| {
        for name in ["one", "two"] {
            let span = span.clone();
            let work = move || {
                let _entered = span.entered();
                // Both are in the span now.
                barrier.wait();
                let child = info_span!(parent: Span::current(), "child");
                child.in_scope(|| info!("in {name}"));
                barrier.wait();
            };
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    // Entered by one thread, inside of itself.
    let _outside = span.enter();
    span.in_scope(|| info!("twice"));
}

#[instrument]
fn work(number: u32) {
    info!(number, "works");
}

fn late() {
    println!("level {}", LevelFilter::current());
    work(1);
    let span = info_span!("before");
    let config = fdr::Config::new().filter("*");
    println!("on {}", config.enable().is_ok());
    println!("level {}", LevelFilter::current());
    work(2);
    // It was made while nothing was recorded.
    span.in_scope(|| ());
    fdr::disable();
    work(3);
    fdr::enable().expect("on again");
    fdr::set_filter("*,-programs::spans::work").expect("a filter");
    work(4);
}

/// Cuts the ring short, as another program may.
fn cut() {
    work(1);
    let rings = std::fs::read_dir(".").expect("the folder");
    let rings = rings.map(|entry| entry.expect("an entry").path());
    for ring in rings.filter(|path| path.extension().is_some_and(|end| end == "fdr-ring")) {
        let file = std::fs::OpenOptions::new().write(true).open(ring);
        file.and_then(|file| file.set_len(0)).expect("a ring");
    }
    work(2);
    // The recorder's own thread may have noticed it first, and turns functions off meanwhile.
    let is_on = |_: &u32| fdr::statistics().functions_on > 0;
    let pauses = (0..5_000).take_while(is_on);
    pauses.for_each(|_| thread::sleep(Duration::from_millis(1)));
    println!("on {}", fdr::statistics().functions_on);
    // A span that the recorder sees for the first time.
    info_span!("after").in_scope(|| info!("inside"));
    println!("on {}", fdr::statistics().functions_on);
}

fn forks(kills: bool) {
    work(1);
    // SAFETY: the program has one thread that could hold a lock, which is this one.
    match unsafe { libc::fork() } {
        0 => {
            info_span!("in the child").in_scope(|| ());
            if kills {
                kill_process();
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is valid.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        }
    }
}

/// A layer that counts.
struct Counts;

static EVENTS: AtomicU32 = AtomicU32::new(0);
static SPANS: AtomicU32 = AtomicU32::new(0);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Counts {
    fn on_event(&self, _: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        EVENTS.fetch_add(1, Ordering::Relaxed);
    }

    fn on_enter(&self, _: &span::Id, _: LayerContext<'_, S>) {
        SPANS.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["layers"] => tracing_subscriber::registry()
            .with(fdr_tracing::layer())
            .with(Counts)
            .init(),
        _ => assert!(fdr_tracing::init() && !fdr_tracing::init()),
    }
    match words {
        ["kinds"] => kinds(),
        ["harm"] => harm(),
        ["tasks"] => tasks(),
        ["fields"] => fields(),
        ["threads"] => threads(),
        ["late"] => late(),
        ["destructors"] => destructors(),
        ["layers"] => {
            (0..3).for_each(work);
            let [events, spans] = [&EVENTS, &SPANS].map(|count| count.load(Ordering::Relaxed));
            println!("{events} {spans}");
        }
        ["cut"] => cut(),
        ["forks"] => forks(false),
        ["forks", "kill"] => forks(true),
        ["many", count] => {
            (0..count.parse().expect("a number")).for_each(work);
            let span = info_span!("last");
            println!(
                "spans at once {}",
                span.id().map_or(0, |id| id.into_u64() as u32)
            );
        }
        ["killed"] => {
            work(7);
            kill_process();
        }
        _ => panic!("{words:?}: no such words"),
    }
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
