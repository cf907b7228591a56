//! From the values of an event to the bytes of a note (`fdr_formats::notes`), on the stack of the caller. It must never
//! allocate or lock. Values that print themselves run code of the program here. All functions are async-signal-safe as
//! long as that code is.

use core::fmt::{self, Write};

use fdr_formats::notes::{MOST_FIELDS, NoteKind};

use crate::recorder;
use crate::site::CallSite;

/// Words of the largest body of an event: its head, the most fields, and the texts.
const WORDS: usize = 256;
/// Words before the fields.
const HEAD: usize = 2;
/// Words of a field without its text.
const FIELD: usize = 2;

/// The most bytes of a text. The rest is cut.
const MOST_TEXT: usize = 1024;

const _: () = assert!(HEAD + MOST_FIELDS * FIELD + MOST_TEXT / 8 <= WORDS);

/// The form of an event, as notes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An event at a moment.
    Instant = 0,
    /// The fields of a span, which is a call: they stand behind its entry.
    Begin = 1,
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

/// The value of a field, borrowed from the program.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Truth(bool),
    /// An address.
    Address(u64),
    /// Text.
    Text(&'a str),
    /// Text that the value prints.
    Display(&'a dyn fmt::Display),
    /// The same, for programmers.
    Debug(&'a dyn fmt::Debug),
}

/// A value that a field may have without `%` or `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a field",
    label = "numbers, truth values, characters and strings are",
    note = "write `%value` for its text by `Display`, or `?value` for that by `Debug`"
)]
pub trait AsValue {
    /// The value.
    fn as_value(&self) -> Value<'_>;
}

macro_rules! as_value {
    ($($type:ty: |$value:ident| $as:expr;)+) => {
        $(impl AsValue for $type {
            #[inline]
            fn as_value(&self) -> Value<'_> {
                let $value = self;
                $as
            }
        })+
    };
}

as_value! {
    u8: |value| Value::Unsigned(u64::from(*value));
    u16: |value| Value::Unsigned(u64::from(*value));
    u32: |value| Value::Unsigned(u64::from(*value));
    u64: |value| Value::Unsigned(*value);
    usize: |value| Value::Unsigned(*value as u64);
    u128: |value| Value::Display(value);
    i8: |value| Value::Signed(i64::from(*value));
    i16: |value| Value::Signed(i64::from(*value));
    i32: |value| Value::Signed(i64::from(*value));
    i64: |value| Value::Signed(*value);
    isize: |value| Value::Signed(*value as i64);
    i128: |value| Value::Display(value);
    f32: |value| Value::Float(f64::from(*value));
    f64: |value| Value::Float(*value);
    bool: |value| Value::Truth(*value);
    char: |value| Value::Display(value);
    str: |value| Value::Text(value);
    String: |value| Value::Text(value);
    fmt::Arguments<'_>: |value| Value::Display(value);
}

impl<T: AsValue + ?Sized> AsValue for &T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue + ?Sized> AsValue for &mut T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue + ?Sized> AsValue for Box<T> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T> AsValue for *const T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Address(self.addr() as u64)
    }
}

impl<T> AsValue for *mut T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Address(self.addr() as u64)
    }
}

/// A field: the site of its name, which is not there if it has none, and its value.
pub(crate) type Field<'a> = (Option<&'static CallSite>, Value<'a>);

/// Writes an event of the calling thread. Fields behind the 32nd are left out.
///
/// Not inlined, because the body would be in the frame of the program's function.
#[cold]
#[inline(never)]
pub fn write(site: &'static CallSite, form: Form, level: Level, fields: &[Field<'_>]) {
    recorder::note(NoteKind::Event, Body::of(site, form, level, fields).words());
}

/// The body of an event while it is filled.
struct Body {
    words: [u64; WORDS],
    used: usize,
    /// Fields that are still to come. There is always room for them, without their texts.
    fields: usize,
}

impl Body {
    #[inline(always)]
    fn of(site: &CallSite, form: Form, level: Level, fields: &[Field<'_>]) -> Body {
        let mut body = Body {
            words: [0; WORDS],
            used: HEAD,
            fields: fields.len().min(MOST_FIELDS),
        };
        let head = u64::from(form as u8) | u64::from(level as u8) << 8 | (body.fields as u64) << 16;
        body.words[0] = u64::from(site.id()) | head << 32;
        for (name, value) in fields.iter().take(MOST_FIELDS) {
            body.put(name.map_or(0, CallSite::id), *value);
        }
        body
    }

    fn words(&self) -> &[u64] {
        self.words.get(..self.used).unwrap_or_default()
    }

    fn put(&mut self, name: u32, value: Value<'_>) {
        self.fields = self.fields.saturating_sub(1);
        let (kind, number) = match value {
            Value::Unsigned(number) => (0, number),
            Value::Signed(number) => (1, number as u64),
            Value::Float(number) => (2, number.to_bits()),
            Value::Truth(truth) => (3, truth.into()),
            Value::Address(address) => (6, address),
            Value::Text(text) => return self.put_text(name, |to| to.write_str(text)),
            Value::Display(value) => return self.put_text(name, |to| write!(to, "{value}")),
            Value::Debug(value) => return self.put_text(name, |to| write!(to, "{value:?}")),
        };
        self.put_head(name, kind, 0, number);
        self.used += FIELD;
    }

    /// Puts what `print` writes, as far as there is room. An error of `print` ends the text.
    fn put_text(&mut self, name: u32, print: impl FnOnce(&mut Text<'_>) -> fmt::Result) {
        let from = self.used + FIELD;
        let room = WORDS.saturating_sub(from + self.fields * FIELD) * 8;
        let mut text = Text {
            words: self.words.get_mut(from..).unwrap_or_default(),
            most: room.min(MOST_TEXT),
            used: 0,
            whole: 0,
        };
        let _ = print(&mut text);
        let (used, whole) = (text.used, text.whole);
        self.put_head(name, 4, used, whole as u64);
        self.used = from + used.div_ceil(8);
    }

    fn put_head(&mut self, name: u32, kind: u8, length: usize, number: u64) {
        let head = u64::from(name) | u64::from(kind) << 32 | (length as u64) << 48;
        if let Some(place) = self.words.get_mut(self.used..self.used + FIELD) {
            place.copy_from_slice(&[head, number]);
        }
    }
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
