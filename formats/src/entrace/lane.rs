//! What a thread's calls and marks become: items, and the ends of items. A state machine: it decides,
//! and a [`Shelf`] keeps. A record is never invented: an exit without entry stays one, and an entry
//! without exit has no duration, or one that lasts until the moment of the dump.

use super::facts::flags;
use super::item::{Item, Kind, has};
use crate::calls::{Exit, Rule};
use crate::model::{Call, CpuId, Edge, Mark, Nanos, Thread, Ticks};
use crate::scale::Scale;
use crate::sink::Losses;

/// Where items are kept until they are written.
pub(super) trait Shelf {
    /// Keeps an item; returns its place. `payload` belongs to it.
    fn put(&mut self, item: &Item, payload: &[u8]) -> u64;

    /// The call at this place has ended: `item` is what it is now.
    fn end(&mut self, place: u64, item: &Item);

    /// The exit of the call at this place is missing: another call around it has ended.
    fn lose(&mut self, place: u64);

    /// One more argument of the call at this place, which was kept last; `item` is what it is now.
    /// False: it can't be taken any more.
    fn argument(&mut self, place: u64, item: &Item, value: u64) -> bool;
}

/// An open call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) item: Item,
    pub(super) place: u64,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) thread: Thread,
    pub(super) open: Vec<Open>,
    rule: Rule,
    cpu: Option<CpuId>,
    /// The CPU changed after the last edge.
    moved: bool,
    /// What comes next may be an argument of the innermost open call.
    arguments: bool,
    /// Time of the last event, in ns.
    last: Option<u64>,
}

impl Lane {
    pub(super) fn new(thread: &Thread) -> Lane {
        Lane {
            thread: thread.clone(),
            ..Lane::default()
        }
    }

    /// An edge of a call of the function at this place of the list.
    #[inline]
    pub(super) fn call(
        &mut self,
        call: &Call,
        function: u32,
        scale: &mut Scale,
        shelf: &mut impl Shelf,
    ) {
        let Nanos(time) = scale.nanos(call.time);
        self.last = Some(time);
        let moved = std::mem::take(&mut self.moved);
        if call.edge == Edge::Entry {
            self.enter(call, function, time, shelf);
        } else {
            self.exit(call, function, time, moved, shelf);
        }
    }

    #[inline]
    fn enter(&mut self, call: &Call, function: u32, time: u64, shelf: &mut impl Shelf) {
        let mut item = self.item(Kind::Call, Some(time));
        item.number = function;
        self.on_cpu(&mut item, self.cpu);
        if call.synthetic {
            item.flags = flags::SYNTHETIC_ENTRY;
        }
        if call.has_arguments {
            item.has |= has::ARGUMENTS;
        }
        self.arguments = true;
        let place = shelf.put(&item, &[]);
        self.open.push(Open { item, place });
        self.rule.entered(1);
    }

    #[inline]
    fn exit(&mut self, call: &Call, function: u32, time: u64, moved: bool, shelf: &mut impl Shelf) {
        self.arguments = false;
        let mut said = 0;
        if call.synthetic {
            said |= flags::SYNTHETIC_EXIT;
        }
        if call.edge == Edge::TailExit {
            said |= flags::TAIL_EXIT;
        }
        let is = |open: &Open| open.item.number == function;
        let known = match self.rule.exit(&self.open, is) {
            Exit::Innermost => true,
            Exit::Outer(inside) => {
                let lost = self.open.drain(self.open.len() - inside..).rev();
                lost.for_each(|open| shelf.lose(open.place));
                true
            }
            Exit::Before | Exit::Lone => false,
        };
        // A clock that goes back further than a duration can is as good as no entry.
        let fits = |open: &Open| open.item.time.saturating_sub(time) <= i64::MAX as u64;
        let open = if known { self.open.pop() } else { None };
        let Some(mut open) = open.filter(fits) else {
            if let Some(open) = open {
                shelf.lose(open.place);
            }
            return self.lone_exit(function, time, moved, said, shelf);
        };
        open.item.end = time;
        open.item.flags |= said;
        open.item.has |= has::END;
        if let Some(cpu) = self.cpu.filter(|_| moved) {
            open.item.exit_cpu = cpu.0;
            open.item.has |= has::EXIT_CPU;
        }
        shelf.end(open.place, &open.item);
    }

    #[cold]
    fn lone_exit(
        &mut self,
        function: u32,
        time: u64,
        moved: bool,
        said: u8,
        shelf: &mut impl Shelf,
    ) {
        let mut item = self.item(Kind::Call, Some(time));
        item.number = function;
        item.flags = said | flags::LONE_EXIT;
        self.on_cpu(&mut item, self.cpu.filter(|_| moved));
        shelf.put(&item, &[]);
    }

