//! The klasses that a stream has announced, the layout of their records, and the meaning of each. A klass may be
//! described before its base, and described again. A [`Layout`] is made at the first record of the klass.
//!
//! The meaning follows from name, bases and fields: HawkTracer's klasses, klasses derived from its calls, and ours.

use std::collections::HashMap;
use std::sync::Arc;

use super::fields::{FieldLayout, Kind};
use super::klass::{self, KLASSES};
use super::notes;
use super::record::{
    CALL_BASE, DOUBLE, ENDIANNESS, EVENT, FIELD, FLOAT, HEADER_SIZE, KLASS, POINTER, SIGNED,
    STRUCT, SYSTEM, TEXT, UNSIGNED,
};
use crate::note_class::NoteClass;
use crate::text;

/// The most fields of a record, with those of its bases.
const MAX_FIELDS: usize = 1024;
/// Klasses within klasses.
const MAX_DEPTH: usize = 32;
/// The most described fields of one klass, because their number is a byte.
const MAX_DESCRIBED: usize = 255;
/// The most bytes of one field that is no text.
const MAX_FIELD_BYTES: u64 = 4096;
/// The most bytes of a name that are kept, because each record may be given with the names of its klass
/// and fields.
const MAX_NAME: usize = 1024;
/// The most characters of a foreign name in a message.
const MAX_SHOWN_CHARS: usize = 60;

/// The layout of a klass's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) name: Arc<str>,
    pub(super) places: Vec<FieldLayout>,
    /// Bytes of a record, header included, if no field is a text.
    pub(super) fixed: Option<usize>,
    /// The beginning of each field, in that case.
    pub(super) starts: Vec<u32>,
    /// Bytes of a record whose texts are empty. No record has fewer.
    pub(super) least: usize,
    pub(super) meaning: Meaning,
    /// The stream did not announce it; it has HawkTracer's layout.
    pub(super) assumed: bool,
}

