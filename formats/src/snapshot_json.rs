//! Writes Trace Compass's own state snapshot, one JSON file. Trace Compass 4.0 and up begins with the state of `<trace
//! folder>/.tc-states/<ssid>.snapshot.json`. With a CTF trace, this state has the calls whose entries the ring has
//! overwritten.
//!
//! ```text
//! {"snapshot_format_version":1,"ssid":"…","snapshot_version":3,"timestamp":0,"attributes":[
//!   {"Path":["Threads","7"],"Value":{"start":t,"end":-9223372036854775808,"quark":0,"type":"null"}},
//!   …],"fEndTime":t,"fStartTime":t}
//! ```
//! `type` is `null`, `java.lang.Integer`, `java.lang.Long`, `java.lang.Double` or `java.lang.String`; all but `null`
//! have a `value`. The number in `end` means that the interval is still open. Source: `StateSnapshot` of Trace
//! Compass. White space is as there.

use std::io::{self, Write};

use crate::json::push_text;

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A whole number: of 32 bits if it fits, else of 64.
    Int(i64),
    /// A whole number of 64 bits whatever its size, if the analysis needs that.
    Long(i64),
    /// A number. If it is not finite, it is written as null, because JSON has no word for it.
    Double(f64),
    /// A text.
    Text(&'a str),
}

/// An attribute and its value.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a, P> {
    /// Its path from the root.
    pub path: P,
    /// The time since when it has this value, in ns.
    pub start: i64,
    /// The value.
    pub value: Value<'a>,
}

/// The subject of the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The analysis that begins with it: its name in Trace Compass.
    pub ssid: &'a str,
    /// The version of that analysis.
    pub version: u32,
    /// The snapshot's time, in ns.
    pub time: i64,
}

/// Writes a snapshot. A parent must come before its children.
///
/// # Errors
/// The errors of `out`.
pub fn write<'a, P>(
    out: &mut dyn Write,
    head: &Head<'_>,
    attributes: impl IntoIterator<Item = Attribute<'a, P>>,
) -> io::Result<()>
where
    P: IntoIterator<Item: AsRef<str>>,
{
    let mut text = br#"{"snapshot_format_version":1,"ssid":"#.to_vec();
    push_text(&mut text, head.ssid);
    let version = head.version;
    text.extend(format!(r#","snapshot_version":{version},"timestamp":0,"attributes":["#).bytes());
    for (quark, attribute) in attributes.into_iter().enumerate() {
        text.extend_from_slice(if quark == 0 {
            br#"{"Path":["#
        } else {
            br#",{"Path":["#
        });
        for (nth, name) in attribute.path.into_iter().enumerate() {
            if nth > 0 {
                text.push(b',');
            }
            push_text(&mut text, name.as_ref());
        }
        let (start, end) = (attribute.start, i64::MIN);
        text.extend(format!(r#"],"Value":{{"start":{start},"end":{end},"quark":{quark},"#).bytes());
        push_value(&mut text, attribute.value);
        text.extend_from_slice(b"}}");
        out.write_all(&text)?;
        text.clear();
    }
    let time = head.time;
    text.extend(format!(r#"],"fEndTime":{time},"fStartTime":{time}}}"#).bytes());
    out.write_all(&text)
}

fn push_value(text: &mut Vec<u8>, value: Value<'_>) {
    let (kind, value) = match value {
        Value::Null => return text.extend_from_slice(br#""type":"null""#),
        Value::Double(number) if !number.is_finite() => {
            return text.extend_from_slice(br#""type":"null""#);
        }
        Value::Int(number) if i32::try_from(number).is_ok() => ("Integer", number.to_string()),
        Value::Int(number) | Value::Long(number) => ("Long", number.to_string()),
        Value::Double(number) => ("Double", format!("{number:?}")),
        Value::Text(value) => {
            text.extend_from_slice(br#""type":"java.lang.String","value":"#);
            return push_text(text, value);
        }
    };
    text.extend(format!(r#""type":"java.lang.{kind}","value":{value}"#).bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_javas_types() {
        let values = [
            (Value::Null, r#""type":"null""#),
            (Value::Int(-7), r#""type":"java.lang.Integer","value":-7"#),
            (
                Value::Int(1 << 31),
                r#""type":"java.lang.Long","value":2147483648"#,
            ),
            (
                Value::Double(-17.23),
                r#""type":"java.lang.Double","value":-17.23"#,
            ),
            (Value::Long(7), r#""type":"java.lang.Long","value":7"#),
            (Value::Double(f64::NAN), r#""type":"null""#),
            (
                Value::Text("a\"b"),
                r#""type":"java.lang.String","value":"a\"b""#,
            ),
        ];
        for (value, wanted) in values {
            let head = Head {
                ssid: "callstack",
                version: 3,
                time: 5,
            };
            let path = ["Threads", "7"];
            let attribute = Attribute {
                path,
                start: 4,
                value,
            };
            let mut out = Vec::new();
            write(&mut out, &head, [attribute]).expect("memory");
            let whole = format!(
                r#"{{"snapshot_format_version":1,"ssid":"callstack","snapshot_version":3,"timestamp":0,"attributes":[{{"Path":["Threads","7"],"Value":{{"start":4,"end":-9223372036854775808,"quark":0,{wanted}}}}}],"fEndTime":5,"fStartTime":5}}"#
            );
            assert_eq!(String::from_utf8_lossy(&out), whole);
        }
    }
}
