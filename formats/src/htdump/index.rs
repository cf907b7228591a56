//! The first pass over a file, record by record. A record is read by the klasses announced before it. Damaged bytes are
//! skipped.
//!
//! The pass collects functions, threads, the trace's description, problems, and the calls that are open between two
//! runs of records. Memory is these.

use std::collections::{HashMap, HashSet};

use super::items;
use super::klass::known;
use super::names::{FunctionMap, Names};
use super::record::{self, HEADER_SIZE, Header, MAX_RECORD};
use super::scan::{Event, RecordContent, RecordPass, Step, Tables, Walker};
use super::schema::{Label, Meaning, Schema, printable_name};
use super::stream_starts::StreamStarts;
use crate::bytes::{ByteOrder, ReadAt};
use crate::edges::{LaneCounter, Plan, Planner};
use crate::error::{Diagnostic, DiagnosticList, Error};
use crate::model::{FunctionId, Thread, ThreadId, Ticks, TraceInfo};

pub(super) const WINDOW: usize = 256 * 1024;
/// Reads all of a file.
pub(super) fn index(file: &dyn ReadAt) -> Result<Index, Error> {
    let mut head = [0; 64];
    let count = file.read_at(0, &mut head)?;
    let Some(order) = record::order(&head[..count]) else {
        let what = "no HTDUMP: it begins neither with a byte order nor with HawkTracer's klasses";
        return Err(Error::format(0, what));
    };
    let mut indexer = Indexer {
        tables: Tables::default(),
        learner: Learner {
            schema: Schema::new(),
            checked: HashSet::new(),
            last: None,
            generation: 0,
        },
        gathered: IndexState::default(),
    };
    if !head.starts_with(&[0; 4]) {
        let what = format!(
            "the stream does not begin with its byte order: taken for {}-endian",
            word(order)
        );
        indexer.gathered.diagnostics.add(0, what);
    }
    indexer.tables.set_order(0, order);
    indexer.file(file)?;
    let Indexer {
        tables, gathered, ..
    } = indexer;
    let mut index = gathered.finish(tables);
    if index.plan.may_overlap() {
        let lanes = lanes(file, &index)?;
        index.plan.add_lanes(&lanes, &mut index.info.threads);
    }
    Ok(index)
}

/// How many lanes the calls of each thread need besides its own.
fn lanes(file: &dyn ReadAt, index: &Index) -> Result<Vec<usize>, Error> {
    let mut pass = RecordPass::new(file, &index.tables, WINDOW);
    let mut threads = index.threads.copy_for_pass();
    let mut counter = LaneCounter::new(&index.plan);
    while let Some(step) = pass.next()? {
        let Step::Event(event) = step else { continue };
        let item = items::item(&event, |_| FunctionId(0));
        let item = item.and_then(|(number, item)| Some((threads.find(number)?, item)));
        if let Some((thread, item)) = item {
            counter.add(thread, &item)?;
        }
    }
    counter.finish()
}

/// The name of a byte order.
pub(super) fn word(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    }
}

/// Makes layouts at the first record of a klass, and after each change of the klass.
struct Learner {
    schema: Schema,
    /// Klasses whose layout is up to date with the schema's generation.
    checked: HashSet<u32>,
    last: Option<u32>,
    generation: u64,
}

impl Learner {
    /// Makes records of the klass readable from here on. Returns whether their layout has changed, or
    /// why they can't be read.
    fn prepare(&mut self, klass: u32, offset: u64, tables: &mut Tables) -> Result<bool, String> {
        if self.generation != self.schema.generation {
            self.generation = self.schema.generation;
            (self.checked, self.last) = (HashSet::new(), None);
        }
        if self.last == Some(klass) {
            return Ok(false);
        }
        let mut is_new = false;
        if !self.checked.contains(&klass) {
            let layout = self.schema.layout(klass)?;
            is_new = tables.layout(klass, offset) != Some(&layout);
            if is_new && !tables.learn(klass, offset, layout) {
                return Err("klasses change more often than any program's".to_owned());
            }
            self.checked.insert(klass);
        }
        self.last = Some(klass);
        Ok(is_new)
    }

    /// Takes the description of a klass from a record that has one.
    fn take(&mut self, event: &Event<'_>, diagnostics: &mut DiagnosticList) {
        let text = |name| String::from_utf8_lossy(event.text(name));
        match event.layout.meaning {
            Meaning::Klass => {
                let (id, count) = (event.named("info_klass_id"), event.named("field_count"));
                let name = text("event_klass_name");
                self.schema.announce(id as u32, &name, count as u8);
            }
            Meaning::Field => {
                let (type_name, name) = (text("field_type"), text("field_name"));
                let described = self.schema.describe(
                    event.named("info_klass_id") as u32,
                    &type_name,
                    &name,
                    event.named("size"),
                    event.named("data_type") as u8,
                );
                if let Err(what) = described {
                    diagnostics.add(event.offset, what);
                }
            }
            _ => {}
        }
    }
}

