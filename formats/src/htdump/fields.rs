//! A field of a record: its name, its size, and how it is read.

use std::sync::Arc;

/// How a field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unsigned,
    Signed,
    Float,
    Double,
    Pointer,
    Text,
    /// Bytes of an unknown kind or size.
    Opaque,
}

impl Kind {
    /// Whether it is a number whose value has a meaning.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Kind::Unsigned | Kind::Signed | Kind::Pointer)
    }
}

/// A field in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldLayout {
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    /// Bytes; 0 for a text.
    pub(super) size: u32,
}
