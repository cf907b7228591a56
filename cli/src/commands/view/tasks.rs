//! Tasks: each from its first poll to its end, with the calls that are its polls. A task has a note inside of each
//! poll, so the call that ends next on that thread is the poll. Tasks are packed into as few lanes as they need.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::index::Index;
use super::picture::{Picture, Rows, Viewport};
use super::pyramid::{CLIPPED, Item, OPEN};
use super::thread_tasks::Poll;
use crate::report::tasks::task_table::{self, Task};

/// A task with its place on the screen.
#[derive(Clone, Debug)]
pub(super) struct PlacedTask {
    pub(super) id: u64,
    pub(super) task: Task,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) lane: usize,
    /// Its polls: from where and to where in the list of all.
    polls: (usize, usize),
}

/// All tasks of a trace that was read.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// In order of their first polls.
    pub(super) tasks: Vec<PlacedTask>,
    /// By task, in order; each with the place of its thread.
    pub(super) polls: Vec<(usize, Poll)>,
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

/// Which task is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaskSelector {
    Id(u64),
    /// The one in a lane at a tick, or next to it.
    At(usize, u64),
}

impl Tasks {
    /// The tasks of a trace that was read.
    pub(super) fn from_index(index: &Index) -> Tasks {
        let end = index.span().map_or(0, |(_, end)| end);
        let mut all: HashMap<u64, Task> = HashMap::new();
        let mut polls: Vec<(usize, Poll)> = Vec::new();
        for nth in 0..index.len() {
            let Some(line) = index.line(nth) else {
                continue;
            };
            let tasks = line.tasks.tasks.iter();
            for (id, task) in tasks.filter(|(_, task)| task.polls > 0) {
                task_table::add(&mut all, *id, task.clone());
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
            PlacedTask {
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
        let mut tasks: Vec<PlacedTask> = all.into_iter().map(place).collect();
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

    pub(super) fn polls_of(&self, task: &PlacedTask) -> &[(usize, Poll)] {
        self.polls.get(task.polls.0..task.polls.1).unwrap_or(&[])
    }

    /// A lane: the first row has the tasks, the second their polls.
    pub(super) fn picture(&self, lane: usize, viewport: Viewport) -> Picture {
        let mut rows = Rows::new(viewport.pixel);
        let lane = self.lanes.get(lane).map_or(&[][..], |lane| lane);
        let first = lane.partition_point(|&nth| self.tasks[nth].end < viewport.from);
        let seen = lane.iter().skip(first).map(|&nth| &self.tasks[nth]);
        for task in seen.take_while(|task| task.start <= viewport.to) {
            rows.push(0, item_of(task, self.polls_of(task)));
            let polls = self.polls_of(task);
            let first = polls.partition_point(|(_, poll)| poll.item.end < viewport.from);
            let polls = polls.iter().skip(first);
            polls
                .take_while(|(_, poll)| poll.item.start <= viewport.to)
                .for_each(|(_, poll)| rows.push(1, poll.item));
        }
        Picture {
            rows: rows.finish(),
            ..Picture::default()
        }
    }

    pub(super) fn find(&self, selector: TaskSelector) -> Option<&PlacedTask> {
        match selector {
            TaskSelector::Id(id) => self.tasks.get(*self.by_id.get(&id)?),
            TaskSelector::At(lane, tick) => {
                let lane = self.lanes.get(lane)?;
                let behind = lane.partition_point(|&nth| self.tasks[nth].end < tick);
                self.tasks.get(*lane.get(behind).or_else(|| lane.last())?)
            }
        }
    }
}

/// Gives each task the lowest lane that is free when the task begins. Returns the lanes.
fn pack(tasks: &mut [PlacedTask]) -> Vec<Vec<usize>> {
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
fn item_of(task: &PlacedTask, polls: &[(usize, Poll)]) -> Item {
    let is_begun_before = polls.first().is_none_or(|(_, poll)| poll.number > 1);
    let mut flags = if is_begun_before { CLIPPED } else { 0 };
    flags |= if task.task.has_ended() { 0 } else { OPEN };
    Item::call(task.start, task.end, task.task.function.0, flags)
}

#[cfg(test)]
mod tests {
    use fdr_formats::notes::task_state;
    use fdr_formats::{FunctionId, ThreadId, Ticks};

    use super::super::thread_tasks::ThreadTasks;
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

    fn placed(id: u64, start: u64, end: u64) -> PlacedTask {
        PlacedTask {
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
        let mut tasks: Vec<PlacedTask> = spans
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
        let mut thread = ThreadTasks::new(1);
        let (first, last) = (task(0, 10), task(0, 20));
        thread.note(1, last.clone());
        thread.note(1, first);
        assert_eq!(thread.tasks[&1], last);
    }
}
