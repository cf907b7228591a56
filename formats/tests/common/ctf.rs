//! Folders of CTF traces for tests: made, read back, and taken apart by a small reader of packets
//! that shares nothing with the library.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::ctf::{CtfSource, CtfWriter};
use fdr_formats::source::Record;
use fdr_formats::{Error, Function, FunctionId, Losses, Sink, Source, Thread, TraceInfo};

use crate::common::tcstate::read_source;
use crate::common::{Event, ReadTrace, push};

/// A folder, gone at the end of the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("formats-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// A folder of these files.
    pub fn with_files(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder::new();
        for (name, bytes) in files {
            folder.put(name, bytes);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("space");
    }

    /// A file that is changed in place: writing it anew each time would wait for the disk.
    pub fn patch(&self, name: &str) -> fs::File {
        let file = fs::File::options().write(true).open(self.0.join(name));
        file.expect("a file")
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Events that belong to threads, in pieces.
pub type Pieces = Vec<(Thread, Vec<Event>)>;

pub fn writer(folder: &Folder, info: &TraceInfo) -> CtfWriter {
    CtfWriter::new(folder.path().to_owned(), info).expect("a folder")
}

pub fn tell(sink: &mut dyn Sink, pieces: &[(Thread, Vec<Event>)]) {
    for (thread, events) in pieces {
        sink.thread(thread);
        events.iter().for_each(|event| push(sink, event));
    }
}

pub fn write(info: &TraceInfo, pieces: &[(Thread, Vec<Event>)]) -> (Folder, Losses) {
    let folder = Folder::new();
    let mut writer = writer(&folder, info);
    tell(&mut writer, pieces);
    let losses = writer.finish().expect("space");
    (folder, losses)
}

/// Everything of a folder, each thread's events put together.
pub fn read(folder: &Path) -> Result<ReadTrace, Error> {
    Ok(read_source(&CtfSource::open(folder)?))
}

/// Reads a folder that has nothing to complain about.
pub fn read_whole(folder: &Path) -> ReadTrace {
    let read = read(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    assert_eq!(read.diagnostics, [], "{}", folder.display());
    read
}

/// The listing: `offset size kind detail`.
pub fn list(folder: &Path) -> Vec<(u64, u64, String, String)> {
    let source = CtfSource::open(folder).expect("readable metadata");
    let mut lines = Vec::new();
    let visit = &mut |record: &Record<'_>| {
        let (kind, detail) = (record.kind.to_owned(), record.detail.to_owned());
        lines.push((record.offset, record.size, kind, detail));
        ControlFlow::Continue(())
    };
    source.records(visit).expect("files can be read");
    lines
}

/// Asserts that the listing covers every byte of every file once.
pub fn covers_all(folder: &Path) {
    let lines = list(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file() && !hidden(path))
        .collect();
    // Metadata first, then the others by name.
    files.sort_by_key(|path| (!path.ends_with("metadata"), path.clone()));
    let mut lines = lines.iter().peekable();
    for file in files {
        let (mut at, size) = (0, fs::metadata(&file).expect("a file").len());
        while at < size {
            let (offset, bytes, kind, detail) = lines.next().expect("a line for each byte");
            assert_eq!(*offset, at, "{}: {kind} {detail}", file.display());
            at += bytes;
        }
        assert_eq!(at, size, "{}", file.display());
    }
    assert_eq!(lines.next(), None);
}

fn hidden(path: &Path) -> bool {
    let name = path.file_name().expect("a name");
    name.to_string_lossy().starts_with('.')
}

/// A packet of our own layout.
#[derive(Debug, PartialEq)]
pub struct Packet {
    pub instance: u64,
    pub begin: u64,
    pub end: u64,
    pub size: u64,
    pub sequence: u64,
    pub discarded: u64,
    pub cpu: u32,
    pub cpu_seen: u8,
    pub events: Vec<u8>,
}

/// Takes a stream file of ours apart, and checks what readers give up at.
pub fn packets(bytes: &[u8]) -> Vec<Packet> {
    let packets = taken_apart(bytes);
    let empty = packets
        .iter()
        .skip(1)
        .find(|packet| packet.events.is_empty());
    assert_eq!(empty, None, "Trace Compass ends the stream at this packet");
    packets
}

/// The same, and a packet may be its head alone.
pub fn taken_apart(bytes: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (mut packets, mut at, mut last) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        assert_eq!(bytes[at..at + 4], 0xC1FC_1FC1u32.to_le_bytes(), "byte {at}");
        let (content, size) = (word(at + 48), word(at + 56));
        assert!(
            content <= size && size % 8 == 0 && content >= 85 * 8,
            "byte {at}"
        );
        let end = at + (size / 8) as usize;
        assert!(end <= bytes.len(), "byte {at}");
        let packet = Packet {
            instance: word(at + 24),
            begin: word(at + 32),
            end: word(at + 40),
            size: size / 8,
            sequence: word(at + 64),
            discarded: word(at + 72),
            cpu: u32::from_le_bytes(bytes[at + 80..at + 84].try_into().expect("4 bytes")),
            cpu_seen: bytes[at + 84],
            events: bytes[at + 85..end].to_vec(),
        };
        assert!(
            last <= packet.begin && packet.begin <= packet.end,
            "{packet:?}"
        );
        assert_eq!(packet.sequence, packets.len() as u64);
        last = packet.end;
        at = end;
        packets.push(packet);
    }
    packets
}

pub fn function(id: u32, name: &str) -> Function {
    Function {
        id: FunctionId(id),
        name: name.into(),
        ..Function::default()
    }
}
