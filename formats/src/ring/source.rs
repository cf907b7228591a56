//! A ring file as a source like any other: copied into a trace once, at opening, so that what is
//! said of a process that goes on recording fits together.

use std::ops::ControlFlow;

use super::Ring;
use crate::bytes::{FileBytes, ReadAt};
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Complaints, Part, Position, Record, Source};
use crate::xray::XraySource;

/// A ring file that was copied. Offsets of records are those of the copy.
pub(super) struct RingSource {
    copy: XraySource,
    diagnostics: Vec<Diagnostic>,
}

impl RingSource {
    pub(super) fn open(
        bytes: Box<dyn ReadAt>,
        reason: &str,
        now: Option<u64>,
    ) -> Result<RingSource, Error> {
        let mut ring = Ring::open(bytes)?;
        ring.now = now;
        let info = ring.take_info(reason);
        let (file, mut copied) = ring.to_file(&info)?;
        // The copy has it, too.
        drop(info);
        let mut copy = XraySource::open(Box::new(FileBytes::new(file)?))?;
        let process = ring.process();
        copy.set_format(|format| format!("ring of process {process}, as {format}"));
        let mut diagnostics = ring.diagnostics;
        diagnostics.append(&mut copied.diagnostics);
        diagnostics.extend_from_slice(copy.diagnostics());
        Ok(RingSource { copy, diagnostics })
    }
}

impl Source for RingSource {
    fn info(&self) -> &TraceInfo {
        self.copy.info()
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn lanes(&self) -> usize {
        self.copy.lanes()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        self.copy.lane_bytes(lane)
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        self.copy.decode(lane, sink, progress)
    }

    fn cuts(&self, lane: usize, bytes: u64) -> Result<Vec<Position>, Error> {
        self.copy.cuts(lane, bytes)
    }

    fn decode_part(
        &self,
        part: &Part,
        sink: &mut dyn Sink,
        complaints: &mut Complaints,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Position, Error> {
        self.copy.decode_part(part, sink, complaints, progress)
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.copy.records(visit)
    }
}
