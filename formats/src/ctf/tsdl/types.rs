//! The declarations of a metadata text: types, clocks, streams and events. References to other fields (of
//! lengths, of tags) are still names here. Nothing here can read a byte.

use std::sync::Arc;

use crate::bytes::ByteOrder;

/// A number of some bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Integer {
    /// Bits, 1 to 64.
    pub(in super::super) size: u32,
    /// Bits, a power of two.
    pub(in super::super) align: u32,
    pub(in super::super) signed: bool,
    /// `None`: the trace's own.
    pub(in super::super) order: Option<ByteOrder>,
    /// The base in which people read it: 2, 8, 10 or 16.
    pub(in super::super) base: u32,
    /// It is a character.
    pub(in super::super) text: bool,
    /// The clock that it sets.
    pub(in super::super) clock: Option<String>,
}

/// A floating-point number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Float {
    /// Bits, 32 or 64.
    pub(in super::super) size: u32,
    /// Bits, a power of two.
    pub(in super::super) align: u32,
    /// `None`: the trace's own.
    pub(in super::super) order: Option<ByteOrder>,
}

/// A label of an enumeration, for the values from `low` to `high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Label {
    pub(in super::super) name: String,
    pub(in super::super) low: i128,
    pub(in super::super) high: i128,
}

/// How many elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Count {
    Fixed(u64),
    /// The length is the value of another field, by its path.
    Field(String),
}

/// A field's name and type.
pub(in super::super) type Field = (String, Type);

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Type {
    Integer(Integer),
    Float(Float),
    Text,
    Enum(Integer, Arc<[Label]>),
    Struct {
        fields: Arc<[Field]>,
        /// At least this, in bits.
        align: u32,
        height: u32,
    },
    Array {
        element: Arc<Type>,
        count: Count,
        height: u32,
    },
    Variant {
        /// The path of the field that selects one of the options.
        tag: Option<String>,
        options: Arc<[Field]>,
        height: u32,
    },
}

impl Type {
    /// The depth of types inside this one. Names let a short text make high towers.
    pub(super) fn height(&self) -> u32 {
        match self {
            Type::Struct { height, .. }
            | Type::Array { height, .. }
            | Type::Variant { height, .. } => *height,
            _ => 0,
        }
    }
}

/// The value of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Value {
    Text(String),
    Number(i128),
    /// Words joined by dots.
    Path(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Clock {
    pub(in super::super) name: String,
    pub(in super::super) description: String,
    /// Hz.
    pub(in super::super) frequency: Option<u64>,
    pub(in super::super) offset_seconds: i64,
    /// Ticks.
    pub(in super::super) offset: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stream {
    pub(in super::super) id: u64,
    pub(in super::super) event_header: Option<Type>,
    pub(in super::super) packet_context: Option<Type>,
    pub(in super::super) event_context: Option<Type>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Event {
    pub(in super::super) name: String,
    pub(in super::super) id: u64,
    pub(in super::super) stream: u64,
    pub(in super::super) context: Option<Type>,
    pub(in super::super) fields: Option<Type>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Metadata {
    pub(in super::super) order: ByteOrder,
    pub(in super::super) uuid: Option<[u8; 16]>,
    pub(in super::super) packet_header: Option<Type>,
    pub(in super::super) env: Vec<(String, Value)>,
    pub(in super::super) clocks: Vec<Clock>,
    pub(in super::super) streams: Vec<Stream>,
    pub(in super::super) events: Vec<Event>,
}

impl Metadata {
    /// A number of the environment.
    pub(in super::super) fn number(&self, key: &str) -> Option<i128> {
        let found = self.env.iter().find(|(name, _)| name == key);
        match found {
            Some((_, Value::Number(number))) => Some(*number),
            _ => None,
        }
    }

    /// A text of the environment.
    pub(in super::super) fn text(&self, key: &str) -> Option<&str> {
        let found = self.env.iter().find(|(name, _)| name == key);
        match found {
            Some((_, Value::Text(text))) => Some(text),
            _ => None,
        }
    }
}
