//! Counts the content of a trace. This sink serves `fdr info`. In `fdr convert` it runs beside the writer, and in `fdr
//! listen` it counts the received trace.

use std::collections::BTreeMap;

use fdr_formats::notes::{self, Form, NoteKind};
use fdr_formats::{
    Call, Diagnostic, Edge, Error, Mark, Sink, Source, Thread, ThreadId, Ticks, model::Counts,
};

use crate::damage::Damage;
use crate::ui;
use crate::windows::Windows;

/// What is in a trace, or in a worker's share of it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    threads: Vec<ThreadTally>,
    by_id: BTreeMap<ThreadId, usize>,
    current: usize,
    damage: Damage,
    /// In the order of the file, at most [`MAX_DIAGNOSTICS`](crate::damage::MAX_DIAGNOSTICS). Empty until the whole trace
    /// is counted.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Those that were not kept.
    pub(crate) more_diagnostics: u64,
}

/// The counts of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadTally {
    pub(crate) thread: Thread,
    /// Entries and exits, synthetic ones too.
    pub(crate) records: u64,
    pub(crate) synthetic: u64,
    /// Entries, less exits.
    unbalanced: i64,
    /// Exits that a writer added.
    added_exits: u64,
    pub(crate) marks: Marks,
    pub(crate) first: Option<Ticks>,
    pub(crate) last: Ticks,
    /// The first and the last of its notes.
    noted: Option<(Ticks, Ticks)>,
}

impl ThreadTally {
    /// The first and the last tick of the thread's calls and notes. `None`: it has neither.
    pub(crate) fn times(&self) -> Option<(Ticks, Ticks)> {
        let calls = self.first.map(|first| (first, self.last));
        join_times(calls, self.noted)
    }
}

/// The earlier beginning and the later end of two stretches of time.
fn join_times(
    one: Option<(Ticks, Ticks)>,
    other: Option<(Ticks, Ticks)>,
) -> Option<(Ticks, Ticks)> {
    let both = [one, other].into_iter().flatten();
    both.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// The number of notes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) events: u64,
    pub(crate) counters: u64,
    /// The fields of spans.
    pub(crate) spans: u64,
    pub(crate) tasks: u64,
    pub(crate) arguments: u64,
    pub(crate) thread_states: u64,
}

impl Notes {
    /// All of them.
    pub(crate) fn count(&self) -> u64 {
        self.events + self.counters + self.spans + self.tasks + self.arguments + self.thread_states
    }

    fn add(&mut self, more: &Notes) {
        self.events += more.events;
        self.counters += more.counters;
        self.spans += more.spans;
        self.tasks += more.tasks;
        self.arguments += more.arguments;
        self.thread_states += more.thread_states;
    }

    fn see(&mut self, kind: NoteKind, body: &[u8]) {
        *match kind {
            NoteKind::Event => match notes::form_of(body) {
                Some(Form::Begin | Form::End) => &mut self.spans,
                Some(Form::Counter) => &mut self.counters,
                Some(Form::Instant) | None => &mut self.events,
            },
            NoteKind::Task => &mut self.tasks,
            NoteKind::Arguments => &mut self.arguments,
            NoteKind::ThreadState => &mut self.thread_states,
        } += 1;
    }
}

/// Everything that is no call, by its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) cpus: u64,
    pub(crate) walls: u64,
    pub(crate) arguments: u64,
    pub(crate) customs: u64,
    pub(crate) typed: u64,
    /// What the program says beside its calls.
    pub(crate) notes: Notes,
    /// Places where records are missing.
    pub(crate) gaps: u64,
    /// Records that are missing there.
    pub(crate) lost: u64,
    /// Places where the clock jumped or began anew.
    pub(crate) breaks: u64,
    /// Summaries of short calls, and changes of the threshold.
    pub(crate) summaries: u64,
    /// Calls that the summaries count.
    pub(crate) short_calls: u64,
    /// The shortest call that leaves records: the least and the largest such threshold, in ticks.
    pub(crate) thresholds: Option<(u64, u64)>,
}

impl Marks {
    /// All of them.
    pub(crate) fn count(&self) -> u64 {
        self.cpus
            + self.walls
            + self.arguments
            + self.customs
            + self.typed
            + self.notes.count()
            + self.gaps
            + self.breaks
            + self.summaries
    }

