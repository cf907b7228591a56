//! Layout of a file's head and of an entry, versions 1 and 2, decoded and encoded. Pure.
//!
//! The head:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | 0, then `ENTRACE` |
//! | 8 | 1 | version: 1 (the document's, `entrace_core` 0.1), 2 (`entrace_core` 0.2) |
//! | 9 | 1 | container: ET 0, IET 1, `IETPrefix` 2 |
//!
//! After the head:
//!
//! | container | after the head |
//! | --- | --- |
//! | IET | entries |
//! | `IETPrefix` | (bytes of the entry as a u64, little-endian, 8 bytes; entry) each |
//! | ET | offsets: list of u64; pool: list of (list of u32); entries |
//!
//! An offset counts from the end of the pool. The pool holds the children of each entry, ascending.
//!
//! An entry:
//!
//! | field | type |
//! | --- | --- |
//! | parent | u32 |
//! | message | option of a text |
//! | name, target | text |
//! | level | variant: Trace 0, Debug 1, Info 2, Warn 3, Error 4 |
//! | `module_path`, `file` | options of texts |
//! | line | option of a u32 |
//! | attributes, version 1 | list of (text, value) |
//! | attributes, version 2 | list of texts, sorted by bytes; list of as many values |
//!
//! A value is a variant (String 0, Bytes 1, Bool 2, Float 3, U64 4, I64 5, U128 6, I128 7) and its content.
//!
//! Sources: `TraceEntry` in ENTRACE's document on its formats (version 1), and the crate `entrace_core`
//! 0.1.3 and 0.2.0. In version 2 the crate searches names as sorted, but does not check that they are. This
//! file does not check it either: see [`Entry::is_sorted`].

use std::fmt;

use super::bincode::{self, Bad, Input, put_bytes, put_i128, put_text, put_u64, put_u128};

/// Bytes of the longest entry that is read or written.
pub(super) const MAX_ENTRY: usize = 16 << 20;
/// The most attributes of an entry that are read or written. The `tracing` crate allows 32. Without a
/// limit, an entry of empty names would take forty times its size in memory.
pub const MAX_ATTRIBUTES: usize = 1 << 16;

/// The root of every file, entry 0.
pub const ROOT: Entry<'static> = Entry {
    parent: 0,
    message: None,
    metadata: Metadata {
        name: "root",
        target: "",
        level: Level::Trace,
        module_path: None,
        file: None,
        line: None,
    },
    attributes: Vec::new(),
};

/// The importance of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// 0.
    #[default]
    Trace,
    /// 1.
    Debug,
    /// 2.
    Info,
    /// 3.
    Warn,
    /// 4.
    Error,
}

const LEVELS: [Level; 5] = [
    Level::Trace,
    Level::Debug,
    Level::Info,
    Level::Warn,
    Level::Error,
];

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text.
    String(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A boolean.
    Bool(bool),
    /// A floating-point number.
    Float(f64),
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// An unsigned number.
    U128(u128),
    /// A signed number.
    I128(i128),
}

/// The origin of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Name of the span or event.
    pub name: &'a str,
    /// What the entry belongs to: usually a module.
    pub target: &'a str,
    /// The importance.
    pub level: Level,
    /// The module.
    pub module_path: Option<&'a str>,
    /// The source file.
    pub file: Option<&'a str>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// A span or an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry<'a> {
    /// Place in the file of the parent entry; less than its own place.
    pub parent: u32,
    /// Text for people.
    pub message: Option<&'a str>,
    /// Its origin.
    pub metadata: Metadata<'a>,
    /// Names and values, in the order of the file.
    pub attributes: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Entry<'a> {
    /// The value of the first attribute of that name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Value<'a>> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|(known, _)| *known == name)
            .map(|&(_, value)| value)
    }

    /// Whether the names are in the order that version 2 promises.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        let mut names = self.attributes.windows(2);
        names.all(|pair| matches!(pair, [a, b] if a.0 <= b.0))
    }
}

