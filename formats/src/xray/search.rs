//! The search for blocks in files that do not say where they are: damaged or cut files, and version 1.
//!
//! The search reads the file once, forward, in a window. A block is recognised by its whole preamble,
//! because single records may look like one by chance.

use std::io;
use std::ops::Range;

use super::record::{self, Bad, Layout, METADATA_SIZE, Record};
use crate::bytes::{ReadAt, Window};

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
