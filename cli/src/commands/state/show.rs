//! A state, printed for people and as JSON. What a trace says is cleaned before people see it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Write;

use fdr_formats::tcstate::state::{Attribute, State, Value};
use fdr_formats::{ThreadId, TraceInfo};
use serde_json::json;

use super::Answer;
use super::states::ThreadState;
use crate::report::json;
use crate::report::wait_table::waited_for;
use crate::selection::moment::unix_of;
use crate::{task_stacks, trace, ui};

/// What an attribute is of.
enum AttributeOwner<'a> {
    /// A thread's call stack: its depth, or a level from 1.
    Stack(u64, Option<u64>),
    /// The thread on a CPU.
    Cpu(&'a str),
    /// The status or the CPU of a thread. The answer's list of states has these in words.
    Status(u64),
    /// Whether a thread of the program runs on a CPU.
    CpuStatus,
    /// A counter of a thread, by its name.
    Counter(u64, &'a str),
    /// Something else of a thread.
    Thread(u64),
    Other,
}

fn place(attribute: &Attribute) -> AttributeOwner<'_> {
    let path: Vec<&str> = attribute.path.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match path[..] {
        ["Threads", id, ref rest @ ..] => match (number(id), rest) {
            (Some(id), [] | ["Current_cpu_rq"]) => AttributeOwner::Status(id),
            (Some(id), ["CallStack"]) => AttributeOwner::Stack(id, None),
            (Some(id), ["CallStack", level]) => AttributeOwner::Stack(id, number(level)),
            (Some(id), ["Counters", name]) => AttributeOwner::Counter(id, name),
            (Some(id), _) => AttributeOwner::Thread(id),
            (None, _) => AttributeOwner::Other,
        },
        ["CPUs", cpu, "Current_thread"] => AttributeOwner::Cpu(cpu),
        ["CPUs", _] => AttributeOwner::CpuStatus,
        _ => AttributeOwner::Other,
    }
}

impl Answer<'_> {
    fn is_chosen(&self, thread: ThreadId) -> bool {
        self.threads
            .as_ref()
            .is_none_or(|threads| threads.contains(&thread))
    }

    /// Whether an attribute belongs to the chosen threads.
    fn shows(&self, attribute: &Attribute) -> bool {
        match place(attribute) {
            _ if self.threads.is_none() => true,
            AttributeOwner::Stack(id, _)
            | AttributeOwner::Thread(id)
            | AttributeOwner::Status(id)
            | AttributeOwner::Counter(id, _) => self.is_chosen(ThreadId(id)),
            AttributeOwner::Cpu(_) => match attribute.value {
                Value::Int(id) => self.is_chosen(ThreadId(id as u64)),
                _ => false,
            },
            AttributeOwner::CpuStatus | AttributeOwner::Other => false,
        }
    }

    /// The states of the threads that were asked for.
    fn states(&self) -> impl Iterator<Item = &ThreadState> {
        let all = self.states.iter();
        all.filter(|state| self.is_chosen(ThreadId(state.thread)))
    }
}

/// `thread 7 main`.
fn thread_in_words(info: &TraceInfo, id: ThreadId) -> String {
    let thread = info.threads.iter().find(|thread| thread.id == id);
    match thread.filter(|thread| !thread.name.is_empty()) {
        Some(thread) => format!("thread {id} {}", ui::clean(&thread.name)),
        None => format!("thread {id}"),
    }
}

/// Calls that began before their thread's records get the time at which they began.
pub(super) fn date_early_calls(info: &TraceInfo, state: &mut State) {
    for attribute in &mut state.attributes {
        let AttributeOwner::Stack(id, Some(level)) = place(attribute) else {
            continue;
        };
        let thread = info.threads.iter().find(|thread| thread.id.0 == id);
        let call = usize::try_from(level)
            .ok()
            .and_then(|level| level.checked_sub(1));
        let call = thread
            .zip(call)
            .and_then(|(thread, place)| thread.early_calls.get(place));
        let begin = call.and_then(|call| i64::try_from(info.clock.nanos(call.begin).0).ok());
        if let Some(begin) = begin.filter(|_| attribute.value != Value::Null) {
            attribute.since = attribute.since.map(|since| since.min(begin));
        }
    }
}

