//! Merges the changes of many threads into one order of time. A source gives thread after thread, but a
//! state system needs all threads together. So changes are spooled (64 MiB in memory, then a temporary
//! file) and merged at the end. Must never hold more than one buffer of a thread.
//!
//! A spooled change is two numbers. A number has 1 to 10 bytes of 7 bits, the lowest first; the top bit is
//! set in all but the last byte.
//!
//! - The first number is the change. Bits 0 and 1 are 0 for a push, 1 for a pop or a sign of life, 2 for a
//!   CPU. The higher bits are: of a push, the function; of a sign of life, 1; of a CPU, its number.
//!   1 with bit 3 is a counter: the higher bits are 1 for a number with a fraction, and its name. Its value is a third
//!   number.
//! - The second number is the ns since the thread's previous change. For the first change, it is the ns
//!   since -1, the earliest time.
//!
//! The first change of a turn has the turn's number in front: its bits 0 and 1 are 3.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

use super::thread_encoder::{Number, Op};
use crate::model::FunctionId;
use crate::spool::{Cursor, Spool};

/// Bytes of a thread that are in memory during the merge.
const BUFFER: usize = 16 * 1024;
/// Bytes of one thread's turn that are collected before they are spooled.
const BATCH: usize = 4096;
/// Bytes of the largest change.
const LARGEST: usize = 2 * 10;
/// A bit of a change that is a counter, above its lowest two bits.
const COUNTER: u64 = 2;

/// The spooled changes of all threads.
#[derive(Debug, Default)]
pub(super) struct Changes {
    spool: Spool,
    /// Each thread's latest time.
    last: Vec<i64>,
    /// The number of times that the source changed to another thread.
    turn: u64,
    /// The current thread, once it has made a change.
    now: Option<usize>,
    /// Its changes that are not in the spool yet.
    batch: Vec<u8>,
}

impl Changes {
    /// A new thread. Threads are numbered from 0.
    pub(super) fn thread(&mut self) {
        self.spool.strand();
        self.last.push(-1);
    }

    /// The next change is this thread's.
    #[inline]
    fn turn(&mut self, thread: usize) -> io::Result<()> {
        if self.now != Some(thread) || self.batch.len() > BATCH {
            self.hand_over()?;
        }
        if self.now != Some(thread) {
            self.now = Some(thread);
            self.turn += 1;
            self.numbers([self.turn << 2 | 3, 0]);
        }
        Ok(())
    }

    /// A change of a thread, not before its last change.
    #[inline]
    pub(super) fn push(&mut self, thread: usize, time: i64, op: Op) -> io::Result<()> {
        self.turn(thread)?;
        let what = match op {
            Op::Push(FunctionId(function)) => u64::from(function) << 2,
            Op::Pop => 1,
            Op::Seen => 1 << 2 | 1,
            Op::Cpu(cpu) => u64::from(cpu) << 2 | 2,
            // It comes with its value.
            Op::Counter(_) => return Ok(()),
        };
        let last = std::mem::replace(&mut self.last[thread], time);
        self.numbers([what, time.wrapping_sub(last) as u64]);
        Ok(())
    }

    /// A counter of a thread has another value.
    #[cfg(feature = "read")]
    pub(super) fn counter(
        &mut self,
        thread: usize,
        time: i64,
        FunctionId(name): FunctionId,
        number: Number,
    ) -> io::Result<()> {
        // It begins the thread's turn, and makes room.
        self.turn(thread)?;
        let what = u64::from(name) << 5 | u64::from(number.is_double) << 4 | COUNTER << 2 | 1;
        let last = std::mem::replace(&mut self.last[thread], time);
        self.numbers([what, time.wrapping_sub(last) as u64]);
        self.numbers([number.bits, 0]);
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if let Some(thread) = self.now {
            self.spool.push(thread, &self.batch)?;
        }
        self.batch.clear();
        Ok(())
    }

    #[inline]
    fn numbers(&mut self, numbers: [u64; 2]) {
        let mut bytes = [0; LARGEST];
        let mut size = 0;
        for mut number in numbers {
            while number >= 0x80 {
                bytes[size] = number as u8 | 0x80;
                number >>= 7;
                size += 1;
            }
            bytes[size] = number as u8;
            size += 1;
        }
        // A copy of a known size is a few instructions.
        let end = self.batch.len() + size;
        self.batch.extend_from_slice(&bytes);
        self.batch.truncate(end);
    }

    /// Hands all changes over in order of time. Changes of the same time keep the order in which they
    /// came.
    pub(super) fn merge(
        mut self,
        mut take: impl FnMut(usize, i64, Op, &Number) -> io::Result<()>,
    ) -> io::Result<()> {
        self.hand_over()?;
        let (mut strands, mut turns) = (Vec::new(), BinaryHeap::new());
        for thread in 0..self.last.len() {
            let mut strand = Strand::new(&self.spool, thread);
            turns.extend(strand.next(thread)?.map(Reverse));
            strands.push(strand);
        }
        while let Some(mut earliest) = turns.peek_mut() {
            let Reverse((time, _, thread)) = *earliest;
            let strand = &mut strands[thread];
            take(thread, time, strand.op, &strand.number)?;
            match strand.next(thread)? {
                Some(turn) => *earliest = Reverse(turn),
                None => drop(PeekMut::pop(earliest)),
            }
        }
        Ok(())
    }
}

