//! From the fields of `tracing` to the values of an event.

use std::error::Error;
use std::fmt;
use std::iter::successors;

use fdr::dynamic::{EventNote, Form, Value};
use tracing_core::field::{Field, Visit};

use crate::place::SpanSource;

/// An event while its fields are visited.
pub(crate) struct Values {
    pub(crate) note: EventNote,
    place: &'static SpanSource,
}

impl Values {
    #[inline]
    pub(crate) fn new(place: &'static SpanSource, form: Form) -> Values {
        Values {
            note: EventNote::new(place.site, form, place.level, place.fields()),
            place,
        }
    }

    #[inline]
    fn put(&mut self, field: &Field, value: Value<'_>) {
        if let Some(name) = self.place.name(field) {
            self.note.put(name, value);
        }
    }
}

impl Visit for Values {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Unsigned(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put(field, Value::Display(&value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put(field, Value::Display(&value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Truth(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, Value::Debug(&WithSources(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Debug(&value));
    }
}

/// The maximum number of sources of an error that are recorded. There is a limit because an error
/// may be its own source.
const SOURCES: usize = 16;

/// An error and its sources.
struct WithSources<'a>(&'a (dyn Error + 'static));

impl fmt::Debug for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let sources = successors(self.0.source(), |&error| error.source());
        sources
            .take(SOURCES)
            .try_for_each(|source| write!(f, ": {source}"))
    }
}
