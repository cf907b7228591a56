//! What a chunk of the ring may hold, as the recorder writes it: `NewBuffer`, `WallTime`, `NewCPUId`, then function
//! records, `NewCPUId`, `TSCWrap`, the events of short calls, and notes. Pure. Must accept nothing else, because a
//! damaged file may hold anything.

use crate::xray::payload;

/// Bytes of `NewBuffer`, `WallTime` and `NewCPUId`. A chunk without them has no record.
pub(super) const PREAMBLE: u64 = 48;

/// First bytes of metadata records, which have 16 bytes.
const NEW_BUFFER: u8 = 0x01;
const WALL_TIME: u8 = 0x09;
const NEW_CPU: u8 = 0x05;
const TSC_WRAP: u8 = 0x07;
const CUSTOM: u8 = 0x0b;

/// Bytes of an event before its payload, and up to the end of the payload's head.
const EVENT: usize = 16;
const EVENT_HEAD: usize = 24;

/// How far a chunk is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// Bytes from its start; 0 if its head is not that thread's.
    pub(super) bytes: usize,
    /// Function records in them.
    pub(super) records: u64,
}

/// Walks through a chunk, at most to the function record of that number.
pub(super) fn walk(chunk: &[u8], thread: u32, most: u64) -> Walked {
    if !is_head(chunk, thread) {
        return Walked::default();
    }
    let mut walked = Walked {
        bytes: PREAMBLE as usize,
        records: 0,
    };
    while let Some(word) = chunk.get(walked.bytes..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*word);
        if word & 1 == 0 {
            let (id, action) = (word as u32 >> 4, word >> 1 & 7);
            // Id 0 is no function, so this place was never written.
            if id == 0 || action > 1 || walked.records == most {
                break;
            }
            walked.records += 1;
            walked.bytes += 8;
        } else if matches!(word as u8, NEW_CPU | TSC_WRAP) && chunk.len() - walked.bytes >= 16 {
            walked.bytes += 16;
        } else if let Some(bytes) = own_event(&chunk[walked.bytes..]) {
            walked.bytes += bytes;
        } else {
            break;
        }
    }
    walked
}

/// The bytes of the event that stands at the beginning. `None`: the recorder writes no such event, or it is cut.
fn own_event(bytes: &[u8]) -> Option<usize> {
    let event = bytes.first_chunk::<EVENT_HEAD>()?;
    let (first, head) = (event.first_chunk()?, event.last_chunk()?);
    let size = (u64::from_le_bytes(*first) >> 8) as u32 as usize;
    let is_own = event[0] == CUSTOM && payload::is_of_ring(*head, size);
    (is_own && bytes.len() - EVENT >= size).then_some(EVENT + size)
}

/// The tick of a chunk's first record; `None` if the chunk is not that thread's.
pub(super) fn opened_at(chunk: &[u8], thread: u32) -> Option<u64> {
    let ticks = chunk.get(35..43)?.try_into().ok()?;
    is_head(chunk, thread).then(|| u64::from_le_bytes(ticks))
}

fn is_head(chunk: &[u8], thread: u32) -> bool {
    chunk
        .first_chunk::<{ PREAMBLE as usize }>()
        .is_some_and(|head| {
            let kinds = [head[0], head[16], head[32]] == [NEW_BUFFER, WALL_TIME, NEW_CPU];
            kinds && head[1..5] == thread.to_le_bytes()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 7, and two records of function 1 with a `NewCPUId` between them.
    fn chunk() -> Vec<u8> {
        let mut chunk = vec![0; 80];
        (chunk[0], chunk[1], chunk[16], chunk[32]) = (NEW_BUFFER, 7, WALL_TIME, NEW_CPU);
        (chunk[48], chunk[56], chunk[72]) = (0x10, NEW_CPU, 0x12);
        chunk
    }

    fn good(chunk: &[u8]) -> (usize, u64) {
        let walked = walk(chunk, 7, u64::MAX);
        (walked.bytes, walked.records)
    }

    #[test]
    fn chunks_are_good_up_to_their_records() {
        assert_eq!(good(&chunk()), (80, 2));
        assert_eq!(good(&chunk()[..79]), (72, 1));
        assert_eq!(good(&chunk()[..71]), (56, 1));
        assert_eq!(good(&chunk()[..47]), (0, 0));
        // The recorder never writes a tail exit, nor function 0.
        for (place, byte, wanted) in [
            (72, 0x14, (72, 1)),
            (72, 0x02, (72, 1)),
            (56, 0x0b, (56, 1)),
            (32, NEW_BUFFER, (0, 0)),
            (2, 1, (0, 0)),
        ] {
            let mut chunk = chunk();
            chunk[place] = byte;
            assert_eq!(good(&chunk), wanted, "{byte:#x} at {place}");
        }
    }

    #[test]
    fn a_chunk_tells_when_it_was_opened() {
        let mut chunk = chunk();
        (chunk[35], chunk[42]) = (2, 1);
        assert_eq!(opened_at(&chunk, 7), Some(1 << 56 | 2));
        assert_eq!(opened_at(&chunk, 8), None);
        assert_eq!(opened_at(&chunk[..47], 7), None);
    }

    #[test]
    fn a_walk_ends_at_a_number_of_records() {
        assert_eq!(walk(&chunk(), 7, 1).records, 1);
        assert_eq!(
            walk(&chunk(), 7, 0),
            Walked {
                bytes: 48,
                records: 0
            }
        );
        assert_eq!(walk(&chunk(), 8, 2), Walked::default());
    }
}
