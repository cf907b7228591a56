//! Notes as events: a class of events for each name, with typed fields, so that any reader of CTF shows names and
//! values. Layout, and the text of the metadata. A trace without notes has none of this.
//!
//! | stream | class | name | fields |
//! | --- | --- | --- | --- |
//! | 0 | 8 | `fdr:task` | u64 id, u64 parent, u64 who woke it, u8 state, u32 number of the name, string name |
//! | 0 | 9 | `fdr:thread_state` | u64 object, u64 holder, u64 ticks waited, u32 function of the holder, u8 state, u8 reason, u32 number of the name, string name |
//! | 0 | 10 | `fdr:note` | u8 kind, u32 size, size bytes: a note that no other class holds |
//! | 0 | 11 | `lttng_ust_cyg_profile:func_exit` | those of class 1, u64 task: the exit of a poll behind the note of its task |
//! | 0 | 12 to 255 | the event's name, `fdr:arguments`, `fdr:result`, `fdr:error` | with bit 24 of the description: u64 span; then the fields |
//! | 1 | 3 | `fdr:class` | u8 class, u64 description, u32 count, count u64 descriptions of fields |
//! | 1 | 4 | `fdr:name` | u32 id, u32 line, u8 what it stands for, text name, text file |
//!
//! The bits of the two kinds of descriptions are those of [`note_class`](crate::note_class).
//!
//! A number or an address is a u64, i64 or f64, and a truth value is a u8. A text is UTF-8 with a zero behind it. If
//! the text was cut, a u64 in front has the size of the whole text. Bytes, and a text that is no UTF-8 or has a zero
//! inside, are: u32 number of the bytes that follow here, u64 number of all bytes, the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::record::{CLASS, NAME, NOTE, POLL_EXIT, TASK, THREAD_STATE, plain};
use crate::model::{FunctionId, TraceInfo};
use crate::note_class::{NoteClass, describe, field_name, is_cut, is_string, kind, numbers, place};
use crate::notes::{ERROR, Field, FieldValue, Note, NoteKind, RESULT, task_state};

/// The first class that has a description.
const FIRST: u8 = 12;

/// The classes that every trace with notes or names has, as the metadata has its events.
pub(super) const EVENTS: &[(&str, u32, u8, &[&str])] = &[
    (
        "fdr:task",
        0,
        TASK,
        &[
            "uint64_t task",
            "uint64_t parent",
            "uint64_t woken_by",
            "uint64_t elapsed",
            "uint64_t busy",
            "uint64_t polls",
            "uint8_t counted",
            "uint8_t state",
            "uint32_t name_id",
            "string { encoding = UTF8; } name",
        ],
    ),
    (
        "fdr:thread_state",
        0,
        THREAD_STATE,
        &[
            "value_t object",
            "uint64_t holder",
            "uint64_t waited",
            "uint32_t function_id",
            "uint8_t state",
            "uint8_t reason",
            "uint32_t name_id",
            "string { encoding = UTF8; } name",
        ],
    ),
    (
        "fdr:note",
        0,
        NOTE,
        &["uint8_t kind", "uint32_t size", "byte_t data[ size ]"],
    ),
    (
        "lttng_ust_cyg_profile:func_exit",
        0,
        POLL_EXIT,
        &[
            "address_t addr",
            "address_t call_site",
            "uint8_t flags",
            "uint64_t task_id",
        ],
    ),
    (
        "fdr:class",
        1,
        CLASS,
        &[
            "uint8_t class",
            "value_t about",
            "uint32_t count",
            "value_t fields[ count ]",
        ],
    ),
    (
        "fdr:name",
        1,
        NAME,
        &[
            "uint32_t id",
            "uint32_t line",
            "uint8_t what",
            "?name",
            "?file",
        ],
    ),
];

/// Bytes of an event's name in the metadata.
const EVENT_NAME: usize = 256;

impl NoteClass {
    /// The class in the metadata.
    fn text(&self, id: u8, info: &TraceInfo) -> String {
        let name = match (self.kind(), self.fields.first()) {
            (Some(NoteKind::Arguments), field) => match field.map(|field| place(*field)) {
                Some(RESULT) => "fdr:result".to_owned(),
                Some(ERROR) => "fdr:error".to_owned(),
                _ => "fdr:arguments".to_owned(),
            },
            _ => event_name(info, (self.event >> 32) as u32),
        };
        let mut text =
            format!("\nevent {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = 0;\n");
        // LTTng's numbers: TRACE_DEBUG_LINE, DEBUG, INFO, WARNING, ERR.
        let level = match self.event >> 16 & 0xFF {
            1 => 13,
            2 => 14,
            3 => 6,
            4 => 4,
            5 => 3,
            _ => 0,
        };
        if level > 0 {
            let _ = writeln!(text, "\tloglevel = {level};");
        }
        text.push_str("\tfields := struct {\n");
        let mut taken = BTreeSet::new();
        if self.has_span() {
            taken.insert("span_id".to_owned());
            text.push_str("\t\tuint64_t _span_id;\n");
        }
        for &field in &self.fields {
            let name = field_name(name_of(info, field as u32), &mut taken);
            let _ = match kind(field) {
                0 => writeln!(text, "\t\tuint64_t _{name};"),
                1 => writeln!(text, "\t\tint64_t _{name};"),
                2 => writeln!(text, "\t\tfloat64_t _{name};"),
                3 => writeln!(text, "\t\tuint8_t _{name};"),
                6 => writeln!(text, "\t\tvalue_t _{name};"),
                _ => {
                    if !is_string(field) {
                        let _ = writeln!(text, "\t\tuint32_t __{name}_length;");
                    }
                    if is_cut(field) {
                        let _ = writeln!(text, "\t\tuint64_t _{name}_bytes;");
                    }
                    match is_string(field) {
                        true => writeln!(text, "\t\tstring {{ encoding = UTF8; }} _{name};"),
                        false => writeln!(text, "\t\tbyte_t _{name}[ __{name}_length ];"),
                    }
                }
            };
        }
        text.push_str("\t};\n};\n");
        text
    }
}

