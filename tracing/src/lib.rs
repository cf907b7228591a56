//! Spans and events of [`tracing`](https://docs.rs/tracing) in the traces of [`fdr`], a flight data recorder.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry()
//!     .with(fdr_tracing::layer()) // and other layers, which it does not disturb
//!     .init();
//!
//! let span = tracing::info_span!("request", id = 7);
//! span.in_scope(|| tracing::warn!(limit = 16, "the queue is full"));
//! ```
//!
//! Run the program with `FDR=1`. [`init`] is the shorter form for a program without other layers.
//!
//! | in `tracing` | in the trace |
//! | --- | --- |
//! | a span that is entered once | a call `target::name`; its fields stand behind the entry |
//! | a span that is entered again, such as that of an instrumented future | a task, each of whose polls is a call |
//! | a field that is recorded later | a field of the span, whose last value counts: at that moment, or behind the first entry |
//! | an event | an event `target::file.rs:line`, or `target::name` if it has a name of its own |
//! | the message of an event | the field `message` |
//! | numbers, truth values, texts | values of these types; texts are cut at 1 KiB |
//! | errors | the text of the error and of its sources |
//! | everything else | its text by `Debug` |
//!
//! `FDR` and `fdr ctl PID filter` choose spans and events by these names. Before the recorder is up, the layer has no
//! interest in any span or event, so `tracing` does not call it. The recorder may come up later, by [`fdr::enable`] or
//! by another copy of the crate. Then the layer makes `tracing` ask again.
//!
//! With the feature `log`, [`init`] takes records of the crate `log`, too. They are events `log::log event` with fields
//! `log.target`, `log.file` and `log.line`.
#![forbid(unsafe_code)]

#[cfg(all(feature = "record", target_os = "linux"))]
mod handlers;
#[cfg(all(feature = "record", target_os = "linux"))]
mod layer;
#[cfg(not(all(feature = "record", target_os = "linux")))]
mod off;
#[cfg(all(feature = "record", target_os = "linux"))]
mod place;
#[cfg(all(feature = "record", target_os = "linux"))]
mod span;
#[cfg(all(feature = "record", target_os = "linux"))]
mod store;
#[cfg(all(feature = "record", target_os = "linux"))]
mod subscriber;
#[cfg(all(feature = "record", target_os = "linux"))]
mod values;

#[cfg(all(feature = "record", target_os = "linux"))]
pub use layer::{Recorder, RecorderFilter};
#[cfg(not(all(feature = "record", target_os = "linux")))]
pub use off::{Recorder, RecorderFilter, Subscriber};
#[cfg(all(feature = "record", target_os = "linux"))]
pub use subscriber::Subscriber;

use tracing_subscriber::filter::Filtered;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

/// The type of [`layer`]: a layer with a filter of its own, so that it does not disturb other layers.
pub type Layer<S> = Filtered<Recorder, RecorderFilter, S>;

/// A layer that records spans and events in the rings of `fdr`.
///
/// # Examples
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(fdr_tracing::layer()).init();
/// ```
#[must_use]
pub fn layer<S>() -> Layer<S>
where
    S: tracing_core::Subscriber + for<'span> LookupSpan<'span>,
{
    Recorder::new().with_filter(RecorderFilter::new())
}

/// A subscriber that records the same as [`layer`], for programs without other layers. A span costs half as much as
/// with the layer.
///
/// # Examples
/// ```
/// tracing::subscriber::with_default(fdr_tracing::subscriber(), || tracing::info!("recorded"));
/// ```
#[must_use]
pub fn subscriber() -> Subscriber {
    Subscriber::new()
}

/// Makes [`subscriber`] the default of the whole program. Returns false if the program already has a default
/// subscriber, which stays.
///
/// # Examples
/// ```
/// assert!(fdr_tracing::init());
/// assert!(!fdr_tracing::init());
/// ```
pub fn init() -> bool {
    subscriber().try_init().is_ok()
}
