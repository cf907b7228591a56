//! An event in as many packets as it needs: what does not fit [`MAX_EVENT`] bytes stands in further
//! events, `fdr:more`, right behind it. Those are on the stream of facts, where each event has a
//! microsecond of its own, because Heph's own converter may not end where events of a stream share one.
//! Must never put a letter into two packets: that converter wants each text to be UTF-8.

use super::encode::{EventPacket, Place, number_size, text_size};
use super::facts::{self, FACTS};
use crate::text::cut;

/// Nanoseconds from one fact to the next.
const STEP: u64 = 1000;
/// A text goes on in the next packet rather than be cut to fewer bytes than this.
const LEAST_TEXT: usize = 16;

/// Where the events on the stream of facts stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FactPlaces {
    /// Number of the next one.
    pub(super) counter: u32,
    /// The next one is not before this time, in ns.
    free: u64,
}

impl FactPlaces {
    /// The place of the next fact, not before `earliest`.
    pub(super) fn next(&mut self, earliest: u64) -> Place {
        let (counter, time) = (self.counter, self.free.max(earliest));
        self.counter = counter.wrapping_add(1);
        self.free = time.saturating_add(STEP);
        Place {
            stream: FACTS,
            counter,
            substream: 0,
            start: time,
            end: time,
        }
    }
}

/// An event and the further ones that it needs, under construction.
pub(super) struct Parts<'a> {
    packet: EventPacket<'a>,
    /// The event, as the further ones name it.
    event: u64,
    time: u64,
    places: &'a mut FactPlaces,
}

impl<'a> Parts<'a> {
    /// Begins an event with that description.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        place: Place,
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

    /// Begins a further event: what follows stands in it.
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

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.make_room(number_size(name));
        self.packet.number(name, value);
    }

    pub(super) fn signed(&mut self, name: &str, value: i64) {
        self.make_room(number_size(name));
        self.packet.signed(name, value);
    }

    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.make_room(number_size(name));
        self.packet.float(name, value);
    }

    /// A number, where there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, name: &str, value: u64) {
        self.optional(name, (value > 0).then_some(value));
    }

    /// A text of any length: as many attributes of the name as it needs, one of them where it is empty.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        let mut rest = value;
        loop {
            self.make_room(text_size(name, rest.len().min(LEAST_TEXT)));
            let room = self.packet.text_room(name);
            let (part, behind) = rest.split_at(cut(rest, room).len());
            self.packet.text(name, part);
            rest = behind;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// A text that says something.
    pub(super) fn name(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    /// An array of any length; it goes into the packet at hand, however long that becomes.
    pub(super) fn numbers(&mut self, name: &str, values: &[u64]) {
        self.packet.numbers(name, values);
    }

    /// Bytes of a text of this name that the packet at hand takes.
    pub(super) fn text_room(&self, name: &str) -> usize {
        self.packet.text_room(name)
    }

    pub(super) fn end(self) {
        self.packet.end();
    }
}
