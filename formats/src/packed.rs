//! Calls in 8 bytes each, for sinks that get a hundred million of them: a function, an edge, and the ticks since the
//! previous call. They are XRay's own records, so a reader of such a file hands them over without a copy. Knows no
//! file.
//!
//! A little-endian number:
//!
//! | bits | field |
//! | --- | --- |
//! | 0 | 0 |
//! | 1 to 2 | 0 entered, 1 left, 2 left by a tail call, 3 entered with arguments |
//! | 3 | 0 |
//! | 4 to 31 | function |
//! | 32 to 63 | ticks since the call before |

use crate::bytes::{Groups, groups};
use crate::model::{Call, Edge, FunctionId, Ticks};

/// Bytes of a call.
pub const WORD: usize = 8;

/// A call's bytes.
pub type Word = [u8; WORD];

/// Bits that are 0 in each call.
const NO_CALL: u64 = 0b1001;
/// Left by a tail call, or entered with arguments.
const ODD_EDGE: u64 = 0b100;
/// The number of words that are checked together. With fewer words, the compiler does not vectorise the loop.
const GROUP: usize = 64;
/// Calls that are unpacked at once.
const UNPACKED: usize = 128;

/// Some calls of one thread, in order.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// The first call's ticks are counted from here.
    pub base: Ticks,
    words: Groups<'a, WORD>,
    /// All bits that any of the words has, and maybe others.
    bits: u64,
}

/// One call. Its time is counted from the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedCall(u64);

const _: () = assert!(size_of::<PackedCall>() == size_of::<Word>());

/// The edge for each value of a record's action. Packed calls and XRay's records share this table.
pub(crate) const EDGES: [Edge; 4] = [Edge::Entry, Edge::Exit, Edge::TailExit, Edge::Entry];
/// Entered with arguments.
const WITH_ARGUMENTS: usize = 3;

impl PackedCall {
    #[inline(always)]
    fn from_word(word: Word) -> PackedCall {
        PackedCall(u64::from_le_bytes(word))
    }

    /// Ticks since the previous call.
    #[inline(always)]
    #[must_use]
    pub fn delta(self) -> u64 {
        self.0 >> 32
    }

    /// Which function.
    #[inline(always)]
    #[must_use]
    pub fn function(self) -> FunctionId {
        FunctionId(self.0 as u32 >> 4)
    }

    /// All ones if the function was left, else 0.
    #[inline(always)]
    #[must_use]
    pub fn left(self) -> u64 {
        mask(self.0 ^ self.0 << 1, 2)
    }

    /// As [`PackedCall::left`], for calls of which none is [odd](Packed::has_odd_edges).
    #[inline(always)]
    #[must_use]
    pub fn plainly_left(self) -> u64 {
        mask(self.0, 1)
    }

    /// The call at that time.
    #[inline(always)]
    #[must_use]
    pub fn at(self, time: Ticks) -> Call {
        let action = (self.0 >> 1) as usize & 3;
        Call {
            time,
            function: self.function(),
            edge: EDGES[action],
            synthetic: false,
            has_arguments: action == WITH_ARGUMENTS,
        }
    }
}

/// All ones if that bit is set, else 0.
#[inline(always)]
fn mask(bits: u64, bit: u32) -> u64 {
    ((bits << (63 - bit)) as i64 >> 63) as u64
}

impl<'a> Packed<'a> {
    /// The longest run of words, of 8 bytes each, that are calls. Also the ticks from `base` to the last
    /// of them.
    #[inline]
    #[must_use]
    pub fn new(base: Ticks, words: &'a [u8]) -> (Packed<'a>, u64) {
        let words = Groups::new(words);
        let (mut count, mut ticks, mut bits) = (0, 0_u64, 0);
        for group in words.bytes().chunks_exact(GROUP * WORD) {
            let calls = || groups(group).map(PackedCall::from_word);
            let some = calls().fold(0, |bits, call| bits | call.0);
            if some & NO_CALL != 0 {
                break;
            }
            count += GROUP;
            bits |= some;
            // The sum of 32-bit numbers fits.
            ticks = ticks.wrapping_add(calls().map(PackedCall::delta).sum());
        }
        for call in words.behind(count).iter().map(PackedCall::from_word) {
            if call.0 & NO_CALL != 0 {
                break;
            }
            count += 1;
            bits |= call.0;
            ticks = ticks.wrapping_add(call.delta());
        }
        let words = words.first(count);
        (Packed { base, words, bits }, ticks)
    }

    /// Whether a call may have been left by a tail call, or entered with arguments.
    #[must_use]
    pub fn has_odd_edges(&self) -> bool {
        self.bits & ODD_EDGE != 0
    }

    /// A number that no function exceeds.
    #[must_use]
    pub fn highest_function(&self) -> FunctionId {
        PackedCall(self.bits).function()
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.len() == 0
    }

