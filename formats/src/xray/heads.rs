//! The heads of blocks: what an index pass learns behind a `NewBuffer`, that is preamble and events
//! of ours (names, counts, clock, program). Must never read on into the calls, and never believe a
//! length that leaves the block.

use std::io;

use super::index::{DAMAGED_OWN, Indexer, MAX_PAYLOAD, RECORD};
use super::payload::{self, Payload};
use super::record::Record;
use crate::model::Thread;

impl Indexer<'_> {
    /// Reads on behind `NewBuffer` while there are preamble and events of ours; returns the first
    /// time.
    pub(super) fn head(&mut self, lane: usize, mut at: u64, end: u64) -> io::Result<Option<u64>> {
        let mut first = None;
        let mut balance = (0, 0);
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
                        Some(Payload::Balance { entries, exits }) => balance = (entries, exits),
                        Some(payload) => self.learn(lane, payload),
                        None => self.complain(start, DAMAGED_OWN.into()),
                    }
                }
                _ => break,
            }
        }
        if let Some(counts) = &mut self.thread(lane).counts {
            (counts.synthetic_entries, counts.synthetic_exits) = balance;
        }
        Ok(first)
    }

    fn thread(&mut self, lane: usize) -> &mut Thread {
        // `lane` was just found or made by `block`.
        &mut self.index.info.threads[lane]
    }

    /// The payload at `at`, if it is one of ours and inside the block.
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
            Payload::Balance { .. }
            | Payload::Synthetic { .. }
            | Payload::Lost { .. }
            | Payload::Break { .. }
            | Payload::Unknown => {}
        }
    }
}
