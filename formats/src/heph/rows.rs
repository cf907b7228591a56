//! The rows of a thread. Heph's own converter works in microseconds. It never ends if two events of a substream begin
//! in the same microsecond. So the first event of a microsecond is on the substream of its thread. Each further event
//! is on another substream, a *row*. `fdr:thread` states which substreams are rows of a thread.

/// A bit of a substream: it is a row. The 31 bits below are the number of the thread among those that have
/// rows, and the lower 32 bits are the row.
const ROW: u64 = 1 << 63;
/// Rows of calls whose entry is missing.
const MISSING: u32 = 1 << 30;
/// Rows of one event each.
const LONE: u32 = 2 << 30;
const MAX_ROW: u32 = MISSING - 1;

/// The rows of one thread.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The substream from which on there are rows, if there are any.
    pub(super) first: Option<u64>,
    events: Beginnings,
    missing: Beginnings,
    lone: u32,
}

/// Events whose times do not go back.
#[derive(Debug, Default)]
struct Beginnings {
    /// The microsecond of the last one.
    last: Option<u64>,
    /// The number of earlier events in that microsecond.
    count: u32,
}

impl Beginnings {
    /// The number of events in that microsecond before this one. `None`: the time went back.
    #[inline]
    fn add(&mut self, microsecond: u64) -> Option<u32> {
        match self.last {
            Some(last) if last == microsecond => self.count += u32::from(self.count < MAX_ROW),
            Some(last) if last > microsecond => return None,
            _ => (self.last, self.count) = (Some(microsecond), 0),
        }
        Some(self.count)
    }
}

impl Rows {
    /// The row of an event that begins in that microsecond. 0: the substream of the thread itself.
    #[inline]
    pub(super) fn event(&mut self, microsecond: u64) -> u32 {
        let row = self.events.add(microsecond);
        row.unwrap_or_else(|| self.lone())
    }

    /// The row of a call without an entry that begins in that microsecond. The writer learns of such a call at its
    /// exit, after calls that begin later. So these calls have rows of their own.
    pub(super) fn missing(&mut self, microsecond: u64) -> u32 {
        let row = self.missing.add(microsecond);
        row.map_or_else(|| self.lone(), |row| MISSING | row)
    }

    fn lone(&mut self) -> u32 {
        self.lone += u32::from(self.lone < MAX_ROW);
        LONE | self.lone
    }
}

/// The first row of the thread that is the `nth` with rows.
pub(super) fn first(nth: u32) -> u64 {
    ROW | u64::from(nth) << 32
}

/// The number of the thread, if a substream is a row.
pub(super) fn thread(substream: u64) -> Option<u32> {
    (substream & ROW != 0).then_some((substream >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_has_two_events_of_a_microsecond() {
        let mut rows = Rows::default();
        assert_eq!(
            [5, 5, 6, 6, 6, 9].map(|at| rows.event(at)),
            [0, 1, 0, 1, 2, 0]
        );
        let early = [5, 5, 9].map(|at| rows.event(at));
        assert_eq!(early, [LONE | 1, LONE | 2, 1]);
        let missing = [1, 1, 7, 1, 1].map(|at| rows.missing(at));
        let wanted = [MISSING, MISSING | 1, MISSING, LONE | 3, LONE | 4];
        assert_eq!(missing, wanted);
        assert_eq!(thread(first(7) | u64::from(LONE)), Some(1 << 31 | 7));
        assert_eq!(thread(u64::MAX >> 1), None);
    }
}
