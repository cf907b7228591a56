//! The `Source` of HTDUMP files: ties the index to the decoder and to the listing. Holds the index
//! only, never the file.

use std::ops::ControlFlow;

use super::gather::Index;
use super::{decode, index, list};
use crate::bytes::ReadAt;
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Record, Source};

/// An HTDUMP file, opened and indexed. Its threads are mixed, so it is one lane.
pub struct HtdumpSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl HtdumpSource {
    /// Reads all records once.
    ///
    /// # Errors
    /// Where the file can't be read, or does not begin as HTDUMP does.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<HtdumpSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(HtdumpSource { bytes, index })
    }
}

impl Source for HtdumpSource {
    fn info(&self) -> &TraceInfo {
        &self.index.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.index.diagnostics
    }

    fn lanes(&self) -> usize {
        1
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
        if lane == 0 {
            decode::events(&*self.bytes, &self.index, sink, progress)?;
        }
        Ok(())
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}
