//! Notes as events: a class of events for each name, with typed fields, so that any reader of CTF shows names and
//! values. Layout, and the text of the metadata. A trace without notes has none of this.
//!
//! | stream | class | name | fields |
//! | --- | --- | --- | --- |
//! | 0 | 8 | `fdr:task` | u64 id, u64 parent, u64 who woke it, u8 state, u32 number of the name, string name |
//! | 0 | 9 | `fdr:thread_state` | u64 object, u64 holder, u64 ticks waited, u32 function of the holder, u8 state, u8 reason, u32 number of the name, string name |
//! | 0 | 10 | `fdr:note` | u8 kind, u32 size, size bytes: a note that no other class holds |
//! | 0 | 11 | `lttng_ust_cyg_profile:func_exit` | those of class 1, u64 task: the exit of a poll behind the note of its task |
//! | 0 | 12 to 255 | the title of the notes | with bit 24 of the description: u64 span; then the fields |
//! | 1 | 3 | `fdr:class` | u8 class, u64 description, u32 count, count u64 descriptions of fields |
//! | 1 | 4 | `fdr:name` | u32 id, u32 line, u8 what it stands for, text name, text file |
//!
//! The bits of the two kinds of descriptions are those of [`note_class`](crate::note_class).
//!
//! A number or an address is a u64, i64 or f64, and a truth value is a u8. A text is UTF-8 with a zero behind it. Bytes,
//! and a text that is no UTF-8 or has a zero inside, are: u32 number of the bytes that follow, the bytes. If a text was
//! cut, a u64 in front has the size of the whole text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::record::{CLASS, NAME, NOTE, POLL_EXIT, TASK, THREAD_STATE, plain};
use crate::note_class::{FIELD_NAME, NoteClass, Type, numbers};
use crate::note_values::{NoteNames, NoteValues, Value, body_alone, split};
use crate::notes::{Note, NoteKind, task_state};

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
    fn text(&self, id: u8, names: &NoteNames) -> String {
        // The names of classes of our own, and of calls, are not for events.
        let name = plain(&self.title(names), EVENT_NAME);
        let is_taken = name.starts_with("fdr:") || name.starts_with("lttng_ust");
        let before = if is_taken { "_" } else { "" };
        let mut text =
            format!("\nevent {{\n\tname = \"{before}{name}\";\n\tid = {id};\n\tstream_id = 0;\n");
        // LTTng's numbers: TRACE_DEBUG_LINE, DEBUG, INFO, WARNING, ERR.
        let level = match self.level() {
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
        let types = self.types().unwrap_or_default();
        for (name, of) in self.names(names, FIELD_NAME, &[]).iter().zip(types) {
            let kind = match of {
                Type::Unsigned => "uint64_t",
                Type::Signed => "int64_t",
                Type::Float => "float64_t",
                Type::Truth => "uint8_t",
                Type::Address => "value_t",
                Type::Text => "string { encoding = UTF8; }",
                Type::Bytes => {
                    let _ = writeln!(text, "\t\tuint32_t __{name}_length;");
                    let _ = writeln!(text, "\t\tbyte_t _{name}[ __{name}_length ];");
                    continue;
                }
            };
            let _ = writeln!(text, "\t\t{kind} _{name};");
        }
        text.push_str("\t};\n};\n");
        text
    }
}

/// The classes of a trace that is written.
#[derive(Clone, Debug, Default)]
pub(super) struct NoteClasses {
    ids: BTreeMap<NoteClass, u8>,
    /// The names of the trace.
    pub(super) names: NoteNames,
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

    /// Adds the fields of a note. Returns its class.
    pub(super) fn put(&mut self, kind: NoteKind, body: &[u8], out: &mut Vec<u8>) -> u8 {
        self.begin();
        let mut note = split(kind, body);
        let class = self.class(&note.class).unwrap_or_else(|| {
            note = body_alone(kind, body);
            NOTE
        });
        match class {
            NOTE => out.push(kind as u8),
            TASK | THREAD_STATE => return self.put_numbers(kind, &note, out),
            _ => {}
        }
        let types = note.class.types().unwrap_or_default();
        for (value, of) in note.values.iter().zip(types) {
            match value {
                Value::Unsigned(truth) if of == Type::Truth => out.push((*truth == 1).into()),
                Value::Unsigned(number) => out.extend(number.to_le_bytes()),
                Value::Signed(number) => out.extend(number.to_le_bytes()),
                Value::Float(number) => out.extend(number.to_le_bytes()),
                Value::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    out.push(0);
                }
                Value::Bytes(bytes) => {
                    out.extend((bytes.len() as u32).to_le_bytes());
                    out.extend_from_slice(bytes);
                }
            }
        }
        class
    }

    /// The fields of a note that has numbers, and its name.
    fn put_numbers(&self, kind: NoteKind, note: &NoteValues<'_>, out: &mut Vec<u8>) -> u8 {
        for (value, number) in note.values.iter().zip(numbers(kind)) {
            if let Value::Unsigned(value) = value {
                out.extend_from_slice(&value.to_le_bytes()[..number.size]);
            }
        }
        let name = note.class.name();
        out.extend(name.to_le_bytes());
        out.extend_from_slice(plain(self.names.get(name), EVENT_NAME).as_bytes());
        out.push(0);
        match kind {
            NoteKind::Task => TASK,
            _ => THREAD_STATE,
        }
    }

    /// The number of a class. `None`: there are too many.
    fn class(&mut self, class: &NoteClass) -> Option<u8> {
        match class.kind() {
            _ if class.is_body() => return Some(NOTE),
            Some(NoteKind::Task) => return Some(TASK),
            Some(NoteKind::ThreadState) => return Some(THREAD_STATE),
            _ => {}
        }
        if let Some(&id) = self.ids.get(class) {
            return Some(id);
        }
        let next = usize::from(FIRST) + self.ids.len();
        let Ok(id) = u8::try_from(next) else {
            self.classless += 1;
            return None;
        };
        self.text.push_str(&class.text(id, &self.names));
        self.undescribed.push((id, class.clone()));
        self.ids.insert(class.clone(), id);
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
