//! The open calls of a thread whose short calls leave no records, as records that a chunk could hold. The code that
//! copies a ring appends them to the newest chunk. Pure.
//!
//! A call whose entry is not in a chunk gives a `NewCPUId` or `TSCWrap` with the tick of its entry, and then the entry.
//! Each call also gives a summary of its short calls.
//!
//! The word of counts holds three counts, which change in one step. Bits 0 to 7: the number of open calls. Bits 8 to
//! 15: how many of these have their entry in a chunk. The other bits: the number of calls that left no records. If
//! calls take 20 ns each, 2^48 calls take 65 days.
//!
//! A record that is published for a frame changes two places: the cursor, and the open calls. So the thread first
//! stores the next value of the cursor, and the state of the open calls that holds from that value on.

use core::mem::offset_of;

use super::arguments;
use super::layout::{self, ARGUMENTS, FRAME_SIZE, FRAMES};
use crate::bytes::{ByteOrder, Fields};
#[cfg(feature = "read")]
use crate::model::{FunctionId, Ticks};
use crate::notes::NoteKind;
use crate::xray::payload;
use crate::xray::record::{Layout, METADATA_SIZE, Record, RecordTime, encode_metadata};

const RING: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

/// Bits of a CPU's number, as a clock gave it.
const CPU_MASK: u32 = 0xfff;

/// The most bytes of [`OpenCalls::records`]: for each frame an entry with its tick, and a summary. The
/// notes have a larger head than in the area, and a word behind zeros.
pub const MAX_BYTES: usize =
    FRAMES * (METADATA_SIZE + 8 + METADATA_SIZE + 24) + 2 * (ARGUMENTS + 1) * 8;

/// The open calls of a slot, copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCalls<'a> {
    /// How many are open.
    depth: usize,
    /// How many of them, from the outermost on, have their entry in a chunk.
    published: usize,
    /// Calls that left no records.
    pub summarised: u64,
    /// Ticks of the shortest call that leaves records; 0: every call does.
    pub threshold: u64,
    /// The index of a frame, and the number and ticks of its calls without records. These replace the numbers in the
    /// frame itself.
    left: Option<(usize, u64, u64)>,
    frames: &'a [u8],
    /// The notes of arguments that wait.
    arguments: &'a [u8],
}

/// The word of counts, taken apart.
struct Counts {
    depth: usize,
    published: usize,
    summarised: u64,
}

fn counts(word: u64) -> Counts {
    Counts {
        depth: word as usize & 0xff,
        published: (word >> 8) as usize & 0xff,
        summarised: word >> 16,
    }
}

/// A call that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    word: u32,
    cpu: u32,
    ticks: u64,
    short_calls: u64,
    short_ticks: u64,
    #[cfg(feature = "read")]
    inside: u64,
}

/// A call that has not ended.
#[cfg(feature = "read")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Of what.
    pub function: FunctionId,
    /// When it was entered.
    pub entered: Ticks,
    /// The time of the ended calls inside.
    pub inside: Ticks,
}

