//! The polls of a few tasks: the call around each note of a task. Must never keep a poll of another task.
//!
//! A note stands at the end of a poll, so its call ends next. Two notes stand elsewhere: that of a task whose last poll
//! left no records, and that of a dropped one. They stand in some call of another function, or in a poll that has a note
//! of its own behind them.

use fdr_formats::calls::Ended;
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

/// The pass.
pub(crate) struct PollPass<'a> {
    wanted: &'a HashSet<u64>,
    thread: ThreadId,
    /// By thread: task, its function and number of the poll whose note was the last one.
    noted: HashMap<ThreadId, (u64, FunctionId, u64)>,
    polls: HashMap<u64, Vec<Poll>>,
}

impl<'a> PollPass<'a> {
    pub(crate) fn new(wanted: &'a HashSet<u64>) -> PollPass<'a> {
        PollPass {
            wanted,
            thread: ThreadId::default(),
            noted: HashMap::new(),
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

    fn entered(&mut self, _: FunctionId, (): ()) {}

    fn ended(&mut self, ended: &Ended<()>, _: bool) {
        let Some((task, function, number)) = self.noted.remove(&self.thread) else {
            return;
        };
        if function != ended.call.function {
            return;
        }
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
        self.noted.remove(&self.thread);
        if let Some(Note::Task {
            task, name, polls, ..
        }) = Note::decode(kind, body)
            && polls > 0
            && self.wanted.contains(&task)
        {
            self.noted
                .insert(self.thread, (task, FunctionId(name), polls));
        }
    }
}
