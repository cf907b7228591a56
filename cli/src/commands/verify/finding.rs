//! What `fdr verify` finds, where, and in words. Must never hold more than numbers and names' ids, so
//! that findings can be sorted and limited before anything is looked up.

use fdr_formats::{Diagnostic, FunctionId, ThreadId, Ticks};

use super::checker::MAX_DEPTH;

/// Where a violation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Where {
    /// Byte offset in the file.
    Offset(u64),
    /// The thread's entry or exit of that number, from 1; 0: the thread as a whole.
    Record { thread: ThreadId, number: u64 },
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
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
    TooDeep,
    Sum {
        recorded: u64,
        readable: u64,
        overwritten: u64,
        dropped: u64,
    },
    Differs {
        what: &'static str,
        stated: u64,
        found: u64,
    },
    Gaps {
        lost: u64,
        overwritten: u64,
        dropped: u64,
    },
}

impl What {
    /// For people; `name` says what a function is called.
    pub(super) fn in_words(&self, name: &dyn Fn(FunctionId) -> String) -> String {
        match self {
            What::Grammar(what) => what.clone(),
            What::TimeBack { from, to } => {
                format!(
                    "time goes back by {} ticks (from {from} to {to})",
                    from.since(*to)
                )
            }
            What::NoEntry { exit } => format!("exit of {} without its entry", name(*exit)),
            What::NoExit { entry, left } => {
                format!(
                    "entry of {} without its exit before that of {}",
                    name(*entry),
                    name(*left)
                )
            }
            What::Open { entry } => format!("entry of {} without its exit", name(*entry)),
            What::TooDeep => format!("more than {MAX_DEPTH} open calls: not followed from here on"),
            What::Sum {
                recorded,
                readable,
                overwritten,
                dropped,
            } => format!(
                "counts do not add up: {recorded} recorded, but {readable} readable + \
                 {overwritten} overwritten + {dropped} dropped"
            ),
            What::Differs {
                what,
                stated,
                found,
            } => {
                format!("the trace states {stated} {what}, and has {found}")
            }
            What::Gaps {
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
    pub(super) place: Where,
    pub(super) what: What,
}

impl Finding {
    /// What a reader found.
    pub(super) fn of(diagnostic: Diagnostic) -> Finding {
        Finding {
            place: Where::Offset(diagnostic.offset),
            what: What::Grammar(diagnostic.what),
        }
    }
}
