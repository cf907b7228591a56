//! The stacks of tasks as text for people, and as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{ThreadId, Ticks, TraceInfo};
use serde_json::{Value, json};

use super::{Group, MAX_LONGEST, Now, OpenTask, Stack, TaskStacks, since};
use crate::calls::arguments::{self, CallNotes, shorten};
use crate::calls::json as json_of_calls;
use crate::report::json_field::JsonField;
use crate::report::names::{name_of, place_of, thread_name};
use crate::report::wait_table::waited_for;
use crate::report::waits::OpenWait;
use crate::ui;

/// Groups of stacks that people see. JSON has all.
const MAX_GROUPS: usize = 20;

/// Writes the text, with an empty line before it. `waiting`: the threads that waited for a lock, as far as that is known.
pub(crate) fn text(
    out: &mut dyn Write,
    info: &TraceInfo,
    found: &TaskStacks,
    waiting: &[OpenWait],
) -> anyhow::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let page = Page {
        info,
        found,
        waiting,
        width: ui::columns(),
    };
    let open = found.tasks.len() as u64 + found.without_notes.values().sum::<u64>();
    writeln!(out, "\n{} open", ui::things(open, "task"))?;
    for group in found.groups.iter().take(MAX_GROUPS) {
        page.group(out, group)?;
    }
    let more = found.groups.len().saturating_sub(MAX_GROUPS);
    if more > 0 {
        let more = ui::things(more as u64, "more kind");
        writeln!(out, "\n{more} of stacks: see --json")?;
    }
    for line in remarks(found) {
        writeln!(out, "\n{}", ui::paragraph(&line, 5))?;
    }
    Ok(())
}

/// What is known of tasks that are in no stack.
fn remarks(found: &TaskStacks) -> Vec<String> {
    let mut remarks = Vec::new();
    let all: Vec<(&String, &u64)> = found.without_notes.iter().collect();
    if !all.is_empty() {
        let tasks = ui::things(all.iter().map(|(_, count)| **count).sum(), "open task");
        let names = ui::first_of(&all, |(name, count)| {
            format!("{} of {}", ui::count(**count), ui::clean(name))
        });
        remarks.push(format!(
            "of {tasks} the trace has no records, because the polls were short or are overwritten: {names}"
        ));
    }
    if found.perhaps > 0 {
        let tasks = ui::things(found.perhaps, "more task");
        remarks.push(format!(
            "{tasks} may be open: newer records are overwritten, perhaps those of the ends"
        ));
    }
    remarks
}

struct Page<'a> {
    info: &'a TraceInfo,
    found: &'a TaskStacks,
    waiting: &'a [OpenWait],
    width: Option<usize>,
}

impl Page<'_> {
    fn group(&self, out: &mut dyn Write, group: &Group) -> anyhow::Result<()> {
        let Some((longest, others)) = group.stacks.split_first() else {
            return Ok(());
        };
        match group.stacks.len() {
            1 => writeln!(out, "\ntasks, each awaits the next")?,
            count => writeln!(
                out,
                "\ntasks, each awaits the next: {} such stacks, the longest",
                ui::count(count as u64)
            )?,
        }
        let task = |place: usize| &self.found.tasks[place];
        let spawned_by = longest.first().and_then(|&root| task(root).spawned_by);
        if let Some((id, function)) = spawned_by {
            let name = name_of(self.info, function);
            self.line(out, &format!("spawned by task {id} {}", ui::clean(&name)))?;
        }
        for (level, &place) in (1..).zip(longest) {
            self.level(out, level, task(place))?;
        }
        if let Some(&leaf) = longest.last() {
            self.line(out, &self.now(task(leaf)))?;
        }
        if !others.is_empty() {
            let next: Vec<String> = others
                .iter()
                .take(MAX_LONGEST - 1)
                .filter_map(|stack| stack.last())
                .map(|&leaf| {
                    format!(
                        "{} for {}",
                        id_in_words(task(leaf)),
                        self.age(since(task(leaf)))
                    )
                })
                .collect();
            let more = match others.len() - next.len() {
                0 => String::new(),
                more => format!(" · {} more", ui::count(more as u64)),
            };
            self.line(out, &format!("then {}{more}", next.join(" · ")))?;
        }
        Ok(())
    }

    fn line(&self, out: &mut dyn Write, line: &str) -> anyhow::Result<()> {
        let line = format!("     {line}");
        let line = self
            .width
            .map_or(line.clone(), |width| ui::wrap(&line, width, 5));
        Ok(writeln!(out, "{line}")?)
    }

    fn level(&self, out: &mut dyn Write, level: usize, task: &OpenTask) -> anyhow::Result<()> {
        let mut facts = format!("  {} for {}", id_in_words(task), self.age(task.begin));
        if let Some(polls) = task.polls {
            facts.push_str(&format!(", {}", ui::things(polls, "poll")));
        }
        if let Some(busy) = task.busy {
            facts.push_str(&format!(", busy {}", self.time(busy)));
        }
        let name = name_of(self.info, task.function);
        let level = format!("{level:>3}  ");
        let taken = level.len() + facts.chars().count();
        let most = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(taken).max(24));
        writeln!(
            out,
            "{level}{}{facts}",
            ui::shorten(&ui::clean(&name), most)
        )?;
        let calls: Vec<CallNotes> = call_notes(task).into_iter().collect();
        if let Some(line) = arguments::line(self.info, task.function, &calls) {
            self.line(out, &line)?;
        }
        let event = task.said.event.as_ref();
        let note =
            event.and_then(|event| Some((event.time, Note::decode(NoteKind::Event, &event.body)?)));
        if let Some((time, note)) = note {
            let words = shorten(&note.words(self.info).to_string());
            self.line(out, &format!("last event, {} ago: {words}", self.age(time)))?;
        }
        Ok(())
    }

    /// What the innermost task does.
    fn now(&self, task: &OpenTask) -> String {
        let (file, line) = place_of(self.info, task.function);
        let place = match file.is_empty() {
            true => String::new(),
            false => format!(" ({}:{line})", ui::clean(&file)),
        };
        match task.now {
            Now::Polled {
                thread,
                since,
                others,
            } => {
                let mut words = format!(
                    "is polled for {} in {}",
                    self.age(since),
                    self.thread(thread)
                );
                for wait in self.waiting.iter().filter(|wait| wait.thread == thread.0) {
                    let time = ui::duration(wait.waiting_ns);
                    words.push_str(&format!(
                        ", which waits for {time} for {}",
                        waited_for(wait)
                    ));
                }
                if others > 0 {
                    let others = ui::things(others, "task");
                    words.push_str(&format!("; this is its first poll, or it is one of {others} of the function that are below"));
                }
                words
            }
            Now::Waits { thread, since } => {
                let what = match self.found.without_notes.is_empty() {
                    true => ", and awaits no other traced task",
                    false => ", and no record says for what",
                };
                let end = match task.may_have_ended {
                    true => "; the record of its end may be overwritten",
                    false => "",
                };
                format!(
                    "waits for {}{place}{what}; {} polled it last{end}",
                    self.age(since),
                    self.thread(thread)
                )
            }
            Now::Unknown => format!("none of its polls up to here left records{place}"),
        }
    }

    fn thread(&self, id: ThreadId) -> String {
        thread_name(self.info, id)
    }

    fn time(&self, ticks: u64) -> String {
        ui::duration(self.info.clock.nanos(Ticks(ticks)).0)
    }

    /// How long ago that was.
    fn age(&self, since: Ticks) -> String {
        self.time(self.found.moment.since(since).0)
    }
}

