//! A piece of a thread's calls, followed without knowing what came before it, and joined to what did.
//!
//! What it must know of those is in [`Past`]; which of the piece's calls were outermost ones is settled when it is known
//! what was open. Must never join what one look at everything in order would have told otherwise.

use fdr_formats::Call;
use fdr_formats::calls::{EarlierExit, Past};

use super::{Batch, CLIPPED, Frame, NO_FRAME, PLACE, Stack, Table};

impl Stack {
    /// The calls of a thread from somewhere in the middle on.
    pub(crate) fn piece() -> Stack {
        Stack {
            past: Some(Past::default()),
            ..Stack::default()
        }
    }

    pub(super) fn is_unclear(&self) -> bool {
        self.past.as_ref().is_some_and(Past::is_unclear)
    }

    /// What comes now can't be told without the past.
    pub(super) fn make_unclear(&mut self) {
        if let Some(past) = &mut self.past {
            past.make_unclear();
        }
    }

    /// An exit of a function of which no call in the piece is open.
    pub(super) fn leave_past(&mut self, call: &Call, place: u32) {
        let Some(past) = &mut self.past else { return };
        let left = EarlierExit {
            exit: *call,
            children: self.children,
        };
        if past.leave(self.depth, left) {
            self.children = 0;
            // The function's calls so far were inside of this one.
            self.totals[place as usize] = 0;
        }
    }

    /// Of a piece: how many exits of earlier calls it has so far.
    pub(in super::super) fn exits_of_earlier(&self) -> usize {
        self.past.as_ref().map_or(0, |past| past.left().len())
    }

    /// Adds a piece that follows, and what its table has to `table`. `false`: that can't be told, and
    /// nothing was changed.
    pub(crate) fn join(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        piece: Stack,
        theirs: Table,
    ) -> bool {
        let Some(past) = self.past_of(table, &piece) else {
            return false;
        };
        if !table.has_room_for(&theirs) {
            return false;
        }
        let places = table.join(theirs);
        self.open.resize(table.stats.len(), 0);
        self.totals.resize(table.stats.len(), 0);
        let room = self.depth + piece.frames.len().max(2);
        if self.frames.len() < room {
            self.frames.resize(room, NO_FRAME);
        }
        for left in past.left() {
            self.leave_by(batch, table, left);
        }
        self.take_open(&piece, &places);
        self.take_sums(&piece);
        true
    }

    /// What the piece must know, where it fits what is known here.
    fn past_of<'a>(&self, table: &Table, piece: &'a Stack) -> Option<&'a Past> {
        let past = piece.past.as_ref().filter(|_| self.past.is_none())?;
        let open = self.frames.get(1..=self.depth).unwrap_or(&[]);
        let open = open.iter().rev();
        let open = open.map(|frame| table.function(frame.place & PLACE));
        past.fits(open, piece.frames.len()).then_some(past)
    }

    /// The innermost open call is ended by an exit in the piece.
    fn leave_by(&mut self, batch: &mut Batch, table: &mut Table, left: &EarlierExit) {
        self.children = self.children.saturating_add(left.children);
        self.close(batch, table, left.exit.time, left.exit.synthetic);
    }

    /// Takes the calls that are open at the piece's end, and settles which were outermost ones.
    fn take_open(&mut self, piece: &Stack, places: &[u32]) {
        for ((&open, &total), &place) in piece.open.iter().zip(&piece.totals).zip(places) {
            let place = place as usize;
            if self.open[place] == 0 {
                self.totals[place] = self.totals[place].saturating_add(total);
            }
            self.open[place] += open;
        }
        for frame in piece.frames.get(1..=piece.depth).unwrap_or(&[]) {
            self.depth += 1;
            // The first one's caller had called others before the piece; no other one's has.
            let before = std::mem::take(&mut self.children);
            self.frames[self.depth] = Frame {
                before: before.saturating_add(frame.before),
                place: places[(frame.place & PLACE) as usize] | frame.place & CLIPPED,
                ..*frame
            };
        }
        self.children = self.children.saturating_add(piece.children);
    }

    fn take_sums(&mut self, piece: &Stack) {
        if let Some(first) = piece.first {
            self.before = piece.before;
            self.went_back |= piece.went_back || first < self.last;
        }
        self.first = [self.first, piece.first].into_iter().flatten().min();
        self.last = self.last.max(piece.last);
        self.records += piece.records;
        self.synthetic += piece.synthetic;
        self.flaws.missing_exits += piece.flaws.missing_exits;
        self.rule.join(&piece.rule);
    }
}
