//! The `Source` of Heph files: ties the index to the decoder and to the listing. Holds the index
//! only, never the file.

use std::ops::ControlFlow;

use super::index::{self, Index};
use super::{decode, list};
use crate::bytes::ReadAt;
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Record, Source};

/// A Heph file, opened and indexed. It has one lane: the threads' packets stand among each other.
pub struct HephSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl HephSource {
    /// Reads the file once for its names, threads and clock.
    ///
    /// # Errors
    /// Where the file can't be read, or does not begin with a packet of Heph's.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<HephSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(HephSource { bytes, index })
    }
}

impl Source for HephSource {
    fn info(&self) -> &TraceInfo {
        &self.index.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.index.diagnostics
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        if lane == 0 { self.bytes.size() } else { 0 }
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        if lane > 0 {
            return Ok(());
        }
        decode::all(&*self.bytes, &self.index, sink, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}
