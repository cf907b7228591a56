//! The arguments and results of a slow call, and of the calls on its path.

use fdr_formats::notes::{Field, Note, NoteKind};
use fdr_formats::{FunctionId, TraceInfo};

use crate::report::names::name_of;
use crate::ui;

/// Notes that are kept of a call: one of its arguments, and one of its result.
const MAX_NOTES: usize = 2;
/// A value that is longer loses its middle, for people.
const WIDEST: usize = 64;

/// What the notes of one path say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathNotes(Vec<(NoteKind, Vec<u8>)>);

impl PathNotes {
    /// Takes what another pass found.
    pub(crate) fn add(&mut self, more: PathNotes) {
        self.0.extend(more.0);
        self.0.truncate(MAX_NOTES);
    }

    /// Takes the body of a note: of arguments, or of an event that has the fields of a span.
    pub(crate) fn take(&mut self, kind: NoteKind, body: &[u8]) {
        if self.0.len() < MAX_NOTES {
            self.0.push((kind, body.to_vec()));
        }
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

    /// The arguments, and the result.
    pub(crate) fn fields(&self) -> Vec<Field<'_>> {
        let mut all = Vec::new();
        for (kind, body) in &self.notes.0 {
            if let Some(Note::Arguments { fields, .. } | Note::Event { fields, .. }) =
                Note::decode(*kind, body)
            {
                all.extend(fields);
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
