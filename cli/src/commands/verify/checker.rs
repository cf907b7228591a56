//! The rules of `fdr verify` as a sink: times, balance and counts, thread by thread.

use std::collections::BTreeMap;

use fdr_formats::calls::{Exit, Rule};
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, model::Counts,
};

use super::finding::{Finding, FindingKind, FindingList};

/// What was found, and in how much.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) findings: Vec<Finding>,
    pub(super) count: u64,
    pub(super) threads: u64,
    pub(super) records: u64,
    pub(super) synthetic: u64,
    /// Records that are missing between others.
    pub(super) lost: u64,
    /// Places where a clock jumped or began anew.
    pub(super) breaks: u64,
}

impl Verdict {
    pub(super) fn add(&mut self, finding: Finding) {
        self.count += 1;
        self.findings.push(finding);
    }
}

/// One thread so far.
#[derive(Debug, Default)]
struct State {
    open: Vec<(FunctionId, u64)>,
    rule: Rule,
    /// Entries and exits so far.
    number: u64,
    last: Ticks,
    synthetic_entries: u64,
    synthetic_exits: u64,
    /// Records that are missing between others.
    lost: u64,
    /// Places where its clock jumped or began anew.
    breaks: u64,
    /// Number of the last record before records were missing: what was entered up to there may have
    /// been left where they are missing.
    gap: Option<u64>,
}

/// Checks a worker's share of the trace.
#[derive(Debug)]
pub(super) struct Checker {
    allow_open: bool,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    threads: BTreeMap<ThreadId, State>,
    current: ThreadId,
    found: FindingList,
}

impl Checker {
    /// Keeps at most `limit` findings.
    pub(super) fn new(allow_open: bool, limit: usize) -> Checker {
        Checker {
            allow_open,
            one_by_one: false,
            threads: BTreeMap::new(),
            current: ThreadId::default(),
            found: FindingList::new(limit),
        }
    }

    /// One for a source whose threads come one after the other, each once.
    pub(super) fn one_by_one(self, one_by_one: bool) -> Checker {
        Checker { one_by_one, ..self }
    }

    /// The thread at hand.
    fn state(&mut self) -> &mut State {
        self.threads.entry(self.current).or_default()
    }
}

impl Sink for Checker {
    fn thread(&mut self, thread: &Thread) {
        if self.one_by_one
            && self.current != thread.id
            && let Some(ended) = self.threads.get_mut(&self.current)
        {
            ended.finish(self.current, self.allow_open, &mut self.found);
        }
        self.current = thread.id;
        self.state();
    }

