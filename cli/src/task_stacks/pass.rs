//! Reads what notes and open calls tell of the tasks of a moment. Bodies of notes are kept only of tasks that had not
//! ended.

use std::collections::HashMap;

use fdr_formats::calls::EndedCall;
use fdr_formats::notes::{Form, Note, NoteKind, form_of};
use fdr_formats::{FunctionId, ThreadId, Ticks};

use crate::calls::arguments::{PathNotes, function_of};
use crate::report::tasks::polls::LastNote;
use crate::report::tasks::task_table::Task;
use crate::stacks::Pass;

/// An event of the program, as its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time: Ticks,
    pub(super) body: Vec<u8>,
}

/// What a call says: its arguments, and its last event.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) arguments: PathNotes,
    pub(super) event: Option<Event>,
}

impl Said {
    /// Takes what a later call of the task says.
    pub(super) fn join(&mut self, later: Said) {
        self.arguments.add(later.arguments);
        let time = |event: &Option<Event>| event.as_ref().map(|event| event.time);
        if time(&later.event) > time(&self.event) {
            self.event = later.event;
        }
    }
}

/// What the notes tell of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Its last note up to the moment, and its first one behind the moment.
    pub(super) before: Option<Task>,
    pub(super) after: Option<Task>,
    /// Its last note of all.
    pub(super) last: Option<Task>,
    /// It was polled inside of a poll of its parent, so the parent awaits it.
    pub(super) is_awaited: bool,
    pub(super) said: Said,
}

impl Known {
    fn take(&mut self, task: Task, moment: Ticks) {
        let time = task.time;
        join(&mut self.last, task.clone());
        if time <= moment {
            join(&mut self.before, task);
        } else if self.after.as_ref().is_none_or(|after| time < after.time) {
            self.after = Some(task);
        }
        if self.has_ended() {
            self.said = Said::default();
        }
    }

    fn add(&mut self, other: Known, moment: Ticks) {
        self.is_awaited |= other.is_awaited;
        self.said.join(other.said);
        for task in [other.last, other.before, other.after]
            .into_iter()
            .flatten()
        {
            self.take(task, moment);
        }
    }

    /// Whether it had ended at the moment.
    pub(super) fn has_ended(&self) -> bool {
        self.before.as_ref().is_some_and(Task::has_ended)
    }
}

fn join(known: &mut Option<Task>, task: Task) {
    match known {
        Some(known) => known.join(task),
        None => *known = Some(task),
    }
}

/// A call that was open at the moment.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) thread: ThreadId,
    pub(super) depth: usize,
    pub(super) function: FunctionId,
    pub(super) start: Ticks,
    /// A note behind the moment says of which task it is a poll, and the poll's number.
    pub(super) poll: Option<(u64, u64)>,
    pub(super) said: Said,
}

/// A call that the pass is in.
#[derive(Default)]
struct Frame {
    function: FunctionId,
    /// Tasks with a note inside.
    noted: Vec<u64>,
    said: Said,
}

#[derive(Default)]
struct ThreadCalls {
    frames: Vec<Frame>,
    last: LastNote,
}

/// The pass.
pub(super) struct TasksPass {
    moment: Ticks,
    thread: ThreadId,
    threads: HashMap<ThreadId, ThreadCalls>,
    pub(super) tasks: HashMap<u64, Known>,
    pub(super) open_calls: Vec<OpenCall>,
}

impl TasksPass {
    pub(super) fn new(moment: Ticks) -> TasksPass {
        TasksPass {
            moment,
            thread: ThreadId::default(),
            threads: HashMap::new(),
            tasks: HashMap::new(),
            open_calls: Vec::new(),
        }
    }

    /// The tasks, and the calls that were open.
    pub(super) fn gather(passes: Vec<TasksPass>) -> (HashMap<u64, Known>, Vec<OpenCall>) {
        let mut tasks: HashMap<u64, Known> = HashMap::new();
        let mut open_calls = Vec::new();
        for pass in passes {
            open_calls.extend(pass.open_calls);
            for (id, known) in pass.tasks {
                tasks.entry(id).or_default().add(known, pass.moment);
            }
        }
        open_calls.sort_by_key(|call| (call.thread, call.depth));
        (tasks, open_calls)
    }

    fn task(&mut self, id: u64, task: Task) {
        let moment = self.moment;
        let known = self.tasks.entry(id).or_default();
        known.take(task, moment);
        let Some(calls) = self.threads.get_mut(&self.thread) else {
            return;
        };
        let Some(frame) = calls.frames.last_mut() else {
            return;
        };
        frame.noted.push(id);
        let is_own = known.last.as_ref().map(|task| task.function) == Some(frame.function);
        if is_own && !known.has_ended() {
            known.said.join(frame.said.clone());
        }
    }
}

impl Pass for TasksPass {
    /// The number of open calls, with this one.
    type Data = u32;

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn entered(&mut self, function: FunctionId, _: u32) -> u32 {
        let calls = self.threads.entry(self.thread).or_default();
        calls.frames.push(Frame {
            function,
            ..Frame::default()
        });
        u32::try_from(calls.frames.len()).unwrap_or(u32::MAX)
    }

    fn ended(&mut self, ended: &EndedCall<u32>, is_open: bool) {
        let calls = self.threads.entry(self.thread).or_default();
        let poll = calls.last.ended(ended.call.function);
        // A call without an entry has no frame.
        let frame = (ended.call.data as usize).checked_sub(1).and_then(|place| {
            calls.frames.truncate(place + 1);
            (calls.frames.len() > place).then(|| calls.frames.pop())?
        });
        let Frame { noted, said, .. } = frame.unwrap_or_default();
        if let Some((task, _)) = poll {
            for id in noted {
                let inside = self.tasks.get_mut(&id);
                if let Some(inside) = inside.filter(|known| known.parent() == task) {
                    inside.is_awaited = true;
                }
            }
            calls
                .frames
                .last_mut()
                .into_iter()
                .for_each(|around| around.noted.push(task));
        } else if let Some(around) = calls.frames.last_mut() {
            around.noted.extend(noted);
            around.said.join(Said {
                arguments: PathNotes::default(),
                event: said.event.clone(),
            });
        }
        if ended.call.start <= self.moment && (is_open || ended.end > self.moment) {
            self.open_calls.push(OpenCall {
                thread: self.thread,
                depth: ended.depth,
                function: ended.call.function,
                start: ended.call.start,
                poll,
                said,
            });
        }
    }

    fn note(&mut self, _: u32, time: Ticks, kind: NoteKind, body: &[u8]) {
        if !matches!(kind, NoteKind::Task | NoteKind::Event | NoteKind::Arguments) {
            return;
        }
        let calls = self.threads.entry(self.thread).or_default();
        if kind == NoteKind::Task {
            let note = Note::decode(kind, body);
            let task = note.and_then(|note| Task::from_note(&note, time, self.thread));
            if let Some((id, task)) = task {
                calls.last.take(id, task.function, task.polls);
                self.task(id, task);
            }
            return;
        }
        let Some(frame) = calls.frames.last_mut().filter(|_| time <= self.moment) else {
            return;
        };
        if kind == NoteKind::Event && form_of(body) == Some(Form::Instant) {
            let body = body.to_vec();
            frame.said.event = Some(Event { time, body });
            return;
        }
        if function_of(kind, body) == Some(frame.function) {
            frame.said.arguments.take(time, kind, body);
        }
    }
}

impl Known {
    /// The task that made it; 0 = none.
    pub(super) fn parent(&self) -> u64 {
        self.last.as_ref().map_or(0, |task| task.parent)
    }
}
