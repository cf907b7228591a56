//! The tasks that were open at a moment, as stacks: who awaits whom, the outermost task first. For `fdr state` and
//! `fdr replay --before-panic`.
//!
//! The notes of a task tell when it began, and how it was at the end of its last poll that left records. A note behind the
//! moment names the task of a poll that ran at the moment. At the end of a trace there is no such note: then an open call
//! of a task's function is a poll of the only task that it can be, or of a task whose first poll it is.

mod pass;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use show::{json, text};

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use fdr_formats::{FunctionId, Source, ThreadId, Ticks, TraceInfo, tasks};

use self::pass::{Known, OpenCall, Said, TasksPass};
use crate::report::names::name_of;
use crate::report::tasks::rows::{TableOptions, Tasks};
use crate::report::tasks::task_table::{Task, TraceTasks};
use crate::{memory, stacks};

/// A damaged trace may have parents in a circle.
const MAX_DEPTH: usize = 1000;
/// Stacks of a group that are shown.
const MAX_LONGEST: usize = 3;

/// An open task.
#[derive(Clone, Debug)]
struct OpenTask {
    /// `None`: it has left no note, or several tasks may be meant.
    id: Option<u64>,
    /// The task in the list that awaits it.
    awaited_by: Option<usize>,
    /// The task that made it, if it is open and does not await it.
    spawned_by: Option<(u64, FunctionId)>,
    function: FunctionId,
    begin: Ticks,
    /// Up to its last note.
    polls: Option<u64>,
    busy: Option<u64>,
    now: Now,
    said: Said,
    /// Newer records are overwritten, perhaps those of its end.
    may_have_ended: bool,
}

/// What a task did at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Polled {
        thread: ThreadId,
        since: Ticks,
        /// Open tasks of the function that it may be, if it is none that has just begun.
        others: u64,
    },
    /// Since the end of its last poll with records, which was on that thread.
    Waits { thread: ThreadId, since: Ticks },
    /// None of its polls up to the moment left records.
    Unknown,
}

/// The tasks from an outermost one to one that awaits no other traced task: places in the list.
type Stack = Vec<usize>;

/// Stacks of the same functions.
#[derive(Debug)]
struct Group {
    /// The longest first.
    stacks: Vec<Stack>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct TaskStacks {
    tasks: Vec<OpenTask>,
    groups: Vec<Group>,
    /// By function: open tasks that left no notes.
    without_notes: BTreeMap<String, u64>,
    /// Tasks that may be open, or the records of their ends are overwritten. They are in no stack.
    perhaps: u64,
    moment: Ticks,
}

/// Where the tasks are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) time: Ticks,
    /// It is the end of the trace.
    pub(crate) is_end: bool,
    /// The source has all of the trace.
    pub(crate) is_whole: bool,
    /// From here on, no records are overwritten.
    pub(crate) whole_since: Ticks,
    /// The stacks of tasks that this thread polls come first.
    pub(crate) first: Option<ThreadId>,
}

impl Moment {
    /// Whether the records of a task's end may be overwritten.
    fn may_have_ended(self, known: &Known) -> bool {
        let last = known.last.as_ref();
        known.after.is_none() && last.is_some_and(|last| last.time < self.whole_since)
    }
}

impl TaskStacks {
    /// Reads the trace once more.
    ///
    /// # Errors
    /// Where it can't be read, or there are too many tasks for the memory.
    pub(crate) fn read(source: &dyn Source, moment: Moment) -> anyhow::Result<TaskStacks> {
        let time = moment.time;
        let passes = stacks::run(source, || TasksPass::new(time))?;
        let (tasks, open_calls) = TasksPass::gather(passes);
        memory::check()?;
        TaskStacks::new(source.info(), tasks, open_calls, moment)
    }

