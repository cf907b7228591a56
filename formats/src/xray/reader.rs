//! The `Source` of XRay FDR files: it connects the index with the decoder and the listing.

use std::ops::ControlFlow;

use super::decode::Decoder;
use super::index::{self, Index};
use super::list;
use crate::bytes::{ReadAt, Window};
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Record, Source};

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
    /// If the file can't be read, or its header is no XRay header.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<XraySource, Error> {
        let index = index::index(&*bytes)?;
        Ok(XraySource { bytes, index })
    }

    /// Version of the file, 1 to 5.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.index.layout.version
    }

    /// States the original of the file, and the faults found there.
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
        let index = &self.index;
        let (Some(thread), Some(places)) = (index.info.threads.get(lane), index.lanes.get(lane))
        else {
            return Ok(());
        };
        sink.thread(thread);
        let mut window = Window::new(&*self.bytes, WINDOW);
        let mut decoder = Decoder::new(index, sink);
        for block in places.iter().filter_map(|&place| index.blocks.get(place)) {
            decoder.block(&mut window, block, progress)?;
        }
        decoder.finish();
        Ok(())
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}

/// Bytes of the file in memory. They are enough for long reads, and fewer than a second-level cache has.
const WINDOW: usize = 256 * 1024;
