//! Entries in words: for the listing, and for what the neutral model has no other place for.

use std::fmt::Write as _;

use super::entry::{Entry, Value};

/// Bytes of a text or of bytes that are shown.
const SHOWN: usize = 64;

/// The message and the attributes that are no unsigned numbers, without those to `skip`.
pub(super) fn describe(entry: &Entry<'_>, skip: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    if let Some(message) = entry.message {
        text.push_str(message);
    }
    for (name, value) in &entry.attributes {
        // Crates that write this format give the message twice.
        let again = *name == "message" && entry.message.map(Value::String) == Some(*value);
        if again || skip(name) || matches!(value, Value::U64(_)) {
            continue;
        }
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{name}=");
        put(&mut text, value, usize::MAX);
    }
    text
}

/// All attributes, for a line of the listing.
pub(super) fn attributes(text: &mut String, entry: &Entry<'_>) {
    for (name, value) in &entry.attributes {
        text.push(' ');
        short(text, name);
        text.push('=');
        put(text, value, SHOWN);
    }
}

/// Text with what can't be seen escaped, cut where it is long.
pub(super) fn short(text: &mut String, name: &str) {
    for letter in name.chars().take(SHOWN) {
        text.extend(letter.escape_debug());
    }
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
}

fn put(text: &mut String, value: &Value<'_>, shown: usize) {
    let _ = match *value {
        Value::String(value) if shown == usize::MAX => write!(text, "{value:?}"),
        Value::String(value) => {
            text.push('"');
            short(text, value);
            text.push('"');
            Ok(())
        }
        Value::Bytes(bytes) => {
            text.push_str("0x");
            for byte in bytes.iter().take(shown) {
                let _ = write!(text, "{byte:02x}");
            }
            if bytes.len() > shown {
                text.push('…');
            }
            Ok(())
        }
        Value::Bool(value) => write!(text, "{value}"),
        Value::Float(value) => write!(text, "{value}"),
        Value::U64(value) => write!(text, "{value}"),
        Value::I64(value) => write!(text, "{value}"),
        Value::U128(value) => write!(text, "{value}"),
        Value::I128(value) => write!(text, "{value}"),
    };
}
