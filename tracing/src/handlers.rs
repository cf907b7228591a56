//! The calls of `tracing` that the layer and the subscriber handle in the same way. Code of the program, which prints
//! values, runs outside of all locks. So that code may make spans and events, too.

use fdr::dynamic::{self, EventNote, Form, current_task, is_on, write_words};
use tracing_core::field::ValueSet;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata};

use crate::place::{Kind, SpanSource, find, find_or_add};
use crate::span::{Fields, Span};
use crate::values::Values;

/// The interest in spans or events of that place. `tracing` asks again when the recorder comes up.
pub(crate) fn interest(metadata: &'static Metadata<'static>) -> Interest {
    if !dynamic::is_up() {
        return Interest::never();
    }
    find_or_add(metadata);
    // The filter may change at any time.
    Interest::sometimes()
}

/// Whether spans or events of that place are recorded now.
#[inline]
pub(crate) fn enabled(metadata: &Metadata<'_>) -> bool {
    match find(metadata) {
        Some(place) => is_on(place.site),
        // For a record of `log`, `tracing` asks with temporary metadata. The event then has other metadata.
        None => dynamic::is_up(),
    }
}

/// The levels that may be recorded.
pub(crate) fn most() -> LevelFilter {
    match dynamic::is_up() {
        true => LevelFilter::TRACE,
        false => LevelFilter::OFF,
    }
}

/// A new span. `task_of` gives the task of another one.
pub(crate) fn new_span(
    attributes: &Attributes<'_>,
    task_of: impl FnOnce(&Id) -> Option<u64>,
) -> Span {
    let place = find_or_add(attributes.metadata());
    let fields = match is_on(place.site) {
        true => fields_of(place, attributes.values()),
        false => None,
    };
    let parent = match attributes.parent() {
        Some(parent) => task_of(parent).unwrap_or(0),
        None if attributes.is_root() => 0,
        None => current_task(),
    };
    Span::new(place, fields, parent)
}

/// The fields of a new span. Out of line, because they take 2 KiB of the stack.
#[inline(never)]
fn fields_of(place: &'static SpanSource, values: &ValueSet<'_>) -> Option<Fields> {
    if place.fields() == 0 {
        return None;
    }
    let mut fields = Values::new(place, Form::Begin);
    values.record(&mut fields);
    // A field that comes behind the last exit finds the call by this note, which may have no fields. Tasks have ids.
    let note = &fields.note;
    (note.has_fields() || place.kind() != Kind::Tasks).then(|| words(note))
}

fn words(note: &EventNote) -> Fields {
    note.words().into()
}

/// More fields of a span. `None`: none of them can be recorded.
pub(crate) fn late_fields(place: &'static SpanSource, values: &Record<'_>) -> Option<Fields> {
    let mut fields = Values::new(place, Form::Begin);
    values.record(&mut fields);
    let note = &fields.note;
    note.has_fields().then(|| words(note))
}

/// An event.
#[inline]
pub(crate) fn event(event: &Event<'_>) {
    let place = find_or_add(event.metadata());
    if is_on(place.site) {
        let mut values = Values::new(place, Form::Instant);
        event.record(&mut values);
        write_words(values.note.words());
    }
}
