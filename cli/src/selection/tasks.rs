//! `--task`: what happens inside of a few tasks. The polls of a task have their numbers only at their ends, so the
//! trace is read once before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

use anyhow::bail;
use fdr_formats::filter::{Glob, nearest};
use fdr_formats::{Call, Source, ThreadId, Ticks};
use foldhash::HashSet;

use super::MAX_NAMES;
use crate::report::tasks::polls::{Poll, PollPass};
use crate::report::tasks::task_table::TraceTasks;
use crate::stacks;
use crate::ui;

/// What a task is called: its number, or what a field of an event inside of it says.
#[derive(Clone, Debug)]
pub(super) enum TaskName {
    Number(u64),
    Field(String, Glob),
}

impl TaskName {
    fn field(&self) -> Option<&str> {
        match self {
            TaskName::Number(_) => None,
            TaskName::Field(field, _) => Some(field),
        }
    }
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskName, String> {
        if let Ok(number) = text.parse() {
            return Ok(TaskName::Number(number));
        }
        match text.split_once('=') {
            Some((field, value)) if !field.is_empty() => {
                Ok(TaskName::Field(field.to_owned(), value.parse()?))
            }
            _ => Err(
                "a task is a number, as fdr slow --tasks shows it, or FIELD=VALUE as in an event \
                 inside of it; --function takes names of functions"
                    .to_owned(),
            ),
        }
    }
}

impl Display for TaskName {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            TaskName::Number(number) => write!(out, "{number}"),
            TaskName::Field(field, value) => write!(out, "with {field}={}", value.as_str()),
        }
    }
}

/// The polls of the chosen tasks and of the tasks inside them, for each thread in order. Of nested polls only the
/// outermost is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Polls(HashMap<ThreadId, Vec<Poll>>);

impl Polls {
    /// # Errors
    /// Where the trace can't be read, or has no such task.
    pub(super) fn read(names: &[TaskName], source: &dyn Source) -> anyhow::Result<Polls> {
        // The trace is read once for each field, and once for all numbers.
        let mut by_field: BTreeMap<Option<&str>, Vec<&TaskName>> = BTreeMap::new();
        for name in names {
            by_field.entry(name.field()).or_default().push(name);
        }
        let mut wanted = HashSet::default();
        for (field, names) in by_field {
            let trace_tasks = TraceTasks::read(source, field)?;
            for name in names {
                let found = tasks_of(name, &trace_tasks);
                if found.is_empty() {
                    bail!("no task {name} in the trace{}", others(name, &trace_tasks));
                }
                wanted.extend(found);
            }
        }
        let passes = stacks::run(source, || PollPass::new(&wanted))?;
        let mut polls = Polls::default();
        for poll in PollPass::gather(passes).into_values().flatten() {
            polls.0.entry(poll.thread).or_default().push(poll);
        }
        polls.0.values_mut().for_each(keep_outermost);
        Ok(polls)
    }

    /// Whether the call that is entered is such a poll.
    pub(super) fn begins_with(&self, thread: ThreadId, entry: &Call) -> bool {
        let polls = self.0.get(&thread);
        polls.is_some_and(|polls| {
            let at = polls.partition_point(|poll| poll.start < entry.time);
            polls
                .get(at)
                .is_some_and(|poll| poll.start == entry.time && poll.function == entry.function)
        })
    }

    /// Whether it is in such a poll.
    pub(super) fn is_inside(&self, thread: ThreadId, time: Ticks) -> bool {
        let polls = self.0.get(&thread).map_or(&[][..], Vec::as_slice);
        let begun = polls.partition_point(|poll| poll.start <= time);
        begun > 0 && time <= polls[begun - 1].end
    }
}

