//! The slowest tasks as text for people, and as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::{FunctionId, Ticks, TraceInfo};
use serde_json::{Value, json};

use super::{Awaited, MIN_PART, PollGap, SlowTask, SlowTasks};
use crate::calls::arguments;
use crate::calls::json as json_of_calls;
use crate::calls::words::{self, percent, scope};
use crate::report::json;
use crate::report::names::{name_of, thread_name};
use crate::report::tasks::NOT_IN_TIME;
use crate::ui;

/// Writes the text. `by`: the field whose values are shown.
pub(in crate::commands::slow) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    found: &SlowTasks,
    by: Option<&str>,
) -> anyhow::Result<()> {
    if found.list.is_empty() {
        writeln!(
            out,
            "nothing stands out: no function has tasks far above its usual ones"
        )?;
        return Ok(());
    }
    let width = ui::columns().unwrap_or(usize::MAX);
    let time = |ticks: u64| ui::duration(info.clock.nanos(Ticks(ticks)).0);
    for (at, slow) in found.list.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let mut words = vec![
            format!("#{}", at + 1),
            time(slow.elapsed),
            name(info, slow.task.function),
            format!("task {}", slow.id),
        ];
        if let (Some(by), Some(value)) = (by, &slow.task.value) {
            words.push(format!("{}={}", ui::clean(by), ui::clean(value)));
        }
        if let Some(begin) = found.begin {
            words.push(format!("at +{}", time(slow.start.since(begin).0)));
        }
        match slow.has_ended {
            Some(true) => {}
            Some(false) => words.push("had not ended".to_owned()),
            None => words.push("open, or the record of its end is overwritten".to_owned()),
        }
        writeln!(out, "{}", ui::wrap_facts(&words.join(" \u{b7} "), width, 4))?;
        let usual = &slow.usual;
        let lines = [
            format!(
                "busy {} in {} + waiting {}",
                time(slow.busy),
                ui::things(slow.task.polls, "poll"),
                time(slow.waiting())
            ),
            format!(
                "usual {} (p50 of {} {}), p99 {}; busy {}",
                time(usual.p50),
                ui::things(usual.tasks, "task"),
                scope(found.is_whole_run),
                time(usual.p99),
                time(usual.busy_p50)
            ),
            sentence(info, slow),
        ];
        for line in lines {
            writeln!(out, "    {}", ui::wrap(&line, width.saturating_sub(4), 4))?;
        }
        let function = slow.task.function;
        if let Some(line) = arguments::line(info, function, &slow.notes.arguments(function)) {
            writeln!(out, "    {}", ui::wrap(&line, width.saturating_sub(4), 6))?;
        }
        if let Some(line) = slow.notes.events.line(info, slow.start) {
            writeln!(
                out,
                "    {}",
                ui::wrap_facts(&line, width.saturating_sub(4), 6)
            )?;
        }
    }
    writeln!(out, "\n{}", ui::paragraph(NOT_IN_TIME, 2))?;
    Ok(())
}

/// A paragraph of one task.
pub(in crate::commands) fn in_short(info: &TraceInfo, slow: &SlowTask) -> String {
    format!(
        "{} {} (task {}): {}",
        ui::duration(info.clock.nanos(Ticks(slow.elapsed)).0),
        name(info, slow.task.function),
        slow.id,
        sentence(info, slow)
    )
}

fn name(info: &TraceInfo, function: FunctionId) -> String {
    ui::clean(&name_of(info, function)).into_owned()
}

/// What was found of a task, in a sentence.
pub(super) fn sentence(info: &TraceInfo, slow: &SlowTask) -> String {
    let time = |ticks: u64| ui::duration(info.clock.nanos(Ticks(ticks)).0);
    let excess = slow.elapsed.saturating_sub(slow.usual.p50);
    let of_excess = |part: u64| percent(part.min(excess) as f64 / excess.max(1) as f64);
    match slow.is_busy {
        None => "The task took no longer than usual.".to_owned(),
        Some(true) => {
            let busy = of_excess(slow.busy.saturating_sub(slow.usual.busy_p50));
            let mut words = format!("{busy} of the excess is in its polls");
            if let Some(poll) = &slow.poll {
                let call = &poll.call;
                let thread = thread_name(info, call.thread);
                words.push_str(&format!(", the longest {} on {thread}", time(call.total)));
                return format!("{words}. {}", words::sentence(info, poll));
            }
            words + "."
        }
        Some(false) => {
            let usual = slow.usual.p50.saturating_sub(slow.usual.busy_p50);
            let waiting = of_excess(slow.waiting().saturating_sub(usual));
            let words = format!("{waiting} of the excess is waiting");
            let is_long = |gap: &&PollGap| {
                gap.until.since(gap.from).0 as f64 >= MIN_PART * slow.waiting() as f64
            };
            let Some(between) = slow.between.as_ref().filter(is_long) else {
                return words + &awaited_in_words(info, slow);
            };
            let long = between.until.since(between.from).0;
            let where_ = format!(", {} of it after poll {}", time(long), between.after);
            words + &where_ + &around(info, between) + "."
        }
    }
}

