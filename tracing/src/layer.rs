//! The layer: what `tracing` tells it becomes calls, tasks and events of the recorder. Code of the program, which prints
//! values, runs outside of all locks. So it may make spans and events itself.

use fdr::dynamic::{self, Form, current_task, is_on, write_words};
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::field::ValueSet;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::place::{Place, find, find_or_add};
use crate::span::{Fields, Open, Span};
use crate::values::Values;

/// Records spans and events. [`layer`](crate::layer) gives it together with its filter.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorder {}

/// The filter of [`Recorder`]: what `FDR` and `fdr ctl` choose.
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
        // What `tracing` knows of the interest is wrong once the recorder comes up.
        dynamic::when_up(rebuild_interest_cache);
        Chosen {}
    }
}

impl<S> Filter<S> for Chosen {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if !dynamic::is_up() {
            return Interest::never();
        }
        find_or_add(metadata);
        // The filter may change at any time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        match find(metadata) {
            Some(place) => is_on(place.site),
            // Of a record of `log`, `tracing` asks for metadata that it makes for this question. The event has others.
            None => dynamic::is_up(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let most = match dynamic::is_up() {
            true => LevelFilter::TRACE,
            false => LevelFilter::OFF,
        };
        Some(most)
    }
}

impl<S> Layer<S> for Recorder
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let place = find_or_add(attributes.metadata());
        if !is_on(place.site) {
            return;
        }
        let fields = fields_of(place, attributes.values());
        let parent = match attributes.parent() {
            Some(parent) => with_span(&context, parent, |span| span.task()).unwrap_or(0),
            None if attributes.is_root() => 0,
            None => current_task(),
        };
        if let Some(span) = context.span(id) {
            let new = Span::new(place, fields, parent);
            span.extensions_mut().replace(new);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(place) = with_span(&context, id, |span| span.place) else {
            return;
        };
        let mut note = Values::new(place, Form::Begin);
        values.record(&mut note);
        let note = note.note;
        if !note.has_fields() {
            return;
        }
        if Open::has(id.into_u64()) {
            write_words(note.words());
        } else {
            with_span(&context, id, |span| span.wait(note.words().into()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let place = find_or_add(event.metadata());
        if is_on(place.site) {
            let mut values = Values::new(place, Form::Instant);
            event.record(&mut values);
            write_words(values.note.words());
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_span(&context, id, |span| span.enter(id.into_u64()));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(open) = Open::take(id.into_u64()) else {
            return;
        };
        if open.is_poll() {
            with_span(&context, id, |span| span.end_poll(&open));
        }
        open.exit();
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        with_span(&context, &id, Span::close);
    }
}

/// What the registry keeps of a span that is recorded.
#[inline]
fn with_span<S, T>(context: &Context<'_, S>, id: &Id, with: impl FnOnce(&mut Span) -> T) -> Option<T>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let span = context.span(id)?;
    let mut extensions = span.extensions_mut();
    extensions.get_mut::<Span>().map(with)
}

/// The fields of a new span. Out of line, because they take 2 KiB of the stack.
#[inline(never)]
fn fields_of(place: &'static Place, values: &ValueSet<'_>) -> Option<Fields> {
    if values.is_empty() {
        return None;
    }
    let mut note = Values::new(place, Form::Begin);
    values.record(&mut note);
    let note = note.note;
    note.has_fields().then(|| note.words().into())
}
