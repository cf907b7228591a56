//! The lines of `fdr record` when the command has ended: what to do next, or why there is no trace.

use std::path::PathBuf;

use crate::ring::Ring;
use crate::ui;

/// What a run has left behind.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The oldest first.
    pub(super) traces: Vec<PathBuf>,
    pub(super) rings: Vec<(PathBuf, Ring)>,
    /// What switched the recorder off: `--filter ''`, `FDR=off`.
    pub(super) off: Option<String>,
    /// A signal ended the command.
    pub(super) by_signal: bool,
    /// The traces go to a stream. The recorder itself prints the lines about it.
    pub(super) streamed: bool,
}

const ENDED: &str = "a command that is killed writes no trace at its end, and leaves its ring";

/// The lines that the command prints on stderr.
pub(super) fn lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    match outcome.traces.as_slice() {
        [] => lines.extend(nothing(outcome)),
        [trace] => lines.push(format!("next: fdr report {}", ui::shell(trace))),
        [.., last] => {
            let count = ui::count(outcome.traces.len() as u64);
            lines.push(format!(
                "{count} traces; next: fdr report {}",
                ui::shell(last)
            ));
        }
    }
    for (path, ring) in &outcome.rings {
        // The ring of a running process needs no line if traces were written: the process still records.
        if outcome.traces.is_empty() || !ring.runs() {
            lines.push(match ring.runs() {
                true => format!("{} was left: {}", ui::path(path), ring.in_words()),
                false => format!(
                    "the ring of process {} was left; next: fdr dump {}",
                    ring.process,
                    ui::shell(path)
                ),
            });
        }
    }
    lines
}

/// Why there is no trace, as far as that is known.
fn nothing(outcome: &Outcome) -> Option<String> {
    if let Some(off) = &outcome.off {
        return Some(format!(
            "no trace was written: {off} switches recording off"
        ));
    }
    if outcome.streamed {
        return None;
    }
    if outcome.rings.iter().any(|(_, ring)| !ring.runs()) {
        return Some(format!("no trace was written: {ENDED}"));
    }
    if !outcome.rings.is_empty() {
        return Some("no trace was written yet".into());
    }
    if outcome.by_signal {
        return Some(format!(
            "no trace was written: {ENDED}; or it is not built with the crate fdr"
        ));
    }
    Some(
        "no trace was written: either the command is not built with the crate fdr, or the \
         recorder gave another reason above"
            .into(),
    )
}
