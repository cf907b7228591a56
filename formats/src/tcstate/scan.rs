//! Gives the intervals of history.bin one after the other, each checked against the previous ones. If an interval does
//! not fit, the scan continues at the next one that fits, and reports this once.
//!
//! An interval fits if three things hold. Its key and value exist. Its times are in the history. It comes
//! in the order (end, start, key). Its start must also continue the timeline of its key. After damage the
//! next good interval is found by this rule: its start is one of a few numbers of 8 bytes.

use std::io;

use super::record::{Bad, Interval, Kind, MAX_SIZE, Value, decode_interval};
use crate::bytes::{ReadAt, Window};

const WINDOW: usize = 256 * 1024;

/// The place of the intervals, and the bounds of their fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Bytes of the file.
    pub(super) from: u64,
    pub(super) to: u64,
    /// The maximum number of intervals.
    pub(super) most: u64,
    /// The history, in ns.
    pub(super) start: i64,
    pub(super) end: i64,
    /// How many strings there are.
    pub(super) strings: u64,
}

/// An interval, or bytes that are no interval.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) interval: Option<Interval>,
    /// The fault at this place, and what the reader did about it.
    pub(super) fault: Option<String>,
}

/// One timeline, so far.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The time at which the next interval must begin.
    next: i64,
    /// The number of damages before its last interval.
    damages: u32,
}

/// Reads the intervals.
pub(super) struct Scanner<'a> {
    window: Window<'a>,
    kinds: &'a [Kind],
    bounds: Bounds,
    at: u64,
    left: u64,
    last: (i64, i64, u32),
    lines: Vec<Line>,
    damages: u32,
    /// The result for the last place.
    last_result: (u64, IntervalResult),
}

type IntervalResult = Result<(Interval, usize), Bad>;