    /// 0 says that each call leaves its records again.
    fn threshold(&mut self, ticks: u64) {
        if ticks == 0 {
            return;
        }
        let (least, most) = self.thresholds.unwrap_or((ticks, ticks));
        self.thresholds = Some((least.min(ticks), most.max(ticks)));
    }

    fn add(&mut self, more: &Marks) {
        self.cpus += more.cpus;
        self.walls += more.walls;
        self.arguments += more.arguments;
        self.customs += more.customs;
        self.typed += more.typed;
        self.notes.add(&more.notes);
        self.gaps += more.gaps;
        self.breaks += more.breaks;
        self.summaries += more.summaries;
        self.short_calls = self.short_calls.saturating_add(more.short_calls);
        for threshold in more
            .thresholds
            .into_iter()
            .flat_map(|(least, most)| [least, most])
        {
            self.threshold(threshold);
        }
        self.lost = self.lost.saturating_add(more.lost);
    }
}

impl Tally {
    /// Counts all of a trace, on all cores.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(crate) fn count(source: &dyn Source) -> Result<Tally, Error> {
        let parts = ui::drive(source, Tally::default)?;
        let mut sum = Tally::default();
        for thread in &source.info().threads {
            sum.thread(thread);
        }
        for part in parts {
            sum.add(part);
        }
        sum.opened(source);
        Ok(sum)
    }

    /// From when to when the records of each thread are there; `None` without any.
    pub(crate) fn windows(&self) -> Option<Windows> {
        let seen = self.threads();
        Windows::from_threads(seen.map(|seen| (&seen.thread, seen.first, seen.last)))
    }

    /// From when to when there is anything in the trace.
    pub(crate) fn times(&self) -> Option<(Ticks, Ticks)> {
        let threads = self.threads().map(ThreadTally::times);
        threads.fold(None, join_times)
    }

    /// Adds the damage that was found when the trace was opened, and reports it.
    pub(crate) fn opened(&mut self, source: &dyn Source) {
        let found = source.diagnostics().iter().cloned();
        found.for_each(|diagnostic| self.damage.add(diagnostic));
        let damage = std::mem::take(&mut self.damage);
        (self.diagnostics, self.more_diagnostics) = damage.into_parts();
    }

    fn add(&mut self, part: Tally) {
        for seen in part.threads {
            self.thread(&seen.thread);
            let known = &mut self.threads[self.current];
            known.records += seen.records;
            known.synthetic += seen.synthetic;
            known.unbalanced += seen.unbalanced;
            known.added_exits += seen.added_exits;
            known.marks.add(&seen.marks);
            known.first = [known.first, seen.first].into_iter().flatten().min();
            known.last = known.last.max(seen.last);
            known.noted = join_times(known.noted, seen.noted);
        }
        self.damage.join(part.damage);
    }

    /// The threads, in the order of their numbers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &ThreadTally> + Clone {
        let places = self.by_id.values();
        places.filter_map(|&place| self.threads.get(place))
    }

    /// Calls and marks.
    pub(crate) fn events(&self) -> u64 {
        let events_of = |seen: &ThreadTally| seen.records + seen.marks.count();
        self.threads.iter().map(events_of).sum()
    }

    /// Entries and exits that were measured.
    pub(crate) fn records(&self) -> u64 {
        let measured_of = |seen: &ThreadTally| seen.records - seen.synthetic;
        self.threads.iter().map(measured_of).sum()
    }

    /// Entries and exits that were not.
    pub(crate) fn synthetic(&self) -> u64 {
        self.threads.iter().map(|seen| seen.synthetic).sum()
    }

    /// Whether a thread may have been in a call when the trace was written. The sign is an exit that a writer added,
    /// or a call without an exit.
    pub(crate) fn may_be_open(&self) -> bool {
        let may_be = |seen: &ThreadTally| seen.added_exits > 0 || seen.unbalanced != 0;
        self.synthetic() > 0 && self.threads.iter().any(may_be)
    }

    /// Everything that is no call.
    pub(crate) fn marks(&self) -> Marks {
        let mut sum = Marks::default();
        self.threads.iter().for_each(|seen| sum.add(&seen.marks));
        sum
    }

    /// What the recorder counted, and how many records there are of the threads that have counts.
    pub(crate) fn counts(&self) -> Option<(Counts, u64)> {
        let (mut sum, mut found, mut any) = (Counts::default(), 0, false);
        for seen in &self.threads {
            if let Some(counts) = seen.thread.counts {
                any = true;
                sum.recorded = sum.recorded.saturating_add(counts.recorded);
                sum.readable = sum.readable.saturating_add(counts.readable);
                sum.overwritten = sum.overwritten.saturating_add(counts.overwritten);
                sum.dropped = sum.dropped.saturating_add(counts.dropped);
                sum.summarised = sum.summarised.saturating_add(counts.summarised);
                found += seen.records - seen.synthetic;
            }
        }
        any.then_some((sum, found))
    }

    fn now(&mut self) -> &mut ThreadTally {
        if self.threads.is_empty() {
            self.thread(&Thread::default());
        }
        &mut self.threads[self.current]
    }
}

