//! The events of one moment of a thread, and the event before and after them, of chosen names.

use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{Call, Mark, Sink};
use foldhash::HashSet;
use serde::Serialize;

use super::index::Sign;
use super::viewed::ViewedTrace;
use crate::trace;

/// Events of one moment that are told.
const MAX_EVENTS: usize = 100;

/// Where an event is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Place {
    thread: usize,
    time: f64,
}

/// The events of a moment, with their values in words, and their neighbours in time.
#[derive(Debug, Serialize)]
pub(super) struct Events {
    events: Vec<String>,
    previous: Option<Place>,
    next: Option<Place>,
}

/// Takes the events of a moment.
struct Collector<'a> {
    viewed: &'a ViewedTrace,
    time: u64,
    found: Vec<String>,
}

impl Sink for Collector<'_> {
    fn calls(&mut self, _: &[Call]) {}

    fn mark(&mut self, mark: &Mark<'_>) {
        let Mark::Note { time, kind, body } = *mark else {
            return;
        };
        if time.0 != self.time || kind != NoteKind::Event || self.found.len() >= MAX_EVENTS {
            return;
        }
        if let Some(note) = Note::decode(kind, body) {
            let words = note.words(self.viewed.info()).to_string();
            self.found.push(words);
        }
    }
}

/// The events of a thread at a moment. `names`: of which events the neighbours are; none: of all.
///
/// # Errors
/// If the trace can't be read.
pub(super) fn at(
    viewed: &ViewedTrace,
    thread: usize,
    time: u64,
    names: &HashSet<u32>,
) -> anyhow::Result<Events> {
    viewed.wait();
    let mut collector = Collector {
        viewed,
        time,
        found: Vec::new(),
    };
    let read = viewed.read(thread, (time, time), &mut collector);
    read.map_err(|error| trace::about(&viewed.path, error))?;
    let is_meant = |sign: &Sign| match sign {
        Sign::Event { name } => names.is_empty() || names.contains(name),
        Sign::Gap { .. } | Sign::Break => false,
    };
    let (mut previous, mut next) = (None, None);
    for (nth, line) in viewed.index.lines().enumerate() {
        let times = line
            .signs
            .iter()
            .filter(|(_, sign)| is_meant(sign))
            .map(|(time, _)| (*time, nth));
        for at in times {
            if at < (time, thread) {
                previous = previous.max(Some(at));
            } else if at > (time, thread) {
                next = Some(next.map_or(at, |known: (u64, usize)| known.min(at)));
                // Those behind are later.
                break;
            }
        }
    }
    let place = |(time, thread): (u64, usize)| Place {
        thread,
        time: viewed.relative(time),
    };
    Ok(Events {
        events: collector.found,
        previous: previous.map(place),
        next: next.map(place),
    })
}