/// An entry, and the bytes that it was read from.
#[derive(Clone, Debug)]
pub struct Decoded<'a> {
    /// The entry.
    pub entry: Entry<'a>,
    /// The number of its bytes.
    pub size: usize,
    /// The bytes of its metadata.
    pub metadata: &'a [u8],
}

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of its bytes that were read before the fault.
    pub at: usize,
    /// The fault.
    pub bad: Bad,
}

/// Reads the entry at the beginning of `bytes`.
///
/// # Errors
/// If there is none. With [`Bad::Short`] if more bytes might help.
pub fn decode_entry(bytes: &[u8], version: Version) -> Result<Decoded<'_>, Fault> {
    let mut input = Input::new(bytes);
    match decode(&mut input, version) {
        Ok((entry, start, end)) => Ok(Decoded {
            entry,
            size: input.consumed(),
            metadata: bytes.get(start..end).unwrap_or(&[]),
        }),
        Err(bad) => Err(Fault {
            at: input.consumed(),
            bad,
        }),
    }
}

fn decode<'a>(input: &mut Input<'a>, version: Version) -> Result<(Entry<'a>, usize, usize), Bad> {
    let parent = input.u32()?;
    let message = option(input, Input::text)?;
    let start = input.consumed();
    let metadata = decode_metadata(input)?;
    let end = input.consumed();
    let count = input.length()?;
    if count > MAX_ATTRIBUTES {
        return Err(Bad::Many);
    }
    // A wrong length of a list can't cost more memory than this.
    let mut attributes = Vec::with_capacity(count.min(8));
    match version {
        Version::V1 => {
            for _ in 0..count {
                attributes.push((input.text()?, decode_value(input)?));
            }
        }
        Version::V2 => {
            for _ in 0..count {
                attributes.push((input.text()?, Value::Bool(false)));
            }
            if input.length()? != count {
                return Err(Bad::Lengths);
            }
            for (_, value) in &mut attributes {
                *value = decode_value(input)?;
            }
        }
    }
    let entry = Entry {
        parent,
        message,
        metadata,
        attributes,
    };
    Ok((entry, start, end))
}

#[inline]
fn option<'a, T>(
    input: &mut Input<'a>,
    value: impl FnOnce(&mut Input<'a>) -> Result<T, Bad>,
) -> Result<Option<T>, Bad> {
    if input.present()? {
        value(input).map(Some)
    } else {
        Ok(None)
    }
}

fn decode_metadata<'a>(input: &mut Input<'a>) -> Result<Metadata<'a>, Bad> {
    let (name, target) = (input.text()?, input.text()?);
    let level = input.u32()?;
    let level = LEVELS
        .get(level as usize)
        .ok_or(Bad::Variant("level", level))?;
    Ok(Metadata {
        name,
        target,
        level: *level,
        module_path: option(input, Input::text)?,
        file: option(input, Input::text)?,
        line: option(input, Input::u32)?,
    })
}

fn decode_value<'a>(input: &mut Input<'a>) -> Result<Value<'a>, Bad> {
    Ok(match input.u32()? {
        0 => Value::String(input.text()?),
        1 => Value::Bytes(input.bytes()?),
        2 => Value::Bool(input.bool()?),
        3 => Value::Float(input.f64()?),
        4 => Value::U64(input.u64()?),
        5 => Value::I64(input.i64()?),
        6 => Value::U128(input.u128()?),
        7 => Value::I128(input.i128()?),
        number => return Err(Bad::Variant("kind of value", number)),
    })
}

/// Appends an entry.
pub fn encode_entry(entry: &Entry<'_>, version: Version, out: &mut Vec<u8>) {
    put_u64(out, entry.parent.into());
    put_option(out, entry.message, put_text);
    encode_metadata(&entry.metadata, out);
    encode_attributes(&entry.attributes, version, out);
}

