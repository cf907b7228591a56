//! Counts the parts of a trace that an export's format can't hold, and reports them at the end.

use fdr_formats::notes::NoteKind;
use fdr_formats::{Losses, Mark, Thread};

use super::Capabilities;
use super::facts::Facts;

/// The counts of parts that a format can't hold.
#[derive(Default)]
pub(super) struct LeftOut {
    arguments: u64,
    notes: u64,
    gaps: u64,
    pub(super) clipped: u64,
    cpus: u64,
    pub(super) untimed: u64,
    pub(super) moved: u64,
    counts: u64,
    short: u64,
}

impl LeftOut {
    /// A mark of a thread passes by.
    pub(super) fn mark(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::Note { kind, .. } if *kind == NoteKind::Arguments => self.arguments += 1,
            Mark::Note { .. } | Mark::Custom { .. } | Mark::Typed { .. } => self.notes += 1,
            Mark::Lost { .. } | Mark::Break { .. } => self.gaps += 1,
            Mark::Cpu { .. } => self.cpus += 1,
            Mark::ShortCalls { calls, .. } => self.short = self.short.saturating_add(*calls),
            Mark::Argument { .. } | Mark::Wall { .. } | Mark::Threshold { .. } => {}
        }
    }

    /// A thread with counts passes by.
    pub(super) fn thread(&mut self, thread: &Thread) {
        self.counts += u64::from(thread.counts.is_some());
    }

    /// What of it a format has no place for.
    pub(super) fn losses(&self, facts: &Facts, holds: Capabilities) -> Losses {
        let mut losses = Losses::default();
        let info = &facts.info;
        let placed = info
            .functions
            .iter()
            .filter(|function| !function.file.is_empty());
        for (is_held, what, count) in [
            (
                holds.arguments,
                "notes of arguments and results: left out",
                self.arguments,
            ),
            (
                holds.events,
                "notes and payloads (events, counters, tasks, waits): left out",
                self.notes,
            ),
            (holds.gaps, "gaps and clock breaks: left out", self.gaps),
            (
                holds.gaps,
                "counts of threads' overwritten and dropped records: left out",
                self.counts,
            ),
            (
                holds.clipped,
                "calls that were seen in part: look like others",
                self.clipped,
            ),
            (
                holds.short,
                "short calls without records: left out",
                self.short,
            ),
            (holds.cpus, "changes of CPU: left out", self.cpus),
            (
                holds.sums,
                "calls of untimed functions: as wide as the records around them, so a part of their caller's \
                 self time is theirs",
                self.untimed,
            ),
            (
                holds.sums,
                "entries and exits that seem to be before the end of what is before them: moved up to it",
                self.moved,
            ),
            (
                holds.places,
                "files and lines of functions: left out",
                placed.count() as u64,
            ),
        ] {
            if !is_held {
                losses.add(what, count);
            }
        }
        if !holds.moments {
            losses.add_moments(&info.moments);
        }
        let mut schedule = info.schedule.clone();
        if holds.states {
            schedule.switches.clear();
        }
        losses.add_schedule(&schedule);
        losses
    }
}
