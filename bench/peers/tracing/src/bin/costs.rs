//! The costs of a span and of an event with different subscribers: `costs WHOM WHAT COUNT` prints the CPU time of each
//! in ns. WHOM is `nobody` (no subscriber), `registry` (only the subscriber on which layers are built), `fdr`
//! (`fdr-tracing` alone; the variable `FDR` applies), `layer` (the layer of `fdr-tracing` on the registry), `fmt` and
//! `chrome` (to a writer that discards the bytes), or `fmt+fdr`. WHAT: `nothing`, `span`, `fields` (a span with two
//! numbers), `event` (with two numbers), `call` (`#[fdr::traced]`), `task` (a span that is entered ten times). For
//! callgrind, run it with two counts and take the difference.

use std::hint::black_box;
use std::io;
use std::process::ExitCode;

use peer_harness::sys::thread_cpu_ns;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

#[inline(never)]
fn span() {
    let _span = tracing::info_span!("span").entered();
    black_box(());
}

#[inline(never)]
fn fields(number: u64) {
    let _span = tracing::info_span!("fields", number, half = number / 2).entered();
    black_box(());
}

#[inline(never)]
fn event(number: u64) {
    tracing::info!(number, half = number / 2);
}

#[fdr::traced]
#[inline(never)]
fn call() {
    black_box(());
}

#[inline(never)]
fn task() {
    let span = tracing::info_span!("task");
    for _ in 0..10 {
        span.in_scope(|| black_box(()));
    }
}

fn lines<S>() -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
{
    tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(io::sink)
        .with_span_events(FmtSpan::ENTER | FmtSpan::EXIT)
}

/// What must live as long as the program.
fn begin(whom: &str) -> Option<Option<FlushGuard>> {
    let registry = tracing_subscriber::registry();
    match whom {
        "nobody" => {}
        "registry" => registry.init(),
        "fdr" => assert!(fdr_tracing::init()),
        "layer" => registry.with(fdr_tracing::layer()).init(),
        "fmt" => registry.with(lines()).init(),
        "fmt+fdr" => registry.with(lines()).with(fdr_tracing::layer()).init(),
        "chrome" => {
            let (layer, guard) = ChromeLayerBuilder::new().writer(io::sink()).build();
            registry.with(layer).init();
            return Some(Some(guard));
        }
        _ => return None,
    }
    Some(None)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [whom, what, count] = words.as_slice() else {
        eprintln!("usage: costs WHOM WHAT COUNT");
        return ExitCode::FAILURE;
    };
    let run: fn(u64) = match what.as_str() {
        "nothing" => |number| {
            black_box(number);
        },
        "span" => |_| span(),
        "fields" => fields,
        "event" => event,
        "call" => |_| call(),
        "task" => |_| task(),
        _ => return ExitCode::FAILURE,
    };
    let (Some(_guard), Ok(count)) = (begin(whom), count.parse::<u64>()) else {
        return ExitCode::FAILURE;
    };
    (0..100).for_each(run);
    let before = thread_cpu_ns();
    (0..count).for_each(run);
    let (Ok(before), Ok(after)) = (before, thread_cpu_ns()) else {
        return ExitCode::FAILURE;
    };
    let spent = after - before;
    println!("{:.1}", spent as f64 / count.max(1) as f64);
    ExitCode::SUCCESS
}
