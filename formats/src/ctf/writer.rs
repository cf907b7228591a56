//! Writes events of any format as a CTF 1.8 folder: metadata, one stream file per thread, one stream file of facts
//! (functions, threads, the trace), and two files for Trace Compass. At most one file is open at a time. Memory is one
//! run of packets a thread, its open calls (4 bytes each), and all functions.
//!
//! The names of the files for Trace Compass begin with a dot, so CTF readers ignore them:
//! - `.fdr-functions.txt` has a line `address T name` per function, as `nm` prints it. Trace Compass's
//!   symbol provider takes it ("Configure symbol providers"). Addresses are the functions' numbers.
//! - `.tc-states/org.eclipse.linuxtools.lttng2.ust.analysis.callstack.snapshot.json` has the calls that
//!   were open before the first event. Trace Compass's call stack analysis begins with them (version 3 of
//!   its state provider).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::metadata;
use super::note_classes::{NoteClasses, polled};
use super::packets::{Packets, Times};
use super::record::{self, FACTS, NO_CPU};
use super::states;
use super::thread_encoder::{CutShort, OpenThread, ThreadEncoder};
use crate::error::{Diagnostic, Error};
use crate::model::{
    Call, ClockFaults, Function, Mark, NoteKind, Thread, ThreadId, Ticks, TraceInfo,
};
use crate::note_values::in_nanos;
use crate::sink::{Losses, Sink};
use crate::snapshot_json::{self, Attribute, Head, Value};
use crate::text::cut;
use crate::thread_numbers::{RENUMBERED, ThreadNumbers};
use crate::writer::Writer;

/// The stream file of facts.
pub(super) const FACTS_FILE: &str = "facts";
/// Names are kept whole up to this length, which no real name has.
const MAX_NAME: usize = 1 << 20;

/// A sink that writes a CTF folder.
pub struct CtfWriter {
    folder: Folder,
    uuid: [u8; 16],
    info: TraceInfo,
    times: Times,
    encoders: Vec<ThreadEncoder>,
    encoder_of: HashMap<ThreadId, usize>,
    numbers: ThreadNumbers,
    now: Option<usize>,
    facts: Packets,
    cut: CutShort,
    notes: NoteClasses,
    losses: Losses,
    failed: Option<Error>,
}

impl CtfWriter {
    /// Writes the metadata into `folder`, which exists and is empty. `info` gives clock, program and
    /// functions.
    ///
    /// # Errors
    /// Where a file can't be written.
    pub fn new(folder: PathBuf, info: &TraceInfo) -> Result<CtfWriter, Error> {
        let times = Times::new(&info.clock);
        let uuid = metadata::uuid(info);
        let folder = Folder::new(folder);
        let mut notes = NoteClasses::default();
        for function in &info.functions {
            notes.names.add(function);
        }
        if info.called().count() < info.functions.len() {
            notes.begin();
        }
        let text = metadata::text(info, uuid, times.offset, &notes);
        folder.write("metadata", text.as_bytes())?;
        notes.is_metadata_old = false;
        let mut losses = Losses::default();
        let far = times.anchor.is_some_and(|(here, unix)| {
            i128::from(unix) - i128::from(here) != i128::from(times.offset)
        });
        let what = "anchors of the clock over 292 years from 1970: other readers do not see them";
        losses.add(what, far.into());
        let what = "what is known to be wrong with the clock: left out";
        losses.add(what, (info.clock.faults != ClockFaults::default()).into());
        losses.add_untimed(&info.functions);
        Ok(CtfWriter {
            folder,
            uuid,
            info: TraceInfo {
                threads: Vec::new(),
                ..info.clone()
            },
            times,
            encoders: Vec::new(),
            encoder_of: HashMap::new(),
            numbers: ThreadNumbers::default(),
            now: None,
            facts: Packets::new(uuid, FACTS, 0),
            cut: CutShort::default(),
            notes,
            losses,
            failed: None,
        })
    }