fn name_of(info: &TraceInfo, id: u32) -> &str {
    let id = FunctionId(id);
    let known = info.function(id);
    // Functions that came later are not in order.
    let known = known.or_else(|| info.functions.iter().find(|function| function.id == id));
    known.map_or("", |function| &function.name)
}

/// An event's name in the metadata. The names of classes of our own, and of calls, are not for events.
fn event_name(info: &TraceInfo, id: u32) -> String {
    let name = plain(name_of(info, id), EVENT_NAME);
    match name.as_str() {
        "" => format!("#{id}"),
        own if own.starts_with("fdr:") || own.starts_with("lttng_ust") => format!("_{name}"),
        _ => name,
    }
}

/// The classes of a trace that is written.
#[derive(Clone, Debug, Default)]
pub(super) struct NoteClasses {
    ids: BTreeMap<NoteClass, u8>,
    /// Classes that no fact has described yet.
    pub(super) undescribed: Vec<(u8, NoteClass)>,
    /// Their texts in the metadata.
    pub(super) text: String,
    /// The trace has notes or names.
    pub(super) is_used: bool,
    /// The metadata does not have all of this yet.
    pub(super) is_metadata_old: bool,
    /// Notes that had to be written without a class of their own, because there were too many classes.
    pub(super) classless: u64,
}

impl NoteClasses {
    /// The trace has what only these classes hold.
    pub(super) fn begin(&mut self) {
        self.is_metadata_old |= !self.is_used;
        self.is_used = true;
    }

    /// The class of a note, and its fields. `body` is the note's.
    pub(super) fn put(
        &mut self,
        kind: NoteKind,
        body: &[u8],
        info: &TraceInfo,
        out: &mut Vec<u8>,
    ) -> u8 {
        self.begin();
        let note = Note::decode(kind, body);
        let class = note.as_ref().and_then(|note| self.class(note, info));
        match (note, class) {
            (Some(note), Some(class)) => {
                put(&note, info, out);
                class
            }
            _ => {
                out.push(kind as u8);
                out.extend((body.len() as u32).to_le_bytes());
                out.extend_from_slice(body);
                NOTE
            }
        }
    }

    fn class(&mut self, note: &Note<'_>, info: &TraceInfo) -> Option<u8> {
        match note.kind() {
            NoteKind::Task => return Some(TASK),
            NoteKind::ThreadState => return Some(THREAD_STATE),
            NoteKind::Event | NoteKind::Arguments => {}
        }
        let class = NoteClass::from_note(note)?;
        if let Some(&id) = self.ids.get(&class) {
            return Some(id);
        }
        let next = usize::from(FIRST) + self.ids.len();
        let Ok(id) = u8::try_from(next) else {
            self.classless += 1;
            return None;
        };
        self.text.push_str(&class.text(id, info));
        self.undescribed.push((id, class.clone()));
        self.ids.insert(class, id);
        self.is_metadata_old = true;
        Some(id)
    }
}

/// The task of a note and its function, if the note ends a poll. The note of a dropped task may be inside any call.
pub(super) fn polled(kind: NoteKind, body: &[u8]) -> Option<(u64, u32)> {
    match Note::decode(kind, body)? {
        Note::Task {
            task, name, state, ..
        } => (state != task_state::DROPPED).then_some((task, name)),
        _ => None,
    }
}

/// The fields of a note.
fn put(note: &Note<'_>, info: &TraceInfo, out: &mut Vec<u8>) {
    match note {
        Note::Event { span, fields, .. } => {
            if *span != 0 {
                out.extend(span.to_le_bytes());
            }
            fields.iter().for_each(|field| put_field(field, out));
        }
        Note::Arguments { fields, .. } => fields.iter().for_each(|field| put_field(field, out)),
        Note::Task { .. } | Note::ThreadState { .. } => {
            for (value, number) in note.numbers().iter().zip(numbers(note.kind())) {
                out.extend_from_slice(&value.to_le_bytes()[..number.size]);
            }
            out.extend(note.name().to_le_bytes());
            out.extend_from_slice(plain(name_of(info, note.name()), EVENT_NAME).as_bytes());
            out.push(0);
        }
    }
}

fn put_field(field: &Field<'_>, out: &mut Vec<u8>) {
    let number = match field.value {
        FieldValue::Unsigned(number) | FieldValue::Address(number) => number,
        FieldValue::Signed(number) => number as u64,
        FieldValue::Float(number) => number.to_bits(),
        FieldValue::Truth(truth) => return out.push(truth.into()),
        FieldValue::Text(text, whole) | FieldValue::Bytes(text, whole) => {
            let is_string = describe(field).is_some_and(is_string);
            if !is_string {
                out.extend((text.len() as u32).to_le_bytes());
            }
            if whole != text.len() as u64 {
                out.extend(whole.to_le_bytes());
            }
            out.extend_from_slice(text);
            if is_string {
                out.push(0);
            }
            return;
        }
        // Such a note has no class.
        FieldValue::Other(..) => return,
    };
    out.extend(number.to_le_bytes());
}
