//! The `Source` of CTF folders: ties the index to the decoder and to the listing. Holds the metadata
//! and the index, never a stream file: a file is open while its lane is decoded.

use std::ops::ControlFlow;
use std::path::Path;

use super::index::{self, Index};
use super::{decode, list};
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Record, Source};

/// A CTF folder, opened and indexed. A lane is a stream file, or several that share threads.
#[derive(Debug)]
pub struct CtfSource {
    index: Index,
}

impl CtfSource {
    /// Reads the metadata, the heads of all packets, and the facts; of another program's trace, all
    /// events.
    ///
    /// # Errors
    /// Where a file can't be read, or the metadata says what this reader does not understand: the
    /// line of it is named.
    pub fn open(folder: &Path) -> Result<CtfSource, Error> {
        let index = index::index(folder)?;
        Ok(CtfSource { index })
    }
}

impl Source for CtfSource {
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
        let files = self
            .index
            .lanes
            .get(lane)
            .map_or(&[][..], |lane| &lane.files);
        let files = files.iter().filter_map(|&file| self.index.files.get(file));
        files.map(|file| file.size).sum()
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        decode::lane(&self.index, lane, sink, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        list::records(&self.index, visit)
    }
}