    /// Completes all files; returns the losses.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        let start = self.start();
        for encoder in &mut self.encoders {
            if let Some(end) = self.info.end {
                encoder.end(end, &mut self.times, &mut self.cut);
            }
            encoder.finish(start);
        }
        self.write_rest()?;
        self.info.functions.sort_by_key(|function| function.id);
        let map = map(&self.info.functions);
        if !map.is_empty() {
            self.folder.write(FUNCTIONS_FILE, map.as_bytes())?;
        }
        let inside: Vec<_> = self
            .encoders
            .iter_mut()
            .filter_map(ThreadEncoder::inside)
            .collect();
        if !inside.is_empty() {
            // Times are bounded so that this sum is an i64.
            let start = self.times.offset.saturating_add_unsigned(start);
            let state = state(&inside, start)?;
            self.folder.write(STATE_FILE, &state)?;
        }
        if !self.info.schedule.is_empty() {
            let (schedule, uuid) = (std::mem::take(&mut self.info.schedule), self.uuid);
            let folder = &mut self.folder;
            let append = |bytes: &[u8]| folder.append(states::FILE, bytes);
            states::write(&schedule, uuid, &mut self.times, append)?;
        }
        self.count_losses();
        Ok(self.losses)
    }

    /// Writes the packets that are left, and the facts.
    fn write_rest(&mut self) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.describe()?;
        for encoder in &mut self.encoders {
            encoder.settle();
            let bytes = encoder.packets.ready();
            if !bytes.is_empty() {
                self.folder.append(&encoder.file, bytes)?;
                encoder.packets.clear();
            }
        }
        self.write_facts()
    }

    fn count_losses(&mut self) {
        let CutShort {
            back,
            payloads,
            cpus,
            ..
        } = self.cut;
        let what = "times past what 64 signed bits hold of ns since 1970: cut to the latest";
        self.losses.add(what, self.times.late);
        let what = "times before the thread's event before: made the same, for readers refuse them";
        self.losses.add(what, back);
        self.losses
            .add("payloads over 8 MiB: cut to that", payloads);
        self.losses.add(
            "changes to CPU 4294967295, which stands for none: left out",
            cpus,
        );
        let what = "events and arguments beyond 244 kinds: other readers see their bytes alone";
        self.losses.note(what, self.notes.classless);
        self.losses.note(RENUMBERED, self.numbers.renumbered);
    }

    /// The earliest time of all threads, ns.
    fn start(&mut self) -> u64 {
        let encoders = self.encoders.iter().filter_map(|encoder| encoder.first);
        let known = self.info.start.map(|start| self.times.nanos(start));
        encoders.chain(known).min().unwrap_or_default()
    }

    /// Hands a thread's packets to its file if they are many.
    fn spill(&mut self) {
        let Some(encoder) = self.now.and_then(|now| self.encoders.get_mut(now)) else {
            return;
        };
        if encoder.packets.is_full() && self.failed.is_none() {
            let written = self.folder.append(&encoder.file, encoder.packets.ready());
            encoder.packets.clear();
            let described = self.describe();
            self.failed = written.map_err(Error::from).and(described).err();
        }
    }

    /// Writes the metadata again if it lacks a class.
    fn describe(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.notes.is_metadata_old) {
            let text = metadata::text(&self.info, self.uuid, self.times.offset, &self.notes);
            self.folder.write("metadata", text.as_bytes())?;
        }
        Ok(())
    }

    fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        let Some(encoder) = self.now.and_then(|now| self.encoders.get_mut(now)) else {
            return;
        };
        let mut fields = Vec::new();
        let body = &in_nanos(kind, body, self.info.clock.frequency);
        let class = self.notes.put(kind, body, &mut fields);
        encoder.note(time, class, &fields, &mut self.times, &mut self.cut);
        if let Some(poll) = polled(kind, body) {
            encoder.polled(poll);
        }
        self.spill();
    }

    fn write_facts(&mut self) -> Result<(), Error> {
        let start = self.start();
        let time = self.facts.last().map_or(start, |last| last.max(start));
        let end = self.info.end.map(|end| self.times.nanos(end));
        record::trace(
            time,
            &self.info,
            self.times.anchor,
            end,
            room(&mut self.facts, time),
        );
        for at in 0..self.info.functions.len() {
            let function = &self.info.functions[at];
            record::function(time, function, room(&mut self.facts, time));
            self.write_full_facts()?;
        }
        for (id, class) in std::mem::take(&mut self.notes.undescribed) {
            record::class(time, id, &class, room(&mut self.facts, time));
            self.write_full_facts()?;
        }
        for at in 0..self.encoders.len() {
            let thread = &self.encoders[at].thread;
            record::thread(time, thread, room(&mut self.facts, time));
            self.write_full_facts()?;
        }
        self.folder.append(FACTS_FILE, self.facts.ready())?;
        self.facts.clear();
        Ok(())
    }

    fn write_full_facts(&mut self) -> Result<(), Error> {
        if self.facts.is_full() {
            self.folder.append(FACTS_FILE, self.facts.ready())?;
            self.facts.clear();
        }
        Ok(())
    }

    fn shorten(&mut self, name: &mut String) {
        if name.len() > MAX_NAME {
            name.truncate(cut(name, MAX_NAME).len());
            self.losses.add("names over 1 MiB: cut to that", 1);
        }
    }
}

/// Where the next fact goes.
fn room(facts: &mut Packets, time: u64) -> &mut Vec<u8> {
    if !facts.has_room() {
        facts.begin(time, NO_CPU, false, 0);
    }
    facts.event(time)
}

