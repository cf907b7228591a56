//! The tasks of a trace, each as its last note has it. A task may have notes on several threads, and may have lost the
//! older ones. Its last note has all of its numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fdr_formats::note_words::unquoted;
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind, task_state};
use fdr_formats::{
    Call, Diagnostic, Edge, Error, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo,
};

use crate::damage::Damage;
use crate::ui;

/// A task, as its last note has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) function: FunctionId,
    /// The task that made it; 0 = none.
    pub(crate) parent: u64,
    /// One of `task_state`.
    pub(crate) state: u8,
    /// As the note has it.
    pub(crate) counted: u8,
    /// When and where the note was written.
    pub(crate) time: Ticks,
    pub(crate) thread: ThreadId,
    /// Ticks since its first poll, and those of its polls.
    pub(crate) elapsed: u64,
    pub(crate) busy: u64,
    pub(crate) polls: u64,
    /// The first value of the field that tasks are grouped by.
    pub(crate) value: Option<String>,
}

impl Task {
    /// The id and the state of the task that the note is about. `time` and `thread` are those of the note. `None`: the
    /// note is not about a task.
    pub(crate) fn from_note(note: &Note<'_>, time: Ticks, thread: ThreadId) -> Option<(u64, Task)> {
        let Note::Task {
            task,
            parent,
            name,
            state,
            counted,
            elapsed,
            busy,
            polls,
            ..
        } = *note
        else {
            return None;
        };
        let seen = Task {
            function: FunctionId(name),
            parent,
            state,
            counted,
            time,
            thread,
            elapsed,
            busy,
            polls,
            value: None,
        };
        Some((task, seen))
    }

    /// Whether its end is known.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, task_state::FINISHED | task_state::DROPPED)
    }

    /// Adds another note of the same task: a later one, or one of another thread. The newest of both notes remains.
    pub(crate) fn join(&mut self, mut other: Task) {
        let order = |task: &Task| (task.has_ended(), task.polls, task.time);
        if order(self) < order(&other) {
            std::mem::swap(self, &mut other);
        }
        if self.value.is_none() {
            self.value = other.value;
        }
    }
}

/// The tasks of a trace, or of a worker's share of it.
#[derive(Debug, Default)]
pub(crate) struct TraceTasks {
    /// By their ids.
    pub(crate) tasks: HashMap<u64, Task>,
    pub(crate) damage: Damage,
    /// The last note of any task.
    pub(crate) last: Ticks,
    thread: ThreadId,
    by: GroupingField,
    /// Of spans of `tracing`, by the ids of their tasks: the last value, which is the task's, and when it was recorded.
    of_spans: HashMap<u64, (Ticks, String)>,
}

/// Finds the values of a field.
#[derive(Clone, Debug, Default)]
struct GroupingField {
    /// The ids that the field's name has. Empty: tasks are not grouped.
    names: Vec<u32>,
    /// For each open call of the thread: the first value inside of it, but for tasks inside.
    open: Vec<Option<String>>,
    /// The open calls of threads that will go on.
    others: HashMap<ThreadId, Vec<Option<String>>>,
}

impl TraceTasks {
    /// Reads the tasks of a source. `by`: the name of a field of events or arguments by which they are grouped.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub(crate) fn read(source: &dyn Source, by: Option<&str>) -> Result<TraceTasks, Error> {
        let info = source.info();
        let make = || by.map_or_else(TraceTasks::default, |by| TraceTasks::by(info, by));
        let mut all = TraceTasks::default();
        for seen in ui::drive(source, make)? {
            all.damage.join(seen.damage);
            all.last = all.last.max(seen.last);
            for (id, task) in seen.tasks {
                all.add(id, task);
            }
            for (id, (time, value)) in seen.of_spans {
                all.add_of_span(id, time, value);
            }
        }
        all.take_of_spans();
        all.inherit();
        Ok(all)
    }

    /// No tasks yet. They are grouped by the field of that name.
    pub(super) fn by(info: &TraceInfo, field: &str) -> TraceTasks {
        let named = info.functions.iter().filter(|known| known.name == field);
        let names = named.map(|known| known.id.0).collect();
        TraceTasks {
            by: GroupingField {
                names,
                ..GroupingField::default()
            },
            ..TraceTasks::default()
        }
    }

    /// Whether the condition `is_meant` holds for the parent of a task, or for an ancestor.
    pub(crate) fn is_inside(&self, task: u64, mut is_meant: impl FnMut(u64) -> bool) -> bool {
        let mut at = task;
        // A trace may be damaged, and parents be a circle.
        for _ in 0..64 {
            match self.tasks.get(&at).map(|task| task.parent) {
                None | Some(0) => return false,
                Some(parent) if is_meant(parent) => return true,
                Some(parent) => at = parent,
            }
        }
        false
    }

    fn add(&mut self, id: u64, task: Task) {
        add(&mut self.tasks, id, task);
    }

    fn add_of_span(&mut self, id: u64, time: Ticks, value: String) {
        let known = self.of_spans.entry(id).or_default();
        if known.0 <= time {
            *known = (time, value);
        }
    }

    /// A task has the last value of its own span, whatever events inside of it say.
    pub(super) fn take_of_spans(&mut self) {
        for (id, (_, value)) in std::mem::take(&mut self.of_spans) {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.value = Some(value);
            }
        }
    }

    /// A task without a value has that of its parent.
    pub(super) fn inherit(&mut self) {
        let has_none = |task: &&Task| task.value.is_none() && task.parent != 0;
        let mut lacking: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| has_none(task))
            .map(|(id, _)| *id)
            .collect();
        // A parent has a smaller id or another block of ids: several rounds, until nothing changes.
        loop {
            let before = lacking.len();
            lacking.retain(|id| {
                let parent = self.tasks.get(id).map(|task| task.parent);
                let value = parent.and_then(|parent| self.tasks.get(&parent)?.value.clone());
                let is_found = value.is_some();
                if let Some(task) = self.tasks.get_mut(id).filter(|_| is_found) {
                    task.value = value;
                }
                !is_found
            });
            if lacking.len() == before {
                return;
            }
        }
    }
}

