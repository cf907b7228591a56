//! Types as they are read: every size, order and place of a value known. A tree of bounded depth.
//! Must never hold a name that has still to be looked up.

use std::sync::Arc;

use super::tsdl::types::Label;

/// Where a field's value is kept while its event is read.
pub(super) type Slot = usize;

/// A field: name without the underscore that CTF puts in front of it, and type.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) node: Node,
}

/// How many elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Fixed(u64),
    Slot(Slot),
}

/// A number of some bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integer {
    /// Bits, 1 to 64.
    pub(super) size: u32,
    /// Bits, a power of two.
    pub(super) align: u32,
    pub(super) signed: bool,
    pub(super) big: bool,
    pub(super) base: u32,
    pub(super) role: Role,
    pub(super) slot: Slot,
}

/// What a number is beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    None,
    /// It sets the stream's clock.
    Clock,
    /// It says which class an event is of.
    EventId,
}

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Integer(Integer),
    Enum(Integer, Arc<[Label]>),
    Float {
        size: u32,
        align: u32,
        big: bool,
        slot: Slot,
    },
    /// Bytes up to a zero.
    Text(Slot),
    Struct {
        align: u32,
        fields: Vec<Field>,
    },
    /// Whole bytes each, in a row: their place is kept, they are not looked at one by one.
    Row {
        element: Integer,
        count: Count,
        text: bool,
        slot: Slot,
    },
    Array {
        element: Box<Node>,
        count: Count,
    },
    Variant {
        tag: Slot,
        signed: bool,
        /// For values from … to …: the place of an option.
        choices: Vec<(i128, i128, usize)>,
        options: Vec<Field>,
    },
}

impl Node {
    /// Bits that the place of a value is a multiple of, from the packet's start.
    pub(super) fn align(&self) -> u32 {
        match self {
            Node::Integer(integer) | Node::Enum(integer, _) => integer.align,
            Node::Float { align, .. } | Node::Struct { align, .. } => *align,
            Node::Text(_) => 8,
            Node::Row { element, .. } => element.align,
            Node::Array { element, .. } => element.align(),
            Node::Variant { .. } => 1,
        }
    }

    /// The most bits that a value takes, alignment included; `None`: that depends on the values.
    pub(super) fn most_bits(&self) -> Option<u64> {
        let bits = match self {
            Node::Integer(integer) | Node::Enum(integer, _) => integer.size.into(),
            Node::Float { size, .. } => (*size).into(),
            Node::Struct { fields, .. } => {
                let mut sizes = fields.iter().map(|field| field.node.most_bits());
                sizes.try_fold(0u64, |sum, bits| sum.checked_add(bits?))?
            }
            Node::Row {
                element,
                count: Count::Fixed(count),
                ..
            } => count.checked_mul(element.size.into())?,
            Node::Array {
                element,
                count: Count::Fixed(count),
            } => count.checked_mul(element.most_bits()?)?,
            _ => return None,
        };
        bits.checked_add(u64::from(self.align()) - 1)
    }

    /// The fields of a struct.
    pub(super) fn fields(&self) -> &[Field] {
        match self {
            Node::Struct { fields, .. } => fields,
            _ => &[],
        }
    }

    /// The number of that name in a struct.
    pub(super) fn integer(&self, name: &str) -> Option<Integer> {
        let found = self.fields().iter().find(|field| field.name == name)?;
        match found.node {
            Node::Integer(integer) | Node::Enum(integer, _) => Some(integer),
            _ => None,
        }
    }

    /// The slot of the number of that name in a struct.
    pub(super) fn number(&self, name: &str) -> Option<Slot> {
        self.integer(name).map(|integer| integer.slot)
    }

    /// The slot of the text or the row of numbers of that size of that name in a struct.
    pub(super) fn row(&self, name: &str, size: u32) -> Option<Slot> {
        let found = self.fields().iter().find(|field| field.name == name)?;
        match &found.node {
            Node::Text(slot) if size == 8 => Some(*slot),
            Node::Row { element, slot, .. } if element.size == size => Some(*slot),
            _ => None,
        }
    }

    /// The slot of the floating-point number of that name in a struct.
    pub(super) fn float(&self, name: &str) -> Option<Slot> {
        let found = self.fields().iter().find(|field| field.name == name)?;
        match found.node {
            Node::Float { size: 64, slot, .. } => Some(slot),
            _ => None,
        }
    }
}
