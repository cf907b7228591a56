//! What slow tasks say: the arguments of their functions, and the events in their polls.

use fdr_formats::notes::{Form, NoteKind, form_of};
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use crate::calls::arguments::{CallNotes, PathNotes, function_of, span_of};
use crate::calls::events::Events;
use crate::report::tasks::polls::Poll;
use crate::stacks::Pass;

/// A poll of a slow task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: Ticks,
    end: Ticks,
    task: u64,
    function: FunctionId,
    is_first: bool,
}

/// The polls of the slow tasks, of each thread in the order of time, and the tasks.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    by_thread: HashMap<ThreadId, Vec<Stretch>>,
    tasks: HashSet<u64>,
}

impl Stretches {
    pub(super) fn add(&mut self, task: u64, polls: &[Poll]) {
        self.tasks.insert(task);
        for poll in polls {
            self.by_thread
                .entry(poll.thread)
                .or_default()
                .push(Stretch {
                    start: poll.start,
                    end: poll.end,
                    task,
                    function: poll.function,
                    is_first: poll.number == 1,
                });
        }
    }

    pub(super) fn sort(&mut self) {
        for all in self.by_thread.values_mut() {
            all.sort_by_key(|one| one.start);
        }
    }

    /// The last poll that began by then, if it had not ended.
    fn around(&self, thread: ThreadId, time: Ticks) -> Option<&Stretch> {
        let all = self.by_thread.get(&thread)?;
        let behind = all.partition_point(|one| one.start <= time);
        let last = all.get(behind.checked_sub(1)?)?;
        (time <= last.end).then_some(last)
    }
}

/// What a task says.
#[derive(Debug, Default)]
pub(in crate::commands::slow) struct TaskNotes {
    path_notes: PathNotes,
    pub(in crate::commands::slow) events: Events,
}

impl TaskNotes {
    /// The arguments of its function, if it has some.
    pub(in crate::commands::slow) fn arguments(&self, function: FunctionId) -> Vec<CallNotes> {
        CallNotes::new(function, self.path_notes.clone())
            .into_iter()
            .collect()
    }
}

/// The pass.
pub(super) struct NotePass<'a> {
    stretches: &'a Stretches,
    thread: ThreadId,
    found: HashMap<u64, TaskNotes>,
}

impl<'a> NotePass<'a> {
    pub(super) fn new(stretches: &'a Stretches) -> NotePass<'a> {
        NotePass {
            stretches,
            thread: ThreadId::default(),
            found: HashMap::new(),
        }
    }

    /// What all workers found of each task.
    pub(super) fn gather(passes: Vec<NotePass<'_>>) -> HashMap<u64, TaskNotes> {
        let mut all: HashMap<u64, TaskNotes> = HashMap::new();
        for (task, more) in passes.into_iter().flat_map(|pass| pass.found) {
            let notes = all.entry(task).or_default();
            notes.path_notes.add(more.path_notes);
            notes.events.add(more.events);
        }
        all
    }
}

impl Pass for NotePass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn ended(&mut self, _: &fdr_formats::calls::EndedCall<()>, _: bool) {}

    fn note(&mut self, (): (), time: Ticks, kind: NoteKind, body: &[u8]) {
        if !matches!(kind, NoteKind::Event | NoteKind::Arguments) {
            return;
        }
        if let Some(task) = span_of(kind, body) {
            // Fields of a span say which task they are of, wherever they stand.
            if self.stretches.tasks.contains(&task) {
                let notes = self.found.entry(task).or_default();
                notes.path_notes.take(time, kind, body);
            }
            return;
        }
        let Some(poll) = self.stretches.around(self.thread, time) else {
            return;
        };
        let notes = self.found.entry(poll.task).or_default();
        if kind == NoteKind::Event && form_of(body) == Some(Form::Instant) {
            return notes.events.take(time, kind, body);
        }
        let is_of_poll = function_of(kind, body) == Some(poll.function);
        if poll.is_first && time == poll.start && is_of_poll {
            notes.path_notes.take(time, kind, body);
        }
    }
}
