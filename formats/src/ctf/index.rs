//! The index pass: the metadata, the files, their threads, and what a trace states about itself. In our own folders it
//! reads heads of packets and the facts. Other programs' traces have neither names nor threads in one place, so it
//! reads all their events. Keeps files, threads and functions.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::facts::Facts;
use super::schema::{Kind, Schema, ThreadSlots};
use super::stream::{DamageScope, Packet, Reader, Step, WINDOW};
use super::text::{self, Text};
use crate::bytes::FileBytes;
use crate::error::{Diagnostic, DiagnosticList, Error};
use crate::model::{Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo};
use crate::note_class::NoteClass;

/// A stream file.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) size: u64,
    /// The place of the thread of its events, if they do not name their thread.
    pub(super) thread: Option<usize>,
}

/// A folder, indexed.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) metadata: Text,
    pub(super) schema: Schema,
    pub(super) info: TraceInfo,
    pub(super) files: Vec<Stream>,
    /// The places of files that are decoded together, because they share threads. A thread without a
    /// file has a lane without files.
    pub(super) lanes: Vec<Lane>,
    pub(super) thread_of: HashMap<u64, usize>,
    /// The function of an address, in traces of other programs.
    pub(super) functions: HashMap<u64, FunctionId>,
    /// Classes of notes.
    pub(super) classes: HashMap<u64, NoteClass>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Files that are decoded together.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) files: Vec<usize>,
    /// Its first thread.
    pub(super) thread: Option<usize>,
}

/// Opens a folder.
pub(super) fn index(folder: &Path) -> Result<Index, Error> {
    let metadata = text::read(&folder.join("metadata"))?;
    let parsed = super::tsdl::parse(&metadata.text).map_err(|bad| {
        let line = bad.line;
        let what = format!("line {line} of the metadata: {}", bad.what);
        Error::format(metadata.offset(bad.offset), what)
    })?;
    let schema = Schema::new(&parsed)
        .map_err(|what| Error::format(0, format!("the metadata can't be used: {what}")))?;
    let order = if schema.big {
        "big-endian"
    } else {
        "little-endian"
    };
    let tracer = parsed.text("tracer_name").filter(|_| !schema.ours);
    let tracer = tracer.map_or(String::new(), |name| format!(", by {name:.60}"));
    let info = TraceInfo {
        format: format!("CTF 1.8, {order}{tracer}"),
        clock: schema.clock.clone(),
        program: schema.program.clone(),
        process: schema.process,
        ..TraceInfo::default()
    };
    let mut indexer = Indexer {
        facts: Facts::default(),
        start: None,
        diagnostics: DiagnosticList::default(),
        index: Index {
            metadata,
            schema,
            info,
            files: stream_files(folder)?,
            lanes: Vec::new(),
            thread_of: HashMap::new(),
            functions: HashMap::new(),
            classes: HashMap::new(),
            diagnostics: Vec::new(),
        },
    };
    for file in 0..indexer.index.files.len() {
        indexer.file(file)?;
    }
    Ok(indexer.finish())
}

/// Each file that babeltrace2 takes for a stream, in the order of the names.
fn stream_files(folder: &Path) -> Result<Vec<Stream>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let about = fs::metadata(entry.path());
        if name == "metadata"
            || name.starts_with('.')
            || !about.as_ref().is_ok_and(|about| about.is_file())
        {
            continue;
        }
        files.push(Stream {
            path: entry.path(),
            name,
            size: about?.len(),
            thread: None,
        });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

impl Stream {
    pub(super) fn open(&self) -> Result<FileBytes, Error> {
        Ok(FileBytes::new(File::open(&self.path)?)?)
    }
}

struct Indexer {
    index: Index,
    facts: Facts,
    start: Option<u64>,
    diagnostics: DiagnosticList,
}

impl Indexer {
    fn complain(&mut self, file: usize, offset: u64, what: &str) {
        let what = format!("of {}: {what}", self.index.files[file].name);
        self.diagnostics.add(offset, what);
    }

    fn file(&mut self, file: usize) -> Result<(), Error> {
        let bytes = self.index.files[file].open()?;
        // The schema is lent out meanwhile, because `self` changes and the schema does not.
        let schema = std::mem::take(&mut self.index.schema);
        let mut reader = Reader::new(&schema, &bytes, WINDOW);
        let result = self.read(file, &schema, &mut reader);
        self.index.schema = schema;
        result
    }

