//! The state of a task inside its future, and the data of a poll that copies of the crate exchange. Plain numbers,
//! because the host records the tasks of a guest. This file must never look at a clock or a thread.

/// The id of a task that is not recorded, or no longer recorded.
const OVER: u64 = u64::MAX;

/// A task, from its first recorded poll to its end.
#[repr(C)]
pub(crate) struct Task {
    /// 0 = no poll has been recorded.
    pub(crate) id: u64,
    /// The task that the thread polled at the first recorded poll of this one. 0 = none.
    pub(crate) parent: u64,
    /// The tick of that poll.
    pub(crate) first: u64,
    /// Ticks for which it was polled, without the poll that is under way.
    pub(crate) busy: u64,
    pub(crate) polls: u32,
    /// The effect of dropping the future: [`UNTOUCHED`], [`OPEN`] or nothing.
    drop: u8,
    /// Whether the totals of a thread have its beginning.
    pub(crate) is_counted: bool,
    /// Whether it has left a note.
    pub(crate) has_note: bool,
    /// Whether a trigger has fired because it took too long.
    pub(crate) is_reported: bool,
}

const _: () = assert!(size_of::<Task>() == 40);

/// The future was never polled, neither recorded nor unrecorded.
const UNTOUCHED: u8 = 1;
/// The task has begun and not ended.
const OPEN: u8 = 2;

impl Task {
    /// The task of the body of an `async fn`. A drop before the first poll does not end it, because no code of the
    /// function has run.
    #[inline]
    pub(crate) fn of_body() -> Task {
        Task {
            drop: 0,
            ..Task::new()
        }
    }

    /// The task of a future that was made by itself. A drop before the first poll ends it.
    #[inline]
    pub(crate) fn new() -> Task {
        Task {
            id: 0,
            parent: 0,
            first: 0,
            busy: 0,
            polls: 0,
            drop: UNTOUCHED,
            is_counted: false,
            has_note: false,
            is_reported: false,
        }
    }

    /// Whether the task has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.drop & OPEN != 0
    }

    /// Whether the drop of the future ends a task.
    #[inline(always)]
    pub(crate) fn ends_when_dropped(&self) -> bool {
        self.drop != 0
    }

    /// Stores that the future has been polled.
    #[inline(always)]
    pub(crate) fn is_touched_now(&mut self) {
        self.drop &= !UNTOUCHED;
    }

    /// Begins.
    pub(crate) fn open(&mut self, id: u64, parent: u64) {
        (self.id, self.parent, self.drop) = (id, parent, OPEN);
    }

    /// Ends the recording of the task: nothing of it is recorded after this.
    pub(crate) fn close(&mut self) {
        (self.id, self.drop) = (OVER, 0);
    }
}

/// The beginning of a poll.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) ticks: u64,
    /// The task that the thread polls around it.
    pub(crate) around: u64,
}

/// The requests that a thread has written and not handed over: a bit for the number of each trigger.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests(pub(crate) u32);

/// The end of a poll.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct End {
    /// The ids of the function, and of the counts of its tasks.
    pub(crate) ids: [u32; 4],
    /// Whether the entry of the poll's call was recorded.
    pub(crate) is_recorded: bool,
    /// One of `notes::task_state`.
    pub(crate) state: u8,
}
