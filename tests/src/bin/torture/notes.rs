//! Compares notes with those that the program surely made. A note whose parts belong to different events is torn.

use std::collections::BTreeMap;

use fdr_formats::notes::{Field, FieldValue, Form, Note, NoteKind, RESULT, reason, thread_state};
use fdr_formats::{FunctionId, TraceInfo};
use fdr_tests::support::course::{self, Course, EVERY, ROUND, STRAND_WORD as STRAND};

use crate::decoded_trace::Lane;

/// A note that the program makes at a place that is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedNote {
    /// The arguments of a call, whose entry has that number among the thread's records.
    Enter(u8, u64),
    /// The result of a call, whose exit has that number.
    Leave(u8, u64),
    /// The event of a block.
    Event(u64),
    /// Its counter.
    Counter(u64),
    /// Its task, after this many polls.
    Task(u64),
}

/// A note about the thread's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) object: u64,
    pub(crate) holder: u64,
    pub(crate) blocks: bool,
}

/// All notes of a thread.
#[derive(Clone, Default)]
pub(crate) struct ThreadNotes {
    /// Each before the edge of that place.
    pub(crate) planned: Vec<(usize, PlannedNote)>,
    /// The numbers of its tasks, one for each note of a task.
    pub(crate) tasks: Vec<u64>,
    pub(crate) waits: Vec<Wait>,
    /// The room that its notes take, in function records.
    pub(crate) room: u64,
}

/// The names of a trace, for what notes refer to.
pub(crate) struct Names(BTreeMap<u32, String>);

impl Names {
    pub(crate) fn new(info: &TraceInfo) -> Names {
        let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
        let functions = info.functions.iter();
        Names(
            functions
                .map(|function| (function.id.0, last(&function.name)))
                .collect(),
        )
    }

    fn get(&self, id: u32) -> &str {
        self.0.get(&id).map_or("", String::as_str)
    }
}

/// Fields as names and values.
fn values<'a>(fields: &[Field<'a>], names: &'a Names) -> Vec<(&'a str, u8, FieldValue<'a>)> {
    let value = |field: &Field<'a>| (names.get(field.name), field.place, field.value);
    fields.iter().map(value).collect()
}

/// Whether the text is that number.
fn is_text(text: &[u8], length: u64, number: u64) -> bool {
    length == text.len() as u64 && number.to_string().as_bytes() == text
}

impl ThreadNotes {
    /// Takes a note, before the edge of that place.
    pub(crate) fn take(
        &mut self,
        place: usize,
        (kind, body): (NoteKind, &[u8]),
        names: &Names,
        words: &BTreeMap<FunctionId, u8>,
    ) {
        /// Bytes of a note's record besides its body.
        const HEAD: usize = 24;
        self.room += (HEAD + body.len()).div_ceil(8) as u64;
        let note = Note::decode(kind, body).expect("a note");
        if is_panic(&note, names) {
            return;
        }
        if let Note::Task { task, .. } = note {
            self.tasks.push(task);
        }
        if let Some(planned) = planned_note(&note, names, words) {
            self.planned.push((place, planned));
        } else {
            let wait = wait(&note, names, words);
            let wait = wait.unwrap_or_else(|| panic!("a note that no thread wrote: {note:?}"));
            self.waits.push(wait);
        }
    }
}

/// Whether it is the recorder's own event of a panic.
fn is_panic(note: &Note<'_>, names: &Names) -> bool {
    let Note::Event {
        name, form, fields, ..
    } = note
    else {
        return false;
    };
    let has_place = |text: &[u8]| text.windows(4).any(|part| part == b".rs:");
    names.get(*name) == "panic"
        && Form::from_number(*form) == Some(Form::Instant)
        && matches!(
            values(fields, names)[..],
            [("message", _, FieldValue::Text(..)), ("at", _, FieldValue::Text(at, _))] if has_place(at)
        )
}

