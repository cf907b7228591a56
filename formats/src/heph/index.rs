//! The index pass: what a file states about itself, and the plan that puts its calls in order. It keeps
//! names, threads and the calls that `edges` notes. It must never keep the events.

use std::io;

use super::decoder_state::{Epochs, Reading};
use super::record;
use super::scan::Walker;
use crate::bytes::ReadAt;
use crate::edges::{Plan, Planner};
use crate::error::{Diagnostic, Error};
use crate::model::{Ticks, TraceInfo};

/// A file, indexed.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) info: TraceInfo,
    pub(super) plan: Plan,
    /// What the second pass begins with.
    pub(super) epochs: Epochs,
    pub(super) ours: Option<u64>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Reads all of the file once; twice where its epoch goes back.
pub(super) fn index(bytes: &dyn ReadAt) -> Result<Index, Error> {
    let mut head = [0; record::HEAD];
    let count = bytes.read_at(0, &mut head)?;
    if record::head(&head[..count]).is_none() {
        let what = "no Heph trace begins here: neither a metadata nor an event packet";
        return Err(Error::format(0, what));
    }
    let (mut reading, mut plan) = pass(bytes, Epochs::default())?;
    let epochs = reading.epochs;
    if epochs.first != epochs.base {
        (reading, plan) = pass(bytes, epochs)?;
    }
    let diagnostics = reading.diagnostics();
    let ours = reading.ours;
    let info = info(reading);
    Ok(Index {
        info,
        plan,
        epochs,
        ours,
        diagnostics,
    })
}

fn pass(bytes: &dyn ReadAt, epochs: Epochs) -> io::Result<(Reading, Plan)> {
    let mut walker = Walker::new(bytes);
    let mut reading = Reading::new(epochs);
    let mut planner = Planner::default();
    while let Some(found) = walker.next()? {
        let step = reading.unit(&found);
        for (lane, item) in [step.gap, step.item].into_iter().flatten() {
            planner.add(lane, &item);
        }
    }
    reading.complete();
    Ok((reading, planner.finish()))
}

fn info(reading: Reading) -> TraceInfo {
    let mut info = reading.trace.unwrap_or_default();
    let epoch = reading.epochs.base.map(|epoch| (Ticks(0), epoch));
    info.clock.anchor = info.clock.anchor.or(epoch);
    info.format = "Heph, version 0.1.0".into();
    info.functions = reading.names.finish();
    info.threads = reading.streams.threads;
    info.start = reading.earliest.map(Ticks);
    info
}