/// Prints it for people.
pub(super) fn text(out: &mut dyn Write, answer: &Answer<'_>) -> anyhow::Result<()> {
    let columns = ui::columns();
    let head = head(answer);
    let head = columns.map_or(head.clone(), |width| ui::wrap_facts(&head, width, 2));
    writeln!(out, "{head}")?;
    let values = Values::new(answer);
    let states: HashMap<u64, &ThreadState> =
        answer.states().map(|state| (state.thread, state)).collect();
    let threads = threads(answer, &values);
    let listed: HashSet<u64> = threads.iter().copied().collect();
    let known = answer.states().filter(|state| state.state.is_some());
    let silent = known
        .map(|state| state.thread)
        .filter(|id| !listed.contains(id));
    for id in threads.iter().copied().chain(silent) {
        writeln!(out, "\n{}", thread_in_words(answer.info, ThreadId(id)))?;
        if let Some(known) = states.get(&id) {
            writeln!(out, "     {}", known.in_words(answer.state.time))?;
        }
        match listed.contains(&id) {
            true => thread(out, answer, &values, id, columns)?,
            false => writeln!(out, "     no calls of it are recorded")?,
        }
    }
    task_stacks::text(out, answer.info, &answer.tasks, &answer.waiting)?;
    cpus(out, answer)?;
    others(out, answer)
}

/// The values of threads at that moment.
struct Values<'a> {
    /// The frames of each thread's stack, with their levels, the outermost first.
    frames: BTreeMap<u64, Vec<(u64, &'a Attribute)>>,
    counters: BTreeMap<u64, Vec<(&'a str, &'a Value)>>,
}

impl<'a> Values<'a> {
    fn new(answer: &'a Answer<'_>) -> Values<'a> {
        let mut values = Values {
            frames: BTreeMap::new(),
            counters: BTreeMap::new(),
        };
        for attribute in shown_attributes(answer).filter(|attribute| attribute.value != Value::Null)
        {
            match place(attribute) {
                AttributeOwner::Stack(id, Some(level)) => {
                    values
                        .frames
                        .entry(id)
                        .or_default()
                        .push((level, attribute));
                }
                AttributeOwner::Counter(id, name) => {
                    let of_thread = values.counters.entry(id).or_default();
                    of_thread.push((name, &attribute.value));
                }
                _ => {}
            }
        }
        for stack in values.frames.values_mut() {
            stack.sort_by_key(|(level, _)| *level);
        }
        values
    }
}

fn shown_attributes<'a>(answer: &'a Answer<'_>) -> impl Iterator<Item = &'a Attribute> {
    let attributes = answer.state.attributes.iter();
    attributes.filter(|attribute| answer.shows(attribute))
}

/// The threads with values: first those of the trace's list of threads, in its order, then those that the list lacks.
fn threads(answer: &Answer<'_>, values: &Values<'_>) -> Vec<u64> {
    let listed = answer.info.threads.iter().map(|thread| thread.id.0);
    let mut threads: Vec<u64> = listed
        .filter(|&id| answer.is_chosen(ThreadId(id)))
        .collect();
    let ids = values.frames.keys().chain(values.counters.keys()).copied();
    let others: BTreeSet<u64> = ids.filter(|id| !threads.contains(id)).collect();
    threads.extend(others);
    threads
}

