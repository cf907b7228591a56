//! What the first pass collects: functions, threads, the trace's description, problems, and which
//! calls were open from one run of records to the next. Memory is what it finds, never the events.

use std::collections::HashMap;

use super::index::word;
use super::items::{self, Naming};
use super::klass::known;
use super::meaning::Meaning;
use super::names::{Names, Ties};
use super::walk::{Event, Tables};
use crate::bytes::ByteOrder;
use crate::error::Diagnostic;
use crate::model::{Thread, ThreadId, Ticks, TraceInfo};
use crate::nest::{Plan, Planner};

/// Problems that are listed; the rest is counted.
const MAX_DIAGNOSTICS: usize = 100;

/// What the first pass found out.
pub(super) struct Index {
    pub(super) info: TraceInfo,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) tables: Tables,
    pub(super) ties: Ties,
    pub(super) threads: Threads,
    pub(super) plan: Plan,
    /// Which threads have events.
    pub(super) busy: Vec<bool>,
}

/// Threads by their number in the file.
#[derive(Debug, Default)]
pub(super) struct Threads {
    of_number: HashMap<u64, usize>,
    last: Option<(u64, usize)>,
}

impl Threads {
    /// The place of a thread in [`TraceInfo::threads`].
    pub(super) fn find(&mut self, number: u64) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == number => Some(at),
            _ => {
                let at = *self.of_number.get(&number)?;
                self.last = Some((number, at));
                Some(at)
            }
        }
    }

    /// As this one, for another pass.
    pub(super) fn again(&self) -> Threads {
        Threads {
            of_number: self.of_number.clone(),
            last: None,
        }
    }
}

/// Problems, as many as are listed.
#[derive(Debug, Default)]
pub(super) struct Told {
    list: Vec<Diagnostic>,
    more: u64,
}

impl Told {
    pub(super) fn add(&mut self, offset: u64, what: String) {
        if self.list.len() < MAX_DIAGNOSTICS {
            self.list.push(Diagnostic { offset, what });
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        if self.more > 0 {
            let offset = self.list.last().map_or(0, |last| last.offset);
            let what = format!("{} more problems, not listed", self.more);
            self.list.push(Diagnostic { offset, what });
        }
        self.list
    }
}

/// What was collected so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) told: Told,
    names: Names,
    threads: Threads,
    planner: Planner,
    info: TraceInfo,
    earliest: Option<Ticks>,
    has_trace: bool,
    /// Threads that have items.
    busy: Vec<bool>,
}

impl Gathered {
    /// Takes in a record. Returns the byte order that it tells.
    pub(super) fn take(&mut self, event: &Event<'_>) -> Option<ByteOrder> {
        let text = |at| String::from_utf8_lossy(event.bytes(at));
        match event.layout.meaning {
            Meaning::Endianness => {
                let is_big = event.named("endianness") == 1;
                return Some(if is_big {
                    ByteOrder::Big
                } else {
                    ByteOrder::Little
                });
            }
            Meaning::Klass | Meaning::Field | Meaning::System => {}
            Meaning::Mapping { identifier, label } => {
                let identifier = event.number(identifier);
                self.names.mapping(event.offset, identifier, &text(label));
            }
            // A stream knows its end last.
            Meaning::Trace if self.has_trace => {
                self.info.end = items::end(event).or(self.info.end);
            }
            Meaning::Trace => {
                self.has_trace = true;
                items::trace(event, &mut self.info);
            }
            Meaning::Thread => {
                let (number, thread) = items::thread(event);
                let at = self.thread(number);
                self.info.threads[at] = thread;
            }
            Meaning::Function => {
                let (identifier, function) = items::function(event);
                let bits = event.named("known");
                let (listed, named) = (bits & known::LISTED != 0, bits & known::NAMED != 0);
                self.names
                    .function(event.offset, identifier, function, listed, named);
            }
            _ => self.item(event),
        }
        None
    }

    /// The place of a thread, which may be a new one.
    fn thread(&mut self, number: u64) -> usize {
        if let Some(at) = self.threads.find(number) {
            return at;
        }
        let at = self.info.threads.len();
        self.threads.of_number.insert(number, at);
        self.info.threads.push(Thread {
            id: ThreadId(number),
            ..Thread::default()
        });
        self.busy.push(false);
        at
    }

    fn item(&mut self, event: &Event<'_>) {
        let names = &mut self.names;
        let item = items::item(event, |naming| match naming {
            Naming::Identifier(identifier) => names.identifier(event.offset, identifier),
            Naming::Label(label) => names.label(&String::from_utf8_lossy(label)),
            Naming::Klass(klass) => names.label(klass),
        });
        let Some((number, item)) = item else { return };
        if let Meaning::Call { duration, .. } = event.layout.meaning {
            if item.end.since(item.start).0 != event.number(duration) {
                let what = "a call ends after 2^64 ns: its end is moved there".to_owned();
                self.told.add(event.offset, what);
            }
        }
        if items::is_timed(&event.layout.meaning) {
            let earliest = self.earliest.get_or_insert(item.start);
            *earliest = item.start.min(*earliest);
        }
        let at = self.thread(number);
        self.busy[at] = true;
        self.planner.add(at, &item);
    }

    /// All of it.
    pub(super) fn finish(mut self, tables: Tables) -> Index {
        let (functions, ties, unmapped) = self.names.finish();
        if let Some(&(offset, identifier)) = unmapped.first() {
            let what = format!(
                "no string is mapped to label {identifier}, nor to {} more: their numbers stand \
                 for them",
                unmapped.len() - 1
            );
            self.told.add(offset, what);
        }
        let mut info = self.info;
        info.functions = functions;
        info.start = info.start.or(self.earliest);
        let mut orders = tables.orders();
        let first = orders.next().unwrap_or(ByteOrder::Little);
        let also = if orders.next().is_some() {
            ", both byte orders".to_owned()
        } else {
            format!(", {}-endian", word(first))
        };
        info.format = format!("HawkTracer HTDUMP{also}");
        drop(orders);
        Index {
            info,
            diagnostics: self.told.finish(),
            tables,
            ties,
            threads: self.threads,
            plan: self.planner.finish(),
            busy: self.busy,
        }
    }
}
