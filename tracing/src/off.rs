//! The layer without the recorder. It has no interest in anything.

use tracing_core::subscriber::Interest;
use tracing_core::{LevelFilter, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};

/// Records nothing, because the recorder is compiled out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorder {}

/// Chooses nothing, because the recorder is compiled out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Chosen {}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {}
    }
}

impl Chosen {
    pub(crate) fn new() -> Chosen {
        Chosen {}
    }
}

impl<S: Subscriber> Layer<S> for Recorder {}

impl<S> Filter<S> for Chosen {
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
