//! Ring chunks, or parts of them, to events: how a recorder's own rings are read while they are
//! written. A chunk is a little-endian block without what files add: `NewBuffer`, `WallTime`,
//! `NewCPUId`, then function records, `NewCPUId`, `TSCWrap`, `CallArgument`. Keeps the running time
//! and the CPU between two parts; must never guess a time, or stop at a record that it does not know.

use super::record::{self, Action, Bad, FUNCTION_SIZE, Layout, METADATA_SIZE, Record};
use super::time::{Running, Turn};
use crate::bytes::ByteOrder;
use crate::model::{Call, CpuId, FunctionId, Mark, Ticks};
use crate::packed::EDGES;
use crate::sink::Sink;

const RING: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};
/// Calls handed over at once.
const BATCH: usize = 512;

/// Decodes one thread's chunks, in order, in parts of whole records.
#[derive(Clone, Debug, Default)]
pub struct ChunkDecoder {
    time: Running,
    cpu: Option<CpuId>,
    unknown: u64,
}

impl ChunkDecoder {
    /// For a thread of which nothing was read yet.
    #[must_use]
    pub fn new() -> ChunkDecoder {
        ChunkDecoder::default()
    }

    /// The time of the last record, in ticks, and the CPU of it, once a record said it.
    #[must_use]
    pub fn place(&self) -> (Ticks, Option<CpuId>) {
        (Ticks(self.time.now().unwrap_or(0)), self.cpu)
    }

    /// Bytes that were no records of a ring chunk, so far.
    #[must_use]
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown
    }

    /// Pushes the events of `bytes` into the sink; returns how many function records they held.
    /// A change of CPU is told only where it is one. The sink knows already which thread it is.
    pub fn decode(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> u64 {
        let mut batch = Batch {
            calls: [Call::NONE; BATCH],
            filled: 0,
            sink,
        };
        let (mut at, mut records) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let used = self.functions(rest, &mut batch);
            records += (used / FUNCTION_SIZE) as u64;
            at += used;
            if used == 0 {
                at += self.other(rest, &mut batch);
            }
        }
        batch.settle();
        records
    }

    /// The inner loop: function records until anything else.
    fn functions(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> usize {
        let (mut used, mut time) = (0, self.time.now().unwrap_or(0));
        for bytes in bytes.as_chunks::<FUNCTION_SIZE>().0 {
            let word = record::function_word::<false>(*bytes);
            // Bit 0 tells a metadata record, bit 3 an action that is none.
            if word & 0b1001 != 0 {
                break;
            }
            time = time.wrapping_add(word >> 32);
            let action = (word >> 1) as usize & 3;
            batch.push(Call {
                time: Ticks(time),
                function: FunctionId(word as u32 >> 4),
                edge: EDGES[action],
                synthetic: false,
                has_arguments: action == Action::EntryArgs as usize,
            });
            used += FUNCTION_SIZE;
        }
        self.time.advance(time);
        used
    }

    /// Any other record; returns its size.
    fn other(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> usize {
        match record::decode(bytes, RING) {
            Ok(Record::NewCpu { cpu, tsc }) => {
                let (time, cpu) = (self.set_time(tsc, batch), CpuId(cpu.into()));
                if self.cpu.replace(cpu) != Some(cpu) {
                    batch.mark(&Mark::Cpu { time, cpu });
                }
                METADATA_SIZE
            }
            Ok(Record::TscWrap { tsc }) => {
                self.set_time(tsc, batch);
                METADATA_SIZE
            }
            Ok(Record::CallArgument { value }) => {
                batch.mark(&Mark::Argument { value });
                METADATA_SIZE
            }
            // Of whom and when the chunk is, who reads rings knows better.
            Ok(Record::NewBuffer { .. } | Record::WallTime { .. }) => METADATA_SIZE,
            Ok(_) | Err(Bad::Kind(_)) => self.skip(METADATA_SIZE),
            Err(Bad::Action(_)) => self.skip(FUNCTION_SIZE),
            Err(Bad::Short) => self.skip(bytes.len()),
        }
    }

    fn set_time(&mut self, tick: u64, batch: &mut Batch<'_>) -> Ticks {
        let before = self.time.now().unwrap_or(tick);
        if self.time.set(tick) == Turn::Break {
            let time = Ticks(before);
            batch.mark(&Mark::Break { time });
        }
        Ticks(self.time.now().unwrap_or(tick))
    }

    fn skip(&mut self, bytes: usize) -> usize {
        self.unknown += bytes as u64;
        bytes
    }
}

/// Calls that wait to be handed over.
struct Batch<'a> {
    calls: [Call; BATCH],
    filled: usize,
    sink: &'a mut dyn Sink,
}

impl Batch<'_> {
    #[inline]
    fn push(&mut self, call: Call) {
        if self.filled == BATCH {
            self.settle();
        }
        self.calls[self.filled] = call;
        self.filled += 1;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.settle();
        self.sink.mark(mark);
    }

    fn settle(&mut self) {
        let calls = self.calls.get(..self.filled).unwrap_or(&[]);
        if !calls.is_empty() {
            self.sink.calls(calls);
        }
        self.filled = 0;
    }
}
