//! A ring file that is read while its process goes on: a writer that does one store at a time is moved on
//! between any two words that the reader copies, through chunks that are overwritten and slots that go
//! from thread to thread. Whatever moment it is, what is read must be an unbroken run of one thread's
//! records, and be counted exactly. And the process may be killed after any store.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use crate::common::{EventLog, Random, ReadTrace};
use fdr_formats::Source;
use fdr_formats::bytes::ReadAt;
use fdr_formats::registry;
use fdr_formats::source::drive;

const CHUNK: u64 = 64 * 1024;
/// Chunks with space.
const CHUNKS: u64 = 3;
const SLOT: u64 = 256;
const MARKS: u64 = SLOT + 128;
const FUNCTIONS: u64 = 512;
const REGION: u64 = 1024;
/// The cursor's upper half changes within the region.
const BASE: u64 = 0x7f00_ffff_0000 - REGION;
/// The ticks between the records of one owner and those of the next.
const APART: u64 = 1 << 40;

/// One store.
#[derive(Clone, Copy)]
enum Store {
    Word(u64, u64),
    Half(u64, u32),
    /// The cursor: its value, and how many records are before it.
    Cursor(u64, u64),
}

/// The recorder's side of the protocol, store by store.
struct Writer {
    memory: Vec<u8>,
    stores: VecDeque<Store>,
    random: Random,
    /// Of the present owner: its number from 1, its records, its chunk, bytes used of that.
    owner: u64,
    records: u64,
    chunk: u64,
    used: u64,
    dropped: u64,
    /// Records that the cursor in memory is behind.
    published: u64,
    /// Owners change.
    changes: bool,
    /// Chunks of the region: where they are more than have space, an owner finds that out, and goes round in
    /// those.
    all: u64,
}

impl Writer {
    fn new(seed: u64, changes: bool, all: u64) -> Writer {
        let mut writer = Writer {
            memory: vec![0; (REGION + CHUNKS * CHUNK) as usize],
            stores: VecDeque::new(),
            random: Random(seed),
            owner: 0,
            records: 0,
            chunk: 0,
            used: 0,
            dropped: 0,
            published: 0,
            changes,
            all,
        };
        writer.memory[..8].copy_from_slice(b"FDRRING\x01");
        writer.now(Store::Half(8, 4242));
        let (stride, functions) = (256, [24, FUNCTIONS]);
        let sizes = [BASE, SLOT, stride, functions[1], functions[0], REGION];
        for (at, size) in sizes.into_iter().enumerate() {
            writer.now(Store::Word(16 + 8 * at as u64, size));
        }
        writer.now(Store::Word(64, all * CHUNK));
        writer.now(Store::Half(72, 1));
        writer.now(Store::Half(76, 1));
        writer.now(Store::Word(104, 1_000_000_000));
        for (at, half) in [24, 1, 0, 1].into_iter().enumerate() {
            writer.now(Store::Half(FUNCTIONS + 4 * at as u64, half));
        }
        writer.memory[FUNCTIONS as usize + 16] = b'f';
        writer.now(Store::Word(SLOT + 24, BASE + REGION));
        writer.now(Store::Word(SLOT + 32, all));
        writer.now(Store::Half(SLOT + 116, CHUNKS as u32));
        writer
    }