    fn new(
        info: &TraceInfo,
        mut known: HashMap<u64, Known>,
        open_calls: Vec<OpenCall>,
        moment: Moment,
    ) -> anyhow::Result<TaskStacks> {
        let mut trace_tasks = TraceTasks::default();
        for (id, task) in &known {
            let last = task.last.clone();
            trace_tasks.last = trace_tasks
                .last
                .max(last.as_ref().map_or(Ticks(0), |task| task.time));
            trace_tasks.tasks.extend(last.map(|last| (*id, last)));
        }
        let table = Tasks::new(info, &trace_tasks, &TableOptions::all(moment.is_whole))?;
        let open_at_end: HashSet<u64> = table.open.iter().map(|open| open.id).collect();
        let functions: HashSet<FunctionId> = trace_tasks
            .tasks
            .values()
            .map(|task| task.function)
            .collect();
        known.retain(|id, task| is_open(task, moment.time, || open_at_end.contains(id)));
        // Totals count the unfinished tasks. Without them, each task whose end is overwritten would seem to be open.
        let all = known.len();
        known.retain(|_, task| table.is_whole || !moment.may_have_ended(task));
        let perhaps = (all - known.len()) as u64;
        let mut left = Unfinished::new(&table, moment, &known, info);
        let mut list = OpenTasks::default();
        let polled = functions_of_tasks(info);
        let is_poll = |call: &OpenCall| {
            functions.contains(&call.function) || polled.contains(&name_of(info, call.function))
        };
        let mut around: Option<(ThreadId, usize)> = None;
        for call in open_calls.into_iter().filter(is_poll) {
            let outer = around.filter(|(thread, _)| *thread == call.thread);
            let outer = outer.map(|(_, place)| place);
            let thread = call.thread;
            let place = list.polled(call, outer, &known, &mut left, info);
            around = Some((thread, place));
        }
        let mut waiting: Vec<(&u64, &Known)> = known.iter().collect();
        waiting.sort_unstable_by_key(|(id, _)| **id);
        for (id, task) in waiting {
            list.waiting(*id, task, moment.may_have_ended(task));
        }
        list.link(&known);
        let groups = group(info, &list.tasks, moment);
        Ok(TaskStacks {
            tasks: list.tasks,
            groups,
            without_notes: left.named(),
            perhaps,
            moment: moment.time,
        })
    }
}

/// The names of functions that have tasks, as the totals have them.
fn functions_of_tasks(info: &TraceInfo) -> HashSet<String> {
    let all = info.functions.iter();
    all.filter_map(|function| Some(tasks::of_name(&function.name)?.0.to_owned()))
        .collect()
}

/// When a task began, as one of its notes has it.
fn begin_of(task: &Task) -> Ticks {
    Ticks(task.time.0.saturating_sub(task.elapsed))
}

/// Whether a task was open at the moment.
fn is_open(known: &Known, moment: Ticks, is_open_at_end: impl Fn() -> bool) -> bool {
    if known.has_ended() {
        return false;
    }
    match &known.after {
        Some(after) => known.before.is_some() || begin_of(after) <= moment,
        None => is_open_at_end(),
    }
}

/// How many unfinished tasks of each function have no note, by the totals of the run.
struct Unfinished {
    /// `None`: the totals do not tell.
    left: Option<BTreeMap<String, u64>>,
}

impl Unfinished {
    fn new(
        table: &Tasks,
        moment: Moment,
        known: &HashMap<u64, Known>,
        info: &TraceInfo,
    ) -> Unfinished {
        if !table.is_whole || !moment.is_end {
            return Unfinished { left: None };
        }
        let rows = table.rows.iter();
        let mut left: BTreeMap<String, u64> =
            rows.map(|row| (row.name.clone(), row.unfinished)).collect();
        for task in known.values().filter_map(|known| known.last.as_ref()) {
            if let Some(count) = left.get_mut(&name_of(info, task.function)) {
                *count = count.saturating_sub(1);
            }
        }
        Unfinished { left: Some(left) }
    }

    fn of(&mut self, name: &str) -> Option<&mut u64> {
        self.left.as_mut()?.get_mut(name)
    }

    /// Those that remain.
    fn named(self) -> BTreeMap<String, u64> {
        let mut left = self.left.unwrap_or_default();
        left.retain(|_, count| *count > 0);
        left
    }
}

/// The open tasks, as they are found.
#[derive(Default)]
struct OpenTasks {
    tasks: Vec<OpenTask>,
    by_id: HashMap<u64, usize>,
}

impl OpenTasks {
    /// Adds the task of a poll inside of a poll of another task.
    fn polled(
        &mut self,
        call: OpenCall,
        outer: Option<usize>,
        known: &HashMap<u64, Known>,
        left: &mut Unfinished,
        info: &TraceInfo,
    ) -> usize {
        let outer_id = outer.and_then(|place| self.tasks[place].id);
        let candidates = || {
            let fits = |(id, known): &(&u64, &Known)| {
                let last = known.last.as_ref();
                !self.by_id.contains_key(id)
                    && last.is_some_and(|last| {
                        last.function == call.function && last.time <= call.start
                    })
                    && outer_id.is_none_or(|outer| known.parent() == outer)
            };
            let mut found: Vec<u64> = known.iter().filter(fits).map(|(id, _)| *id).collect();
            found.sort_unstable();
            found
        };
        let name = name_of(info, call.function);
        let mut others = 0;
        let id = call.poll.map(|(id, _)| id).or_else(|| {
            let found = candidates();
            let begun = left.of(&name);
            match (begun, &found[..]) {
                (Some(0), [one]) => return Some(*one),
                (begun, []) => begun
                    .into_iter()
                    .for_each(|begun| *begun = begun.saturating_sub(1)),
                (_, found) => others = found.len() as u64,
            }
            None
        });
        let now = Now::Polled {
            thread: call.thread,
            since: call.start,
            others,
        };
        let task = id.and_then(|id| known.get(&id));
        let before = task.and_then(|task| task.before.as_ref());
        let first = task.and_then(|task| task.before.as_ref().or(task.after.as_ref()));
        let mut said = task.map_or_else(Said::default, |task| task.said.clone());
        said.join(call.said);
        let place = self.tasks.len();
        self.tasks.push(OpenTask {
            id,
            awaited_by: outer,
            spawned_by: None,
            function: call.function,
            begin: first.map_or(call.start, begin_of).min(call.start),
            polls: match call.poll {
                Some((_, number)) => Some(number),
                None => before.map(|before| before.polls + 1),
            },
            busy: before.map(|before| before.busy),
            now,
            said,
            may_have_ended: false,
        });
        self.by_id.extend(id.map(|id| (id, place)));
        place
    }

