//! Folders of CTF traces for tests: made, read back, and taken apart by a small reader of packets
//! that shares nothing with the library.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use fdr_formats::ctf::{CtfSource, CtfWriter};
use fdr_formats::{Error, Losses, Sink, Thread, TraceInfo};

use crate::common::{
    Event, Folder, Line, ReadTrace, file_name, files, list_source, push, read_source,
};

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
    Folder::written("ctf", info, pieces)
}

/// Everything of a folder.
pub fn read(folder: &Path) -> Result<ReadTrace, Error> {
    Ok(read_source(&CtfSource::open(folder)?))
}

pub fn list(folder: &Path) -> Vec<Line> {
    list_source(&CtfSource::open(folder).expect("readable metadata"))
}

/// Asserts that the listing covers every byte of every file once: metadata first, then the others by name.
pub fn covers_all(folder: &Path) {
    let lines = list(folder);
    let mut files: Vec<PathBuf> = files(folder);
    files.retain(|path| !file_name(path).starts_with('.'));
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

/// Reads a folder that has nothing to complain about.
pub fn read_whole(folder: &Path) -> ReadTrace {
    let read = read(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    assert_eq!(read.diagnostics, [], "{}", folder.display());
    read
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