/// Time, number of the source's turn, and thread.
type Turn = (i64, u64, usize);

/// One thread's changes, read.
#[derive(Debug)]
struct Strand<'a> {
    cursor: Cursor<'a>,
    buffer: Vec<u8>,
    at: usize,
    turn: u64,
    time: i64,
    op: Op,
    /// The value of a counter.
    number: Number,
}

impl<'a> Strand<'a> {
    fn new(spool: &'a Spool, thread: usize) -> Strand<'a> {
        Strand {
            cursor: Cursor::new(spool, thread),
            buffer: Vec::new(),
            at: 0,
            turn: 0,
            time: -1,
            op: Op::Pop,
            number: Number::default(),
        }
    }

    /// Takes the next change of that thread. `None`: there are no more.
    #[inline]
    fn next(&mut self, thread: usize) -> io::Result<Option<Turn>> {
        let is_there = self.read()?;
        Ok(is_there.then_some((self.time, self.turn, thread)))
    }

    /// Takes the next change; false at the end.
    #[inline(always)]
    fn read(&mut self) -> io::Result<bool> {
        loop {
            if self.buffer.len() - self.at < 2 * LARGEST {
                self.fill()?;
            }
            if self.at == self.buffer.len() {
                return Ok(false);
            }
            let what = self.number();
            let delta = self.number() as i64;
            let payload = what >> 2;
            self.op = match what & 3 {
                0 => Op::Push(FunctionId(payload as u32)),
                1 if payload == 0 => Op::Pop,
                1 if payload & COUNTER != 0 => self.counter(payload),
                1 => Op::Seen,
                2 => Op::Cpu(payload as u32),
                _ => {
                    self.turn = payload;
                    continue;
                }
            };
            self.time = self.time.wrapping_add(delta);
            return Ok(true);
        }
    }

    #[cold]
    fn counter(&mut self, payload: u64) -> Op {
        let value = self.number();
        self.number();
        self.number = Number::new(payload & 4 != 0, value);
        Op::Counter(FunctionId((payload >> 3) as u32))
    }

    #[inline]
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some(&byte) = self.buffer.get(self.at) {
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 63 {
                break;
            }
        }
        number
    }

    #[cold]
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        while self.buffer.len() < BUFFER {
            let more = self.cursor.rest()?;
            let count = more.len().min(BUFFER - self.buffer.len());
            if count == 0 {
                break;
            }
            self.buffer.extend_from_slice(&more[..count]);
            self.cursor.skip(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_in_order_of_time() {
        let mut changes = Changes::default();
        let mut wanted = Vec::new();
        for thread in 0..3 {
            changes.thread();
            for nth in 0..50_000i64 {
                // Some changes are at the same time, some are far apart, and one is far beyond 32 bits.
                let far = if nth == 49_999 { i64::MAX / 2 } else { 0 };
                let time = -1 + nth / 2 * (3 - thread as i64) * 1000 + far;
                let number = Number::new(nth % 2 == 0, nth as u64 * (u64::MAX / 60_000));
                let op = match nth % 4 {
                    0 => Op::Push(FunctionId(u32::MAX - nth as u32)),
                    1 => Op::Pop,
                    2 => Op::Counter(FunctionId(u32::MAX - nth as u32)),
                    _ => Op::Cpu(nth as u32),
                };
                let pushed = match op {
                    Op::Counter(name) => changes.counter(thread, time, name, number),
                    op => changes.push(thread, time, op),
                };
                pushed.expect("a folder for temporary files");
                wanted.push((time, thread, op, number));
            }
        }
        // A second turn: among changes of one time, its change comes last.
        for (thread, time) in [(2, i64::MAX - 7), (0, i64::MAX - 7), (1, i64::MAX - 7)] {
            changes.push(thread, time, Op::Seen).expect("a file");
            wanted.push((time, thread, Op::Seen, Number::default()));
        }
        // Stable.
        wanted.sort_by_key(|&(time, ..)| time);
        let mut found = Vec::new();
        changes
            .merge(|thread, time, op, number| {
                found.push((time, thread, op, *number));
                Ok(())
            })
            .expect("a readable file");
        assert_eq!(found.len(), wanted.len());
        let of_counters = |all: &mut Vec<(i64, usize, Op, Number)>| {
            for (_, _, op, number) in all {
                if !matches!(op, Op::Counter(_)) {
                    *number = Number::default();
                }
            }
        };
        of_counters(&mut wanted);
        of_counters(&mut found);
        assert!(found == wanted, "the order differs");
    }
}