/// Appends the attributes of an entry.
pub(super) fn encode_attributes(
    attributes: &[(&str, Value<'_>)],
    version: Version,
    out: &mut Vec<u8>,
) {
    put_u64(out, attributes.len() as u64);
    match version {
        Version::V1 => {
            for (name, value) in attributes {
                put_text(out, name);
                encode_value(value, out);
            }
        }
        Version::V2 => {
            for (name, _) in attributes {
                put_text(out, name);
            }
            put_u64(out, attributes.len() as u64);
            for (_, value) in attributes {
                encode_value(value, out);
            }
        }
    }
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

/// Appends the metadata of an entry.
pub(super) fn encode_metadata(metadata: &Metadata<'_>, out: &mut Vec<u8>) {
    put_text(out, metadata.name);
    put_text(out, metadata.target);
    out.push(metadata.level as u8);
    put_option(out, metadata.module_path, put_text);
    put_option(out, metadata.file, put_text);
    put_option(out, metadata.line, |out, line| put_u64(out, line.into()));
}

fn encode_value(value: &Value<'_>, out: &mut Vec<u8>) {
    out.push(kind(value));
    match *value {
        Value::String(text) => put_text(out, text),
        Value::Bytes(bytes) => put_bytes(out, bytes),
        Value::Bool(value) => out.push(value.into()),
        Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::U64(value) => put_u64(out, value),
        Value::I64(value) => put_u64(out, bincode::zigzag(value)),
        Value::U128(value) => put_u128(out, value),
        Value::I128(value) => put_i128(out, value),
    }
}

/// The variant's number.
fn kind(value: &Value<'_>) -> u8 {
    match value {
        Value::String(_) => 0,
        Value::Bytes(_) => 1,
        Value::Bool(_) => 2,
        Value::Float(_) => 3,
        Value::U64(_) => 4,
        Value::I64(_) => 5,
        Value::U128(_) => 6,
        Value::I128(_) => 7,
    }
}

/// Bytes of the head.
pub const HEAD_SIZE: usize = 10;
/// Bytes of the length in front of each entry of an `IETPrefix`.
pub const PREFIX_SIZE: usize = 8;

/// How entries are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Attributes are pairs.
    V1 = 1,
    /// Names of all attributes, then values.
    V2 = 2,
}

/// How entries are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// By tables in front.
    Et = 0,
    /// One after the other.
    Iet = 1,
    /// Each with its length in front. Streams use it.
    IetPrefix = 2,
}

/// What kind of ENTRACE file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How entries are encoded.
    pub version: Version,
    /// How entries are found.
    pub container: Container,
}

/// Why the bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// The bytes are not ENTRACE's, or too few.
    Magic,
    /// This version is not known.
    Version(u8),
    /// This container is not known.
    Container(u8),
}

/// Whether a file that begins with these bytes is an ENTRACE file.
#[must_use]
pub fn probe(head: &[u8]) -> bool {
    head.starts_with(b"\0ENTRACE")
}

/// Reads the head.
///
/// # Errors
/// If it is no head that this library knows.
pub fn decode_head(bytes: &[u8]) -> Result<Kind, BadHead> {
    let head: Option<&[u8; HEAD_SIZE]> = bytes.first_chunk();
    let Some(&[.., version, container]) = head.filter(|head| probe(&head[..])) else {
        return Err(BadHead::Magic);
    };
    let version = match version {
        1 => Version::V1,
        2 => Version::V2,
        other => return Err(BadHead::Version(other)),
    };
    let container = match container {
        0 => Container::Et,
        1 => Container::Iet,
        2 => Container::IetPrefix,
        other => return Err(BadHead::Container(other)),
    };
    Ok(Kind { version, container })
}

/// The head.
#[must_use]
pub fn encode_head(kind: Kind) -> [u8; HEAD_SIZE] {
    let [a, b, c, d, e, f, g, h] = *b"\0ENTRACE";
    let (version, container) = (kind.version as u8, kind.container as u8);
    [a, b, c, d, e, f, g, h, version, container]
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = match self.container {
            Container::Et => "ET",
            Container::Iet => "IET",
            Container::IetPrefix => "IETPrefix",
        };
        write!(f, "ENTRACE {container}, version {}", self.version as u8)
    }
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHead::Magic => f.write_str("not a head of ENTRACE's"),
            BadHead::Version(version) => {
                write!(
                    f,
                    "version {version} of ENTRACE; versions 1 and 2 are known"
                )
            }
            BadHead::Container(number) => write!(
                f,
                "container {number} of ENTRACE; 0 (ET), 1 (IET) and 2 (IETPrefix) are known"
            ),
        }
    }
}
