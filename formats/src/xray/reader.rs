//! The `Source` of XRay FDR files: ties the index to the decoder and to the listing. Holds the
//! index only, never the file.

use std::ops::ControlFlow;

use super::index::{self, Index};
use super::{list, part};
use crate::bytes::ReadAt;
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
        part::cuts(&*self.bytes, &self.index, lane, bytes)
    }

    fn decode_part(
        &self,
        part: &Part,
        sink: &mut dyn Sink,
        complaints: &mut Complaints,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Position, Error> {
        part::decode(&*self.bytes, &self.index, part, sink, complaints, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}
