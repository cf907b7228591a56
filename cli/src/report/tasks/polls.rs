//! Which calls are polls of tasks, and the polls of a few tasks.
//!
//! A note stands at the end of a poll, so its call ends next. Two kinds of notes stand elsewhere: the note of a task
//! whose last poll left no records, and the note of a dropped task. Such a note stands in a call of another function,
//! or in a poll that has a note of its own behind it.

use fdr_formats::calls::EndedCall;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use crate::stacks::Pass;

/// A poll of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poll {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) thread: ThreadId,
    pub(crate) function: FunctionId,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
}

/// The last note of a task on a thread, until a call has ended behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastNote(Option<(u64, FunctionId, u64)>);

impl LastNote {
    /// Another note of a task.
    pub(crate) fn take(&mut self, task: u64, function: FunctionId, polls: u64) {
        self.0 = (polls > 0).then_some((task, function, polls));
    }

    /// A call of that function has ended. If it is a poll: its task, and its number from 1.
    pub(crate) fn ended(&mut self, function: FunctionId) -> Option<(u64, u64)> {
        let (task, polled, number) = self.0.take()?;
        (polled == function).then_some((task, number))
    }
}

/// The pass.
pub(crate) struct PollPass<'a> {
    tasks: &'a HashSet<u64>,
    thread: ThreadId,
    last: HashMap<ThreadId, LastNote>,
    polls: HashMap<u64, Vec<Poll>>,
}

impl<'a> PollPass<'a> {
    pub(crate) fn new(tasks: &'a HashSet<u64>) -> PollPass<'a> {
        PollPass {
            tasks,
            thread: ThreadId::default(),
            last: HashMap::new(),
            polls: HashMap::new(),
        }
    }

    /// The polls of each task, in their order.
    pub(crate) fn gather(passes: Vec<PollPass<'_>>) -> HashMap<u64, Vec<Poll>> {
        let mut all: HashMap<u64, Vec<Poll>> = HashMap::new();
        for (task, polls) in passes.into_iter().flat_map(|pass| pass.polls) {
            all.entry(task).or_default().extend(polls);
        }
        let sort = |polls: &mut Vec<Poll>| polls.sort_by_key(|poll| (poll.start, poll.number));
        all.values_mut().for_each(sort);
        all
    }
}

impl Pass for PollPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn ended(&mut self, ended: &EndedCall<()>, _: bool) {
        let function = ended.call.function;
        let last = self.last.get_mut(&self.thread);
        let poll = last.and_then(|last| last.ended(function));
        let Some((task, number)) = poll.filter(|(task, _)| self.tasks.contains(task)) else {
            return;
        };
        self.polls.entry(task).or_default().push(Poll {
            number,
            thread: self.thread,
            function,
            start: ended.call.start,
            end: ended.end,
        });
    }

    fn note(&mut self, (): (), _: Ticks, kind: NoteKind, body: &[u8]) {
        if kind != NoteKind::Task {
            return;
        }
        if let Some(Note::Task {
            task, name, polls, ..
        }) = Note::decode(kind, body)
        {
            let last = self.last.entry(self.thread).or_default();
            last.take(task, FunctionId(name), polls);
        }
    }
}
