//! `fdr slow --tasks`: the slowest tasks. The excess of a task is divided among its polls and the time between them. Must
//! never keep a poll of a task that is not shown.

mod notes;
pub(in crate::commands) mod show;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::path::Path;

use fdr_formats::{FunctionId, Source, ThreadId, Ticks, TraceInfo};
use foldhash::{HashMap, HashMapExt, HashSet};

use self::notes::{NotePass, Stretches, TaskNotes};
use crate::calls::cause::{self, Compared, ConcurrentCall};
use crate::calls::finding::Finding;
use crate::calls::findings::explain;
use crate::calls::overlaps::{self, OverlapPass, Stretch};
use crate::calls::query::{ENOUGH_CALLS, MIN_NS, Query, TIMES_P50, TIMES_P90, ticks};
use crate::calls::slow_call::SlowCall;
use crate::calls::usual::{Usual, usual_of};
use crate::report::names::name_of;
use crate::report::rows::Report;
use crate::report::tasks::polls::{Poll, PollPass};
use crate::report::tasks::rows::{TableOptions, Tasks};
use crate::report::tasks::task_table::{Task, TraceTasks};
use crate::windows::Windows;
use crate::{selection, stacks, trace};

/// Something explains a stretch of time if it has at least this part of it.
const MIN_PART: f64 = 0.5;
/// No thread has that number: the stretches between polls belong to none.
const NO_THREAD: ThreadId = ThreadId(u64::MAX);

/// What is usual for the tasks of a function, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsualTask {
    /// Tasks that finished.
    pub(super) tasks: u64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) busy_p50: u64,
}

/// The longest time between two polls.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollGap {
    /// The number of the poll before it, from 1.
    pub(super) after: u64,
    pub(super) from: Ticks,
    pub(super) until: Ticks,
    /// The innermost task inside that lasted for most of it, and its function.
    pub(super) awaited: Option<(u64, FunctionId)>,
    pub(super) meanwhile: Option<ConcurrentCall>,
}

/// The tasks of a function that another task awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) function: FunctionId,
    pub(super) tasks: u64,
    /// One of them.
    pub(super) id: u64,
}

/// A slow task, and what was found of it.
pub(in crate::commands) struct SlowTask {
    pub(super) id: u64,
    pub(super) task: Task,
    pub(super) start: Ticks,
    pub(super) end: Ticks,
    /// Ticks.
    pub(super) elapsed: u64,
    pub(super) busy: u64,
    pub(super) usual: UsualTask,
    /// Whether it had ended. `None`: newer records are overwritten, perhaps those of its end.
    pub(super) has_ended: Option<bool>,
    /// Most of the excess is in its polls. `None`: it took no longer than usual.
    pub(super) is_busy: Option<bool>,
    /// Polls that have records.
    pub(super) recorded_polls: u64,
    pub(super) between: Option<PollGap>,
    /// What it awaited for most of its time.
    pub(super) awaited: Option<Awaited>,
    /// The longest poll, as a call.
    pub(super) poll: Option<Finding>,
    /// Its arguments, and the events inside.
    pub(super) notes: TaskNotes,
}

impl SlowTask {
    pub(super) fn waiting(&self) -> u64 {
        self.elapsed.saturating_sub(self.busy)
    }
}

/// What was found in a trace.
pub(in crate::commands) struct SlowTasks {
    pub(in crate::commands) list: Vec<SlowTask>,
    pub(super) begin: Option<Ticks>,
    /// Whether the usual values come from the whole run, not only from the tasks that have a note.
    pub(super) is_whole_run: bool,
}

