//! The polls of a few tasks: the call around each note of a task. Must never keep a poll of another task.

use fdr_formats::calls::Ended;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use crate::commands::slow::slowest::SlowCall;
use crate::stacks::Pass;

/// A poll of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    /// From 1.
    pub(super) number: u64,
    pub(super) thread: ThreadId,
    pub(super) function: FunctionId,
    pub(super) start: Ticks,
    pub(super) end: Ticks,
}

impl Poll {
    pub(super) fn as_call(&self) -> SlowCall {
        SlowCall {
            total: self.end.since(self.start).0,
            function: self.function,
            thread: self.thread,
            start: self.start,
            end: self.end,
            is_open: false,
        }
    }
}

/// The pass.
pub(super) struct PollPass<'a> {
    wanted: &'a HashSet<u64>,
    thread: ThreadId,
    /// By thread: task and number of the poll whose note was the last one. Its call ends next.
    noted: HashMap<ThreadId, (u64, u64)>,
    polls: HashMap<u64, Vec<Poll>>,
}

impl<'a> PollPass<'a> {
    pub(super) fn new(wanted: &'a HashSet<u64>) -> PollPass<'a> {
        PollPass {
            wanted,
            thread: ThreadId::default(),
            noted: HashMap::new(),
            polls: HashMap::new(),
        }
    }

    /// The polls of each task, in their order.
    pub(super) fn gather(passes: Vec<PollPass<'_>>) -> HashMap<u64, Vec<Poll>> {
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
        let Some((task, number)) = self.noted.remove(&self.thread) else {
            return;
        };
        self.polls.entry(task).or_default().push(Poll {
            number,
            thread: self.thread,
            function: ended.call.function,
            start: ended.call.start,
            end: ended.end,
        });
    }

    fn note(&mut self, (): (), _: Ticks, kind: NoteKind, body: &[u8]) {
        if kind != NoteKind::Task {
            return;
        }
        if let Some(Note::Task { task, polls, .. }) = Note::decode(kind, body)
            && polls > 0
            && self.wanted.contains(&task)
        {
            self.noted.insert(self.thread, (task, polls));
        }
    }
}
