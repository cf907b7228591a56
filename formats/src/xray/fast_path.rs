//! The fast path for ring chunks in which each exit ends the innermost call. These are nearly all chunks. No CPU can
//! predict whether an entry or an exit comes next, so both run the same instructions without a branch. All other
//! records go to `balance`.

use super::balance::{Memory, Stack};
use super::record::FUNCTION_SIZE;
use crate::bytes::{Groups, groups};

type Words<'a> = Groups<'a, FUNCTION_SIZE>;

/// Words that are taken one by one before the search for leaf calls begins again.
const SOME: usize = 64;

/// The words that the fast path has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordRun {
    /// Words, of a record each.
    pub(super) words: usize,
    /// The sum of their steps.
    pub(super) ticks: u64,
}

impl<M: Memory> Stack<M> {
    /// Takes records from the first on, as long as they are ordinary.
    #[inline]
    pub(super) fn take_ordinary(&mut self, words: Words<'_>) -> WordRun {
        let mut followed = WordRun::default();
        loop {
            self.take_leaves(words.behind(followed.words), &mut followed);
            let some = words.behind(followed.words).first(SOME);
            let before = followed.words;
            self.take_some(some, &mut followed);
            if followed.words - before < SOME {
                return followed;
            }
        }
    }

    /// Leaf calls, four at a time. They leave the stack as it is.
    #[inline]
    fn take_leaves(&mut self, words: Words<'_>, followed: &mut WordRun) {
        let before = followed.words;
        for four in groups::<{ 8 * FUNCTION_SIZE }>(words.bytes()) {
            let (mut odd, mut ticks) = (0, 0u64);
            for call in groups::<{ 2 * FUNCTION_SIZE }>(&four) {
                let call = u128::from_le_bytes(call);
                let (entry, exit) = (call as u64, (call >> 64) as u64);
                // Exits have 2 or 4 where entries have 0. Ids begin at 1 and have 28 bits.
                odd |= (entry as u32 ^ exit as u32).wrapping_sub(0b010) & !0b010;
                odd |= (entry as u32).rotate_right(4).wrapping_sub(1) >> 28;
                ticks = ticks.wrapping_add(entry >> 32).wrapping_add(exit >> 32);
            }
            if odd != 0 {
                break;
            }
            followed.ticks = followed.ticks.wrapping_add(ticks);
            followed.words += 8;
        }
        self.rule.entered((followed.words - before) / 2);
    }

    /// Any plain records, one at a time.
    #[inline(never)]
    fn take_some(&mut self, words: Words<'_>, followed: &mut WordRun) {
        let (open, used) = self.open.places();
        let (mut depth, mut taken, mut ticks) = (*used, 0, 0u64);
        for word in words.iter() {
            let word = u64::from_le_bytes(word);
            let id = word as u32 >> 4;
            let step = isize::from(STEPS[word as usize & 0b1111]);
            // Zero, or all ones for an exit.
            let exit = step >> 1;
            // The next call, or the innermost one. There may be no call, or no room.
            let Some(place) = open.get_mut(depth.wrapping_add_signed(exit)) else {
                break;
            };
            if step == 0 || (*place ^ id) & exit as u32 != 0 || id == 0 {
                break;
            }
            *place = id;
            depth = depth.wrapping_add_signed(step);
            ticks = ticks.wrapping_add(word >> 32);
            taken += 1;
        }
        // The open calls were entered, and so was half of the others.
        let entered = (taken + depth).wrapping_sub(*used) / 2;
        *used = depth;
        self.rule.entered(entered);
        followed.words += taken;
        followed.ticks = followed.ticks.wrapping_add(ticks);
    }
}

/// The growth of the stack at each kind of record, by its low four bits: an entry, an exit, an exit by a
/// tail call. Zero: another record.
const STEPS: [i8; 16] = {
    let mut steps = [0; 16];
    (steps[0b000], steps[0b010], steps[0b100]) = (1, -1, -1);
    steps
};

#[cfg(test)]
mod tests {
    use super::*;

    type Word = [u8; FUNCTION_SIZE];

    fn take_ordinary<M: Memory>(stack: &mut Stack<M>, words: &[Word]) -> WordRun {
        stack.take_ordinary(Words::new(words.as_flattened()))
    }

