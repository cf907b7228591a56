//! A span, and the list of the spans that a thread is in. No code of the program runs here, so the locks around it are
//! held for moments only.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use fdr::dynamic::{self, Entered, Form, Poll, PolledTask, is_on, tie, write_words};
use tracing_core::span::{Current, Id};

use crate::place::{Kind, SpanSource};

/// The words of an event with fields of a span.
pub(crate) type Fields = Box<[u64]>;

/// The most events that wait for the next entry of a span.
const MAX_WAITING: usize = 8;

/// Is in the ids of spans that are no tasks, so that none of them is the id of a task.
const NO_TASK: u64 = 1 << 63;

/// A span.
pub(crate) struct Span {
    pub(crate) place: &'static SpanSource,
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
#[derive(Clone, Copy)]
struct Open {
    id: u64,
    place: &'static SpanSource,
    /// `None`: its entry is not recorded.
    call: Option<Entered>,
    poll: Option<(Poll, Tried)>,
}

/// Whether a task may turn out to be a call.
type Tried = bool;

thread_local! {
    /// Without a destructor, because destructors of other thread-locals may be in spans, too. `END` frees its memory.
    static OPEN: ManuallyDrop<RefCell<Vec<Open>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
    static ENDS: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End };
}

/// Marks the end of the thread. From then on, the memory of the thread's list is freed whenever the thread is in no
/// span.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        ENDS.set(true);
        with_open(|open| {
            free_at_the_end(open);
            Some(())
        });
    }
}

fn free_at_the_end(open: &mut Vec<Open>) {
    if open.is_empty() && ENDS.get() {
        *open = Vec::new();
    }
}

/// Does something with the spans that the thread is in. `None`: this is a handler that interrupts the same.
fn with_open<T>(with: impl FnOnce(&mut Vec<Open>) -> Option<T>) -> Option<T> {
    OPEN.with(|open| with(&mut *open.try_borrow_mut().ok()?))
}

impl Span {
    pub(crate) fn new(place: &'static SpanSource, fields: Option<Fields>, parent: u64) -> Span {
        Span {
            place,
            waiting: fields.into_iter().collect(),
            task: PolledTask::new(parent),
            entered: false,
            is_task: false,
            is_polled: false,
        }
    }

    /// The id of the span's task. 0: the span has no task.
    pub(crate) fn task(&self) -> u64 {
        self.task.id()
    }

    /// Records fields: at once, or at the first entry.
    pub(crate) fn record(&mut self, id: &Id, mut fields: Fields) {
        if !self.entered || !self.waiting.is_empty() {
            self.waiting.truncate(MAX_WAITING - 1);
            return self.waiting.push(fields);
        }
        let form = match is_inside(id) {
            true => Form::Begin,
            false => Form::End,
        };
        if is_on(self.place.site) {
            tie(&mut fields, form, self.note_id(id));
            write_words(&fields);
        }
    }

    /// What ties its notes to each other, and to its task.
    fn note_id(&self, id: &Id) -> u64 {
        match self.task.id() {
            0 => id.into_u64() | NO_TASK,
            task => task,
        }
    }

    /// Records an entry.
    pub(crate) fn enter(&mut self, id: &Id) {
        with_open(|open| {
            let place = self.place;
            let call = dynamic::enter(place.site);
            let poll = call.and_then(|call| {
                let poll = self.begin_poll(call);
                if call.is_recorded() {
                    let note_id = self.note_id(id);
                    self.waiting.drain(..).for_each(|mut fields| {
                        tie(&mut fields, Form::Begin, note_id);
                        write_words(&fields);
                    });
                }
                poll
            });
            if open.capacity() == 0 {
                // Touches `END`, so that its destructor runs. While the thread ends, that fails.
                let _ = END.try_with(|_| ());
            }
            let id = id.into_u64();
            open.push(Open {
                id,
                place,
                call,
                poll,
            });
            Some(())
        });
    }

    fn begin_poll(&mut self, call: Entered) -> Option<(Poll, Tried)> {
        // If two threads are in the span, or one thread is in it twice, only one of these entries is a poll.
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

    fn end_poll(&mut self, poll: Poll, tried: Tried, call: Entered) {
        self.is_polled = false;
        self.task.end(poll, self.place.sites, call, tried);
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
    /// Records an exit, and another entry later.
    fn leave(&self) {
        if let Some(call) = self.call {
            call.exit();
        }
    }

    fn again(&mut self) {
        if self.call.is_some() {
            self.call = dynamic::enter(self.place.site);
        }
    }
}

/// Records the exit of a span that the thread is in. `with` finds the span.
pub(crate) fn exit(id: &Id, with: impl FnOnce(&dyn Fn(&mut Span))) {
    with_open(|open| {
        let at = open.iter().rposition(|open| open.id == id.into_u64())?;
        let ended = open.remove(at);
        // Calls nest. Where spans do not, those inside are left and entered again.
        let inside = open.get_mut(at..).unwrap_or_default();
        inside.iter().rev().for_each(Open::leave);
        if let Some((call, (poll, tried))) = ended.call.zip(ended.poll) {
            with(&|span| span.end_poll(poll, tried, call));
        }
        ended.leave();
        inside.iter_mut().for_each(Open::again);
        free_at_the_end(open);
        Some(())
    });
}

/// Whether the thread is in that span, and its entry is recorded.
fn is_inside(id: &Id) -> bool {
    with_open(|open| {
        let id = id.into_u64();
        let recorded = |open: &&Open| open.call.is_some_and(Entered::is_recorded);
        open.iter().filter(recorded).find(|open| open.id == id)?;
        Some(())
    })
    .is_some()
}

/// The innermost span that the thread is in.
pub(crate) fn current() -> Current {
    let innermost = with_open(|open| open.last().copied());
    innermost.map_or_else(Current::none, |open| {
        Current::new(Id::from_u64(open.id), open.place.metadata)
    })
}
