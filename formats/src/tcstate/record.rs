//! Layout of history.bin: its header, one interval, one string. Pure.
//!
//! Header, 64 bytes. All numbers are little-endian, times in ns, ends inclusive.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `TCHIST\r\n` |
//! | 8 | 2 | major version, 1 |
//! | 10 | 2 | minor version, 0 |
//! | 12 | 4 | size of the header: where the intervals begin |
//! | 16 | 8 | start of the history, signed |
//! | 24 | 8 | end of the history, signed |
//! | 32 | 8 | number of intervals |
//! | 40 | 4 | number of keys |
//! | 44 | 4 | flags; bit 0: the intervals are sorted by (end, start, key) |
//! | 48 | 8 | where the strings begin, which is where the intervals end |
//! | 56 | 8 | number of strings |
//!
//! Interval, 20 to 29 bytes:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | start, signed |
//! | 8 | 8 | end, signed, not before the start |
//! | 16 | 4 | key; bit 31: the value is null |
//! | 20 | 0 or 1 | type of the value, where the key's type is `any`: 1 string, 2 int, 3 double, 4 bool |
//! | | 0, 1, 4, 8 | nothing if null; bool 0 or 1; number of a string; int, signed, or double |
//!
//! String: u32 size in bytes, UTF-8.
//!
//! Source: the state snapshot exchange proposal of the tracecompass-dev list (its three JSON files, and
//! what its history must have); the bytes are this project's own definition.

use crate::bytes::{ByteOrder, Fields};

pub(super) const MAGIC: &[u8; 8] = b"TCHIST\r\n";
/// Bytes of the header as this version writes it.
pub(super) const HEADER_SIZE: usize = 64;
/// Bytes of an interval without a value.
pub(super) const MIN_SIZE: usize = 20;
/// Bytes of the largest interval.
pub(super) const MAX_SIZE: usize = MIN_SIZE + 1 + 8;
const NULL: u32 = 1 << 31;
/// Flag: the intervals are sorted.
pub(super) const SORTED: u32 = 1;

/// The type of a timeline's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// All are null.
    #[default]
    None,
    Int,
    Text,
    Bool,
    Double,
    /// Each value states its own type.
    Any,
}

impl Kind {
    const NAMES: [(Kind, &'static str); 6] = [
        (Kind::None, "none"),
        (Kind::Int, "int"),
        (Kind::Text, "string"),
        (Kind::Bool, "bool"),
        (Kind::Double, "double"),
        (Kind::Any, "any"),
    ];

    /// Its name in types.json.
    pub(super) fn name(self) -> &'static str {
        let found = Kind::NAMES.iter().find(|(kind, _)| *kind == self);
        found.map_or("none", |(_, name)| name)
    }

    pub(super) fn of_name(name: &str) -> Option<Kind> {
        // The proposal leaves the word open.
        let name = if name == "variant" { "any" } else { name };
        let found = Kind::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind)
    }
}

/// The value of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Int(i64),
    /// Number of a string.
    Text(u32),
    Bool(bool),
    Double(f64),
}

/// One interval of a timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) key: u32,
    pub(super) value: Value,
}

/// The content of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) major: u16,
    pub(super) minor: u16,
    pub(super) size: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) intervals: u64,
    pub(super) keys: u32,
    pub(super) flags: u32,
    pub(super) strings_offset: u64,
    pub(super) strings: u64,
}

const _: () = assert!(HEADER_SIZE == MAGIC.len() + 2 * 2 + 3 * 4 + 5 * 8);

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut out = [0; HEADER_SIZE];
        out[..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&self.major.to_le_bytes());
        out[10..12].copy_from_slice(&self.minor.to_le_bytes());
        out[12..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..24].copy_from_slice(&self.start.to_le_bytes());
        out[24..32].copy_from_slice(&self.end.to_le_bytes());
        out[32..40].copy_from_slice(&self.intervals.to_le_bytes());
        out[40..44].copy_from_slice(&self.keys.to_le_bytes());
        out[44..48].copy_from_slice(&self.flags.to_le_bytes());
        out[48..56].copy_from_slice(&self.strings_offset.to_le_bytes());
        out[56..].copy_from_slice(&self.strings.to_le_bytes());
        out
    }

    /// `None`: too few bytes, or another magic.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let mut fields = Fields::new(bytes, ByteOrder::Little);
        (fields.bytes(MAGIC.len())? == MAGIC).then_some(())?;
        Some(Header {
            major: fields.u16()?,
            minor: fields.u16()?,
            size: fields.u32()?,
            start: fields.u64()? as i64,
            end: fields.u64()? as i64,
            intervals: fields.u64()?,
            keys: fields.u32()?,
            flags: fields.u32()?,
            strings_offset: fields.u64()?,
            strings: fields.u64()?,
        })
    }
}