    /// The next of some numbers that look random.
    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *seed >> 33
    }

    /// Records of calls, most of which nest. `odd`: one record in this many may be anything.
    fn records(seed: &mut u64, odd: u64) -> Vec<Word> {
        let mut open = Vec::new();
        let deep = next(seed) % 100;
        let mut record = || {
            let ticks = next(seed) << 32;
            if next(seed) % odd == 0 {
                return ticks | (next(seed) & 0xff);
            }
            // Now and then a run of leaf calls.
            let grows = next(seed) % 100 < deep;
            match open.pop().filter(|_| !grows) {
                Some(id) => ticks | id << 4 | [0b010u64, 0b100][next(seed) as usize % 2],
                None => {
                    let id = [1, 2, (1 << 28) - 1][next(seed) as usize % 3];
                    open.push(id);
                    ticks | id << 4
                }
            }
        };
        (0..700).map(|_| record().to_le_bytes()).collect()
    }

    /// Follows the same records by the rules, without the fast path.
    fn by_rules<M: Memory>(stack: &mut Stack<M>, words: &[Word], room: usize) -> WordRun {
        let mut followed = WordRun::default();
        for word in words {
            let word = u64::from_le_bytes(*word);
            let id = word as u32 >> 4;
            let top = stack.open.all().last().copied();
            match word & 0b1111 {
                0b000 if id > 0 && stack.open.all().len() < room => stack.enter(id),
                0b010 | 0b100 if id > 0 && top == Some(id) => {
                    stack.open.truncate(stack.open.all().len() - 1);
                }
                _ => break,
            }
            followed.words += 1;
            followed.ticks = followed.ticks.wrapping_add(word >> 32);
        }
        followed
    }

    #[test]
    fn what_is_plain_is_as_the_rules_say() {
        let (mut seed, mut all) = (7, 0);
        for round in 0..2000 {
            let words = records(&mut seed, [2, 50, 5000][round % 3]);
            let (mut one, mut other) = ([0; 800], [0; 800]);
            let (mut none, mut nothing) = ([], []);
            let mut stack = Stack::new(&mut one[..], &mut none[..]);
            let mut ruled = Stack::new(&mut other[..], &mut nothing[..]);
            let mut at = 0;
            while at < words.len() {
                let followed = take_ordinary(&mut stack, &words[at..]);
                let expected = by_rules(&mut ruled, &words[at..], 800);
                assert_eq!(
                    (followed.words, followed.ticks),
                    (expected.words, expected.ticks)
                );
                assert_eq!(stack.open.all(), ruled.open.all());
                assert_eq!(stack.rule, ruled.rule);
                at += followed.words + 1;
                all += followed.words;
            }
        }
        assert!(all > 500_000, "{all}: nearly all is followed");
    }

    #[test]
    fn where_there_is_no_room_it_stops() {
        let mut memory = [0; 3];
        let mut stack = Stack::new(&mut memory[..], &mut []);
        let words: Vec<Word> = (1..9).map(|id: u64| (id << 4).to_le_bytes()).collect();
        assert_eq!(take_ordinary(&mut stack, &words).words, 3);
        assert_eq!(stack.open.all(), [1, 2, 3]);
        let mut stack = Stack::<Vec<u32>>::default();
        assert_eq!(
            take_ordinary(&mut stack, &words).words,
            0,
            "it never makes room"
        );
    }

    #[test]
    fn calls_that_make_no_others_need_no_room() {
        let mut stack = Stack::<Vec<u32>>::default();
        let call = |id: u64| [id << 4 | 5 << 32, id << 4 | 0b100 | 6 << 32];
        let mut words: Vec<Word> = (1..9).flat_map(call).map(u64::to_le_bytes).collect();
        let followed = take_ordinary(&mut stack, &words);
        assert_eq!((followed.words, followed.ticks), (16, 88));
        for (at, word) in [(5, 3 << 4 | 0b110), (4, 0), (5, 0b010), (5, 4 << 4 | 0b010)] {
            let kept = std::mem::replace(&mut words[at], u64::to_le_bytes(word));
            assert_eq!(take_ordinary(&mut stack, &words).words, 0, "{word:#x}");
            words[at] = kept;
        }
    }
}
