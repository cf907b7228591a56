//! What a program says beside its calls, on its way to an export: arguments go with their call, the rest are
//! happenings with names and values.

use std::borrow::Cow;
use std::io;

use fdr_formats::notes::{Form, Note, NoteKind, task_state};
use fdr_formats::{FunctionId, Ticks, note_words};

use super::facts::Facts;
use super::receiver::HappeningKind;
use super::value::{Value, Values, hex};
use super::walker::Walker;

impl Walker {
    /// A note of the current thread.
    pub(super) fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) -> io::Result<()> {
        let facts = self.facts.clone();
        let info = &facts.info;
        let mut values = Values::default();
        let Some(note) = Note::decode(kind, body) else {
            values.add("data", hex(body));
            return self.give(Some(time), HappeningKind::Payload, kind.name(), &values);
        };
        match &note {
            Note::Arguments { fields, .. } => {
                if let Some(arguments) = self.arguments() {
                    for field in fields {
                        arguments.named.add_field(info, field);
                    }
                }
                return Ok(());
            }
            Note::Event {
                name, form, fields, ..
            } if Form::from_number(*form) == Some(Form::Begin) => {
                if let Some(arguments) = self.arguments_of(FunctionId(*name)) {
                    for field in fields {
                        arguments.named.set_field(info, field);
                    }
                    return Ok(());
                }
            }
            _ => {}
        }
        let name = note_words::name(info, note.name());
        match happening(&note, &facts, &mut values) {
            Some(what) => self.give(Some(time), what, &name, &values),
            None => Ok(()),
        }
    }
}

/// What a note is to an export, whose values it adds. `None`: arguments, which are no happening.
fn happening(note: &Note<'_>, facts: &Facts, values: &mut Values) -> Option<HappeningKind> {
    let kind = match note {
        Note::Arguments { .. } => return None,
        Note::Event {
            form,
            level,
            span,
            fields,
            ..
        } => {
            fields
                .iter()
                .for_each(|field| values.add_field(&facts.info, field));
            if let Some(level) = note_words::level(*level) {
                values.add("level", word(level));
            }
            if *span != 0 {
                values.add("span_id", Value::Unsigned(*span));
            }
            match Form::from_number(*form) {
                Some(Form::Counter) => HappeningKind::Counter,
                Some(Form::Begin | Form::End) => HappeningKind::Span,
                Some(Form::Instant) | None => HappeningKind::Event,
            }
        }
        Note::Task {
            task,
            parent,
            by,
            state,
            elapsed,
            busy,
            polls,
            ..
        } => {
            values.add("task", Value::Unsigned(*task));
            values.add("state", word(note_words::task_state(*state)));
            for (name, number) in [("parent", *parent), ("woken_by", *by)] {
                if number != 0 {
                    values.add(name, Value::Unsigned(number));
                }
            }
            values.add("elapsed_ns", Value::Unsigned(facts.length(*elapsed)));
            values.add("busy_ns", Value::Unsigned(facts.length(*busy)));
            values.add("polls", Value::Unsigned(*polls));
            let ended = [task_state::FINISHED, task_state::DROPPED].contains(state);
            HappeningKind::Task { id: *task, ended }
        }
        Note::ThreadState {
            object,
            holder,
            state,
            reason,
            function,
            waited,
            ..
        } => {
            values.add("state", word(note_words::thread_state(*state)));
            values.add("reason", word(note_words::reason(*reason)));
            values.add("object", Value::Text(format!("{object:#x}")));
            if *holder != 0 {
                values.add("holder", Value::Unsigned(*holder));
            }
            if *function != 0 {
                let function = facts.name(FunctionId(*function));
                values.add("holder_function", Value::Text(function));
            }
            values.add("waited_ns", Value::Unsigned(facts.length(*waited)));
            HappeningKind::ThreadState
        }
    };
    Some(kind)
}

fn word(word: Cow<'_, str>) -> Value {
    Value::Text(word.into_owned())
}
