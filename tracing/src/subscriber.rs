//! The subscriber, for programs whose spans and events go only to the recorder. It stores the spans itself, so a span
//! costs less than with the registry that layers need.

use fdr::dynamic;
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata};

use crate::handlers;
use crate::span::{self, Span};
use crate::store;

/// Records spans and events, and does nothing else. Made by [`subscriber`](crate::subscriber).
#[derive(Debug)]
#[non_exhaustive]
pub struct Subscriber {}

impl Subscriber {
    pub(crate) fn new() -> Subscriber {
        // The interest that `tracing` has cached is wrong once the recorder comes up.
        dynamic::when_up(rebuild_interest_cache);
        Subscriber {}
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        handlers::interest(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        handlers::enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(handlers::most())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let task_of = |other: &Id| store::with(other, |span| span.task());
        store::add(handlers::new_span(attributes, task_of))
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let place = store::with(id, |span| span.place);
        if let Some(fields) = place.and_then(|place| handlers::late_fields(place, values)) {
            store::with(id, |span| span.record(id, fields));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        handlers::event(event);
    }

    fn enter(&self, id: &Id) {
        store::with(id, |span| span.enter(id));
    }

    fn exit(&self, id: &Id) {
        span::exit(id, |end| {
            store::with(id, end);
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        store::keep(id);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        match store::release(&id) {
            Some(mut span) => {
                Span::close(&mut span);
                true
            }
            None => false,
        }
    }

    fn current_span(&self) -> Current {
        span::current()
    }
}
