//! The layer, for programs that have other layers. The registry of `tracing-subscriber` keeps the spans.

use fdr::dynamic;
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::handlers;
use crate::span::{self, Span};

/// Records spans and events. [`layer`](crate::layer) gives it together with its filter.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorder {}

/// The filter of [`Recorder`]: what `FDR` and `fdr ctl` choose.
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
        // The interest that `tracing` has cached is wrong once the recorder comes up.
        dynamic::when_up(rebuild_interest_cache);
        RecorderFilter {}
    }
}

impl<S> Filter<S> for RecorderFilter {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        handlers::interest(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        handlers::enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(handlers::most())
    }
}

impl<S> Layer<S> for Recorder
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let new = handlers::new_span(attributes, |other| {
            with_span(&context, other, |span| span.task())
        });
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(new);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let place = with_span(&context, id, |span| span.place);
        if let Some(fields) = place.and_then(|place| handlers::late_fields(place, values)) {
            with_span(&context, id, |span| span.record(id, fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        handlers::event(event);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_span(&context, id, |span| span.enter(id));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        span::exit(id, |end| {
            with_span(&context, id, end);
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        with_span(&context, &id, Span::close);
    }
}

/// Runs `with` on the recorder's data of a span, which the registry stores.
#[inline]
fn with_span<S, T>(
    context: &Context<'_, S>,
    id: &Id,
    with: impl FnOnce(&mut Span) -> T,
) -> Option<T>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let span = context.span(id)?;
    let mut extensions = span.extensions_mut();
    extensions.get_mut::<Span>().map(with)
}
