//! Tasks: each from its first poll to its end, with the calls that are its polls. A task has a note inside of each poll,
//! so the call that ends next on that thread is the poll. Tasks are packed into as few lanes as they need. Must never
//! show a poll of which no note says whose it is.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use fdr_formats::notes::task_state;
use serde::Serialize;

use super::index::Index;
use super::picture::{Asked, Picture, Rows};
use super::pyramid::{CLIPPED, Item, OPEN};
use super::viewed::Viewed;
use crate::report::tasks::seen::Task;

/// Polls that a page keeps of all threads together, and those that it keeps of a thread in any case.
const MOST_POLLS: usize = 1_000_000;
const LEAST_POLLS: usize = 10_000;
/// Tasks of a thread.
const MOST_TASKS: usize = 200_000;
/// Polls in the list of a task.
const MOST_LISTED: usize = 200;
/// Polls in a file.
const MOST_IN_FILE: usize = 100_000;

/// A poll, as the call that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) task: u64,
    /// From 1.
    pub(super) number: u64,
    pub(super) depth: usize,
    pub(super) item: Item,
}

/// What a thread says of tasks.
#[derive(Debug)]
pub(super) struct OfThread {
    tasks: HashMap<u64, Task>,
    polls: Vec<Poll>,
    most: usize,
    /// Tasks and polls that were too many to keep.
    pub(super) more: u64,
}

impl OfThread {
    /// That of one of so many threads.
    pub(super) fn new(threads: usize) -> OfThread {
        OfThread {
            tasks: HashMap::new(),
            polls: Vec::new(),
            most: (MOST_POLLS / threads.max(1)).max(LEAST_POLLS),
            more: 0,
        }
    }

    pub(super) fn note(&mut self, id: u64, task: Task) {
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&id) {
            self.more += 1;
            return;
        }
        join(&mut self.tasks, id, task);
    }

    /// The call of the note before has ended.
    pub(super) fn poll(&mut self, poll: Poll) {
        match self.polls.len() < self.most {
            true => self.polls.push(poll),
            false => self.more += 1,
        }
    }
}

/// Adds what a note says of a task.
fn join(tasks: &mut HashMap<u64, Task>, id: u64, task: Task) {
    match tasks.entry(id) {
        Entry::Vacant(place) => drop(place.insert(task)),
        Entry::Occupied(mut known) => known.get_mut().join(task),
    }
}

/// A task with its place on the screen.
#[derive(Clone, Debug)]
struct Placed {
    id: u64,
    task: Task,
    start: u64,
    end: u64,
    lane: usize,
    /// Its polls: from where and to where in the list of all.
    polls: (usize, usize),
}

/// All tasks of a trace that was read.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// In order of their first polls.
    tasks: Vec<Placed>,
    /// By task, in order; each with the place of its thread.
    polls: Vec<(usize, Poll)>,
    /// By lane: places of tasks, in order.
    lanes: Vec<Vec<usize>>,
    by_id: HashMap<u64, usize>,
}

/// How many tasks and lanes there are.
#[derive(Serialize)]
pub(super) struct Count {
    tasks: usize,
    lanes: usize,
}

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
    /// Those in the trace, or some of them.
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

/// Which task is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Id(u64),
    /// The one in a lane at a tick, or next to it.
    At(usize, u64),
}

