//! A thread's calls and marks become items, and the ends of items. [`ThreadEncoder`] is a state machine: it decides,
//! and a [`Store`] keeps the items. An exit without an entry stays alone. An entry without an exit has no duration, or
//! lasts until the moment of the dump.

use std::collections::HashMap;
use std::io;

use super::encode::{self, Functions, MAX_ARGUMENTS, MAX_PAYLOAD};
use super::facts::flags;
use super::item::{END, EXTRA, Item, Kind, has};
use crate::calls::{Exit, Rule};
use crate::model::{Call, CpuId, Edge, Function, Mark, Nanos, Thread, ThreadId, Ticks, TraceInfo};
use crate::note_values::in_nanos;
use crate::scale::Scale;
use crate::sink::Losses;
use crate::spool::Spool;

/// A thread's part of the spool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strands {
    pub(super) items: usize,
    /// Arguments and payloads, one after the other.
    pub(super) extra: usize,
}

/// Keeps the items of a thread until they are written.
pub(super) struct Store<'a> {
    pub(super) spool: &'a mut Spool,
    pub(super) strands: Strands,
    pub(super) failed: &'a mut Option<io::Error>,
}

impl Store<'_> {
    /// Changes the spool, unless an error has damaged it.
    fn with(&mut self, step: impl FnOnce(&mut Spool, Strands) -> io::Result<()>) {
        if self.failed.is_none() {
            *self.failed = step(self.spool, self.strands).err();
        }
    }

    /// Keeps an item; returns its place. `payload` belongs to it.
    fn put(&mut self, item: &Item, payload: &[u8]) -> u64 {
        let place = self.spool.size(self.strands.items);
        self.with(|spool, strands| {
            spool.push(strands.items, &item.encode())?;
            spool.push(strands.extra, payload)
        });
        place
    }

    /// The call at this place has ended: `item` is its new value.
    fn end(&mut self, place: u64, item: &Item) {
        let at = place + END as u64;
        self.with(|spool, strands| spool.patch(strands.items, at, &item.encode()[END..]));
    }

    /// One more argument of the call at this place, which was kept last. `item` is its new value.
    fn argument(&mut self, place: u64, item: &Item, value: u64) {
        let at = place + EXTRA as u64;
        self.with(|spool, strands| {
            spool.patch(strands.items, at, &item.encode()[EXTRA..])?;
            spool.push(strands.extra, &value.to_le_bytes())
        });
    }
}

/// A trace on its way to entries: the state of all threads.
pub(super) struct Encoders {
    /// The trace, without its threads; its functions as they are written.
    pub(super) info: TraceInfo,
    pub(super) functions: Functions,
    pub(super) threads: Vec<ThreadEncoder>,
    /// The place of the thread that the events belong to.
    pub(super) now: usize,
    pub(super) losses: Losses,
    scale: Scale,
    thread_of: HashMap<ThreadId, usize>,
}

impl Encoders {
    pub(super) fn new(info: &TraceInfo) -> Encoders {
        let mut encoders = Encoders {
            info: TraceInfo {
                functions: Vec::new(),
                threads: Vec::new(),
                ..info.clone()
            },
            functions: Functions::default(),
            threads: Vec::new(),
            now: 0,
            losses: Losses::default(),
            scale: Scale::new(info.clock.frequency),
            thread_of: HashMap::new(),
        };
        encoders.learn(&info.functions);
        encoders
    }

    /// Adds functions; those that are known already are left out.
    pub(super) fn learn(&mut self, more: &[Function]) {
        for function in more {
            let function = encode::fitting(function, &mut self.losses);
            if self.functions.define(&function) {
                self.info.functions.push(function);
            }
        }
    }

    /// The next events are of this thread. Returns whether the thread is new.
    pub(super) fn turn(&mut self, thread: &Thread) -> bool {
        let next = self.threads.len();
        self.now = *self.thread_of.entry(thread.id).or_insert(next);
        if self.now == next {
            self.threads.push(ThreadEncoder::new(thread));
        }
        self.now == next
    }

    /// Without a thread, nothing happens.
    pub(super) fn calls(&mut self, calls: &[Call], store: &mut Store<'_>) {
        let Some(thread) = self.threads.get_mut(self.now) else {
            return;
        };
        for call in calls {
            let function = self.functions.place(call.function);
            thread.call(call, function, &mut self.scale, store);
        }
    }

    pub(super) fn mark(&mut self, mark: &Mark<'_>, store: &mut Store<'_>) {
        if let Some(thread) = self.threads.get_mut(self.now) {
            thread.mark(mark, &mut self.scale, &mut self.losses, store);
        }
    }

    /// The end of a thread.
    pub(super) fn finish(&mut self, place: usize, store: &mut Store<'_>) {
        let Some(thread) = self.threads.get_mut(place) else {
            return;
        };
        thread.arguments = false;
        if let Some(end) = self.info.end {
            thread.end(end, &mut self.scale, store);
        }
        self.losses.add(UNHEARD, thread.moved.into());
    }
}

/// An open call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) item: Item,
    pub(super) place: u64,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct ThreadEncoder {
    pub(super) thread: Thread,
    pub(super) open: Vec<Open>,
    rule: Rule,
    cpu: Option<CpuId>,
    /// The CPU changed after the last edge.
    moved: bool,
    /// The next event may be an argument of the innermost open call.
    arguments: bool,
    /// Time of the last event, in ns.
    last: Option<u64>,
}

impl ThreadEncoder {
    fn new(thread: &Thread) -> ThreadEncoder {
        ThreadEncoder {
            thread: thread.clone(),
            ..ThreadEncoder::default()
        }
    }