/// Adds what is known of a task.
pub(crate) fn add(tasks: &mut HashMap<u64, Task>, id: u64, task: Task) {
    match tasks.entry(id) {
        Entry::Vacant(place) => drop(place.insert(task)),
        Entry::Occupied(mut known) => known.get_mut().join(task),
    }
}

impl GroupingField {
    fn take(&mut self, field: &Field<'_>) {
        if !self.names.contains(&field.name) {
            return;
        }
        if let Some(value) = self.open.last_mut().filter(|value| value.is_none()) {
            *value = Some(text(field));
        }
    }

    fn call(&mut self, call: &Call) {
        if call.edge == Edge::Entry {
            return self.open.push(None);
        }
        // The value of a call is that of the call around it, if that has none.
        let value = self.open.pop().flatten();
        if let Some(around) = self.open.last_mut().filter(|around| around.is_none()) {
            *around = value;
        }
    }

    /// Takes the value of the innermost open call, for a task whose note is in that call. Outer calls do not get the
    /// value.
    fn of_task(&mut self) -> Option<String> {
        self.open.last_mut().and_then(Option::take)
    }
}

fn text(field: &Field<'_>) -> String {
    match field.value {
        FieldValue::Text(text, _) => unquoted(&String::from_utf8_lossy(text)).to_owned(),
        _ => {
            let text = field.words(&TraceInfo::default()).to_string();
            let value = text.split_once('=').map(|(_, value)| value.to_owned());
            value.unwrap_or(text)
        }
    }
}

impl Sink for TraceTasks {
    fn thread(&mut self, thread: &Thread) {
        if self.thread == thread.id {
            return;
        }
        let before = std::mem::take(&mut self.by.open);
        if !before.is_empty() {
            self.by.others.insert(self.thread, before);
        }
        self.thread = thread.id;
        self.by.open = self.by.others.remove(&thread.id).unwrap_or_default();
    }

    fn calls(&mut self, calls: &[Call]) {
        if !self.by.names.is_empty() {
            calls.iter().for_each(|call| self.by.call(call));
        }
    }

    fn packed(&mut self, packed: &fdr_formats::packed::Packed<'_>) {
        if !self.by.names.is_empty() {
            packed.unpack(|calls| self.calls(calls));
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Mark::Note { time, kind, body } = mark else {
            return;
        };
        if !matches!(kind, NoteKind::Task) && self.by.names.is_empty() {
            return;
        }
        match Note::decode(*kind, body) {
            Some(Note::Event { span, fields, .. }) if span != 0 => {
                for field in &fields {
                    if self.by.names.contains(&field.name) {
                        self.add_of_span(span, *time, text(field));
                        self.by.take(field);
                    }
                }
            }
            Some(Note::Event { fields, .. } | Note::Arguments { fields, .. }) => {
                fields.iter().for_each(|field| self.by.take(field));
            }
            Some(note) => {
                let Some((id, task)) = Task::from_note(&note, *time, self.thread) else {
                    return;
                };
                self.last = self.last.max(*time);
                let value = self.by.of_task();
                self.add(id, Task { value, ..task });
            }
            None => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.damage.add(diagnostic);
    }
}
