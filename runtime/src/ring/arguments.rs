//! The arguments of open calls whose entry has no record in the ring yet, beside their frames. They are notes that wait
//! until their call is published, and are forgotten if it turns out to be short. Async-signal-safe. This file must never
//! look at the fields of a note, except for the function and the place of its first field.
//!
//! The notes lie one behind the other, the outermost call's first. Each is a head, the tick of its call's entry, and the
//! body (`fdr_formats::ring::arguments` has the bytes). A note belongs to the open call with the same index, function
//! and tick. All others are of calls that have ended. The next note of the thread takes their place.
//!
//! The word `arguments` says how much is used. It also counts its changes. So a reader that finds the same word before
//! and after a copy knows that no note changed. The owner writes a note before it counts as used.

use fdr_formats::notes;
use fdr_formats::ring::arguments::{HEAD, LENGTH_BITS};

use super::layout::{ARGUMENTS, Frame, OpenCalls};
use crate::primitive::{AtomicU64, Ordering, fence};

/// Added to the word at each change.
const CHANGE: u64 = 1 << 32;
/// Where the last note begins, in the word.
const LAST_AT: u32 = 16;
/// Words of the head and the tick.
const WORDS_BEFORE: usize = HEAD / 8;

/// A note that waits.
struct Waiting<'a> {
    at: usize,
    ticks: u64,
    /// Where the note before it begins.
    before: usize,
    body: &'a [u64],
}

impl Waiting<'_> {
    fn function(&self) -> u32 {
        self.body.first().map_or(0, |word| *word as u32)
    }

    /// Whether its first field is no argument. A call has one such note, its last.
    fn is_result(&self) -> bool {
        let field = self.body.get(1).map_or(0, |word| word.to_le_bytes()[5]);
        field >= notes::ERROR
    }
}

impl OpenCalls {
    /// Whether notes may wait. A load and a comparison.
    #[inline]
    pub(crate) fn has_arguments(&self) -> bool {
        self.used().0 > 0
    }

    /// No note waits any more: all calls were published.
    pub(crate) fn forget_arguments(&self) {
        self.set_used(0, 0);
    }

    /// Lets a note of the innermost open call wait, whose index is `at`. False: there is no room.
    pub(crate) fn keep_arguments(&self, at: usize, frame: &Frame, body: &[u64]) -> bool {
        let ticks = frame.ticks.load(Ordering::Relaxed);
        let new = Waiting {
            at,
            ticks,
            before: 0,
            body,
        };
        let (mut used, mut last) = self.used();
        while let Some(old) = self.waiting(last, used) {
            // The arguments come first. Whatever waits for this call by then is of an earlier one.
            let is_same_call = old.at == at
                && old.ticks == ticks
                && old.function() == new.function()
                && new.is_result()
                && !old.is_result();
            if old.at < at || is_same_call {
                break;
            }
            (used, last) = (last, old.before);
        }
        let after = used + WORDS_BEFORE + body.len();
        let Some(place) = self.arguments_words.get(used..after) else {
            return false;
        };
        if at >= 1 << LENGTH_BITS {
            return false;
        }
        self.set_used(used, last);
        // Release: pairs with the Acquire of readers. A reader that sees a new word sees that `arguments` has changed.
        fence(Ordering::Release);
        let head =
            body.len() as u64 | (at as u64) << LENGTH_BITS | (last as u64) << (2 * LENGTH_BITS);
        let words = [head, ticks].into_iter().chain(body.iter().copied());
        for (place, word) in place.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.set_used(after, used);
        true
    }

    /// The bodies of the notes of the open call with that index: its arguments, and its result.
    pub(crate) fn arguments_of(&self, at: usize, frame: &Frame) -> [Option<&[u64]>; 2] {
        let function = frame.word.load(Ordering::Relaxed) >> 4;
        let ticks = frame.ticks.load(Ordering::Relaxed);
        let (mut used, mut last) = self.used();
        let mut found = [None; 2];
        while let Some(note) = self.waiting(last, used) {
            if note.at < at {
                break;
            }
            if note.at == at && note.ticks == ticks && note.function() == function {
                found[usize::from(note.is_result())] = Some(note.body);
            }
            (used, last) = (last, note.before);
        }
        found
    }

    /// The note that begins at `from` and ends at `to`, for the owner. `None`: no note is there.
    fn waiting(&self, from: usize, to: usize) -> Option<Waiting<'_>> {
        let words = self.arguments_words.get(from..to)?;
        let (before, body) = words.split_at_checked(WORDS_BEFORE)?;
        let [head, ticks] =
            [before.first()?, before.get(1)?].map(|word| word.load(Ordering::Relaxed));
        // SAFETY: atomics have the layout of their numbers. Only the calling thread writes them, and it does so in
        // `keep_arguments` alone, which returns before these words are read again.
        let body = unsafe { core::slice::from_raw_parts(body.as_ptr().cast::<u64>(), body.len()) };
        Some(Waiting {
            at: (head >> LENGTH_BITS) as usize & ((1 << LENGTH_BITS) - 1),
            ticks,
            before: (head >> (2 * LENGTH_BITS)) as usize & ((1 << LENGTH_BITS) - 1),
            body,
        })
    }

    /// How many words are used, and where the last note begins.
    #[inline]
    fn used(&self) -> (usize, usize) {
        let word = self.arguments.load(Ordering::Relaxed);
        let used = word as u16;
        (usize::from(used), usize::from((word >> LAST_AT) as u16))
    }

    fn set_used(&self, used: usize, last: usize) {
        let before = self.arguments.load(Ordering::Relaxed);
        let changes = (before & !(CHANGE - 1)).wrapping_add(CHANGE);
        // Release: pairs with the Acquire of readers. A reader that sees a note as used sees its words.
        let word = changes | (last as u64) << LAST_AT | used as u64;
        self.arguments.store(word, Ordering::Release);
    }
}

const _: () = assert!(ARGUMENTS < 1 << LENGTH_BITS && size_of::<AtomicU64>() == 8);
