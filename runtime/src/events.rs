//! Makes the bytes of a note (`fdr_formats::notes`) from the values of an event or the arguments of a call, on the
//! stack of the caller. A value's own `Display` or `Debug` is code of the program that runs here, and a panic of it
//! ends here. All functions are async-signal-safe if that code is.

use core::cell::Cell;
use core::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fdr_formats::notes::{MAX_FIELDS, NoteKind};

use crate::recorder;
use crate::site::CallSite;
pub use crate::values::Value;

/// Words of the largest body of an event: its head, the most fields, and the texts.
const WORDS: usize = 256;
/// Words before the fields.
const HEAD: usize = 2;
/// Words of a field without its text.
const FIELD: usize = 2;

/// The most bytes of a text. The rest is cut.
const MAX_TEXT: usize = 1024;
/// The most bytes of the text of an argument or a result.
const MAX_ARGUMENT: usize = 256;

const _: () = assert!(HEAD + MAX_FIELDS * FIELD + MAX_TEXT / 8 <= WORDS);

/// The form of an event, as notes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An event at a moment.
    Instant = 0,
    /// The fields of a span, which is a call: they stand behind its entry.
    Begin = 1,
    /// Fields of a span that stand outside of its calls.
    End = 2,
    /// The value of a counter.
    Counter = 3,
}

/// How much an event matters, as notes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    NotKnown = 0,
    Trace = 1,
    Debug = 2,
    Info = 3,
    Warn = 4,
    Error = 5,
}

/// An argument: its number, the site of its name, and its value. `None`: values of its type can't be recorded.
pub(crate) type Argument<'a> = (u8, &'static CallSite, Option<Value<'a>>);

/// A field: the site of its name (`None`: it has no name), and its value.
pub(crate) type Field<'a> = (Option<&'static CallSite>, Value<'a>);

/// Writes an event of the calling thread. Fields behind the 32nd are left out.
///
/// Not inlined, because the body would be in the frame of the program's function.
#[cold]
#[inline(never)]
pub fn write(site: &'static CallSite, form: Form, level: Level, fields: &[Field<'_>]) {
    recorder::note(
        NoteKind::Event,
        Body::of_event(site, form, level, fields).words(),
    );
}

/// An event whose values come one after the other. It has 2 KiB.
pub struct EventNote {
    body: Body,
    has_fields: bool,
}

impl EventNote {
    /// An event with up to `most` fields. Async-signal-safe.
    #[inline]
    #[must_use]
    pub fn new(site: &'static CallSite, form: Form, level: Level, most: usize) -> EventNote {
        let head = u64::from(form as u8) | u64::from(level as u8) << 8;
        let first = u64::from(site.id()) | head << 32;
        EventNote {
            body: Body::new(first, HEAD, most.min(MAX_FIELDS)),
            has_fields: false,
        }
    }

    /// Adds a field. Fields beyond the maximum are left out. Async-signal-safe, as far as the program's code that
    /// prints the value is.
    pub fn put(&mut self, name: &'static CallSite, value: Value<'_>) {
        if self.body.fields > 0 {
            self.body.put(name.id(), 0, value);
            self.body.words[0] += 1 << 48;
            self.has_fields = true;
        }
    }

    /// Whether it has a field.
    #[must_use]
    pub fn has_fields(&self) -> bool {
        self.has_fields
    }

    /// Its words, for [`write_words`]. Async-signal-safe.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.body.words()
    }
}

/// Says in the words of an [`EventNote`] which span it belongs to.
pub fn tie(words: &mut [u64], form: Form, span: u64) {
    if let [head, of, ..] = words {
        *head = *head & !(0xff << 32) | u64::from(form as u8) << 32;
        *of = span;
    }
}

/// Writes an event of the calling thread: the words of an [`EventNote`]. Async-signal-safe.
#[cold]
#[inline(never)]
pub fn write_words(words: &[u64]) {
    recorder::note(NoteKind::Event, words);
}

/// Writes arguments of the innermost open call, which is of `site`. Those without a value are left
/// out, and those behind the 32nd. Async-signal-safe.
#[cold]
#[inline(never)]
pub fn write_arguments(site: &'static CallSite, arguments: &[Argument<'_>]) {
    let count = arguments
        .iter()
        .filter(|(.., value)| value.is_some())
        .count();
    let count = count.min(MAX_FIELDS);
    if count == 0 {
        return;
    }
    let mut body = Body::new(u64::from(site.id()) | (count as u64) << 32, 1, count);
    body.most_text = MAX_ARGUMENT;
    for (place, name, value) in arguments {
        if let Some(value) = value.filter(|_| body.fields > 0) {
            body.put(name.id(), *place, value);
        }
    }
    recorder::note(NoteKind::Arguments, body.words());
}

/// Writes the result of the innermost open call, or its error: `place` says which. Async-signal-safe, as far as code of
/// the program that prints a value is.
#[cold]
#[inline(never)]
pub fn write_result(site: &'static CallSite, place: u8, value: Value<'_>) {
    let mut body = Body::new(u64::from(site.id()) | 1 << 32, 1, 1);
    body.most_text = MAX_ARGUMENT;
    body.put(0, place, value);
    recorder::note(NoteKind::Arguments, body.words());
}

