//! The program's notes, in the words of a replay.

use fdr_formats::notes::{Note, NoteKind, task_state, thread_state};
use fdr_formats::{FunctionId, ThreadId, Ticks, TraceInfo, note_words};

use super::nearest::NearNote;
use crate::report::names::name_of;
use crate::report::waits::Object;
use crate::ui;

/// A note in words. `thread` names a thread.
pub(super) fn in_words(
    info: &TraceInfo,
    near_note: &NearNote,
    thread: impl Fn(ThreadId) -> String,
) -> String {
    let note =
        NoteKind::from_number(near_note.kind).and_then(|kind| Note::decode(kind, &near_note.body));
    let time = |ticks| ui::duration(info.clock.nanos(Ticks(ticks)).0);
    match note {
        Some(Note::ThreadState {
            object,
            holder,
            name,
            state,
            reason,
            function,
            waited,
        }) => {
            let object = Object::new(reason, name, object).in_words(info);
            let object = format!("{object} ({})", note_words::reason(reason));
            if state == thread_state::RUNNING {
                return format!("waited {} for {object}", time(waited));
            }
            let mut words = format!("waits for {object}");
            if holder > 0 {
                words.push_str(&format!(", held by {}", thread(ThreadId(holder))));
            }
            if function > 0 {
                words.push_str(&format!(" in {}", name_of(info, FunctionId(function))));
            }
            words
        }
        Some(Note::Task {
            task,
            name,
            state,
            elapsed,
            busy,
            polls,
            ..
        }) => {
            let verb = match state {
                task_state::WAITING => "waits",
                task_state::FINISHED => "finished",
                task_state::DROPPED => "was dropped",
                _ => "changed its state",
            };
            let name = note_words::name(info, name);
            let polls = ui::things(polls, "time");
            let (elapsed, busy) = (time(elapsed), time(busy));
            format!("task {task} {name} {verb} after {elapsed}, polled {polls} for {busy}")
        }
        Some(note) => note.words(info).to_string(),
        None => "a note that is damaged".to_owned(),
    }
}
