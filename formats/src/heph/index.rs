//! The index pass: what a file states about itself, and the plan that puts its calls in order. It keeps names, threads
//! and the calls that `edges` notes.

use std::io;

use super::decoder_state::{DecoderState, Epochs};
use super::record;
use super::scan::Walker;
use crate::bytes::ReadAt;
use crate::edges::{LaneCounter, Plan, Planner};
use crate::error::{Diagnostic, Error};
use crate::function_numbers::FunctionNumbers;
use crate::model::{Ticks, TraceInfo};

/// A file, indexed.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) info: TraceInfo,
    pub(super) renumbered: FunctionNumbers,
    pub(super) plan: Plan,
    /// The state with which the second pass begins.
    pub(super) epochs: Epochs,
    pub(super) ours: Option<u64>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Reads the whole file once, or twice if its epoch goes back.
pub(super) fn index(bytes: &dyn ReadAt) -> Result<Index, Error> {
    let mut head = [0; record::HEAD];
    let count = bytes.read_at(0, &mut head)?;
    if record::head(&head[..count]).is_none() {
        let what = "no Heph trace begins here: neither a metadata nor an event packet";
        return Err(Error::format(0, what));
    }
    let (mut state, mut plan) = pass(bytes, Epochs::default())?;
    let epochs = state.epochs;
    if epochs.first != epochs.base {
        (state, plan) = pass(bytes, epochs)?;
    }
    let diagnostics = std::mem::take(&mut state.diagnostics).finish();
    let ours = state.ours;
    let (mut info, renumbered) = info(state);
    if plan.may_overlap() {
        let lanes = lanes(bytes, epochs, &plan)?;
        plan.add_lanes(&lanes, &mut info.threads);
    }
    Ok(Index {
        info,
        renumbered,
        plan,
        epochs,
        ours,
        diagnostics,
    })
}

fn pass(bytes: &dyn ReadAt, epochs: Epochs) -> io::Result<(DecoderState, Plan)> {
    let mut walker = Walker::new(bytes);
    let mut state = DecoderState::new(epochs);
    let mut planner = Planner::default();
    while let Some(found) = walker.next()? {
        let step = state.unit(&found);
        for (lane, item) in [step.gap, step.item].into_iter().flatten() {
            planner.add(lane, &item);
        }
    }
    state.complete();
    Ok((state, planner.finish()))
}

/// How many lanes the calls of each thread need besides its own.
fn lanes(bytes: &dyn ReadAt, epochs: Epochs, plan: &Plan) -> Result<Vec<usize>, Error> {
    let mut walker = Walker::new(bytes);
    let mut state = DecoderState::new(epochs);
    let mut counter = LaneCounter::new(plan);
    while let Some(found) = walker.next()? {
        let step = state.unit(&found);
        for (lane, item) in [step.gap, step.item].into_iter().flatten() {
            counter.add(lane, &item)?;
        }
    }
    counter.finish()
}

fn info(state: DecoderState) -> (TraceInfo, FunctionNumbers) {
    let mut info = state.trace.unwrap_or_default();
    let epoch = state.epochs.base.map(|epoch| (Ticks(0), epoch));
    info.clock.anchor = info.clock.anchor.or(epoch);
    info.format = "Heph, version 0.1.0".into();
    let (functions, renumbered) = state.names.finish();
    info.functions = functions;
    info.threads = state.streams.threads;
    info.start = state.earliest.map(Ticks);
    (info, renumbered)
}