    fn now(&mut self, store: Store) {
        match store {
            Store::Word(at, word) => {
                self.memory[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
            }
            Store::Cursor(cursor, records) => {
                self.published = records;
                self.now(Store::Word(SLOT, cursor));
            }
            Store::Half(at, half) => {
                self.memory[at as usize..][..4].copy_from_slice(&half.to_le_bytes());
            }
        }
    }

    /// Makes `stores` stores.
    fn go(&mut self, stores: u64) {
        for _ in 0..stores {
            if self.stores.is_empty() {
                self.plan();
            }
            if let Some(store) = self.stores.pop_front() {
                self.now(store);
            }
        }
    }

    fn word(&mut self, at: u64, word: u64) {
        self.stores.push_back(Store::Word(at, word));
    }

    fn plan(&mut self) {
        let gone = self.owner > 0 && self.changes && self.random.below(9_000) == 0;
        if self.owner == 0 || gone {
            self.begin();
        } else if self.random.below(500) == 0 {
            self.dropped += 1;
            self.word(SLOT + 56, self.dropped);
        } else {
            self.record();
        }
    }

    /// A new owner, as the recorder gives a slot away.
    fn begin(&mut self) {
        self.owner += 1;
        (self.records, self.chunk, self.used, self.dropped) = (0, 0, 0, 0);
        for state in [4, 2] {
            self.stores.push_back(Store::Half(SLOT + 72, state));
        }
        self.word(SLOT + 80, self.owner);
        self.word(SLOT + 32, self.all);
        for mark in 0..self.all {
            self.word(MARKS + 24 * mark, 0);
        }
        for field in [40, 48, 56] {
            self.word(SLOT + field, 0);
        }
        self.word(SLOT, BASE + REGION);
        let thread = 100 + self.owner as u32;
        self.stores.push_back(Store::Half(SLOT + 76, thread));
        let name = format!("thread {:<9}", self.owner).into_bytes();
        for (at, word) in name.chunks(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            self.word(SLOT + 96 + 8 * at as u64, word);
        }
        self.stores.push_back(Store::Half(SLOT + 72, 3));
    }

    fn index(&self) -> u64 {
        (self.chunk - 1) % CHUNKS
    }

    fn place(&self) -> u64 {
        REGION + self.index() * CHUNK + self.used
    }

    /// Bytes, and then the cursor behind them.
    fn commit(&mut self, words: &[u64]) {
        for &word in words {
            let at = self.place();
            self.word(at, word);
            self.used += 8;
        }
        let cursor = BASE + self.place();
        self.word(SLOT, cursor);
    }

    fn record(&mut self) {
        let time = self.owner * APART + self.records;
        let mut delta = 1;
        if self.chunk == 0 || CHUNK - self.used < 24 {
            self.open_chunk(time);
            delta = 0;
        } else if self.random.below(300) == 0 {
            let both = 0x05 | 3 << 8 | u128::from(time) << 24;
            self.commit(&[both as u64, (both >> 64) as u64]);
            delta = 0;
        }
        // The fast way stores halves.
        let (at, action) = (self.place(), self.records as u32 % 2);
        self.stores.push_back(Store::Half(at, 1 << 4 | action << 1));
        self.stores.push_back(Store::Half(at + 4, delta));
        self.used += 8;
        self.records += 1;
        let cursor = BASE + self.place();
        self.stores.push_back(Store::Cursor(cursor, self.records));
    }

    fn open_chunk(&mut self, time: u64) {
        if self.chunk > 0 {
            let old = MARKS + 24 * self.index();
            self.word(old + 16, self.used);
        }
        if self.chunk == CHUNKS && self.all > CHUNKS {
            self.word(SLOT + 32, CHUNKS);
        }
        (self.chunk, self.used) = (self.chunk + 1, 0);
        let new = MARKS + 24 * self.index();
        for (field, word) in [(0, 0), (8, self.records), (16, 0)] {
            self.word(new + field, word);
        }
        let buffer = 0x01 | (100 + self.owner) << 8;
        let cpu = 0x05 | 3 << 8 | u128::from(time) << 24;
        self.commit(&[buffer, 0, 0x09, 0, cpu as u64, (cpu >> 64) as u64]);
        self.word(new, self.chunk);
        self.word(SLOT + 40, self.chunk);
    }
}

/// The writer's memory, in which it goes on while it is read.
#[derive(Clone)]
struct Live {
    writer: Arc<Mutex<Writer>>,
    /// The least number of stores between two reads.
    least: u64,
    /// How many more stores there may be between two reads. Now and then there may be 40 times as many.
    pace: u64,
}

impl ReadAt for Live {
    fn size(&self) -> u64 {
        REGION + CHUNKS * CHUNK
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut writer = self.writer.lock().expect("no panic");
        if self.pace > 0 {
            let pace = match writer.random.below(20) {
                // The reader was away for a while.
                0 => 40 * self.pace,
                _ => self.pace,
            };
            let stores = self.least + writer.random.below(pace);
            writer.go(stores);
        }
        let mut done = 0;
        while done < buffer.len() {
            let whole = writer.memory.len().saturating_sub(offset as usize + done);
            let count = whole.min(buffer.len() - done).min(4);
            if count == 0 {
                break;
            }
            let from = offset as usize + done;
            buffer[done..done + count].copy_from_slice(&writer.memory[from..from + count]);
            done += count;
            let small = buffer.len() <= 128;
            if self.pace > 0 && (small || writer.random.below(64) == 0) {
                let stores = writer.random.below(8);
                writer.go(stores);
            }
        }
        Ok(done)
    }
}

fn read(live: &Live) -> ReadTrace {
    let source: Box<dyn Source> = registry::open(Box::new(live.clone())).expect("a ring");
    let mut log = EventLog::default();
    drive(&*source, &mut log, &|_| {}).expect("memory can be read");
    let diagnostics = [source.diagnostics(), &log.diagnostics].concat();
    ReadTrace {
        info: source.info().clone(),
        log,
        diagnostics,
    }
}

/// What must hold of any copy. Returns its records.
fn check(read: &ReadTrace, place: &str) -> u64 {
    assert_eq!(read.diagnostics, [], "{place}");
    assert!(read.info.threads.len() <= 1, "{place}");
    let Some(thread) = read.info.threads.first() else {
        return 0;
    };
    let counts = thread.counts.expect("counts");
    let calls = read.log.calls(thread.id.0);
    let measured: Vec<u64> = calls
        .iter()
        .filter(|call| !call.synthetic)
        .map(|call| call.time.0)
        .collect();
    let owner = thread.id.0 - 100;
    assert_eq!(thread.name.trim_end(), format!("thread {owner}"), "{place}");
    let sum = counts.readable + counts.overwritten + counts.dropped;
    assert_eq!(counts.recorded, sum, "{place}");
    assert_eq!(measured.len() as u64, counts.readable, "{place}");
    // A record's time says which one it is.
    let first = owner * APART + counts.overwritten;
    let run = measured
        .iter()
        .zip(first..)
        .all(|(&time, wanted)| time == wanted);
    assert!(run, "{place}: {first} begins {:?}", measured.get(..5));
    counts.readable
}

#[test]
fn live_copies_are_unbroken_runs() {
    let mut records = 0;
    for seed in 0..12 {
        for (pace, changes) in [(20, false), (2_000, false), (20, true), (1_000, true)] {
            let all = CHUNKS + seed % 2;
            let mut writer = Writer::new(seed * 7 + pace, changes, all);
            let start = writer.random.below(200_000);
            writer.go(start);
            let writer = Arc::new(Mutex::new(writer));
            let read = read(&Live {
                writer,
                least: 0,
                pace,
            });
            records += check(&read, &format!("seed {seed}, pace {pace}, {changes}"));
        }
    }
    // Not by giving up.
    assert!(records > 12 * 4 * 5_000, "{records} records were read");
}

#[test]
fn records_lost_to_fast_writers_are_counted() {
    let mut writer = Writer::new(5, false, CHUNKS);
    writer.go(50_000);
    let writer = Arc::new(Mutex::new(writer));
    // Each look finds all chunks overwritten, which takes 75,000 stores.
    let read = read(&Live {
        writer,
        least: 80_000,
        pace: 60_000,
    });
    check(&read, "too fast");
    let counts = read.info.threads[0].counts.expect("counts");
    assert!(counts.overwritten > 10_000, "{counts:?}");
}

#[test]
fn a_process_may_be_killed_after_any_store() {
    killed_after_any_store(CHUNKS, 60);
    killed_after_any_store(CHUNKS + 1, 20);
}

mod the_rest {
    #[test]
    fn a_process_may_be_killed_after_any_store() {
        super::killed_after_any_store(super::CHUNKS, 300);
        super::killed_after_any_store(super::CHUNKS + 1, 60);
    }
}

fn killed_after_any_store(all: u64, times: u32) {
    let mut writer = Writer::new(11, false, all);
    let mut stored = 0;
    let live = |writer: Writer| Live {
        writer: Arc::new(Mutex::new(writer)),
        least: 0,
        pace: 0,
    };
    // Just before a chunk's end, in the first round and later, and then store after store.
    for stores in [40, 24_400, 24_400, 24_400, 24_400, 24_400] {
        writer.go(stores);
        for _ in 0..times {
            writer.go(1);
            stored += 1;
            let place = format!("store {stored}, chunk {}", writer.chunk);
            let live = live(writer);
            let read = read(&live);
            check(&read, &place);
            let lock = Arc::into_inner(live.writer).expect("one owner");
            writer = lock.into_inner().expect("no panic");
            let counts = read.info.threads.first().and_then(|thread| thread.counts);
            let counts = counts.unwrap_or_default();
            let committed = counts.recorded - counts.dropped;
            assert_eq!(committed, writer.published, "{place}");
        }
    }
    assert!(writer.chunk > CHUNKS + 1);
}