/// Reports a faulty layout at the first record that has it.
fn report_layout(event: &Event<'_>, diagnostics: &mut DiagnosticList) {
    let (layout, klass, offset) = (event.layout, event.header.klass, event.offset);
    let name = printable_name(&layout.name);
    if layout.assumed {
        let what = format!("klass {klass} was not announced: read as HawkTracer's {name}");
        diagnostics.add(offset, what);
    }
    let Meaning::Call { label, .. } = layout.meaning else {
        return;
    };
    let is_label = |at| matches!(label, Label::Text(label) if label == at);
    let places = layout.places.iter().enumerate();
    let left: Vec<String> = places
        .filter(|&(at, place)| !place.kind.is_number() && !is_label(at))
        .map(|(_, place)| printable_name(&place.name))
        .take(3)
        .collect();
    if !left.is_empty() {
        let left = left.join(", ");
        let what =
            format!("calls of klass {name} have fields that are no numbers: {left}; left out");
        diagnostics.add(offset, what);
    }
}

struct Indexer {
    tables: Tables,
    learner: Learner,
    gathered: IndexState,
}

impl Indexer {
    fn file(&mut self, file: &dyn ReadAt) -> Result<(), Error> {
        let mut walker = Walker::new(file, WINDOW);
        let mut starts = StreamStarts::new(file);
        let (mut offset, size) = (0, file.size());
        while offset < size {
            let next = starts.after(offset)?;
            let (end, is_last) = (next.unwrap_or(size), next.is_none());
            let what = match self.record(&mut walker, offset, end, is_last)? {
                Ok(bytes) => {
                    offset += bytes;
                    continue;
                }
                Err(what) => what,
            };
            // Records have no size. So only the beginning of a stream is certain to be a record.
            let to = next.unwrap_or(size);
            let up_to = if next.is_some() {
                format!("up to byte {to}, where another stream begins")
            } else {
                "up to the end".to_owned()
            };
            let left = to - offset;
            let what = format!("{what}: {left} bytes are left out, {up_to}");
            self.gathered.diagnostics.add(offset, what);
            self.tables.skip(offset, to);
            offset = to;
        }
        Ok(())
    }

    /// Takes the record at `offset`. It must end at `end` or earlier. Another stream begins at `end`,
    /// unless this one is the last. Returns the record's bytes, or the fault.
    fn record(
        &mut self,
        walker: &mut Walker<'_>,
        offset: u64,
        end: u64,
        is_last: bool,
    ) -> Result<Result<u64, String>, Error> {
        let order = self.tables.order(offset);
        let view = walker.view(offset, HEADER_SIZE)?;
        let Some(Header { klass, .. }) = Header::decode(view, order) else {
            return Ok(Err("the file ends within a record's header".to_owned()));
        };
        let is_new = match self.learner.prepare(klass, offset, &mut self.tables) {
            Ok(is_new) => is_new,
            Err(what) => return Ok(Err(format!("{what}, so its records have no known size"))),
        };
        // The size of the record is not trusted. It may be too large, and similar records may follow after the next
        // beginning.
        let least = self.tables.layout(klass, offset);
        let least = least.map_or(0, |layout| layout.least as u64);
        if !is_last && least > end - offset {
            return Ok(Err(format!("a record of klass {klass} is not whole")));
        }
        let (size, order) = match walker.at(offset, &self.tables)? {
            RecordContent::Event(event) if event.size() > end - offset => {
                return Ok(Err(format!("a record of klass {klass} is not whole")));
            }
            RecordContent::Event(event)
                if event.layout.meaning == Meaning::Endianness && event.named("endianness") > 1 =>
            {
                let order = event.named("endianness");
                return Ok(Err(format!("byte order {order} is neither 0 nor 1")));
            }
            RecordContent::Event(event) => {
                let diagnostics = &mut self.gathered.diagnostics;
                if is_new {
                    report_layout(&event, diagnostics);
                }
                self.learner.take(&event, diagnostics);
                (event.size(), self.gathered.take(&event))
            }
            RecordContent::Cut => {
                return Ok(Err(format!(
                    "the file ends within a record of klass {klass}"
                )));
            }
            RecordContent::Long => {
                let limit = MAX_RECORD >> 20;
                return Ok(Err(format!(
                    "a record of klass {klass} is longer than {limit} MiB"
                )));
            }
            RecordContent::Unknown(klass) => {
                return Ok(Err(format!("klass {klass} was not announced")));
            }
        };
        if let Some(order) = order {
            self.tables.set_order(offset + size, order);
        }
        Ok(Ok(size))
    }
}

/// The result of the first pass.
pub(super) struct Index {
    pub(super) info: TraceInfo,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) tables: Tables,
    pub(super) ties: FunctionMap,
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

    /// A copy of this index, for another pass.
    pub(super) fn copy_for_pass(&self) -> Threads {
        Threads {
            of_number: self.of_number.clone(),
            last: None,
        }
    }
}

/// The facts that the pass has collected so far.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    pub(super) diagnostics: DiagnosticList,
    names: Names,
    threads: Threads,
    planner: Planner,
    info: TraceInfo,
    earliest: Option<Ticks>,
    has_trace: bool,
    /// Threads that have items.
    busy: Vec<bool>,
}

impl IndexState {
    /// Takes a record. Returns the byte order that it states.
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

    /// The place of a thread, which may be new.
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
        let item = items::item(event, |naming| names.function_of(event.offset, naming));
        let Some((number, item)) = item else { return };
        if let Meaning::Call { duration, .. } = event.layout.meaning {
            if item.end.since(item.start).0 != event.number(duration) {
                let what = "a call ends after 2^64 ns: its end is moved there".to_owned();
                self.diagnostics.add(event.offset, what);
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
            self.diagnostics.add(offset, what);
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
            diagnostics: self.diagnostics.finish(),
            tables,
            ties,
            threads: self.threads,
            plan: self.planner.finish(),
            busy: self.busy,
        }
    }
}