fn planned_note(
    note: &Note<'_>,
    names: &Names,
    words: &BTreeMap<FunctionId, u8>,
) -> Option<PlannedNote> {
    use FieldValue::{Text, Unsigned};
    match note {
        Note::Event {
            name, form, fields, ..
        } => match (
            names.get(*name),
            Form::from_number(*form)?,
            &values(fields, names)[..],
        ) {
            (
                "noted",
                Form::Instant,
                &[
                    ("serial", _, Unsigned(serial)),
                    ("check", _, Unsigned(check)),
                    ("text", _, Text(text, length)),
                ],
            ) if check == course::check(serial) && is_text(text, length, serial) => {
                Some(PlannedNote::Event(serial))
            }
            ("counted", Form::Counter, &[(_, _, Unsigned(serial))]) => {
                Some(PlannedNote::Counter(serial))
            }
            _ => None,
        },
        Note::Arguments { function, fields } => {
            let word = *words.get(&FunctionId(*function))?;
            match values(fields, names)[..] {
                [(_, RESULT, Unsigned(number))] if word < STRAND => {
                    Some(PlannedNote::Leave(word, number))
                }
                [
                    ("number", 0, Unsigned(number)),
                    ("text", 1, Text(text, length)),
                ] if word < STRAND && is_text(text, length, number) => {
                    Some(PlannedNote::Enter(word, number))
                }
                [("number", 0, Unsigned(number))] if word == STRAND => {
                    Some(PlannedNote::Enter(word, number))
                }
                _ => None,
            }
        }
        Note::Task {
            parent,
            name,
            state,
            elapsed,
            busy,
            polls,
            ..
        } => {
            use fdr_formats::notes::task_state::{FINISHED, WAITING};
            let is_right = matches!((*state, *polls), (WAITING, 1) | (FINISHED, 2))
                && names.get(*name) == "strand"
                && *parent == 0
                && busy <= elapsed;
            is_right.then_some(PlannedNote::Task(*polls))
        }
        Note::ThreadState { .. } => None,
    }
}

fn wait(note: &Note<'_>, names: &Names, words: &BTreeMap<FunctionId, u8>) -> Option<Wait> {
    let Note::ThreadState {
        object,
        holder,
        name,
        state,
        reason,
        function,
        ..
    } = *note
    else {
        return None;
    };
    let is_known = |id: u32| id == 0 || words.get(&FunctionId(id)).is_some_and(|w| *w <= STRAND);
    // A name that the lock got while the trace was written is not among the trace's names.
    let is_named = ["torture", ""].contains(&names.get(name));
    let blocks = state == thread_state::BLOCKED;
    let is_right = is_named
        && is_known(function)
        && object != 0
        && reason == reason::LOCK
        && (blocks || state == thread_state::RUNNING);
    is_right.then_some(Wait {
        object,
        holder,
        blocks,
    })
}

/// How notes are to be compared.
pub(crate) struct NoteComparison {
    pub(crate) course: Course,
    /// Records that the thread made.
    pub(crate) made: u64,
    /// Records that are surely followed by what the program says behind them.
    pub(crate) sure: u64,
    /// Every call leaves its records, so each note is at its place.
    pub(crate) is_exact: bool,
}

/// Whether the lane's notes are those of the course, none torn, missing or twice.
pub(crate) fn check(lane: &Lane, wanted: &NoteComparison) {
    let ThreadNotes { planned, waits, .. } = &lane.notes;
    let name = &lane.name;
    if !wanted.course.has_blocks() {
        let is_silent = planned.is_empty() && waits.is_empty();
        assert!(
            is_silent,
            "{name}: notes of a program that makes none: {planned:?}, {waits:?}"
        );
        return;
    }
    for two in waits.windows(2) {
        let is_over = two[0].blocks != two[1].blocks;
        let is_same = !two[0].blocks || two[0].object == two[1].object;
        assert!(
            is_over && is_same,
            "{name}: waits that are not one after the other: {two:?}"
        );
    }
    let of_itself = waits.iter().find(|wait| wait.holder == lane.id.0);
    assert_eq!(of_itself, None, "{name} waits for itself");
    tasks(lane);
    match wanted.is_exact {
        true => exact(lane, wanted),
        false => check_kept_notes(lane, wanted),
    }
}

