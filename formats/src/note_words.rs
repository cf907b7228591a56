//! Notes in words, for people, with the names that a trace has for their numbers.

use std::borrow::Cow;
use std::fmt;

use crate::model::{FunctionId, TraceInfo};
use crate::notes::{ERROR, Field, FieldValue, Note, NoteKind, RESULT};

const FORMS: [&str; 4] = ["instant", "begin of a span", "end of a span", "counter"];
const LEVELS: [&str; 6] = ["not known", "trace", "debug", "info", "warning", "error"];
const TASK_STATES: [&str; 6] = [
    "created", "running", "waiting", "woken", "finished", "dropped",
];
const THREAD_STATES: [&str; 3] = ["running", "waiting for a CPU", "blocked"];
const REASONS: [&str; 10] = [
    "not known",
    "lock",
    "condition",
    "input or output",
    "sleep",
    "end of a thread",
    "channel",
    "parked",
    "page fault",
    "taken from its CPU",
];

/// The word of a number, or the number.
fn word(words: &[&'static str], number: u8) -> Cow<'static, str> {
    match words.get(usize::from(number)) {
        Some(word) => Cow::Borrowed(word),
        None => number.to_string().into(),
    }
}

/// The word of an event's form.
#[must_use]
pub fn form(number: u8) -> Cow<'static, str> {
    word(&FORMS, number)
}

/// The word of why a thread waits.
#[must_use]
pub fn reason(number: u8) -> Cow<'static, str> {
    word(&REASONS, number)
}

/// The word of a task's state.
#[must_use]
pub fn task_state(number: u8) -> Cow<'static, str> {
    word(&TASK_STATES, number)
}

/// The word of a thread's state.
#[must_use]
pub fn thread_state(number: u8) -> Cow<'static, str> {
    word(&THREAD_STATES, number)
}

/// The word of a level. `None`: the level is not known.
#[must_use]
pub fn level(number: u8) -> Option<Cow<'static, str>> {
    (number > 0).then(|| word(&LEVELS, number))
}

/// A note, or a field of one, in words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a, T> {
    what: &'a T,
    info: &'a TraceInfo,
}

impl Note<'_> {
    /// The note in words: `my_app::accepted (info)  id=7 path="/tmp"`.
    #[must_use]
    pub fn words<'a>(&'a self, info: &'a TraceInfo) -> Words<'a, Self> {
        Words { what: self, info }
    }
}

impl Field<'_> {
    /// The field in words: `path="/tmp"`.
    #[must_use]
    pub fn words<'a>(&'a self, info: &'a TraceInfo) -> Words<'a, Self> {
        Words { what: self, info }
    }
}

/// A text without the quotes that it has because a program recorded it by `Debug`. A text with escapes stays as it is.
#[must_use]
pub fn unquoted(text: &str) -> &str {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let is_plain = |inner: &&str| !inner.contains(['"', '\\']);
    inner.filter(is_plain).unwrap_or(text)
}

/// The name with that number: `#12` if the trace has none, and empty for 0.
#[must_use]
pub fn name(info: &TraceInfo, id: u32) -> Cow<'_, str> {
    match info.function(FunctionId(id)) {
        Some(function) if !function.name.is_empty() => Cow::Borrowed(&function.name),
        _ if id == 0 => Cow::Borrowed(""),
        _ => FunctionId(id).to_string().into(),
    }
}

/// The name of a note, by which filters choose it. `None`: it has no name.
pub(crate) fn name_of(kind: NoteKind, body: &[u8]) -> Option<FunctionId> {
    let name = Note::decode(kind, body)?.name();
    (name > 0).then_some(FunctionId(name))
}

/// The word before a field of a call's note: that the field is the result or the error. Empty for an argument.
#[must_use]
pub fn result(field: &Field<'_>) -> &'static str {
    match field.place {
        RESULT => "result",
        ERROR => "error",
        _ => "",
    }
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FieldValue::Unsigned(number) => write!(f, "{number}"),
            FieldValue::Signed(number) => write!(f, "{number}"),
            FieldValue::Float(number) => write!(f, "{number:?}"),
            FieldValue::Truth(truth) => write!(f, "{truth}"),
            FieldValue::Text(text, whole) => {
                write!(f, "{:?}", unquoted(&String::from_utf8_lossy(text)))?;
                cut(f, text, whole)
            }
            FieldValue::Bytes(bytes, whole) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                cut(f, bytes, whole)
            }
            FieldValue::Address(address) => write!(f, "{address:#x}"),
            FieldValue::Other(kind, number, text) => {
                write!(
                    f,
                    "(type {kind}) {number} {:?}",
                    text.escape_ascii().to_string()
                )
            }
        }
    }
}

