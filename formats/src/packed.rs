//! Calls in 8 bytes each, for what goes through a hundred million of them: a function, an edge and the
//! ticks since the call before. Knows of no file. Must never hold a call that is synthetic, or times that
//! go back.
//!
//! | bits | field |
//! | --- | --- |
//! | 0 | 0 |
//! | 1 to 2 | 0 entered, 1 left, 2 left by a tail call, 3 entered with arguments |
//! | 3 | 0 |
//! | 4 to 31 | function |
//! | 32 to 63 | ticks since the call before |

use crate::model::{Call, Edge, FunctionId, Ticks};

/// Some calls of one thread, in order.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// The first call's ticks are counted from here.
    pub base: Ticks,
    /// A call each.
    pub words: &'a [PackedCall],
}

/// One call; its time is counted from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedCall(u64);

const _: () = assert!(size_of::<PackedCall>() == 8);

/// Edge by action.
const EDGES: [Edge; 4] = [Edge::Entry, Edge::Exit, Edge::TailExit, Edge::Entry];
/// Entered with arguments.
const WITH_ARGUMENTS: usize = 3;

impl PackedCall {
    /// The call of this word; `None` where bits are set that must not be.
    #[inline(always)]
    #[must_use]
    pub fn new(word: u64) -> Option<PackedCall> {
        (word & 0b1001 == 0).then_some(PackedCall(word))
    }

    /// Ticks since the call before.
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

    /// 1 where the function was left, else 0.
    #[inline(always)]
    #[must_use]
    pub fn left(self) -> u32 {
        let action = self.0 as u32 >> 1;
        (action ^ action >> 1) & 1
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

impl Packed<'_> {
    /// The calls, with their times.
    pub fn iter(&self) -> impl Iterator<Item = Call> + '_ {
        let mut time = self.base.0;
        self.words.iter().map(move |call| {
            time = time.wrapping_add(call.delta());
            call.at(Ticks(time))
        })
    }

    /// The first call's time.
    #[must_use]
    pub fn first(&self) -> Option<Ticks> {
        let first = self.words.first()?;
        Some(Ticks(self.base.0.wrapping_add(first.delta())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_call() {
        let words = [0x5_0000_0070, 0x0_0000_0072, 0x1_0000_0014, 0x2_0000_0026];
        let words = words.map(|word| PackedCall::new(word).expect("a call"));
        let base = Ticks(100);
        let packed = Packed {
            base,
            words: &words,
        };
        let calls: Vec<_> = packed
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
        assert_eq!(words.map(PackedCall::left), [0, 1, 1, 0]);
        assert_eq!(packed.first(), Some(Ticks(105)));
        assert_eq!((PackedCall::new(1), PackedCall::new(8)), (None, None));
    }
}