/// Why bytes are no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// There are too few of them.
    Short,
    /// No key has this number.
    Key(u32),
    /// The key's values are null, or no value has this type.
    Type(u32),
    /// A bool that is neither 0 nor 1.
    Bool(u8),
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::Short => f.write_str("it is cut off"),
            Bad::Key(key) => write!(f, "no attribute has the key {key}"),
            Bad::Type(key) => write!(f, "the value has no type that key {key} allows"),
            Bad::Bool(value) => write!(f, "a bool of {value}"),
        }
    }
}

/// Appends an interval. `any`: its key's type is [`Kind::Any`].
#[inline]
pub(super) fn push_interval(out: &mut Vec<u8>, interval: &Interval, any: bool) {
    let null = if interval.value == Value::Null {
        NULL
    } else {
        0
    };
    let mut bytes = [0; MAX_SIZE];
    bytes[..8].copy_from_slice(&interval.start.to_le_bytes());
    bytes[8..16].copy_from_slice(&interval.end.to_le_bytes());
    bytes[16..20].copy_from_slice(&(interval.key | null).to_le_bytes());
    let mut size = MIN_SIZE;
    if let Some(number) = type_number(interval.value).filter(|_| any) {
        bytes[size] = number;
        size += 1;
    }
    let mut put = |value: &[u8]| {
        bytes[size..size + value.len()].copy_from_slice(value);
        size += value.len();
    };
    match interval.value {
        Value::Null => {}
        Value::Int(value) => put(&value.to_le_bytes()),
        Value::Text(value) => put(&value.to_le_bytes()),
        Value::Bool(value) => put(&[value.into()]),
        Value::Double(value) => put(&value.to_le_bytes()),
    }
    // A copy of a known size is a few instructions.
    let end = out.len() + size;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

fn type_number(value: Value) -> Option<u8> {
    match value {
        Value::Null => None,
        Value::Text(_) => Some(1),
        Value::Int(_) => Some(2),
        Value::Double(_) => Some(3),
        Value::Bool(_) => Some(4),
    }
}

/// Takes an interval from the front; returns it and its size. `kinds` are the keys' types.
#[inline]
pub(super) fn decode_interval(bytes: &[u8], kinds: &[Kind]) -> Result<(Interval, usize), Bad> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    let mut head = || Some((fields.u64()?, fields.u64()?, fields.u32()?));
    let (start, end, word) = head().ok_or(Bad::Short)?;
    let key = word & !NULL;
    let kind = *kinds.get(key as usize).ok_or(Bad::Key(key))?;
    let (value, size) = if word & NULL != 0 {
        (Value::Null, MIN_SIZE)
    } else {
        let (kind, typed) = match kind {
            Kind::Any => (
                of_number(fields.u8().ok_or(Bad::Short)?).ok_or(Bad::Type(key))?,
                1,
            ),
            kind => (kind, 0),
        };
        let (value, size) = match kind {
            Kind::Int => (fields.u64().map(|value| Value::Int(value as i64)), 8),
            Kind::Text => (fields.u32().map(Value::Text), 4),
            Kind::Double => (
                fields.u64().map(|bits| Value::Double(f64::from_bits(bits))),
                8,
            ),
            Kind::Bool => match fields.u8() {
                Some(value @ 2..) => return Err(Bad::Bool(value)),
                value => (value.map(|value| Value::Bool(value == 1)), 1),
            },
            Kind::None | Kind::Any => return Err(Bad::Type(key)),
        };
        (value.ok_or(Bad::Short)?, MIN_SIZE + typed + size)
    };
    let (start, end) = (start as i64, end as i64);
    let interval = Interval {
        start,
        end,
        key,
        value,
    };
    Ok((interval, size))
}

