//! The layer and the subscriber without the recorder. They have no interest in anything.

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};

/// Records nothing, because the recorder is compiled out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorder {}

/// Chooses nothing, because the recorder is compiled out.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecorderFilter {}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {}
    }
}

impl RecorderFilter {
    pub(crate) fn new() -> RecorderFilter {
        RecorderFilter {}
    }
}

impl<S: tracing_core::Subscriber> Layer<S> for Recorder {}

impl<S> Filter<S> for RecorderFilter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        false
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }
}

/// Records nothing, because the recorder is compiled out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Subscriber {}

impl Subscriber {
    pub(crate) fn new() -> Subscriber {
        Subscriber {}
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
