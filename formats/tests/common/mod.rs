//! What the tests of all formats share: a sink that keeps everything, bytes typed by hand, a small
//! generator of random numbers, and the suite that every format is stamped with.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod ctf;
pub mod dump;
pub mod entrace;
pub mod heph;
pub mod heph_packets;
pub mod htdump;
pub mod ring;
pub mod tcstate;

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fdr_formats::bytes::ReadAt;
use fdr_formats::notes::NoteKind;
use fdr_formats::source::drive;
use fdr_formats::writer::{Output, Target, Writer};
use fdr_formats::{
    Call, CpuId, Diagnostic, Edge, Function, FunctionId, Losses, Mark, Sink, Source, Thread,
    ThreadId, Ticks, TraceInfo, registry,
};

use crate::fuzz;
use crate::fuzz::test_output::TestOutput;

/// The golden file with this path in the folder of all golden files.
pub fn golden(path: &str) -> Vec<u8> {
    let path = golden_path(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where that file or folder is.
pub fn golden_path(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden")).join(path)
}

/// What that file holds.
pub fn read_golden(path: &str) -> ReadTrace {
    read(&golden(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An entry that attributes follow.
pub fn with_arguments(call: Call) -> Event {
    Event::Call(Call {
        has_arguments: true,
        ..call
    })
}

/// An event, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Call(Call),
    Cpu(u64, u32),
    Wall(u64, u32),
    Argument(u64),
    Lost(u64),
    Break(u64),
    Short(u64, u64, u64),
    Threshold(u64),
    Custom(u64, Option<u32>, Vec<u8>),
    Typed(u64, u16, Vec<u8>),
    Note(u64, NoteKind, Vec<u8>),
}

/// A sink that keeps everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLog {
    pub threads: Vec<(ThreadId, Vec<Event>)>,
    pub diagnostics: Vec<Diagnostic>,
}

impl EventLog {
    fn push(&mut self, event: Event) {
        self.threads
            .last_mut()
            .expect("a thread before its events")
            .1
            .push(event);
    }

    pub fn events(&self, thread: u64) -> &[Event] {
        let found = self.threads.iter().find(|(id, _)| *id == ThreadId(thread));
        &found
            .unwrap_or_else(|| panic!("thread {thread} is not in the trace"))
            .1
    }

    pub fn calls(&self, thread: u64) -> Vec<Call> {
        let calls = self.events(thread).iter();
        calls
            .filter_map(|event| {
                if let Event::Call(call) = event {
                    Some(*call)
                } else {
                    None
                }
            })
            .collect()
    }

    /// The times of a thread's calls.
    pub fn times(&self, thread: u64) -> Vec<u64> {
        let calls = self.calls(thread).into_iter();
        calls.map(|call| call.time.0).collect()
    }

    /// The events of a thread of which this holds.
    pub fn filtered(&self, thread: u64, holds: impl Fn(&Event) -> bool) -> Vec<Event> {
        let events = self.events(thread).iter();
        events.filter(|event| holds(event)).cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.threads.iter().map(|(_, events)| events.len()).sum()
    }
}

impl Sink for EventLog {
    fn thread(&mut self, thread: &Thread) {
        // A thread may come more than once: the last one is the one that events belong to.
        let known = self.threads.iter().position(|(id, _)| *id == thread.id);
        let events = known.map_or_else(Vec::new, |at| self.threads.remove(at).1);
        self.threads.push((thread.id, events));
    }

    fn calls(&mut self, calls: &[Call]) {
        assert!(!calls.is_empty(), "a batch without calls");
        for call in calls {
            self.push(Event::Call(*call));
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.push(match *mark {
            Mark::Cpu { time, cpu } => Event::Cpu(time.0, cpu.0),
            Mark::Wall { seconds, micros } => Event::Wall(seconds, micros),
            Mark::Argument { value } => Event::Argument(value),
            Mark::Lost { records } => Event::Lost(records),
            Mark::Break { time } => Event::Break(time.0),
            Mark::ShortCalls { time, calls, ticks } => Event::Short(time.0, calls, ticks),
            Mark::Threshold { ticks } => Event::Threshold(ticks),
            Mark::Custom { time, cpu, data } => {
                Event::Custom(time.0, cpu.map(|CpuId(cpu)| cpu), data.to_vec())
            }
            Mark::Typed { time, kind, data } => Event::Typed(time.0, kind, data.to_vec()),
            Mark::Note { time, kind, body } => Event::Note(time.0, kind, body.to_vec()),
        });
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// Gives events of a thread to a sink.
pub fn feed(sink: &mut dyn Sink, thread: &Thread, events: &[Event]) {
    sink.thread(thread);
    events.iter().for_each(|event| push(sink, event));
}

/// Gives an event to a sink.
pub fn push(sink: &mut dyn Sink, event: &Event) {
    match event {
        Event::Call(call) => sink.calls(&[*call]),
        Event::Cpu(time, cpu) => sink.mark(&Mark::Cpu {
            time: Ticks(*time),
            cpu: CpuId(*cpu),
        }),
        Event::Wall(seconds, micros) => {
            sink.mark(&Mark::Wall {
                seconds: *seconds,
                micros: *micros,
            });
        }
        Event::Lost(records) => sink.mark(&Mark::Lost { records: *records }),
        Event::Break(time) => sink.mark(&Mark::Break { time: Ticks(*time) }),
        Event::Short(time, calls, ticks) => {
            sink.mark(&Mark::ShortCalls {
                time: Ticks(*time),
                calls: *calls,
                ticks: *ticks,
            });
        }
        Event::Threshold(ticks) => sink.mark(&Mark::Threshold { ticks: *ticks }),
        Event::Argument(value) => sink.mark(&Mark::Argument { value: *value }),
        Event::Custom(time, cpu, data) => {
            sink.mark(&Mark::Custom {
                time: Ticks(*time),
                cpu: cpu.map(CpuId),
                data,
            });
        }
        Event::Note(time, kind, body) => {
            let (time, kind) = (Ticks(*time), *kind);
            sink.mark(&Mark::Note { time, kind, body });
        }
        Event::Typed(time, kind, data) => {
            sink.mark(&Mark::Typed {
                time: Ticks(*time),
                kind: *kind,
                data,
            });
        }
    }
}

pub fn thread(id: u64) -> Thread {
    named(id, &format!("thread {id}"))
}

/// Everything that a trace gives.
#[derive(Debug)]
pub struct ReadTrace {
    pub info: TraceInfo,
    pub log: EventLog,
    /// Of opening and of decoding.
    pub diagnostics: Vec<Diagnostic>,
}

impl ReadTrace {
    /// Where the diagnostics are.
    pub fn offsets(&self) -> Vec<u64> {
        let diagnostics = self.diagnostics.iter();
        diagnostics.map(|diagnostic| diagnostic.offset).collect()
    }

    /// The diagnostics as the tool prints them.
    pub fn messages(&self) -> Vec<String> {
        self.diagnostics.iter().map(ToString::to_string).collect()
    }

    /// The diagnostics without their offsets.
    pub fn problems(&self) -> Vec<&str> {
        let diagnostics = self.diagnostics.iter();
        diagnostics.map(|diagnostic| &*diagnostic.what).collect()
    }

    /// The names of the functions, in the order of the table.
    pub fn names(&self) -> Vec<&str> {
        let functions = self.info.functions.iter();
        functions.map(|function| &*function.name).collect()
    }

    /// The numbers of the threads, in the order of the table.
    pub fn thread_ids(&self) -> Vec<u64> {
        let threads = self.info.threads.iter();
        threads.map(|thread| thread.id.0).collect()
    }
}

/// Opens by content and decodes all.
pub fn read(bytes: &[u8]) -> Result<ReadTrace, fdr_formats::Error> {
    Ok(read_source(&*registry::open(Box::new(bytes.to_vec()))?))
}

/// Everything that a source gives. The events of a thread that comes more than once are put together.
pub fn read_source(source: &dyn Source) -> ReadTrace {
    let mut log = EventLog::default();
    drive(source, &mut log, &|_| {}).expect("readable bytes");
    let mut diagnostics = source.diagnostics().to_vec();
    diagnostics.append(&mut log.diagnostics);
    ReadTrace {
        info: source.info().clone(),
        log,
        diagnostics,
    }
}

/// Reads bytes that have nothing to complain about.
pub fn intact(bytes: &[u8]) -> ReadTrace {
    let read = read(bytes).expect("a readable trace");
    assert_eq!(read.diagnostics, []);
    read
}

/// Offset, size, kind and detail of a record.
pub type Line = (u64, u64, String, String);

/// The listing, one line per record.
pub fn list(bytes: &[u8]) -> Vec<Line> {
    list_source(&*registry::open(Box::new(bytes.to_vec())).expect("a readable header"))
}

pub fn list_source(source: &dyn Source) -> Vec<Line> {
    let mut lines = Vec::new();
    let visit = &mut |record: &fdr_formats::source::Record<'_>| {
        let (kind, detail) = (record.kind.to_owned(), record.detail.to_owned());
        lines.push((record.offset, record.size, kind, detail));
        ControlFlow::Continue(())
    };
    source.records(visit).expect("readable bytes");
    lines
}

/// Asserts that a listing has every byte of files of these sizes once, one file after the other.
pub fn assert_covers(lines: &[Line], sizes: &[u64], case: &str) {
    let mut found: Vec<u64> = Vec::new();
    for (offset, size, kind, detail) in lines {
        match found.last_mut() {
            Some(at) if *offset != 0 => {
                assert_eq!(offset, at, "{case}: {kind} {detail}");
                *at += size;
            }
            _ => {
                assert_eq!(*offset, 0, "{case}: {kind} {detail}");
                found.push(*size);
            }
        }
    }
    let mut sizes: Vec<u64> = sizes.iter().copied().filter(|size| *size > 0).collect();
    found.sort_unstable();
    sizes.sort_unstable();
    assert_eq!(found, sizes, "{case}");
}

/// Reads bytes that may be damaged, but for their head, and asserts that the listing has each byte once.
pub fn read_damaged(bytes: &[u8]) -> ReadTrace {
    assert_covers(&list(bytes), &[bytes.len() as u64], "damaged bytes");
    read(bytes).expect("only the head can't be damaged")
}

/// A trace that a target wrote, and its losses.
pub struct Written {
    pub place: TestOutput,
    pub losses: Losses,
}

impl Written {
    /// Of what is given to the writer.
    pub fn new(
        target: &Target,
        info: &TraceInfo,
        feed: impl FnOnce(&mut Box<dyn Writer>),
    ) -> Written {
        let place = TestOutput::new(target.kind).expect("a place");
        let output = place.output().expect("a place");
        let mut writer = (target.create)(output, info).expect("a writer");
        feed(&mut writer);
        let losses = writer.finish().expect("a place with room");
        Written { place, losses }
    }

    /// Of threads, or pieces of them, one after the other.
    pub fn of(target: &Target, info: &TraceInfo, pieces: &[(Thread, Vec<Event>)]) -> Written {
        Written::new(target, info, |writer| {
            for (thread, events) in pieces {
                feed(writer, thread, events);
            }
        })
    }

    pub fn open(&self) -> Box<dyn Source> {
        self.place.open().expect("a trace of our own")
    }

    /// Reads the trace: nothing may be wrong with it, and the listing has each byte once.
    pub fn whole(&self) -> ReadTrace {
        let source = self.open();
        let read = read_source(&*source);
        assert_eq!(read.diagnostics, []);
        let sizes = match &self.place {
            TestOutput::Folder(folder) => file_sizes(folder.path()),
            _ => vec![self.bytes().len() as u64],
        };
        assert_covers(&list_source(&*source), &sizes, "our own trace");
        read
    }

    /// The bytes of a file or stream.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.place {
            TestOutput::Bytes(bytes) => bytes.lock().expect("no writer panicked").clone(),
            TestOutput::File(file) => {
                let mut file = file.try_clone().expect("a file");
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(0)).expect("a file");
                file.read_to_end(&mut bytes).expect("a file");
                bytes
            }
            TestOutput::Folder(_) => panic!("a folder"),
        }
    }
}

/// The files in a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

pub fn file_name(path: &Path) -> String {
    let name = path.file_name().expect("a name");
    name.to_str().expect("UTF-8").to_owned()
}

/// The sizes of the files of a trace. Hidden files are for other programs.
pub fn file_sizes(folder: &Path) -> Vec<u64> {
    let files = files(folder).into_iter();
    let files = files.filter(|path| !file_name(path).starts_with('.'));
    files
        .map(|path| fs::metadata(path).expect("a file").len())
        .collect()
}

/// A folder of a trace, gone at the end of the test.
pub struct Folder(fuzz::folder::Folder);

impl Folder {
    pub fn new() -> Folder {
        Folder(fuzz::folder::Folder::new().expect("a folder"))
    }

    /// A folder of these files.
    pub fn with_files(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder::new();
        for (name, bytes) in files {
            folder.put(name, bytes);
        }
        folder
    }

    /// What a target makes of these threads, or pieces of them, and its losses.
    pub fn written(
        name: &str,
        info: &TraceInfo,
        pieces: &[(Thread, Vec<Event>)],
    ) -> (Folder, Losses) {
        let written = Written::of(target(name), info, pieces);
        let TestOutput::Folder(folder) = written.place else {
            panic!("{name} is no folder");
        };
        (Folder(folder), written.losses)
    }

    /// A copy of a golden folder without the file of that name.
    pub fn golden_without(folder: &Path, name: &str) -> Folder {
        let copy = Folder::new();
        for file in files(folder) {
            if !file.ends_with(name) {
                copy.put(&file_name(&file), fs::read(&file).expect("a file"));
            }
        }
        copy
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), bytes).expect("space");
    }

    /// A file that is changed in place.
    pub fn patch(&self, name: &str) -> fs::File {
        let file = fs::File::options().write(true).open(self.path().join(name));
        file.expect("a file")
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).expect("UTF-8")
    }

    pub fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }
}