impl TaskStacks {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.without_notes.is_empty() && self.perhaps == 0
    }
}

fn id_in_words(task: &OpenTask) -> String {
    task.id
        .map_or_else(|| "a task".to_owned(), |id| format!("task {id}"))
}

fn call_notes(task: &OpenTask) -> Option<CallNotes> {
    CallNotes::new(task.function, task.said.arguments.clone())
}

/// The stacks as JSON.
pub(crate) fn json(info: &TraceInfo, found: &TaskStacks) -> Value {
    let groups = found
        .groups
        .iter()
        .map(|group| json_of_group(info, found, group));
    let without_notes = found.without_notes.iter();
    let without_notes =
        without_notes.map(|(function, tasks)| json!({ "function": function, "tasks": tasks }));
    json!({
        "open": found.tasks.len() as u64 + found.without_notes.values().sum::<u64>(),
        "stacks": groups.collect::<Value>(),
        "perhaps_open": found.perhaps,
        "without_records": without_notes.collect::<Value>(),
    })
}

fn json_of_group(info: &TraceInfo, found: &TaskStacks, group: &Group) -> Value {
    let functions = group.stacks.first().into_iter().flatten();
    let functions = functions.map(|&place| name_of(info, found.tasks[place].function));
    let longest = group.stacks.iter().take(MAX_LONGEST);
    json!({
        "count": group.stacks.len(),
        "functions": functions.collect::<Value>(),
        "longest": longest.map(|stack| json_of_stack(info, found, stack)).collect::<Value>(),
    })
}

/// The tasks of a stack, the outermost first.
fn json_of_stack(info: &TraceInfo, found: &TaskStacks, stack: &Stack) -> Value {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    let age = |since: Ticks| nanos(found.moment.since(since).0);
    let one = |&place: &usize| {
        let task = &found.tasks[place];
        let parent = task.awaited_by.and_then(|around| found.tasks[around].id);
        let parent = parent.or(task.spawned_by.map(|(id, _)| id));
        let (thread, waits, polled, candidates) = match task.now {
            Now::Polled {
                thread,
                since,
                others,
            } => (Some(thread), None, Some(age(since)), others),
            Now::Waits { thread, since } => (Some(thread), Some(age(since)), None, 0),
            Now::Unknown => (None, None, None, 0),
        };
        let (file, line) = place_of(info, task.function);
        let event = task.said.event.as_ref();
        let event = event.and_then(|event| json_of_event(info, &event.body, age(event.time)));
        let calls: Vec<CallNotes> = call_notes(task).into_iter().collect();
        json!({
            "id": task.id,
            "parent": parent,
            "spawned": task.spawned_by.is_some(),
            "function": name_of(info, task.function),
            "file": file,
            "line": line,
            "open_ns": age(task.begin),
            "polls": task.polls,
            "busy_ns": task.busy.map(nanos),
            "may_have_ended": task.may_have_ended,
            "thread": thread.map(|thread| thread.0),
            "waits_ns": waits,
            "polled_ns": polled,
            "candidates": candidates,
            "arguments": json_of_calls::arguments(info, &calls),
            "last_event": event,
        })
    };
    stack.iter().map(one).collect()
}

fn json_of_event(info: &TraceInfo, body: &[u8], ago: u64) -> Option<Value> {
    match Note::decode(NoteKind::Event, body) {
        Some(Note::Event { name, fields, .. }) => Some(json!({
            "name": name_of(info, fdr_formats::FunctionId(name)),
            "ago_ns": ago,
            "fields": JsonField::list(&fields, info),
        })),
        _ => None,
    }
}
