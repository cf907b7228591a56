//! The arguments and results of a slow call, and of the calls on its path.

use fdr_formats::notes::{Field, Form, Note, NoteKind, form_of};
use fdr_formats::{FunctionId, Ticks, TraceInfo};

use crate::report::names::name_of;
use crate::ui;

/// Notes that are kept of a call: of its arguments, of its result, and of fields of its span. Of more, the last one
/// replaces the one before.
const MAX_NOTES: usize = 16;
/// A value that is longer loses its middle, for people.
const WIDEST: usize = 64;

/// What the notes of one path say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathNotes(Vec<(Ticks, NoteKind, Vec<u8>)>);

impl PathNotes {
    /// Takes what another pass found.
    pub(crate) fn add(&mut self, more: PathNotes) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(more.0);
        all.sort_by_key(|(time, ..)| *time);
        all.into_iter().for_each(|note| self.push(note));
    }

    /// Takes the body of a note: of arguments, or of an event that has fields of a span.
    pub(crate) fn take(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        self.push((time, kind, body.to_vec()));
    }

    fn push(&mut self, note: (Ticks, NoteKind, Vec<u8>)) {
        if self.0.len() == MAX_NOTES {
            self.0.pop();
        }
        self.0.push(note);
    }

    /// Whether they have the fields of that span of `tracing`.
    pub(crate) fn are_of_span(&self, span: u64) -> bool {
        let mut notes = self.0.iter();
        notes.any(|(_, kind, body)| span_of(*kind, body) == Some(span))
    }
}

/// The id of the span of `tracing` whose fields the note has.
pub(crate) fn span_of(kind: NoteKind, body: &[u8]) -> Option<u64> {
    if kind != NoteKind::Event || !matches!(form_of(body), Some(Form::Begin | Form::End)) {
        return None;
    }
    let id = u64::from_le_bytes(*body.get(8..)?.first_chunk()?);
    (id != 0).then_some(id)
}

/// The function or span whose arguments or first fields the note has.
pub(crate) fn function_of(kind: NoteKind, body: &[u8]) -> Option<FunctionId> {
    match Note::decode(kind, body)? {
        Note::Arguments { function, .. } => Some(FunctionId(function)),
        Note::Event { name, form, .. } => {
            (Form::from_number(form) == Some(Form::Begin)).then_some(FunctionId(name))
        }
        _ => None,
    }
}

/// The notes of one call: its arguments, and its result.
pub(crate) struct CallNotes {
    pub(crate) function: FunctionId,
    notes: PathNotes,
}

impl CallNotes {
    /// `None`: the notes have no fields.
    pub(crate) fn new(function: FunctionId, notes: PathNotes) -> Option<CallNotes> {
        let call = CallNotes { function, notes };
        (!call.fields().is_empty()).then_some(call)
    }

    /// The arguments, and the result. Of a field that a span records again, the last value.
    pub(crate) fn fields(&self) -> Vec<Field<'_>> {
        let mut all: Vec<Field<'_>> = Vec::new();
        for (_, kind, body) in &self.notes.0 {
            match Note::decode(*kind, body) {
                Some(Note::Arguments { fields, .. }) => all.extend(fields),
                Some(Note::Event { fields, .. }) => {
                    for field in fields {
                        match all.iter_mut().find(|known| known.name == field.name) {
                            Some(known) => *known = field,
                            None => all.push(field),
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }
}

/// Words of a note in one line, long ones without their middle.
pub(crate) fn shorten(words: &str) -> String {
    let words = ui::clean(words);
    let words: Vec<_> = words
        .split(' ')
        .map(|word| ui::shorten(word, WIDEST))
        .collect();
    words.join(" ")
}

/// `arguments  id=7 kind="Compact"`, for people. `None`: there is none.
pub(crate) fn line(info: &TraceInfo, function: FunctionId, calls: &[CallNotes]) -> Option<String> {
    let words = |of: &CallNotes| {
        let note = Note::Arguments {
            function: of.function.0,
            fields: of.fields(),
        };
        let words = note.words(info).to_string();
        // The slow call has its name above.
        let name = name_of(info, of.function);
        let own = words.strip_prefix(&name).map(str::trim_start);
        let words = own.filter(|_| of.function == function).unwrap_or(&words);
        shorten(words)
    };
    let all: Vec<String> = calls.iter().map(words).collect();
    (!all.is_empty()).then(|| format!("arguments  {}", all.join(" \u{b7} ")))
}
