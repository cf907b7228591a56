//! A ring file as a source like any other: copied into a trace once, at opening, so that what is
//! said of a process that goes on recording fits together.

use std::ops::ControlFlow;

use super::Ring;
use crate::bytes::ReadAt;
use crate::error::{Diagnostic, Error};
use crate::model::TraceInfo;
use crate::sink::Sink;
use crate::source::{Complaints, Part, Position, Record, Source};
use crate::xray::XraySource;

/// A ring file that was copied. Offsets of records are those of the copy.
pub(super) struct RingSource {
    copy: XraySource,
    info: TraceInfo,
    diagnostics: Vec<Diagnostic>,
}

impl RingSource {
    pub(super) fn open(bytes: Box<dyn ReadAt>, reason: &str) -> Result<RingSource, Error> {
        let ring = Ring::open(bytes)?;
        let (copy, mut copied) = ring.to_trace(&ring.info(reason))?;
        let mut info = copy.info().clone();
        info.format = format!("ring of process {}, as {}", ring.process(), info.format);
        let mut diagnostics = ring.diagnostics().to_vec();
        diagnostics.append(&mut copied.diagnostics);
        diagnostics.extend_from_slice(copy.diagnostics());
        Ok(RingSource {
            copy,
            info,
            diagnostics,
        })
    }
}

impl Source for RingSource {
    fn info(&self) -> &TraceInfo {
        &self.info
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
