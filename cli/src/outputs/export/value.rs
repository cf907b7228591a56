//! Values with names, as exports write them: arguments of calls, fields of events.

use std::borrow::Cow;

use fdr_formats::notes::{Field, FieldValue};
use fdr_formats::{TraceInfo, note_words};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Truth(bool),
    Text(String),
}

fn name_of<'a>(info: &'a TraceInfo, field: &Field<'_>) -> Cow<'a, str> {
    match note_words::result(field) {
        "" => note_words::name(info, field.name),
        result => result.into(),
    }
}

/// Values with names, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values(Vec<(String, Value)>);

impl Values {
    /// Adds a value; a name that is taken gets a number.
    pub(super) fn add(&mut self, name: &str, value: Value) {
        let is_taken = |name: &str| self.0.iter().any(|(known, _)| known == name);
        let mut own = name.to_owned();
        let mut number = 2;
        while is_taken(&own) {
            own = format!("{name}_{number}");
            number += 1;
        }
        self.0.push((own, value));
    }

    /// Adds a field of a span. It replaces a value that the span had before.
    pub(super) fn set_field(&mut self, info: &TraceInfo, field: &Field<'_>) {
        let name = name_of(info, field);
        self.0
            .retain(|(known, _)| *known != name && known.strip_suffix("_bytes") != Some(&*name));
        self.add_field(info, field);
    }

    /// Adds a field of a note.
    pub(super) fn add_field(&mut self, info: &TraceInfo, field: &Field<'_>) {
        let name = name_of(info, field);
        let (value, whole) = value(&field.value);
        self.add(&name, value);
        if let Some(whole) = whole {
            self.add(&format!("{name}_bytes"), Value::Unsigned(whole));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// As a JSON object.
    pub(super) fn json(&self) -> String {
        json(self)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A value as JSON text.
pub(super) fn json(value: &(impl Serialize + ?Sized)) -> String {
    // Texts and numbers always have one.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Bytes as text.
pub(super) fn hex(bytes: &[u8]) -> Value {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::Text(format!("0x{digits}"))
}

/// Returns the value. If it was cut, also returns the length of the whole value in bytes.
fn value(value: &FieldValue<'_>) -> (Value, Option<u64>) {
    let cut = |bytes: &[u8], whole: u64| (whole != bytes.len() as u64).then_some(whole);
    match *value {
        FieldValue::Unsigned(number) => (Value::Unsigned(number), None),
        FieldValue::Signed(number) => (Value::Signed(number), None),
        FieldValue::Float(number) if number.is_finite() => (Value::Float(number), None),
        FieldValue::Float(number) => (Value::Text(number.to_string()), None),
        FieldValue::Truth(truth) => (Value::Truth(truth), None),
        FieldValue::Address(address) => (Value::Text(format!("{address:#x}")), None),
        FieldValue::Text(text, whole) => {
            let value = Value::Text(String::from_utf8_lossy(text).into_owned());
            (value, cut(text, whole))
        }
        FieldValue::Bytes(bytes, whole) => (hex(bytes), cut(bytes, whole)),
        FieldValue::Other(_, number, []) => (Value::Unsigned(number), None),
        FieldValue::Other(_, number, bytes) => (hex(bytes), cut(bytes, number)),
    }
}