impl Layout {
    /// The number of the field of that name.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| &*place.name == name)
    }

    /// The first field of that name and kind.
    pub(super) fn of_kind(&self, name: &str, fits: impl Fn(&FieldLayout) -> bool) -> Option<usize> {
        self.place(name)
            .filter(|&at| self.places.get(at).is_some_and(fits))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct DescribedField {
    type_name: Arc<str>,
    name: Arc<str>,
    size: u64,
    kind: u8,
}

#[derive(Debug)]
struct AnnouncedKlass {
    name: Arc<str>,
    count: usize,
    fields: Vec<DescribedField>,
    assumed: bool,
}

/// The klasses of a stream.
#[derive(Debug)]
pub(super) struct Schema {
    klasses: HashMap<u32, AnnouncedKlass>,
    ids: HashMap<Arc<str>, u32>,
    /// Grows with every change.
    pub(super) generation: u64,
}

impl Schema {
    /// The klasses that every parser knows, and those that HawkTracer always announces.
    pub(super) fn new() -> Schema {
        let mut schema = Schema {
            klasses: HashMap::new(),
            ids: HashMap::new(),
            generation: 1,
        };
        for klass in KLASSES.iter().filter(|klass| klass.id <= SYSTEM) {
            let field = |field: &klass::Field| {
                let (kind, size, type_name) = field.described();
                DescribedField {
                    type_name: type_name.into(),
                    name: field.name.into(),
                    size,
                    kind,
                }
            };
            let fields: Vec<DescribedField> = klass.fields.iter().map(field).collect();
            let name: Arc<str> = klass.name.into();
            schema.ids.insert(Arc::clone(&name), klass.id);
            let announced = AnnouncedKlass {
                name,
                count: fields.len(),
                fields,
                assumed: klass.id > FIELD,
            };
            schema.klasses.insert(klass.id, announced);
        }
        schema
    }

    /// A klass begins. Klasses that every parser knows stay as they are.
    pub(super) fn announce(&mut self, id: u32, name: &str, count: u8) {
        let (name, count) = (cut(name), usize::from(count));
        let same =
            |known: &AnnouncedKlass| &*known.name == name && known.count == count && !known.assumed;
        if id <= FIELD || self.klasses.get(&id).is_some_and(same) {
            return;
        }
        let name: Arc<str> = name.into();
        self.ids.insert(Arc::clone(&name), id);
        let announced = AnnouncedKlass {
            name,
            count,
            fields: Vec::new(),
            assumed: false,
        };
        self.klasses.insert(id, announced);
        self.generation += 1;
    }

    /// A field of a klass; returns its fault.
    pub(super) fn describe(
        &mut self,
        id: u32,
        type_name: &str,
        name: &str,
        size: u64,
        kind: u8,
    ) -> Result<(), String> {
        if id <= FIELD {
            return Ok(());
        }
        let (type_name, name) = (cut(type_name), cut(name));
        let shown = printable_name(name);
        let Some(klass) = self.klasses.get_mut(&id).filter(|klass| !klass.assumed) else {
            return Err(format!(
                "field {shown} of klass {id}, which was not announced: ignored"
            ));
        };
        let field = DescribedField {
            type_name: type_name.into(),
            name: name.into(),
            size,
            kind,
        };
        let full = klass.fields.len() >= MAX_DESCRIBED;
        match klass.fields.iter_mut().find(|known| *known.name == *name) {
            Some(known) if *known == field => return Ok(()),
            Some(known) => *known = field,
            None if full => {
                return Err(format!(
                    "field {shown} of klass {id}, which has {MAX_DESCRIBED} already: ignored"
                ));
            }
            None => klass.fields.push(field),
        }
        self.generation += 1;
        Ok(())
    }

    fn named(&self, name: &str) -> Option<&AnnouncedKlass> {
        let klass = self.klasses.get(self.ids.get(name)?)?;
        (&*klass.name == name).then_some(klass)
    }

    /// The layout of the klass's records, or the reason why it is unknown.
    pub(super) fn layout(&self, id: u32) -> Result<Layout, String> {
        let Some(top) = self.klasses.get(&id) else {
            return Err(format!("klass {id} was not announced"));
        };
        let mut places = Vec::new();
        let call_base = standard_name(CALL_BASE);
        let mut is_call = &*top.name == call_base;
        // The klass, its next field, and whether it is one of the bases.
        let mut stack = vec![(top, 0, true)];
        let mut steps = 0;
        loop {
            let depth = stack.len();
            let Some((klass, next, is_base)) = stack.last_mut() else {
                return Ok(finish(id, top, places, is_call));
            };
            let Some(field) = klass.fields.get(*next) else {
                let lacking = klass.count.saturating_sub(klass.fields.len());
                if lacking > 0 {
                    let name = printable_name(&klass.name);
                    return Err(format!(
                        "{lacking} fields of klass {name} were not described"
                    ));
                }
                stack.pop();
                continue;
            };
            *next += 1;
            steps += 1;
            if steps > MAX_FIELDS {
                let name = printable_name(&top.name);
                return Err(format!("klass {name} has more than {MAX_FIELDS} fields"));
            }
            let (in_front, is_event) = (
                &*field.name == "base",
                &*field.type_name == standard_name(EVENT),
            );
            match (field.kind, is_event) {
                (STRUCT, true) if in_front => {}
                (STRUCT, true) => header_places(&mut places),
                (STRUCT, false) => {
                    let inner = self.named(&field.type_name).ok_or_else(|| {
                        let (name, of) =
                            (printable_name(&top.name), printable_name(&field.type_name));
                        format!("klass {name} contains {of}, which was not announced")
                    })?;
                    if depth >= MAX_DEPTH {
                        let name = printable_name(&top.name);
                        return Err(format!(
                            "klass {name} contains itself, or {MAX_DEPTH} klasses in one another"
                        ));
                    }
                    let base = *is_base && in_front;
                    is_call |= base && &*inner.name == call_base;
                    stack.push((inner, 0, base));
                }
                _ => places.push(place(field, &top.name)?),
            }
        }
    }
}

fn cut(name: &str) -> &str {
    text::cut(name, MAX_NAME)
}

fn standard_name(id: u32) -> &'static str {
    klass::standard(id).map_or("", |klass| klass.name)
}

/// A header within a record.
fn header_places(places: &mut Vec<FieldLayout>) {
    for (name, size) in [("type", 4), ("timestamp", 8), ("id", 8)] {
        places.push(FieldLayout {
            name: name.into(),
            kind: Kind::Unsigned,
            size,
        });
    }
}

fn place(field: &DescribedField, of: &str) -> Result<FieldLayout, String> {
    let kind = match (field.kind, field.size) {
        (TEXT, _) => Kind::Text,
        (SIGNED, 1 | 2 | 4 | 8) => Kind::Signed,
        (UNSIGNED, 1 | 2 | 4 | 8) => Kind::Unsigned,
        (POINTER, 1 | 2 | 4 | 8) => Kind::Pointer,
        (FLOAT, 4) => Kind::Float,
        (DOUBLE, 8) => Kind::Double,
        (_, 0..=MAX_FIELD_BYTES) => Kind::Opaque,
        (kind, size) => {
            let (name, of) = (printable_name(&field.name), printable_name(of));
            return Err(format!(
                "field {name} of klass {of} has {size} bytes of kind {kind}"
            ));
        }
    };
    let size = if kind == Kind::Text { 0 } else { field.size };
    Ok(FieldLayout {
        name: Arc::clone(&field.name),
        kind,
        size: size as u32,
    })
}

