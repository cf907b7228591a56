//! The totals of a crashed process's threads, as blocks without records before each thread's own block. Nothing may be
//! allocated there, so the caller gives the memory for one payload. Async-signal-safe. Must never touch a file itself.

use super::chunk_scan::{ChunkStart, RING, first};
use super::crash_dump::{Out, accepted, custom, metadata};
use super::payload::{ESTIMATE_BYTES, estimate_row, estimates_head, put_totals_row, totals_head};
use super::record::{METADATA_SIZE, Record};
use crate::lengths::CLASSES;
use crate::model::{Estimate, FunctionId, RecordingCost, TraceInfo};

pub use super::payload::TotalsRow;

/// Bytes of the largest row: each class, and that calls were inside of each other.
const MAX_ROW: usize = 48 + 8 * (CLASSES + 1);

/// Rows that are gathered for the next block.
pub struct CrashTotals<'a> {
    info: &'a TraceInfo,
    thread: u32,
    first: ChunkStart,
    is_of_missing: bool,
    place: &'a mut [u8],
    used: usize,
    rows: u32,
}

impl<'a> CrashTotals<'a> {
    /// Bytes of memory that hold many rows, so that there are few blocks.
    pub const ROOM: usize = 8 * 1024;

    /// For the rows of a thread whose first chunk is `chunk`. `is_of_missing`: the rows are of threads that are
    /// not in the trace.
    pub fn new(
        info: &'a TraceInfo,
        thread: u32,
        chunk: &[u8],
        is_of_missing: bool,
        place: &'a mut [u8],
    ) -> CrashTotals<'a> {
        CrashTotals {
            info,
            thread,
            first: first(chunk, info),
            is_of_missing,
            place,
            used: 0,
            rows: 0,
        }
    }

    /// Adds a row. `lengths` has the calls of each class. `None`: `out` refused bytes.
    pub fn row(
        &mut self,
        row: &TotalsRow,
        lengths: &[u64; CLASSES],
        out: &mut Out<'_>,
    ) -> Option<()> {
        if self.place.len() < self.used + MAX_ROW {
            self.flush(out)?;
        }
        if self.rows == 0 {
            self.used = totals_head(0, false).len();
        }
        let some = (0..).zip(lengths).filter(|(_, count)| **count > 0);
        let some = some.map(|(class, count)| (class, *count));
        let (place, used) = (&mut *self.place, &mut self.used);
        put_totals_row(row, some, &mut |part| {
            if let Some(to) = place.get_mut(*used..*used + part.len()) {
                to.copy_from_slice(part);
                *used += part.len();
            }
        });
        self.rows += 1;
        Some(())
    }

    /// Writes the rows that are left. `None`: `out` refused bytes.
    pub fn finish(mut self, out: &mut Out<'_>) -> Option<()> {
        self.flush(out)
    }

    fn flush(&mut self, out: &mut Out<'_>) -> Option<()> {
        if self.rows == 0 {
            return Some(());
        }
        let head = totals_head(self.rows, self.is_of_missing);
        let payload = self.place.get_mut(..self.used)?;
        payload.get_mut(..head.len())?.copy_from_slice(&head);
        self.block(out)?;
        (self.used, self.rows) = (0, 0);
        Some(())
    }

    /// Writes the estimates of functions, behind the rows. A budget of 0: the cost is not known. `None`: `out` refused
    /// bytes.
    pub fn finish_with(
        mut self,
        cost: RecordingCost,
        estimates: &mut dyn Iterator<Item = (FunctionId, Estimate)>,
        out: &mut Out<'_>,
    ) -> Option<()> {
        self.flush(out)?;
        let mut ended = false;
        while !ended {
            let head = estimates_head(0, cost).len();
            let mut count = 0;
            self.used = head;
            ended = loop {
                if self.used + ESTIMATE_BYTES > self.place.len() {
                    break false;
                }
                let Some((function, estimate)) = estimates.next() else {
                    break true;
                };
                let to = self.place.get_mut(self.used..self.used + ESTIMATE_BYTES)?;
                to.copy_from_slice(&estimate_row(function, &estimate));
                self.used += ESTIMATE_BYTES;
                count += 1;
            };
            if count > 0 || cost.budget > 0 {
                let to = self.place.get_mut(..head)?;
                to.copy_from_slice(&estimates_head(count, cost));
                self.block(out)?;
            }
        }
        Some(())
    }

    /// A block of its own for the payload.
    fn block(&self, out: &mut Out<'_>) -> Option<()> {
        let payload = self.place.get(..self.used)?;
        let process = self.info.process.map(|process| process as u32);
        let records = 4 + usize::from(process.is_some());
        let bytes = (METADATA_SIZE * records + payload.len()) as u64;
        let ChunkStart { wall, cpu, tsc } = self.first;
        let start = self.info.start.map_or(tsc, |start| start.0);
        metadata(&Record::BufferExtents { bytes }, out)?;
        let thread = self.thread;
        metadata(&Record::NewBuffer { thread }, out)?;
        let (seconds, micros) = wall;
        metadata(&Record::WallTime { seconds, micros }, out)?;
        if let Some(process) = process {
            metadata(&Record::Pid { process }, out)?;
        }
        metadata(&Record::NewCpu { cpu, tsc: start }, out)?;
        accepted(custom(start, payload, out))
    }
}

const _: () = assert!(RING.version == 3 && CrashTotals::ROOM > 2 * MAX_ROW);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_need_no_cost() {
        let info = TraceInfo::default();
        let estimate = Estimate {
            missed: 500,
            missed_error: 20,
            ..Estimate::default()
        };
        let written = |cost, estimates: &[(FunctionId, Estimate)]| {
            let (mut place, mut bytes) = (vec![0; CrashTotals::ROOM], Vec::new());
            let mut out = |part: &[u8]| {
                bytes.extend_from_slice(part);
                true
            };
            let totals = CrashTotals::new(&info, 1, &[], true, &mut place);
            let done = totals.finish_with(cost, &mut estimates.iter().copied(), &mut out);
            assert_eq!(done, Some(()));
            bytes
        };
        let unknown = RecordingCost::default();
        let bytes = written(unknown, &[(FunctionId(7), estimate)]);
        assert!(bytes.ends_with(&estimate_row(FunctionId(7), &estimate)));
        assert!(written(unknown, &[]).is_empty());
        let known = RecordingCost {
            share: 1,
            budget: 2,
        };
        assert!(written(known, &[]).ends_with(&estimates_head(0, known)));
    }
}