/// The two notes of a task have one number, and no other has it.
fn tasks(lane: &Lane) {
    let ThreadNotes { planned, tasks, .. } = &lane.notes;
    let polls = planned.iter().filter_map(|(_, note)| match note {
        PlannedNote::Task(polls) => Some(*polls),
        _ => None,
    });
    let mut before = (0, 0);
    for (polls, &task) in polls.zip(tasks) {
        let (last, last_task) = before;
        let is_right = match polls {
            1 => task > last_task,
            _ => last != 1 || task == last_task,
        };
        assert!(
            is_right,
            "{}: task {task} has poll {polls} behind poll {last} of task {last_task}",
            lane.name
        );
        before = (polls, task);
    }
}

/// What the program says between two records, of which the second has that number.
fn between(before: Option<u8>, after: Option<u8>, number: u64) -> Vec<PlannedNote> {
    let mut notes = Vec::new();
    if let Some(word) = before {
        let is_second_poll = word == STRAND && number % ROUND != EVERY + 1;
        if word % 2 == 0 && !is_second_poll {
            notes.push(PlannedNote::Enter(word, number - 1));
        }
    }
    match after {
        Some(STRAND) if number % ROUND == EVERY => {
            notes.extend([
                PlannedNote::Event(number / ROUND),
                PlannedNote::Counter(number / ROUND),
            ]);
        }
        Some(word) if word == STRAND + 1 => {
            notes.push(PlannedNote::Task(if number % ROUND == EVERY + 1 {
                1
            } else {
                2
            }));
        }
        Some(word) if word % 2 == 1 => notes.push(PlannedNote::Leave(word - 1, number)),
        _ => {}
    }
    notes
}

/// Each note is at its place, between the records where it was made.
fn exact(lane: &Lane, wanted: &NoteComparison) {
    let count = lane.edges.len() as u64;
    let first = wanted.made - count;
    // One record before, and one behind.
    let from = first.saturating_sub(1);
    let edges = wanted.course.window(from, count + 2);
    let edge = |number: u64| {
        let at = number.checked_sub(from)?;
        edges.get(at as usize).copied()
    };
    let mut notes = lane.notes.planned.iter().peekable();
    for place in 0..=lane.edges.len() {
        let number = first + place as u64;
        let before = number.checked_sub(1).and_then(edge);
        let expected = between(before, edge(number), number);
        let mut found = Vec::new();
        while let Some((_, note)) = notes.next_if(|(at, _)| *at == place) {
            found.push(*note);
        }
        let is_last = place == lane.edges.len();
        let is_right = match place {
            _ if found == expected => true,
            // Before the first record and behind the last one, notes may be gone, and not yet made.
            0 if first > 0 && expected.ends_with(&found) => true,
            _ if is_last => {
                let has_all = matches!(expected.first(), Some(PlannedNote::Enter(..)))
                    && found.is_empty()
                    && number <= wanted.sure;
                !has_all && expected.starts_with(&found)
            }
            _ => false,
        };
        assert!(
            is_right,
            "{}: before record {number}, {place} of {count} in the trace: {found:?}, not {expected:?}",
            lane.name
        );
    }
}

/// A part of a course, so that not each look makes all edges before.
struct CoursePart {
    course: Course,
    from: u64,
    edges: Vec<u8>,
}

impl CoursePart {
    fn get(&mut self, number: u64) -> Option<u8> {
        const PART: u64 = 300 * ROUND;
        let at = |known: &CoursePart| {
            let at = number.checked_sub(known.from)?;
            known.edges.get(at as usize).copied()
        };
        at(self).or_else(|| {
            self.from = number - number % ROUND;
            self.edges = self.course.window(self.from, PART);
            at(self)
        })
    }
}