pub(in crate::commands) fn find(
    query: &Query<'_>,
    by: Option<&str>,
    trace: &Path,
    source: &dyn Source,
    report: &Report,
) -> anyhow::Result<SlowTasks> {
    let about = |error| trace::about(trace, error);
    let info = source.info();
    let trace_tasks = TraceTasks::read(source, by).map_err(about)?;
    let table = table(info, &trace_tasks, query.may_be_whole)?;
    let windows = Windows::of_trace(source).map_err(about)?;
    let whole_since = windows.map_or(Ticks(0), |windows| windows.common());
    let mut list = choose(query, info, &trace_tasks, &table, whole_since);
    let ids = list.iter().map(|slow| slow.id).collect();
    let passes = stacks::run(source, || PollPass::new(&ids)).map_err(about)?;
    let mut polls = PollPass::gather(passes);
    let calls: HashMap<FunctionId, Usual> = report.rows.iter().filter_map(usual_of).collect();
    let mut stretches = Stretches::default();
    polls
        .iter()
        .for_each(|(task, polls)| stretches.add(*task, polls));
    stretches.sort();
    let passes = stacks::run(source, || NotePass::new(&stretches)).map_err(about)?;
    let mut notes = NotePass::gather(passes);
    let mut longest: HashMap<u64, SlowCall> = HashMap::new();
    for slow in &mut list {
        let polls = polls.remove(&slow.id).unwrap_or_default();
        slow.recorded_polls = polls.len() as u64;
        slow.notes = notes.remove(&slow.id).unwrap_or_default();
        slow.between = longest_between(&polls, slow, &trace_tasks);
        slow.awaited = awaited_tasks(&trace_tasks, slow);
        let poll = polls.iter().max_by_key(|poll| poll.end.since(poll.start));
        if let Some(poll) = poll.filter(|_| slow.is_busy == Some(true)) {
            longest.insert(slow.id, as_call(poll));
        }
    }
    let all = longest.values().copied().collect();
    for found in explain(trace, source, all, &calls, report.duration_ns)? {
        let of_it = |slow: &&mut SlowTask| longest.get(&slow.id) == Some(&found.call);
        if let Some(slow) = list.iter_mut().find(of_it) {
            slow.poll = Some(found);
        }
    }
    let always = |function: FunctionId| {
        let total = calls.get(&function).map_or(0, |usual| usual.total);
        (total as f64 / report.duration_ns.max(1) as f64).min(1.0)
    };
    look_between(trace, source, &mut list, &always)?;
    Ok(SlowTasks {
        list,
        begin: selection::begin(source)?,
        is_whole_run: table.is_whole,
    })
}

fn as_call(poll: &Poll) -> SlowCall {
    SlowCall {
        total: poll.end.since(poll.start).0,
        function: poll.function,
        thread: poll.thread,
        start: poll.start,
        end: poll.end,
        is_open: false,
    }
}

/// What the whole run, or the trace, tells of its tasks.
fn table(info: &TraceInfo, trace_tasks: &TraceTasks, whole: bool) -> anyhow::Result<Tasks> {
    Ok(Tasks::new(info, trace_tasks, &TableOptions::all(whole))?)
}

/// What is usual, by the names of functions whose tasks finished.
fn usual_tasks(info: &TraceInfo, table: &Tasks) -> HashMap<String, UsualTask> {
    let ticks = |ns: Option<u64>| ns.map_or(0, |ns| ticks(&info.clock, ns));
    let usual = table.rows.iter().map(|row| {
        let usual = UsualTask {
            tasks: row.finished,
            p50: ticks(row.elapsed_p50_ns),
            p90: ticks(row.elapsed_p90_ns),
            p99: ticks(row.elapsed_p99_ns),
            busy_p50: ticks(row.busy_p50_ns),
        };
        (row.name.clone(), usual)
    });
    usual.collect()
}

/// The task that made the trigger dump.
fn task_of_trigger(info: &TraceInfo) -> Option<u64> {
    info.trigger()?.call()?.task
}

