//! Sites that are made at run time, and their calls, events and tasks. Only the crate `fdr-tracing` uses this room,
//! because the room changes without notice. A call of a site has an entry function and an exit function here, because
//! no block of the program contains the call.

pub use crate::events::{EventNote, Form, Level, Value, tie, write_words};
pub use crate::shell::units::{is_up, register, when_up};
pub use crate::site::CallSite;

use fdr_formats::notes::task_state;

use crate::recorder::{self, task};
use crate::site::task::{Begun, End, Task};

/// The number of sites that a function with calls needs: its own, and behind it three for its tasks.
pub const SITES_OF_TASKS: usize = 4;

/// An entry, for its exit.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// The word of the exit. 0: the call has no exit.
    word: u32,
}

/// Whether calls and events of the site are recorded. Async-signal-safe.
#[inline]
#[must_use]
pub fn is_on(site: &CallSite) -> bool {
    site.state() >= CallSite::MIN_ON
}

/// Records an entry, if the site is on. `None`: it is off. Async-signal-safe.
#[inline(never)]
#[must_use]
pub fn enter(site: &'static CallSite) -> Option<Entered> {
    let word = site.state();
    (word >= CallSite::MIN_ON).then(|| Entered {
        word: recorder::call_entry(word),
    })
}

impl Entered {
    /// Whether the entry is recorded, of a call that is not only counted.
    #[must_use]
    pub fn is_recorded(self) -> bool {
        self.word >= CallSite::MIN_ON
    }

    /// Records the exit, on the thread of the entry. Async-signal-safe.
    #[inline(never)]
    pub fn exit(self) {
        if self.word != 0 {
            recorder::call(self.word | recorder::EXIT);
        }
    }
}

/// The id of the task that the thread polls. 0: it polls none. Async-signal-safe.
#[must_use]
pub fn current_task() -> u64 {
    task::current()
}

/// The task of something that is entered several times. Each time is a poll, and one thread polls it at a time.
pub struct PolledTask {
    task: Task,
    /// Its parent, if a poll begins it.
    parent: u64,
}

/// A poll that has begun.
#[derive(Clone, Copy)]
pub struct Poll(Begun);

impl PolledTask {
    /// A task that has not begun.
    #[must_use]
    pub fn new(parent: u64) -> PolledTask {
        PolledTask {
            task: Task::new(),
            parent,
        }
    }

    /// Its id. 0: it has not begun.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.task.id
    }

    /// Begins a poll, behind the entry of its call. The first one begins the task. If it is only `tried`, nothing counts
    /// the task. Async-signal-safe.
    pub fn begin(
        &mut self,
        sites: &'static [CallSite],
        call: Entered,
        tried: bool,
    ) -> Option<Poll> {
        let [.., busy] = ids(sites)?;
        let busy = if tried { 0 } else { busy };
        let around = task::enter(self.parent);
        let mut begun = task::begin(&mut self.task, call.is_recorded(), busy);
        begun.around = around;
        if !self.task.is_open() {
            task::enter(around);
            return None;
        }
        Some(Poll(begun))
    }

    /// Ends a poll, before the exit of its call. If the task is only `tried`, it leaves no note. Async-signal-safe.
    pub fn end(&mut self, poll: Poll, sites: &'static [CallSite], call: Entered, tried: bool) {
        if let Some(ids) = ids(sites) {
            let end = End {
                ids,
                is_recorded: call.is_recorded() && !tried,
                state: task_state::WAITING,
            };
            task::request_dumps(task::end(&mut self.task, poll.0, end));
        }
    }

    /// Ends the task, outside of its polls. Async-signal-safe.
    pub fn finish(&mut self, sites: &'static [CallSite]) {
        let Some(ids) = ids(sites).filter(|_| self.task.is_open()) else {
            return;
        };
        // A task ends with a poll. This poll is made up: it takes no time and is not counted.
        let mut begun = task::begin(&mut self.task, false, 0);
        begun.ticks = u64::MAX;
        self.task.polls = self.task.polls.saturating_sub(1);
        let end = End {
            ids,
            is_recorded: false,
            state: task_state::FINISHED,
        };
        task::request_dumps(task::end(&mut self.task, begun, end));
    }
}

impl core::fmt::Debug for PolledTask {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("PolledTask").field(&self.task.id).finish()
    }
}

/// The ids of a function and of the counts of its tasks.
fn ids(sites: &[CallSite]) -> Option<[u32; SITES_OF_TASKS]> {
    let sites = sites.first_chunk::<SITES_OF_TASKS>()?;
    Some(sites.each_ref().map(CallSite::id))
}
