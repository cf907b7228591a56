//! Tasks for the page: one with its polls around a moment, or all of them for a file.

use fdr_formats::notes::task_state;
use serde::Serialize;

use super::tasks::{PlacedTask, TaskSelector, Tasks};
use super::thread_tasks::Poll;
use super::viewed::ViewedTrace;

/// Polls in the list of a task.
const MAX_LISTED: usize = 200;
/// Polls in a file.
const MAX_IN_FILE: usize = 100_000;

/// One task, for the page.
#[derive(Serialize)]
pub(super) struct TaskOf {
    /// 53 bits are too few for it.
    task: String,
    function: u32,
    parent: Option<String>,
    state: &'static str,
    lane: usize,
    start: f64,
    end: f64,
    elapsed_ns: u64,
    busy_ns: u64,
    polls: u64,
    /// The polls in the trace, or some of them.
    list: Vec<PollOf>,
    /// How many are in the trace, and how many of them come before the list.
    known: usize,
    before: usize,
}

/// One poll, for the page: a call.
#[derive(Serialize)]
pub(super) struct PollOf {
    number: u64,
    thread: usize,
    depth: usize,
    start: f64,
    end: f64,
    function: u32,
    flags: u32,
}

/// One task, with the polls around a tick.
pub(super) fn details(
    viewed: &ViewedTrace,
    tasks: &Tasks,
    selector: TaskSelector,
    at: u64,
) -> Option<TaskOf> {
    let task = tasks.find(selector)?;
    let polls = tasks.polls_of(task);
    let near = polls.partition_point(|(_, poll)| poll.item.end < at);
    let before = near.saturating_sub(MAX_LISTED / 2);
    let before = before.min(polls.len().saturating_sub(MAX_LISTED));
    let list = polls.iter().skip(before).take(MAX_LISTED);
    let list = list.map(|(thread, poll)| poll_of(viewed, *thread, poll));
    Some(TaskOf {
        before,
        known: polls.len(),
        list: list.collect(),
        ..task_of(viewed, task)
    })
}

/// All tasks with their polls, for a file; and the number of polls that are left out, the shortest ones.
pub(super) fn all_tasks(viewed: &ViewedTrace, tasks: &Tasks) -> (Vec<TaskOf>, usize) {
    let mut ticks: Vec<u64> = tasks
        .polls
        .iter()
        .map(|(_, poll)| poll.item.ticks())
        .collect();
    ticks.sort_unstable();
    let least = ticks.len().checked_sub(MAX_IN_FILE + 1);
    let least = least.map_or(0, |place| ticks[place].saturating_add(1));
    let whole = |task: &PlacedTask| {
        let polls = tasks.polls_of(task);
        let kept = polls.iter().filter(|(_, poll)| poll.item.ticks() >= least);
        let list = kept.map(|(thread, poll)| poll_of(viewed, *thread, poll));
        TaskOf {
            known: polls.len(),
            list: list.collect(),
            ..task_of(viewed, task)
        }
    };
    let all: Vec<TaskOf> = tasks.tasks.iter().map(whole).collect();
    let kept: usize = all.iter().map(|task| task.list.len()).sum();
    (all, tasks.polls.len() - kept)
}

fn task_of(viewed: &ViewedTrace, placed: &PlacedTask) -> TaskOf {
    let clock = &viewed.info().clock;
    let nanos = |ticks| clock.nanos(fdr_formats::Ticks(ticks)).0;
    let task = &placed.task;
    TaskOf {
        task: placed.id.to_string(),
        function: task.function.0,
        parent: (task.parent != 0).then(|| task.parent.to_string()),
        state: match task.state {
            task_state::FINISHED => "finished",
            task_state::DROPPED => "dropped",
            _ => "not ended",
        },
        lane: placed.lane,
        start: viewed.relative(placed.start),
        end: viewed.relative(placed.end),
        elapsed_ns: nanos(task.elapsed),
        busy_ns: nanos(task.busy),
        polls: task.polls,
        list: Vec::new(),
        known: 0,
        before: 0,
    }
}

fn poll_of(viewed: &ViewedTrace, thread: usize, poll: &Poll) -> PollOf {
    PollOf {
        number: poll.number,
        thread,
        depth: poll.depth,
        start: viewed.relative(poll.item.start),
        end: viewed.relative(poll.item.end),
        function: poll.item.function,
        flags: poll.item.flags(),
    }
}