/// Sorts the polls of a thread, and leaves out those inside of another one.
fn keep_outermost(polls: &mut Vec<Poll>) {
    polls.sort_unstable_by_key(|poll| (poll.start, Reverse(poll.end)));
    let mut until = None;
    polls.retain(|poll| {
        let is_outer = until.is_none_or(|until| poll.end > until);
        if is_outer {
            until = Some(poll.end);
        }
        is_outer
    });
}

/// The tasks of that name, and those inside of them.
fn tasks_of(name: &TaskName, trace_tasks: &TraceTasks) -> Vec<u64> {
    let is_named = |id: u64| match name {
        TaskName::Number(number) => id == *number,
        TaskName::Field(_, glob) => {
            let value = trace_tasks
                .tasks
                .get(&id)
                .and_then(|task| task.value.as_ref());
            value.is_some_and(|value| glob.matches(value))
        }
    };
    let ids = trace_tasks.tasks.keys().copied();
    ids.filter(|&id| is_named(id) || trace_tasks.is_inside(id, is_named))
        .collect()
}

/// What there is instead.
fn others(name: &TaskName, trace_tasks: &TraceTasks) -> String {
    let tasks = ui::things(trace_tasks.tasks.len() as u64, "task");
    let TaskName::Field(field, glob) = name else {
        return format!(", of the {tasks} that have a note; fdr slow --tasks shows numbers");
    };
    let values = trace_tasks
        .tasks
        .values()
        .filter_map(|task| task.value.as_deref());
    let mut values: Vec<&str> = values.take(MAX_NAMES).collect();
    values.sort_unstable();
    values.dedup();
    match nearest(&values, glob.as_str(), 3) {
        near if !near.is_empty() => format!("; the nearest: {}", near.join(", ")),
        _ if values.is_empty() => format!(", of {tasks}: none has a field {field:?}"),
        _ => format!("; fdr report --tasks --by {field} lists the values"),
    }
}

#[cfg(test)]
mod tests {
    use fdr_formats::{Edge, FunctionId};

    use super::*;

    const THREAD: ThreadId = ThreadId(7);

    fn poll(start: u64, end: u64, function: u32) -> Poll {
        Poll {
            number: 1,
            thread: THREAD,
            function: FunctionId(function),
            start: Ticks(start),
            end: Ticks(end),
        }
    }

    #[test]
    fn a_task_has_a_number_or_a_field() {
        assert!(matches!("51".parse(), Ok(TaskName::Number(51))));
        let Ok(TaskName::Field(field, value)) = "route=/item/*=1".parse() else {
            panic!("a field");
        };
        assert_eq!((field.as_str(), value.as_str()), ("route", "/item/*=1"));
        for text in ["", "=x", "request", "-1"] {
            let error = text.parse::<TaskName>().expect_err("no task");
            assert!(error.contains("--function"), "{error}");
        }
    }

    #[test]
    fn polls_inside_of_polls_are_left_out() {
        let mut polls = vec![
            poll(50, 60, 1),
            poll(10, 30, 1),
            poll(12, 20, 2),
            poll(10, 25, 2),
            poll(20, 30, 2),
        ];
        keep_outermost(&mut polls);
        assert_eq!(polls, [poll(10, 30, 1), poll(50, 60, 1)]);
        let polls = Polls(HashMap::from([(THREAD, polls)]));
        let inside: Vec<u64> = (0..70)
            .filter(|&time| polls.is_inside(THREAD, Ticks(time)))
            .collect();
        assert_eq!(inside, (10..=30).chain(50..=60).collect::<Vec<_>>());
        assert!(!polls.is_inside(ThreadId(8), Ticks(20)));
        let begins = |time, function| {
            let entry = Call {
                time: Ticks(time),
                function: FunctionId(function),
                edge: Edge::Entry,
                synthetic: false,
                has_arguments: false,
            };
            polls.begins_with(THREAD, &entry)
        };
        assert!(begins(10, 1) && begins(50, 1));
        assert!(!begins(10, 2) && !begins(12, 2) && !begins(11, 1));
    }
}