impl<'a> Scanner<'a> {
    /// `kinds` are the keys' types.
    pub(super) fn new(bytes: &'a dyn ReadAt, kinds: &'a [Kind], bounds: Bounds) -> Scanner<'a> {
        let line = Line {
            next: bounds.start,
            damages: 0,
        };
        Scanner {
            window: Window::new(bytes, WINDOW),
            kinds,
            bounds,
            at: bounds.from,
            left: bounds.most,
            last: (i64::MIN, i64::MIN, 0),
            lines: vec![line; kinds.len()],
            damages: 0,
            last_result: (u64::MAX, Err(Bad::Short)),
        }
    }

    /// Where the next piece begins.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }

    /// Keys whose timeline ended too early although no damage explains it: the number, and the first
    /// key. Valid at the end.
    pub(super) fn unfinished(&self) -> (u64, u32) {
        let ended = self.bounds.end.saturating_add(1);
        let short = |line: &Line| line.next != ended && line.damages == self.damages;
        let count = self.lines.iter().filter(|line| short(line)).count();
        let first = self.lines.iter().position(short);
        (count as u64, first.unwrap_or(0) as u32)
    }

    /// Whether something was skipped.
    pub(super) fn damaged(&self) -> bool {
        self.damages > 0
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        if self.at >= self.bounds.to || self.left == 0 {
            return Ok(None);
        }
        let found = self.decode(self.at)?;
        let (interval, size) = match found {
            Ok((interval, size)) if self.fits(&interval, self.last) => (interval, size as u64),
            other => return self.skip(other).map(Some),
        };
        let after = self.at + size;
        if after < self.bounds.to && self.left > 1 {
            let next = self.decode(after)?.ok().map(|(next, _)| next);
            let agrees = next.is_some_and(|next| self.fits(&next, place(&interval)));
            if !agrees {
                let better =
                    next.is_some_and(|next| self.fits(&next, self.last) && self.continues(&next));
                if better {
                    let what = "an interval that the next one contradicts; it is left out";
                    return Ok(Some(self.damage(after, what.into())));
                }
                if !self.continues(&interval) {
                    return self.skip(Ok((interval, size as usize))).map(Some);
                }
            }
        }
        Ok(Some(self.accept(interval, size)))
    }

    #[inline]
    fn decode(&mut self, at: u64) -> io::Result<IntervalResult> {
        if self.last_result.0 != at {
            let view = self.window.at(at, MAX_SIZE, self.bounds.to)?;
            self.last_result = (at, decode_interval(view, self.kinds));
        }
        Ok(self.last_result.1)
    }

    #[inline]
    fn fits(&self, interval: &Interval, last: (i64, i64, u32)) -> bool {
        let string = match interval.value {
            Value::Text(number) => u64::from(number) < self.bounds.strings,
            _ => true,
        };
        let inside = self.bounds.start <= interval.start && interval.end <= self.bounds.end;
        string && inside && interval.start <= interval.end && place(interval) > last
    }

    #[inline]
    fn continues(&self, interval: &Interval) -> bool {
        self.lines
            .get(interval.key as usize)
            .is_some_and(|line| line.next == interval.start)
    }

    fn accept(&mut self, interval: Interval, size: u64) -> Piece {
        let line = &mut self.lines[interval.key as usize];
        if interval.start < line.next {
            let what = format!(
                "the interval of key {} begins at {} ns, inside of the one before; it is left out",
                interval.key, interval.start
            );
            return self.damage(self.at + size, what);
        }
        let (key, gap) = (interval.key, interval.start.abs_diff(line.next));
        let fault = (gap > 0 && line.damages == self.damages).then(|| {
            format!("the timeline of key {key} has a gap of {gap} ns before this interval")
        });
        *line = Line {
            next: interval.end.saturating_add(1),
            damages: self.damages,
        };
        self.last = place(&interval);
        self.piece(size, Some(interval), fault)
    }

    fn piece(&mut self, size: u64, interval: Option<Interval>, fault: Option<String>) -> Piece {
        let offset = self.at;
        self.at += size;
        self.left -= 1;
        Piece {
            offset,
            size,
            interval,
            fault,
        }
    }

    /// Damage: the bytes before `to` are skipped.
    fn damage(&mut self, to: u64, what: String) -> Piece {
        self.damages = self.damages.saturating_add(1);
        self.piece(to - self.at, None, Some(what))
    }

    /// Searches for the next interval that fits and continues its timeline.
    #[cold]
    fn skip(&mut self, found: IntervalResult) -> io::Result<Piece> {
        let from = self.at;
        let why = match &found {
            Err(bad) => bad.to_string(),
            Ok((interval, _)) => self.misfit(interval),
        };
        // Usually the damage is in one interval, and its size is unchanged.
        let size = found.map_or(1, |(_, size)| size as u64);
        let mut to = from + size;
        if size == 1 || !self.good(to)? {
            to = from + 1;
            while to < self.bounds.to && !self.good(to)? {
                to += 1;
            }
        }
        let to = to.min(self.bounds.to);
        let what = format!(
            "{} bytes that are no interval are skipped: {why}",
            to - from
        );
        Ok(self.damage(to, what))
    }

    fn good(&mut self, at: u64) -> io::Result<bool> {
        if at >= self.bounds.to {
            return Ok(true);
        }
        let Ok((interval, size)) = self.decode(at)? else {
            return Ok(false);
        };
        if !self.continues(&interval) || !self.fits(&interval, self.last) {
            return Ok(false);
        }
        let after = at + size as u64;
        if after >= self.bounds.to {
            return Ok(true);
        }
        let next = self.decode(after)?;
        Ok(next.is_ok_and(|(next, _)| self.fits(&next, place(&interval))))
    }

    fn misfit(&self, interval: &Interval) -> String {
        let Interval {
            start,
            end,
            key,
            value,
        } = *interval;
        let Bounds {
            start: from,
            end: to,
            strings,
            ..
        } = self.bounds;
        match value {
            _ if start > end => format!("key {key} from {start} to {end} ns"),
            _ if start < from || end > to => {
                format!(
                    "key {key} from {start} to {end} ns, outside of the history ({from} to {to} ns)"
                )
            }
            Value::Text(number) if u64::from(number) >= strings => {
                format!("key {key} has string {number} of {strings}")
            }
            _ if place(interval) <= self.last => {
                format!("key {key} ends at {end} ns, which is out of order")
            }
            _ => format!("key {key} from {start} ns, where its timeline is not"),
        }
    }
}

fn place(interval: &Interval) -> (i64, i64, u32) {
    (interval.end, interval.start, interval.key)
}
