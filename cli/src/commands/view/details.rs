//! The facts about one call: its own time, its arguments and its CPU. They are read from the call's stretch of its
//! thread.

use fdr_formats::calls::{CallStack, EndedCall, OpenCall};
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{Call, Edge, Mark, Sink, Ticks};
use serde_json::{Value, json};

use super::call_key::CallKey;
use super::viewed::ViewedTrace;
use crate::report::states::InStates;
use crate::trace;

/// Follows the call.
struct Follower<'a> {
    viewed: &'a ViewedTrace,
    meant: CallKey,
    stack: CallStack<()>,
    cpu: Option<u32>,
    /// The CPU on which it began.
    first_cpu: Option<u32>,
    cpu_changes: u64,
    calls_inside: u64,
    arguments: Vec<String>,
    task: Option<u64>,
    /// Total and own ticks.
    found: Option<(u64, u64)>,
}

/// Texts of values that are given.
const MAX_ARGUMENTS: usize = 100;

impl Follower<'_> {
    /// Whether the call that is meant is open.
    fn is_in(&self) -> bool {
        let open = self.stack.open().get(self.meant.depth);
        open.is_some_and(|open| self.is(open))
    }

    fn is(&self, open: &OpenCall<()>) -> bool {
        open.start.0 == self.meant.start && open.function.0 == self.meant.function
    }

    fn ended(&mut self, ended: &EndedCall<()>) {
        if ended.depth > self.meant.depth && self.is_in() {
            self.calls_inside += 1;
        }
        if ended.depth == self.meant.depth && self.is(&ended.call) && self.found.is_none() {
            self.found = Some((ended.total(), ended.own()));
        }
    }
}

impl Sink for Follower<'_> {
    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            if self.found.is_some() {
                return;
            }
            if call.edge == Edge::Entry {
                self.stack.enter(call, ());
                if self.stack.open().len() == self.meant.depth + 1 && self.is_in() {
                    self.first_cpu = self.cpu;
                }
                continue;
            }
            let mut done = Vec::new();
            let mut keep = |ended: EndedCall<()>, _: &mut [OpenCall<()>]| done.push(ended);
            self.stack.exit(call, &mut keep);
            for ended in done {
                self.ended(&ended);
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.found.is_some() {
            return;
        }
        match *mark {
            Mark::Cpu { cpu, .. } => {
                if self.is_in() && self.cpu.is_some_and(|before| before != cpu.0) {
                    self.cpu_changes += 1;
                }
                self.cpu = Some(cpu.0);
            }
            Mark::Lost { .. } => self.stack.lose(),
            Mark::Break { .. } => self.stack.doubt(),
            Mark::ShortCalls { time, calls, ticks } => {
                self.stack.short_calls(time, ticks);
                if self.is_in() {
                    self.calls_inside = self.calls_inside.saturating_add(calls);
                }
            }
            Mark::Note { kind, body, .. } if self.is_innermost() && kind == NoteKind::Task => {
                let note = Note::decode(kind, body);
                let of_it = note.and_then(|note| match note {
                    Note::Task { task, name, .. } if name == self.meant.function => Some(task),
                    _ => None,
                });
                self.task = of_it.or(self.task);
            }
            Mark::Argument { value } if self.is_innermost() => {
                self.push_argument(value.to_string())
            }
            Mark::Note { kind, body, .. }
                if self.is_innermost() && matches!(kind, NoteKind::Arguments | NoteKind::Event) =>
            {
                let info = self.viewed.info();
                if let Some(note) = Note::decode(kind, body) {
                    self.push_argument(note.words(info).to_string());
                }
            }
            _ => {}
        }
    }
}

impl Follower<'_> {
    fn is_innermost(&self) -> bool {
        self.stack.open().len() == self.meant.depth + 1 && self.is_in()
    }

    fn push_argument(&mut self, text: String) {
        if self.arguments.len() < MAX_ARGUMENTS {
            self.arguments.push(text);
        }
    }
}

/// Looks at the call.
///
/// # Errors
/// If the trace can't be read.
pub(super) fn of_call(viewed: &ViewedTrace, meant: CallKey) -> anyhow::Result<Value> {
    viewed.wait();
    let mut follower = Follower {
        viewed,
        meant,
        stack: CallStack::new().with_untimed(viewed.untimed.clone()),
        cpu: None,
        first_cpu: None,
        cpu_changes: 0,
        calls_inside: 0,
        arguments: Vec::new(),
        task: None,
        found: None,
    };
    let read = viewed.read(meant.thread, (meant.start, meant.end), &mut follower);
    read.map_err(|error| trace::about(&viewed.path, error))?;
    let end = viewed.info().end;
    let mut done = Vec::new();
    let mut keep = |ended: EndedCall<()>, _: &mut [OpenCall<()>]| done.push(ended);
    follower.stack.finish(end, &mut keep);
    // They come from the innermost on, and the stack is empty now.
    let place = done.iter().position(|ended| ended.depth == meant.depth);
    if let (None, Some(place)) = (follower.found, place)
        && follower.is(&done[place].call)
    {
        follower.found = Some((done[place].total(), done[place].own()));
        follower.calls_inside += place as u64;
    }
    let clock = &viewed.info().clock;
    let nanos = |ticks| clock.nanos(Ticks(ticks)).0;
    let id = viewed
        .info()
        .threads
        .get(meant.thread)
        .map(|thread| thread.id);
    let total = follower.found.map(|(total, _)| total);
    let total = total.unwrap_or(meant.end.saturating_sub(meant.start));
    let known = viewed.states.as_ref().zip(id).map(|(states, id)| {
        // The end of the request comes from a picture's pixels, so it is not exact. The found total
        // is.
        let end = meant.start.saturating_add(total);
        let known = states.in_stretch(id, Ticks(meant.start), Ticks(end));
        InStates::of_stretch(clock, &known)
    });
    Ok(json!({
        "total_ns": nanos(total),
        "self_ns": follower.found.map(|(_, own)| nanos(own)),
        "calls_inside": follower.calls_inside,
        "states": known,
        "cpu": follower.first_cpu,
        "cpu_changes": follower.cpu_changes,
        "arguments": follower.arguments,
        "task": follower.task.map(|task| task.to_string()),
    }))
}
