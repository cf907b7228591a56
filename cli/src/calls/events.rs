//! The program's events inside a slow call.

use fdr_formats::notes::{Form, Note, NoteKind, form_of};
use fdr_formats::{Ticks, TraceInfo};

use super::arguments::shorten;
use crate::ui;

/// Names of events that are kept of a call.
const MAX_NAMES: usize = 4;
/// Where the body of an event has its level, behind its name and its form.
const LEVEL_AT: usize = 5;

/// The first event of a name, at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: Ticks,
    /// How many events of the name there were.
    pub(crate) times: u64,
    name: [u8; 4],
    level: u8,
    body: Vec<u8>,
}

impl Event {
    pub(crate) fn note(&self) -> Option<Note<'_>> {
        Note::decode(NoteKind::Event, &self.body)
    }
}

/// The events of one call: the first ones of different names, in the order of time. An event of a higher level
/// replaces another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) list: Vec<Event>,
    /// How many there were.
    pub(crate) count: u64,
}

impl Events {
    /// Takes a note, if it is an event at a moment.
    pub(crate) fn take(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        let is_event = kind == NoteKind::Event && form_of(body) == Some(Form::Instant);
        let (Some(&name), Some(&level)) = (body.first_chunk(), body.get(LEVEL_AT)) else {
            return;
        };
        if !is_event {
            return;
        }
        self.count += 1;
        let times = 1;
        let body = body.to_vec();
        self.keep(Event {
            time,
            times,
            name,
            level,
            body,
        });
    }

    /// Takes the events that another worker found.
    pub(crate) fn add(&mut self, more: Events) {
        self.count += more.count;
        let mut all = std::mem::take(&mut self.list);
        all.extend(more.list);
        all.sort_by_key(|event| event.time);
        all.into_iter().for_each(|event| self.keep(event));
    }

    fn keep(&mut self, event: Event) {
        if let Some(known) = self.list.iter_mut().find(|known| known.name == event.name) {
            known.times += event.times;
            return;
        }
        if self.list.len() == MAX_NAMES {
            let lowest = self.list.iter().map(|event| event.level).min();
            if lowest.is_none_or(|lowest| lowest >= event.level) {
                return;
            }
            let last = self
                .list
                .iter()
                .rposition(|event| Some(event.level) == lowest);
            last.map(|at| self.list.remove(at));
        }
        self.list.push(event);
    }

    /// `events  +1.2 ms app::retry (warning) n=0 × 6 · 5 more`, for people, with times since `begin`.
    /// `None`: there is none.
    pub(crate) fn line(&self, info: &TraceInfo, begin: Ticks) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        for event in &self.list {
            let Some(note) = event.note() else { continue };
            let since = info.clock.nanos(event.time.since(begin)).0;
            let words = note.words(info).to_string();
            let times = match event.times {
                1 => String::new(),
                times => format!(" \u{d7} {}", ui::count(times)),
            };
            all.push(format!(
                "+{} {}{times}",
                ui::duration(since),
                shorten(&words)
            ));
        }
        let shown: u64 = self.list.iter().map(|event| event.times).sum();
        let more = self.count - shown;
        if more > 0 {
            all.push(format!("{} more", ui::count(more)));
        }
        (!all.is_empty()).then(|| format!("events  {}", all.join(" \u{b7} ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(name: u32, level: u8, form: Form) -> Vec<u8> {
        let note = Note::Event {
            name,
            form: form as u8,
            level,
            span: 0,
            fields: Vec::new(),
        };
        note.encode().expect("a body")
    }

    #[test]
    fn first_events_and_higher_levels_are_kept() {
        let mut events = Events::default();
        let names = |events: &Events| -> Vec<u64> {
            events.list.iter().map(|event| event.time.0).collect()
        };
        let take = |events: &mut Events, at: u64, level, form| {
            events.take(Ticks(at), NoteKind::Event, &body(at as u32, level, form));
        };
        for at in 1..=6 {
            take(&mut events, at, 3, Form::Instant);
        }
        take(&mut events, 2, 3, Form::Instant);
        assert_eq!((names(&events), events.count), (vec![1, 2, 3, 4], 7));
        assert_eq!((events.list[0].times, events.list[1].times), (1, 2));
        take(&mut events, 7, 5, Form::Instant);
        take(&mut events, 8, 4, Form::Instant);
        take(&mut events, 9, 2, Form::Instant);
        assert_eq!((names(&events), events.count), (vec![1, 2, 7, 8], 10));
        // Values of counters and fields of spans are no events, and neither is what cannot be read.
        take(&mut events, 10, 5, Form::Counter);
        take(&mut events, 10, 5, Form::Begin);
        events.take(Ticks(10), NoteKind::Event, &[1, 2]);
        events.take(Ticks(10), NoteKind::Task, &body(1, 5, Form::Instant));
        assert_eq!(events.count, 10);
    }
}