    /// The calls.
    #[inline(always)]
    pub fn calls(&self) -> impl ExactSizeIterator<Item = PackedCall> + 'a {
        self.words.iter().map(PackedCall::from_word)
    }

    /// The call at a place.
    #[must_use]
    pub fn get(&self, nth: usize) -> Option<PackedCall> {
        self.words.get(nth).map(PackedCall::from_word)
    }

    /// At most `most` of the calls, beginning with the call `from`. The base stays that of the first call, because
    /// the caller knows the times.
    #[must_use]
    pub fn part(&self, from: usize, most: usize) -> Packed<'a> {
        Packed {
            words: self.words.behind(from).first(most),
            ..*self
        }
    }

    /// The calls with their times, some at a time.
    #[inline]
    pub fn unpack(&self, mut take: impl FnMut(&[Call])) {
        let (mut calls, mut time) = ([Call::NONE; UNPACKED], self.base.0);
        for words in self.words.bytes().chunks(UNPACKED * WORD) {
            let words = Groups::new(words);
            for (call, word) in calls.iter_mut().zip(words.iter()) {
                let word = PackedCall::from_word(word);
                time = time.wrapping_add(word.delta());
                *call = word.at(Ticks(time));
            }
            take(calls.get(..words.len()).unwrap_or(&[]));
        }
    }

    /// The first call's time.
    #[must_use]
    pub fn first(&self) -> Option<Ticks> {
        let first = self.get(0)?;
        Some(Ticks(self.base.0.wrapping_add(first.delta())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [u64; 4] = [0x5_0000_0070, 0x0_0000_0072, 0x1_0000_0014, 0x2_0000_0026];

    #[test]
    fn a_word_is_a_call() {
        let words = WORDS.map(u64::to_le_bytes);
        let (packed, ticks) = Packed::new(Ticks(100), words.as_flattened());
        let mut calls = Vec::new();
        packed.unpack(|some| calls.extend_from_slice(some));
        let calls: Vec<_> = calls
            .iter()
            .map(|call| (call.time.0, call.function.0, call.edge, call.has_arguments))
            .collect();
        assert_eq!(
            calls,
            [
                (105, 7, Edge::Entry, false),
                (105, 7, Edge::Exit, false),
                (106, 1, Edge::TailExit, false),
                (108, 2, Edge::Entry, true),
            ]
        );
        let left: Vec<bool> = packed.calls().map(|call| call.left() == u64::MAX).collect();
        assert_eq!(left, [false, true, true, false]);
        assert!(
            packed
                .calls()
                .all(|call| call.left().count_ones() % 64 == 0)
        );
        assert_eq!((packed.first(), ticks), (Some(Ticks(105)), 8));
        assert!(packed.has_odd_edges() && packed.highest_function() >= FunctionId(7));
        let (plain, _) = Packed::new(Ticks(100), words[..2].as_flattened());
        let left: Vec<u64> = plain.calls().map(PackedCall::plainly_left).collect();
        assert_eq!((plain.has_odd_edges(), left), (false, vec![0, u64::MAX]));
        assert_eq!(plain.highest_function(), FunctionId(7));
    }

    #[test]
    fn calls_end_where_a_word_is_none() {
        for (count, bad) in (0..140).flat_map(|count| [1, 8, 9].map(|bad| (count, bad))) {
            let mut words: Vec<Word> = (0..count).map(|nth| WORDS[nth % 4].to_le_bytes()).collect();
            let whole = Packed::new(Ticks(0), words.as_flattened()).0.len();
            words.push((WORDS[0] | bad).to_le_bytes());
            words.extend([WORDS[0].to_le_bytes(); 20]);
            let (packed, ticks) = Packed::new(Ticks(0), words.as_flattened());
            let sum: u64 = packed.calls().map(PackedCall::delta).sum();
            assert_eq!((packed.len(), whole, ticks), (count, count, sum));
        }
    }

    #[test]
    fn many_calls_are_unpacked_in_order() {
        let words: Vec<Word> = (0..1000_u64)
            .map(|nth| (nth << 32 | (nth << 4)).to_le_bytes())
            .collect();
        let (packed, _) = Packed::new(Ticks(7), words.as_flattened());
        let (mut nth, mut time) = (0, 7);
        packed.unpack(|calls| {
            assert!(!calls.is_empty());
            for call in calls {
                time += nth;
                assert_eq!((call.time.0, u64::from(call.function.0)), (time, nth));
                nth += 1;
            }
        });
        assert_eq!(nth, 1000);
        let parts = [0, 300, 900, 1000, 1001].map(|from| packed.part(from, 300));
        assert_eq!(parts.map(|part| part.len()), [300, 300, 100, 0, 0]);
        assert_eq!(parts[1].get(0), packed.get(300));
    }
}