/// Bytes that can be looked at while they are written.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no writer panicked").clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer of a stream, and the bytes that it writes.
pub fn begin(name: &str, info: &TraceInfo) -> (Box<dyn Writer>, Shared) {
    let shared = Shared::default();
    let output = Output::Stream(Box::new(shared.clone()));
    let writer = (target(name).create)(output, info).expect("a writer");
    (writer, shared)
}

pub fn target(name: &str) -> &'static Target {
    registry::target(name).unwrap_or_else(|| panic!("no target {name}"))
}

/// Writes a file or stream of the target with that name; returns its bytes and its losses.
pub fn write_with(
    name: &str,
    info: &TraceInfo,
    feed: impl FnOnce(&mut Box<dyn Writer>),
) -> (Vec<u8>, Losses) {
    let written = Written::new(target(name), info, feed);
    (written.bytes(), written.losses)
}

/// Writes threads, or pieces of them, one after the other.
pub fn write_pieces(
    name: &str,
    info: &TraceInfo,
    pieces: &[(Thread, Vec<Event>)],
) -> (Vec<u8>, Losses) {
    let written = Written::of(target(name), info, pieces);
    (written.bytes(), written.losses)
}

pub fn function(id: u32, name: &str, file: &str, line: u32) -> Function {
    Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: file.to_owned(),
        line,
        ..Function::default()
    }
}

