//! The state system: attributes in a tree, each with a timeline of values. It is told changes in order
//! of time and gives the intervals that they end, as Trace Compass's own does. Must never keep a
//! finished interval for longer than the nanosecond that ended it.
//!
//! The rules:
//! - Keys are dense, in the order of creation; the root is 0. A new attribute has been null since the
//!   start of the history.
//! - A change to the value that an attribute has already is no change.
//! - A change ends the interval before it at the ns before. Of several changes in one ns the last
//!   counts; the interval begins there even if that is the value of the interval before.
//! - Intervals come sorted by (end, start, key).

use super::layout::{Interval, Kind, Value};

/// The name of an attribute. Those of a trace have no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Word(&'static str),
    Number(u64),
}

/// An attribute: where it is in the tree, and the interval that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) parent: u32,
    pub(super) name: Name,
    pub(super) kind: Kind,
    pub(super) since: i64,
    pub(super) value: Value,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Nothing: the value is the same.
    Same,
    /// It ended an interval.
    Ended,
    /// It took the place of a change in the same ns.
    Replaced,
}

/// The state system.
#[derive(Debug)]
pub(super) struct Engine {
    start: i64,
    now: i64,
    attributes: Vec<Attribute>,
    /// Intervals that end in the ns before `now`.
    ended: Vec<Interval>,
}

impl Engine {
    /// A state system with a root, whose history begins at `start`.
    pub(super) fn new(start: i64) -> Engine {
        let mut engine = Engine {
            start,
            now: start,
            attributes: Vec::new(),
            ended: Vec::new(),
        };
        engine.create(0, Name::Word(""), Kind::None);
        engine
    }

    /// Every attribute; its key is its place.
    pub(super) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// A new attribute; returns its key.
    pub(super) fn create(&mut self, parent: u32, name: Name, kind: Kind) -> u32 {
        let key = self.attributes.len() as u32;
        self.attributes.push(Attribute {
            parent,
            name,
            kind,
            since: self.start,
            value: Value::Null,
        });
        key
    }

    /// What follows happens at `time`, not before what was told. `out` gets the intervals that
    /// ended in between.
    #[inline]
    pub(super) fn advance(&mut self, time: i64, out: &mut impl FnMut(&Interval)) {
        if time > self.now {
            self.hand_over(out);
            self.now = time;
        }
    }

    fn hand_over(&mut self, out: &mut impl FnMut(&Interval)) {
        if self.ended.len() > 1 {
            // The ends are the same.
            self.ended
                .sort_unstable_by_key(|interval| (interval.start, interval.key));
        }
        self.ended.iter().for_each(out);
        self.ended.clear();
    }

    /// An attribute has this value now.
    #[inline]
    pub(super) fn set(&mut self, key: u32, value: Value) -> Change {
        let Some(attribute) = self.attributes.get_mut(key as usize) else {
            return Change::Same;
        };
        if attribute.value == value {
            return Change::Same;
        }
        let change = if attribute.since < self.now {
            self.ended.push(Interval {
                start: attribute.since,
                end: self.now - 1,
                key,
                value: attribute.value,
            });
            attribute.since = self.now;
            Change::Ended
        } else {
            Change::Replaced
        };
        attribute.value = value;
        change
    }

    /// Ends the history at `end`, not before the last change.
    pub(super) fn finish(&mut self, end: i64, out: &mut impl FnMut(&Interval)) {
        self.hand_over(out);
        let mut last: Vec<Interval> = Vec::with_capacity(self.attributes.len());
        for (key, attribute) in self.attributes.iter().enumerate() {
            last.push(Interval {
                start: attribute.since,
                end,
                key: key as u32,
                value: attribute.value,
            });
        }
        last.sort_unstable_by_key(|interval| (interval.start, interval.key));
        last.iter().for_each(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_become_intervals() {
        let mut engine = Engine::new(10);
        let mut found = Vec::new();
        let mut out = |interval: &Interval| {
            found.push((interval.start, interval.end, interval.key, interval.value));
        };
        let a = engine.create(0, Name::Word("a"), Kind::Int);
        assert_eq!(
            engine.set(a, Value::Int(1)),
            Change::Replaced,
            "null since the start"
        );
        engine.advance(12, &mut out);
        let b = engine.create(0, Name::Number(7), Kind::Int);
        assert_eq!(engine.set(b, Value::Int(5)), Change::Ended);
        assert_eq!(engine.set(a, Value::Int(1)), Change::Same);
        assert_eq!(engine.set(a, Value::Null), Change::Ended);
        assert_eq!(engine.set(a, Value::Int(1)), Change::Replaced);
        engine.advance(15, &mut out);
        assert_eq!(engine.set(b, Value::Null), Change::Ended);
        engine.finish(20, &mut out);
        let wanted = [
            (10, 11, 1, Value::Int(1)),
            (10, 11, 2, Value::Null),
            (12, 14, 2, Value::Int(5)),
            (10, 20, 0, Value::Null),
            // The same value, and yet another interval: there was a change in between.
            (12, 20, 1, Value::Int(1)),
            (15, 20, 2, Value::Null),
        ];
        assert_eq!(found, wanted);
    }
}