/// The task of the trigger, and those with the largest excess. A task inside of another one with that excess is not shown
/// by itself. From `whole_since` on, no records are overwritten.
fn choose(
    query: &Query<'_>,
    info: &TraceInfo,
    trace_tasks: &TraceTasks,
    table: &Tasks,
    whole_since: Ticks,
) -> Vec<SlowTask> {
    let clock = &info.clock;
    let usual = usual_tasks(info, table);
    let open_tasks: HashSet<u64> = table.open.iter().map(|open| open.id).collect();
    let of_trigger = task_of_trigger(info);
    let end = info.end.unwrap_or_default().max(trace_tasks.last);
    let mut found: Vec<SlowTask> = Vec::new();
    for (id, task) in &trace_tasks.tasks {
        let has_ended = match task.has_ended() {
            true => Some(true),
            false => (task.time >= whole_since).then_some(false),
        };
        // The note of its end was overwritten. Without totals, it may have been.
        if !task.has_ended() && (!open_tasks.contains(id) || has_ended.is_none() && !table.is_whole)
        {
            continue;
        }
        let open = match task.has_ended() {
            true => 0,
            false => end.since(task.time).0,
        };
        let elapsed = task.elapsed.saturating_add(open);
        let name = name_of(info, task.function);
        let usual = usual.get(&name).copied().unwrap_or_default();
        let filter = query.filter;
        if filter.is_some_and(|filter| !filter.matches(&name)) {
            continue;
        }
        let least = match query.over {
            None if of_trigger == Some(*id) => 0,
            Some(over) => ticks(clock, over),
            None if filter.is_some() => 0,
            None if usual.tasks < ENOUGH_CALLS => continue,
            None => {
                let p50 = usual.p50.saturating_mul(TIMES_P50);
                let p90 = usual.p90.saturating_mul(TIMES_P90);
                ticks(clock, MIN_NS).max(p50).max(p90)
            }
        };
        if elapsed < least {
            continue;
        }
        let busy = task.busy.min(elapsed);
        let busy_excess = busy.saturating_sub(usual.busy_p50);
        let excess = elapsed.saturating_sub(usual.p50);
        found.push(SlowTask {
            id: *id,
            task: task.clone(),
            start: Ticks(task.time.0.saturating_sub(task.elapsed)),
            end: Ticks(task.time.0.saturating_add(open)),
            elapsed,
            busy,
            usual,
            has_ended,
            is_busy: (excess > 0).then_some(busy_excess as f64 >= MIN_PART * excess as f64),
            recorded_polls: 0,
            between: None,
            awaited: None,
            poll: None,
            notes: TaskNotes::default(),
        });
    }
    let excess = |slow: &SlowTask| slow.elapsed.saturating_sub(slow.usual.p50);
    let all: HashMap<u64, u64> = found.iter().map(|slow| (slow.id, excess(slow))).collect();
    found.retain(|slow| {
        let least = MIN_PART * excess(slow) as f64;
        let explains = |around| {
            all.get(&around)
                .is_some_and(|&excess| excess as f64 >= least)
        };
        of_trigger == Some(slow.id) || !trace_tasks.is_inside(slow.id, explains)
    });
    let order = |slow: &SlowTask| {
        let is_first = of_trigger == Some(slow.id) && query.filter.is_none();
        (!is_first, Reverse(excess(slow)), slow.id)
    };
    found.sort_by_key(order);
    let mut shown: Vec<SlowTask> = Vec::new();
    // The tasks around those that are shown.
    let mut around: HashSet<u64> = HashSet::default();
    for slow in found {
        let of_function = |other: &&SlowTask| other.task.function == slow.task.function;
        let is_full = shown.iter().filter(of_function).count() >= query.of_each;
        let is_shown = |task| shown.iter().any(|other| other.id == task);
        let is_related = around.contains(&slow.id) || trace_tasks.is_inside(slow.id, is_shown);
        if !is_full && !is_related && shown.len() < query.most {
            trace_tasks.is_inside(slow.id, |task| {
                around.insert(task);
                false
            });
            shown.push(slow);
        }
    }
    shown
}

/// The longest time between two polls that have records, or before the end of a task that has not ended.
fn longest_between(polls: &[Poll], slow: &SlowTask, trace_tasks: &TraceTasks) -> Option<PollGap> {
    let ends = polls.iter().map(|poll| (poll.number, poll.end));
    let open = (!slow.task.has_ended()).then_some(slow.end);
    let begins = polls.iter().skip(1).map(|poll| poll.start).chain(open);
    let all = ends.zip(begins);
    let ((after, from), until) = all.max_by_key(|((_, end), start)| start.since(*end))?;
    Some(PollGap {
        after,
        from,
        until,
        awaited: awaited(trace_tasks, slow.id, from, until),
        meanwhile: None,
    })
}

