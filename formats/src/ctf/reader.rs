//! The `Source` of CTF folders, and the decoder of a lane's files to neutral events. Files that share threads are
//! merged by time. It holds the metadata and the index; a stream file is open only while its lane is decoded. A lane
//! keeps one batch of calls, a window per file, and the CPU of each thread.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::index::{self, Index, Lane};
use super::list;
use super::note_reader;
use super::record::{NO_CPU, flags};
use super::schema::{Event as Class, Kind, Schema, ThreadSlots};
use super::stream::{DamageScope, Event, Packet, Reader, Step, WINDOW};
use crate::bytes::{FileBytes, groups};
use crate::error::{Diagnostic, DiagnosticCount, Error};
use crate::model::{Call, CpuId, Edge, FunctionId, Mark, Ticks, TraceInfo};
use crate::sink::Sink;
use crate::source::{Record, Source};
use crate::spool::merge;

/// A CTF folder, opened and indexed. A lane is a stream file, or several that share threads.
#[derive(Debug)]
pub struct CtfSource {
    index: Index,
}

impl CtfSource {
    /// Reads the metadata, the heads of all packets, and the facts. In another program's trace, it reads
    /// all events.
    ///
    /// # Errors
    /// If a file can't be read, or this reader does not understand the metadata. The error names the
    /// line.
    pub fn open(folder: &Path) -> Result<CtfSource, Error> {
        let index = index::index(folder)?;
        Ok(CtfSource { index })
    }
}

impl Source for CtfSource {
    fn info(&self) -> &TraceInfo {
        &self.index.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.index.diagnostics
    }

    fn lanes(&self) -> usize {
        self.index.lanes.len()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        let files = self
            .index
            .lanes
            .get(lane)
            .map_or(&[][..], |lane| &lane.files);
        let files = files.iter().filter_map(|&file| self.index.files.get(file));
        files.map(|file| file.size).sum()
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        decode_lane(&self.index, lane, sink, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&self.index, visit)
    }
}

/// Calls handed over at once.
const BATCH: usize = 512;
/// Bytes of all windows of a lane.
const WINDOWS: usize = 64 << 20;
/// Bytes between two reports of progress.
const PROGRESS: u64 = 64 * 1024;

/// Pushes the events of a lane into the sink.
pub(super) fn decode_lane(
    index: &Index,
    lane: usize,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let Some(lane) = index.lanes.get(lane) else {
        return Ok(());
    };
    let files = open(index, lane)?;
    let mut decoder = Decoder {
        index,
        sink,
        batch: Vec::with_capacity(BATCH),
        thread: None,
        states: HashMap::new(),
        faults: DiagnosticCount::default(),
    };
    decoder.switch(lane.thread);
    let window = (WINDOWS / files.len().max(1)).min(WINDOW);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (file, bytes) in &files {
        let mut reader = Reader::new(&index.schema, bytes, window);
        reader.describe = !index.schema.ours;
        parts.push(Part {
            head: None,
            file: *file,
            reader,
            reported: 0,
            cpu: None,
            lost: 0,
            discarded: 0,
        });
    }
    merge(&mut parts, |_, part| {
        if let Some(event) = part.head.take() {
            decoder.event(part, &event)?;
        }
        part.head = decoder.advance(part, progress)?;
        Ok::<_, Error>(part.head.map(|event| event.time))
    })?;
    decoder.finish();
    Ok(())
}

fn open(index: &Index, lane: &Lane) -> Result<Vec<(usize, FileBytes)>, Error> {
    let files = lane
        .files
        .iter()
        .filter_map(|&file| Some((file, index.files.get(file)?)));
    files
        .map(|(file, stream)| Ok((file, stream.open()?)))
        .collect()
}

/// A file of a lane.
struct Part<'a> {
    /// The next event.
    head: Option<Event>,
    file: usize,
    reader: Reader<'a>,
    /// Bytes whose progress was reported.
    reported: u64,
    /// The CPU that its packet is of.
    cpu: Option<u32>,
    /// The number of events that are missing before the next one.
    lost: u64,
    discarded: u64,
}

/// A thread's.
#[derive(Default)]
struct State {
    cpu: Option<u32>,
    /// Its open calls, if exits do not name their function.
    open: Vec<FunctionId>,
}

struct Decoder<'a> {
    index: &'a Index,
    sink: &'a mut dyn Sink,
    batch: Vec<Call>,
    /// The place of the thread that the sink got last.
    thread: Option<usize>,
    states: HashMap<usize, State>,
    faults: DiagnosticCount,
}

