//! A note: what a program reports beside its calls, as the words of a custom event. This file must never look into a
//! body: the caller has put the fields there (`fdr_formats::notes`, which also lists the kinds of notes).
//!
//! A note is no record of a call, and no count includes it. The same is true of a summary of short calls. So `recorded
//! = readable + overwritten + dropped + summarised` counts edges of calls. A note that can't be written counts as one
//! dropped record, because then the trace lacks something that the program asked for.

use fdr_formats::notes::MAX_BYTES;

use crate::ring::layout::CHUNK;
use crate::ring::record::{self, EVENT, EVENT_HEAD, PREAMBLE, SINGLE};

/// The largest note. Behind a chunk's preamble there may be an event of the recorder.
pub(super) const MAX_NOTE: u64 = {
    let (most, room) = (
        EVENT_HEAD + MAX_BYTES as u64,
        CHUNK as u64 - PREAMBLE - EVENT,
    );
    if most < room { most } else { room }
};

/// A note, ready to be written.
#[derive(Clone, Copy)]
pub(crate) struct Note<'a> {
    pub(super) kind: u8,
    body: &'a [u64],
}

impl<'a> Note<'a> {
    /// The body has the fields of `fdr_formats::notes`, as little-endian words.
    pub(super) fn new(kind: u8, body: &'a [u64]) -> Note<'a> {
        Note { kind, body }
    }

    /// The first number of the body. In a note of arguments, it is the function of their call.
    pub(super) fn first_number(&self) -> Option<u32> {
        self.body.first().map(|word| *word as u32)
    }

    pub(super) fn body(&self) -> &'a [u64] {
        self.body
    }

    /// Bytes of the custom event, with everything that belongs to it.
    pub(super) fn length(&self) -> u64 {
        EVENT_HEAD + SINGLE * (self.body.len() + self.filler().len()) as u64
    }

    /// The words of the custom event.
    pub(super) fn words(self, ticks: u64) -> impl Iterator<Item = u64> + use<'a> {
        let body = self.length() - EVENT_HEAD;
        let head = record::event_head(ticks, self.kind, body);
        let body = self.body.iter().chain(self.filler()).copied();
        head.into_iter().chain(body)
    }

    /// A word behind a body that ends with zeros. Readers take zeros at the end of a chunk for damage, and ignore what
    /// is behind the fields of a note.
    fn filler(&self) -> &'static [u64] {
        match self.body.last_chunk() {
            Some([0, 0]) => &[u64::MAX],
            _ => &[],
        }
    }
}
