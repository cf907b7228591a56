//! The `Source` of ENTRACE files: ties the index to the decoders and to the listing. Holds the index
//! only, never the file.
//!
//! The threads of a file lie mixed, so it is one lane. Where the entries have no times (files of other
//! people's programs), their order stands for it: see `walk`.

use std::ops::ControlFlow;

use super::container::Kind;
use super::index::{self, Index};
use super::{list, timed, walk};
use crate::bytes::ReadAt;
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Record, Source};

/// An ENTRACE file, opened and indexed.
pub struct EntraceSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl EntraceSource {
    /// Reads the file once, for its threads, functions and clock.
    ///
    /// # Errors
    /// Where the file can't be read, or its head is none of ENTRACE's.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<EntraceSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(EntraceSource { bytes, index })
    }

    /// Version and container of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.index.layout.kind
    }
}

impl Source for EntraceSource {
    fn info(&self) -> &TraceInfo {
        &self.index.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.index.diagnostics
    }

    fn lane_bytes(&self, _: usize) -> u64 {
        self.index.layout.size
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
        if self.index.timed {
            timed::decode(&*self.bytes, &self.index, sink, progress)
        } else {
            walk::decode(&*self.bytes, &self.index, sink, progress)
        }
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&*self.bytes, &self.index, visit)
    }
}
