//! The heads of blocks, and the search for blocks in files that do not say where they are: damaged or cut
//! files, and version 1.
//!
//! A head is the records that an index pass reads behind a `NewBuffer`: the preamble, and our own events
//! (names, counts, clock, program). Must never read on into the calls, nor believe a length that leaves the
//! block.
//!
//! The search reads the file once, forward, in a window. A block is recognised by its whole preamble,
//! because single records may look like one by chance.

use std::io;
use std::ops::Range;

use super::index::{DAMAGED_OWN, Indexer, MAX_PAYLOAD, RECORD};
use super::payload::{self, Payload};
use super::record::{self, Bad, Layout, METADATA_SIZE, Record};
use crate::bytes::{ReadAt, Window};
use crate::model::Thread;

impl Indexer<'_> {
    /// Reads on behind `NewBuffer` while preamble records or our own events come. Returns the first
    /// time.
    pub(super) fn head(&mut self, lane: usize, mut at: u64, end: u64) -> io::Result<Option<u64>> {
        let mut first = None;
        let mut balance = None;
        self.latest = None;
        while end.saturating_sub(at) >= RECORD {
            let (start, record) = (at, self.record_at(at)?);
            at += RECORD;
            match record {
                Some(Record::WallTime { .. }) if first.is_none() => {}
                Some(Record::Pid { process }) => {
                    let process = Some(u64::from(process));
                    self.index.info.process = process;
                    self.thread(lane).process = process;
                }
                Some(Record::NewCpu { tsc, .. }) if first.is_none() => first = Some(tsc),
                Some(Record::Custom { size, .. }) => {
                    let Some(payload) = self.payload(at, size, end)? else {
                        break;
                    };
                    at += payload.len() as u64;
                    match payload::decode(&payload, self.header.layout.order) {
                        Some(Payload::Balance { entries, exits }) => {
                            balance = Some((entries, exits))
                        }
                        Some(payload) => self.learn(lane, payload),
                        None => self.complain(start, DAMAGED_OWN.into()),
                    }
                }
                _ => break,
            }
        }
        if let (Some(counts), Some(balance)) = (&mut self.thread(lane).counts, balance) {
            (counts.synthetic_entries, counts.synthetic_exits) = balance;
        }
        Ok(first)
    }

    fn thread(&mut self, lane: usize) -> &mut Thread {
        // `lane` was just found or made by `block`.
        &mut self.index.info.threads[lane]
    }

    /// The payload at `at`, if it is ours and inside the block.
    fn payload(&mut self, at: u64, size: i32, end: u64) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(size).unwrap_or(0);
        let fits = size <= MAX_PAYLOAD && size as u64 <= end.saturating_sub(at);
        let tag = self.window.at(at, 8, end)?;
        if size == 0 || !fits || !payload::is_ours(tag) {
            return Ok(None);
        }
        let held = self.window.at(at, size, end)?;
        if let Some(payload) = held.get(..size) {
            return Ok(Some(payload.to_vec()));
        }
        let mut payload = vec![0; size];
        let count = self.bytes.read_at(at, &mut payload)?;
        Ok((count == size).then_some(payload))
    }

    fn learn(&mut self, lane: usize, payload: Payload) {
        match payload {
            Payload::Functions(list) => {
                for function in list {
                    self.functions.entry(function.id).or_insert(function);
                }
            }
            Payload::Thread {
                name,
                counts,
                latest,
            } => {
                self.latest = latest.map(|latest| latest.0);
                let thread = self.thread(lane);
                thread.name = name;
                thread.counts = counts;
            }
            Payload::Clock {
                name,
                error_ppm,
                anchor,
                until,
                trouble,
            } => {
                let clock = &mut self.index.info.clock;
                (clock.name, clock.error_ppm, clock.anchor) = (name, error_ppm, anchor);
                (clock.until, clock.trouble) = (until, trouble);
            }
            Payload::Process {
                program,
                reason,
                process,
                dump,
                missing,
                end,
            } => {
                self.ours = true;
                let info = &mut self.index.info;
                (info.program, info.reason) = (program, reason);
                (info.dump, info.missing, info.end) = (dump, missing, end);
                info.process = process.or(info.process);
            }
            Payload::Identity(identity) => self.index.info.identity = identity,
            Payload::Moment(moment) => self.index.info.moments.push(moment),
            Payload::Schedule(part) => self.index.info.schedule.append(part),
            Payload::Totals {
                is_of_missing,
                rows,
            } => match is_of_missing {
                true => self.index.info.missing_totals.extend(rows),
                false => self.thread(lane).totals.extend(rows),
            },
            Payload::EarlyCalls(calls) => self.thread(lane).early_calls.extend(calls),
            Payload::Balance { .. }
            | Payload::Synthetic { .. }
            | Payload::Lost { .. }
            | Payload::Break { .. }
            | Payload::ShortCalls { .. }
            | Payload::Threshold { .. }
            | Payload::Note(_)
            | Payload::Unknown => {}
        }
    }
}