    /// Anything that is no call. `most`: of arguments.
    pub(super) fn mark(
        &mut self,
        mark: &Mark<'_>,
        scale: &mut Scale,
        most: usize,
        losses: &mut Losses,
        shelf: &mut impl Shelf,
    ) {
        let after_call = std::mem::take(&mut self.arguments);
        let (mut item, payload): (Item, &[u8]) = match *mark {
            Mark::Cpu { cpu, .. } => return self.on(cpu, losses),
            Mark::Argument { value } => {
                self.arguments = after_call;
                if !after_call || !self.argument(value, most, shelf) {
                    let what = "arguments without a call that can still take them: left out";
                    losses.add(what, 1);
                }
                return;
            }
            Mark::Wall { seconds, micros } => {
                let mut item = self.item(Kind::Wall, self.last);
                (item.end, item.number) = (seconds, micros);
                (item, &[])
            }
            Mark::Lost { records } => {
                self.rule.lost();
                let mut item = self.item(Kind::Lost, self.last);
                item.end = records;
                (item, &[])
            }
            // As `Mark::missing` reads it.
            Mark::Break { .. } => (self.item(Kind::Lost, self.last), &[]),
            Mark::Custom { time, cpu, data } => {
                let mut item = self.item(Kind::Custom, Some(scale.nanos(time).0));
                self.on_cpu(&mut item, cpu);
                (item, data)
            }
            Mark::Typed { time, kind, data } => {
                let mut item = self.item(Kind::Typed, Some(scale.nanos(time).0));
                item.number = kind.into();
                (item, data)
            }
        };
        if payload.len() > super::shape::MAX_PAYLOAD {
            losses.add(
                "events with payloads of nearly 16 MiB and more: left out",
                1,
            );
            return;
        }
        if item.has(has::TIME) {
            self.last = Some(item.time);
        }
        item.extra = payload.len() as u32;
        shelf.put(&item, payload);
    }

    fn on(&mut self, cpu: CpuId, losses: &mut Losses) {
        // Said again, it is no change, and does not undo the one before.
        if self.cpu != Some(cpu) {
            losses.add(UNHEARD, self.moved.into());
            (self.cpu, self.moved) = (Some(cpu), true);
        }
    }

    fn argument(&mut self, value: u64, most: usize, shelf: &mut impl Shelf) -> bool {
        let Some(open) = self.open.last_mut() else {
            return false;
        };
        let more = open.item.extra + 8;
        if more as usize > most * 8 {
            return false;
        }
        open.item.extra = more;
        open.item.has |= has::ARGUMENTS;
        shelf.argument(open.place, &open.item, value)
    }

    /// The trace ends then: calls that are open last until it. Their exits were not measured.
    pub(super) fn end(&mut self, end: Ticks, scale: &mut Scale, shelf: &mut impl Shelf) {
        let Nanos(end) = scale.nanos(end);
        if self.last > Some(end) {
            return;
        }
        while let Some(mut open) = self.open.pop() {
            open.item.end = end;
            open.item.flags |= flags::SYNTHETIC_EXIT;
            open.item.has |= has::END;
            shelf.end(open.place, &open.item);
        }
    }

    /// What the thread's end leaves untold.
    pub(super) fn finish(&self, losses: &mut Losses) {
        losses.add(UNHEARD, self.moved.into());
    }

    /// Whether arguments of the innermost open call may still come.
    pub(super) fn awaits_arguments(&self) -> bool {
        let innermost = self.open.last();
        self.arguments && innermost.is_some_and(|open| open.item.has(has::ARGUMENTS))
    }

    /// No argument of that call comes any more.
    pub(super) fn awaits_nothing(&mut self) {
        self.arguments = false;
    }

    #[inline]
    fn item(&self, kind: Kind, time: Option<u64>) -> Item {
        Item {
            kind,
            time: time.unwrap_or_default(),
            depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
            has: if time.is_some() { has::TIME } else { 0 },
            ..Item::default()
        }
    }

    #[inline]
    fn on_cpu(&self, item: &mut Item, cpu: Option<CpuId>) {
        if let Some(cpu) = cpu {
            item.cpu = cpu.0;
            item.has |= has::CPU;
        }
    }
}

const UNHEARD: &str = "changes of CPU without a call before the next one: left out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_said_again_is_one_change() {
        let (mut lane, mut losses) = (Lane::default(), Losses::default());
        lane.on(CpuId(3), &mut losses);
        lane.on(CpuId(3), &mut losses);
        assert!(lane.moved && losses.is_empty(), "{losses}");
        lane.on(CpuId(4), &mut losses);
        assert_eq!(losses.to_string(), format!("1 {UNHEARD}"));
    }
}
