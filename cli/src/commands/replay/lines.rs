//! The lines of a replay: the calls of each thread as they nest, all threads in the order of time.

use std::cmp::Reverse;

use fdr_formats::ThreadId;

use super::nearest::{Kind, NearCall, NearNote, NearestEvents};

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Call(CallLine),
    Note(NearNote, usize),
}

/// A call, or several of the same function right behind each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallLine {
    pub(super) call: NearCall,
    /// Shown calls around it.
    pub(super) depth: usize,
    /// How many.
    pub(super) calls: u64,
    /// What they took together.
    pub(super) total: u64,
    /// The longest of them.
    pub(super) longest: u64,
    is_leaf: bool,
}

impl Line {
    pub(super) fn thread(&self) -> ThreadId {
        match self {
            Line::Call(shown) => shown.call.thread,
            Line::Note(note, _) => note.thread,
        }
    }

    pub(super) fn depth(&self) -> usize {
        match self {
            Line::Call(shown) => shown.depth,
            Line::Note(_, depth) => *depth,
        }
    }

    pub(super) fn time(&self) -> fdr_formats::Ticks {
        match self {
            Line::Call(shown) => shown.call.start,
            Line::Note(note, _) => note.time,
        }
    }
}

/// What is found, in lines. `grouped`: calls without calls inside that follow each other are one.
pub(super) fn lines(found: NearestEvents, grouped: bool) -> Vec<Line> {
    let mut calls = found.calls;
    calls.sort_by_key(|call| (call.thread, call.start, Reverse(call.end), call.depth));
    let mut notes = found.notes;
    notes.sort_by_key(|note| (note.thread, note.time, note.place));
    let mut notes = notes.into_iter().peekable();
    let mut lines: Vec<Line> = Vec::with_capacity(calls.len() + notes.len());
    // The open calls of the thread, by their places.
    let mut open: Vec<usize> = Vec::new();
    let mut thread = None;
    for call in calls {
        // A note inside of a call that begins at the same tick has more open calls around it.
        let is_before = |note: &NearNote| {
            let since = (note.thread, note.time).cmp(&(call.thread, call.start));
            since.then((note.depth > call.depth).cmp(&true)).is_lt()
        };
        while let Some(note) = notes.next_if(is_before) {
            push_note(&mut lines, &mut open, &mut thread, note);
        }
        if thread != Some(call.thread) {
            open.clear();
            thread = Some(call.thread);
        }
        close(&lines, &mut open, &call);
        if let Some(&around) = open.last()
            && let Some(Line::Call(around)) = lines.get_mut(around)
        {
            around.is_leaf = false;
        }
        open.push(lines.len());
        lines.push(Line::Call(CallLine {
            depth: open.len() - 1,
            calls: match call.kind {
                Kind::Call => 1,
                Kind::Short(calls) => calls,
            },
            total: call.total,
            longest: call.total,
            is_leaf: true,
            call,
        }));
    }
    for note in notes {
        push_note(&mut lines, &mut open, &mut thread, note);
    }
    if grouped {
        lines = group(lines);
    }
    lines.sort_by_key(Line::time);
    lines
}

fn push_note(
    lines: &mut Vec<Line>,
    open: &mut Vec<usize>,
    thread: &mut Option<ThreadId>,
    note: NearNote,
) {
    if *thread != Some(note.thread) {
        open.clear();
        *thread = Some(note.thread);
    }
    while let Some(&last) = open.last() {
        // A note at the tick of a call's end may come after that end, such as the result of the caller. Then fewer
        // calls are open around the note than around a note inside the call.
        let is_around = |call: &NearCall| {
            call.end > note.time || (call.end == note.time && call.depth < note.depth)
        };
        match lines.get(last) {
            Some(Line::Call(around)) if is_around(&around.call) => break,
            _ => open.pop(),
        };
    }
    // A call with a note inside is no leaf: the note's line belongs below the call's line.
    if let Some(&around) = open.last()
        && let Some(Line::Call(around)) = lines.get_mut(around)
    {
        around.is_leaf = false;
    }
    let depth = open.len();
    lines.push(Line::Note(note, depth));
}

/// Leaves the calls that are not around this one.
fn close(lines: &[Line], open: &mut Vec<usize>, call: &NearCall) {
    while let Some(&last) = open.last() {
        let is_around = match lines.get(last) {
            // If both calls have no length and the same tick, their depths say which one is the outer one.
            Some(Line::Call(around)) => {
                around.call.end > call.start
                    || (around.call.end >= call.end && around.call.depth < call.depth)
            }
            _ => false,
        };
        if is_around {
            return;
        }
        open.pop();
    }
}

/// Makes one line of calls of the same function that follow each other on their thread, with no call inside.
fn group(lines: Vec<Line>) -> Vec<Line> {
    let mut grouped: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        if let (Some(Line::Call(before)), Line::Call(next)) = (grouped.last_mut(), &line)
            && are_alike(before, next)
        {
            before.calls += next.calls;
            before.total = before.total.saturating_add(next.total);
            before.longest = before.longest.max(next.longest);
            before.call.end = next.call.end;
            before.call.cpus[1] = next.call.cpus[1];
            continue;
        }
        grouped.push(line);
    }
    grouped
}

fn are_alike(one: &CallLine, next: &CallLine) -> bool {
    let is_plain = |shown: &CallLine| {
        let call = &shown.call;
        shown.is_leaf && call.kind == Kind::Call && call.has_entry && call.has_exit
    };
    let who = |shown: &CallLine| (shown.call.thread, shown.call.function, shown.depth);
    is_plain(one) && is_plain(next) && who(one) == who(next)
}
