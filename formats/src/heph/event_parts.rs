//! An event that is being written, with the `fdr:more` events in which it goes on.
//!
//! An event that does not fit `MAX_EVENT` bytes goes on in events `fdr:more`, directly behind it. These are on the
//! stream of facts, and each has a microsecond of its own. Heph's own converter may not end if events of a substream
//! share a microsecond; `rows` has the rest.

use super::facts::{self, FACTS};
use super::record::{EventPacket, EventPosition, number_size, text_size};
use crate::escaped::{escape, plain};
use crate::text::cut;

/// Nanoseconds from one fact to the next.
const TIME_STEP: u64 = 1000;
/// A text goes on in the next packet if fewer bytes than this are left.
const MIN_TEXT: usize = 16;

/// The times of the events on the stream of facts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FactPlaces {
    /// Number of the next one.
    pub(super) counter: u32,
    /// The next event is not before this time, in ns.
    free: u64,
    /// Texts that were escaped.
    pub(super) escaped: u64,
}

impl FactPlaces {
    /// The place of the next fact, not before `earliest`.
    pub(super) fn next(&mut self, earliest: u64) -> EventPosition {
        let (counter, time) = (self.counter, self.free.max(earliest));
        self.counter = counter.wrapping_add(1);
        self.free = time.saturating_add(TIME_STEP);
        EventPosition {
            stream: FACTS,
            counter,
            substream: 0,
            start: time,
            end: time,
        }
    }
}

/// An event and its `fdr:more` events, under construction. Its methods are calls, because ordinary calls of the
/// program do not use it.
pub(super) struct Parts<'a> {
    packet: EventPacket<'a>,
    /// The name of the event for `fdr:more` events.
    event: u64,
    time: u64,
    places: &'a mut FactPlaces,
}

impl<'a> Parts<'a> {
    /// Begins an event with that description.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        place: EventPosition,
        description: &str,
        places: &'a mut FactPlaces,
    ) -> Parts<'a> {
        Parts {
            packet: EventPacket::begin(out, place, description),
            event: facts::event_key(place.stream, place.counter),
            time: place.end,
            places,
        }
    }

    /// Begins a fact: an event on the stream of facts.
    pub(super) fn fact(
        out: &'a mut Vec<u8>,
        earliest: u64,
        description: &str,
        places: &'a mut FactPlaces,
    ) -> Parts<'a> {
        let place = places.next(earliest);
        Parts::begin(out, place, description, places)
    }

    /// Begins an `fdr:more` event, which takes the next attributes.
    #[inline(never)]
    pub(super) fn go_on(&mut self) {
        let place = self.places.next(self.time);
        self.packet.next(place, facts::MORE);
        self.packet.number("of", self.event);
    }

    fn make_room(&mut self, size: usize) {
        if self.packet.room() < size {
            self.go_on();
        }
    }

    #[inline(never)]
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.make_room(number_size(name));
        self.packet.number(name, value);
    }

    #[inline(never)]
    pub(super) fn signed(&mut self, name: &str, value: i64) {
        self.make_room(number_size(name));
        self.packet.signed(name, value);
    }

    #[inline(never)]
    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.make_room(number_size(name));
        self.packet.float(name, value);
    }

    /// A number, if there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, name: &str, value: u64) {
        self.optional(name, (value > 0).then_some(value));
    }

    /// A text of any length: as many attributes of the name as it needs; one attribute if it is empty.
    #[inline(never)]
    pub(super) fn text(&mut self, name: &str, value: &str) {
        let mut rest = value;
        loop {
            self.make_room(text_size(name, rest.len().min(MIN_TEXT)));
            let room = self.packet.text_room(name);
            let (part, behind) = rest.split_at(cut(rest, room).len());
            self.packet.text(name, part);
            rest = behind;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Some texts that say something. If one of them would break JSON, all are escaped.
    pub(super) fn names(&mut self, names: &[(&str, &str)]) {
        let escapes = self.escapes(names.iter().map(|&(_, value)| value));
        for &(name, value) in names.iter().filter(|(_, value)| !value.is_empty()) {
            match escapes {
                true => self.text(name, &escape(value.as_bytes())),
                false => self.text(name, value),
            }
        }
    }

    /// Says whether the texts that follow are escaped: one of them would break JSON.
    pub(super) fn escapes<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> bool {
        let escaped = texts.filter(|text| !text.chars().all(plain)).count() as u64;
        if escaped > 0 {
            self.places.escaped += escaped;
            self.number(facts::ESCAPED, 1);
        }
        escaped > 0
    }

    /// An array of any length. It goes into the current packet, however long the packet becomes.
    pub(super) fn numbers(&mut self, name: &str, values: &[u64]) {
        self.packet.numbers(name, values);
    }

    /// Bytes of a text of this name that the current packet can take.
    pub(super) fn text_room(&self, name: &str) -> usize {
        self.packet.text_room(name)
    }

    pub(super) fn end(self) {
        self.packet.end();
    }
}