pub fn named(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.to_owned(),
        ..Thread::default()
    }
}

pub fn call(time: u64, function: u32, edge: Edge) -> Call {
    let (time, function) = (Ticks(time), FunctionId(function));
    Call {
        time,
        function,
        edge,
        synthetic: false,
        has_arguments: false,
    }
}

pub fn enter(time: u64, function: u32) -> Call {
    call(time, function, Edge::Entry)
}

pub fn exit(time: u64, function: u32) -> Call {
    call(time, function, Edge::Exit)
}

pub fn synthetic(call: Call) -> Call {
    Call {
        synthetic: true,
        ..call
    }
}

/// Asserts that exits match entries and nothing stays open.
pub fn assert_nested(calls: &[Call]) {
    let mut open = Vec::new();
    for call in calls {
        match call.edge {
            Edge::Entry => open.push(call.function),
            Edge::Exit | Edge::TailExit => assert_eq!(open.pop(), Some(call.function), "{calls:?}"),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open in {calls:?}");
}

/// The same numbers in every run: an xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A program whose calls nest, with everything that may stand between them.
pub fn program(random: &mut Random) -> Vec<Event> {
    let mut time = 1_000_000 + random.below(1000);
    let mut open = Vec::new();
    let mut events = vec![Event::Wall(
        random.below(1 << 40),
        random.below(1_000_000) as u32,
    )];
    events.push(Event::Cpu(time, random.below(64) as u32));
    for _ in 0..random.below(300) {
        // Now and then longer than 32 bits hold.
        time += random.below(1000) + if random.below(50) == 0 { 1 << 33 } else { 0 };
        match random.below(12) {
            0..5 => {
                let function = 1 + random.below(40) as u32;
                open.push(function);
                let has_arguments = random.below(4) == 0;
                events.push(Event::Call(Call {
                    has_arguments,
                    ..enter(time, function)
                }));
                if has_arguments {
                    events.extend((0..random.below(3)).map(Event::Argument));
                }
            }
            5..10 => {
                let Some(function) = open.pop() else { continue };
                let edge = if random.below(5) == 0 {
                    Edge::TailExit
                } else {
                    Edge::Exit
                };
                events.push(Event::Call(call(time, function, edge)));
            }
            10 => events.push(Event::Cpu(time, random.below(1 << 16) as u32)),
            _ => {
                let data = (0..=random.below(40)).map(|byte| byte as u8).collect();
                events.push(Event::Custom(time, None, data));
            }
        }
    }
    events.extend(
        open.iter()
            .rev()
            .map(|&function| Event::Call(exit(time, function))),
    );
    events
}

/// Tests that damage bytes one after another, as functions of the step between the damaged bytes. The plain run takes
/// some of the bytes, and `the_rest` all of them.
macro_rules! sampled {
    ($($test:ident)+) => {$(
        mod $test {
            /// Prime to 2, 4, 5 and 8: every mask and every width of a field has its turn.
            #[test]
            fn some() {
                super::$test(7);
            }

            mod the_rest {
                #[test]
                fn all() {
                    super::super::$test(1);
                }
            }
        }
    )+};
}

/// The bytes of a format without which a file is no trace.
fn head_bytes(format: &str) -> usize {
    let heads = [
        ("XRay", 32),
        ("HawkTracer", 21),
        ("Heph", 8),
        ("ENTRACE", 10),
    ];
    let head = heads.iter().find(|(name, _)| format.starts_with(name));
    head.unwrap_or_else(|| panic!("no head of {format}")).1
}

/// The bytes in which an HTDUMP describes its records.
pub fn klass_bytes(bytes: &[u8]) -> usize {
    let lines = list(bytes).into_iter();
    let klasses = lines.take_while(|line| line.2.starts_with("HT_E"));
    klasses.map(|line| line.1 as usize).sum()
}

/// The name of a function as a person sees it.
pub fn name_of(read: &ReadTrace, id: FunctionId) -> String {
    match read.info.function(id) {
        Some(function) => function.name.clone(),
        None => id.to_string(),
    }
}

/// The events of a thread in words, in which functions have their names: a reader may number them as they come.
fn in_words(read: &ReadTrace, thread: ThreadId) -> Vec<String> {
    let words = |event: &Event| match event {
        Event::Call(call) => {
            let name = name_of(read, call.function);
            format!("{:?} {name} at {}", call.edge, call.time)
        }
        Event::Custom(time, cpu, data) => {
            format!("{} at {time} on {cpu:?}", data.escape_ascii())
        }
        other => format!("{other:?}"),
    };
    read.log.events(thread.0).iter().map(words).collect()
}

/// Cuts the file at every `step`th byte from `from` on. Nothing panics, and nothing is read that the whole file does not
/// have. The events of a thread must be the beginning of the whole file's. Where a record is a whole call, they are some
/// of them in the same order. Where calls around others come later in the file, they are some of them.
pub fn cut_everywhere(bytes: &[u8], from: usize, step: usize) {
    let whole = read(bytes).expect("the whole file is readable");
    let format = whole.info.format.clone();
    // Where the order stands for the time, a call ends earlier if others are cut off.
    let is_untimed = format.ends_with("without times");
    for end in (from..bytes.len()).step_by(step) {
        let Ok(part) = read(&bytes[..end]) else {
            assert!(
                end < head_bytes(&format),
                "cut at byte {end}: only a cut head may be an error"
            );
            continue;
        };
        assert_covers(&list(&bytes[..end]), &[end as u64], "cut");
        // A name may come after its call. Then the number stands for it.
        if part
            .problems()
            .iter()
            .any(|what| what.contains("no string is mapped"))
        {
            continue;
        }
        for (thread, _) in &part.log.threads {
            let (mut all, mut events) = (in_words(&whole, *thread), in_words(&part, *thread));
            if !format.starts_with("XRay") {
                // A format of calls has the CPU at the first edge on it. After a cut this may be another edge.
                all.retain(|event| !event.starts_with("Cpu"));
                events.retain(|event| !event.starts_with("Cpu"));
            }
            // A note whose names are cut off is shown as it is in the file.
            events.retain(|event| !event.starts_with("fdr:note="));
            if format.starts_with("HawkTracer") {
                all.sort_unstable();
                events.sort_unstable();
            }
            let mut rest = all.iter();
            let held = if is_untimed {
                events.len() <= all.len()
            } else if format.starts_with("XRay") {
                all.starts_with(&events)
            } else {
                events.iter().all(|event| rest.any(|other| other == event))
            };
            assert!(held, "cut at byte {end}: {events:?} is not in {all:?}");
        }
    }
}

/// Every byte from `from` on that a step leads to flipped, in several ways: no panic, no hang, bounded output.
pub fn flip_everywhere(bytes: &[u8], from: usize, step: usize) {
    let mut bytes = bytes.to_vec();
    let whole = read(&bytes).expect("the whole file is readable");
    let loose = bytes.len() / 8 + 8;
    // The payloads of XRay's events become records if the size before them is flipped.
    let is_xray = whole.info.format.starts_with("XRay");
    let loose_bytes = if is_xray {
        bytes.len()
    } else {
        klass_bytes(&bytes)
    };
    let most_events = if is_xray {
        loose
    } else {
        whole.log.count() + 40
    };
    for place in (from..bytes.len()).step_by(step) {
        for mask in [0x01, 0x08, 0x40, 0xff] {
            bytes[place] ^= mask;
            if let Ok(read) = read(&bytes) {
                assert!(
                    read.log.count() <= most_events,
                    "byte {place}: events out of nothing"
                );
                let most = if place < loose_bytes { loose } else { 20 };
                assert!(read.diagnostics.len() <= most, "byte {place}: a flood");
                assert_covers(&list(&bytes), &[bytes.len() as u64], "flipped");
            }
            bytes[place] ^= mask;
        }
    }
}

/// Bytes typed by hand, joined.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// XRay: enters function 1 at the running base, leaves it 5 ticks later.
pub const CALL: &str = "10000000 00000000 12000000 05000000";
/// XRay: `EndOfBuffer`.
pub const END: &str = "03 000000000000000000000000000000";

/// XRay: `NewBuffer`, `WallTime`, `NewCPUId`.
pub fn preamble(thread: u8, tsc: u8) -> String {
    format!(
        "01 {thread:02x}000000 0000000000000000000000 \
         09 0100000000000000 00000000 000000 \
         05 0100 {tsc:02x}00000000000000 0000000000"
    )
}

/// XRay: a little-endian header, 1 GHz.
pub fn header(version: u8, buffer_size: u64) -> String {
    let size: String = buffer_size
        .to_le_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{version:02x}00 0100 03000000 00ca9a3b00000000 {size} 0000000000000000")
}

/// XRay: `BufferExtents`.
pub fn extents(bytes: u64) -> String {
    let size: String = bytes
        .to_le_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("0f {size} 00000000000000")
}

pub fn file(parts: &[&str]) -> Vec<u8> {
    hex(&parts.concat())
}

/// A ring chunk as the recorder leaves it, built without the library's own encoder.
pub struct Chunk(pub Vec<u8>);

impl Chunk {
    pub fn new(thread: u32, cpu: u16, tsc: u64) -> Chunk {
        let mut chunk = Chunk(vec![0x01]);
        chunk.0.extend(thread.to_le_bytes());
        chunk.pad();
        chunk.0.push(0x09);
        chunk.0.extend(1_700_000_000u64.to_le_bytes());
        chunk.0.extend(5u32.to_le_bytes());
        chunk.pad();
        chunk.cpu(cpu, tsc)
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(16), 0);
    }

    fn meta(mut self, first: u8, body: &[u8]) -> Chunk {
        self.0.push(first);
        self.0.extend(body);
        self.0.extend(vec![0; 15 - body.len()]);
        self
    }

    pub fn cpu(self, cpu: u16, tsc: u64) -> Chunk {
        let mut body = cpu.to_le_bytes().to_vec();
        body.extend(tsc.to_le_bytes());
        self.meta(0x05, &body)
    }

    pub fn wrap(self, tsc: u64) -> Chunk {
        self.meta(0x07, &tsc.to_le_bytes())
    }

    /// What the recorder says of short calls: kind 9 with calls and ticks, kind 10 with a threshold.
    pub fn event(self, tsc: u64, kind: u8, body: u64) -> Chunk {
        let mut head = 16u32.to_le_bytes().to_vec();
        head.extend(tsc.to_le_bytes());
        let mut chunk = self.meta(0x0b, &head);
        chunk.0.extend([b'f', b'd', b'r', 0, 1, kind, 0, 0]);
        chunk.0.extend(body.to_le_bytes());
        chunk
    }

    pub fn short(self, tsc: u64, calls: u64, ticks: u64) -> Chunk {
        self.event(tsc, 9, calls | ticks << 24)
    }

    fn function(mut self, id: u32, action: u32, delta: u32) -> Chunk {
        self.0.extend((id * 16 + action * 2).to_le_bytes());
        self.0.extend(delta.to_le_bytes());
        self
    }

    pub fn enter(self, id: u32, delta: u32) -> Chunk {
        self.function(id, 0, delta)
    }

    pub fn exit(self, id: u32, delta: u32) -> Chunk {
        self.function(id, 1, delta)
    }
}

/// Counts what is read of a file.
pub struct CountingBytes(pub Vec<u8>, pub Arc<AtomicU64>);

impl ReadAt for CountingBytes {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buffer)
    }
}