impl Tasks {
    /// The tasks of a trace that was read.
    pub(super) fn of(index: &Index) -> Tasks {
        let end = index.span().map_or(0, |(_, end)| end);
        let mut all: HashMap<u64, Task> = HashMap::new();
        let mut polls: Vec<(usize, Poll)> = Vec::new();
        for nth in 0..index.len() {
            let Some(line) = index.line(nth) else {
                continue;
            };
            let tasks = line.tasks.tasks.iter();
            for (id, task) in tasks.filter(|(_, task)| task.polls > 0) {
                join(&mut all, *id, task.clone());
            }
            polls.extend(line.tasks.polls.iter().map(|poll| (nth, *poll)));
        }
        polls.sort_by_key(|(_, poll)| (poll.task, poll.number, poll.item.start));
        // A task that is dropped says its last number again.
        polls.dedup_by_key(|(_, poll)| (poll.task, poll.number));
        let of_task = |id: u64| {
            let from = polls.partition_point(|(_, poll)| poll.task < id);
            let to = polls.partition_point(|(_, poll)| poll.task <= id);
            (from, to)
        };
        let place = |(id, task): (u64, Task)| {
            let range = of_task(id);
            let known = polls.get(range.0..range.1).unwrap_or(&[]);
            let first = task.time.0.saturating_sub(task.elapsed);
            let start = known
                .first()
                .map_or(first, |(_, poll)| first.min(poll.item.start));
            let last = known.last().map_or(0, |(_, poll)| poll.item.end);
            let last = last.max(task.time.0);
            Placed {
                id,
                start,
                end: match task.has_ended() {
                    true => last,
                    false => last.max(end),
                },
                task,
                lane: 0,
                polls: range,
            }
        };
        let mut tasks: Vec<Placed> = all.into_iter().map(place).collect();
        tasks.sort_by_key(|task| (task.start, task.id));
        let lanes = pack(&mut tasks);
        let ids = tasks.iter().enumerate();
        let by_id = ids.map(|(nth, task)| (task.id, nth)).collect();
        Tasks {
            tasks,
            polls,
            lanes,
            by_id,
        }
    }

    pub(super) fn count(&self) -> Count {
        Count {
            tasks: self.tasks.len(),
            lanes: self.lanes.len(),
        }
    }

    fn polls_of(&self, task: &Placed) -> &[(usize, Poll)] {
        self.polls.get(task.polls.0..task.polls.1).unwrap_or(&[])
    }

    /// A lane: the first row has the tasks, the second their polls.
    pub(super) fn picture(&self, lane: usize, asked: Asked) -> Picture {
        let mut rows = Rows::new(asked.pixel);
        let lane = self.lanes.get(lane).map_or(&[][..], |lane| lane);
        let first = lane.partition_point(|&nth| self.tasks[nth].end < asked.from);
        let seen = lane.iter().skip(first).map(|&nth| &self.tasks[nth]);
        for task in seen.take_while(|task| task.start <= asked.to) {
            rows.push(0, item_of(task, self.polls_of(task)));
            let polls = self.polls_of(task);
            let first = polls.partition_point(|(_, poll)| poll.item.end < asked.from);
            let polls = polls.iter().skip(first);
            polls
                .take_while(|(_, poll)| poll.item.start <= asked.to)
                .for_each(|(_, poll)| rows.push(1, poll.item));
        }
        Picture {
            rows: rows.finish(),
            ..Picture::default()
        }
    }

    fn find(&self, wanted: Wanted) -> Option<&Placed> {
        match wanted {
            Wanted::Id(id) => self.tasks.get(*self.by_id.get(&id)?),
            Wanted::At(lane, tick) => {
                let lane = self.lanes.get(lane)?;
                let behind = lane.partition_point(|&nth| self.tasks[nth].end < tick);
                self.tasks.get(*lane.get(behind).or_else(|| lane.last())?)
            }
        }
    }

    /// One task, with the polls around a tick.
    pub(super) fn details(&self, viewed: &Viewed, wanted: Wanted, at: u64) -> Option<TaskOf> {
        let task = self.find(wanted)?;
        let polls = self.polls_of(task);
        let near = polls.partition_point(|(_, poll)| poll.item.end < at);
        let before = near.saturating_sub(MOST_LISTED / 2);
        let before = before.min(polls.len().saturating_sub(MOST_LISTED));
        let list = polls.iter().skip(before).take(MOST_LISTED);
        let list = list.map(|(thread, poll)| poll_of(viewed, *thread, poll));
        Some(TaskOf {
            before,
            known: polls.len(),
            list: list.collect(),
            ..task_of(viewed, task)
        })
    }

