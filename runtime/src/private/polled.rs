//! Futures whose polls are calls: the body of a traced `async fn`, and what [`task!`](crate::task) gives. While the
//! function is off, a poll is one load and one branch more. This file must never move a future that is pinned.

use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::task::{Context, Poll};

use fdr_formats::notes::task_state;

use super::{Guard, Output};
use crate::recorder::{self, task};
use crate::site::task::{Begun, End, Task};
use crate::site::{CallSite, TaskSites};

/// A future that is a task: it records an entry and an exit around every poll of the inner one. The compiler knows its
/// output before it knows `F`.
#[must_use = "futures do nothing unless polled"]
pub struct Polled<T, F> {
    _output: Output<T>,
    inner: F,
    // Behind the future, so that it is dropped later: the time of the future's own drop is part of the task.
    life: OwnedTask,
}

impl<T, F> Polled<T, F> {
    #[inline]
    fn new(sites: &'static TaskSites, task: Task, inner: F) -> Polled<T, F> {
        Polled {
            _output: Output::NEW,
            inner,
            life: OwnedTask { sites, task },
        }
    }
}

/// Wraps the body of a traced `async fn`. If it is dropped before its first poll, no code of that function has run, and
/// nothing is recorded.
#[inline]
pub fn polled<T, F: Future<Output = T>>(
    sites: &'static TaskSites,
    _output: Output<T>,
    inner: F,
) -> Polled<T, F> {
    Polled::new(sites, Task::of_body(), inner)
}

/// Wraps a future, as [`task!`](crate::task) does.
#[inline]
pub fn task_of<T, F: Future<Output = T>>(sites: &'static TaskSites, inner: F) -> Polled<T, F> {
    Polled::new(sites, Task::new(), inner)
}

impl<T, F: Future<Output = T>> Future for Polled<T, F> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: `inner` is pinned if `self` is, because it is never moved out. `Polled` is not `repr(packed)`, has no
        // `Drop` of its own, and is `Unpin` only if `F` is. `life` is never pinned.
        let (inner, life) = unsafe {
            let polled = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut polled.inner), &mut polled.life)
        };
        let mut poll = OnePoll::new(life);
        let output = inner.poll(context);
        poll.state = match output {
            Poll::Ready(_) => task_state::FINISHED,
            Poll::Pending => task_state::WAITING,
        };
        output
    }
}

/// The part of its task that a future owns. If the future is dropped before its end, the task ends with it.
struct OwnedTask {
    sites: &'static TaskSites,
    task: Task,
}

impl OwnedTask {
    fn ids(&self) -> [u32; 4] {
        self.sites.each_ref().map(CallSite::id)
    }
}

impl Drop for OwnedTask {
    #[inline]
    fn drop(&mut self) {
        if self.task.ends_when_dropped() {
            end_dropped(self);
        }
    }
}

#[cold]
#[inline(never)]
fn end_dropped(life: &mut OwnedTask) {
    let [function, ..] = life.sites;
    // While the function is off, a task ends unseen.
    if function.state() >= CallSite::MIN_ON {
        let ids = life.ids();
        task::end_dropped(&mut life.task, &ids);
    }
}

/// One poll. It ends the poll when it goes out of scope, on every way out.
struct OnePoll<'a> {
    life: &'a mut OwnedTask,
    /// The begin of the poll. It stays unwritten while the function is off, because writing it would take time.
    begun: MaybeUninit<Begun>,
    /// 0: the function is off. Otherwise [`ON`], and the word with which the exit comes, if it comes.
    word: u64,
    /// One of `task_state`. A poll that panics leaves it as it is.
    state: u8,
}

/// Set in [`OnePoll::word`] while the function is on.
const ON: u64 = 1 << 32;