/// The body of a note while it is filled.
struct Body {
    words: [u64; WORDS],
    used: usize,
    /// Fields that are still to come. There is always room for them, without their texts.
    fields: usize,
    most_text: usize,
}

impl Body {
    /// The first word, how many words stand before the fields, and how many fields come.
    #[inline(always)]
    fn new(first: u64, head: usize, fields: usize) -> Body {
        let mut words = [0; WORDS];
        words[0] = first;
        Body {
            words,
            used: head,
            fields,
            most_text: MAX_TEXT,
        }
    }

    #[inline(always)]
    fn of_event(site: &CallSite, form: Form, level: Level, fields: &[Field<'_>]) -> Body {
        let count = fields.len().min(MAX_FIELDS);
        let head = u64::from(form as u8) | u64::from(level as u8) << 8 | (count as u64) << 16;
        let mut body = Body::new(u64::from(site.id()) | head << 32, HEAD, count);
        for (name, value) in fields.iter().take(MAX_FIELDS) {
            body.put(name.map_or(0, CallSite::id), 0, *value);
        }
        body
    }

    fn words(&self) -> &[u64] {
        self.words.get(..self.used).unwrap_or_default()
    }

    fn put(&mut self, name: u32, place: u8, value: Value<'_>) {
        self.fields = self.fields.saturating_sub(1);
        let (kind, number) = match value {
            Value::Unsigned(number) => (0, number),
            Value::Signed(number) => (1, number as u64),
            Value::Float(number) => (2, number.to_bits()),
            Value::Truth(truth) => (3, truth.into()),
            Value::Address(address) => (6, address),
            Value::Text(text) => return self.put_text(name, place, |to| to.write_str(text)),
            Value::Display(value) => {
                return self.put_text(name, place, |to| printed(to, format_args!("{value}")));
            }
            Value::Debug(value) => {
                return self.put_text(name, place, |to| printed(to, format_args!("{value:?}")));
            }
        };
        self.put_head(name, place, kind, 0, number);
        self.used += FIELD;
    }

    /// Puts what `print` writes, as far as there is room. An error of `print` ends the text.
    fn put_text(&mut self, name: u32, place: u8, print: impl FnOnce(&mut Text<'_>) -> fmt::Result) {
        let from = self.used + FIELD;
        let room = WORDS.saturating_sub(from + self.fields * FIELD) * 8;
        let mut text = Text {
            words: self.words.get_mut(from..).unwrap_or_default(),
            most: room.min(self.most_text),
            used: 0,
            whole: 0,
        };
        let _ = print(&mut text);
        let (used, whole) = (text.used, text.whole);
        self.put_head(name, place, 4, used, whole as u64);
        self.used = from + used.div_ceil(8);
    }

    fn put_head(&mut self, name: u32, place: u8, kind: u8, length: usize, number: u64) {
        let what = u64::from(kind) << 32 | u64::from(place) << 40;
        let head = u64::from(name) | what | (length as u64) << 48;
        if let Some(place) = self.words.get_mut(self.used..self.used + FIELD) {
            place.copy_from_slice(&[head, number]);
        }
    }
}

/// Stands at the end of a value's text that was cut because printing it panicked.
const PANICKED: &str = "<panicked>";

thread_local! {
    /// The address of a variable of the innermost [`printed`] of the thread; 0 = there is none.
    static PRINTS_AT: Cell<usize> = const { Cell::new(0) };
}

/// Whether [`printed`] catches a panic at this moment. After a `longjmp` out of printing code, the address of a dead
/// frame remains. Async-signal-safe.
pub(crate) fn is_printing() -> bool {
    let here = 0_u8;
    core::ptr::from_ref(&here).addr() < PRINTS_AT.get()
}

/// Prints a value by code of the program. If that code panics, the text ends by [`PANICKED`].
fn printed(to: &mut Text<'_>, value: fmt::Arguments<'_>) -> fmt::Result {
    let variable = 0_u8;
    let here = core::ptr::from_ref(&variable).addr();
    let before = PRINTS_AT.replace(here);
    let result = catch_unwind(AssertUnwindSafe(|| to.write_fmt(value)));
    PRINTS_AT.set(if here < before { before } else { 0 });
    result.unwrap_or_else(|panic| {
        // The drop of what the panic carries is code of the program, too.
        core::mem::forget(panic);
        to.write_str(PANICKED)
    })
}

/// The text of a field while it is printed.
struct Text<'a> {
    words: &'a mut [u64],
    /// How many bytes there is room for, and how many are used.
    most: usize,
    used: usize,
    /// How many bytes the whole text has.
    whole: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // Once a part was cut, what follows would stand in the wrong place.
        let is_whole = self.used == self.whole;
        self.whole = self.whole.saturating_add(part.len());
        let mut room = if is_whole { self.most - self.used } else { 0 };
        if part.len() > room {
            // A character is not cut.
            while !part.is_char_boundary(room) {
                room -= 1;
            }
        }
        for &byte in part.as_bytes().iter().take(room) {
            if let Some(word) = self.words.get_mut(self.used / 8) {
                *word |= u64::from(byte) << (self.used % 8 * 8);
            }
            self.used += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
