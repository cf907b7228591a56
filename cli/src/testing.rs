//! A trace in memory, for the unit tests of engines and checkers.

pub(crate) mod packed;
pub(crate) mod random_trace;
pub(crate) mod random_xray;

use std::ops::ControlFlow;

use fdr_formats::source::Record;
use fdr_formats::{
    Call, Diagnostic, Edge, Error, Function, FunctionId, Sink, Source, Thread, ThreadId, Ticks,
    TraceInfo,
};

/// Functions with these ids and names.
pub(crate) fn functions(named: &[(u32, &str)]) -> Vec<Function> {
    let function = |&(id, name): &(u32, &str)| Function {
        id: FunctionId(id),
        name: name.to_owned(),
        ..Function::default()
    };
    named.iter().map(function).collect()
}

/// One lane per entry.
#[derive(Default)]
pub(crate) struct MemoryTrace {
    pub(crate) info: TraceInfo,
    pub(crate) lanes: Vec<(ThreadId, Vec<Call>)>,
}

impl MemoryTrace {
    /// Threads by number, with their calls.
    pub(crate) fn new(lanes: &[(u64, &[Call])]) -> MemoryTrace {
        let lanes = lanes
            .iter()
            .map(|(id, calls)| (ThreadId(*id), calls.to_vec()))
            .collect();
        let mut trace = MemoryTrace {
            info: TraceInfo::default(),
            lanes,
        };
        for (id, _) in &trace.lanes {
            if trace.info.threads.iter().all(|thread| thread.id != *id) {
                trace.info.threads.push(Thread {
                    id: *id,
                    ..Thread::default()
                });
            }
        }
        trace
    }
}

impl Source for MemoryTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        self.lanes[lane].1.len() as u64 * 8
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let (id, calls) = &self.lanes[lane];
        let known = self
            .info
            .threads
            .iter()
            .find(|thread| thread.id == *id)
            .cloned();
        sink.thread(&known.unwrap_or(Thread {
            id: *id,
            ..Thread::default()
        }));
        // Batches of an odd size: no engine may depend on their edges.
        calls.chunks(3).for_each(|batch| sink.calls(batch));
        progress(self.lane_bytes(lane));
        Ok(())
    }

    fn records(&self, _visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}

fn call(time: u64, function: u32, edge: Edge, synthetic: bool) -> Call {
    let (time, function) = (Ticks(time), FunctionId(function));
    Call {
        time,
        function,
        edge,
        synthetic,
        has_arguments: false,
    }
}

/// An entry.
pub(crate) fn entry(time: u64, function: u32) -> Call {
    call(time, function, Edge::Entry, false)
}

/// An exit.
pub(crate) fn exit(time: u64, function: u32) -> Call {
    call(time, function, Edge::Exit, false)
}

/// An exit by a tail call.
pub(crate) fn tail_exit(time: u64, function: u32) -> Call {
    call(time, function, Edge::TailExit, false)
}

/// The same, not measured.
pub(crate) fn synthetic(call: Call) -> Call {
    Call {
        synthetic: true,
        ..call
    }
}