    fn read(&mut self, file: usize, schema: &Schema, reader: &mut Reader<'_>) -> Result<(), Error> {
        let mut sequence = None;
        loop {
            match reader.step()? {
                Step::End => break,
                Step::Padding { .. } => {}
                Step::Damage { at, place, .. } => {
                    // In our own folders, facts are read here, and events when they are decoded.
                    let here = !schema.ours || self.index.files[file].thread.is_none();
                    if place == DamageScope::Packets || here {
                        self.complain(file, at.offset, &at.what);
                    }
                }
                Step::Packet(packet) => {
                    self.sequence(file, sequence, &packet);
                    sequence = packet.sequence.or(sequence);
                    let facts = schema
                        .streams
                        .get(packet.stream)
                        .is_some_and(|stream| stream.facts);
                    if schema.ours && !facts {
                        self.own_packet(file, &packet);
                        reader.skip_packet();
                    }
                }
                Step::Event(event) => {
                    let stream = schema.streams.get(event.stream);
                    let Some(class) = stream.and_then(|stream| stream.events.get(event.class))
                    else {
                        continue;
                    };
                    if schema.ours {
                        if let Kind::Fact(fact) = class.kind {
                            let info = &mut self.index.info;
                            self.facts.learn(fact, schema, &event, reader, info)?;
                        }
                        continue;
                    }
                    self.start = Some(self.start.map_or(event.time, |start| start.min(event.time)));
                    let context = stream.map(|stream| stream.context).unwrap_or_default();
                    self.thread(file, class.thread, context, reader)?;
                    if let Kind::Entry { function, .. }
                    | Kind::Exit {
                        function: Some(function),
                        ..
                    } = class.kind
                    {
                        self.function(reader.values.number(function));
                    }
                }
            }
        }
        Ok(())
    }

    /// The number of packets that are missing in the middle.
    fn sequence(&mut self, file: usize, before: Option<u64>, packet: &Packet) {
        let both = before.zip(packet.sequence);
        if let Some((before, now)) = both.filter(|(before, now)| *now != before.wrapping_add(1)) {
            let what = format!("packet number {now} follows number {before}: packets are missing");
            self.complain(file, packet.offset, &what);
        }
    }

    fn own_packet(&mut self, file: usize, packet: &Packet) {
        let id = ThreadId(packet.instance.unwrap_or(file as u64));
        let thread = &mut self.index.files[file].thread;
        thread.get_or_insert_with(|| self.facts.thread(id));
        if packet.content > packet.head || packet.cpu_seen == Some(true) {
            self.start = self.start.into_iter().chain(packet.begin).min();
        }
    }

    /// Adds the thread of an event, by its contexts, or by its file.
    fn thread(
        &mut self,
        file: usize,
        own: ThreadSlots,
        stream: ThreadSlots,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let Some(slot) = own.thread.or(stream.thread) else {
            let stream = &mut self.index.files[file];
            let name = &stream.name;
            let threads = &mut self.index.info.threads;
            stream.thread.get_or_insert_with(|| {
                threads.push(Thread {
                    id: ThreadId(file as u64 + 1),
                    name: name.clone(),
                    ..Thread::default()
                });
                threads.len() - 1
            });
            return Ok(());
        };
        let id = reader.values.number(slot);
        if self.index.thread_of.contains_key(&id) {
            return Ok(());
        }
        let process = own.process.or(stream.process);
        let process = process.map(|slot| reader.values.number(slot));
        let name = match own.name.or(stream.name) {
            Some(slot) => {
                let bytes = reader.row(slot)?;
                let end = bytes.iter().position(|byte| *byte == 0);
                String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
            }
            None => String::new(),
        };
        let threads = &mut self.index.info.threads;
        self.index.thread_of.insert(id, threads.len());
        threads.push(Thread {
            id: ThreadId(id),
            process,
            name,
            ..Thread::default()
        });
        Ok(())
    }

    fn function(&mut self, address: u64) {
        let next = self.index.functions.len();
        // There are more functions than ids. The last id stands for all others.
        let id = FunctionId(u32::try_from(next + 1).unwrap_or(u32::MAX));
        self.index.functions.entry(address).or_insert(id);
    }

    fn finish(mut self) -> Index {
        if self.index.schema.ours {
            self.index.info.functions = self.facts.functions.into_values().collect();
            self.index.info.threads = self.facts.threads;
            self.index.classes = self.facts.classes;
        } else {
            let named = |(address, id): (&u64, &FunctionId)| Function {
                id: *id,
                name: format!("0x{address:x}"),
                ..Function::default()
            };
            let functions = &mut self.index.info.functions;
            functions.extend(self.index.functions.iter().map(named));
            functions.sort_by_key(|function| function.id);
        }
        self.index.info.start = self.start.map(Ticks);
        self.index.lanes = lanes(&self.index);
        self.index.diagnostics = self.diagnostics.finish();
        self.index
    }
}

/// A lane for each thread, with its files. If events name their threads, any file may have any thread: then all files are
/// one lane.
fn lanes(index: &Index) -> Vec<Lane> {
    if !index.thread_of.is_empty() {
        return vec![Lane {
            files: (0..index.files.len()).collect(),
            thread: Some(0),
        }];
    }
    let lane = |thread| Lane {
        files: Vec::new(),
        thread: Some(thread),
    };
    let mut lanes: Vec<Lane> = (0..index.info.threads.len()).map(lane).collect();
    for (place, file) in index.files.iter().enumerate() {
        if let Some(lane) = file.thread.and_then(|thread| lanes.get_mut(thread)) {
            lane.files.push(place);
        }
    }
    lanes
}