const WINDOW: usize = 256 * 1024;
/// The most records by which a block is recognised.
const PREAMBLE: usize = 4 * METADATA_SIZE;
/// No block has ever had this many bytes.
const MAX_EXTENTS: u64 = 1 << 44;

/// A search through one file. Calls with rising offsets read each byte of the file once.
pub(super) struct Search<'a> {
    window: Window<'a>,
    size: u64,
    layout: Layout,
    /// Bytes in which no block begins, as the last call found.
    without: Range<u64>,
}

impl<'a> Search<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt, layout: Layout) -> Search<'a> {
        Search {
            window: Window::new(bytes, WINDOW),
            size: bytes.size(),
            layout,
            without: 0..0,
        }
    }

    /// Byte offset of the first block at or after `from`, if there is one.
    pub(super) fn block(&mut self, from: u64) -> io::Result<Option<u64>> {
        let known = self.without.contains(&from);
        let at = if known { self.without.end } else { from };
        let found = self.first_block(at)?;
        self.without = from..found.unwrap_or(self.size);
        Ok(found)
    }

    fn first_block(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        let layout = self.layout;
        let first = match layout.version {
            1 => Record::NewBuffer { thread: 0 },
            _ => Record::BufferExtents { bytes: 0 },
        };
        let first = record::encode_metadata(&first, layout)[0];
        loop {
            let view = self.window.at(at, PREAMBLE, self.size)?;
            let mut places = view.windows(PREAMBLE);
            let count = places.len() as u64;
            let begins = |place: &[u8]| place[0] == first && is_preamble(place, layout);
            if let Some(place) = places.position(begins) {
                return Ok(Some(at + place as u64));
            }
            if count == 0 || at.saturating_add(view.len() as u64) >= self.size {
                return Ok(None);
            }
            at += count;
        }
    }

    /// The end of the version 1 buffer at `start`: the byte offset after its last record. Also whether
    /// an `EndOfBuffer` or the next buffer ends it, and not the end of the file.
    pub(super) fn end_of_buffer(&mut self, start: u64) -> io::Result<(u64, bool)> {
        let mut at = start.saturating_add(METADATA_SIZE as u64);
        while at < self.size {
            let view = self.window.at(at, METADATA_SIZE, self.size)?;
            let mut used = 0;
            let payload = loop {
                let rest = view.get(used..).unwrap_or(&[]);
                match record::decode(rest, self.layout) {
                    Ok(Record::EndOfBuffer) => {
                        return Ok((at + (used + METADATA_SIZE) as u64, true));
                    }
                    Ok(Record::NewBuffer { .. }) => return Ok((at + used as u64, true)),
                    Ok(Record::Custom { size, .. } | Record::Typed { size, .. }) => {
                        used += METADATA_SIZE;
                        break u64::try_from(size).unwrap_or(0);
                    }
                    Ok(record) => used += record.size(),
                    Err(Bad::Action(_)) => used += record::FUNCTION_SIZE,
                    Err(Bad::Kind(_)) => used += METADATA_SIZE,
                    Err(Bad::Short) if used == 0 => return Ok((self.size, false)),
                    Err(Bad::Short) => break 0,
                }
            };
            at = at.saturating_add(used as u64).saturating_add(payload);
        }
        Ok((self.size, false))
    }
}

fn is_preamble(bytes: &[u8], layout: Layout) -> bool {
    let record = |nth: usize| record::decode(bytes.get(nth * METADATA_SIZE..)?, layout).ok();
    let first = match record(0) {
        Some(Record::BufferExtents { bytes }) if layout.version > 1 && bytes < MAX_EXTENTS => 1,
        Some(Record::NewBuffer { .. }) if layout.version == 1 => 0,
        _ => return false,
    };
    matches!(record(first), Some(Record::NewBuffer { .. }))
        && matches!(
            record(first + 1),
            Some(Record::WallTime {
                micros: ..1_000_000,
                ..
            })
        )
        && matches!(
            record(first + 2),
            Some(Record::NewCpu { .. } | Record::Pid { .. })
        )
}