impl Sink for Tally {
    fn thread(&mut self, thread: &Thread) {
        let place = self.by_id.get(&thread.id).copied();
        self.current = place.unwrap_or(self.threads.len());
        match self.threads.get_mut(self.current) {
            // Sources switch often: a name is not copied without need.
            Some(seen) if seen.thread != *thread => seen.thread.clone_from(thread),
            Some(_) => {}
            None => {
                self.by_id.insert(thread.id, self.current);
                self.threads.push(ThreadTally {
                    thread: thread.clone(),
                    ..ThreadTally::default()
                });
            }
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let seen = self.now();
        // Sums of a batch stay in registers, and synthetic calls are few.
        let (mut synthetic, mut exits, mut last) = (0_u32, 0_u32, seen.last);
        for call in calls {
            synthetic += u32::from(call.synthetic);
            exits += u32::from(call.edge != Edge::Entry);
            last = last.max(call.time);
        }
        if synthetic > 0 {
            let is_added = |call: &&Call| call.synthetic && call.edge != Edge::Entry;
            seen.added_exits += calls.iter().filter(is_added).count() as u64;
        }
        seen.synthetic += u64::from(synthetic);
        seen.unbalanced += calls.len() as i64 - 2 * i64::from(exits);
        seen.last = last;
        seen.records += calls.len() as u64;
        seen.first = seen.first.or(calls.first().map(|call| call.time));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let seen = self.now();
        let marks = &mut seen.marks;
        match *mark {
            Mark::Cpu { .. } => marks.cpus += 1,
            Mark::Wall { .. } => marks.walls += 1,
            Mark::Argument { .. } => marks.arguments += 1,
            Mark::Custom { .. } => marks.customs += 1,
            Mark::Typed { .. } => marks.typed += 1,
            Mark::Note { time, kind, body } => {
                marks.notes.see(kind, body);
                seen.noted = join_times(seen.noted, Some((time, time)));
            }
            Mark::Lost { records } => {
                marks.gaps += 1;
                marks.lost = marks.lost.saturating_add(records);
            }
            Mark::Break { .. } => marks.breaks += 1,
            Mark::ShortCalls { calls, .. } => {
                marks.summaries += 1;
                marks.short_calls = marks.short_calls.saturating_add(calls);
            }
            Mark::Threshold { ticks } => {
                marks.summaries += 1;
                marks.threshold(ticks);
            }
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.damage.add(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryTrace, entry, exit, synthetic};

    #[test]
    fn threads_are_separate_and_added_up() {
        let one = [entry(5, 1), exit(9, 1)];
        let two = [synthetic(entry(3, 2)), exit(4, 2)];
        let trace = MemoryTrace::new(&[(8, &one), (7, &two), (8, &one)]);
        let tally = Tally::count(&trace).unwrap();
        let threads: Vec<_> = tally
            .threads()
            .map(|seen| (seen.thread.id.0, seen.records, seen.synthetic))
            .collect();
        assert_eq!(threads, [(7, 2, 1), (8, 4, 0)]);
        assert_eq!((tally.records(), tally.synthetic()), (5, 1));
        assert_eq!(tally.counts(), None);
    }

    #[test]
    fn ended_or_missing_exits_may_mean_open_calls() {
        let may_be_open = |calls: &[Call]| {
            let trace = MemoryTrace::new(&[(7, calls)]);
            Tally::count(&trace).unwrap().may_be_open()
        };
        let begun = synthetic(entry(1, 2));
        assert!(!may_be_open(&[begun, entry(3, 1), exit(4, 1), exit(5, 2)]));
        assert!(may_be_open(&[begun, entry(3, 1), exit(4, 1)]));
        assert!(may_be_open(&[entry(3, 1), synthetic(exit(4, 1))]));
        assert!(
            !may_be_open(&[entry(3, 1)]),
            "nothing says that it was written then"
        );
    }
}
