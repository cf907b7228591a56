//! Types as they are read, made of types as they are declared. The size, order and place of each value are
//! known, and the names of lengths and tags are looked up. The result is a tree of bounded depth, without
//! names to look up.
//!
//! A short text can describe a huge type. So the types and the work of the lookup are counted, and must
//! never exceed their bounds.

use std::sync::Arc;

use super::tsdl::types::{self, Label, Type};
use crate::bytes::ByteOrder;

/// The most types in all classes of a trace together.
const MAX_NODES: usize = 1 << 18;
/// The most names that are compared during the lookup of lengths and tags.
const MAX_WORK: usize = 1 << 25;
/// The most labels that choose a variant's option.
const MAX_CHOICES: usize = 1024;
/// The scopes in which a name with this prefix is looked up, in the order of reading.
const ROOTS: [&str; 6] = [
    "trace.packet.header.",
    "stream.packet.context.",
    "stream.event.header.",
    "stream.event.context.",
    "event.context.",
    "event.fields.",
];

/// A part of an event or of a packet's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    PacketHeader,
    PacketContext,
    EventHeader,
    StreamContext,
    EventContext,
    Fields,
}

/// A field that lengths and tags may name.
struct NamedField {
    name: String,
    target: Target,
}

/// A number that a path names, and the labels of its values.
type LabelledNumber = (Integer, Option<Arc<[Label]>>);

enum Target {
    Number(Integer, Option<Arc<[Label]>>),
    Inside(Vec<NamedField>),
    Other,
}

