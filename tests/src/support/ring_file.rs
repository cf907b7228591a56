//! A second reader of the ring file. It shares only the documented layout with the recorder, so it shows that the
//! description is enough to read a dead process's file.
//!
//! Native byte order. A field has 8 bytes, unless the table gives its type.
//!
//! | part | offset | field |
//! | --- | --- | --- |
//! | header | 0 | magic |
//! | | 8 | process (u32) |
//! | | 16 | address of the file's start |
//! | | 24, 32 | offset of the slots, bytes from slot to slot |
//! | | 40, 48 | offset and length of the function table |
//! | | 76 | slots made (u32) |
//! | | 112, 128 | overwritten records of threads whose slot another thread got; records of threads without a slot |
//! | | 232 | bytes from a slot to its open calls; 0: the slots have none |
//! | counter | 4096, then every 128 bytes, 128 counters | records of threads without a slot, on one CPU |
//! | slot | 0 | cursor, an address |
//! | | 24, 32 | address of the region, its chunks |
//! | | 40 | number of the current chunk, from 1 |
//! | | 56 | records dropped |
//! | | 72 | state (u32): 3 live, 4 ended |
//! | | 76 | thread (u32) |
//! | | 96 | name, 16 bytes |
//! | mark, 24 bytes each, from offset 128 of the slot | 0, 8, 16 | number, records made before, bytes used |
//! | open calls | 0, 4 | how many calls are open; how many of these have their entry in a chunk (u32 each) |
//! | | 16 | calls that left no records |
//! | function | 0, 4, 12 | bytes of the entry (u32), id (u32), bytes of the name (u16) |
//! | | 16 | name |

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CHUNK: u64 = 64 * 1024;
/// NewBuffer, WallTime, NewCPUId: 16 bytes each.
const PREAMBLE: u64 = 48;

/// What a ring file holds.
#[derive(Debug)]
pub struct RingFile {
    /// The process.
    pub pid: u32,
    /// Records that are in no slot: of threads that had one, and of those that never got one.
    pub overwritten: u64,
    /// See `overwritten`.
    pub dropped: u64,
    /// Names by id.
    pub functions: BTreeMap<u32, String>,
    /// Threads that recorded, in the order of their slots.
    pub threads: Vec<RingThread>,
}

/// What it holds of one thread.
#[derive(Debug)]
pub struct RingThread {
    /// As the kernel counts.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// It had ended.
    pub ended: bool,
    /// Records that were asked for and not written.
    pub dropped: u64,
    /// Records of calls that left none.
    pub summarised: u64,
    /// Entries of open calls that are not in a chunk.
    pub waiting: u64,
    /// How many records had been made before the first of `edges`.
    pub before: u64,
    /// Committed records: function id << 1, and 1 more for an exit.
    pub edges: Vec<u32>,
}

struct Bytes(File);