/// The innermost task inside of another that lasted for most of a stretch.
fn awaited(
    trace_tasks: &TraceTasks,
    task: u64,
    from: Ticks,
    until: Ticks,
) -> Option<(u64, FunctionId)> {
    let lasts = |id: &u64, inner: &Task| {
        let start = Ticks(inner.time.0.saturating_sub(inner.elapsed));
        let end = match inner.has_ended() {
            true => inner.time,
            false => until,
        };
        let shared = end.min(until).since(start.max(from)).0;
        let is_long = shared as f64 >= MIN_PART * until.since(from).0 as f64;
        (start < until && from < end && is_long).then_some((shared, std::cmp::Reverse(*id)))
    };
    let mut found = None;
    let mut outer = task;
    for _ in 0..64 {
        let inside = trace_tasks
            .tasks
            .iter()
            .filter(|(_, inner)| inner.parent == outer);
        let longest =
            inside.filter_map(|(id, inner)| Some((lasts(id, inner)?, *id, inner.function)));
        let Some((_, id, function)) = longest.max_by_key(|(lasts, ..)| *lasts) else {
            break;
        };
        found = Some((id, function));
        outer = id;
    }
    found
}

/// The tasks of one function that a task awaited for most of its waiting time, inside of those that it awaited for most
/// of it. Its polls need no records.
fn awaited_tasks(trace_tasks: &TraceTasks, slow: &SlowTask) -> Option<Awaited> {
    let around = awaited(trace_tasks, slow.id, slow.start, slow.end);
    let outer = around.map_or(slow.id, |(id, _)| id);
    let mut inside: HashMap<FunctionId, (u64, u64, u64)> = HashMap::new();
    let all = trace_tasks.tasks.iter();
    for (id, inner) in all.filter(|(_, inner)| inner.parent == outer) {
        let (elapsed, tasks, one) = inside.entry(inner.function).or_default();
        *elapsed = elapsed.saturating_add(inner.elapsed);
        *tasks += 1;
        *one = *id;
    }
    let longest = inside.into_iter().max_by_key(|(id, found)| (*found, *id));
    let is_most = |elapsed: u64| elapsed as f64 >= MIN_PART * slow.waiting() as f64;
    let several = longest.filter(|(_, (elapsed, ..))| is_most(*elapsed));
    let several = several.map(|(function, (_, tasks, id))| Awaited {
        function,
        tasks,
        id,
    });
    several.or_else(|| {
        let (id, function) = around?;
        Some(Awaited {
            function,
            tasks: 1,
            id,
        })
    })
}

/// What threads did in the longest time between the polls of each task.
fn look_between(
    trace: &Path,
    source: &dyn Source,
    list: &mut [SlowTask],
    always: &dyn Fn(FunctionId) -> f64,
) -> anyhow::Result<()> {
    let stretch = |between: &PollGap| Stretch {
        thread: NO_THREAD,
        start: between.from,
        end: between.until,
    };
    let all = list.iter().filter_map(|slow| slow.between.as_ref());
    let stretches = overlaps::Stretches::new(all.map(stretch).collect());
    let states = crate::off_cpu::states_of(source.info());
    let pass = || OverlapPass::new(&stretches, states.as_deref());
    let passes = stacks::run(source, pass).map_err(|error| trace::about(trace, error))?;
    let (presences, waits_for_it) = OverlapPass::gather(passes);
    for slow in list {
        let Some(between) = &mut slow.between else {
            continue;
        };
        let Some(place) = stretches.place(&stretch(between)) else {
            continue;
        };
        let compared = Compared {
            slow: (place, between.until.since(between.from).0),
            usual: &[],
            own: &[],
            always,
            waits_for_it: &waits_for_it,
        };
        between.meanwhile = cause::meanwhile(&presences, &compared);
    }
    Ok(())
}