/// What was awaited, of a task without one long part between two polls with records.
fn awaited_in_words(info: &TraceInfo, slow: &SlowTask) -> String {
    let inside = match slow.awaited {
        Some(Awaited {
            function,
            tasks: 1,
            id,
        }) => {
            format!(", most of it in {} (task {id})", name(info, function))
        }
        Some(Awaited {
            function, tasks, ..
        }) => {
            let tasks = ui::things(tasks, "task");
            format!(", most of it in {tasks} of {}", name(info, function))
        }
        None => String::new(),
    };
    let longest = slow.between.as_ref().map_or_else(String::new, |between| {
        let long = info.clock.nanos(between.until.since(between.from)).0;
        format!(
            "; the longest part between polls with records took {}",
            ui::duration(long)
        )
    });
    format!("{inside}{longest}.")
}

/// What was awaited, and what ran meanwhile.
fn around(info: &TraceInfo, between: &PollGap) -> String {
    let mut words = String::new();
    if let Some((id, function)) = between.awaited {
        words.push_str(&format!(", in {} (task {id})", name(info, function)));
    }
    if let Some(meanwhile) = &between.meanwhile {
        let thread = thread_name(info, meanwhile.thread);
        let function = name(info, meanwhile.function);
        words.push_str(&format!(", while {thread} was in {function}"));
    }
    words
}

pub(in crate::commands::slow) fn write_json(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    found: &SlowTasks,
    by: Option<&str>,
) -> anyhow::Result<()> {
    let document = json!({
        "by": by,
        "is_whole_run": found.is_whole_run,
        "tasks": json_of_tasks(info, found),
    });
    json::print_of(out, file, info, document)
}

/// The list of tasks.
pub(in crate::commands::slow) fn json_of_tasks(info: &TraceInfo, found: &SlowTasks) -> Value {
    let tasks = found.list.iter().map(|slow| one(info, found, slow));
    tasks.collect()
}

fn one(info: &TraceInfo, found: &SlowTasks, slow: &SlowTask) -> Value {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    let (task, usual) = (&slow.task, &slow.usual);
    json!({
        "id": slow.id,
        "parent": Some(task.parent).filter(|&parent| parent != 0),
        "function": name_of(info, task.function),
        "by": task.value,
        "start_ns": nanos(slow.start.0),
        "since_first_ns": found.begin.map(|begin| nanos(slow.start.since(begin).0)),
        "ended": slow.has_ended,
        "elapsed_ns": nanos(slow.elapsed),
        "busy_ns": nanos(slow.busy),
        "waiting_ns": nanos(slow.waiting()),
        "polls": task.polls,
        "polls_with_records": slow.recorded_polls,
        "usual": {
            "tasks": usual.tasks,
            "p50_ns": nanos(usual.p50),
            "p90_ns": nanos(usual.p90),
            "p99_ns": nanos(usual.p99),
            "busy_p50_ns": nanos(usual.busy_p50),
        },
        "excess_ns": nanos(slow.elapsed.saturating_sub(usual.p50)),
        "awaited": slow.awaited.map(|awaited| name_of(info, awaited.function)),
        "awaited_tasks": slow.awaited.map(|awaited| awaited.tasks),
        "between": slow.between.as_ref().map(|between| json_of_gap(info, between)),
        "arguments": json_of_calls::arguments(info, &slow.notes.arguments(task.function)),
        "events": json_of_calls::events(info, &slow.notes.events, slow.start),
        "events_in_all": slow.notes.events.count,
        "sentence": sentence(info, slow),
    })
}

fn json_of_gap(info: &TraceInfo, gap: &PollGap) -> Value {
    let nanos = |ticks: Ticks| info.clock.nanos(ticks).0;
    let meanwhile = gap.meanwhile.as_ref();
    json!({
        "after_poll": gap.after,
        "start_ns": nanos(gap.from),
        "waiting_ns": nanos(gap.until.since(gap.from)),
        "awaited": gap.awaited.map(|(_, function)| name_of(info, function)),
        "awaited_task": gap.awaited.map(|(id, _)| id),
        "meanwhile": meanwhile.map(|other| json_of_calls::concurrent_call(info, other)),
    })
}
