//! What a piece of a thread must know of earlier calls, if it is followed without having seen them. Calls
//! that begin and end in the piece need no past. The exit of an earlier call is kept, with the ticks that
//! the piece spent in calls directly inside it. Any other need of the past makes the piece unclear: it is
//! followed again in its turn. Must never join to another result than one look at everything in order.

use super::rule::NEAR;
use crate::model::{Call, FunctionId};

/// Exits of earlier calls that a piece may have (2 MiB).
const MOST: usize = 1 << 16;

/// An exit of a call that was entered before the piece.
#[derive(Clone, Copy, Debug)]
pub struct EarlierExit {
    /// The exit.
    pub exit: Call,
    /// Ticks in calls right inside of it, as far as they are in the piece.
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
    /// What comes now can't be told without the past.
    pub fn make_unclear(&mut self) {
        self.unclear = true;
    }

    /// Whether that came already: what follows is of no use.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        self.unclear
    }

    /// An exit of which no call in the piece is open, while `depth` others are. `false`: that made the piece
    /// unclear.
    pub fn leave(&mut self, depth: usize, left: EarlierExit) -> bool {
        // Inside of a call of the piece, it may end that, or mean nothing.
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

    /// Whether they end what is `open` before the piece, given from the innermost call on. `deepest`: more calls
    /// were never open in the piece.
    pub fn fits(&self, open: impl ExactSizeIterator<Item = FunctionId>, deepest: usize) -> bool {
        // Where a search might end early, nothing can be told.
        let shallow = open.len().saturating_add(deepest) <= NEAR;
        let mut open = open;
        let mut ended = |left: &EarlierExit| open.next() == Some(left.exit.function);
        !self.unclear && shallow && self.left.iter().all(&mut ended)
    }
}