/// Compiles the parts of one kind of event, one after the other.
pub(super) struct Compiler<'a> {
    metadata: &'a types::Metadata,
    nodes: usize,
    work: usize,
    /// By [`Root`].
    roots: [Vec<NamedField>; 6],
    /// The first slot that no root so far uses.
    first: [Slot; 7],
    frames: Vec<Vec<NamedField>>,
    root: usize,
    next: Slot,
    /// The most slots that any event needs.
    pub(super) slots: usize,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(metadata: &'a types::Metadata) -> Compiler<'a> {
        Compiler {
            metadata,
            nodes: 0,
            work: 0,
            roots: Default::default(),
            first: [0; 7],
            frames: Vec::new(),
            root: 0,
            next: 0,
            slots: 0,
        }
    }

    /// One part. The later parts of another event are forgotten.
    pub(super) fn part(&mut self, root: Root, kind: Option<&Type>) -> Result<Option<Node>, String> {
        self.root = root as usize;
        for later in self.root..ROOTS.len() {
            self.roots[later].clear();
        }
        self.next = self.first[self.root];
        let Some(kind) = kind else {
            self.done();
            return Ok(None);
        };
        let (node, target) = self.node("", kind)?;
        if let Target::Inside(fields) = target {
            self.roots[self.root] = fields;
        }
        self.done();
        Ok(Some(node))
    }

    fn done(&mut self) {
        self.first[self.root + 1..].fill(self.next);
        self.slots = self.slots.max(self.next);
    }

    fn slot(&mut self) -> Slot {
        self.next += 1;
        self.next - 1
    }

    fn is_big(&self, order: Option<ByteOrder>) -> bool {
        order.unwrap_or(self.metadata.order) == ByteOrder::Big
    }

    fn integer(&mut self, name: &str, integer: &types::Integer) -> Integer {
        let header = self.root == Root::EventHeader as usize;
        let role = if header && name == "id" {
            Role::EventId
        } else if header && (integer.clock.is_some() || name == "timestamp") {
            Role::Clock
        } else {
            Role::None
        };
        Integer {
            size: integer.size,
            align: integer.align,
            signed: integer.signed,
            big: self.is_big(integer.order),
            base: integer.base,
            role,
            slot: self.slot(),
        }
    }

    fn node(&mut self, name: &str, kind: &Type) -> Result<(Node, Target), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!(
                "more than {MAX_NODES} fields in all classes of events"
            ));
        }
        Ok(match kind {
            Type::Integer(integer) => {
                let integer = self.integer(name, integer);
                (Node::Integer(integer), Target::Number(integer, None))
            }
            Type::Enum(integer, labels) => {
                let integer = self.integer(name, integer);
                let target = Target::Number(integer, Some(labels.clone()));
                (Node::Enum(integer, labels.clone()), target)
            }
            Type::Float(float) => {
                let node = Node::Float {
                    size: float.size,
                    align: float.align,
                    big: self.is_big(float.order),
                    slot: self.slot(),
                };
                (node, Target::Other)
            }
            Type::Text => (Node::Text(self.slot()), Target::Other),
            Type::Struct { fields, align, .. } => self.structure(fields, *align)?,
            Type::Array { element, count, .. } => (self.array(element, count)?, Target::Other),
            Type::Variant { tag, options, .. } => {
                (self.variant(tag.as_deref(), options)?, Target::Other)
            }
        })
    }

    fn structure(&mut self, list: &[types::Field], align: u32) -> Result<(Node, Target), String> {
        self.frames.push(Vec::new());
        let mut fields = Vec::new();
        for (name, kind) in list {
            let name = bare(name).to_owned();
            let (node, target) = self.node(&name, kind)?;
            let known = NamedField {
                name: name.clone(),
                target,
            };
            if let Some(frame) = self.frames.last_mut() {
                frame.push(known);
            }
            fields.push(Field { name, node });
        }
        let most = fields.iter().map(|field| field.node.align()).max();
        let align = align.max(most.unwrap_or(1));
        let known = self.frames.pop().unwrap_or_default();
        Ok((Node::Struct { align, fields }, Target::Inside(known)))
    }

    fn array(&mut self, element: &Type, count: &types::Count) -> Result<Node, String> {
        let count = match count {
            types::Count::Fixed(count) => Count::Fixed(*count),
            types::Count::Field(path) => {
                Count::Slot(self.lookup(path).map(|(integer, _)| integer.slot)?)
            }
        };
        let in_bytes = match element {
            Type::Integer(kind) => {
                let whole = kind.size % 8 == 0 && kind.align % 8 == 0;
                Some(kind).filter(|kind| whole && kind.size.checked_rem(kind.align) == Some(0))
            }
            _ => None,
        };
        if let Some(kind) = in_bytes {
            let element = self.integer("", kind);
            return Ok(Node::Row {
                slot: element.slot,
                text: kind.text && kind.size == 8,
                element,
                count,
            });
        }
        let (element, _) = self.node("", element)?;
        Ok(Node::Array {
            element: Box::new(element),
            count,
        })
    }

    fn variant(&mut self, tag: Option<&str>, list: &[types::Field]) -> Result<Node, String> {
        let tag = tag.ok_or("a variant without a tag")?;
        let (integer, labels) = self.lookup(tag)?;
        let labels = labels.ok_or_else(|| format!("the tag `{tag:.60}` is no enum"))?;
        if labels.len() > MAX_CHOICES || list.len() > MAX_CHOICES {
            return Err(format!("a variant of more than {MAX_CHOICES} choices"));
        }
        let mut options = Vec::new();
        for (name, kind) in list {
            let name = bare(name).to_owned();
            let (node, _) = self.node(&name, kind)?;
            options.push(Field { name, node });
        }
        self.work(labels.len() * options.len())?;
        let mut choices = Vec::new();
        for label in labels.iter() {
            let name = bare(&label.name);
            if let Some(place) = options.iter().position(|option| option.name == name) {
                choices.push((label.low, label.high, place));
            }
        }
        Ok(Node::Variant {
            tag: integer.slot,
            signed: integer.signed,
            choices,
            options,
        })
    }

    fn work(&mut self, more: usize) -> Result<(), String> {
        self.work += more;
        if self.work > MAX_WORK {
            return Err("lengths and tags of fields that are too many to look up".into());
        }
        Ok(())
    }

    /// The number that a path names.
    fn lookup(&mut self, path: &str) -> Result<LabelledNumber, String> {
        let compared: usize = self.frames.iter().chain(&self.roots).map(Vec::len).sum();
        self.work(compared + 1)?;
        let absolute = ROOTS.iter().position(|root| path.starts_with(root));
        let found = match absolute {
            Some(root) => {
                let path = path.strip_prefix(ROOTS[root]).unwrap_or("");
                // The part in work is still in its frame.
                let now = self.frames.first().filter(|_| root == self.root);
                descend(now.unwrap_or(&self.roots[root]), path)
            }
            None => {
                let inner = self.frames.iter().rev();
                let mut all = inner.chain(self.roots.iter().rev());
                all.find_map(|known| descend(known, path))
            }
        };
        match found {
            Some(Target::Number(integer, labels)) => Ok((*integer, labels.clone())),
            Some(_) => Err(format!("`{path:.60}` is no number")),
            None => Err(format!(
                "no field `{path:.60}` comes before the one that names it"
            )),
        }
    }
}

fn descend<'k>(known: &'k [NamedField], path: &str) -> Option<&'k Target> {
    let (mut known, mut rest) = (known, path);
    loop {
        let (name, more) = match rest.split_once('.') {
            Some((name, more)) => (name, Some(more)),
            None => (rest, None),
        };
        let name = bare(name);
        // The nearest one before, because names may be repeated.
        let found = known.iter().rev().find(|known| known.name == name)?;
        match (more, &found.target) {
            (None, target) => return Some(target),
            (Some(more), Target::Inside(inside)) => (known, rest) = (inside, more),
            (Some(_), _) => return None,
        }
    }
}

/// A name without the underscore that distinguishes it from a word of the language.
fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// The slot of a field's value during the reading of its event.
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

/// The meaning of a number beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    None,
    /// It sets the stream's clock.
    Clock,
    /// It states the class of an event.
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
    /// A row of whole bytes. Only their place is kept.
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
    /// The alignment in bits, from the packet's start.
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

    /// The most bits of a value, alignment included; `None`: the number depends on the values.
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

    /// The slot of a field of a struct that is a text, or a row of numbers of `size` bits each. The field has the name
    /// `name`.
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
