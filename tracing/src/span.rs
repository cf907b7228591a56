//! What the registry keeps of a span, and what a thread keeps of the spans that it is in. No code of the program runs
//! here, so the locks around it are held for moments.

use std::cell::RefCell;

use fdr::dynamic::{self, Entered, Poll, PolledTask, write_words};

use crate::place::{Kind, Place};

/// The words of an event with fields of a span.
pub(crate) type Fields = Box<[u64]>;

/// The most events that wait for the next entry of a span.
const MOST_WAITING: usize = 8;

/// A span.
pub(crate) struct Span {
    pub(crate) place: &'static Place,
    /// Its fields that no entry has yet.
    waiting: Vec<Fields>,
    task: PolledTask,
    /// Whether it was entered before.
    entered: bool,
    /// Whether it is certainly a task.
    is_task: bool,
    /// Whether a thread is in a poll of it.
    is_polled: bool,
}

/// A span that the thread is in.
pub(crate) struct Open {
    id: u64,
    call: Entered,
    poll: Option<(Poll, Tried)>,
}

/// Whether a task may turn out to be a call.
type Tried = bool;

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Span {
    pub(crate) fn new(place: &'static Place, fields: Option<Fields>, parent: u64) -> Span {
        Span {
            place,
            waiting: fields.into_iter().collect(),
            task: PolledTask::new(parent),
            entered: false,
            is_task: false,
            is_polled: false,
        }
    }

    /// The id of its task. 0: it has none.
    pub(crate) fn task(&self) -> u64 {
        self.task.id()
    }

    /// Keeps fields for the next entry.
    pub(crate) fn wait(&mut self, fields: Fields) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push(fields);
        }
    }

    /// Records an entry.
    pub(crate) fn enter(&mut self, id: u64) {
        // A handler that interrupted this on the same thread records nothing.
        let _ = OPEN.try_with(|open| {
            let mut open = open.try_borrow_mut().ok()?;
            let call = dynamic::enter(self.place.site)?;
            if call.is_recorded() {
                self.waiting.drain(..).for_each(|fields| write_words(&fields));
            }
            let poll = self.begin_poll(call);
            open.push(Open { id, call, poll });
            Some(())
        });
    }

    fn begin_poll(&mut self, call: Entered) -> Option<(Poll, Tried)> {
        // If two threads are in it, or one of them twice, only one of these entries is a poll.
        if self.is_polled {
            return None;
        }
        let kind = self.place.kind();
        if !self.entered {
            self.entered = true;
            self.is_task = kind == Kind::Tasks;
        } else if !self.is_task {
            self.is_task = true;
            self.place.has_tasks();
        }
        let tried = !self.is_task;
        if tried && kind == Kind::Calls {
            return None;
        }
        let poll = self.task.begin(self.place.sites, call, tried)?;
        self.is_polled = true;
        Some((poll, tried))
    }

    /// Ends the poll of that entry, before its exit.
    pub(crate) fn end_poll(&mut self, open: &Open) {
        if let Some((poll, tried)) = open.poll {
            self.is_polled = false;
            self.task.end(poll, self.place.sites, open.call, tried);
        }
    }

    /// Ends it.
    pub(crate) fn close(&mut self) {
        if self.is_task {
            self.task.finish(self.place.sites);
        } else if self.entered {
            self.place.had_call();
        }
    }
}

impl Open {
    /// The innermost entry of that span on this thread, which is no more open.
    pub(crate) fn take(id: u64) -> Option<Open> {
        let take = |open: &RefCell<Vec<Open>>| {
            let mut open = open.try_borrow_mut().ok()?;
            let at = open.iter().rposition(|open| open.id == id)?;
            Some(open.remove(at))
        };
        OPEN.try_with(take).ok().flatten()
    }

    /// Whether this thread is in that span, and its entry is recorded.
    pub(crate) fn has(id: u64) -> bool {
        let has = |open: &RefCell<Vec<Open>>| {
            open.try_borrow().is_ok_and(|open| {
                let mut open = open.iter();
                open.any(|open| open.id == id && open.call.is_recorded())
            })
        };
        OPEN.try_with(has).unwrap_or(false)
    }

    /// Whether it is a poll.
    pub(crate) fn is_poll(&self) -> bool {
        self.poll.is_some()
    }

    /// Records the exit.
    pub(crate) fn exit(self) {
        self.call.exit();
    }
}
