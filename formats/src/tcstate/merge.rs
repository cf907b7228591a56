//! Merges the changes of many threads into one order of time. A source gives thread after thread, but a
//! state system needs all threads together. So changes are spooled (64 MiB in memory, then a temporary
//! file) and merged at the end.
//!
//! | offset | size | field of a spooled change |
//! | --- | --- | --- |
//! | 0 | 8 | time in ns, signed |
//! | 8 | 8 | number of the turn: how often the source changed to another thread before |
//! | 16 | 8 | value of a counter |
//! | 24 | 4 | function; number of a CPU; name of a counter |
//! | 28 | 4 | 0 push, 1 pop, 2 sign of life, 3 CPU, 4 counter, 5 counter with a fraction |

use std::io;

use super::thread_encoder::{Number, Op};
use crate::bytes::{ByteOrder, Fields};
use crate::model::FunctionId;
use crate::spool::{self, Cursor, Spool};

/// Bytes of a change.
const SIZE: usize = 32;

/// The spooled changes of all threads.
#[derive(Debug, Default)]
pub(super) struct Changes {
    spool: Spool,
    /// The number of threads.
    threads: usize,
    turn: u64,
    /// The current thread, once it has made a change.
    now: Option<usize>,
}

/// A change, with its time and turn.
#[derive(Clone, Copy, Debug)]
struct Change {
    time: i64,
    turn: u64,
    op: Op,
}

impl Change {
    fn encode(&self) -> [u8; SIZE] {
        let (kind, id, bits) = match self.op {
            Op::Push(FunctionId(function)) => (0u32, function, 0),
            Op::Pop => (1, 0, 0),
            Op::Seen => (2, 0, 0),
            Op::Cpu(cpu) => (3, cpu, 0),
            Op::Counter(FunctionId(name), Number { is_double, bits }) => {
                (4 + u32::from(is_double), name, bits)
            }
        };
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.turn.to_le_bytes());
        bytes[16..24].copy_from_slice(&bits.to_le_bytes());
        bytes[24..28].copy_from_slice(&id.to_le_bytes());
        bytes[28..].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    /// `None`: too few bytes.
    fn decode(bytes: &[u8]) -> Option<Change> {
        let mut fields = Fields::new(bytes, ByteOrder::Little);
        let (time, turn, bits) = (fields.u64()? as i64, fields.u64()?, fields.u64()?);
        let (id, kind) = (fields.u32()?, fields.u32()?);
        let op = match kind {
            0 => Op::Push(FunctionId(id)),
            1 => Op::Pop,
            2 => Op::Seen,
            3 => Op::Cpu(id),
            _ => Op::Counter(FunctionId(id), Number::new(kind == 5, bits)),
        };
        Some(Change { time, turn, op })
    }
}

impl Changes {
    /// A new thread. Threads are numbered from 0.
    pub(super) fn thread(&mut self) {
        self.spool.strand();
        self.threads += 1;
    }

    /// A change of a thread, not before its last change.
    pub(super) fn push(&mut self, thread: usize, time: i64, op: Op) -> io::Result<()> {
        if self.now.replace(thread) != Some(thread) {
            self.turn += 1;
        }
        let turn = self.turn;
        let change = Change { time, turn, op };
        self.spool.push(thread, &change.encode())
    }

    /// Hands all changes over in order of time. Changes of the same time keep the order in which they
    /// came.
    pub(super) fn merge(
        self,
        mut take: impl FnMut(usize, i64, Op) -> io::Result<()>,
    ) -> io::Result<()> {
        let cursor = |thread| (Cursor::new(&self.spool, thread), None::<Change>);
        let mut strands: Vec<_> = (0..self.threads).map(cursor).collect();
        spool::merge(&mut strands, |thread, (cursor, change)| {
            if let Some(change) = change {
                take(thread, change.time, change.op)?;
            }
            *change = next(cursor)?;
            Ok(change.map(|next| (next.time, next.turn)))
        })
    }
}

/// A thread's next change. A spool keeps the bytes of a change together.
fn next(cursor: &mut Cursor<'_>) -> io::Result<Option<Change>> {
    let change = Change::decode(cursor.rest()?);
    cursor.skip(if change.is_some() { SIZE } else { 0 });
    Ok(change)
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
                let op = match nth % 4 {
                    0 => Op::Push(FunctionId(u32::MAX - nth as u32)),
                    1 => Op::Pop,
                    2 => {
                        let number = Number::new(nth % 8 == 2, nth as u64 * (u64::MAX / 60_000));
                        Op::Counter(FunctionId(u32::MAX - nth as u32), number)
                    }
                    _ => Op::Cpu(nth as u32),
                };
                let pushed = changes.push(thread, time, op);
                pushed.expect("a folder for temporary files");
                wanted.push((time, thread, op));
            }
        }
        // A second turn: among changes of one time, its change comes last.
        for (thread, time) in [(2, i64::MAX - 7), (0, i64::MAX - 7), (1, i64::MAX - 7)] {
            changes.push(thread, time, Op::Seen).expect("a file");
            wanted.push((time, thread, Op::Seen));
        }
        // Stable.
        wanted.sort_by_key(|&(time, ..)| time);
        let mut found = Vec::new();
        changes
            .merge(|thread, time, op| {
                found.push((time, thread, op));
                Ok(())
            })
            .expect("a readable file");
        assert!(found == wanted, "the order differs");
    }
}