impl Bytes {
    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.0.read_exact_at(&mut bytes, offset);
        read.unwrap_or_else(|error| panic!("{length} bytes at {offset}: {error}"));
        bytes
    }

    fn u64(&self, offset: u64) -> u64 {
        let bytes = self.read(offset, 8);
        u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
    }

    fn u32(&self, offset: u64) -> u32 {
        u32_at(&self.read(offset, 4), 0)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

impl RingFile {
    /// Every record that was asked for, wherever it went.
    #[must_use]
    pub fn asked_for(&self) -> u64 {
        let of_thread = |thread: &RingThread| {
            let without_records = thread.dropped + thread.summarised + thread.waiting;
            thread.before + thread.edges.len() as u64 + without_records
        };
        self.threads.iter().map(of_thread).sum::<u64>() + self.overwritten + self.dropped
    }

    /// Reads a file.
    ///
    /// # Panics
    ///
    /// If it is not as documented.
    #[must_use]
    pub fn read(path: &Path) -> RingFile {
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = Bytes(file);
        assert_eq!(file.read(0, 8), b"FDRRING\x01", "{}", path.display());
        let made = u64::from(file.u32(76));
        let slots = (0..made).map(|index| file.u64(24) + index * file.u64(32));
        RingFile {
            pid: file.u32(8),
            overwritten: file.u64(112),
            dropped: dropped(&file),
            functions: functions(&file),
            threads: slots.filter_map(|slot| thread(&file, slot)).collect(),
        }
    }
}

fn dropped(file: &Bytes) -> u64 {
    let counters = (4096..file.u64(24)).step_by(128).take(128);
    file.u64(128) + counters.map(|at| file.u64(at)).sum::<u64>()
}

fn functions(file: &Bytes) -> BTreeMap<u32, String> {
    let table = file.read(file.u64(40), file.u64(48) as usize);
    let mut functions = BTreeMap::new();
    let mut entry = &table[..];
    while !entry.is_empty() {
        let length = usize::from(u16::from_ne_bytes([entry[12], entry[13]]));
        let name = String::from_utf8(entry[16..16 + length].to_vec()).expect("UTF-8");
        functions.insert(u32_at(entry, 4), name);
        entry = &entry[u32_at(entry, 0) as usize..];
    }
    functions
}

fn thread(file: &Bytes, slot: u64) -> Option<RingThread> {
    let state = file.u32(slot + 72);
    if state != 3 && state != 4 {
        return None;
    }
    let (chunks, current) = (file.u64(slot + 32), file.u64(slot + 40));
    let region = file.u64(slot + 24) - file.u64(16);
    let cursor = file.u64(slot) - file.u64(16);
    let (mut before, mut edges) = (None, Vec::new());
    for number in (current.saturating_sub(chunks)..current).map(|before| before + 1) {
        let index = (number - 1) % chunks;
        let mark = slot + 128 + index * 24;
        let start = region + index * CHUNK;
        // The oldest chunk is being overwritten where its number is not what it should be.
        if file.u64(mark) != number {
            assert_eq!(number + chunks, current + 1, "chunk {number} of {current}");
            continue;
        }
        let within = cursor.wrapping_sub(start);
        let here = (PREAMBLE..=CHUNK).contains(&within);
        let used = if here { within } else { file.u64(mark + 16) };
        let made = file.u64(mark + 8);
        assert_eq!(
            *before.get_or_insert(made) + edges.len() as u64,
            made,
            "chunk {number}"
        );
        let bytes = file.read(start, used as usize);
        assert_eq!(
            bytes[1..5],
            file.read(slot + 76, 4),
            "NewBuffer of chunk {number}"
        );
        walk(&bytes, &mut edges);
    }
    let (mut short, mut waiting) = (0, 0);
    let open_calls = file.u64(232);
    if open_calls > 0 {
        let calls = slot + open_calls;
        let open = file.u64(calls);
        short = open >> 16;
        // The record is published, and the frames do not say so yet.
        let is_published = file.u64(calls + 16) == file.u64(slot);
        let published = if is_published { calls + 40 } else { calls + 1 };
        waiting = (open & 0xff) - u64::from(file.read(published, 1)[0]);
    }
    let name = file.read(slot + 96, 16);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(RingThread {
        tid: file.u32(slot + 76),
        name: String::from_utf8_lossy(name).into_owned(),
        ended: state == 4,
        dropped: file.u64(slot + 56),
        summarised: 2 * short,
        waiting,
        before: before.unwrap_or(0),
        edges,
    })
}

/// The function records of a chunk; anything that is no record fails.
fn walk(chunk: &[u8], edges: &mut Vec<u32>) {
    assert_eq!([chunk[0], chunk[16], chunk[32]], [0x01, 0x09, 0x05]);
    let mut at = PREAMBLE as usize;
    while at < chunk.len() {
        // A summary of short calls, or the threshold: an event of 16 bytes.
        if chunk[at] == 0x0b {
            assert_eq!(u32_at(chunk, at + 1), 16, "an event at {at}");
            at += 32;
            continue;
        }
        if chunk[at] & 1 == 1 {
            assert!(
                matches!(chunk[at], 0x05 | 0x07) && at + 16 <= chunk.len(),
                "byte {:#x} at {at}",
                chunk[at]
            );
            at += 16;
            continue;
        }
        let word = u32_at(chunk, at);
        let (function, action) = (word >> 4, word >> 1 & 7);
        assert!(
            function > 0 && action < 2 && at + 8 <= chunk.len(),
            "{word:#x} at {at}"
        );
        edges.push(function << 1 | action);
        at += 8;
    }
}