impl<'a> OnePoll<'a> {
    #[inline(always)]
    fn new(life: &'a mut OwnedTask) -> OnePoll<'a> {
        let [function, ..] = life.sites;
        let state = function.state();
        life.task.is_touched_now();
        let mut begun = MaybeUninit::uninit();
        let word = match state >= CallSite::MIN_ON {
            true => begin(life, &mut begun, state),
            false => 0,
        };
        OnePoll {
            life,
            begun,
            word,
            state: task_state::DROPPED,
        }
    }
}

impl Drop for OnePoll<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.word != 0 {
            // SAFETY: `begin` has written it, because it gave that word.
            let begun = unsafe { self.begun.assume_init_ref() };
            end(self.life, begun, self.word, self.state);
        }
    }
}

/// Begins a poll. Returns the word of [`OnePoll`].
#[cold]
#[inline(never)]
fn begin(life: &mut OwnedTask, begun: &mut MaybeUninit<Begun>, word: u32) -> u64 {
    let word = recorder::call_entry(word);
    let is_recorded = word >= CallSite::MIN_ON;
    let [.., busy] = life.sites;
    begun.write(task::begin(&mut life.task, is_recorded, busy.id()));
    ON | u64::from(word)
}

#[cold]
#[inline(never)]
fn end(life: &mut OwnedTask, begun: &Begun, word: u64, state: u8) {
    let word = word as u32;
    let end = End {
        ids: life.ids(),
        is_recorded: word >= CallSite::MIN_ON,
        state,
    };
    let requests = task::end(&mut life.task, *begun, end);
    if word != 0 {
        recorder::call(word | recorder::EXIT);
    }
    task::request_dumps(requests);
}

/// A future that records an entry and an exit around every poll of the inner one, without times. It is no task.
#[must_use = "futures do nothing unless polled"]
pub struct PolledUntimed<T, F> {
    _output: Output<T>,
    site: &'static CallSite,
    inner: F,
}

/// Wraps the body of an untimed `async fn`.
#[inline]
pub fn polled_untimed<T, F: Future<Output = T>>(
    site: &'static CallSite,
    _output: Output<T>,
    inner: F,
) -> PolledUntimed<T, F> {
    PolledUntimed {
        _output,
        site,
        inner,
    }
}

impl<T, F: Future<Output = T>> Future for PolledUntimed<T, F> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let site = self.site;
        // SAFETY: as in `Polled`.
        let inner = unsafe { self.map_unchecked_mut(|polled| &mut polled.inner) };
        let _guard = Guard::<false>::new(site);
        inner.poll(context)
    }
}

/// What [`spawned`] gives.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Spawned<F> {
    /// The id of the task that made it. 0 = none.
    parent: u64,
    inner: F,
}

/// Makes the task that calls it the parent of the tasks inside of `future`, wherever that is polled.
///
/// A traced `async fn` that is awaited has the task around it as its parent. A future that is handed to an executor is
/// polled outside of it, so its tasks have no parent. Wrap it when it is handed over. Outside of a task, and while
/// nothing is recorded, this does nothing.
///
/// # Examples
/// ```
/// # fn spawn<F: Future>(_: F) {}
/// #[fdr::traced]
/// async fn accept() {
///     spawn(fdr::spawned(serve(7)));
/// }
///
/// #[fdr::traced]
/// async fn serve(connection: u32) {
///     std::future::ready(connection).await;
/// }
/// ```
#[inline]
pub fn spawned<F: Future>(future: F) -> Spawned<F> {
    Spawned {
        parent: task::current(),
        inner: future,
    }
}

impl<F: Future> Future for Spawned<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let parent = self.parent;
        // SAFETY: `inner` is pinned if `self` is, as in `Polled`.
        let inner = unsafe { self.map_unchecked_mut(|spawned| &mut spawned.inner) };
        let _inside = (parent != 0).then(|| Inside(task::enter(parent)));
        inner.poll(context)
    }
}

/// Sets the task that the thread polls back to this one.
struct Inside(u64);

impl Drop for Inside {
    fn drop(&mut self) {
        task::enter(self.0);
    }
}