    /// All tasks with their polls, for a file; and the number of polls that are left out, the shortest ones.
    pub(super) fn whole(&self, viewed: &Viewed) -> (Vec<TaskOf>, usize) {
        let mut ticks: Vec<u64> = self
            .polls
            .iter()
            .map(|(_, poll)| poll.item.ticks())
            .collect();
        ticks.sort_unstable();
        let least = ticks.len().checked_sub(MOST_IN_FILE + 1);
        let least = least.map_or(0, |place| ticks[place].saturating_add(1));
        let whole = |task: &Placed| {
            let polls = self.polls_of(task);
            let kept = polls.iter().filter(|(_, poll)| poll.item.ticks() >= least);
            let list = kept.map(|(thread, poll)| poll_of(viewed, *thread, poll));
            TaskOf {
                known: polls.len(),
                list: list.collect(),
                ..task_of(viewed, task)
            }
        };
        let all: Vec<TaskOf> = self.tasks.iter().map(whole).collect();
        let kept: usize = all.iter().map(|task| task.list.len()).sum();
        (all, self.polls.len() - kept)
    }
}

/// Gives each task the lowest lane that is free when the task begins. Returns the lanes.
fn pack(tasks: &mut [Placed]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut busy: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut free: BTreeSet<usize> = BTreeSet::new();
    for (nth, task) in tasks.iter_mut().enumerate() {
        while let Some(&(end, lane)) = busy.first()
            && end <= task.start
        {
            busy.pop_first();
            free.insert(lane);
        }
        let lane = free.pop_first().unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push(nth);
        busy.insert((task.end, lane));
        task.lane = lane;
    }
    lanes
}

/// A task as a bar.
fn item_of(task: &Placed, polls: &[(usize, Poll)]) -> Item {
    let is_begun_before = polls.first().is_none_or(|(_, poll)| poll.number > 1);
    let mut flags = if is_begun_before { CLIPPED } else { 0 };
    flags |= if task.task.has_ended() { 0 } else { OPEN };
    Item::call(task.start, task.end, task.task.function.0, flags)
}

fn task_of(viewed: &Viewed, placed: &Placed) -> TaskOf {
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

fn poll_of(viewed: &Viewed, thread: usize, poll: &Poll) -> PollOf {
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

#[cfg(test)]
mod tests {
    use fdr_formats::{FunctionId, ThreadId, Ticks};

    use super::*;

    fn task(start: u64, end: u64) -> Task {
        Task {
            function: FunctionId(1),
            parent: 0,
            state: task_state::FINISHED,
            counted: 0,
            time: Ticks(end),
            thread: ThreadId(1),
            elapsed: end - start,
            busy: 1,
            polls: 1,
            value: None,
        }
    }

    fn placed(id: u64, start: u64, end: u64) -> Placed {
        Placed {
            id,
            task: task(start, end),
            start,
            end,
            lane: 0,
            polls: (0, 0),
        }
    }

    #[test]
    fn tasks_take_as_few_lanes_as_they_need() {
        let spans = [(0, 10), (2, 5), (3, 30), (6, 9), (11, 20), (11, 12)];
        let mut tasks: Vec<Placed> = spans
            .iter()
            .zip(1..)
            .map(|((from, to), id)| placed(id, *from, *to))
            .collect();
        let lanes = pack(&mut tasks);
        assert_eq!(lanes, [vec![0, 4], vec![1, 3, 5], vec![2]]);
        assert_eq!(
            tasks.iter().map(|task| task.lane).collect::<Vec<_>>(),
            [0, 1, 2, 1, 0, 1]
        );
    }

    #[test]
    fn a_later_note_counts() {
        let mut thread = OfThread::new(1);
        let (first, last) = (task(0, 10), task(0, 20));
        thread.note(1, last.clone());
        thread.note(1, first);
        assert_eq!(thread.tasks[&1], last);
    }
}