fn cut(f: &mut fmt::Formatter<'_>, held: &[u8], whole: u64) -> fmt::Result {
    match whole > held.len() as u64 {
        true => write!(f, " (of {whole} bytes)"),
        false => Ok(()),
    }
}

impl fmt::Display for Words<'_, Field<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Field {
            name: id, value, ..
        } = self.what;
        match &*name(self.info, *id) {
            "" => write!(f, "{value}"),
            // A name that could be misread is quoted.
            odd if odd.contains([' ', '=', '"']) => write!(f, "{odd:?}={value}"),
            name => write!(f, "{name}={value}"),
        }
    }
}

impl fmt::Display for Words<'_, Note<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info;
        match self.what {
            Note::Event {
                name: id,
                form,
                level,
                span,
                fields,
            } => {
                f.write_str(&name(info, *id))?;
                write_kind(f, *form, *level, *span)?;
                fields.iter().enumerate().try_for_each(|(at, field)| {
                    let before = if at == 0 { "  " } else { " " };
                    write!(f, "{before}{}", field.words(info))
                })
            }
            Note::Task {
                task,
                parent,
                by,
                name: id,
                state,
                elapsed,
                busy,
                polls,
                ..
            } => {
                let (name, state) = (name(info, *id), word(&TASK_STATES, *state));
                write!(f, "{task} {name} {state}")?;
                for (what, number) in [("parent", parent), ("by", by)] {
                    if *number > 0 {
                        write!(f, "  {what}={number}")?;
                    }
                }
                write!(
                    f,
                    "  polls={polls} busy={busy} ticks elapsed={elapsed} ticks"
                )
            }
            Note::Arguments { function, fields } => {
                f.write_str(&name(info, *function))?;
                write_arguments(f, info, fields)
            }
            Note::ThreadState {
                object,
                holder,
                name: id,
                state,
                reason,
                function,
                waited,
            } => {
                f.write_str(&word(&THREAD_STATES, *state))?;
                if *reason > 0 {
                    write!(f, " ({})", word(&REASONS, *reason))?;
                }
                if *id > 0 {
                    write!(f, "  {}", name(info, *id))?;
                }
                if *object > 0 {
                    write!(f, "  object={object:#x}")?;
                }
                if *holder > 0 {
                    write!(f, "  holder={holder}")?;
                }
                if *function > 0 {
                    write!(f, " in {}", name(info, *function))?;
                }
                if *waited > 0 {
                    write!(f, "  waited={waited} ticks")?;
                }
                Ok(())
            }
        }
    }
}

/// Writes the form, the level and the span of an event in brackets. Writes nothing if the event has none of the three.
fn write_kind(
    f: &mut fmt::Formatter<'_>,
    form_number: u8,
    level_number: u8,
    span: u64,
) -> fmt::Result {
    let form = (form_number > 0).then(|| form(form_number));
    // The top bit says that the span is no task.
    let number = span & (u64::MAX >> 1);
    let span = (span > 0).then(|| format!("span {number}").into());
    let about: Vec<Cow<'_, str>> = [form, level(level_number), span]
        .into_iter()
        .flatten()
        .collect();
    match about.is_empty() {
        true => Ok(()),
        false => write!(f, " ({})", about.join(", ")),
    }
}

fn write_arguments(
    f: &mut fmt::Formatter<'_>,
    info: &TraceInfo,
    fields: &[Field<'_>],
) -> fmt::Result {
    for (at, field) in fields.iter().enumerate() {
        f.write_str(if at == 0 { "  " } else { " " })?;
        let result = result(field);
        if !result.is_empty() {
            f.write_str(result)?;
            f.write_str(if field.name == 0 { "=" } else { " " })?;
        }
        write!(f, "{}", field.words(info))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    #[test]
    fn quotes_of_debug_are_left_out() {
        assert_eq!(unquoted("\"/item/7\""), "/item/7");
        for text in ["", "\"", "a", "Some(\"a\")", "\"a\" \"b\"", "\"a\\n\""] {
            assert_eq!(unquoted(text), text);
        }
    }
}