impl Sink for CtfWriter {
    fn thread(&mut self, thread: &Thread) {
        if thread.id.0 == u64::MAX {
            // To babeltrace2 this number means that there is no thread.
            let what = "threads number 18446744073709551615, which stands for none: made 1 less";
            self.losses.add(what, 1);
            let id = ThreadId(u64::MAX - 1);
            return self.thread(&Thread {
                id,
                ..thread.clone()
            });
        }
        if let Some(&encoder) = self.encoder_of.get(&thread.id) {
            self.now = Some(encoder);
            if thread.counts.is_some() {
                let mut thread = thread.clone();
                self.shorten(&mut thread.name);
                self.encoders[encoder].know(thread);
            }
            return;
        }
        let mut thread = thread.clone();
        self.shorten(&mut thread.name);
        self.now = Some(self.encoders.len());
        self.encoder_of.insert(thread.id, self.encoders.len());
        // The contexts that Trace Compass reads have 32 bits. The packet's head has the whole number.
        let number = self.numbers.begin(thread.id);
        self.encoders
            .push(ThreadEncoder::new(thread, number, &self.info, self.uuid));
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(encoder) = self.now.and_then(|now| self.encoders.get_mut(now)) else {
            return;
        };
        for call in calls {
            encoder.call(call, &mut self.times, &mut self.cut);
        }
        self.spill();
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Note { time, kind, body } = *mark {
            return self.note(time, kind, body);
        }
        let Some(encoder) = self.now.and_then(|now| self.encoders.get_mut(now)) else {
            return;
        };
        self.losses.add_left_out(mark);
        encoder.mark(mark, &mut self.times, &mut self.cut);
        self.spill();
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for CtfWriter {
    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        CtfWriter::finish(*self)
    }
}

/// The permissions of files: only their owner may read and write them.
const OWNER: u32 = 0o600;

/// A folder that is being filled.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The file that was written last.
    current: Option<(String, File)>,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Folder {
        Folder {
            path,
            current: None,
        }
    }

    /// Appends to a file. A missing file is made.
    pub(super) fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.current {
            Some((current, file)) if current == name => file,
            current => {
                let path = self.path.join(name);
                let mut options = OpenOptions::new();
                let options = options.append(true).create(true).mode(OWNER);
                let file = options.open(&path);
                let file = file.map_err(|error| named(&path, &error))?;
                &mut current.insert((name.to_owned(), file)).1
            }
        };
        let written = file.write_all(bytes);
        written.map_err(|error| named(&self.path.join(name), &error))
    }

    /// Writes a whole file, in a folder of its own if the name says so. It does not make the trace's
    /// folder. When the process ends, another part may remove that folder, and must not find it again.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent().filter(|folder| *folder != self.path) {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(folder, &error));
                }
                _ => {}
            }
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.mode(OWNER).open(&path);
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| named(&path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Name of the file of functions.
pub(super) const FUNCTIONS_FILE: &str = ".fdr-functions.txt";
/// Name of the analysis in Trace Compass, and of its file.
const ANALYSIS: &str = "org.eclipse.linuxtools.lttng2.ust.analysis.callstack";
/// Where the first state is.
pub(super) const STATE_FILE: &str =
    ".tc-states/org.eclipse.linuxtools.lttng2.ust.analysis.callstack.snapshot.json";
/// Version of that analysis.
const STATE_VERSION: u32 = 3;

/// The file of functions.
pub(super) fn map(functions: &[Function]) -> String {
    let mut text = String::new();
    let called = functions.iter().filter(|function| function.is_called());
    for Function { id, name, .. } in called {
        let _ = write!(text, "{:016x} T ", id.0);
        let name = name.chars();
        text.extend(name.map(|char| if char.is_control() { ' ' } else { char }));
        text.push('\n');
    }
    text
}

/// The first state. `start`: ns since 1970 (or of the clock, without an anchor) of the first event.
pub(super) fn state(threads: &[OpenThread], start: i64) -> io::Result<Vec<u8>> {
    let mut list = vec![(vec!["Processes".to_owned()], Value::Null)];
    let mut processes: Vec<i32> = threads.iter().map(|thread| thread.process).collect();
    processes.sort_unstable();
    processes.dedup();
    for process in processes {
        let path = vec!["Processes".to_owned(), process.to_string()];
        list.push((path.clone(), Value::Int(process.into())));
        for thread in threads.iter().filter(|thread| thread.process == process) {
            let mut path = path.clone();
            path.push(format!("{}-{}", thread.comm, thread.thread));
            list.push((path.clone(), Value::Long(thread.thread.into())));
            path.push("CallStack".to_owned());
            let depth = i64::try_from(thread.calls.len()).unwrap_or(0);
            list.push((path.clone(), Value::Int(depth)));
            for (level, call) in (1..=depth).zip(&thread.calls) {
                let path = path.iter().cloned().chain([level.to_string()]);
                list.push((path.collect(), Value::Long((*call).into())));
            }
        }
    }
    let head = Head {
        ssid: ANALYSIS,
        version: STATE_VERSION,
        time: start,
    };
    let attributes = list
        .into_iter()
        .map(|(path, value)| Attribute { path, start, value });
    let mut bytes = Vec::new();
    snapshot_json::write(&mut bytes, &head, attributes)?;
    Ok(bytes)
}
