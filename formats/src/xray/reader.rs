//! The `Source` of XRay FDR files, and parts of a thread. It connects the index with the decoder and the
//! listing. It must never keep the file: it holds the index only.
//!
//! A block may be as large as the file, so a thread is divided inside its blocks too, at a record that sets
//! the time. That record is found by its bytes. A payload can hold the same bytes, so a cut is a guess. The
//! part before the cut must confirm it by ending at that offset. Parts must never give other events than a
//! decoder without cuts.

use std::ops::ControlFlow;

use super::decode::Decoder;
use super::index::{self, Block, Index};
use super::list;
use super::record::{self, FUNCTION_SIZE, METADATA_SIZE};
use crate::bytes::{ReadAt, Window};
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Complaints, Part, Position, Record, Source};

/// An XRay FDR file, opened and indexed. A lane is a thread: lane `n` is the `n`th of
/// [`TraceInfo::threads`].
pub struct XraySource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl XraySource {
    /// Reads the header and the heads of all blocks.
    ///
    /// # Errors
    /// Where the file can't be read, or its header is none of XRay's.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<XraySource, Error> {
        let index = index::index(&*bytes)?;
        Ok(XraySource { bytes, index })
    }

    /// Version of the file, 1 to 5.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.index.layout.version
    }

    /// Says of what the file is the copy, and what was wrong there.
    pub(crate) fn is_copy_of(&mut self, origin: &str, mut diagnostics: Vec<Diagnostic>) {
        let Index {
            info,
            diagnostics: own,
            ..
        } = &mut self.index;
        info.format = format!("{origin}, as {}", info.format);
        diagnostics.append(own);
        *own = diagnostics;
    }
}

impl Source for XraySource {
    fn info(&self) -> &TraceInfo {
        &self.index.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.index.diagnostics
    }

    fn lanes(&self) -> usize {
        self.index.lanes.len()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        let places = self.index.lanes.get(lane).map_or(&[][..], |places| places);
        let blocks = places
            .iter()
            .filter_map(|&place| self.index.blocks.get(place));
        blocks.map(|block| block.end - block.start).sum()
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let (from, to) = (Position::default(), None);
        let mut complaints = Complaints::default();
        self.decode_part(&Part { lane, from, to }, sink, &mut complaints, progress)?;
        if let Some(rest) = complaints.rest() {
            sink.diagnostic(rest);
        }
        Ok(())
    }

    fn cuts(&self, lane: usize, bytes: u64) -> Result<Vec<Position>, Error> {
        cuts(&*self.bytes, &self.index, lane, bytes)
    }