    fn calls(&mut self, calls: &[Call]) {
        let state = self.threads.entry(self.current).or_default();
        for call in calls {
            state.check(call, self.current, self.allow_open, &mut self.found);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let state = self.state();
        match *mark {
            Mark::Lost { records } => {
                state.lost = state.lost.saturating_add(records);
                state.gap = Some(state.number);
                state.rule.lost();
            }
            Mark::Break { .. } => state.breaks += 1,
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.found.push(Finding::from_diagnostic(diagnostic));
    }
}

impl State {
    /// Reports the calls that are still open, and frees the memory.
    fn finish(&mut self, thread: ThreadId, allow_open: bool, found: &mut FindingList) {
        for (entry, number) in std::mem::take(&mut self.open) {
            if !allow_open && Some(number) > self.gap {
                found.add(thread, number, FindingKind::Open { entry });
            }
        }
    }

    fn check(&mut self, call: &Call, thread: ThreadId, allow_open: bool, found: &mut FindingList) {
        self.number += 1;
        if call.time < self.last {
            let what = FindingKind::TimeBack {
                from: self.last,
                to: call.time,
            };
            found.add(thread, self.number, what);
        }
        self.last = call.time;
        let synthetic = u64::from(call.synthetic);
        if call.edge == Edge::Entry {
            self.synthetic_entries += synthetic;
            self.open.push((call.function, self.number));
            self.rule.entered(1);
        } else {
            self.synthetic_exits += synthetic;
            match self.open.last() {
                Some((function, _)) if *function == call.function => drop(self.open.pop()),
                _ => self.leave_other(call, thread, allow_open, found),
            }
        }
    }

    #[cold]
    fn leave_other(
        &mut self,
        call: &Call,
        thread: ThreadId,
        allow_open: bool,
        found: &mut FindingList,
    ) {
        let is = |(function, _): &(FunctionId, u64)| *function == call.function;
        match self.rule.outer_exit(&self.open, is) {
            Exit::Innermost => {}
            Exit::Outer(inside) => {
                let gap = self.gap;
                let unexplained = |(_, number): &(FunctionId, u64)| Some(*number) > gap;
                let depth = self.open.len() - inside;
                for (entry, number) in self.open.drain(depth..).filter(unexplained) {
                    let left = call.function;
                    found.add(thread, number, FindingKind::NoExit { entry, left });
                }
            }
            Exit::Before | Exit::Lone => {
                // If no call is open, this call may have been entered before the trace began. If no open
                // call was entered after the last gap, this call may have been entered in the gap.
                let inner = self.open.last().map(|(_, number)| *number);
                let in_gap = self.gap.is_some_and(|gap| inner <= Some(gap));
                let explained = in_gap || (allow_open && self.open.is_empty());
                if !explained {
                    let exit = call.function;
                    found.add(thread, self.number, FindingKind::NoEntry { exit });
                }
                return;
            }
        }
        self.open.pop();
    }

    /// Compares with what the recorder counted.
    fn check_counts(&self, thread: ThreadId, counts: &Counts, found: &mut FindingList) {
        let Counts {
            recorded,
            readable,
            overwritten,
            dropped,
            summarised,
            ..
        } = *counts;
        let parts = [readable, overwritten, dropped, summarised];
        let sum = parts.into_iter().try_fold(0_u64, u64::checked_add);
        if sum != Some(recorded) {
            found.add(
                thread,
                0,
                FindingKind::Sum {
                    recorded,
                    readable,
                    overwritten,
                    dropped,
                    summarised,
                },
            );
        }
        if self.lost > overwritten.saturating_add(dropped) {
            let lost = self.lost;
            found.add(
                thread,
                0,
                FindingKind::Gaps {
                    lost,
                    overwritten,
                    dropped,
                },
            );
        }
        for (what, stated, has) in [
            ("readable records", readable, self.measured()),
            (
                "synthetic entries",
                counts.synthetic_entries,
                self.synthetic_entries,
            ),
            (
                "synthetic exits",
                counts.synthetic_exits,
                self.synthetic_exits,
            ),
        ] {
            if stated != has {
                found.add(
                    thread,
                    0,
                    FindingKind::Differs {
                        what,
                        stated,
                        found: has,
                    },
                );
            }
        }
    }

    fn synthetic(&self) -> u64 {
        self.synthetic_entries + self.synthetic_exits
    }

    fn measured(&self) -> u64 {
        self.number - self.synthetic()
    }

    /// Adds another lane's part of the same thread.
    fn add(&mut self, more: &State) {
        self.number += more.number;
        self.synthetic_entries += more.synthetic_entries;
        self.synthetic_exits += more.synthetic_exits;
        self.lost = self.lost.saturating_add(more.lost);
        self.breaks += more.breaks;
    }
}

/// Ends the checkers: what is still open, the counts, and the sum of all.
pub(super) fn conclude(checkers: Vec<Checker>, threads: &[Thread], limit: usize) -> Verdict {
    let mut verdict = Verdict::default();
    let mut found = FindingList::new(limit);
    let mut seen: BTreeMap<ThreadId, State> = BTreeMap::new();
    for mut checker in checkers {
        for (id, state) in &mut checker.threads {
            state.finish(*id, checker.allow_open, &mut checker.found);
            seen.entry(*id).or_default().add(state);
        }
        found.join(checker.found);
    }
    for thread in threads {
        if let Some(counts) = &thread.counts {
            seen.entry(thread.id)
                .or_default()
                .check_counts(thread.id, counts, &mut found);
        }
    }
    verdict.count = found.count;
    verdict.findings = found.into_first();
    verdict.threads = seen.len() as u64;
    verdict.records = seen.values().map(State::measured).sum();
    verdict.synthetic = seen.values().map(State::synthetic).sum();
    verdict.breaks = seen.values().map(|state| state.breaks).sum();
    verdict.lost = seen
        .values()
        .fold(0, |sum: u64, state| sum.saturating_add(state.lost));
    verdict
}

#[cfg(test)]
#[path = "checker_tests.rs"]
pub(crate) mod tests;