fn of_number(number: u8) -> Option<Kind> {
    match number {
        1 => Some(Kind::Text),
        2 => Some(Kind::Int),
        3 => Some(Kind::Double),
        4 => Some(Kind::Bool),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 6] = [
        Kind::None,
        Kind::Int,
        Kind::Text,
        Kind::Bool,
        Kind::Double,
        Kind::Any,
    ];

    #[test]
    fn the_header_as_typed_by_hand() {
        let bytes = b"TCHIST\r\n\x01\0\x02\0\x40\0\0\0\
            \xff\xff\xff\xff\xff\xff\xff\xff\x24\x04\0\0\0\0\0\0\
            \x05\0\0\0\0\0\0\0\x04\0\0\0\x01\0\0\0\xb0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";
        let header = Header {
            major: 1,
            minor: 2,
            size: 64,
            start: -1,
            end: 1060,
            intervals: 5,
            keys: 4,
            flags: SORTED,
            strings_offset: 176,
            strings: 2,
        };
        assert_eq!(Header::decode(bytes), Some(header));
        assert_eq!(header.encode(), *bytes);
        for size in 0..HEADER_SIZE {
            assert_eq!(Header::decode(&bytes[..size]), None);
        }
    }

    /// Start 1000 and end -2 (or 1001), then the bytes that differ.
    fn typed(end: &[u8]) -> Vec<u8> {
        let head = b"\xe8\x03\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff";
        [&head[..], end].concat()
    }

    #[test]
    fn intervals_as_typed_by_hand() {
        let cases: [(&[u8], u32, Value); 10] = [
            (b"\0\0\0\x80", 0, Value::Null),
            (
                b"\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
                1,
                Value::Int(-1),
            ),
            (b"\x02\0\0\0\x01\x02\x03\x04", 2, Value::Text(0x0403_0201)),
            (b"\x02\0\0\x80", 2, Value::Null),
            (b"\x03\0\0\0\x01", 3, Value::Bool(true)),
            (b"\x04\0\0\0\0\0\0\0\0\0\xf8\x3f", 4, Value::Double(1.5)),
            (b"\x05\0\0\0\x01\x07\0\0\0", 5, Value::Text(7)),
            (b"\x05\0\0\0\x02\x07\0\0\0\0\0\0\0", 5, Value::Int(7)),
            (b"\x05\0\0\0\x04\0", 5, Value::Bool(false)),
            (b"\x05\0\0\x80", 5, Value::Null),
        ];
        for (end, key, value) in cases {
            let bytes = typed(end);
            let interval = Interval {
                start: 1000,
                end: -2,
                key,
                value,
            };
            let mut more = bytes.clone();
            more.push(0xee);
            assert_eq!(decode_interval(&more, &KINDS), Ok((interval, bytes.len())));
            let mut out = Vec::new();
            push_interval(&mut out, &interval, KINDS[key as usize] == Kind::Any);
            assert_eq!(out, bytes);
            for size in 0..bytes.len() {
                assert_eq!(decode_interval(&bytes[..size], &KINDS), Err(Bad::Short));
            }
        }
    }

    #[test]
    fn what_is_no_interval() {
        let cases: [(&[u8], Bad); 5] = [
            (b"\x06\0\0\0\0\0\0\0\0\0\0\0", Bad::Key(6)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Bad::Type(0)),
            (b"\x05\0\0\0\x05\0\0\0", Bad::Type(5)),
            (b"\x05\0\0\0\0\0\0\0", Bad::Type(5)),
            (b"\x03\0\0\0\x02", Bad::Bool(2)),
        ];
        for (end, bad) in cases {
            assert_eq!(decode_interval(&typed(end), &KINDS), Err(bad));
        }
    }

    #[test]
    fn types_have_names() {
        for (kind, name) in Kind::NAMES {
            assert_eq!((kind.name(), Kind::of_name(name)), (name, Some(kind)));
        }
        assert_eq!(Kind::of_name("variant"), Some(Kind::Any));
        assert_eq!(Kind::of_name("long"), None);
    }
}