    fn decode_part(
        &self,
        part: &Part,
        sink: &mut dyn Sink,
        complaints: &mut Complaints,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Position, Error> {
        decode_part(&*self.bytes, &self.index, part, sink, complaints, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}

/// Bytes of the file in memory: enough for long reads, and less than a second-level cache.
const WINDOW: usize = 256 * 1024;
/// Bytes in which a cut is looked for, at most, and how many at once.
const REACH: u64 = 1 << 20;
const PEEK: usize = 64 * 1024;
/// So many records behind a cut must look like records.
const SEEN: usize = 16;

/// Pushes the events of a part into the sink; returns where it stopped.
pub(super) fn decode_part(
    bytes: &dyn ReadAt,
    index: &Index,
    part: &Part,
    sink: &mut dyn Sink,
    complaints: &mut Complaints,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Position, Error> {
    let lane = (
        index.info.threads.get(part.lane),
        index.lanes.get(part.lane),
    );
    let (Some(thread), Some(places)) = lane else {
        return Ok(part.from);
    };
    sink.thread(thread);
    let mut window = Window::new(bytes, WINDOW);
    let mut decoder = Decoder::new(index, sink, complaints);
    let mut at = part.from;
    while let Some(&place) = places.get(at.block) {
        let stop = match &part.to {
            Some(to) if at.reaches(to) => break,
            Some(to) if to.block == at.block => to.offset,
            _ => u64::MAX,
        };
        let stopped = match index.blocks.get(place) {
            Some(block) => decoder.block(&mut window, block, &at, stop, progress)?,
            None => None,
        };
        at = stopped.unwrap_or(beginning(at.block + 1));
    }
    Ok(at)
}

/// Where a block begins, nothing before it matters.
fn beginning(block: usize) -> Position {
    Position {
        block,
        free: true,
        ..Position::default()
    }
}

/// Guesses where the lane may be divided into parts of `bytes`, or a little more.
pub(super) fn cuts(
    bytes: &dyn ReadAt,
    index: &Index,
    lane: usize,
    least: u64,
) -> Result<Vec<Position>, Error> {
    let least = least.max(1);
    let places = index.lanes.get(lane).map_or(&[][..], |places| places);
    let (mut cuts, mut gathered) = (Vec::new(), 0);
    for (nth, &place) in places.iter().enumerate() {
        let Some(block) = index.blocks.get(place) else {
            continue;
        };
        if gathered >= least {
            cuts.push(beginning(nth));
            gathered = 0;
        }
        let mut at = block.start;
        // As far as the part that the block goes on with is not whole.
        while let Some(target) = at
            .checked_add(least - gathered)
            .filter(|&at| at < block.end)
        {
            let Some(offset) = likely(bytes, index, block, target)? else {
                // There may be none at all: those of a trace without CPUs are far between.
                at = target;
                gathered = 0;
                continue;
            };
            cuts.push(Position {
                offset,
                ..beginning(nth)
            });
            (at, gathered) = (offset, 0);
        }
        gathered += block.end - at;
    }
    Ok(cuts)
}

/// Byte offset of something like a record that sets the time, near behind `from`.
fn likely(
    bytes: &dyn ReadAt,
    index: &Index,
    block: &Block,
    from: u64,
) -> Result<Option<u64>, Error> {
    // Payloads may be of any size, but those of our own recorder and writers are not.
    let step = FUNCTION_SIZE as u64;
    let from = block.start + (from - block.start).next_multiple_of(step);
    let end = block.end.min(from.saturating_add(REACH));
    let mut window = Window::new(bytes, PEEK);
    let mut at = from;
    let most = SEEN * METADATA_SIZE;
    while at < end {
        let view = window.at(at, most, block.end)?;
        let count =
            (view.len().saturating_sub(most) + FUNCTION_SIZE).next_multiple_of(FUNCTION_SIZE);
        let starts = (0..count).step_by(FUNCTION_SIZE);
        let found = starts
            .filter_map(|start| view.get(start..))
            .position(|view| looks_right(view, index, block));
        if let Some(nth) = found {
            let offset = at + nth as u64 * step;
            return Ok(Some(offset).filter(|&offset| offset < block.end));
        }
        at += count as u64;
    }
    Ok(None)
}

/// Whether these bytes may be a record that sets the time, with others behind it.
fn looks_right(mut view: &[u8], index: &Index, block: &Block) -> bool {
    let padding = match record::decode(view, index.layout) {
        Ok(record::Record::NewCpu { tsc, .. }) if may_be(tsc, block) => 11..METADATA_SIZE,
        Ok(record::Record::TscWrap { tsc }) if may_be(tsc, block) => 9..METADATA_SIZE,
        _ => return false,
    };
    if view
        .get(padding)
        .is_none_or(|padding| padding.iter().any(|&byte| byte != 0))
    {
        return false;
    }
    for _ in 0..SEEN {
        match record::decode(view, index.layout) {
            // What is behind a payload is not looked for; the block may end.
            Ok(record::Record::Custom { .. } | record::Record::Typed { .. })
            | Err(record::Bad::Short) => {
                return true;
            }
            Ok(record) => view = view.get(record.size()..).unwrap_or(&[]),
            Err(_) => return false,
        }
    }
    true
}

/// Whether the block may have that tick.
fn may_be(tick: u64, block: &Block) -> bool {
    block.tsc.is_none_or(|first| tick >= first) && block.latest.is_none_or(|latest| tick <= latest)
}