fn finish(id: u32, top: &AnnouncedKlass, places: Vec<FieldLayout>, is_call: bool) -> Layout {
    let mut starts = Vec::new();
    let mut end = HEADER_SIZE;
    let texts = places.iter().any(|place| place.kind == Kind::Text);
    for place in &places {
        starts.push(end as u32);
        end += match place.kind {
            Kind::Text => 1,
            _ => place.size as usize,
        };
    }
    if texts {
        starts = Vec::new();
    }
    let mut layout = Layout {
        name: Arc::clone(&top.name),
        places,
        fixed: (!texts).then_some(end),
        starts,
        least: end,
        meaning: Meaning::Other,
        assumed: top.assumed,
    };
    layout.meaning = meaning(id, &layout, is_call);
    if layout.meaning == Meaning::Other {
        let inside = |field: &&DescribedField| &*field.name == klass::INSIDE.name;
        let inside = top.fields.iter().find(inside);
        let class = inside.and_then(|inside| notes::class(&layout.places, &inside.type_name));
        layout.meaning = class.map_or(Meaning::Other, |class| Meaning::Note(Box::new(class)));
    }
    layout
}

/// A foreign name in a message: bounded, and without characters that a terminal would obey.
pub(super) fn printable_name(name: &str) -> String {
    let mut text: String = name
        .chars()
        .take(MAX_SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().nth(MAX_SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

/// Where the name of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The klass is its name.
    None,
    /// This field is its identifier.
    Identifier(usize),
    /// This field is its label.
    Text(usize),
}

/// The meaning of a klass's records. Numbers are places of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Endianness,
    Klass,
    Field,
    Mapping {
        identifier: usize,
        label: usize,
    },
    /// Says nothing of the program.
    System,
    Call {
        duration: usize,
        thread: usize,
        label: Label,
        /// Only in our klass.
        flags: Option<usize>,
        arguments: Vec<usize>,
    },
    Trace,
    Thread,
    Function,
    Cpu,
    Wall,
    Lost,
    Custom,
    Typed,
    Note(Box<NoteClass>),
    /// A klass without a known meaning.
    Other,
}

/// The meaning of this klass's records. `is_call`: it is HawkTracer's base of calls, or derives from it.
pub(super) fn meaning(id: u32, layout: &Layout, is_call: bool) -> Meaning {
    match id {
        ENDIANNESS => return Meaning::Endianness,
        KLASS => return Meaning::Klass,
        FIELD => return Meaning::Field,
        _ => {}
    }
    let number = |name| layout.of_kind(name, |place| place.kind == Kind::Unsigned);
    let text = |name| layout.of_kind(name, |place| place.kind == Kind::Text);
    let of_call = || number("duration").zip(number("thread_id"));
    if let Some((duration, thread)) = is_call.then(of_call).flatten() {
        return call(layout, duration, thread);
    }
    match &*layout.name {
        "HT_StringMappingEvent" => match (number("identifier"), text("label")) {
            (Some(identifier), Some(label)) => Meaning::Mapping { identifier, label },
            _ => Meaning::Other,
        },
        "HT_SystemInfoEvent" => Meaning::System,
        "FDR_TraceEvent" => Meaning::Trace,
        "FDR_ThreadEvent" => Meaning::Thread,
        "FDR_FunctionEvent" => Meaning::Function,
        "FDR_CpuEvent" => Meaning::Cpu,
        "FDR_WallEvent" => Meaning::Wall,
        "FDR_LostEvent" => Meaning::Lost,
        "FDR_CustomEvent" => Meaning::Custom,
        "FDR_TypedEvent" => Meaning::Typed,
        _ => Meaning::Other,
    }
}

fn call(layout: &Layout, duration: usize, thread: usize) -> Meaning {
    let label = match layout.place("label").map(|at| (at, &layout.places[at])) {
        Some((at, place)) if place.kind == Kind::Text => Label::Text(at),
        Some((at, place)) if place.kind == Kind::Unsigned => Label::Identifier(at),
        _ => Label::None,
    };
    let flags = layout
        .place("flags")
        .filter(|_| layout.name.starts_with("FDR_FlaggedCallEvent"));
    let taken = |at: usize| {
        let is_label =
            matches!(label, Label::Text(label) | Label::Identifier(label) if label == at);
        at == duration || at == thread || flags == Some(at) || is_label
    };
    let numbers = layout.places.iter().enumerate();
    let arguments = numbers
        .filter(|&(at, place)| place.kind.is_number() && !taken(at))
        .map(|(at, _)| at);
    Meaning::Call {
        duration,
        thread,
        label,
        flags,
        arguments: arguments.collect(),
    }
}