impl Decoder<'_> {
    /// The next event of a file. Everything in front of it is handled.
    fn advance(
        &mut self,
        part: &mut Part<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<Event>, Error> {
        loop {
            let step = part.reader.step()?;
            let position = part.reader.position();
            if position - part.reported >= PROGRESS || matches!(step, Step::End) {
                progress(position - part.reported);
                part.reported = position;
            }
            match step {
                Step::Event(event) => return Ok(Some(event)),
                Step::End => return Ok(None),
                Step::Packet(packet) => self.packet(part, &packet),
                Step::Damage {
                    at,
                    place: DamageScope::Events,
                    ..
                } if self.index.schema.ours => self.complain(part.file, at),
                // The index pass has already reported these.
                Step::Damage { .. } | Step::Padding { .. } => {}
            }
        }
    }

    fn packet(&mut self, part: &mut Part<'_>, packet: &Packet) {
        let cpu = packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        part.cpu = cpu.filter(|cpu| *cpu != NO_CPU);
        if self.index.schema.ours && packet.cpu_seen.is_some() {
            let (Some(true), Some(cpu), Some(time)) = (packet.cpu_seen, part.cpu, packet.begin)
            else {
                return;
            };
            self.mark(&Mark::Cpu {
                time: Ticks(time),
                cpu: CpuId(cpu),
            });
            return;
        }
        if let Some(discarded) = packet.discarded {
            // A counter that began anew does not show how many events were lost.
            let more = discarded.saturating_sub(part.discarded);
            part.lost = part.lost.saturating_add(more);
            part.discarded = discarded;
        }
    }

    fn event(&mut self, part: &mut Part<'_>, event: &Event) -> Result<(), Error> {
        let index = self.index;
        let Some(stream) = index.schema.streams.get(event.stream) else {
            return Ok(());
        };
        let Some(class) = stream.events.get(event.class) else {
            return Ok(());
        };
        if !index.schema.ours {
            let place = self.thread_of(part, class.thread, stream.context);
            self.switch(place);
            self.before(part, event.time);
        }
        match class.kind {
            Kind::Entry { function, flags } => {
                let function = self.function(&index.schema, part.reader.values.number(function));
                self.call(part, event.time, function, Edge::Entry, flags);
            }
            Kind::Exit {
                function: Some(function),
                flags,
            } => {
                let function = self.function(&index.schema, part.reader.values.number(function));
                self.call(part, event.time, function, Edge::Exit, flags);
            }
            Kind::Exit {
                function: None,
                flags,
            } => {
                let open = self.thread.and_then(|thread| self.states.get_mut(&thread));
                match open.and_then(|state| state.open.pop()) {
                    Some(function) => self.call(part, event.time, function, Edge::Exit, flags),
                    None => {
                        let what = "an exit of nothing that is open; it is left out".into();
                        let offset = event.offset;
                        self.complain(part.file, Diagnostic { offset, what });
                    }
                }
            }
            _ => self.other(part, event, class)?,
        }
        Ok(())
    }

    /// Events that are no calls.
    fn other(&mut self, part: &mut Part<'_>, event: &Event, class: &Class) -> Result<(), Error> {
        let (kind, name) = (class.kind, &class.name);
        let time = Ticks(event.time);
        self.hand_over();
        let reader = &mut part.reader;
        match kind {
            Kind::Arguments { values, big } => {
                for word in groups::<8>(reader.row(values)?) {
                    let value = if big {
                        u64::from_be_bytes(word)
                    } else {
                        u64::from_le_bytes(word)
                    };
                    self.sink.mark(&Mark::Argument { value });
                }
            }
            Kind::Custom { cpu, data } => {
                let cpu = u32::try_from(reader.values.number(cpu)).ok().map(CpuId);
                let data = reader.row(data)?;
                self.sink.mark(&Mark::Custom { time, cpu, data });
            }
            Kind::Typed { kind, data } => {
                let kind = reader.values.number(kind) as u16;
                let data = reader.row(data)?;
                self.sink.mark(&Mark::Typed { time, kind, data });
            }
            Kind::Lost { records } => {
                let records = reader.values.number(records);
                self.sink.mark(&Mark::missing(records, time));
            }
            Kind::Wall { seconds, micros } => {
                let seconds = reader.values.number(seconds);
                // Sinks rely on fewer than 1,000,000 microseconds.
                let micros = (reader.values.number(micros) as u32).min(999_999);
                self.sink.mark(&Mark::Wall { seconds, micros });
            }
            Kind::Note(_) | Kind::RawNote { .. } => self.note(part, event, class)?,
            Kind::Other if self.index.classes.contains_key(&class.id) => {
                self.note(part, event, class)?;
            }
            // A fact in a stream of calls. The index pass has read all facts that count.
            Kind::Fact(_) | Kind::Head => {}
            Kind::Other | Kind::Entry { .. } | Kind::Exit { .. } => {
                let data = format!("{name}: {}", reader.text);
                let (cpu, data) = (None, data.as_bytes());
                self.sink.mark(&Mark::Custom { time, cpu, data });
            }
        }
        Ok(())
    }

    /// An event that is a note. One whose description is damaged is left out.
    fn note(&mut self, part: &mut Part<'_>, event: &Event, class: &Class) -> Result<(), Error> {
        let note = note_reader::note(class, &self.index.classes, &mut part.reader)?;
        match note {
            Some((kind, body)) => self.sink.mark(&Mark::Note {
                time: Ticks(event.time),
                kind,
                body: &body,
            }),
            None => {
                let what = "an event that is no note, although it should be; it is left out".into();
                let offset = event.offset;
                self.complain(part.file, Diagnostic { offset, what });
            }
        }
        Ok(())
    }

    fn function(&self, schema: &Schema, number: u64) -> FunctionId {
        if schema.ours {
            return FunctionId(number as u32);
        }
        self.index
            .functions
            .get(&number)
            .copied()
            .unwrap_or_default()
    }

    fn call(
        &mut self,
        part: &Part<'_>,
        time: u64,
        function: FunctionId,
        edge: Edge,
        flags: Option<usize>,
    ) {
        let flags = flags.map_or(0, |slot| part.reader.values.number(slot) as u8);
        let tail = edge == Edge::Exit && flags & flags::TAIL_EXIT != 0;
        if self.index.schema.bare_exits && edge == Edge::Entry {
            let state = self.states.entry(self.thread.unwrap_or_default());
            state.or_default().open.push(function);
        }
        self.batch.push(Call {
            time: Ticks(time),
            function,
            edge: if tail { Edge::TailExit } else { edge },
            synthetic: flags & flags::SYNTHETIC != 0,
            has_arguments: flags & flags::ARGUMENTS != 0,
        });
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    fn thread_of(&self, part: &Part<'_>, own: ThreadSlots, stream: ThreadSlots) -> Option<usize> {
        match own.thread.or(stream.thread) {
            Some(slot) => {
                let id = part.reader.values.number(slot);
                self.index.thread_of.get(&id).copied()
            }
            None => self.index.files.get(part.file)?.thread,
        }
    }

    /// The facts about an event's thread in its packet's head: CPU and losses.
    fn before(&mut self, part: &mut Part<'_>, time: u64) {
        let lost = std::mem::take(&mut part.lost);
        if lost > 0 {
            self.mark(&Mark::Lost { records: lost });
        }
        let Some(cpu) = part.cpu else { return };
        let state = self
            .states
            .entry(self.thread.unwrap_or_default())
            .or_default();
        if state.cpu.replace(cpu) != Some(cpu) {
            let (time, cpu) = (Ticks(time), CpuId(cpu));
            self.mark(&Mark::Cpu { time, cpu });
        }
    }

    fn switch(&mut self, thread: Option<usize>) {
        if thread == self.thread {
            return;
        }
        let found = thread.and_then(|thread| self.index.info.threads.get(thread));
        if let Some(found) = found {
            self.hand_over();
            self.thread = thread;
            self.sink.thread(found);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.hand_over();
        self.sink.mark(mark);
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            self.sink.calls(&self.batch);
            self.batch.clear();
        }
    }

    fn complain(&mut self, file: usize, mut at: Diagnostic) {
        if !self.faults.shows(at.offset) {
            return;
        }
        self.hand_over();
        let name = self.index.files.get(file).map_or("?", |file| &file.name);
        at.what = format!("of {name}: {}", at.what);
        self.sink.diagnostic(at);
    }

    fn finish(mut self) {
        self.hand_over();
        if let Some(rest) = self.faults.rest() {
            self.sink.diagnostic(rest);
        }
    }
}