    /// An edge of a call of the function at this place of the list.
    fn call(&mut self, call: &Call, function: u32, scale: &mut Scale, store: &mut Store<'_>) {
        let Nanos(time) = scale.nanos(call.time);
        self.last = Some(time);
        let moved = std::mem::take(&mut self.moved);
        if call.edge == Edge::Entry {
            self.enter(call, function, time, store);
        } else {
            self.exit(call, function, time, moved, store);
        }
    }

    fn enter(&mut self, call: &Call, function: u32, time: u64, store: &mut Store<'_>) {
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
        let place = store.put(&item, &[]);
        self.open.push(Open { item, place });
        self.rule.entered(1);
    }

    fn exit(&mut self, call: &Call, function: u32, time: u64, moved: bool, store: &mut Store<'_>) {
        self.arguments = false;
        let mut exit_flags = 0;
        if call.synthetic {
            exit_flags |= flags::SYNTHETIC_EXIT;
        }
        if call.edge == Edge::TailExit {
            exit_flags |= flags::TAIL_EXIT;
        }
        let is = |open: &Open| open.item.number == function;
        let known = match self.rule.exit(&self.open, is) {
            Exit::Innermost => true,
            Exit::Outer(inside) => {
                self.open.truncate(self.open.len() - inside);
                true
            }
            Exit::Before | Exit::Lone => false,
        };
        // A clock may go back further than a duration can tell. Then the entry counts as missing.
        let fits = |open: &Open| open.item.time.saturating_sub(time) <= i64::MAX as u64;
        let open = if known { self.open.pop() } else { None };
        let Some(mut open) = open.filter(fits) else {
            return self.lone_exit(function, time, moved, exit_flags, store);
        };
        open.item.end = time;
        open.item.flags |= exit_flags;
        open.item.has |= has::END;
        if let Some(cpu) = self.cpu.filter(|_| moved) {
            open.item.exit_cpu = cpu.0;
            open.item.has |= has::EXIT_CPU;
        }
        store.end(open.place, &open.item);
    }

    #[cold]
    fn lone_exit(
        &mut self,
        function: u32,
        time: u64,
        moved: bool,
        exit_flags: u8,
        store: &mut Store<'_>,
    ) {
        let mut item = self.item(Kind::Call, Some(time));
        item.number = function;
        item.flags = exit_flags | flags::LONE_EXIT;
        self.on_cpu(&mut item, self.cpu.filter(|_| moved));
        store.put(&item, &[]);
    }

    /// An event that is no call.
    fn mark(
        &mut self,
        mark: &Mark<'_>,
        scale: &mut Scale,
        losses: &mut Losses,
        store: &mut Store<'_>,
    ) {
        let after_call = std::mem::take(&mut self.arguments);
        let (mut item, payload): (Item, &[u8]) = match *mark {
            Mark::Cpu { cpu, .. } => return self.on(cpu, losses),
            Mark::Argument { value } => {
                self.arguments = after_call;
                if !after_call || !self.argument(value, store) {
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
            // A gap without records, as `Mark::missing` reads it.
            Mark::Break { .. } => (self.item(Kind::Lost, self.last), &[]),
            Mark::Note { time, kind, body } => {
                let body = in_nanos(kind, body, scale.frequency());
                let mut item = self.item(Kind::Note, Some(scale.nanos(time).0));
                item.number = kind as u32;
                item.extra = body.len() as u32;
                self.last = Some(item.time);
                store.put(&item, &body);
                return;
            }
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
            _ => {
                losses.add_left_out(mark);
                return;
            }
        };
        if payload.len() > MAX_PAYLOAD {
            losses.add(
                "events with payloads of nearly 16 MiB and more: left out",
                1,
            );
            return;
        }
        if item.has_all(has::TIME) {
            self.last = Some(item.time);
        }
        item.extra = payload.len() as u32;
        store.put(&item, payload);
    }

    fn on(&mut self, cpu: CpuId, losses: &mut Losses) {
        // A repeated CPU is no change, and does not undo the previous change.
        if self.cpu != Some(cpu) {
            losses.add(UNHEARD, self.moved.into());
            (self.cpu, self.moved) = (Some(cpu), true);
        }
    }

    fn argument(&mut self, value: u64, store: &mut Store<'_>) -> bool {
        let Some(open) = self.open.last_mut() else {
            return false;
        };
        let more = open.item.extra + 8;
        if more as usize > MAX_ARGUMENTS * 8 {
            return false;
        }
        open.item.extra = more;
        open.item.has |= has::ARGUMENTS;
        store.argument(open.place, &open.item, value);
        true
    }

    /// The trace ends then, and open calls last until then. Their exits were not measured.
    fn end(&mut self, end: Ticks, scale: &mut Scale, store: &mut Store<'_>) {
        let Nanos(end) = scale.nanos(end);
        if self.last > Some(end) {
            return;
        }
        while let Some(mut open) = self.open.pop() {
            open.item.end = end;
            open.item.flags |= flags::SYNTHETIC_EXIT;
            open.item.has |= has::END;
            store.end(open.place, &open.item);
        }
    }

    fn item(&self, kind: Kind, time: Option<u64>) -> Item {
        Item {
            kind,
            time: time.unwrap_or_default(),
            depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
            has: if time.is_some() { has::TIME } else { 0 },
            ..Item::default()
        }
    }

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
    fn repeated_cpus_are_one_change() {
        let (mut encoder, mut losses) = (ThreadEncoder::default(), Losses::default());
        encoder.on(CpuId(3), &mut losses);
        encoder.on(CpuId(3), &mut losses);
        assert!(encoder.moved && losses.is_empty(), "{losses}");
        encoder.on(CpuId(4), &mut losses);
        assert_eq!(losses.to_string(), format!("1 {UNHEARD}"));
    }
}
