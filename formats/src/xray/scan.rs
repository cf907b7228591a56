//! Reads a thread's ring chunks once before they are copied into a file: what must be put between their
//! records, and where they end.

use super::jump::Jump;
use super::walk::Walk;

/// Synthetic records that go into the middle of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repair {
    /// Which chunk.
    pub(super) chunk: usize,
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entry or exit.
    pub(super) entry: bool,
    /// Where its functions begin in [`Scan::repaired`].
    pub(super) first: usize,
    /// How many records.
    pub(super) count: usize,
    /// Instead of records: by how many ticks the clock jumps ahead here.
    pub(super) jump: u64,
}

/// What one look at a thread's ring chunks gives.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) walk: Walk,
    pub(super) repairs: Vec<Repair>,
    pub(super) repaired: Vec<u32>,
    /// Per chunk: where its valid bytes end; 0 for a chunk without a valid head.
    pub(super) ends: Vec<usize>,
    /// Bytes that are no record of a ring chunk.
    pub(super) discarded: u64,
}

impl Scan {
    /// `gaps`: how many records are missing before each chunk but the first.
    pub(super) fn new(chunks: &[&[u8]], gaps: &[u64]) -> Scan {
        let mut scan = Scan::default();
        for (at, chunk) in chunks.iter().enumerate() {
            if at > 0 && gaps.get(at).is_some_and(|&lost| lost > 0) {
                scan.walk.stack.gap();
            }
            let end = scan.walk.chunk(chunk, &mut |place, ids| {
                scan.repairs.push(Repair {
                    chunk: at,
                    offset: place.offset,
                    time: place.time,
                    entry: place.entry,
                    first: scan.repaired.len(),
                    count: ids.len(),
                    jump: 0,
                });
                scan.repaired.extend_from_slice(ids);
                true
            });
            let end = end.unwrap_or(0);
            scan.ends.push(end);
            scan.discarded += (chunk.len() - end) as u64;
        }
        scan
    }

    /// Adds the places where the clock jumped.
    pub(super) fn jumps(&mut self, jumps: &[Jump]) {
        self.repairs.extend(jumps.iter().map(|jump| Repair {
            chunk: jump.chunk,
            offset: jump.offset,
            time: jump.time,
            entry: false,
            first: 0,
            count: 0,
            jump: jump.ticks,
        }));
        if !jumps.is_empty() {
            self.repairs
                .sort_by_key(|repair| (repair.chunk, repair.offset));
        }
    }
}