/// Short calls leave neither records nor notes: each other call has its own, and the events are all there.
fn check_kept_notes(lane: &Lane, wanted: &NoteComparison) {
    let name = &lane.name;
    let mut known = CoursePart {
        course: wanted.course,
        from: 0,
        edges: Vec::new(),
    };
    let ThreadNotes { planned, .. } = &lane.notes;
    let mut last = None;
    for (place, note) in planned {
        let (number, word, at) = match *note {
            PlannedNote::Enter(word, number) => (number, word, place.checked_sub(1)),
            PlannedNote::Leave(word, number) => (number, word + 1, Some(*place)),
            _ => continue,
        };
        let edge = at.and_then(|at| lane.edges.get(at));
        // The entry before a note at the beginning is overwritten. The exit behind one at the end was not made.
        let is_there =
            edge == Some(&word) || (edge.is_none() && (at.is_none() || *place == lane.edges.len()));
        let before = last.replace(number);
        let of_course = known.get(number);
        assert!(
            is_there && of_course == Some(word) && before.is_none_or(|before| before < number),
            "{name}: {note:?} beside {edge:?}, behind number {before:?}; the course has {of_course:?}"
        );
    }
    let has = |place: usize, is_it: &dyn Fn(&PlannedNote) -> bool| {
        let from = planned.partition_point(|(at, _)| *at < place);
        let mut there = planned[from..].iter().take_while(|(at, _)| *at == place);
        there.any(|(_, note)| is_it(note))
    };
    for (place, &word) in lane.edges.iter().enumerate() {
        let is_last = place + 1 == lane.edges.len();
        let (is_there, what) = match word {
            _ if word >= STRAND => continue,
            _ if word % 2 == 0 => {
                let is_it = |note: &PlannedNote| matches!(note, PlannedNote::Enter(other, _) if *other == word);
                (is_last || has(place + 1, &is_it), "arguments")
            }
            _ => {
                let is_it = |note: &PlannedNote| matches!(note, PlannedNote::Leave(other, _) if *other == word - 1);
                (place == 0 || has(place, &is_it), "a result")
            }
        };
        assert!(is_there, "{name}: record {place}, {word}, has no {what}");
    }
    serials(lane, wanted);
}

/// Events and counters are there without a gap, up to the last that the thread can have made.
fn serials(lane: &Lane, wanted: &NoteComparison) {
    // Of a thread that overwrites its records faster than they are copied, there are counts alone.
    if lane.counts.readable == 0 {
        return;
    }
    let (mut event, mut counter) = (None, None);
    for (_, note) in &lane.notes.planned {
        let (last, serial) = match *note {
            PlannedNote::Event(serial) => (&mut event, serial),
            PlannedNote::Counter(serial) => (&mut counter, serial),
            _ => continue,
        };
        let is_next = last.is_none_or(|last: u64| last + 1 == serial);
        assert!(is_next, "{}: {note:?} behind number {last:?}", lane.name);
        *last = Some(serial);
    }
    // A program that goes on is ahead of its records: its short calls are read later.
    let NoteComparison { made, sure, .. } = *wanted;
    let range =
        (made.min(sure) + ROUND - EVERY).saturating_sub(1) / ROUND..=(made + ROUND - EVERY) / ROUND;
    // While they were copied, a thread may have overwritten all but its last records.
    let number_of = |note: &PlannedNote| match *note {
        PlannedNote::Enter(_, number) | PlannedNote::Leave(_, number) => Some(number),
        _ => None,
    };
    let first = lane
        .notes
        .planned
        .iter()
        .find_map(|(_, note)| number_of(note));
    let newest_at = range.end().saturating_sub(1) * ROUND + EVERY;
    let is_overwritten = first.is_some_and(|first| newest_at <= first);
    for (kind, last) in [("event", event), ("counter", counter)] {
        let count = match last {
            None if is_overwritten => continue,
            None => 0,
            Some(last) => last + 1,
        };
        assert!(
            range.contains(&count),
            "{}: the last {kind} is number {count}, not {range:?}, of {made} records",
            lane.name
        );
    }
}
