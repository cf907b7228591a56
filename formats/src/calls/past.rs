//! What a piece of a thread must know of earlier calls, if it is followed without having seen them. Calls that begin
//! and end in the piece need no past. The exit of an earlier call is kept, with the ticks that the piece spent in calls
//! directly inside it. Any other need of the past makes the piece unclear: it is followed again in its turn. The joined
//! result must never differ from that of following all calls in order.

use super::rule::NEAR;
use crate::model::{Call, FunctionId};

/// Exits of earlier calls that a piece may have (2 MiB).
const MOST: usize = 1 << 16;

/// An exit of a call that was entered before the piece.
#[derive(Clone, Copy, Debug)]
pub struct EarlierExit {
    /// The exit.
    pub exit: Call,
    /// Ticks in calls directly inside it, as far as they are in the piece.
    pub children: u64,
}

const _: () = assert!(size_of::<EarlierExit>() == 24);

/// The exits of earlier calls, in their order.
#[derive(Debug, Default)]
pub struct Past {
    left: Vec<EarlierExit>,
    unclear: bool,
}

impl Past {
    /// The piece can tell nothing of later records without the past.
    pub fn make_unclear(&mut self) {
        self.unclear = true;
    }

    /// Whether the piece is unclear already: later records are of no use.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        self.unclear
    }

    /// An exit of a function that no open call in the piece has, while `depth` others are open. `false`:
    /// the piece is now unclear.
    pub fn leave(&mut self, depth: usize, left: EarlierExit) -> bool {
        // If calls of the piece are open, the exit may end an earlier call, or mean nothing.
        self.unclear |= depth > 0 || self.left.len() >= MOST;
        if !self.unclear {
            self.left.push(left);
        }
        !self.unclear
    }

    /// The exits.
    #[must_use]
    pub fn left(&self) -> &[EarlierExit] {
        &self.left
    }

    /// Whether the exits end the `open` calls before the piece, given from the innermost on. The piece
    /// never had more than `deepest` open calls.
    pub fn fits(&self, open: impl ExactSizeIterator<Item = FunctionId>, deepest: usize) -> bool {
        // If a search might end early, nothing is certain.
        let shallow = open.len().saturating_add(deepest) <= NEAR;
        let mut open = open;
        let mut ended = |left: &EarlierExit| open.next() == Some(left.exit.function);
        !self.unclear && shallow && self.left.iter().all(&mut ended)
    }
}