    /// Adds a task that no thread polled.
    fn waiting(&mut self, id: u64, known: &Known, may_have_ended: bool) {
        if self.by_id.contains_key(&id) {
            return;
        }
        let before = known.before.as_ref();
        let Some(task) = before.or(known.after.as_ref()) else {
            return;
        };
        self.by_id.insert(id, self.tasks.len());
        self.tasks.push(OpenTask {
            id: Some(id),
            awaited_by: None,
            spawned_by: None,
            function: task.function,
            begin: begin_of(task),
            polls: before.map(|before| before.polls),
            busy: before.map(|before| before.busy),
            now: before.map_or(Now::Unknown, |before| Now::Waits {
                thread: before.thread,
                since: before.time,
            }),
            said: known.said.clone(),
            may_have_ended,
        });
    }

    /// Finds the parents of tasks whose polls are not inside of a poll that ran at the moment.
    fn link(&mut self, known: &HashMap<u64, Known>) {
        for place in 0..self.tasks.len() {
            let task = &self.tasks[place];
            let Some(known) = task.id.and_then(|id| known.get(&id)) else {
                continue;
            };
            let parent = known.parent();
            let Some(&around) = self
                .by_id
                .get(&parent)
                .filter(|_| task.awaited_by.is_none())
            else {
                continue;
            };
            let function = self.tasks[around].function;
            match known.is_awaited {
                true => self.tasks[place].awaited_by = Some(around),
                false => self.tasks[place].spawned_by = Some((parent, function)),
            }
        }
    }
}

/// Since when a task waits, or is polled. Of a task of which that is not known: since its beginning.
fn since(task: &OpenTask) -> Ticks {
    match task.now {
        Now::Polled { since, .. } | Now::Waits { since, .. } => since,
        Now::Unknown => task.begin,
    }
}

/// The stacks, those of the same functions together.
fn group(info: &TraceInfo, tasks: &[OpenTask], moment: Moment) -> Vec<Group> {
    let awaiting: HashSet<usize> = tasks.iter().filter_map(|task| task.awaited_by).collect();
    let mut groups: BTreeMap<(Vec<String>, bool), Vec<Stack>> = BTreeMap::new();
    for leaf in (0..tasks.len()).filter(|place| !awaiting.contains(place)) {
        let mut stack = vec![leaf];
        let mut at = leaf;
        while let Some(around) = tasks[at].awaited_by.filter(|_| stack.len() < MAX_DEPTH) {
            stack.push(around);
            at = around;
        }
        stack.reverse();
        let functions = stack
            .iter()
            .map(|&place| name_of(info, tasks[place].function));
        let is_polled = matches!(tasks[leaf].now, Now::Polled { .. });
        let key = (functions.collect(), is_polled);
        groups.entry(key).or_default().push(stack);
    }
    let leaf = |stack: &Stack| stack.last().map_or(0, |leaf| *leaf);
    let is_later = |stack: &Stack| match (tasks[leaf(stack)].now, moment.first) {
        (Now::Polled { thread, .. }, Some(first)) => thread != first,
        _ => moment.first.is_some(),
    };
    let order = |stack: &Stack| {
        let leaf = &tasks[leaf(stack)];
        (is_later(stack), since(leaf), leaf.begin, leaf.id)
    };
    let mut groups: Vec<Group> = groups
        .into_values()
        .map(|mut stacks| {
            stacks.sort_by_key(order);
            Group { stacks }
        })
        .collect();
    groups.sort_by_key(|group| {
        let first = group.stacks.first().map(order);
        (first, Reverse(group.stacks.len()))
    });
    groups
}
