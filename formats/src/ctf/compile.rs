//! From declared types to types that can be read: byte orders settled, names of lengths and tags
//! looked up. A short text can describe a huge type, so what comes out is counted, and the work of
//! looking up too.

use std::sync::Arc;

use super::node::{Count, Field, Integer, Node, Role, Slot};
use super::tsdl::types::{self, Label, Type};
use crate::bytes::ByteOrder;

/// Types in all classes of a trace together.
const NODES_MOST: usize = 1 << 18;
/// Names compared to find lengths and tags.
const WORK_MOST: usize = 1 << 25;
/// Labels that choose a variant's option.
const CHOICES_MOST: usize = 1024;
/// Where a name that begins so is looked for, in the order in which a reader meets them.
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
struct Known {
    name: String,
    target: Target,
}

/// A number that a path names, and the labels of its values.
type Named = (Integer, Option<Arc<[Label]>>);

enum Target {
    Number(Integer, Option<Arc<[Label]>>),
    Inside(Vec<Known>),
    Other,
}

/// Compiles the parts of one kind of event, one after the other.
pub(super) struct Compiler<'a> {
    metadata: &'a types::Metadata,
    nodes: usize,
    work: usize,
    /// By [`Root`].
    roots: [Vec<Known>; 6],
    /// The first slot that no root so far has.
    first: [Slot; 7],
    frames: Vec<Vec<Known>>,
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

    /// One part; what came after it in another event is forgotten.
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
        if self.nodes > NODES_MOST {
            return Err(format!(
                "more than {NODES_MOST} fields in all classes of events"
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
            let known = Known {
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
        if labels.len() > CHOICES_MOST || list.len() > CHOICES_MOST {
            return Err(format!("a variant of more than {CHOICES_MOST} choices"));
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
        if self.work > WORK_MOST {
            return Err("lengths and tags of fields that are too many to look up".into());
        }
        Ok(())
    }

    /// The number that a path names.
    fn lookup(&mut self, path: &str) -> Result<Named, String> {
        let compared: usize = self.frames.iter().chain(&self.roots).map(Vec::len).sum();
        self.work(compared + 1)?;
        let absolute = ROOTS.iter().position(|root| path.starts_with(root));
        let found = match absolute {
            Some(root) => {
                let path = path.strip_prefix(ROOTS[root]).unwrap_or("");
                // The part that is being compiled is still in its frame.
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

fn descend<'k>(known: &'k [Known], path: &str) -> Option<&'k Target> {
    let (mut known, mut rest) = (known, path);
    loop {
        let (name, more) = match rest.split_once('.') {
            Some((name, more)) => (name, Some(more)),
            None => (rest, None),
        };
        let name = bare(name);
        // The nearest one before: names may come again.
        let found = known.iter().rev().find(|known| known.name == name)?;
        match (more, &found.target) {
            (None, target) => return Some(target),
            (Some(more), Target::Inside(inside)) => (known, rest) = (inside, more),
            (Some(_), _) => return None,
        }
    }
}

/// A name without the underscore that keeps it from being a word of the language.
fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}
