//! What `fdr verify` finds, where, and in words.

use std::collections::BinaryHeap;

use fdr_formats::{Diagnostic, FunctionId, ThreadId, Ticks};

/// Where a violation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingLocation {
    /// Byte offset in the file.
    Offset(u64),
    /// The thread's entry or exit of that number, from 1; 0: the thread as a whole.
    Record { thread: ThreadId, number: u64 },
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingKind {
    Grammar(String),
    TimeBack {
        from: Ticks,
        to: Ticks,
    },
    NoEntry {
        exit: FunctionId,
    },
    NoExit {
        entry: FunctionId,
        left: FunctionId,
    },
    Open {
        entry: FunctionId,
    },
    Sum {
        recorded: u64,
        readable: u64,
        overwritten: u64,
        dropped: u64,
        summarised: u64,
    },
    Differs {
        what: &'static str,
        stated: u64,
        found: u64,
    },
    /// A switch to the state in which the thread was.
    Twice {
        is_running: bool,
        time: Ticks,
    },
    Gaps {
        lost: u64,
        overwritten: u64,
        dropped: u64,
    },
}

impl FindingKind {
    /// For people; `name` says what a function is called.
    pub(super) fn in_words(&self, name: &dyn Fn(FunctionId) -> String) -> String {
        match self {
            FindingKind::Grammar(what) => what.clone(),
            FindingKind::TimeBack { from, to } => {
                format!(
                    "time goes back by {} ticks (from {from} to {to})",
                    from.since(*to)
                )
            }
            FindingKind::NoEntry { exit } => format!("exit of {} without its entry", name(*exit)),
            FindingKind::NoExit { entry, left } => {
                format!(
                    "entry of {} without its exit before that of {}",
                    name(*entry),
                    name(*left)
                )
            }
            FindingKind::Open { entry } => format!("entry of {} without its exit", name(*entry)),
            FindingKind::Sum {
                recorded,
                readable,
                overwritten,
                dropped,
                summarised,
            } => {
                let summarised = match summarised {
                    0 => String::new(),
                    records => format!(" + {records} summarised"),
                };
                format!(
                    "counts do not add up: {recorded} recorded, but {readable} readable + \
                     {overwritten} overwritten + {dropped} dropped{summarised}"
                )
            }
            FindingKind::Differs {
                what,
                stated,
                found,
            } => {
                format!("the trace states {stated} {what}, and has {found}")
            }
            FindingKind::Twice { is_running, time } => {
                let (what, before) = match is_running {
                    true => ("gets a CPU", "has one"),
                    false => ("leaves its CPU", "has none"),
                };
                format!("at tick {time} it {what}, and {before} already: switches are missing")
            }
            FindingKind::Gaps {
                lost,
                overwritten,
                dropped,
            } => format!(
                "{lost} records are missing in gaps, but only {overwritten} were overwritten and \
                 {dropped} dropped"
            ),
        }
    }
}

/// A violation, in the order in which they are printed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) place: FindingLocation,
    pub(super) what: FindingKind,
}

impl Finding {
    /// What a reader found.
    pub(super) fn from_diagnostic(diagnostic: Diagnostic) -> Finding {
        Finding {
            place: FindingLocation::Offset(diagnostic.offset),
            what: FindingKind::Grammar(diagnostic.what),
        }
    }
}

/// Findings: the first ones in the order in which they are printed, and the count of all.
#[derive(Debug)]
pub(super) struct FindingList {
    limit: usize,
    first: BinaryHeap<Finding>,
    pub(super) count: u64,
}

impl FindingList {
    /// Keeps at most `limit` of them.
    pub(super) fn new(limit: usize) -> FindingList {
        FindingList {
            limit,
            first: BinaryHeap::new(),
            count: 0,
        }
    }

    /// Something is wrong with a thread's record of that number.
    #[cold]
    pub(super) fn add(&mut self, thread: ThreadId, number: u64, what: FindingKind) {
        let place = FindingLocation::Record { thread, number };
        self.push(Finding { place, what });
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.count += 1;
        self.keep(finding);
    }

    fn keep(&mut self, finding: Finding) {
        if self.first.len() < self.limit {
            self.first.push(finding);
        } else if let Some(mut last) = self.first.peek_mut()
            && finding < *last
        {
            *last = finding;
        }
    }

    /// Adds others.
    pub(super) fn join(&mut self, more: FindingList) {
        self.count += more.count;
        more.first
            .into_iter()
            .for_each(|finding| self.keep(finding));
    }

    /// Those that were kept, in order.
    pub(super) fn into_first(self) -> Vec<Finding> {
        self.first.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_findings_are_kept_in_any_order() {
        let numbers = |found: FindingList| -> Vec<u64> {
            let number = |finding: Finding| match finding.place {
                FindingLocation::Record { number, .. } => number,
                FindingLocation::Offset(_) => 0,
            };
            found.into_first().into_iter().map(number).collect()
        };
        let of = |numbers: &[u64]| {
            let mut found = FindingList::new(3);
            for &number in numbers {
                let entry = FunctionId(1);
                found.add(ThreadId(1), number, FindingKind::Open { entry });
            }
            found
        };
        assert_eq!(numbers(of(&[9, 2, 7, 4, 8, 3])), [2, 3, 4]);
        let mut found = of(&[9, 2]);
        found.join(of(&[5, 9, 7, 8]));
        assert_eq!((found.count, numbers(found)), (6, vec![2, 5, 7]));
    }
}
