//! What a program says beside its calls, on its way to an export: arguments go with their call, the rest are
//! happenings with names and values.

use std::io;

use fdr_formats::notes::{Form, Note, NoteKind, task_state};
use fdr_formats::{FunctionId, Ticks, note_words};

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
        let name = note_words::name(info, note.name());
        let what = match &note {
            Note::Arguments { fields, .. } => {
                if let Some(arguments) = self.arguments() {
                    for field in fields {
                        arguments.named.add_field(info, field);
                    }
                }
                return Ok(());
            }
            Note::Event {
                name: id,
                form,
                level,
                span,
                fields,
            } => {
                let form = Form::of(*form);
                if form == Some(Form::Begin) && self.innermost() == Some(FunctionId(*id)) {
                    // A span is a call: its fields stand behind its entry.
                    if let Some(arguments) = self.arguments() {
                        for field in fields {
                            arguments.named.add_field(info, field);
                        }
                    }
                    return Ok(());
                }
                fields
                    .iter()
                    .for_each(|field| values.add_field(info, field));
                if let Some(level) = note_words::level(*level) {
                    values.add("level", Value::Text(level.into_owned()));
                }
                if *span != 0 {
                    values.add("span_id", Value::Unsigned(*span));
                }
                match form {
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
                values.add(
                    "state",
                    Value::Text(note_words::task_state(*state).into_owned()),
                );
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
                values.add(
                    "state",
                    Value::Text(note_words::thread_state(*state).into_owned()),
                );
                values.add(
                    "reason",
                    Value::Text(note_words::reason(*reason).into_owned()),
                );
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
        self.give(Some(time), what, &name, &values)
    }
}