impl<'a> OpenCalls<'a> {
    /// Decodes a copy of [`OPEN_CALLS_SIZE`](layout::OPEN_CALLS_SIZE) bytes, made when the slot's cursor had
    /// that value. `None`: it is damaged, or cut. Async-signal-safe.
    #[must_use]
    pub fn decode(bytes: &'a [u8], cursor: u64) -> Option<OpenCalls<'a>> {
        let word = |at: usize| {
            let word = bytes.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*word))
        };
        let (mut counts, next) = (
            counts(word(offset_of!(layout::OpenCalls, open))?),
            word(offset_of!(layout::OpenCalls, next))?,
        );
        let mut left = None;
        if cursor != 0 && word(offset_of!(layout::OpenCalls, publishing))? == cursor {
            counts.published = next as usize & 0xff;
            left = Some((
                (next >> 8) as usize & 0xff,
                word(offset_of!(layout::OpenCalls, next_calls))?,
                word(offset_of!(layout::OpenCalls, next_ticks))?,
            ));
        }
        let Counts {
            depth, published, ..
        } = counts;
        let frames = offset_of!(layout::OpenCalls, frames);
        let frames = bytes.get(frames..frames + (depth + 1) * FRAME_SIZE);
        let area = bytes
            .get(offset_of!(layout::OpenCalls, arguments_words)..)
            .unwrap_or_default();
        let used = word(offset_of!(layout::OpenCalls, arguments));
        let used = used.map_or(0, |word| arguments::used(word, area.len()));
        (depth < FRAMES && published <= depth).then_some(OpenCalls {
            depth,
            published,
            summarised: counts.summarised,
            threshold: word(offset_of!(layout::OpenCalls, threshold))?,
            left,
            frames: frames?,
            arguments: area.get(..used).unwrap_or_default(),
        })
    }

    /// How many open calls have no entry in a chunk. Async-signal-safe.
    #[must_use]
    pub fn unpublished(&self) -> usize {
        self.depth - self.published
    }

    /// The calls that were entered before the tick `first`. Chunks that begin at that tick do not have their entries.
    /// Gives the function and the tick of each entry, from the outermost call to the innermost. Async-signal-safe.
    pub fn early(
        &self,
        first: u64,
    ) -> impl DoubleEndedIterator<Item = (u32, u64)> + ExactSizeIterator + Clone + use<'a> {
        let Self {
            frames, published, ..
        } = *self;
        let entry = move |at: usize| {
            let mut fields = Fields::new(frames.get(at * FRAME_SIZE..)?, ByteOrder::Little);
            let (word, _cpu) = (fields.u32()?, fields.u32()?);
            Some((word >> 4, fields.u64()?))
        };
        let is_early = |at: &usize| entry(*at).is_some_and(|(_, ticks)| ticks < first);
        let count = (1..=published).take_while(is_early).count();
        (1..count + 1).map(move |at| entry(at).unwrap_or_default())
    }

    #[cfg(feature = "read")]
    /// Only the calls that were the same in a later copy of the same slot. Async-signal-safe.
    #[must_use]
    pub fn lasting(self, later: &OpenCalls<'_>) -> OpenCalls<'a> {
        let both = self.depth.min(later.depth);
        let arguments = arguments::common(self.arguments, later.arguments);
        let is_same = |&at: &usize| {
            let (Some(one), Some(other)) = (self.frame(at), later.frame(at)) else {
                return false;
            };
            // Once the entry of an open call is in a chunk, the call's notes are no longer here. The frames show that,
            // too, unless the thread published the call while the later copy was made.
            let notes = |area| notes_of(area, at, &one).count();
            (one.word, one.ticks) == (other.word, other.ticks)
                && notes(self.arguments) == notes(arguments)
        };
        let depth = (1..=both).take_while(is_same).count();
        OpenCalls {
            depth,
            published: self.published.max(later.published).min(depth),
            summarised: later.summarised,
            left: later.left.or(self.left),
            arguments,
            ..self
        }
    }

    #[cfg(feature = "read")]
    /// The calls, the outermost first.
    pub fn calls(&self) -> impl Iterator<Item = OpenCall> {
        let frames = (1..=self.depth).filter_map(|at| self.frame(at));
        frames.map(|frame| OpenCall {
            function: FunctionId(frame.word >> 4),
            entered: Ticks(frame.ticks),
            inside: Ticks(frame.inside),
        })
    }

    /// Passes on the records of the calls that have no entry in a chunk. `last` is the tick of the thread's last
    /// record. `is_exact`: the thread published nothing while the calls were copied, so no copied record already
    /// contains their counts of short calls. Async-signal-safe.
    pub fn records(&self, last: u64, is_exact: bool, mut put: impl FnMut(&[u8])) {
        let (mut last, mut known) = (last, None);
        for at in self.published..=self.depth {
            let Some(frame) = self.frame(at) else { return };
            if at > self.published {
                last = last.max(frame.ticks);
                let cpu = (frame.cpu & CPU_MASK) as u16;
                let time = match known.replace(cpu) == Some(cpu) {
                    true => Record::TscWrap { tsc: last },
                    false => Record::NewCpu { cpu, tsc: last },
                };
                put(&encode_metadata(&time, RING));
                put(&u64::from(frame.word & !1).to_le_bytes());
                let notes = notes_of(self.arguments, at, &frame);
                notes.for_each(|note| put_note(note.body, last, &mut put));
            }
            if is_exact && frame.short_calls > 0 {
                // The short calls had ended when the next call began. Without a next call, they had ended at the moment
                // of the copy.
                let next = self.frame(at + 1).filter(|_| at < self.depth);
                let until =
                    next.map_or_else(|| last.saturating_add(frame.short_ticks), |next| next.ticks);
                summary(&frame, until, &mut put);
            }
        }
    }

    fn frame(&self, at: usize) -> Option<Frame> {
        let bytes = self.frames.get(at * FRAME_SIZE..)?;
        let mut fields = Fields::new(bytes, ByteOrder::Little);
        let mut frame = Frame {
            word: fields.u32()?,
            cpu: fields.u32()?,
            ticks: fields.u64()?,
            short_calls: fields.u64()?,
            short_ticks: fields.u64()?,
            #[cfg(feature = "read")]
            inside: fields.u64()?,
        };
        if let Some((_, calls, ticks)) = self.left.filter(|(left, ..)| *left == at) {
            (frame.short_calls, frame.short_ticks) = (calls, ticks);
        }
        Some(frame)
    }
}

/// The notes of the open call with that index.
fn notes_of<'a>(
    area: &'a [u8],
    at: usize,
    frame: &Frame,
) -> impl Iterator<Item = arguments::Waiting<'a>> {
    let Frame { word, ticks, .. } = *frame;
    let is_its_own = move |note: &arguments::Waiting<'_>| {
        note.at == at && note.ticks == ticks && note.function == word >> 4
    };
    arguments::notes(area).filter(is_its_own)
}

/// A note of arguments. As the recorder, it lets no note end with two words of zeros.
fn put_note(body: &[u8], tick: u64, put: &mut impl FnMut(&[u8])) {
    let filler: &[u8] = match body.ends_with(&[0; 16]) {
        true => &[0xff; 8],
        false => &[],
    };
    let event = Record::Custom {
        size: (8 + body.len() + filler.len()) as i32,
        when: RecordTime::Absolute(tick),
        cpu: None,
    };
    put(&encode_metadata(&event, RING));
    put(&payload::head(NoteKind::Arguments as u8));
    put(body);
    put(filler);
}

/// The summary of a call's short calls.
fn summary(frame: &Frame, until: u64, put: &mut impl FnMut(&[u8])) {
    let (words, count) = payload::summary_words(frame.short_calls, frame.short_ticks);
    let event = Record::Custom {
        size: 8 + 8 * count as i32,
        when: RecordTime::Absolute(until),
        cpu: None,
    };
    put(&encode_metadata(&event, RING));
    put(&payload::head(payload::SHORT_CALLS));
    let body = words.iter().take(count);
    body.for_each(|word| put(&word.to_le_bytes()));
}