/// A thread's open calls, its counters, and what it waits for.
fn thread(
    out: &mut dyn Write,
    answer: &Answer<'_>,
    values: &Values<'_>,
    id: u64,
    columns: Option<usize>,
) -> anyhow::Result<()> {
    let stack = values.frames.get(&id).map_or(&[][..], Vec::as_slice);
    if stack.is_empty() {
        match answer.overwritten(id) {
            Some(begin) => {
                let begin = ui::duration(begin.abs_diff(answer.span.start));
                writeln!(out, "     overwritten: its records begin at +{begin}")?;
            }
            None => writeln!(out, "     nothing is open")?,
        }
    }
    for (level, attribute) in stack {
        let name = value_in_words(&attribute.value);
        let time = age(answer, id, attribute);
        let level = format!("{level:>3}  ");
        let taken = level.len() + time.chars().count();
        let most = columns.map_or(usize::MAX, |columns| columns.saturating_sub(taken).max(24));
        writeln!(out, "{level}{}{time}", ui::shorten(&name, most))?;
    }
    for (name, value) in values.counters.get(&id).into_iter().flatten() {
        let value = value_in_words(value);
        writeln!(out, "     counter {}: {value}", ui::clean(name))?;
    }
    for wait in answer.waiting.iter().filter(|wait| wait.thread == id) {
        let time = ui::duration(wait.waiting_ns);
        let line = format!("     waits for {time} for {}", waited_for(wait));
        let line = columns.map_or(line.clone(), |width| ui::wrap(&line, width, 5));
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// For how long a call of the thread has been open.
fn age(answer: &Answer<'_>, id: u64, attribute: &Attribute) -> String {
    let Some(since) = attribute.since else {
        return String::new();
    };
    let ticks = answer.state.time.abs_diff(since);
    // Its entry may be among the records that are overwritten.
    let least = match answer.begins.get(&id) {
        Some(begin) if since == *begin => "at least ",
        _ => "",
    };
    match trace::is_timeless(answer.info) {
        true => format!("  for {}", ui::things(ticks, "step")),
        false => format!("  for {least}{}", ui::duration(ticks)),
    }
}

/// The thread of the last record on each CPU.
fn cpus(out: &mut dyn Write, answer: &Answer<'_>) -> anyhow::Result<()> {
    let mut is_first = true;
    for attribute in shown_attributes(answer) {
        if let (AttributeOwner::Cpu(cpu), Value::Int(id)) = (place(attribute), &attribute.value) {
            if std::mem::take(&mut is_first) {
                writeln!(out, "\nthe last record on")?;
            }
            let thread = thread_in_words(answer.info, ThreadId(*id as u64));
            writeln!(out, "CPU {}  {thread}", ui::clean(cpu))?;
        }
    }
    Ok(())
}

/// The values that no other part of the text has.
fn others(out: &mut dyn Write, answer: &Answer<'_>) -> anyhow::Result<()> {
    let mut is_first = true;
    for attribute in shown_attributes(answer).filter(|attribute| attribute.value != Value::Null) {
        let is_elsewhere = match place(attribute) {
            AttributeOwner::Other | AttributeOwner::Thread(_) => false,
            // Another program may have other values there.
            AttributeOwner::Status(_) | AttributeOwner::CpuStatus => !answer.states.is_empty(),
            AttributeOwner::Stack(..) | AttributeOwner::Cpu(_) | AttributeOwner::Counter(..) => {
                true
            }
        };
        if is_elsewhere {
            continue;
        }
        if std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        let path = attribute.path.join("/");
        let value = value_in_words(&attribute.value);
        writeln!(out, "{}  {value}", ui::clean(&path))?;
    }
    Ok(())
}

fn head(answer: &Answer<'_>) -> String {
    let (info, span, time) = (answer.info, answer.span, answer.state.time);
    let process = || Some(format!("process {}", info.process?));
    let program = trace::program(info).or_else(process);
    let program = program.map_or_else(String::new, |program| format!("{program} · "));
    let since = time.abs_diff(span.start);
    let all = span.end.abs_diff(span.start);
    if trace::is_timeless(info) {
        let (since, all) = (ui::count(since), ui::count(all));
        return format!(
            "{program}step {since} of {all}: the trace has the order of its calls, and no times"
        );
    }
    let (since, all) = (ui::duration(since), ui::duration(all));
    let date = unix_of(time, &info.clock).map(|unix| format!(" · {}", ui::utc(unix)));
    let date = date.unwrap_or_default();
    format!("{program}+{since} of {all} ({time} ns){date}")
}

fn value_in_words(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Int(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(text) => ui::clean(text).into_owned(),
    }
}

/// Prints it as JSON.
pub(super) fn json(out: &mut dyn Write, answer: &Answer<'_>) -> anyhow::Result<()> {
    let attribute = |attribute: &Attribute| {
        let value = match &attribute.value {
            Value::Null => json!(null),
            Value::Int(value) => json!(value),
            Value::Double(value) => json!(value),
            Value::Bool(value) => json!(value),
            Value::Text(text) => json!(text),
        };
        json!({ "path": attribute.path, "value": value, "since_ns": attribute.since })
    };
    let attributes = answer.state.attributes.iter();
    let attributes = attributes.filter(|attribute| answer.shows(attribute));
    let waiting = answer.waiting.iter();
    let waiting = waiting.filter(|wait| answer.is_chosen(ThreadId(wait.thread)));
    let chosen = answer.begins.keys().copied();
    let chosen = chosen.filter(|thread| answer.is_chosen(ThreadId(*thread)));
    let overwritten = chosen.filter_map(|thread| {
        let first_ns = answer.overwritten(thread)?;
        Some(json!({ "thread": thread, "first_ns": first_ns }))
    });
    let document = json!({
        "file": answer.trace.to_string_lossy(),
        "format": answer.info.format,
        "time_ns": answer.state.time,
        "start_ns": answer.span.start,
        "end_ns": answer.span.end,
        "unix_ns": unix_of(answer.state.time, &answer.info.clock),
        "waiting": waiting.collect::<Vec<_>>(),
        "states": answer.states().collect::<Vec<_>>(),
        "tasks": task_stacks::json(answer.info, &answer.tasks),
        "overwritten": overwritten.collect::<Vec<_>>(),
        "attributes": attributes.map(attribute).collect::<Vec<_>>(),
    });
    json::print(out, &document)
}
